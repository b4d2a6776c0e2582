//! How many driver calls and heap allocations an operation costs.

use std::mem::MaybeUninit;

use cuda_safe::sys::CUresult;
use cuda_safe::{DeviceBuffer, Event, LaunchConfig, Module, PinnedBuffer, PitchedLayout, kernels};
use test_support::meter::allocations;

use test_harness::lab::Lab;
use test_harness::{Case, Failure, TestResult, cases, ensure, ensure_eq};

/// What comes before each copy in a stream's order: while a context of another device is current, the
/// driver refuses copies of memory of a pool. Only then is ours pushed and popped.
const ASKED: &str = "cuCtxGetCurrent";

pub(super) fn cases() -> Vec<Case> {
    cases![
        "counts",
        host(launch_at_home),
        host(launch_without_blocks),
        host(lent_streams),
        host(allocate_and_free),
        host(events),
        host(small_uploads),
        host(copies_under_another_context),
        host(globals),
        host(large_upload),
        host(downloads),
        host(pinned_transfers),
        host(boxes),
        host(fills),
        host(second_stream),
        host(what_the_host_has_seen_is_not_waited_for),
        host(context_once),
    ]
}

fn launch_at_home() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let saxpy = lab.kernel("saxpy")?;
    let x = DeviceBuffer::<f32>::zeroed(&stream, 1000)?;
    let y = DeviceBuffer::<f32>::zeroed(&stream, 1000)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 1000)?;
    let launch = LaunchConfig::cover(1000, 128);
    // The first launch compares the arguments' types.
    // SAFETY: nothing runs on this driver.
    unsafe { saxpy.launch(&stream, launch, (2.0f32, &x, &y, &mut out, 1000u64)) }?;
    lab.recorder.take();
    let before = allocations();
    for _ in 0..10 {
        // SAFETY: as above.
        unsafe { saxpy.launch(&stream, launch, (2.0f32, &x, &y, &mut out, 1000u64)) }?;
    }
    ensure_eq!(allocations() - before, 0, "heap allocations of 10 launches");
    ensure_eq!(lab.recorder.names(), ["cuLaunchKernel"; 10]);

    // Parts of a buffer cost no more, once their ranges are known.
    let part = x.slice(100..200)?;
    // SAFETY: as above.
    unsafe { saxpy.launch(&stream, launch, (2.0f32, part, &y, out.slice_mut(7..9)?, 1u64)) }?;
    lab.recorder.take();
    let before = allocations();
    // SAFETY: as above.
    unsafe { saxpy.launch(&stream, launch, (2.0f32, part, &y, out.slice_mut(7..9)?, 1u64)) }?;
    ensure_eq!(allocations() - before, 0);
    ensure_eq!(lab.recorder.names(), ["cuLaunchKernel"]);
    drop((x, y, out, saxpy, stream));
    lab.close()
}

/// A call of an operator: two queries besides the launch, and nothing on the heap.
fn lent_streams() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let saxpy = lab.kernel("saxpy")?;
    let launch = LaunchConfig::cover(1000, 128);
    let call = || {
        // SAFETY: nothing runs on this driver.
        unsafe {
            lab.context.lend(stream.as_raw(), |lent| {
                let x = lent.slice_from_raw::<f32>(1 << 20, 1000)?;
                let y = lent.slice_from_raw::<f32>(1 << 21, 1000)?;
                let out = lent.slice_from_raw_mut::<f32>(1 << 22, 1000)?;
                saxpy.launch(lent, launch, (2.0f32, x, y, out, 1000u64))
            })
        }
    };
    call()?;
    lab.recorder.take();
    let before = allocations();
    for _ in 0..10 {
        call()?;
    }
    ensure_eq!(allocations() - before, 0, "heap allocations of 10 calls");
    let each = ["cuStreamIsCapturing", "cuStreamGetId", "cuLaunchKernel"];
    ensure_eq!(lab.recorder.names(), [each; 10].concat());
    drop((stream, saxpy));
    lab.close()
}

fn launch_without_blocks() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let nothing = lab.kernel("nothing")?;
    for launch in [
        LaunchConfig::cover(0, 128),
        LaunchConfig::cover_3d([7, 0, 1], [1, 1, 1]),
        LaunchConfig::cover(0, 1).dynamic_shared_bytes(64).cooperative(),
    ] {
        // SAFETY: nothing runs on this driver.
        let (calls, ()) = lab.calls(|| unsafe { nothing.launch(&stream, launch, ()) })?;
        ensure!(calls.is_empty(), "{launch}: {calls:?}");
    }
    Ok(())
}

