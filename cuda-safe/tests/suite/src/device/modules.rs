//! Modules: what they are loaded from, and their variables.

use cuda_safe::{
    DeviceBuffer, ErrorKind, JitOptions, LoadedFrom, Module, ModuleImage, OptimizationLevel,
};

use test_harness::programs::{BASIC, TEMPLATES};
use test_harness::{
    Case, Failure, TestDevice, TestResult, ensure, ensure_eq, ensure_refused, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::device("modules::from_an_image", from_an_image),
        Case::device("modules::from_ptx", from_ptx),
        Case::device("modules::from_source", from_source),
        Case::device("modules::jit_options_and_log", jit_options_and_log),
        Case::device("modules::handles", handles),
        Case::device("modules::variables", variables),
        Case::device("modules::variables_that_do_not_fit", variables_that_do_not_fit),
        Case::device("modules::source_that_does_not_compile", source_that_does_not_compile),
        // Without PTX the end of the parameters shows as an error of the driver.
        Case::fault("fault::modules::from_a_fatbin", from_a_fatbin),
        Case::device("modules::not_an_image", not_an_image),
    ]
}

/// The module's `iota` works.
fn works(device: &TestDevice, module: &Module) -> TestResult {
    let stream = device.stream()?;
    let iota = module.kernel("iota")?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    // SAFETY: `iota` takes (unsigned*, unsigned long long, unsigned) and writes that many words.
    unsafe { device.launch(&iota, &stream, (1, 128), (&mut buffer, 100_u64, 9_u32)) }?;
    first_difference(&buffer.to_vec(&stream)?, &(9..109).collect::<Vec<_>>())
}

/// `scale.fatbin` has PTX for compute_75 and machine code for sm_75, made by nvcc 13.0 from
/// `scale(float* x, float a, unsigned n)`, which multiplies.
fn from_a_fatbin(device: &TestDevice) -> TestResult {
    let fatbin = include_bytes!("../../kernels/scale.fatbin");
    let module = Module::from_fatbin(device.context(), fatbin)?;
    ensure_eq!(module.loaded_from(), LoadedFrom::Fatbin);
    let stream = device.stream()?;
    let scale = module.kernel("scale")?;
    let mut x = DeviceBuffer::from_slice(&stream, &[1.0_f32, 2.0, 3.0])?;
    // SAFETY: `scale` takes (float*, float, unsigned) and multiplies that many floats.
    unsafe { device.launch(&scale, &stream, (1, 32), (&mut x, 2.0_f32, 3_u32)) }?;
    first_difference(&x.to_vec(&stream)?, &[2.0, 4.0, 6.0])
}

fn from_an_image(device: &TestDevice) -> TestResult {
    let mut image = device.image(&BASIC)?;
    let module = Module::load(device.context(), &image)?;
    if device.tier() == "gpu" {
        ensure_eq!(module.loaded_from(), LoadedFrom::Cubin);
    }
    works(device, &module)?;
    ensure_eq!(module.kernel_names().len(), 5);
    ensure_eq!(module.context(), *device.context());

    image.cubin = None;
    let module = Module::load(device.context(), &image)?;
    ensure_eq!(module.loaded_from(), LoadedFrom::Ptx);
    works(device, &module)?;

    image.ptx = None;
    let refused = Module::load(device.context(), &image);
    let kind = refused.as_ref().map_err(cuda_safe::Error::kind);
    ensure!(matches!(kind, Err(ErrorKind::Invalid(_))), "{refused:?}");
    Ok(())
}

fn from_ptx(device: &TestDevice) -> TestResult {
    let image = device.image(&BASIC)?;
    let ptx = image.ptx.ok_or_else(|| Failure::new("the image has PTX"))?;
    let module = Module::from_ptx(device.context(), &ptx)?;
    ensure_eq!(module.loaded_from(), LoadedFrom::Ptx);
    works(device, &module)?;
    // With the zero byte that C programs put there, too.
    works(device, &Module::from_ptx(device.context(), &format!("{ptx}\0"))?)
}

fn from_source(device: &TestDevice) -> TestResult {
    let module = Module::compile(device.context(), BASIC.source)?;
    works(device, &module)
}

fn jit_options_and_log(device: &TestDevice) -> TestResult {
    let image = device.image(&BASIC)?;
    let ptx = image.ptx.as_deref().unwrap_or_default();
    // Text of its own, so that the driver's cache does not have it: a hit says nothing.
    let ptx = format!("{ptx}\n// {}\n", std::process::id());
    let options = JitOptions::new().verbose(true).optimization(OptimizationLevel::O3);
    let module = Module::load_with(device.context(), ModuleImage::Ptx(&ptx), &options)?;
    works(device, &module)?;
    if device.tier() == "gpu" {
        ensure!(!module.jit_log().is_empty(), "verbose");
    }
    for options in [
        JitOptions::new().line_info(true),
        JitOptions::new().debug(true).optimization(OptimizationLevel::O0),
        JitOptions::new().max_registers(32),
    ] {
        let module = Module::load_with(device.context(), ModuleImage::Ptx(&ptx), &options)?;
        works(device, &module)?;
        if options.max_registers.is_some() {
            ensure!(module.kernel("iota")?.attributes()?.registers <= 32);
        }
    }
    Ok(())
}

