//! Libraries, functions and abilities that are not there.

use std::mem::MaybeUninit;

use cuda_safe::sys::CUresult;
use cuda_safe::{Context, DeviceBuffer, Driver, ErrorKind, LaunchConfig, Module};

use test_harness::lab::{Lab, PTX};
use test_harness::table::Behaviour;
use test_harness::{Case, Failure, TestResult, cases, ensure, ensure_eq, limited, spawn_self};

/// Names a real driver library on a machine without a GPU, such as the one in Debian's `libcuda1`.
const WITHOUT_GPU: &str = "TEST_LIBCUDA_NO_GPU";

type Uninit = DeviceBuffer<MaybeUninit<u8>>;

/// Set in the child process of [`environment`].
const CHILD: &str = "TEST_HOST_CHILD";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = cases![
        "missing",
        host(library),
        host(library_of_the_environment),
        host(device),
        host(functions),
        host(parameter_info),
        host(pools = || pools(true)),
        host(pool_functions = || pools(false)),
    ];
    if cfg!(target_os = "linux") {
        cases.push(Case::host("missing::every_function", every_function));
    }
    // Only where there is such a library: a test that can't run is not one that passes.
    if std::env::var_os(WITHOUT_GPU).is_some() {
        cases.push(Case::host("missing::gpu", gpu));
    }
    cases
}

fn library() -> TestResult {
    let path = "/nowhere/at/all/libcuda.so.1";
    // SAFETY: there is no library at the path.
    let loaded = unsafe { Driver::load_from(path) };
    let Err(error) = loaded else {
        return Err(Failure::new("a library that does not exist was loaded"));
    };
    let ErrorKind::MissingLibrary(missing) = error.kind() else {
        return Err(Failure::new(format!("another kind of error: {error}")));
    };
    ensure_eq!(missing.tried().len(), 1);
    ensure!(!missing.tried()[0].reason().is_empty());
    let text = error.to_string();
    ensure!(text.contains(path) && text.contains("could not be loaded"), "{text}");
    Ok(())
}

/// The default driver is the one that `CUDA_DRIVER` names, and no other is tried.
fn library_of_the_environment() -> TestResult {
    let path = "/nowhere/else/libcuda.so.1";
    if std::env::var_os(CHILD).is_none() {
        let name = "host::missing::library_of_the_environment";
        let mut command = spawn_self(&["--tier", "host", "--exact", name])?;
        command.env(CHILD, "1").env("CUDA_DRIVER", path);
        let outcome = limited(command)?;
        let ran = outcome.stdout.contains("1 passed");
        ensure!(ran && outcome.status.success(), "{}{}", outcome.stdout, outcome.stderr);
        return Ok(());
    }
    let Err(error) = Context::new(0) else {
        return Err(Failure::new("a library that does not exist was loaded"));
    };
    let ErrorKind::MissingLibrary(missing) = error.kind() else {
        return Err(Failure::new(format!("another kind of error: {error}")));
    };
    let tried: Vec<_> = missing.tried().iter().map(|attempt| attempt.name()).collect();
    ensure_eq!(tried, [std::path::Path::new(path)]);
    Ok(())
}

/// A library that loads but has no function of the driver.
fn every_function() -> TestResult {
    // SAFETY: the C library's part for mathematics may be loaded by anybody.
    let loaded = unsafe { Driver::load_from("libm.so.6") };
    let Err(error) = loaded else {
        return Err(Failure::new("the mathematical library is a driver"));
    };
    let ErrorKind::MissingSymbol(missing) = error.kind() else {
        return Err(Failure::new(format!("another kind of error: {error}")));
    };
    ensure_eq!(missing.name, "cuInit");
    ensure!(error.to_string().contains("has no cuInit"), "{error}");
    Ok(())
}

fn device() -> TestResult {
    let lab = Lab::new()?;
    let driver = lab.context.driver();
    ensure_eq!(driver.device_count(), 1);
    ensure_eq!(driver.devices().len(), 1);
    let Err(error) = driver.device(1) else {
        return Err(Failure::new("there are two devices"));
    };
    ensure!(matches!(error.kind(), ErrorKind::Invalid(_)));
    ensure!(error.hint().is_some_and(|hint| hint.contains("CUDA_VISIBLE_DEVICES")));
    Ok(())
}

fn functions() -> TestResult {
    let without = ["cuFuncLoad", "cuLaunchCooperativeKernel", "cuLaunchHostFunc"];
    let lab = Lab::with(Behaviour::default(), &without)?;
    let stream = lab.context.stream()?;
    let nothing = lab.kernel("nothing")?;
    let (calls, ()) = lab.calls(|| nothing.load())?;
    ensure!(calls.is_empty(), "older drivers load with the module: {calls:?}");
    ensure!(!lab.context.driver().supports("cuFuncLoad"));

    let launch = LaunchConfig::new(1, 1).cooperative();
    // SAFETY: nothing runs on this driver.
    let refused = unsafe { nothing.launch(&stream, launch, ()) };
    for (result, name) in
        [(refused, "cuLaunchCooperativeKernel"), (stream.host_function(|| ()), "cuLaunchHostFunc")]
    {
        let Err(error) = result else {
            return Err(Failure::new(format!("{name} is missing, and it is Ok")));
        };
        let ErrorKind::MissingSymbol(missing) = error.kind() else {
            return Err(Failure::new(format!("another kind of error: {error}")));
        };
        ensure_eq!(missing.name, name);
        ensure!(missing.needs.is_some() && missing.driver == Some(13000), "{missing:?}");
        ensure!(!error.is_fatal());
    }
    drop((nothing, stream));
    lab.close()
}

