//! Every driver call fails once, with several codes, in everything that users do.

use cuda_safe::sys::CUresult;
use cuda_safe::{Context, DeviceBuffer, Driver, Error, ErrorKind, LaunchConfig};

use super::scenarios::{ALL, Scenario, Steps};
use test_harness::lab::Lab;
use test_harness::table::{Behaviour, Fault, Recorder, driver_without};
use test_harness::{Case, Failure, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "faults",
        host(every_call_fails_once),
        host(every_call_fails_once_without_pools),
        host(opening_a_context),
        host(closing_a_context),
        host(after_a_fatal_error),
        host(out_of_memory),
        host(out_of_memory_once),
        host(out_of_memory_frees_what_gates_hold),
        host(ends_that_gates_do_not_see),
        host(closing_frees_what_gates_hold),
        host(out_of_memory_without_pools),
    ]
}

const CODES: [CUresult; 3] = [
    CUresult::CUDA_ERROR_OUT_OF_MEMORY,
    CUresult::CUDA_ERROR_INVALID_VALUE,
    CUresult::CUDA_ERROR_LAUNCH_FAILED,
];

fn is_fatal(code: CUresult) -> bool {
    code == CUresult::CUDA_ERROR_LAUNCH_FAILED
}

fn run(scenario: Scenario, context: &Context) -> cuda_safe::Result<()> {
    scenario(&Steps { context, after: &|| () })
}

/// Whether an error's call is this function: errors leave the version out.
fn is_call(error: &Error, name: &str) -> bool {
    let base = name.strip_suffix("_v2").or_else(|| name.strip_suffix("_v3")).unwrap_or(name);
    error.call() == Some(base) || error.call() == Some(name)
}

fn every_call_fails_once() -> TestResult {
    sweep(Behaviour::default())
}

fn every_call_fails_once_without_pools() -> TestResult {
    sweep(Behaviour { pools: false, ..Behaviour::default() })
}