fn handles(device: &TestDevice) -> TestResult {
    let image = device.image(&BASIC)?;
    let module = Module::load(device.context(), &image)?;
    let kernel = module.kernel("nothing")?;
    let again = kernel.module();
    ensure_eq!(again.as_raw(), module.as_raw());
    drop(module);
    works(device, &again)?;
    drop(again);
    let stream = device.stream()?;
    // SAFETY: `nothing` takes no arguments and does nothing.
    unsafe { device.launch(&kernel, &stream, (2, 32), ()) }?;
    stream.synchronize()?;
    ensure_eq!(kernel.name(), "nothing");
    // Loaded again it is another module.
    let one = Module::load(device.context(), &image)?;
    ensure!(one.as_raw() != kernel.module().as_raw());
    Ok(())
}

fn variables(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    // A module of its own: variables are shared by all who use it.
    let module = Module::load(device.context(), &device.image(&TEMPLATES)?)?;
    let counters = module.global::<u32>(&stream, "counters")?;
    ensure_eq!(counters.len(), 4);
    ensure_eq!(counters.read(&stream)?, [10, 20, 30, 40], "as initialised");
    let count = module.kernel("count")?;
    // SAFETY: `count` takes an unsigned and adds it to the four counters.
    unsafe { device.launch(&count, &stream, (2, 64), (1_u32,)) }?;
    ensure_eq!(counters.read(&stream)?, [42, 52, 62, 72]);
    counters.write(&stream, &[0; 4])?;
    // SAFETY: as above.
    unsafe { device.launch(&count, &stream, (1, 4), (3_u32,)) }?;
    // A second handle, of another type, that keeps the module loaded.
    let pairs = module.global::<[u32; 2]>(&stream, "counters")?;
    drop(counters);
    ensure_eq!(pairs.read(&stream)?, [[3, 3], [3, 3]]);

    let weights = module.global::<f32>(&stream, "weights")?;
    let scale = module.global::<f64>(&stream, "scale")?;
    let odd = module.global::<u8>(&stream, "odd")?;
    ensure_eq!((weights.len(), scale.len(), odd.len()), (8, 1, 3));
    ensure_eq!(weights.read(&stream)?, [0.0; 8]);
    ensure_eq!(scale.read(&stream)?, [0.5]);
    let values: Vec<f32> = (0..8_u8).map(f32::from).collect();
    weights.write(&stream, &values)?;
    scale.write(&stream, &[0.25])?;
    odd.write(&stream, &[100, 0, 0])?;
    let weigh = module.kernel("weigh")?;
    drop(module);
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 16)?;
    // SAFETY: `weigh` writes a float for each thread, and there are 16.
    unsafe { device.launch(&weigh, &stream, (1, 16), (&mut out,)) }?;
    let wanted: Vec<f32> = (0..16_u8).map(|i| f32::from(i % 8) * 0.25 + 100.0).collect();
    first_difference(&out.to_vec(&stream)?, &wanted)
}

fn variables_that_do_not_fit(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let module = device.module(&TEMPLATES)?;
    let refused = [
        module.global::<u16>(&stream, "odd").map(drop),
        module.global::<[u32; 3]>(&stream, "counters").map(drop),
        module.global::<[f64; 2]>(&stream, "scale").map(drop),
        module.global::<()>(&stream, "scale").map(drop),
        module.global::<u32>(&stream, "a\0b").map(drop),
    ];
    for (index, result) in refused.iter().enumerate() {
        let kind = result.as_ref().map_err(cuda_safe::Error::kind);
        ensure!(matches!(kind, Err(ErrorKind::Invalid(_))), "{index}: {result:?}");
    }
    let scale = module.global::<f64>(&stream, "scale")?;
    // Two values for one.
    ensure_refused(scale.write(&stream, &[1.0, 2.0]))?;
    Ok(())
}

fn source_that_does_not_compile(device: &TestDevice) -> TestResult {
    let source = "__global__ void broken(int* x) { x[0] = missing; }";
    let refused = Module::compile(device.context(), source);
    let error = refused.err().ok_or_else(|| Failure::new("it was compiled"))?;
    ensure!(matches!(error.kind(), ErrorKind::Compile(_)), "{error}");
    let text = error.to_string();
    ensure!(text.contains("missing") && text.contains("undefined"), "{text}");
    ensure!(error.code().is_none());
    Ok(())
}

/// Bytes that are no image are refused before the driver call, which takes no length.
fn not_an_image(device: &TestDevice) -> TestResult {
    let image = device.image(&BASIC)?;
    let context = device.context();
    let source = BASIC.source.as_bytes();
    let ptx = image.ptx.as_deref().unwrap_or_default();
    let cubin = image.cubin.as_deref().unwrap_or_default();
    let refused = [
        Module::from_ptx(context, ""),
        Module::from_ptx(context, BASIC.source),
        Module::from_cubin(context, &[]),
        Module::from_cubin(context, source),
        Module::from_cubin(context, ptx.as_bytes()),
        Module::from_fatbin(context, cubin),
        Module::from_fatbin(context, &[0; 64]),
        Module::from_cubin(context, b"\x7fELF"),
    ];
    for (index, result) in refused.iter().enumerate() {
        let error = match result {
            Err(error) => error,
            Ok(_) => return Err(Failure::new(format!("{index} was loaded"))),
        };
        ensure!(matches!(error.kind(), ErrorKind::Invalid(_)), "{index}: {error}");
        ensure!(error.call().is_none(), "{index}: {error}");
    }
    Ok(())
}
