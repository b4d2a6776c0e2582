//! Whatever context is current on the calling thread: every kind of call succeeds, does what it should,
//! and leaves the current context alone. With two devices; where there is one only, without the third
//! of the contexts.

use std::sync::mpsc;

use cuda_safe::sys::{CUcontext, CUresult};
use cuda_safe::{
    Context, DeviceBuffer, Event, LaunchConfig, Module, PinnedBuffer, PitchedLayout, Stream,
    UnifiedBuffer,
};

use test_harness::programs::Basic;
use test_harness::{
    Case, Failure, Open, TestResult, count_launches, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    [
        Case::process("fault::current::every_kind_of_call", every_kind_of_call),
        Case::process("fault::current::destroyed_by_its_owner", destroyed_by_its_owner),
    ]
    .map(|case| case.variables(&[("CUDA_EMU_DEVICES", "2")]))
    .to_vec()
}

/// A device, and what the calls need of it.
struct Side {
    context: Context,
    stream: Stream,
    other: Stream,
    basic: Basic,
}

impl Side {
    fn new(context: Context) -> Result<Self, Failure> {
        let (stream, other) = (context.stream()?, context.stream()?);
        let basic = Basic::load(&context)?;
        Ok(Self { context, stream, other, basic })
    }

    fn buffer(&self, value: u32) -> Result<DeviceBuffer<u32>, Failure> {
        let mut buffer = DeviceBuffer::<u32>::zeroed(&self.stream, N)?;
        count_launches(1);
        self.basic.fill(&self.stream, SHAPE, &mut buffer, N as u64, value)?;
        Ok(buffer)
    }

    /// Compares with what a kernel reads, which writes to memory that the host sees: no copy, so that
    /// a kind of call is not blamed for another.
    fn holds(&self, buffer: &DeviceBuffer<u32>, wanted: &[u32]) -> TestResult {
        let mut seen = UnifiedBuffer::<u32>::pinned(&self.stream, wanted.len())?;
        count_launches(1);
        self.basic.copy(&self.stream, SHAPE, buffer, &mut seen, wanted.len() as u64)?;
        first_difference(&seen.host()?, wanted)
    }

    fn make_current(&self, context: CUcontext) -> TestResult {
        // SAFETY: null, or a context that is alive.
        let code = unsafe { self.context.driver().as_sys().cuCtxSetCurrent(context) }?;
        ensure_eq!(code, CUresult::CUDA_SUCCESS);
        Ok(())
    }

    fn current(&self) -> Result<CUcontext, Failure> {
        let mut current = std::ptr::null_mut();
        // SAFETY: `current` is a valid place for a handle.
        let code = unsafe { self.context.driver().as_sys().cuCtxGetCurrent(&raw mut current) }?;
        ensure_eq!(code, CUresult::CUDA_SUCCESS);
        Ok(current)
    }
}

const N: usize = 1024; // 4 KiB
const SHAPE: (u32, u32) = (4, 256);

/// More than what one thread copies alone, and not a whole number of the blocks that it goes through.
const LARGE: usize = (9 << 20) / 4 + 7;

type Kind = fn(near: &Side, far: &Side) -> TestResult;

const KINDS: [(&str, Kind); 22] = [
    ("launch", launch),
    ("memset", memset),
    ("allocate and free", allocate_and_free),
    ("record and wait for an event", events),
    ("record and launch a graph", graph),
    ("upload", upload),
    ("download", download),
    ("copy on the device", copy),
    ("staged large copies", large),
    ("pinned upload", pinned_upload),
    ("pinned download", pinned_download),
    ("shaped copies", shaped),
    ("peer copies", peer),
    ("memory that the host sees", unified),
    ("write and read a global", global),
    ("host function", host_function),
    ("load a module and launch", load),
    ("cooperative launch", cooperative),
    ("wait for streams and marks", waits),
    ("synchronise", synchronise),
    ("graph of peer copies", graph_of_peers),
    ("graph of two contexts", graph_of_two),
];