/// Runs each scenario once for each of its driver calls and each code, and collects all that is
/// wrong.
fn sweep(behaviour: Behaviour) -> TestResult {
    let mut wrong = Vec::new();
    for (name, scenario) in ALL {
        let lab = Lab::with(behaviour, &[])?;
        lab.recorder.take();
        run(*scenario, &lab.context).map_err(|error| Failure::new(format!("{name}: {error}")))?;
        let calls = lab.recorder.names();
        lab.close().map_err(|failure| Failure::new(format!("{name}: {failure}")))?;
        for (number, call) in calls.iter().enumerate() {
            for code in CODES {
                // The version belongs to no device, so no device can be lost by asking for it.
                if is_fatal(code) && *call == "cuDriverGetVersion" {
                    continue;
                }
                if let Err(failure) = fail_once(*scenario, behaviour, number, code) {
                    let code = code.name().unwrap_or("?");
                    wrong.push(format!("{name}, call {number} ({call}) answers {code}: {failure}"));
                }
            }
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let count = wrong.len();
    Err(Failure::new(format!("{count} faults are handled wrongly:\n{}", wrong.join("\n"))))
}

fn fail_once(
    scenario: Scenario,
    behaviour: Behaviour,
    number: usize,
    code: CUresult,
) -> TestResult {
    let lab = Lab::with(behaviour, &[])?;
    lab.recorder.take();
    lab.recorder.fail(Some(Fault { call: number, code, repeated: false }));
    let result = run(scenario, &lab.context);
    let failed = lab.recorder.failed();
    let Some(failed) = failed else {
        return Err(Failure::new("another run of the scenario did not get to this call"));
    };
    let fatal = is_fatal(code);
    let calls = lab.recorder.names();
    lab.recorder.fail(None);

    match &result {
        Err(error) => check_error(error, failed, code)?,
        Ok(()) => {
            // A drop met it, or it was out of memory and trying again has helped.
            let kept = lab.context.take_drop_errors();
            let retried = lab.context.stats().allocation_retries == 1
                && code == CUresult::CUDA_ERROR_OUT_OF_MEMORY;
            let met = kept.iter().any(|error| is_call(error, failed) && error.code() == Some(code));
            // A foreign context takes its pool along when it goes, and nobody is left to report to.
            let alone = failed == "cuMemPoolDestroy";
            ensure!(met || retried || fatal || alone, "nobody was told; drops met {kept:?}");
        }
    }
    if fatal {
        // What was current is restored; nothing else is asked of a driver that has lost the device.
        let after: Vec<_> =
            calls[number + 1..].iter().filter(|name| **name != "cuCtxPopCurrent_v2").collect();
        ensure!(after.is_empty(), "afterwards: {after:?}");
        let later = lab.context.synchronize().err();
        let later = later.ok_or_else(|| Failure::new("a later call succeeds"))?;
        check_error(&later, failed, code)?;
        let Err(refused) = lab.context.close() else {
            return Err(Failure::new("closing the context of a lost device succeeds"));
        };
        check_error(refused.error(), failed, code)?;
        drop(refused);
        ensure_eq!(lab.recorder.names(), [""; 0], "no call is made any more");
        return Ok(());
    }
    // Errors of drops were looked at above; whatever is left is freed now.
    let _ = lab.context.take_drop_errors();
    lab.close()
}

fn check_error(error: &Error, failed: &str, code: CUresult) -> TestResult {
    ensure_eq!(error.code(), Some(code), "{error}");
    ensure!(is_call(error, failed), "the error is of {:?}: {error}", error.call());
    let text = error.to_string();
    ensure!(text.contains(code.name().unwrap_or("?")), "{text}");
    Ok(())
}

fn opening_a_context() -> TestResult {
    let open = |recorder: &Recorder| {
        recorder.take();
        Driver::from_sys(driver_without(&[]))?.device(0)?.context()
    };
    let recorder = Recorder::new(Behaviour::default());
    let installed = recorder.install();
    let context = open(&recorder)?;
    let calls = recorder.names();
    context.close()?;
    drop(installed);
    // The first call asks for the version while the table is made, which may fail.
    ensure_eq!(calls.first(), Some(&"cuDriverGetVersion"));
    for (number, call) in calls.iter().enumerate().skip(1) {
        for code in CODES {
            let recorder = Recorder::new(Behaviour::default());
            let _installed = recorder.install();
            recorder.fail(Some(Fault { call: number, code, repeated: false }));
            let error = open(&recorder).err();
            let error = error.ok_or_else(|| Failure::new(format!("{call} fails, and it is Ok")))?;
            check_error(&error, call, code)?;
            let alive = recorder.alive();
            ensure!(is_fatal(code) || alive.is_empty(), "{call}: not given back: {alive:?}");
        }
    }
    Ok(())
}

/// Whatever fails while a context is closed, it comes back and closes at the next try.
fn closing_a_context() -> TestResult {
    let prepare = || -> Result<Lab, Failure> {
        let lab = Lab::new()?;
        let stream = lab.context.stream()?;
        // Both leave something in the ring and the bin.
        let buffer = DeviceBuffer::from_slice(&stream, &vec![1u8; 5 << 20])?;
        buffer.to_vec(&stream)?;
        drop(lab.kernel("one")?);
        drop((buffer, stream));
        lab.recorder.take();
        Ok(lab)
    };
    let lab = prepare()?;
    let recorder = lab.recorder.clone();
    lab.close()?;
    let calls = recorder.names();
    for (number, call) in calls.iter().enumerate() {
        for code in [CUresult::CUDA_ERROR_INVALID_VALUE, CUresult::CUDA_ERROR_OUT_OF_MEMORY] {
            let Lab { context, recorder, installed } = prepare()?;
            recorder.fail(Some(Fault { call: number, code, repeated: false }));
            let Err(refused) = context.close() else {
                // Nobody could ask the context for it any more.
                return Err(Failure::new(format!("{call} fails, and closing is Ok")));
            };
            check_error(refused.error(), call, code)?;
            let context = refused.into_inner();
            recorder.fail(None);
            // It is as usable as before.
            let stream = context.stream()?;
            let buffer = DeviceBuffer::<u8>::zeroed(&stream, 10)?;
            drop((buffer, stream));
            Lab { context, recorder, installed }
                .close()
                .map_err(|failure| Failure::new(format!("{call} failed before: {failure}")))?;
        }
    }
    Ok(())
}

fn after_a_fatal_error() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let one = lab.kernel("one")?;
    let mut buffer = DeviceBuffer::<u8>::zeroed(&stream, 100)?;
    let launch = LaunchConfig::new(1, 1);
    for id in 0..3u64 {
        // SAFETY: nothing runs on this driver.
        unsafe { one.launch(&stream, launch, (id, &mut buffer)) }?;
    }
    lab.recorder.take();
    let code = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
    lab.recorder.fail(Some(Fault { call: 0, code, repeated: false }));
    let Err(first) = stream.synchronize() else {
        return Err(Failure::new("an illegal address is no error"));
    };
    ensure!(first.is_fatal() && first.is_asynchronous());
    ensure_eq!(first.launches().len(), 3);
    ensure!(first.launches().iter().all(|record| record.kernel == "one"));
    let numbers: Vec<u64> = first.launches().iter().map(|record| record.index).collect();
    ensure!(numbers.is_sorted_by(|a, b| a > b), "newest first: {numbers:?}");
    lab.recorder.fail(None);
    lab.recorder.take();

    let steps: [(&str, &dyn Fn() -> cuda_safe::Result<()>); 12] = [
        ("synchronize", &|| stream.synchronize()),
        ("is_done", &|| stream.is_done().map(drop)),
        // SAFETY: nothing runs on this driver.
        ("launch", &|| unsafe { one.launch(&stream, launch, (1u64, &buffer)) }),
        ("stream", &|| lab.context.stream().map(drop)),
        ("zeroed", &|| DeviceBuffer::<u8>::zeroed(&stream, 10).map(drop)),
        ("to_vec", &|| buffer.to_vec(&stream).map(drop)),
        ("attributes", &|| one.attributes().map(drop)),
        ("context", &|| lab.context.device().context().map(drop)),
        ("name", &|| lab.context.device().name().map(drop)),
        ("total_memory", &|| lab.context.device().total_memory().map(drop)),
        ("collect", &|| lab.context.free_deferred()),
        ("memory_info", &|| lab.context.memory_info().map(drop)),
    ];
    for (name, step) in steps {
        let error = step().err().map(|error| error.to_string());
        let same = error.as_deref() == Some(first.to_string().as_str());
        ensure!(same, "{name}: {error:?}");
    }
    drop((buffer, one, stream));
    ensure_eq!(lab.recorder.names(), [""; 0], "neither calls nor drops ask the driver");
    Ok(())
}

fn out_of_memory() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    // More than the device has.
    let bytes = 1 << 40;
    lab.recorder.take();
    let Err(error) = DeviceBuffer::<u8>::zeroed(&stream, bytes) else {
        return Err(Failure::new("a TiB was found on an 80 GiB device"));
    };
    let names = lab.recorder.names();
    ensure_eq!(
        names[..3],
        ["cuMemAllocFromPoolAsync", "cuMemPoolTrimTo", "cuMemAllocFromPoolAsync",]
    );
    let ErrorKind::OutOfMemory { requested, free, total } = *error.kind() else {
        return Err(Failure::new(format!("another kind of error: {error}")));
    };
    ensure_eq!((requested, free, total), (bytes, 80 << 30, 80 << 30));
    ensure_eq!(error.code(), Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
    ensure!(!error.is_fatal());
    // Nothing is broken by it.
    drop(DeviceBuffer::<u8>::zeroed(&stream, 10)?);
    drop(stream);
    lab.close()
}

fn out_of_memory_once() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    lab.recorder.take();
    let code = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
    lab.recorder.fail(Some(Fault { call: 0, code, repeated: false }));
    drop(DeviceBuffer::<u8>::zeroed(&stream, 10)?);
    ensure_eq!(lab.context.stats().allocation_retries, 1);
    drop(stream);
    lab.close()
}