fn allocate_and_free() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let (calls, buffer) = lab.calls(|| DeviceBuffer::<MaybeUninit<u64>>::uninit(&stream, 100))?;
    ensure_eq!(calls, ["cuMemAllocFromPoolAsync"]);
    let (calls, ()) = lab.calls(|| {
        drop(buffer);
        Ok(())
    })?;
    ensure_eq!(calls, ["cuMemFreeAsync"]);

    // No elements, no memory.
    let (calls, ()) = lab.calls(|| {
        let mut empty = DeviceBuffer::<u64>::zeroed(&stream, 0)?;
        empty.upload(&stream, &[])?;
        empty.as_slice_mut().fill(&stream, 1)?;
        empty.to_vec(&stream).map(drop)
    })?;
    ensure!(calls.is_empty(), "{calls:?}");
    drop(stream);
    lab.close()
}

fn events() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let (start, end) = (Event::timing(&lab.context)?, Event::timing(&lab.context)?);
    let (calls, ()) = lab.calls(|| start.record(&stream))?;
    ensure_eq!(calls, ["cuEventRecord"]);
    end.record(&stream)?;
    let (calls, _) = lab.calls(|| end.is_done())?;
    ensure_eq!(calls, ["cuEventQuery"]);
    let (calls, _) = lab.calls(|| start.elapsed_ms(&end))?;
    let times = calls.iter().filter(|call| call.starts_with("cuEventElapsedTime")).count();
    ensure_eq!(times, 1, "{calls:?}");
    let (calls, ()) = lab.calls(|| stream.wait_event(&end))?;
    ensure_eq!(calls, ["cuStreamWaitEvent"]);
    let (calls, ()) = lab.calls(|| {
        drop(end);
        Ok(())
    })?;
    ensure_eq!(calls, ["cuEventDestroy_v2"]);
    drop((start, stream));
    lab.close()
}

fn small_uploads() -> TestResult {
    const BYTES: usize = 4096;
    const UPLOADS: usize = 4096;
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let source = vec![7u8; BYTES];
    let mut buffer = DeviceBuffer::<u8>::zeroed(&stream, BYTES)?;
    buffer.upload(&stream, &source)?;

    // The block that the first upload has made holds many: each of them is one call.
    lab.recorder.take();
    let before = allocations();
    buffer.upload(&stream, &source)?;
    ensure_eq!(allocations() - before, 0);
    ensure_eq!(lab.recorder.names(), [ASKED, "cuMemcpyHtoDAsync_v2"]);

    for _ in 0..UPLOADS {
        buffer.upload(&stream, &source)?;
    }
    let calls = lab.recorder.names();
    let copies = calls.iter().filter(|name| **name == "cuMemcpyHtoDAsync_v2").count();
    ensure_eq!(copies, UPLOADS);
    ensure_eq!(calls.iter().filter(|name| **name == ASKED).count(), UPLOADS);
    let others = calls.len() - 2 * copies;
    ensure!(others * 50 < UPLOADS, "{others} other calls in {UPLOADS} uploads");
    ensure!(calls.contains(&"cuEventRecord"), "a block in use must be marked");
    drop((buffer, stream));
    lab.close()
}

/// The driver of these tests gives each variable 256 bytes.
const TABLE: usize = 64;

kernels! {
    struct Globals;
    // SAFETY: nothing runs on this driver.
    unsafe in "" {
        safe fn reads();
        safe fn nothing();
        #[name = "ns::table"]
        global table: [f32; TABLE];
    }
}

/// A write of a global is the copy alone: the variable was found when the module was loaded. Launches of kernels that reach
/// no variable cost no more than in a module without any.
fn globals() -> TestResult {
    const PTX: &str = "
        .version 8.0
        .target sm_75
        .address_size 64
        .const .align 4 .b8 _ZN2ns5tableE[256];
        .visible .entry reads() { .reg .f32 %f; ld.const.f32 %f, [_ZN2ns5tableE]; ret; }
        .visible .entry nothing() { ret; }
    ";
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let module = Module::from_ptx(&lab.context, PTX)?;
    // SAFETY: nothing runs on this driver.
    let kernels = unsafe { Globals::from_module(&module) }?;
    let values = [1.0; TABLE];
    kernels.table(&stream)?.write(&stream, &values)?;
    kernels.nothing(&stream, (1, 1))?;
    kernels.reads(&stream, (1, 1))?;

    let (calls, ()) = lab.calls(|| kernels.table(&stream)?.write(&stream, &values))?;
    ensure_eq!(calls, [ASKED, "cuMemcpyHtoDAsync_v2"]);
    let (calls, ()) = lab.calls(|| kernels.reads(&stream, (1, 1)))?;
    ensure_eq!(calls, ["cuLaunchKernel"]);
    lab.recorder.take();
    let before = allocations();
    for _ in 0..10 {
        kernels.nothing(&stream, (1, 1))?;
    }
    ensure_eq!(allocations() - before, 0, "heap allocations of 10 launches");
    ensure_eq!(lab.recorder.names(), ["cuLaunchKernel"; 10]);
    drop((kernels, module, stream));
    lab.close()
}

