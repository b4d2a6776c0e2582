//! Streams: making them, waiting for them, host functions.

pub(super) mod engine;
pub(super) mod event;
pub(super) mod interleaving;
pub(super) mod work;

use core::ffi::{c_int, c_uint, c_ulonglong, c_void};

use cuda_sys::{
    CU_STREAM_PER_THREAD, CUcontext, CUdevice, CUdeviceptr, CUevent, CUgreenCtx, CUhostFn,
    CUresult, CUstream, CUstreamAttrID, CUstreamAttrValue, CUstreamCallback,
    CUsynchronizationPolicy,
};

use super::call::{Answer, functions, is_per_thread, process, put};
use super::objects::{Stream, handle, number};
use super::process::{Process, State};
use work::{UserData, Work};

/// The most important priority; 0 is the least.
pub(super) const GREATEST_PRIORITY: c_int = -5;

impl Stream {
    pub(super) fn new(context: u64, id: u64, flags: c_uint, priority: c_int) -> Self {
        Self {
            context,
            flags,
            priority,
            id,
            legacy: false,
            tail: 0,
            capture: None,
            policy: 1,
            told: Vec::new(),
        }
    }
}

impl State {
    /// Returns the stream that a handle means: NULL and the legacy handle are the current context's NULL
    /// stream, the per-thread handle is the calling thread's.
    pub(super) fn stream(&mut self, stream: CUstream) -> Answer<u64> {
        match number(stream) {
            0 if is_per_thread() => self.stream(CU_STREAM_PER_THREAD),
            0 | 1 => Ok(self.objects.contexts.get(self.current()?)?.legacy),
            2 => {
                let context = self.current()?;
                let thread = super::thread::number();
                let known = self.objects.contexts.get(context)?.per_thread.get(&thread);
                if let Some(&known) = known {
                    return Ok(known);
                }
                let new = Stream::new(context, self.objects.fresh_id(), 0, 0);
                let new = self.objects.streams.insert(new);
                self.objects.contexts.get_mut(context)?.per_thread.insert(thread, new);
                Ok(new)
            }
            stream => self.objects.streams.get(stream).map(|_| stream),
        }
    }

    /// Returns whether the handle is one of the special ones, which need a current context.
    pub(super) fn is_special(stream: CUstream) -> bool {
        number(stream) <= 2
    }
}

/// # Safety
/// `stream` is null or valid for the write.
unsafe fn create(stream: *mut CUstream, flags: c_uint, priority: c_int) -> Answer {
    let process = process()?;
    let mut state = process.lock();
    let context = state.current()?;
    if flags > 1 || stream.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let priority = priority.clamp(GREATEST_PRIORITY, 0);
    let new = Stream::new(context, state.objects.fresh_id(), flags, priority);
    let new = state.objects.streams.insert(new);
    // SAFETY: not null, and the caller's promise.
    unsafe { put(stream, handle(new)) }
}

