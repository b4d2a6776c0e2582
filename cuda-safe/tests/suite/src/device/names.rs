//! How kernels are found: names of the image, name expressions, plain names.

use cuda_safe::{DeviceBuffer, Error, ErrorKind};

use test_harness::programs::{BASIC, TEMPLATES};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "names",
        device(expressions),
        device(plain_and_mangled),
        device(a_wrong_one),
        device(an_ambiguous_one),
    ]
}

fn expressions(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let module = device.module(&TEMPLATES)?;
    let axpy = module.kernel("axpy<float>")?;
    ensure!(axpy.name().starts_with("_Z4axpyIf"), "{}", axpy.name());
    let x = DeviceBuffer::from_slice(&stream, &[1.0_f32, 2.0, 3.0])?;
    let mut y = DeviceBuffer::from_slice(&stream, &[10.0_f32, 20.0, 30.0])?;
    // SAFETY: axpy(float, const float*, float*, unsigned) touches that many elements.
    unsafe { device.launch(&axpy, &stream, (1, 32), (2.0_f32, &x, &mut y, 3_u32)) }?;
    ensure_eq!(y.to_vec(&stream)?, [12.0, 24.0, 36.0]);

    let axpy = module.kernel("axpy<double>")?;
    let x = DeviceBuffer::from_slice(&stream, &[0.1_f64])?;
    let mut y = DeviceBuffer::from_slice(&stream, &[0.2_f64])?;
    // SAFETY: as above, with doubles.
    unsafe { device.launch(&axpy, &stream, (1, 32), (1.0_f64, &x, &mut y, 1_u32)) }?;
    ensure_eq!(y.to_vec(&stream)?, [0.1 + 0.2]);

    let times = module.kernel("math::times<3>")?;
    let mut data = DeviceBuffer::from_slice(&stream, &[1, -2, 3])?;
    // SAFETY: times(int*, unsigned) touches that many elements.
    unsafe { device.launch(&times, &stream, (1, 32), (&mut data, 3_u32)) }?;
    ensure_eq!(data.to_vec(&stream)?, [3, -6, 9]);
    Ok(())
}

fn plain_and_mangled(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let module = device.module(&TEMPLATES)?;
    let mut data = DeviceBuffer::<i32>::zeroed(&stream, 4)?;
    for name in ["lonely", "_Z6lonelyPi"] {
        let kernel = module.kernel(name)?;
        ensure_eq!(kernel.name(), "_Z6lonelyPi");
        // SAFETY: `lonely` writes an int for each thread, and there are four.
        unsafe { device.launch(&kernel, &stream, (1, 4), (&mut data,)) }?;
        ensure_eq!(data.to_vec(&stream)?, [7; 4]);
    }
    let twin = module.kernel("_Z4twinPi")?;
    // SAFETY: as above.
    unsafe { device.launch(&twin, &stream, (1, 4), (&mut data,)) }?;
    ensure_eq!(data.to_vec(&stream)?, [8; 4]);
    Ok(())
}

fn error_of<T>(result: cuda_safe::Result<T>) -> Result<Error, Failure> {
    result.err().ok_or_else(|| Failure::new("a kernel was found"))
}

fn a_wrong_one(device: &TestDevice) -> TestResult {
    let module = device.module(&BASIC)?;
    for name in ["flil", "", "a\0b", "fill "] {
        let error = error_of(module.kernel(name))?;
        ensure!(matches!(error.kind(), ErrorKind::Invalid(_)), "{error}");
    }
    let error = error_of(module.kernel("flil"))?;
    ensure!(error.to_string().contains("`flil`"), "{error}");
    let hint = error.hint().unwrap_or_default();
    ensure!(
        ["fill", "iota", "add", "copy", "nothing"].iter().all(|name| hint.contains(name)),
        "{hint}"
    );
    Ok(())
}

fn an_ambiguous_one(device: &TestDevice) -> TestResult {
    let error = error_of(device.module(&TEMPLATES)?.kernel("twin"))?;
    ensure!(error.to_string().contains("several"), "{error}");
    let hint = error.hint().unwrap_or_default();
    ensure!(hint.contains("_Z4twinPi") && hint.contains("_Z4twinPf"), "{hint}");
    Ok(())
}