fn every_kind_of_call(open: Open) -> TestResult {
    let driver = open()?;
    let sides: Vec<Side> = driver
        .devices()
        .take(2)
        .map(|device| Side::new(device.context()?))
        .collect::<Result<_, _>>()?;
    if sides.len() < 2 {
        eprintln!("one device: no context of another one is made current");
    }
    for (near, far) in [(0, 1), (1, 0)] {
        let Some(near) = sides.get(near) else { continue };
        let other = sides.get(far);
        // A peer copy within one device is an ordinary one.
        let far = other.unwrap_or(near);
        let mut contexts = vec![("none", std::ptr::null_mut()), ("its own", near.context.as_raw())];
        contexts.extend(other.map(|other| ("the other device's", other.context.as_raw())));
        for (name, current) in contexts {
            for (what, kind) in KINDS {
                let device = near.context.device().ordinal();
                let at = |failure: &dyn std::fmt::Display| {
                    Failure::new(format!("device {device}, current: {name}: {what}: {failure}"))
                };
                near.make_current(current)?;
                kind(near, far).map_err(|failure| at(&failure))?;
                if near.current()? != current {
                    return Err(at(&"it has changed the current context"));
                }
            }
        }
        near.make_current(std::ptr::null_mut())?;
    }
    for side in sides {
        side.context.synchronize()?;
        let errors = side.context.take_drop_errors();
        ensure!(errors.is_empty(), "{errors:?}");
    }
    Ok(())
}

fn launch(near: &Side, _: &Side) -> TestResult {
    near.holds(&near.buffer(7)?, &[7; N])
}

fn memset(near: &Side, _: &Side) -> TestResult {
    let mut buffer = near.buffer(1)?;
    buffer.as_slice_mut().fill(&near.stream, 0x0102_0304)?;
    near.holds(&buffer, &[0x0102_0304; N])?;
    // A pattern that the driver has no memset for is uploaded, and copied on.
    let mut triples = DeviceBuffer::<[u32; 3]>::zeroed(&near.stream, 10_000)?;
    triples.as_slice_mut().fill(&near.stream, [1, 2, 3])?;
    near.holds(&triples.cast()?, &[[1, 2, 3]; 10_000].concat())
}

fn allocate_and_free(near: &Side, _: &Side) -> TestResult {
    let held = near.buffer(3)?;
    for round in 0..3 {
        let buffer = near.buffer(round)?;
        near.holds(&buffer, &[round; N])?;
        buffer.close()?;
    }
    near.context.trim_pool(0)?;
    near.holds(&held, &[3; N])
}

fn events(near: &Side, _: &Side) -> TestResult {
    let event = Event::new(&near.context)?;
    let mut buffer = near.buffer(1)?;
    count_launches(1);
    near.basic.add(&near.stream, SHAPE, &mut buffer, N as u64, 4)?;
    event.record(&near.stream)?;
    near.other.wait_event(&event)?;
    // On another stream: ordered by an event of the crate's, too.
    count_launches(1);
    near.basic.add(&near.other, SHAPE, &mut buffer, N as u64, 10)?;
    event.synchronize()?;
    ensure!(event.is_done()?);
    near.other.synchronize()?;
    near.holds(&buffer, &[15; N])?;
    event.close()?;
    Ok(())
}

/// Copies and memsets are nodes of the graph; it runs under each of the contexts.
fn graph(near: &Side, far: &Side) -> TestResult {
    let recorded_under = near.current()?;
    let source: Vec<u32> = (0..N as u32).collect();
    let state = (near.buffer(1)?, near.buffer(2)?);
    let layout = PitchedLayout::compact((16, 64));
    let mut graph = near.context.capture(state, |stream, (data, out)| {
        data.upload(stream, &source)?;
        let mut scratch = DeviceBuffer::<u32>::zeroed(stream, N)?;
        scratch.as_slice_mut().fill(stream, 0x0101_0102)?;
        scratch.slice_mut(..N / 2)?.copy_from(stream, data.slice(..N / 2)?)?;
        near.basic.add(stream, SHAPE, &mut scratch, N as u64, 1)?;
        out.copy_from(stream, &scratch)?;
        // The first quarter of each row.
        out.as_slice_mut().copy_3d_from(stream, layout, &*data, layout, (4, 64))
    })?;
    let mut wanted: Vec<u32> = source
        .iter()
        .map(|word| if *word < N as u32 / 2 { word + 1 } else { 0x0101_0103 })
        .collect();
    for row in 0..64 {
        wanted[row * 16..row * 16 + 4].copy_from_slice(&source[row * 16..row * 16 + 4]);
    }
    for current in
        [recorded_under, std::ptr::null_mut(), near.context.as_raw(), far.context.as_raw()]
    {
        near.make_current(current)?;
        graph.state_mut().1.as_slice_mut().fill(&near.stream, 9)?;
        count_launches(1);
        graph.launch(&near.stream)?;
        near.holds(&graph.state().1, &wanted)?;
        ensure!(near.current()? == current, "launching has changed the current context");
    }
    near.make_current(recorded_under)?;
    graph.close()?;
    Ok(())
}

