//! Contexts: primary and created ones, and which is current on a thread.

use core::ffi::{c_int, c_uint, c_ulonglong};
use std::collections::{HashMap, HashSet};

use cuda_sys::{
    CUcontext, CUctxCreateParams, CUdevice, CUevent, CUexecAffinityParam, CUfunc_cache, CUlimit,
    CUresult, CUsharedconfig,
};

use super::call::{Answer, functions, process, put, put_if_wanted};
use super::objects::{Context, Limits, Stream, handle, number};
use super::process::{Locked, Process, State};
use super::stream::GREATEST_PRIORITY;
use super::stream::work::Work;
use super::thread;

const DEVICE_LIMIT: u32 = 0xff;

impl State {
    /// Returns the context that is current on this thread.
    pub(super) fn current(&self) -> Answer<u64> {
        match thread::top() {
            0 => Err(CUresult::CUDA_ERROR_INVALID_CONTEXT),
            context => match self.objects.contexts.get(context) {
                Ok(known) if known.active => Ok(context),
                _ => Err(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED),
            },
        }
    }

    /// Returns the current context, or the context that the caller names.
    fn current_or(&self, context: CUcontext) -> Answer<u64> {
        if context.is_null() {
            return self.current();
        }
        let context = number(context);
        match self.objects.contexts.get(context)? {
            known if known.active => Ok(context),
            _ => Err(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED),
        }
    }

    /// Returns the context that is current, and its device.
    pub(super) fn current_device(&self) -> Answer<(u64, u32)> {
        let context = self.current()?;
        Ok((context, self.objects.contexts.get(context)?.device))
    }

    /// Makes a context with its NULL stream.
    fn make_context(&mut self, process: &Process, device: u32, flags: u32, primary: bool) -> u64 {
        let id = self.objects.fresh_id();
        let limits = Limits {
            stack: process.config.stack as usize,
            printf: 1 << 20,
            heap: process.config.heap as usize,
            persisting_l2: 0,
            fetch: 64,
        };
        let context = self.objects.contexts.insert(Context {
            device,
            flags,
            id,
            version: 4010,
            primary,
            active: true,
            legacy: 0,
            per_thread: HashMap::new(),
            orphans: Vec::new(),
            barriers: Vec::new(),
            limits,
            heap: None,
            peers: HashSet::new(),
            cache: 0,
        });
        self.add_legacy(context);
        context
    }

    fn add_legacy(&mut self, context: u64) {
        let mut stream = Stream::new(context, self.objects.fresh_id(), 0, 0);
        stream.legacy = true;
        let legacy = self.objects.streams.insert(stream);
        if let Ok(context) = self.objects.contexts.get_mut(context) {
            context.legacy = legacy;
            context.per_thread.clear();
        }
    }

    /// Takes everything away that lives in a context.
    fn empty_context(&mut self, process: &Process, context: u64) {
        let objects = &mut self.objects;
        if process.config.checks.leak {
            objects.report_leaks(context);
        }
        objects.streams.retain(|_, stream| stream.context != context);
        objects.events.retain(|_, event| event.context != context);
        objects.functions.retain(|_, function| function.context != context);
        objects.modules.retain(|_, module| module.context != context);
        objects.libraries.retain(|_, library| {
            library.modules.remove(&context);
            true
        });
        objects.allocations.retain(|&start, allocation| {
            // Memory of pools belongs to the device.
            let goes = allocation.context == context && allocation.pool == 0;
            if goes {
                process.space.free(start);
            }
            !goes
        });
        // After a fault, kernels may still use it. Then it stays mapped, and no call can open it again.
        let used = self.engine.is_running();
        objects.opened.retain(|opened| opened.context != context || used);
        if let Ok(context) = objects.contexts.get_mut(context) {
            if let Some(heap) = context.heap.take() {
                heap.clear(&process.space);
            }
            context.peers.clear();
        }
        process.images.forget(context, process.space.objects());
    }
}

impl Process {
    /// Waits for a context's work, unless the device is lost, when there is none. The memory that it has opened is
    /// unmapped afterwards: then it waits for all work.
    pub(super) fn drain<'a>(&'a self, state: Locked<'a>, context: u64) -> Locked<'a> {
        let pending = state.engine.pending(Some(context));
        let waited = self.wait_for(state, &pending);
        let waited = waited.and_then(|state| {
            let opened = state.objects.opened.iter().any(|it| it.context == context);
            if opened { self.wait_for_all(state) } else { Ok(state) }
        });
        waited.unwrap_or_else(|_| self.lock())
    }
}

