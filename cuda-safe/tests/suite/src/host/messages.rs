//! What errors say: whole sentences with the numbers and names that help.

use cuda_safe::sys::CUresult;
use cuda_safe::{
    DeviceBuffer, Dim3, Driver, Error, Event, LaunchConfig, Module, Stream, UnifiedBuffer, kernels,
};

use test_harness::lab::{Lab, PTX};
use test_harness::table::{Behaviour, Fault, driver_without};
use test_harness::{Case, Failure, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "messages",
        host(shapes),
        host(limits),
        host(set_limits),
        host(driver_errors),
        host(asynchronous_errors),
        host(missing_function),
        host(buffers),
        host(modules),
        host(clauses),
        host(strangers),
        host(managed_memory),
    ]
}

/// Compares the text of the error that `result` must be.
#[track_caller]
fn says<T>(result: cuda_safe::Result<T>, wanted: &str) -> Result<Error, Failure> {
    let Err(error) = result else {
        return Err(Failure::new(format!("it is Ok, not: {wanted}")));
    };
    let text = error.to_string();
    if text != wanted {
        return Err(Failure::new(format!("it says: {text}\n      not: {wanted}")));
    }
    // `unwrap` and `main` show a person the same.
    let debug = format!("{error:?}");
    if debug != wanted {
        return Err(Failure::new(format!("Debug: {debug}")));
    }
    Ok(error)
}

fn shapes() -> TestResult {
    let shape =
        |launch: LaunchConfig| (launch.grid.x, launch.grid.y, launch.block.x, launch.threads());
    ensure_eq!(shape(LaunchConfig::cover(0, 256)), (0, 1, 256, 0));
    ensure_eq!(shape(LaunchConfig::cover(1, 256)), (1, 1, 256, 256));
    ensure_eq!(shape(LaunchConfig::cover(256, 256)), (1, 1, 256, 256));
    ensure_eq!(shape(LaunchConfig::cover(257, 256)), (2, 1, 256, 512));
    ensure_eq!(LaunchConfig::cover(usize::MAX, 1).grid.x, u32::MAX);
    ensure_eq!(LaunchConfig::cover(10, 0).block.x, 0, "refused at the launch");
    ensure_eq!(Dim3::from(7), Dim3::new(7, 1, 1));
    ensure_eq!(Dim3::from((7, 8)), Dim3::from([7, 8]));
    ensure_eq!(Dim3::from((7, 8, 9)), Dim3::from([7, 8, 9]));
    ensure_eq!(Dim3::new(2, 3, 4).count(), 24);
    ensure_eq!(Dim3::new(u32::MAX, u32::MAX, u32::MAX).count(), u64::MAX, "no overflow");
    ensure_eq!(LaunchConfig::from((4, (8, 2))), LaunchConfig::new(4, (8, 2)));
    let text = LaunchConfig::new((4, 2), 128).dynamic_shared_bytes(1024).cooperative().to_string();
    ensure_eq!(text, "grid (4, 2, 1), block (128, 1, 1), 1024 bytes shared, cooperative");
    Ok(())
}

const NO_BLOCKS: &str = "a grid of (0, 1, 1) has no blocks; hint: use `LaunchConfig::cover(n, block)`, or `over n` in \
                         the declaration: they launch nothing for n = 0";

