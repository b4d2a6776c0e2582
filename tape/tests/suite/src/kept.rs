//! What an adjoint reads, by its derivation, is what it reads: the tape keeps it, and `vjp` refuses to do without it.

use cuda_safe::{DeviceBuffer, LaunchConfig, nvrtc::Program};
use tape::{Element, Gradients, NotSaved, Op, OpSpec, Param, Primal, Seeds, Tape};

use super::generated::{differentiate, failure};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases!["tape::kept", device(overwritten_after_a_loop), device(vjp_without_what_a_loop_reads),]
}

const N: usize = 8;

/// Bodies for thread i < n, which set `a` from x, w and s.
const BODIES: [&str; 19] = [
    "for (int k = 0; k < n; k++) a = sinf(a) + w[k];",
    "for (int k = 0; k < n; k++) a = cosf(a) + w[k];",
    "for (int k = 0; k < n; k++) a = __sinf(a) + w[k];",
    "for (int k = 0; k < n; k++) a = tanhf(a) + w[k];",
    "for (int k = 0; k < n; k++) a = expf(-a) + w[k];",
    "for (int k = 0; k < n; k++) a = logf(a * a + 1) + w[k];",
    "for (int k = 0; k < n; k++) a = sqrtf(a * a + 1) + w[k];",
    "for (int k = 0; k < n; k++) a = 1 / (1 + a * a) + w[k];",
    "for (int k = 0; k < n; k++) a = fabsf(a) * 0.5f + w[k];",
    "for (int k = 0; k < n; k++) a = sinf(a * w[k]);",
    "for (int k = 0; k < n; k++) a = sinf(a) + w[k] * w[k];",
    "for (int k = 0; k < n; k++) if (k < 8) a = sinf(a) + w[k];",
    "for (int k = 0; k < n; k++) a = a * a * 0.5f + w[k] * 0.1f;",
    "for (int k = 0; k < n; k++) a = a * s + w[k] * 0.1f;",
    "for (int k = 0; k < n; k++) if (k & 1) a = sinf(a) + w[k]; else a = a * s;",
    "for (int k = 0; k < n; k++) if (k & 1) a = a * a + w[k] * 0.1f; else a = a * 0.9f + s * 0.1f;",
    "for (int z = i + 3; z != 1;) if (z & 1) { z = 3 * z + 1; a = a * 0.9f + s * 0.1f; }
         else { z >>= 1; a = sinf(a) + w[z % n] * 0.1f; }",
    "for (int j = 0; j < 3; j++) { float b = 0; for (int k = 0; k < n; k++) b = sinf(b) + w[k]; a = a * b; }",
    "a = a + w[i]; a = a * a * s;",
];

fn op(device: &TestDevice, body: &str) -> Result<Op, Failure> {
    let source = format!(
        "extern \"C\" __global__ void k(float s, const float* x, const float* w, float* out, int n) {{
             int i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             float a = x[i];
             {body}
             out[i] = a;
         }}"
    );
    let buffer = |name| Param::buffer(name, Element::F32).len("n").active();
    let spec = OpSpec::new("k")
        .param(Param::scalar("s", Element::F32))
        .param(buffer("x"))
        .param(buffer("w"))
        .param(buffer("out"))
        .param(Param::value("n"));
    differentiate(device, spec, &Program::new(source)).map_err(failure)
}

fn numbers() -> Vec<f32> {
    (0..N).map(|i| i as f32 * 0.1 - 0.3).collect()
}

/// A recorded fill of `w` behind the launch changes no gradient.
fn overwritten_after_a_loop(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; N])?;
    for body in BODIES {
        let op = op(device, body)?;
        let mut gradients = Vec::new();
        for overwrites in [false, true] {
            let [x, mut w, mut out] = buffers(&stream)?;
            let mut tape = Tape::record(&stream, |t| {
                t.watch(&x)?;
                t.launch(&op, LaunchConfig::cover(N, 32), (0.7f32, &x, &w, &mut out, N as i32))?;
                if overwrites { t.fill(&mut w, 5.0) } else { Ok(()) }
            })?;
            tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
            gradients.push(tape.gradient(&x)?.to_vec(&stream)?);
        }
        ensure!(gradients[0].iter().all(|g| g.is_finite()), "{body}: {:?}", gradients[0]);
        ensure_eq!(gradients[0], gradients[1], "{body}");
    }
    Ok(())
}

/// `vjp` without `w` is refused where the adjoint reads it, and otherwise as right as with it.
fn vjp_without_what_a_loop_reads(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; N])?;
    let mut refused = 0;
    for body in BODIES {
        let op = op(device, body)?;
        let derivation = op.derivation().ok_or_else(|| Failure::new("there is no derivation"))?;
        let w = derivation.accesses.iter().find(|access| access.param == "w");
        let reads = w.is_some_and(|w| w.value != Primal::None);
        let [x, w, _] = buffers(&stream)?;
        let mut found = Vec::new();
        for given in [true, false] {
            let mut gradient = DeviceBuffer::<f32>::zeroed(&stream, N)?;
            let gradients = Gradients::new().seed("out", &ones).into_buffer("x", &mut gradient);
            let launch = LaunchConfig::cover(N, 32);
            let done = match given {
                true => op.vjp(&stream, launch, (0.7f32, &x, &w, NotSaved, N as i32), gradients),
                false => {
                    op.vjp(&stream, launch, (0.7f32, &x, NotSaved, NotSaved, N as i32), gradients)
                }
            };
            match done {
                Ok(_) => found.push(gradient.to_vec(&stream)?),
                Err(error) if reads && !given => {
                    ensure!(error.to_string().contains("`w`"), "{body}: {error}");
                    refused += 1;
                }
                Err(error) => return Err(Failure::new(format!("{body}: {error}"))),
            }
        }
        ensure!(found.windows(2).all(|two| two[0] == two[1]), "{body}: {found:?}");
    }
    ensure!(refused >= 8, "{refused} were refused");
    Ok(())
}

fn buffers(stream: &cuda_safe::Stream) -> Result<[DeviceBuffer<f32>; 3], Failure> {
    let made = || DeviceBuffer::from_slice(stream, &numbers());
    Ok([made()?, made()?, made()?])
}
