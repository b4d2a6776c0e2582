//! Kernels with barriers and exchanges between threads: gradients against central differences in f64 on the host.

use cuda_safe::{DeviceBuffer, LaunchConfig, nvrtc::Program};
use tape::{Element, OpSpec, Param, Seeds, Tape};

use super::generated::{differentiate, failure};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::barriers",
        device(around_nothing),
        device(around_exchanges),
        device(what_is_refused),
    ]
}

/// Compares the gradient of the sum of all outputs with differences of `sum`, which does what the kernel does.
pub(super) fn compare(
    device: &TestDevice,
    body: &str,
    x: &[f64],
    sum: impl Fn(&[f64]) -> f64,
) -> TestResult {
    let stream = device.stream()?;
    let program = Program::new(format!(
        "extern \"C\" __global__ void k(const float* x, float* out, int n) {{
             int i = blockIdx.x * blockDim.x + threadIdx.x;
             {body}
         }}"
    ));
    let buffer = |name| Param::buffer(name, Element::F32).len("n").active();
    let spec = OpSpec::new("k").param(buffer("x")).param(buffer("out")).param(Param::value("n"));
    let op = differentiate(device, spec, &program).map_err(failure)?;
    let narrow: Vec<f32> = x.iter().map(|x| *x as f32).collect();
    let given = DeviceBuffer::from_slice(&stream, &narrow)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, x.len())?;
    let ones = DeviceBuffer::from_slice(&stream, &vec![1.0f32; x.len()])?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&given)?;
        t.launch(&op, LaunchConfig::cover(x.len(), 32), (&given, &mut out, x.len() as i32))
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
    let gradient = tape.gradient(&given)?.to_vec(&stream)?;
    let mut x: Vec<f64> = narrow.iter().map(|x| f64::from(*x)).collect();
    for at in 0..x.len() {
        let (here, step) = (x[at], 1e-6);
        let mut moved = |by: f64| {
            x[at] = here + by;
            let found = sum(&x);
            x[at] = here;
            found
        };
        let wanted = (moved(step) - moved(-step)) / (2.0 * step);
        let got = f64::from(gradient[at]);
        ensure!((got - wanted).abs() <= 1e-4 * (1.0 + wanted.abs()), "{at}: {got}, not {wanted}");
    }
    Ok(())
}

pub(super) fn numbers(seed: u64, n: usize) -> Vec<f64> {
    let mut rng = Rng::new(seed);
    (0..n).map(|_| f64::from(rng.float()) + 0.01).collect()
}

fn around_nothing(device: &TestDevice) -> TestResult {
    let body = "__syncthreads(); if (i < n) out[i] = x[i] * x[i]; __syncwarp(); __syncthreads();";
    compare(device, body, &numbers(43, 40), |x| x.iter().map(|x| x * x).sum())?;
    Ok(())
}

/// Threads exchange values by shared memory and by shuffles.
fn around_exchanges(device: &TestDevice) -> TestResult {
    // Each block of 32 threads has its sum, and threads without an element leave early.
    let tree = "__shared__ float s[32];
        int t = threadIdx.x;
        s[t] = i < n ? x[i] * x[i] : 0;
        __syncthreads();
        for (int half = blockDim.x / 2; half > 0; half /= 2) {
            if (t < half) s[t] += s[t + half];
            __syncthreads();
        }
        if (i >= n) return;
        out[i] = s[0] * x[i];";
    let blocks = |x: &[f64]| -> f64 {
        let sums =
            |block: &[f64]| (block.iter().map(|x| x * x).sum::<f64>(), block.iter().sum::<f64>());
        x.chunks(32).map(sums).map(|(squares, sum)| squares * sum).sum()
    };
    compare(device, tree, &numbers(44, 70), blocks)?;
    let warps = "float s = i < n ? x[i] * x[i] : 0;
        for (int step = 16; step > 0; step /= 2) s += __shfl_xor_sync(~0u, s, step);
        if (i < n) out[i] = s * x[i];";
    compare(device, warps, &numbers(45, 70), blocks)
}

/// The text of an error has a line, and says what to do.
fn what_is_refused(device: &TestDevice) -> TestResult {
    for (code, parts) in [
        (
            "__shared__ float s[8]; s[i] = x[i]; asm volatile(\"bar.sync 1, 32;\"); out[i] = s[0];",
            ["a barrier of some threads", "split"],
        ),
        (
            "extern __shared__ float s[]; s[i] = x[i]; __syncthreads(); out[i] = s[0];",
            ["comes with the launch", "constant size"],
        ),
        (
            "if (i < n) out[i] = __shfl_xor_sync(~0u, x[i], 1);",
            ["some threads of a warp", "whole warps"],
        ),
    ] {
        let program = Program::new(format!(
            "extern \"C\" __global__ void k(const float* x, float* out, int n) {{
                 int i = blockIdx.x * blockDim.x + threadIdx.x;
                 {code}
             }}"
        ));
        let buffer = |name| Param::buffer(name, Element::F32).len("n").active();
        let spec =
            OpSpec::new("k").param(buffer("x")).param(buffer("out")).param(Param::value("n"));
        let refused = differentiate(device, spec, &program);
        let Err(error) = refused else { return Err(Failure::new("it was differentiated")) };
        let text = error.to_string();
        let all = parts.into_iter().chain([":3  "]);
        ensure!(all.into_iter().all(|part| text.contains(part)), "{text}");
    }
    Ok(())
}