fn limits() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let nothing = lab.kernel("nothing")?;
    lab.recorder.take();
    let cases = [
        (LaunchConfig::new(1, 1025), "threads per block: 1025 asked, at most 1024 allowed"),
        (LaunchConfig::new(1, (32, 33)), "threads per block: 1056 asked, at most 1024 allowed"),
        (LaunchConfig::new(1, (1, 1, 65)), "block z: 65 asked, at most 64 allowed"),
        (LaunchConfig::new((1, 65_536), 1), "grid y: 65536 asked, at most 65535 allowed"),
        (LaunchConfig::new((1, 1, 65_536), 1), "grid z: 65536 asked, at most 65535 allowed"),
        (LaunchConfig::new(1_u32 << 31, 1), "grid x: 2147483648 asked, at most 2147483647 allowed"),
        (LaunchConfig::new(1, 0), "a block of (0, 1, 1) has no threads"),
        (
            LaunchConfig::new((8, -1), 32),
            "grid y: 4294967295 asked, at most 65535 allowed; hint: an extent that is negative or \
             needs more than 32 bits counts as 4294967295",
        ),
        (
            LaunchConfig::new(1_u64 << 32, 32),
            "grid x: 4294967295 asked, at most 2147483647 allowed; hint: an extent that is negative \
             or needs more than 32 bits counts as 4294967295",
        ),
        (
            LaunchConfig::cover(-1, 32),
            "grid x: 4294967295 asked, at most 2147483647 allowed; hint: an extent that is negative \
             or needs more than 32 bits counts as 4294967295",
        ),
        (
            LaunchConfig::cover_2d([8, 1_usize << 50], [16, 16]),
            "grid y: 4294967295 asked, at most 65535 allowed; hint: an extent that is negative or \
             needs more than 32 bits counts as 4294967295",
        ),
        (
            LaunchConfig::new(1, 1_u64 << 32),
            "threads per block: 4294967295 asked, at most 1024 allowed; hint: an extent that is \
             negative or needs more than 32 bits counts as 4294967295",
        ),
        (LaunchConfig::cover(0, 0), "a block of (0, 1, 1) has no threads"),
        (LaunchConfig::new(0, 0), "a block of (0, 1, 1) has no threads"),
        (LaunchConfig::new(0, 256), NO_BLOCKS),
        (LaunchConfig::new(0, 256).cooperative(), NO_BLOCKS),
        (LaunchConfig::new(0, 256).cluster(2), NO_BLOCKS),
        (
            LaunchConfig::new(1, 32).dynamic_shared_bytes(49_153),
            "bytes of dynamic shared memory: 49153 asked, at most 49152 allowed; hint: the kernel uses 0 bytes statically; \
             Kernel::set_max_dynamic_shared raises the limit, up to the device's",
        ),
    ];
    // The launch and its kernel stand before the hint.
    let with_launch = |text: &str, launch: LaunchConfig| {
        let (what, hint) = text.split_at(text.find("; hint").unwrap_or(text.len()));
        format!("{what}; asked: kernel `nothing`, {launch}{hint}")
    };
    for (launch, text) in cases {
        // SAFETY: nothing runs on this driver.
        let refused = unsafe { nothing.launch(&stream, launch, ()) };
        says(refused, &with_launch(text, launch))?;
    }
    ensure_eq!(lab.recorder.names(), [""; 0], "refused before the driver is asked");

    // 132 multiprocessors that each hold 2 blocks of 1024 threads.
    // SAFETY: nothing runs on this driver.
    let fits = unsafe { nothing.launch(&stream, LaunchConfig::new(264, 1024).cooperative(), ()) };
    fits?;
    let launch = LaunchConfig::new(265, 1024).cooperative();
    // SAFETY: as above.
    let refused = unsafe { nothing.launch(&stream, launch, ()) };
    let text = with_launch(
        "blocks resident together: 265 asked, at most 264 allowed; hint: a cooperative grid must \
         fit the device at once: use fewer or smaller blocks, and let each thread do several \
         elements",
        launch,
    );
    says(refused, &text)?;
    drop((nothing, stream));
    lab.close()
}

fn set_limits() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let nothing = lab.kernel("nothing")?;
    nothing.set_max_dynamic_shared(232_448)?;
    ensure_eq!(nothing.attributes()?.max_dynamic_shared, 232_448);
    // SAFETY: nothing runs on this driver.
    unsafe { nothing.launch(&stream, LaunchConfig::new(1, 32).dynamic_shared_bytes(232_448), ()) }?;
    says(
        nothing.set_max_dynamic_shared(232_449),
        "bytes of dynamic shared memory: 232449 asked, at most 232448 allowed",
    )?;
    drop((nothing, stream));
    lab.close()
}