/// Memory behind a gate, whose work is done, is freed before the second try.
fn out_of_memory_frees_what_gates_hold() -> TestResult {
    let lab = Lab::new()?;
    let (stream, gate) = (lab.context.stream()?, cuda_safe::Gate::new());
    let buffer = DeviceBuffer::<u8>::zeroed(&stream, 10)?;
    gate.protect(buffer.allocation())?;
    drop(buffer);
    ensure!(format!("{gate:?}").contains("held: 1"), "{gate:?}");
    lab.recorder.take();
    let code = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
    lab.recorder.fail(Some(Fault { call: 0, code, repeated: false }));
    drop(DeviceBuffer::<u8>::zeroed(&stream, 10)?);
    ensure_eq!(lab.context.stats().allocation_retries, 1);
    lab.recorder.fail(None);
    let names = lab.recorder.names();
    let wanted = ["cuMemAllocFromPoolAsync", "cuEventQuery", "cuMemFreeAsync"];
    let mut found = names.iter().filter(|name| wanted.contains(name));
    ensure!(wanted.iter().all(|name| found.next() == Some(name)), "{names:?}");
    ensure!(format!("{gate:?}").contains("held: 0"), "{gate:?}");
    drop((stream, gate));
    lab.close()
}

/// Memory of which the driver does not say when its work ends stays behind its gate, and what is dropped later does not
/// wait for it.
fn ends_that_gates_do_not_see() -> TestResult {
    let mut query = None;
    loop {
        let lab = Lab::new()?;
        let (stream, gate) = (lab.context.stream()?, cuda_safe::Gate::new());
        let guarded = || -> Result<DeviceBuffer<u8>, Failure> {
            let buffer = DeviceBuffer::<u8>::zeroed(&stream, 10)?;
            gate.protect(buffer.allocation())?;
            Ok(buffer)
        };
        let (first, second, last) = (guarded()?, guarded()?, guarded()?);
        lab.recorder.take();
        let code = CUresult::CUDA_ERROR_INVALID_VALUE;
        lab.recorder.fail(query.map(|call| Fault { call, code, repeated: false }));
        drop(first);
        // This asks about the first one.
        drop(second);
        lab.recorder.fail(None);
        let number = lab.recorder.names().iter().position(|name| *name == "cuEventQuery");
        let told = lab.context.take_drop_errors();
        if query.is_some() {
            ensure!(told.iter().any(|error| is_call(error, "cuEventQuery")), "{told:?}");
            ensure!(format!("{gate:?}").contains("held: 2"), "{gate:?}");
        } else {
            ensure!(told.is_empty(), "{told:?}");
            ensure!(format!("{gate:?}").contains("held: 1"), "{gate:?}");
        }
        // The second one does not wait for the first, which is asked about again.
        for held in [usize::from(query.is_some()), 0] {
            gate.protect(last.allocation())?;
            ensure!(format!("{gate:?}").contains(&format!("held: {held}")), "{gate:?}");
        }
        ensure_eq!(lab.context.take_drop_errors().len(), 0);
        drop((last, stream, gate));
        lab.close()?;
        if query.is_some() {
            return Ok(());
        }
        query = number;
        ensure!(query.is_some(), "the event was not asked about");
    }
}