fn upload(near: &Side, _: &Side) -> TestResult {
    let words: Vec<u32> = (5..5 + N as u32).collect();
    near.holds(&DeviceBuffer::from_slice(&near.stream, &words)?, &words)
}

fn download(near: &Side, _: &Side) -> TestResult {
    let buffer = near.buffer(11)?;
    first_difference(&buffer.to_vec(&near.stream)?, &[11; N])?;
    first_difference(&buffer.to_vec(&near.other)?, &[11; N])
}

fn copy(near: &Side, _: &Side) -> TestResult {
    let (source, mut target) = (near.buffer(12)?, near.buffer(0)?);
    target.copy_from(&near.stream, &source)?;
    near.holds(&target, &[12; N])?;
    near.holds(&source.try_clone(&near.other)?, &[12; N])
}

fn large(near: &Side, _: &Side) -> TestResult {
    let words: Vec<u32> = (0..LARGE as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
    let threads = near.context.copy_threads();
    for threads in [1, 4] {
        near.context.set_copy_threads(threads);
        let buffer = DeviceBuffer::from_slice(&near.stream, &words)?;
        first_difference(&buffer.to_vec(&near.stream)?, &words)?;
    }
    near.context.set_copy_threads(threads);
    Ok(())
}

fn pinned_upload(near: &Side, _: &Side) -> TestResult {
    let source = PinnedBuffer::from_slice(&near.context, &[13; N])?;
    let mut buffer = near.buffer(0)?;
    let transfer = buffer.upload_pinned(&near.stream, source)?;
    near.holds(&buffer, &[13; N])?;
    transfer.close()?;
    Ok(())
}

fn pinned_download(near: &Side, _: &Side) -> TestResult {
    let target = PinnedBuffer::<u32>::zeroed(&near.context, N)?;
    let target = near.buffer(14)?.as_slice().download_pinned(&near.stream, target)?.wait()?;
    first_difference(&target, &[14; N])
}

fn shaped(near: &Side, _: &Side) -> TestResult {
    let (extent, wide) = ((8, 32), PitchedLayout::compact((32, 32)));
    let source: Vec<u32> = (0..N as u32).collect();
    let part = |base: u32| {
        let mut wanted = vec![base; N];
        for row in 0..32 {
            wanted[row * 32..row * 32 + 8].copy_from_slice(&source[row * 32..row * 32 + 8]);
        }
        wanted
    };
    let (mut one, mut two) = (near.buffer(1)?, near.buffer(2)?);
    one.as_slice_mut().upload_3d(&near.stream, wide, &source, wide, extent)?;
    near.holds(&one, &part(1))?;
    two.as_slice_mut().copy_3d_from(&near.stream, wide, &one, wide, extent)?;
    near.holds(&two, &part(2))?;
    let mut target = vec![3; N];
    two.as_slice().download_3d(&near.stream, wide, &mut target, wide, extent)?;
    first_difference(&target, &part(3))
}

fn peer(near: &Side, far: &Side) -> TestResult {
    for stream in [&near.stream, &far.stream] {
        let (source, mut target) = (far.buffer(15)?, near.buffer(0)?);
        target.as_slice_mut().copy_from_peer(stream, &source)?;
        near.holds(&target, &[15; N])?;
        let mut back = far.buffer(0)?;
        back.as_slice_mut().copy_from_peer(stream, &target)?;
        far.holds(&back, &[15; N])?;
    }
    Ok(())
}

fn unified(near: &Side, _: &Side) -> TestResult {
    let pinned = UnifiedBuffer::<u32>::pinned(&near.stream, N)?;
    let managed = UnifiedBuffer::<u32>::managed(&near.stream, N)?;
    managed.prefetch_to_device(&near.stream)?;
    for mut seen in [pinned, managed] {
        seen.host_mut()?.fill(4);
        count_launches(1);
        near.basic.add(&near.stream, SHAPE, &mut seen, N as u64, 12)?;
        first_difference(&seen.host()?, &[16; N])?;
        // A copy between the two kinds of memory.
        let mut buffer = near.buffer(0)?;
        buffer.copy_from(&near.stream, &seen)?;
        near.holds(&buffer, &[16; N])?;
    }
    let registered = UnifiedBuffer::register(&near.stream, vec![17; N])?;
    first_difference(&registered.into_vec()?, &[17; N])
}

/// A variable, and a kernel that sets one word.
const PTX: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .global .align 4 .b8 words[64];
.visible .entry set(.param .u64 out, .param .u32 value)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [out];
	ld.param.u32 %r1, [value];
	cvta.to.global.u64 %rd2, %rd1;
	st.global.u32 [%rd2], %r1;
	ret;
}
";