fn driver_errors() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let one = lab.kernel("one")?;
    let buffer = DeviceBuffer::<u8>::zeroed(&stream, 8)?;
    let fail = |code| {
        lab.recorder.take();
        lab.recorder.fail(Some(Fault { call: 0, code, repeated: true }));
    };
    fail(CUresult::CUDA_ERROR_INVALID_VALUE);
    // SAFETY: nothing runs on this driver.
    let launched = unsafe { one.launch(&stream, LaunchConfig::new(2, 64), (1u64, &buffer)) };
    let error = says(
        launched,
        "cuLaunchKernel: an argument is out of range (CUDA_ERROR_INVALID_VALUE); asked: kernel \
         `one`, grid (2, 1, 1), block (64, 1, 1), 0 bytes shared",
    )?;
    ensure_eq!(error.code(), Some(CUresult::CUDA_ERROR_INVALID_VALUE));
    ensure_eq!(error.name(), Some("CUDA_ERROR_INVALID_VALUE"));
    ensure!(!error.is_fatal() && !error.is_asynchronous() && error.launches().is_empty());

    // A code that is newer than the bindings.
    fail(CUresult(12_345));
    let error = says(stream.synchronize(), "cuStreamSynchronize: the driver returned code 12345")?;
    ensure_eq!((error.name(), error.description()), (None, None));
    lab.recorder.fail(None);

    let huge = DeviceBuffer::<u64>::zeroed(&stream, 1 << 40);
    says(
        huge,
        "cuMemAllocFromPoolAsync: out of device memory (CUDA_ERROR_OUT_OF_MEMORY): requested \
         8796093022208 bytes, 85899345920 of 85899345920 bytes free",
    )?;
    says(
        DeviceBuffer::<u64>::zeroed(&stream, usize::MAX),
        "device memory: 18446744073709551615 elements of u64 are more than memory can hold",
    )?;
    drop((one, buffer, stream));
    lab.close()
}

fn asynchronous_errors() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let (one, nothing) = (lab.kernel("one")?, lab.kernel("nothing")?);
    let buffer = DeviceBuffer::<u8>::zeroed(&stream, 8)?;
    // SAFETY: nothing runs on this driver.
    unsafe { one.launch(&stream, LaunchConfig::new(1, 1), (1u64, &buffer)) }?;
    // SAFETY: as above.
    unsafe { nothing.launch(&stream, LaunchConfig::new(1, 1), ()) }?;
    lab.recorder.take();
    let code = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
    lab.recorder.fail(Some(Fault { call: 0, code, repeated: false }));
    let text = "earlier work on the device failed: a kernel used an address that it may not use \
                (CUDA_ERROR_ILLEGAL_ADDRESS); met by cuStreamSynchronize; last launches, newest \
                first: nothing (#3) one (#2); hint: run under compute-sanitizer, or on the \
                software device of the crate cuda-emu, to see which thread accessed which address";
    let error = says(stream.synchronize(), text)?;
    ensure!(error.is_fatal() && error.is_asynchronous());
    says(lab.context.synchronize(), text)?;
    Ok(())
}

fn missing_function() -> TestResult {
    let lab = Lab::with(Behaviour::default(), &["cuLaunchHostFunc"])?;
    let stream = lab.context.stream()?;
    says(
        stream.host_function(|| ()),
        "this CUDA driver (13.0) has no cuLaunchHostFunc, which came with CUDA 10.0",
    )?;
    drop(stream);
    lab.close()
}

fn buffers() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 4)?;
    lab.recorder.take();
    says(buffer.slice(2..9), "the range 2..9 is not within 0..4")?;
    says(buffer.slice_mut(3..=4), "the range 3..5 is not within 0..4")?;
    says(buffer.split_at_mut(5).map(drop), "the range 5..4 is not within 0..4")?;
    says(buffer.upload(&stream, &[1]), "upload: 4 elements on one side and 1 on the other")?;
    says(
        buffer.download(&stream, &mut [0; 5]),
        "download: 4 elements on one side and 5 on the other",
    )?;
    let misfit = buffer.slice(..3)?.cast::<u64>();
    let address = buffer.device_ptr();
    says(misfit, "cast: 12 bytes are not a whole number of u64, which has 8")?;
    let past = buffer.slice(1..3)?.cast::<u64>();
    let text = "is not aligned for u64: it must be a multiple of 8 bytes, and is 4 past one";
    says(past, &format!("cast: the address {:#x} {text}", address + 4))?;
    says(buffer.slice(..0)?.cast::<()>(), "cast: () has no bytes")?;
    // SAFETY: any bits are such a number.
    let view = unsafe { buffer.allocation().view::<u64>(4..12) };
    says(view, &format!("the bytes 4..12: the address {:#x} {text}", address + 4))?;
    // SAFETY: as above.
    let view = unsafe { buffer.allocation().view::<u64>(8..24) };
    says(view, "the bytes 8..24 are not within 0..16")?;
    // SAFETY: refused.
    let odd = unsafe { DeviceBuffer::<u32>::from_raw(&stream, 0x1002, 4, None) };
    says(
        odd,
        "the buffer: the address 0x1002 is not aligned for u32: it must be a multiple of 4 bytes, \
         and is 2 past one",
    )?;
    let (start, end) = (Event::new(&lab.context)?, Event::timing(&lab.context)?);
    says(
        start.elapsed_ms(&end),
        "an event made without timing measures no time; hint: make both with Event::timing",
    )?;
    drop((start, end, buffer, stream));
    lab.close()
}

