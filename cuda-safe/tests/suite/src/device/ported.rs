//! Files that nvcc takes, embedded with their includes.

use cuda_safe::nvrtc::Program;
use cuda_safe::{DeviceBuffer, Module, include_cuda, kernels};

use super::SIZES;
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases!["ported", device(a_file_with_includes_runs), device(warnings_stay_with_the_module),]
}

kernels! {
    pub(crate) struct Smooth;
    // SAFETY: thread i writes element i alone, and only if i < n; what it reads is below n.
    unsafe in include_cuda!("../../kernels/ported/smooth.cu") {
        safe fn smooth(x: &[f32], y: &mut [f32], n: u32 = x.len()) over n where y.len() == n;
        safe fn clamp_all<T in [f32, i32]>(x: &mut [T], n: u32 = x.len(), limit: T) over n;
    }
}

fn a_file_with_includes_runs(device: &TestDevice) -> TestResult {
    let (stream, kernels) = (device.stream()?, Smooth::load(device.context())?);
    let mut rng = device.rng(31);
    for n in SIZES {
        // Multiples of 1/256 below 256, so that every sum is exact.
        let x: Vec<f32> = (0..n).map(|_| (rng.below(1 << 16) as f32) / 256.0).collect();
        let device_x = DeviceBuffer::from_slice(&stream, &x)?;
        let mut y = DeviceBuffer::zeroed(&stream, n)?;
        kernels.smooth(&stream, &device_x, &mut y)?;
        kernels.clamp_all(&stream, &mut y, 100.0_f32)?;
        let wanted: Vec<f32> = (0..n)
            .map(|i| {
                let (left, right) = (x[i.saturating_sub(1)], x[(i + 1).min(n - 1)]);
                (0.25 * left + 0.5 * x[i] + 0.25 * right).min(100.0)
            })
            .collect();
        ensure_eq!(y.to_vec(&stream)?, wanted, "{n} elements");
    }
    Ok(())
}

fn warnings_stay_with_the_module(device: &TestDevice) -> TestResult {
    let clean = Module::compile(device.context(), "__global__ void k() {}")?;
    ensure_eq!(clean.compile_log(), "");
    // The second comes from the cache, where there is one.
    for _ in 0..2 {
        let program = Program::new("__global__ void k() { int unused; }").name("warns.cu");
        let module = Module::compile(device.context(), program)?;
        let log = module.compile_log();
        ensure!(log.contains("warns.cu(1)") && log.contains("\"unused\""), "{log}");
        ensure_eq!(module.clone().compile_log(), log);
    }
    Ok(())
}