fn global(near: &Side, _: &Side) -> TestResult {
    let module = Module::from_ptx(&near.context, PTX)?;
    let words = module.global::<u32>(&near.stream, "words")?;
    let wanted: Vec<u32> = (18..34).collect();
    words.write(&near.stream, &wanted)?;
    first_difference(&words.read(&near.stream)?, &wanted)?;
    drop(words);
    module.close()?;
    Ok(())
}

fn host_function(near: &Side, _: &Side) -> TestResult {
    let (sender, receiver) = mpsc::channel();
    near.stream.host_function(move || {
        // Nobody has hung up: the receiver is below.
        let _ = sender.send(19);
    })?;
    near.stream.synchronize()?;
    ensure_eq!(receiver.recv(), Ok(19));
    Ok(())
}

fn load(near: &Side, _: &Side) -> TestResult {
    let kernel = Module::from_ptx(&near.context, PTX)?.kernel("set")?;
    let mut buffer = near.buffer(1)?;
    count_launches(1);
    // SAFETY: the kernel writes one word of the buffer.
    unsafe { kernel.launch(&near.stream, LaunchConfig::new(1, 1), (&mut buffer, 20_u32)) }?;
    let mut wanted = vec![1; N];
    wanted[0] = 20;
    near.holds(&buffer, &wanted)?;
    kernel.close()?;
    Ok(())
}

fn cooperative(near: &Side, _: &Side) -> TestResult {
    let mut buffer = near.buffer(1)?;
    count_launches(1);
    let shape = LaunchConfig::new(SHAPE.0, SHAPE.1).cooperative();
    near.basic.add(&near.stream, shape, &mut buffer, N as u64, 20)?;
    near.holds(&buffer, &[21; N])
}

fn waits(near: &Side, far: &Side) -> TestResult {
    let mut buffer = near.buffer(1)?;
    near.other.wait_stream(&near.stream)?;
    far.stream.wait_stream(&near.other)?;
    let mark = far.stream.mark()?;
    near.stream.wait_mark(&mark)?;
    count_launches(1);
    near.basic.add(&near.stream, SHAPE, &mut buffer, N as u64, 21)?;
    near.stream.mark()?.synchronize()?;
    near.holds(&buffer, &[22; N])
}

fn synchronise(near: &Side, far: &Side) -> TestResult {
    let buffer = near.buffer(23)?;
    near.stream.synchronize()?;
    ensure!(near.stream.is_done()?);
    near.context.synchronize()?;
    far.context.synchronize()?;
    near.context.free_deferred()?;
    near.context.check_alive()?;
    ensure!(near.context.memory_info()?.free > 0);
    near.holds(&buffer, &[23; N])
}