/// With this context current a copy costs no more; with another one, a push and a pop.
fn copies_under_another_context() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let mut buffer = DeviceBuffer::<u8>::zeroed(&stream, 100)?;
    buffer.upload(&stream, &[1; 100])?;
    let sys = lab.context.driver().as_sys();
    let copy = [ASKED, "cuMemcpyHtoDAsync_v2"];
    let bound = [ASKED, "cuCtxPushCurrent_v2", "cuMemcpyHtoDAsync_v2", "cuCtxPopCurrent_v2"];
    let other = std::ptr::without_provenance_mut(0x7000);
    for (current, wanted) in [(lab.context.as_raw(), &copy[..]), (other, &bound[..])] {
        // SAFETY: the driver of these tests keeps the handle and does not use it.
        let code = unsafe { sys.cuCtxPushCurrent_v2(current) }?;
        ensure_eq!(code, CUresult::CUDA_SUCCESS);
        let (calls, ()) = lab.calls(|| buffer.upload(&stream, &[2; 100]))?;
        ensure_eq!(calls, wanted);
        let mut popped = std::ptr::null_mut();
        // SAFETY: `popped` is a valid place for a handle.
        let code = unsafe { sys.cuCtxPopCurrent_v2(&raw mut popped) }?;
        ensure_eq!((code, popped), (CUresult::CUDA_SUCCESS, current));
    }
    drop((buffer, stream));
    lab.close()
}

fn large_upload() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let source = vec![1u8; 7 << 20];
    let mut buffer = DeviceBuffer::<u8>::zeroed(&stream, source.len())?;
    buffer.upload(&stream, &source)?;
    lab.recorder.take();
    buffer.upload(&stream, &source)?;
    let calls = lab.recorder.take();
    let copied: u64 = calls
        .iter()
        .filter(|call| call.name == "cuMemcpyHtoDAsync_v2")
        .map(|call| call.args[2])
        .sum();
    ensure_eq!(copied, source.len() as u64);
    let never = |name: &str| calls.iter().all(|call| call.name != name);
    ensure!(never("cuMemHostRegister_v2"), "the ring's blocks are used again");
    ensure!(never("cuStreamSynchronize") && never("cuCtxSynchronize"));
    drop((buffer, stream));
    lab.close()
}

fn downloads() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let buffer = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
    let mut target = vec![1; 1000];
    buffer.download(&stream, &mut target)?;
    ensure!(target.iter().all(|word| *word == 0), "the driver's zeros were copied");
    let (calls, ()) = lab.calls(|| buffer.download(&stream, &mut target))?;
    ensure_eq!(calls, [ASKED, "cuMemcpyDtoHAsync_v2", "cuEventRecord", "cuEventSynchronize"]);
    let before = allocations();
    buffer.download(&stream, &mut target)?;
    ensure!(allocations() - before <= 1, "at most the list of what is in flight");
    drop((buffer, stream));
    lab.close()
}