/// Makes a context and makes it current.
///
/// # Safety
/// `context` is null or valid for the write.
unsafe fn create(context: *mut CUcontext, flags: c_uint, device: CUdevice) -> Answer {
    let process = process()?;
    process.usable()?;
    let (ordinal, _) = process.device(device)?;
    if flags > DEVICE_LIMIT || (flags & 7).count_ones() > 1 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if context.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let new = process.lock().make_context(process, ordinal, flags, false);
    if let Err(code) = thread::push(new) {
        let mut state = process.lock();
        state.empty_context(process, new);
        state.objects.contexts.remove(new)?;
        return Err(code);
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { put(context, handle(new)) }
}

fn destroy(context: CUcontext) -> Answer {
    let process = process()?;
    let context = number(context);
    let state = process.lock();
    if state.objects.contexts.get(context)?.primary {
        return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
    }
    let mut state = process.drain(state, context);
    state.empty_context(process, context);
    let gone = state.objects.contexts.remove(context)?;
    drop(state);
    drop(gone);
    if thread::top() == context {
        thread::pop()?;
    }
    process.usable()
}

fn release(device: CUdevice) -> Answer {
    let process = process()?;
    let (ordinal, _) = process.device(device)?;
    let mut state = process.lock();
    let Some(primary) = state.objects.primaries.get_mut(ordinal as usize) else {
        return Err(CUresult::CUDA_ERROR_INVALID_DEVICE);
    };
    primary.count = primary.count.checked_sub(1).ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
    let (left, context) = (primary.count, primary.context);
    if left == 0 {
        let mut state = process.drain(state, context);
        deactivate(process, &mut state, context);
    }
    Ok(())
}

/// Takes everything out of a primary context and puts it to sleep.
fn deactivate(process: &Process, state: &mut State, context: u64) {
    state.empty_context(process, context);
    if let Ok(context) = state.objects.contexts.get_mut(context) {
        context.active = false;
    }
}

fn reset(device: CUdevice) -> Answer {
    let process = process()?;
    let (ordinal, _) = process.device(device)?;
    let state = process.lock();
    let Some(primary) = state.objects.primaries.get(ordinal as usize).copied() else {
        return Err(CUresult::CUDA_ERROR_INVALID_DEVICE);
    };
    if primary.context == 0 {
        return Ok(());
    }
    let mut state = process.drain(state, primary.context);
    deactivate(process, &mut state, primary.context);
    Ok(())
}

fn set_flags(device: CUdevice, flags: c_uint) -> Answer {
    let process = process()?;
    let (ordinal, _) = process.device(device)?;
    if flags > DEVICE_LIMIT || (flags & 7).count_ones() > 1 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let mut state = process.lock();
    let State { objects, .. } = &mut *state;
    if let Some(primary) = objects.primaries.get_mut(ordinal as usize) {
        primary.flags = flags;
        if let Ok(context) = objects.contexts.get_mut(primary.context) {
            context.flags = flags;
        }
    }
    Ok(())
}

fn push(context: CUcontext) -> Answer {
    let process = process()?;
    process.lock().objects.contexts.get(number(context))?;
    thread::push(number(context))
}

/// # Safety
/// `context` is null or valid for the write.
unsafe fn pop(context: *mut CUcontext) -> Answer {
    let popped = match thread::pop()? {
        0 => return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT),
        popped => popped,
    };
    // SAFETY: the caller's promise.
    unsafe { put_if_wanted(context, handle(popped)) };
    Ok(())
}

