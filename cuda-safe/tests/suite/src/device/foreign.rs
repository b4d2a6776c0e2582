//! What others have made: contexts, streams, memory and events that come in with a token, and what
//! is given to others.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cuda_safe::sys::{CUcontext, CUresult, CUstream_flags};
use cuda_safe::{Context, DeviceBuffer, Driver, ErrorKind, Event, Module, Stream};

use super::MS;
use super::checks::no_drop_errors;
use test_harness::programs::{BASIC, Basic, Delay};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "foreign",
        device(context),
        device(context_dropped),
        device(contexts_do_not_mix),
        device(stream),
        device(special_streams_are_refused),
        device(memory),
        device(memory_given_away),
        device(memory_not_ours_to_give),
        device(bad_addresses),
        device(streams_given_away),
        device(events_given_away),
    ]
}

/// The driver's answer to a call of the test's own.
fn success(call: &str, answer: Result<CUresult, cuda_safe::sys::MissingSymbol>) -> TestResult {
    ensure_eq!(answer?, CUresult::CUDA_SUCCESS, "{call}");
    Ok(())
}

/// A context made by calling the driver, as another library would. Destroyed when dropped.
pub(crate) struct RawContext {
    driver: Driver,
    raw: CUcontext,
}

// SAFETY: a CUcontext may be used from any thread.
unsafe impl Send for RawContext {}
// SAFETY: as above.
unsafe impl Sync for RawContext {}

impl RawContext {
    /// A new context, current on no thread.
    pub(crate) fn new(driver: Driver) -> Result<Self, Failure> {
        let mut raw = std::ptr::null_mut();
        let device = driver.device(0)?.as_raw();
        // SAFETY: `raw` is a valid place for a handle, and the device is the driver's.
        success("cuCtxCreate", unsafe { driver.as_sys().cuCtxCreate_v2(&raw mut raw, 0, device) })?;
        let this = Self { driver, raw };
        let mut popped = std::ptr::null_mut();
        // SAFETY: pops what creating has pushed.
        success("cuCtxPopCurrent", unsafe { driver.as_sys().cuCtxPopCurrent_v2(&raw mut popped) })?;
        Ok(this)
    }

    pub(crate) fn raw(&self) -> CUcontext {
        self.raw
    }

    pub(crate) fn make_current(&self) -> TestResult {
        // SAFETY: the context is live.
        success("cuCtxSetCurrent", unsafe { self.driver.as_sys().cuCtxSetCurrent(self.raw) })
    }
}

impl Drop for RawContext {
    fn drop(&mut self) {
        // SAFETY: this owns the context, and it is destroyed once.
        let _ = unsafe { self.driver.as_sys().cuCtxDestroy_v2(self.raw) };
    }
}

/// A token that counts how many of it were dropped.
struct Token(Arc<AtomicUsize>);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn context(device: &TestDevice) -> TestResult {
    let driver = device.context().driver();
    let owner = RawContext::new(driver)?;
    let raw = owner.raw();
    let dropped = Arc::new(AtomicUsize::new(0));
    let token = (Token(dropped.clone()), owner);
    // SAFETY: the token keeps the context alive.
    let foreign = unsafe { Context::from_raw(driver, raw, token) }?;
    ensure_eq!(foreign.as_raw(), raw);
    ensure_eq!(foreign.device(), device.context().device());
    ensure!(foreign != *device.context());

    let stream = foreign.stream()?;
    let module = Module::load(&foreign, &device.image(&BASIC)?)?;
    let iota = module.kernel("iota")?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
    // SAFETY: `iota` takes (unsigned*, unsigned long long, unsigned) and writes that many words.
    unsafe { device.launch(&iota, &stream, (4, 128), (&mut buffer, 1000_u64, 1_u32)) }?;
    first_difference(&buffer.to_vec(&stream)?, &(1..1001).collect::<Vec<_>>())?;
    drop((buffer, iota, module, stream));
    no_drop_errors(&foreign)?;
    ensure_eq!(dropped.load(Ordering::SeqCst), 0);
    foreign.close()?;
    ensure_eq!(dropped.load(Ordering::SeqCst), 1);
    Ok(())
}

fn context_dropped(device: &TestDevice) -> TestResult {
    let driver = device.context().driver();
    let owner = RawContext::new(driver)?;
    let raw = owner.raw();
    let dropped = Arc::new(AtomicUsize::new(0));
    let token = (Token(dropped.clone()), owner);
    // SAFETY: the token keeps the context alive.
    let foreign = unsafe { Context::from_raw(driver, raw, token) }?;
    let stream = foreign.stream()?;
    drop(foreign);
    ensure_eq!(dropped.load(Ordering::SeqCst), 0, "the stream keeps its context");
    stream.synchronize()?;
    drop(stream);
    ensure_eq!(dropped.load(Ordering::SeqCst), 1);
    // SAFETY: null is refused before it is used.
    let refused = unsafe { Context::from_raw(driver, std::ptr::null_mut(), ()) };
    ensure!(refused.is_err());
    Ok(())
}