fn modules() -> TestResult {
    let lab = Lab::new()?;
    let module = Module::from_ptx(&lab.context, PTX)?;
    says(
        module.kernel("saxpi").map(drop),
        "the module has no kernel `saxpi`; hint: it has saxpy, one, two, nothing",
    )?;
    says(
        Module::from_cubin(&lab.context, PTX.as_bytes()).map(drop),
        "expected a cubin, found PTX",
    )?;
    lab.recorder.take();
    // The call after the push.
    let code = CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    lab.recorder.fail(Some(Fault { call: 1, code, repeated: false }));
    let Err(error) = Module::from_ptx(&lab.context, PTX) else {
        return Err(Failure::new("a version that is not supported is Ok"));
    };
    let text = error.to_string();
    let hint = "the image is PTX 8.0, which this driver (CUDA 13.0) does not know";
    ensure!(text.contains(hint), "{text}");
    ensure!(text.contains("PTX of "), "{text}");
    drop(module);
    lab.close()
}

kernels! {
    struct Axpy;
    // SAFETY: nothing runs on this driver.
    unsafe in PTX {
        safe fn two(id: u64, x: &[f32], out: &mut [f32])
            where id < x.len(), 2 * id + 1 <= out.len();
    }
}

fn clauses() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    // SAFETY: nothing runs on this driver.
    let kernels = unsafe { Axpy::from_module(&Module::from_ptx(&lab.context, PTX)?) }?;
    let x = DeviceBuffer::<f32>::zeroed(&stream, 10)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 10)?;
    let shape = LaunchConfig::new(1, 1);
    let (calls, ()) = lab.calls(|| kernels.two(&stream, shape, 4, &x, &mut out))?;
    ensure_eq!(calls, ["cuLaunchKernel"]);
    says(
        kernels.two(&stream, shape, 10, &x, &mut out),
        "kernel `two`: `id < x.len()` does not hold: id = 10, x.len() = 10",
    )?;
    says(
        kernels.two(&stream, shape, 5, &x, &mut out),
        "kernel `two`: `2 * id + 1 <= out.len()` does not hold: id = 5, out.len() = 10",
    )?;
    drop((kernels, x, out, stream));
    lab.close()
}

/// Things of another context, and of another driver.
fn strangers() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let other = Driver::from_sys(driver_without(&[]))?.device(0)?.context()?;
    let elsewhere: Stream = other.stream()?;
    let mut buffer = DeviceBuffer::<u8>::zeroed(&stream, 8)?;
    let one = lab.kernel("one")?;
    let event = Event::new(&lab.context)?;
    lab.recorder.take();
    let stranger = "the buffer belongs to another context than the stream it is used on";
    says(buffer.upload(&elsewhere, &[1; 8]), stranger)?;
    says(buffer.to_vec(&elsewhere), stranger)?;
    // SAFETY: nothing runs on this driver.
    let launched = unsafe { one.launch(&elsewhere, LaunchConfig::new(1, 1), (1u64, &buffer)) };
    says(launched, "kernel `one` belongs to another context than the stream")?;
    // A handle of one driver means nothing to another, which may crash on it.
    for result in
        [event.record(&elsewhere), elsewhere.wait_event(&event), stream.wait_stream(&elsewhere)]
    {
        let Err(error) = result else {
            return Err(Failure::new("a handle of one driver was given to another"));
        };
        ensure_eq!(error.call(), None, "{error}");
    }
    ensure_eq!(lab.recorder.names(), [""; 0], "refused before a driver is asked");
    drop((event, one, buffer, stream, elsewhere));
    other.close()?;
    lab.close()
}

/// This driver's device lets the host touch no managed memory while kernels run.
fn managed_memory() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let error = says(
        UnifiedBuffer::<u32>::managed(&stream, 4),
        "on this device the host must not touch managed memory while any kernel runs \
         (CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0); hint: use UnifiedBuffer::pinned, or \
         a DeviceBuffer and copies",
    )?;
    ensure_eq!(error.call(), None);
    drop(stream);
    lab.close()
}