fn graph_of_peers(near: &Side, far: &Side) -> TestResult {
    let state = (far.buffer(24)?, near.buffer(0)?, far.buffer(0)?);
    let mut graph = near.context.capture(state, |stream, (source, target, back)| {
        target.as_slice_mut().copy_from_peer(stream, &*source)?;
        count_launches(1);
        near.basic.add(stream, SHAPE, &mut *target, N as u64, 1)?;
        back.as_slice_mut().copy_from_peer(stream, &*target)
    })?;
    graph.launch(&near.other)?;
    near.holds(&graph.state().1, &[25; N])?;
    far.holds(&graph.state().2, &[25; N])
}

fn graph_of_two(near: &Side, far: &Side) -> TestResult {
    if near.context == far.context {
        return Ok(());
    }
    let state = (near.buffer(0)?, far.buffer(0)?);
    let both = [&near.context, &far.context];
    let mut graph = Context::capture_on(&both, state, |streams, (one, two)| {
        count_launches(2);
        near.basic.add(&streams[0], SHAPE, &mut *one, N as u64, 26)?;
        far.basic.add(&streams[1], SHAPE, &mut *two, N as u64, 1)?;
        two.as_slice_mut().fill(&streams[1], 9)?;
        two.slice_mut(..N / 2)?.copy_from_peer(&streams[0], one.slice(..N / 2)?)?;
        two.slice_mut(..1)?.upload(&streams[1], &[8])?;
        one.slice_mut(N / 2..)?.copy_from_peer(&streams[1], two.slice(N / 2..)?)
    })?;
    graph.launch(&near.stream)?;
    let mut wanted = [[26; N / 2], [9; N / 2]].concat();
    near.holds(&graph.state().0, &wanted)?;
    wanted[0] = 8;
    far.holds(&graph.state().1, &wanted)?;
    graph.close()?;
    Ok(())
}

/// A context that is current on a thread may have been destroyed by its owner: not ours, so nothing of
/// ours is harmed.
fn destroyed_by_its_owner(open: Open) -> TestResult {
    let driver = open()?;
    let (device, sys) = (driver.device(0)?, driver.as_sys());
    if !device.name()?.contains("(software)") {
        eprintln!("what a driver does with a destroyed context is not defined");
        return Ok(());
    }
    let near = Side::new(device.context()?)?;
    let mut created = std::ptr::null_mut();
    // SAFETY: `created` is a valid place for a handle, and the device is the driver's.
    ensure_eq!(unsafe { sys.cuCtxCreate_v2(&raw mut created, 0, 0) }?, CUresult::CUDA_SUCCESS);
    near.make_current(created)?;
    // SAFETY: the context is alive.
    let foreign = unsafe { Context::from_raw(driver, created, ()) }?;
    let address = created.addr();
    std::thread::scope(|scope| {
        let destroy = move || {
            let created = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: created above, and used below only to see that the software device refuses it.
            unsafe { sys.cuCtxDestroy_v2(created) }
        };
        created.expose_provenance();
        scope.spawn(destroy).join().map_err(|_| Failure::new("panicked"))
    })??;
    upload(&near, &near)?;
    download(&near, &near)?;
    shaped(&near, &near)?;
    ensure!(near.current()? == created, "it is what was current");
    // A call in the destroyed context fails alone.
    for result in
        [foreign.stream().map(drop), foreign.synchronize(), foreign.memory_info().map(drop)]
    {
        let error = super::error_of("a destroyed context", result)?;
        ensure_eq!(error.code(), Some(CUresult::CUDA_ERROR_INVALID_CONTEXT), "{error}");
        ensure!(!error.is_fatal() && !error.is_asynchronous(), "{error}");
        ensure!(error.hint().is_some_and(|hint| hint.contains("is unharmed")), "{error}");
    }
    near.context.check_alive()?;
    ensure_eq!(device.context()?, near.context);
    // All others too, but for the one that makes contexts current itself.
    for (what, kind) in KINDS.into_iter().filter(|(what, _)| !what.contains("graph")) {
        kind(&near, &near).map_err(|failure| Failure::new(format!("{what}: {failure}")))?;
    }
    Ok(())
}