functions! {
    Device fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) {
        let process = process()?;
        let (ordinal, _) = process.device(device)?;
        let mut state = process.lock();
        let mut primary = *state
            .objects
            .primaries
            .get(ordinal as usize)
            .ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?;
        if primary.context == 0 {
            primary.context = state.make_context(process, ordinal, primary.flags, true);
        } else if !state.objects.contexts.get(primary.context)?.active {
            // The handle is the same as before, the context another one: an id names one context
            // for the life of the process.
            let id = state.objects.fresh_id();
            let context = state.objects.contexts.get_mut(primary.context)?;
            (context.active, context.id) = (true, id);
            state.add_legacy(primary.context);
        }
        put(context, handle(primary.context))?;
        primary.count += 1;
        state.objects.primaries[ordinal as usize] = primary;
        Ok(())
    }
    Init fn cuDevicePrimaryCtxRelease(device: CUdevice) { release(device) }
    Init fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) { release(device) }
    Init fn cuDevicePrimaryCtxReset(device: CUdevice) { reset(device) }
    Init fn cuDevicePrimaryCtxReset_v2(device: CUdevice) { reset(device) }
    Init fn cuDevicePrimaryCtxSetFlags(device: CUdevice, flags: c_uint) { set_flags(device, flags) }
    Init fn cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: c_uint) {
        set_flags(device, flags)
    }
    Init fn cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, active: *mut c_int) {
        let process = process()?;
        let (ordinal, _) = process.device(device)?;
        let state = process.lock();
        let primary = state.objects.primaries.get(ordinal as usize).copied().unwrap_or_default();
        let awake = state.objects.contexts.get(primary.context).is_ok_and(|known| known.active);
        put(flags, primary.flags)?;
        put(active, c_int::from(awake))
    }

    Init fn cuCtxCreate_v2(context: *mut CUcontext, flags: c_uint, device: CUdevice) {
        create(context, flags, device)
    }
    Init fn cuCtxCreate_v3(
        context: *mut CUcontext, affinity: *mut CUexecAffinityParam, count: c_int, flags: c_uint,
        device: CUdevice
    ) {
        if !affinity.is_null() || count != 0 {
            return Err(CUresult::CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
        }
        create(context, flags, device)
    }
    Init fn cuCtxCreate_v4(
        context: *mut CUcontext, params: *mut CUctxCreateParams, flags: c_uint, device: CUdevice
    ) {
        if !params.is_null() {
            let params = params.read();
            if params.numExecAffinityParams != 0 || !params.cigParams.is_null() {
                return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
            }
        }
        create(context, flags, device)
    }
    Init fn cuCtxDestroy(context: CUcontext) { destroy(context) }
    Init fn cuCtxDestroy_v2(context: CUcontext) { destroy(context) }
    Init fn cuCtxPushCurrent(context: CUcontext) { push(context) }
    Init fn cuCtxPushCurrent_v2(context: CUcontext) { push(context) }
    Init fn cuCtxPopCurrent(context: *mut CUcontext) { pop(context) }
    Init fn cuCtxPopCurrent_v2(context: *mut CUcontext) { pop(context) }
    Init fn cuCtxGetCurrent(context: *mut CUcontext) { put(context, handle(thread::top())) }
    Init fn cuCtxSetCurrent(context: CUcontext) {
        if !context.is_null() {
            process()?.lock().objects.contexts.get(number(context))?;
        }
        thread::pop()?;
        if context.is_null() { Ok(()) } else { thread::push(number(context)) }
    }
    Init fn cuCtxGetDevice(device: *mut CUdevice) {
        put(device, process()?.lock().current_device()?.1 as CUdevice)
    }
    Init fn cuCtxGetDevice_v2(device: *mut CUdevice, context: CUcontext) {
        let state = process()?.lock();
        let context = state.current_or(context)?;
        put(device, state.objects.contexts.get(context)?.device as CUdevice)
    }
    Init fn cuCtxGetFlags(flags: *mut c_uint) {
        let state = process()?.lock();
        put(flags, state.objects.contexts.get(state.current()?)?.flags)
    }
    Init fn cuCtxSetFlags(flags: c_uint) {
        if flags > DEVICE_LIMIT || (flags & 7).count_ones() > 1 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let mut state = process()?.lock();
        let current = state.current()?;
        state.objects.contexts.get_mut(current)?.flags = flags;
        Ok(())
    }
    Init fn cuCtxGetId(context: CUcontext, id: *mut c_ulonglong) {
        let state = process()?.lock();
        let context = state.current_or(context)?;
        put(id, state.objects.contexts.get(context)?.id)
    }
    Init fn cuCtxGetApiVersion(context: CUcontext, version: *mut c_uint) {
        let state = process()?.lock();
        let context = state.current_or(context)?;
        put(version, state.objects.contexts.get(context)?.version)
    }
    Init fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        process()?.lock().current()?;
        put_if_wanted(least, 0);
        put_if_wanted(greatest, GREATEST_PRIORITY);
        Ok(())
    }
    Device fn cuCtxSynchronize() {
        let process = process()?;
        let state = process.lock();
        let current = state.current()?;
        synchronize(process, state, current)
    }
    Device fn cuCtxSynchronize_v2(context: CUcontext) {
        let process = process()?;
        let state = process.lock();
        let context = state.current_or(context)?;
        synchronize(process, state, context)
    }
    Device fn cuCtxRecordEvent(context: CUcontext, event: CUevent) {
        let process = process()?;
        let mut state = process.lock();
        let context = state.current_or(context)?;
        if state.objects.events.get(number(event))?.context != context {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        state.no_capture_in(context)?;
        let pending = state.engine.pending(Some(context));
        let legacy = state.objects.contexts.get(context)?.legacy;
        let marker = Work::Record(number(event));
        let record = state.engine.insert(context, legacy, marker, &pending, None);
        let event = state.objects.events.get_mut(number(event))?;
        (event.record, event.time, event.captured) = (record, None, None);
        if event.is_interprocess() {
            return process.wait_for(state, &[record]).map(drop);
        }
        process.kick();
        Ok(())
    }
    Device fn cuCtxWaitEvent(context: CUcontext, event: CUevent) {
        let mut state = process()?.lock();
        let context = state.current_or(context)?;
        let known = state.objects.events.get(number(event))?;
        let (record, captured) = (known.record, known.captured.is_some());
        state.no_capture_in(context)?;
        if captured {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        let State { objects, engine } = &mut *state;
        let barriers = &mut objects.contexts.get_mut(context)?.barriers;
        barriers.retain(|&barrier| engine.is_pending(barrier));
        if engine.is_pending(record) {
            barriers.push(record);
        }
        Ok(())
    }
    Device fn cuCtxSetLimit(limit: CUlimit, value: usize) {
        let process = process()?;
        let mut state = process.lock();
        let context = state.current()?;
        let context = state.objects.contexts.get_mut(context)?;
        let limits = &mut context.limits;
        match limit {
            CUlimit::CU_LIMIT_STACK_SIZE if value <= 512 << 10 => limits.stack = value.next_multiple_of(16),
            CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE => limits.printf = value,
            CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE => {
                // A heap that kernels have used keeps its size.
                if context.heap.is_some() && value != limits.heap {
                    return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
                }
                limits.heap = value;
            }
            CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE => limits.persisting_l2 = value,
            CUlimit::CU_LIMIT_MAX_L2_FETCH_GRANULARITY => limits.fetch = value.min(128),
            CUlimit::CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH
            | CUlimit::CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT => {
                return Err(CUresult::CUDA_ERROR_UNSUPPORTED_LIMIT);
            }
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
        Ok(())
    }
    Device fn cuCtxGetLimit(value: *mut usize, limit: CUlimit) {
        let state = process()?.lock();
        let limits = state.objects.contexts.get(state.current()?)?.limits;
        put(value, match limit {
            CUlimit::CU_LIMIT_STACK_SIZE => limits.stack,
            CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE => limits.printf,
            CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE => limits.heap,
            CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE => limits.persisting_l2,
            CUlimit::CU_LIMIT_MAX_L2_FETCH_GRANULARITY => limits.fetch,
            CUlimit::CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH
            | CUlimit::CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT => {
                return Err(CUresult::CUDA_ERROR_UNSUPPORTED_LIMIT);
            }
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        })
    }
    Device fn cuCtxGetCacheConfig(config: *mut CUfunc_cache) {
        let state = process()?.lock();
        put(config, CUfunc_cache(state.objects.contexts.get(state.current()?)?.cache))
    }
    Device fn cuCtxSetCacheConfig(config: CUfunc_cache) {
        let mut state = process()?.lock();
        let current = state.current()?;
        state.objects.contexts.get_mut(current)?.cache = preference(config)?;
        Ok(())
    }
    Device fn cuCtxGetSharedMemConfig(config: *mut CUsharedconfig) {
        process()?.lock().current()?;
        put(config, CUsharedconfig::CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE)
    }
    Device fn cuCtxSetSharedMemConfig(_config: CUsharedconfig) {
        process()?.lock().current().map(drop)
    }
    Device fn cuCtxResetPersistingL2Cache() { process()?.lock().current().map(drop) }
}

/// Checks a preference between shared memory and cache. The device has no cache.
pub(super) fn preference(config: CUfunc_cache) -> Answer<u32> {
    match config.0 {
        known @ 0..=3 => Ok(known),
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

fn synchronize(process: &Process, mut state: Locked<'_>, context: u64) -> Answer {
    state.forbidden_in_capture()?;
    state.no_capture_in(context)?;
    let pending = state.engine.pending(Some(context));
    process.wait_for(state, &pending).map(drop)
}