fn contexts_do_not_mix(device: &TestDevice) -> TestResult {
    let driver = device.context().driver();
    let owner = RawContext::new(driver)?;
    let raw = owner.raw();
    // SAFETY: the token keeps the context alive.
    let foreign = unsafe { Context::from_raw(driver, raw, owner) }?;
    {
        let (theirs, ours) = (foreign.stream()?, device.stream()?);
        let basic = Basic::of(device)?;
        let mut buffer = DeviceBuffer::<u32>::zeroed(&ours, 10)?;
        let mut their_buffer = DeviceBuffer::<u32>::zeroed(&theirs, 10)?;
        let module = device.module(&BASIC)?;
        let refused = [
            buffer.upload(&theirs, &[0; 10]),
            buffer.to_vec(&theirs).map(drop),
            buffer.copy_from(&ours, &their_buffer),
            basic.fill(&theirs, (1, 32), &mut their_buffer, 10, 1),
            basic.fill(&ours, (1, 32), &mut their_buffer, 10, 1),
            module.global::<u32>(&theirs, "counters").map(drop),
        ];
        for (index, result) in refused.iter().enumerate() {
            let kind = result.as_ref().map_err(cuda_safe::Error::kind);
            ensure!(matches!(kind, Err(ErrorKind::Invalid(_))), "{index}: {result:?}");
        }
    }
    no_drop_errors(&foreign)?;
    Ok(foreign.close()?)
}

/// A stream made by calling the driver. Destroyed when dropped.
struct RawStream {
    driver: Driver,
    raw: cuda_safe::sys::CUstream,
    dropped: Arc<AtomicUsize>,
}

// SAFETY: a CUstream may be used from any thread.
unsafe impl Send for RawStream {}
// SAFETY: as above.
unsafe impl Sync for RawStream {}

impl RawStream {
    fn new(context: &Context, dropped: &Arc<AtomicUsize>) -> Result<Self, Failure> {
        let driver = context.driver();
        let sys = driver.as_sys();
        let (mut raw, mut popped) = (std::ptr::null_mut(), std::ptr::null_mut());
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING.0;
        // SAFETY: the context is live while its handle is.
        success("cuCtxPushCurrent", unsafe { sys.cuCtxPushCurrent_v2(context.as_raw()) })?;
        // SAFETY: `raw` is a valid place for a handle, and a context is current.
        let made = success("cuStreamCreate", unsafe { sys.cuStreamCreate(&raw mut raw, flags) });
        let made = made.map(|()| Self { driver, raw, dropped: dropped.clone() });
        // SAFETY: pops what was pushed.
        success("cuCtxPopCurrent", unsafe { sys.cuCtxPopCurrent_v2(&raw mut popped) })?;
        made
    }
}

impl Drop for RawStream {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
        // SAFETY: this owns the stream, and it is destroyed once.
        let _ = unsafe { self.driver.as_sys().cuStreamDestroy_v2(self.raw) };
    }
}

fn stream(device: &TestDevice) -> TestResult {
    let (context, basic) = (device.context(), Basic::of(device)?);
    let dropped = Arc::new(AtomicUsize::new(0));
    let owner = RawStream::new(context, &dropped)?;
    let raw = owner.raw;
    // SAFETY: the token keeps the stream alive.
    let stream = unsafe { Stream::from_raw(context, raw, owner) }?;
    ensure_eq!(stream.as_raw(), raw);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    device.count(basic.iota(&stream, (1, 128), &mut buffer, 100, 0))?;
    let other = device.stream()?;
    first_difference(&buffer.to_vec(&other)?, &(0..100).collect::<Vec<_>>())?;
    let stream = match stream.into_raw() {
        Err(refused) => refused.into_inner(),
        Ok(_) => return Err(Failure::new("a stream of others is not ours to give")),
    };
    drop(stream);
    ensure_eq!(dropped.load(Ordering::SeqCst), 0, "the buffer is at home there");
    drop(buffer);
    ensure_eq!(dropped.load(Ordering::SeqCst), 1);
    Ok(())
}

fn special_streams_are_refused(device: &TestDevice) -> TestResult {
    for special in [
        std::ptr::null_mut(),
        cuda_safe::sys::CU_STREAM_LEGACY,
        cuda_safe::sys::CU_STREAM_PER_THREAD,
    ] {
        // SAFETY: refused before it is used.
        let refused = unsafe { Stream::from_raw(device.context(), special, ()) };
        let kind = refused.as_ref().map_err(cuda_safe::Error::kind);
        ensure!(matches!(kind, Err(ErrorKind::Invalid(_))), "{refused:?}");
    }
    Ok(())
}