fn closing_frees_what_gates_hold() -> TestResult {
    let lab = Lab::new()?;
    let (stream, gate) = (lab.context.stream()?, cuda_safe::Gate::new());
    let buffer = DeviceBuffer::<u8>::zeroed(&stream, 10)?;
    gate.protect(buffer.allocation())?;
    drop((buffer, stream));
    ensure!(format!("{gate:?}").contains("held: 1"), "{gate:?}");
    lab.close()?;
    ensure!(format!("{gate:?}").contains("held: 0"), "{gate:?}");
    Ok(())
}

fn out_of_memory_without_pools() -> TestResult {
    let lab = Lab::with(Behaviour { pools: false, ..Behaviour::default() }, &[])?;
    let stream = lab.context.stream()?;
    drop(DeviceBuffer::<u8>::zeroed(&stream, 10)?);
    ensure_eq!(lab.context.stats().deferred_frees, 1);
    lab.recorder.take();
    let Err(error) = DeviceBuffer::<u8>::zeroed(&stream, 1 << 40) else {
        return Err(Failure::new("a TiB was found on an 80 GiB device"));
    };
    let names = lab.recorder.names();
    let tries = names.iter().filter(|name| **name == "cuMemAlloc_v2").count();
    ensure_eq!(tries, 2, "{names:?}");
    ensure!(names.contains(&"cuMemFree_v2"), "the bin is emptied before the second try");
    ensure!(
        matches!(error.kind(), ErrorKind::OutOfMemory { requested, .. } if *requested == 1 << 40)
    );
    ensure_eq!(lab.context.stats().allocation_retries, 0, "the second try has not helped");
    drop(stream);
    lab.close()
}
