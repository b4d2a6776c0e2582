//! Images that are cut short, too new, or wrong inside: an error that says so, and no crash.

use cuda_safe::sys::CUresult;
use cuda_safe::{DeviceBuffer, ErrorKind, JitOptions, LoadedFrom, Module, PackedPtx};
use test_support::gzip::pack;

use super::error_of;
use test_harness::programs::{BASIC, LIMITS, TEMPLATES};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "fault::images",
        fault(a_cubin_cut_short),
        fault(random_bytes),
        fault(ptx_of_the_future),
        fault(ptx_that_is_wrong),
        fault(packed_ptx),
        fault(a_cubin_for_another_gpu),
        fault(a_cubin_alone),
        fault(a_variable_that_is_not_there),
    ]
}

/// The device still works.
fn still_works(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let iota = device.kernel(&BASIC, "iota")?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    // SAFETY: `iota` takes (unsigned*, unsigned long long, unsigned) and writes that many words.
    unsafe { device.launch(&iota, &stream, (1, 128), (&mut buffer, 100_u64, 0_u32)) }?;
    first_difference(&buffer.to_vec(&stream)?, &(0..100).collect::<Vec<_>>())
}

fn cubin_of(
    device: &TestDevice,
    program: &test_harness::programs::Program,
) -> Result<Vec<u8>, Failure> {
    let image = device.image(program)?;
    image.cubin.ok_or_else(|| Failure::new("the image has no cubin"))
}

/// A whole cubin loads, or is refused as what it is by a device that runs no machine code.
fn expect_whole_cubin(device: &TestDevice, cubin: &[u8]) -> TestResult {
    let loaded = Module::from_cubin(device.context(), cubin);
    if device.runs_machine_code() {
        loaded?;
        return Ok(());
    }
    let error = error_of("machine code", loaded)?;
    ensure_eq!(error.code(), Some(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU), "{error}");
    Ok(())
}

fn a_cubin_cut_short(device: &TestDevice) -> TestResult {
    let cubin = cubin_of(device, &LIMITS)?;
    expect_whole_cubin(device, &cubin)?;
    // Around each of the headers, at many places in between, and just before the end.
    let lengths =
        (0..256).chain((256..cubin.len()).step_by(97)).chain(cubin.len() - 9..cubin.len());
    for length in lengths {
        let part = &cubin[..length.min(cubin.len() - 1)];
        let error =
            error_of(&format!("{length} bytes"), Module::from_cubin(device.context(), part))?;
        ensure!(matches!(error.kind(), ErrorKind::Invalid(_)), "{length} bytes: {error}");
        ensure!(error.call().is_none(), "the driver reads past the end of a short image: {error}");
    }
    still_works(device)
}

fn random_bytes(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(80);
    for length in 0..500 {
        let bytes = rng.bytes(length);
        for result in [
            Module::from_cubin(device.context(), &bytes),
            Module::from_fatbin(device.context(), &bytes),
        ] {
            let error = error_of("random bytes", result)?;
            ensure!(matches!(error.kind(), ErrorKind::Invalid(_)), "{error}");
        }
    }
    still_works(device)
}

/// The image's PTX, as if a newer compiler had written it.
fn newer(ptx: &str) -> Result<String, Failure> {
    let lines =
        ptx.lines().map(|line| if line.starts_with(".version") { ".version 9.9" } else { line });
    let text = lines.collect::<Vec<_>>().join("\n") + "\n";
    ensure!(text.contains(".version 9.9"));
    Ok(text)
}

fn ptx_of_the_future(device: &TestDevice) -> TestResult {
    let mut image = device.image(&BASIC)?;
    let ptx = newer(image.ptx.as_deref().unwrap_or_default())?;
    let error = error_of("PTX 9.9", Module::from_ptx(device.context(), &ptx))?;
    ensure_eq!(error.code(), Some(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION), "{error}");
    let hint = error.hint().unwrap_or_default();
    ensure!(hint.contains("9.9") && hint.contains("driver"), "{hint}");
    ensure!(!error.is_fatal());

    // An image whose machine code fits does not need its PTX.
    image.ptx = Some(ptx);
    let loaded = Module::load(device.context(), &image);
    if device.runs_machine_code() {
        ensure_eq!(loaded?.loaded_from(), LoadedFrom::Cubin);
    } else {
        let error = error_of("neither part fits", loaded)?;
        ensure_eq!(error.code(), Some(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION), "{error}");
    }
    still_works(device)
}

fn ptx_that_is_wrong(device: &TestDevice) -> TestResult {
    let image = device.image(&BASIC)?;
    let ptx = image.ptx.as_deref().unwrap_or_default();
    let wrong = ptx.replacen("ret;", "nonsense.f32 %q1, %q2;\n\tret;", 1);
    ensure!(wrong != ptx);
    let error = error_of("wrong PTX", Module::from_ptx(device.context(), &wrong))?;
    ensure_eq!(error.code(), Some(CUresult::CUDA_ERROR_INVALID_PTX), "{error}");
    let asked = error.asked().unwrap_or_default();
    ensure!(asked.contains("nonsense"), "what the driver's compiler says: {asked}");
    ensure!(!error.is_fatal());

    let header = ".version 8.0\n.target sm_75\n.address_size 64\n";
    ensure!(Module::from_ptx(device.context(), &format!("{header}}}}}}}")).is_err());
    // Nothing in it is no mistake.
    let module = Module::from_ptx(device.context(), header)?;
    let error = error_of("no kernels", module.kernel("fill"))?;
    ensure!(error.hint().unwrap_or_default().contains("no kernels"), "{error}");
    still_works(device)
}