fn pinned_transfers() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
    let source = PinnedBuffer::from_slice(&lab.context, &[5; 1000])?;
    lab.recorder.take();
    let transfer = buffer.as_slice_mut().upload_pinned(&stream, source)?;
    let calls = lab.recorder.names();
    let own: Vec<_> = calls.iter().filter(|name| !name.starts_with("cuCtx")).collect();
    ensure_eq!(own, [&"cuEventCreate", &"cuMemcpyHtoDAsync_v2", &"cuEventRecord"]);
    ensure_eq!(calls.iter().filter(|name| **name == ASKED).count(), 1);
    let (calls, source) = lab.calls(|| transfer.wait())?;
    ensure_eq!(calls, ["cuEventSynchronize", "cuEventDestroy_v2"]);
    ensure!(source.iter().all(|word| *word == 5));

    // What is dropped in flight is freed by `collect` alone; what is dropped idle is used again.
    let transfer = buffer.as_slice_mut().upload_pinned(&stream, source)?;
    let (calls, ()) = lab.calls(|| {
        drop(transfer);
        Ok(())
    })?;
    ensure_eq!(calls, ["cuEventDestroy_v2"]);
    ensure_eq!(lab.context.stats().deferred_frees, 1);
    drop(PinnedBuffer::<u32>::zeroed(&lab.context, 1000)?);
    let (calls, again) = lab.calls(|| PinnedBuffer::<u32>::zeroed(&lab.context, 900))?;
    ensure!(calls.is_empty(), "{calls:?}");
    drop((again, buffer, stream));
    lab.context.free_deferred()?;
    ensure_eq!(lab.context.stats().deferred_frees, 0);
    lab.close()
}

/// One call for a box, unless it has a shape that the driver does not take.
fn boxes() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    // Nothing runs on this driver, so what is only addressed may be large.
    let mut big = DeviceBuffer::<MaybeUninit<u8>>::uninit(&stream, 12 << 30)?;
    let source = DeviceBuffer::<MaybeUninit<u8>>::uninit(&stream, 12 << 30)?;
    let layout = |row_pitch, slice_pitch| PitchedLayout { offset: 1, row_pitch, slice_pitch };
    let mut copy = |to: PitchedLayout, extent: (usize, usize, usize)| {
        let from = PitchedLayout { offset: 0, ..to };
        let (mut calls, ()) =
            lab.calls(|| big.as_slice_mut().copy_3d_from(&stream, to, &source, from, extent))?;
        let all = calls.len();
        calls.retain(|name| *name != ASKED);
        ensure_eq!(all, 2 * calls.len(), "asked once for each copy");
        Ok::<_, Failure>(calls)
    };
    const BOX: &str = "cuMemcpy3DAsync_v2";
    ensure_eq!(copy(layout(100, 1000), (50, 8, 7))?, [BOX]);
    ensure_eq!(copy(layout(100, 1000), (50, 1, 7))?, [BOX], "a plane across the slices");
    ensure_eq!(copy(layout(100, 1001), (50, 1, 7))?, [BOX]);
    ensure_eq!(copy(layout(100, 1001), (50, 8, 7))?, [BOX; 7], "not a whole number of rows");
    ensure_eq!(copy(layout(50, 400), (50, 8, 7))?, ["cuMemcpyDtoDAsync_v2"], "no gaps");
    // Farther apart than the driver takes: each row in pieces of a GiB.
    ensure_eq!(copy(layout(5 << 30, 0), (3 << 29, 2, 1))?, [BOX; 4]);

    // From the host, as many rows to a call as a block of the ring holds.
    let mut bytes = DeviceBuffer::<u8>::zeroed(&stream, 7000 * 1024)?;
    let (to, from) = (layout(1024, 0), layout(1000, 0));
    let host = vec![1; 7_000_001];
    bytes.as_slice_mut().upload_3d(&stream, to, &host, from, (1000, 6000))?;
    lab.recorder.take();
    bytes.as_slice_mut().upload_3d(&stream, to, &host, from, (1000, 6000))?;
    let calls = lab.recorder.names();
    let copies = calls.iter().filter(|name| **name == BOX).count();
    ensure_eq!(copies, 3, "{calls:?}");
    drop((big, source, bytes, stream));
    lab.close()
}

fn fills() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let (calls, mut words) = lab.calls(|| DeviceBuffer::<u32>::zeroed(&stream, 1000))?;
    ensure_eq!(calls, ["cuMemAllocFromPoolAsync", "cuMemsetD8Async"]);
    let (calls, ()) = lab.calls(|| words.as_slice_mut().fill(&stream, 0x0102_0304))?;
    ensure_eq!(calls, ["cuMemsetD32Async"]);
    let (calls, ()) = lab.calls(|| words.as_slice_mut().fill(&stream, 0x0707_0707))?;
    ensure_eq!(calls, ["cuMemsetD8Async"], "one byte over and over");
    let mut halves = DeviceBuffer::<u16>::zeroed(&stream, 1000)?;
    let (calls, ()) = lab.calls(|| halves.as_slice_mut().fill(&stream, 0x0102))?;
    ensure_eq!(calls, ["cuMemsetD16Async"]);
    let mut triples = DeviceBuffer::<[u8; 3]>::zeroed(&stream, 1_000_000)?;
    lab.recorder.take();
    triples.as_slice_mut().fill(&stream, [1, 2, 3])?;
    let mut filled = 0;
    for call in lab.recorder.take() {
        if call.name == "cuMemcpyHtoDAsync_v2" || call.name == "cuMemcpyDtoDAsync_v2" {
            ensure_eq!(call.args[0], triples.device_ptr() + filled, "the parts follow one another");
            filled += call.args[2];
        }
    }
    ensure_eq!(filled, 3_000_000);
    drop((words, halves, triples, stream));
    lab.close()
}