/// Memory of others: a buffer of ours that the token holds.
fn memory(device: &TestDevice) -> TestResult {
    let (home, other) = (device.stream()?, device.stream()?);
    let (delay, basic) = (Delay::of(device)?, Basic::of(device)?);
    let dropped = Arc::new(AtomicUsize::new(0));
    let owner = DeviceBuffer::from_slice(&home, &[4_u32; 1000])?;
    let address = owner.device_ptr();
    let token = Box::new((Token(dropped.clone()), owner));
    // SAFETY: the token keeps the 1000 words alive, which are written; freeing them is ordered on
    // `home`, as the contract asks.
    let buffer = unsafe { DeviceBuffer::<u32>::from_raw(&home, address, 1000, Some(token)) }?;
    ensure_eq!(buffer.device_ptr(), address);
    ensure_eq!(buffer.to_vec(&home)?, [4; 1000]);
    let mut seen = DeviceBuffer::<u32>::zeroed(&other, 1000)?;
    device.count(delay.delayed_copy(&other, (1, 128), &buffer, &mut seen, 1000, 20 * MS))?;
    let allocation = buffer.allocation().clone();
    drop(buffer);
    ensure_eq!(dropped.load(Ordering::SeqCst), 0, "somebody holds the allocation");
    drop(allocation);
    ensure_eq!(dropped.load(Ordering::SeqCst), 1);
    // Freed behind the reader on the other stream, though the token knows nothing of it.
    let mut next = DeviceBuffer::<u32>::zeroed(&home, 1000)?;
    device.count(basic.fill(&home, (4, 256), &mut next, 1000, 9))?;
    first_difference(&seen.to_vec(&other)?, &[4; 1000])
}

fn memory_given_away(device: &TestDevice) -> TestResult {
    let (home, other) = (device.stream()?, device.stream()?);
    let delay = Delay::of(device)?;
    let mut buffer = DeviceBuffer::from_slice(&home, &[1_u32; 1000])?;
    device.count(delay.delayed_fill(&other, (1, 128), &mut buffer, 1000, 2, 20 * MS))?;
    let address = buffer.into_raw()?;
    // SAFETY: the address is that of 1000 words, and nobody else frees them.
    let buffer = unsafe { DeviceBuffer::<u32>::from_raw(&home, address, 1000, None) }?;
    // Giving it away has ordered `home` behind the write on the other stream.
    first_difference(&buffer.to_vec(&home)?, &[2; 1000])
}

fn memory_not_ours_to_give(device: &TestDevice) -> TestResult {
    let home = device.stream()?;
    let owner = DeviceBuffer::from_slice(&home, &[1_u8; 10])?;
    let address = owner.device_ptr();
    // SAFETY: the token is the owner.
    let borrowed =
        unsafe { DeviceBuffer::<u8>::from_raw(&home, address, 10, Some(Box::new(owner))) }?;
    let borrowed = match borrowed.into_raw() {
        Err(refused) => refused.into_inner(),
        Ok(_) => return Err(Failure::new("borrowed memory was given away")),
    };
    ensure_eq!(borrowed.to_vec(&home)?, [1; 10]);

    let buffer = DeviceBuffer::from_slice(&home, &[2_u8; 10])?;
    let held = buffer.allocation().clone();
    let buffer = match buffer.into_raw() {
        Err(refused) => refused.into_inner(),
        Ok(_) => return Err(Failure::new("given away though somebody holds the allocation")),
    };
    drop(held);
    ensure_eq!(buffer.to_vec(&home)?, [2; 10]);
    Ok(())
}

fn bad_addresses(device: &TestDevice) -> TestResult {
    let home = device.stream()?;
    for (address, len) in [(0, 1), (4, 1), (u64::MAX - 7, 2), (8, usize::MAX)] {
        // SAFETY: refused before it is used.
        let refused = unsafe {
            DeviceBuffer::<MaybeUninit<u64>>::from_raw(&home, address, len, Some(Box::new(())))
        };
        let kind = refused.as_ref().map_err(cuda_safe::Error::kind);
        ensure!(matches!(kind, Err(ErrorKind::Invalid(_))), "{address:#x}: {refused:?}");
    }
    Ok(())
}

fn streams_given_away(device: &TestDevice) -> TestResult {
    // A context of its own: what is given away retains its context for ever.
    let driver = device.context().driver();
    let owner = RawContext::new(driver)?;
    // SAFETY: `owner` outlives the process's use of the context below.
    let context = unsafe { Context::from_raw(driver, owner.raw(), ()) }?;
    let stream = context.stream()?;
    let second = stream.clone();
    let stream = match stream.into_raw() {
        Err(refused) => refused.into_inner(),
        Ok(_) => return Err(Failure::new("given away though there is another handle")),
    };
    drop(second);
    let raw = stream.into_raw()?;
    // SAFETY: the stream is live, and nobody else's.
    success("cuStreamSynchronize", unsafe { driver.as_sys().cuStreamSynchronize(raw) })?;
    // SAFETY: as above; it is not used again.
    success("cuStreamDestroy", unsafe { driver.as_sys().cuStreamDestroy_v2(raw) })
}

fn events_given_away(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let event = Event::timing(device.context())?;
    event.record(&stream)?;
    let raw = event.into_raw();
    // SAFETY: an event of this context, made with timing, that nobody else destroys.
    let event = unsafe { Event::from_raw(device.context(), raw, true) };
    ensure_eq!(event.as_raw(), raw);
    event.synchronize()?;
    ensure!(event.elapsed_ms(&event)? == 0.0);
    Ok(())
}