fn packed_ptx(device: &TestDevice) -> TestResult {
    let context = device.context();
    let image = device.image(&BASIC)?;
    let ptx = image.ptx.as_deref().unwrap_or_default();
    let whole = pack(ptx)?;
    let packed = PackedPtx::new("the_module", &whole);
    for module in [
        Module::from_packed_ptx(context, packed)?,
        Module::compile(context, packed)?,
        Module::load_with(context, packed, &JitOptions::default())?,
    ] {
        ensure_eq!(module.loaded_from(), LoadedFrom::Ptx);
        ensure_eq!(module.kernel_names(), Module::from_ptx(context, ptx)?.kernel_names());
        let stream = device.stream()?;
        let iota = module.kernel("iota")?;
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
        // SAFETY: `iota` takes (unsigned*, unsigned long long, unsigned) and writes that many words.
        unsafe { device.launch(&iota, &stream, (1, 128), (&mut buffer, 100_u64, 3_u32)) }?;
        first_difference(&buffer.to_vec(&stream)?, &(3..103).collect::<Vec<_>>())?;
    }

    // The driver is not asked about a pack that is not whole.
    let cut = PackedPtx::new("the_module", &whole[..whole.len() - 1]);
    let error = error_of("a pack that is cut short", Module::from_packed_ptx(context, cut))?;
    ensure!(matches!(error.kind(), ErrorKind::Invalid(_)) && error.call().is_none(), "{error}");
    ensure!(error.to_string().contains("`the_module`"), "{error}");

    // An error of the driver's compiler about the text inside names the module too.
    let wrong = pack(&ptx.replacen("ret;", "nonsense.f32 %q1, %q2;\n\tret;", 1))?;
    let wrong = PackedPtx::new("the_module", &wrong);
    let error = error_of("wrong PTX in a pack", Module::from_packed_ptx(context, wrong))?;
    ensure_eq!(error.code(), Some(CUresult::CUDA_ERROR_INVALID_PTX), "{error}");
    let asked = error.asked().unwrap_or_default();
    ensure!(asked.contains("`the_module`") && asked.contains("nonsense"), "{asked}");
    still_works(device)
}

fn a_cubin_for_another_gpu(device: &TestDevice) -> TestResult {
    let (major, _) = device.context().device().compute_capability()?;
    let other = if major == 7 { nvrtc::Arch::sm(8, 0) } else { nvrtc::Arch::sm(7, 5) };
    let driver = device.context().driver().version()?;
    let foreign = BASIC.to_nvrtc().compile_for_driver(other, driver)?;
    let cubin = foreign.cubin.as_deref().unwrap_or_default();
    let error = error_of("another GPU's", Module::from_cubin(device.context(), cubin))?;
    ensure_eq!(error.code(), Some(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU), "{error}");
    ensure!(error.hint().is_some());

    // With PTX beside it the driver compiles that.
    let mut image = device.image(&BASIC)?;
    image.cubin = foreign.cubin;
    let module = Module::load(device.context(), &image)?;
    ensure_eq!(module.loaded_from(), LoadedFrom::Ptx);
    still_works(device)
}

/// Without PTX the driver alone knows the kernels; looking for what it has not is an error of its.
fn a_cubin_alone(device: &TestDevice) -> TestResult {
    let cubin = cubin_of(device, &BASIC)?;
    if !device.runs_machine_code() {
        return expect_whole_cubin(device, &cubin);
    }
    let stream = device.stream()?;
    let module = Module::from_cubin(device.context(), &cubin)?;
    ensure_eq!(module.loaded_from(), LoadedFrom::Cubin);
    let mut names = module.kernel_names();
    names.sort();
    if device.context().driver().supports("cuModuleEnumerateFunctions") {
        ensure_eq!(names, ["add", "copy", "fill", "iota", "nothing"]);
    }
    let error = error_of("a wrong name", module.kernel("flil"))?;
    ensure!(matches!(error.kind(), ErrorKind::Invalid(_)), "{error}");
    ensure!(error.hint().is_some_and(|hint| names.iter().all(|name| hint.contains(name))));

    // Sizes of parameters come from the driver, where it tells.
    let fill = module.kernel("fill")?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 10)?;
    if device.context().driver().supports("cuFuncGetParamInfo") {
        // SAFETY: arguments that don't fit are refused.
        let refused = unsafe { fill.launch(&stream, (1, 32), (&mut buffer, 10_u32, 1_u32)) };
        let error = error_of("a wrong size", refused)?;
        ensure!(matches!(error.kind(), ErrorKind::Argument { index: Some(1), .. }), "{error}");
        // SAFETY: as above.
        let refused = unsafe { fill.launch(&stream, (1, 32), (&mut buffer, 10_u64)) };
        let error = error_of("too few", refused)?;
        ensure!(matches!(error.kind(), ErrorKind::Argument { index: None, .. }), "{error}");
    }
    // SAFETY: `fill` takes (unsigned*, unsigned long long, unsigned) and writes that many words.
    unsafe { device.launch(&fill, &stream, (1, 32), (&mut buffer, 10_u64, 3_u32)) }?;
    ensure_eq!(buffer.to_vec(&stream)?, [3; 10]);
    Ok(())
}

fn a_variable_that_is_not_there(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let module = device.module(&TEMPLATES)?;
    let error = error_of("a wrong name", module.global::<u32>(&stream, "counter"))?;
    ensure_eq!(error.code(), Some(CUresult::CUDA_ERROR_NOT_FOUND), "{error}");
    ensure!(error.to_string().contains("counter"), "{error}");
    ensure_eq!(module.global::<u32>(&stream, "counters")?.len(), 4);
    Ok(())
}