fn destroy(stream: CUstream) -> Answer {
    let process = process()?;
    let mut state = process.lock();
    if State::is_special(stream) {
        return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    let stream = number(stream);
    state.objects.streams.get(stream)?;
    state.abandon_capture(stream);
    let this = state.objects.streams.get(stream)?;
    // The next work of the NULL stream waits for the work of this one, too.
    let (context, tail, blocking) = (this.context, this.tail, this.blocking());
    let State { objects, engine } = &mut *state;
    if blocking && engine.is_pending(tail) {
        let orphans = &mut objects.contexts.get_mut(context)?.orphans;
        orphans.retain(|&orphan| engine.is_pending(orphan));
        orphans.push(tail);
    }
    state.objects.streams.remove(stream)?;
    process.kick();
    Ok(())
}

/// Enqueues work on the stream of a handle, or captures it.
pub(super) fn submit(process: &Process, stream: CUstream, work: Work) -> Answer<u64> {
    let mut state = process.lock();
    let stream = state.stream(stream)?;
    let number = state.submit(stream, work, 0)?;
    process.kick();
    Ok(number)
}

/// Work that a stream has to have done for it to be idle.
fn unfinished(state: &State, stream: u64) -> Answer<Vec<u64>> {
    let this = state.objects.streams.get(stream)?;
    if this.legacy { state.before(stream) } else { Ok(vec![this.tail]) }
}

functions! {
    Device fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) { create(stream, flags, 0) }
    Device fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int) {
        create(stream, flags, priority)
    }
    Device fn cuStreamDestroy(stream: CUstream) { destroy(stream) }
    Device fn cuStreamDestroy_v2(stream: CUstream) { destroy(stream) }
    Device fn cuStreamSynchronize(stream: CUstream) {
        let process = process()?;
        let mut state = process.lock();
        let stream = state.stream(stream)?;
        state.forbidden_on_capturing(stream)?;
        let pending = unfinished(&state, stream)?;
        process.wait_for(state, &pending).map(drop)
    }
    Device fn cuStreamQuery(stream: CUstream) {
        let process = process()?;
        let mut state = process.lock();
        let stream = state.stream(stream)?;
        state.forbidden_on_capturing(stream)?;
        let pending = unfinished(&state, stream)?;
        if process.is_done(state, &pending)? {
            process.flush();
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_NOT_READY)
        }
    }
    Device fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) {
        if flags > 1 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let process = process()?;
        let mut state = process.lock();
        let stream = state.stream(stream)?;
        let event = number(event);
        state.wait_event(stream, event, flags == 1)?;
        process.kick();
        Ok(())
    }
    Device fn cuStreamGetPriority(stream: CUstream, priority: *mut c_int) {
        let mut state = process()?.lock();
        let stream = state.stream(stream)?;
        put(priority, state.objects.streams.get(stream)?.priority)
    }
    Device fn cuStreamGetFlags(stream: CUstream, flags: *mut c_uint) {
        let mut state = process()?.lock();
        let stream = state.stream(stream)?;
        put(flags, state.objects.streams.get(stream)?.flags)
    }
    Device fn cuStreamGetId(stream: CUstream, id: *mut c_ulonglong) {
        let mut state = process()?.lock();
        let stream = state.stream(stream)?;
        put(id, state.objects.streams.get(stream)?.id)
    }
    Device fn cuStreamGetCtx(stream: CUstream, context: *mut CUcontext) {
        let mut state = process()?.lock();
        let stream = state.stream(stream)?;
        state.capture_in_order(stream)?;
        put(context, handle(state.objects.streams.get(stream)?.context))
    }
    Device fn cuStreamGetCtx_v2(
        stream: CUstream, context: *mut CUcontext, green: *mut CUgreenCtx
    ) {
        let mut state = process()?.lock();
        let stream = state.stream(stream)?;
        state.capture_in_order(stream)?;
        put(context, handle(state.objects.streams.get(stream)?.context))?;
        put(green, core::ptr::null_mut())
    }
    Device fn cuStreamGetDevice(stream: CUstream, device: *mut CUdevice) {
        let mut state = process()?.lock();
        let stream = state.stream(stream)?;
        let context = state.objects.streams.get(stream)?.context;
        put(device, state.objects.contexts.get(context)?.device as CUdevice)
    }
    Device fn cuStreamCopyAttributes(to: CUstream, from: CUstream) {
        let mut state = process()?.lock();
        let (to, from) = (state.stream(to)?, state.stream(from)?);
        let policy = state.objects.streams.get(from)?.policy;
        state.objects.streams.get_mut(to)?.policy = policy;
        Ok(())
    }
    Device fn cuStreamGetAttribute(
        stream: CUstream, which: CUstreamAttrID, value: *mut CUstreamAttrValue
    ) {
        let mut state = process()?.lock();
        let stream = state.stream(stream)?;
        let this = state.objects.streams.get(stream)?;
        let mut all = CUstreamAttrValue::default();
        match which {
            CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY => {
                all.syncPolicy = CUsynchronizationPolicy(this.policy);
            }
            CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_PRIORITY => all.priority = this.priority,
            CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
            | CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
            | CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP => {}
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
        put(value, all)
    }
    Device fn cuStreamSetAttribute(
        stream: CUstream, which: CUstreamAttrID, value: *const CUstreamAttrValue
    ) {
        if value.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let mut state = process()?.lock();
        let stream = state.stream(stream)?;
        let this = state.objects.streams.get_mut(stream)?;
        match which {
            CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY => {
                this.policy = (*value).syncPolicy.0;
            }
            CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_PRIORITY => {
                this.priority = (*value).priority.clamp(GREATEST_PRIORITY, 0);
            }
            // Hints about caches, which this device does not have.
            CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
            | CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
            | CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP => {}
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
        Ok(())
    }
    Device fn cuStreamAttachMemAsync(
        stream: CUstream, address: CUdeviceptr, _length: usize, _flags: c_uint
    ) {
        let process = process()?;
        let region = process.space.find(address).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        if region.kind != crate::space::Kind::Managed {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        submit(process, stream, Work::Nothing).map(drop)
    }
    Device fn cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void) {
        let function = function.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        submit(process()?, stream, Work::Host(function, UserData(data))).map(drop)
    }
    Device fn cuLaunchHostFunc_v2(
        stream: CUstream, function: CUhostFn, data: *mut c_void, _mode: c_uint
    ) {
        let function = function.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        submit(process()?, stream, Work::Host(function, UserData(data))).map(drop)
    }
    Device fn cuStreamAddCallback(
        stream: CUstream, callback: CUstreamCallback, data: *mut c_void, flags: c_uint
    ) {
        let callback = callback.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let process = process()?;
        let mut state = process.lock();
        let known = state.stream(stream)?;
        // Callbacks cannot be captured.
        state.forbidden_on_capturing(known)?;
        state.submit(known, Work::Callback(callback, UserData(data)), 0)?;
        process.kick();
        Ok(())
    }
}