/// The driver does not tell what parameters a kernel has; the image does.
fn parameter_info() -> TestResult {
    let lab = Lab::new()?;
    ensure!(!lab.context.driver().supports("cuFuncGetParamInfo"));
    let stream = lab.context.stream()?;
    let saxpy = Module::from_ptx(&lab.context, PTX)?.kernel("saxpy")?;
    let x = DeviceBuffer::<f32>::zeroed(&stream, 10)?;
    let launch = LaunchConfig::new(1, 1);
    lab.recorder.take();
    // SAFETY: nothing runs on this driver.
    let few = unsafe { saxpy.launch(&stream, launch, (2.0f32, &x, &x, &x)) };
    // SAFETY: as above.
    let wide = unsafe { saxpy.launch(&stream, launch, (2.0f64, &x, &x, &x, 10u64)) };
    // SAFETY: as above.
    let narrow = unsafe { saxpy.launch(&stream, launch, (2.0f32, &x, &x, &x, 10u32)) };
    // SAFETY: as above.
    let other = unsafe { saxpy.launch(&stream, launch, (2u32, &x, &x, &x, 10u64)) };
    for (result, index, text) in [
        (few, None, "kernel `saxpy`: takes 5 arguments, 4 given"),
        (
            wide,
            Some(0),
            "argument 1 of kernel `saxpy`: `f64` has 8 bytes, the parameter 4: write `f32`",
        ),
        (narrow, Some(4), "argument 5 of kernel `saxpy`: `u32` has 4 bytes, the parameter 8"),
        (
            other,
            Some(0),
            "argument 1 of kernel `saxpy`: `u32` is an integer, the parameter a float: write `f32`",
        ),
    ] {
        let Err(error) = result else {
            return Err(Failure::new(format!("Ok instead of: {text}")));
        };
        ensure_eq!(error.to_string(), text);
        let found = match error.kind() {
            ErrorKind::Argument { index, .. } => *index,
            _ => return Err(Failure::new(format!("another kind of error: {error}"))),
        };
        ensure_eq!(found, index);
    }
    ensure_eq!(lab.recorder.names(), [""; 0], "refused before the driver is asked");
    drop((saxpy, x, stream));
    lab.close()
}

/// A device, or a driver, without memory pools: blocking allocation, and the bin.
fn pools(functions: bool) -> TestResult {
    let without: &[&str] = if functions { &[] } else { &["cuMemAllocFromPoolAsync"] };
    let lab = Lab::with(Behaviour { pools: !functions, ..Behaviour::default() }, without)?;
    let (stream, other) = (lab.context.stream()?, lab.context.stream()?);
    let (calls, buffer) = lab.calls(|| Uninit::uninit(&stream, 1000))?;
    ensure_eq!(calls, ["cuCtxPushCurrent_v2", "cuMemAlloc_v2", "cuCtxPopCurrent_v2"]);
    let address = buffer.device_ptr();
    let (calls, ()) = lab.calls(|| {
        drop(buffer);
        Ok(())
    })?;
    ensure!(calls.is_empty(), "a drop does not wait: {calls:?}");
    ensure_eq!(lab.context.stats().deferred_frees, 1);

    // Only the same stream knows that the work before is done when its own begins.
    let (_, elsewhere) = lab.calls(|| Uninit::uninit(&other, 1000))?;
    ensure!(elsewhere.device_ptr() != address);
    let (_, larger) = lab.calls(|| Uninit::uninit(&stream, 1001))?;
    ensure!(larger.device_ptr() != address);
    let (calls, again) = lab.calls(|| Uninit::uninit(&stream, 1000))?;
    ensure!(calls.is_empty(), "{calls:?}");
    ensure_eq!(again.device_ptr(), address);

    drop((elsewhere, larger, again));
    ensure_eq!(lab.context.stats().deferred_frees, 3);
    let (calls, ()) = lab.calls(|| lab.context.free_deferred())?;
    let freed = calls.iter().filter(|name| **name == "cuMemFree_v2").count();
    ensure_eq!(freed, 3);
    ensure_eq!(lab.context.stats().deferred_frees, 0);
    // The pool's own calls are no error without one.
    lab.context.set_pool_release_threshold(0)?;
    lab.context.trim_pool(0)?;
    drop((stream, other));
    lab.close()
}

fn gpu() -> TestResult {
    let path = std::env::var_os(WITHOUT_GPU).unwrap_or_default();
    // SAFETY: the user names a CUDA driver.
    let loaded = unsafe { Driver::load_from(path) };
    let Err(error) = loaded else {
        return Err(Failure::new(format!("{WITHOUT_GPU} names a driver that has found a GPU")));
    };
    ensure_eq!(error.code(), Some(CUresult::CUDA_ERROR_NO_DEVICE), "{error}");
    ensure_eq!(error.call(), Some("cuInit"));
    ensure!(error.hint().is_some_and(|hint| hint.contains("nvidia-smi")), "{error}");
    Ok(())
}