fn second_stream() -> TestResult {
    let lab = Lab::new()?;
    let (home, other) = (lab.context.stream()?, lab.context.stream()?);
    let one = lab.kernel("one")?;
    let launch = LaunchConfig::new(1, 1);
    let buffer = DeviceBuffer::<f32>::zeroed(&home, 1000)?;
    lab.recorder.take();
    // SAFETY: nothing runs on this driver.
    let use_once = || unsafe { one.launch(&other, launch, (0u64, &buffer)) };
    use_once()?;
    let calls = lab.recorder.take();
    let names: Vec<_> = calls.iter().map(|call| call.name).collect();
    ensure_eq!(
        names,
        [
            "cuCtxPushCurrent_v2",
            "cuEventCreate",
            "cuCtxPopCurrent_v2",
            "cuEventRecord",
            "cuStreamWaitEvent",
            "cuLaunchKernel",
        ]
    );
    let (event, home_raw) = (calls[1].made, home.as_raw().addr() as u64);
    ensure_eq!(calls[3].args[..2], [event, home_raw]);
    ensure_eq!(calls[4].args[..2], [other.as_raw().addr() as u64, event]);

    let before = allocations();
    use_once()?;
    ensure_eq!(allocations() - before, 0);
    ensure_eq!(lab.recorder.names(), ["cuLaunchKernel"], "nothing new was written");

    // New work at home that the buffer has no part in changes nothing.
    let mut stranger = DeviceBuffer::<f32>::zeroed(&home, 10)?;
    stranger.as_slice_mut().fill(&home, 1.0)?;
    let (calls, ()) = lab.calls(use_once)?;
    ensure_eq!(calls, ["cuLaunchKernel"]);

    // A new write does, and finds the event of the first time.
    let mut buffer = buffer;
    buffer.as_slice_mut().fill(&home, 1.0)?;
    lab.recorder.take();
    // SAFETY: nothing runs on this driver.
    unsafe { one.launch(&other, launch, (0u64, &buffer)) }?;
    ensure_eq!(lab.recorder.names(), ["cuEventRecord", "cuStreamWaitEvent", "cuLaunchKernel"]);
    ensure_eq!(lab.context.stats().events_recorded, 3, "two for `other`, one for `home`");
    drop((buffer, stranger, one, home, other));
    lab.close()
}

fn what_the_host_has_seen_is_not_waited_for() -> TestResult {
    let lab = Lab::new()?;
    let (home, other) = (lab.context.stream()?, lab.context.stream()?);
    let one = lab.kernel("one")?;
    let buffer = DeviceBuffer::<f32>::zeroed(&home, 1000)?;
    home.synchronize()?;
    // SAFETY: nothing runs on this driver.
    let use_once = || unsafe { one.launch(&other, LaunchConfig::new(1, 1), (0u64, &buffer)) };
    let (calls, ()) = lab.calls(use_once)?;
    ensure_eq!(calls, ["cuLaunchKernel"]);
    drop((buffer, one, home, other));
    lab.close()
}

fn context_once() -> TestResult {
    let lab = Lab::new()?;
    let device = lab.context.device();
    let (calls, again) = lab.calls(|| device.context())?;
    // Whether it is still the context that was retained shows by its id, and that is read without a
    // handle of ours: by one more retain. (Whether it is active is asked before, and not listed.)
    ensure_eq!(calls, ["cuDevicePrimaryCtxRetain", "cuCtxGetId", "cuDevicePrimaryCtxRelease_v2"]);
    ensure_eq!(again, lab.context);
    let in_use = lab.context.clone().close();
    ensure!(
        in_use.is_err_and(|error| error
            .to_string()
            .ends_with("still in use by 2 other handles to it"))
    );
    drop(again);
    // `Lab::close` looks for whatever was not given back.
    lab.close()
}
