//! Kernels with a choice between addresses, copies by `memcpy`, local arrays of integers beside numbers, and outputs
//! that take constants: gradients against central differences in f64 on the host.

use cuda_safe::{DeviceBuffer, LaunchConfig, nvrtc::Program};
use tape::{Element, OpSpec, Param, Seeds, Tape};

use super::barriers::{compare, numbers};
use super::generated::{differentiate, failure};
use test_harness::{Case, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::choices",
        device(addresses),
        device(copies),
        device(local_arrays),
        device(constant_outputs),
    ]
}

fn addresses(device: &TestDevice) -> TestResult {
    let x = numbers(51, 40);
    // One load of two, after a store through one of them.
    let body = "if (i >= n) return; out[i] = x[i] * x[i];
        out[i] = (i & 1 ? x[n - 1 - i] : out[i]) * x[i];";
    compare(device, body, &x, |x| {
        let of = |i: usize| if i % 2 == 1 { x[x.len() - 1 - i] * x[i] } else { x[i].powi(3) };
        (0..x.len()).map(of).sum()
    })?;
    // References to a variable of the thread, or to an element.
    let body = "if (i >= n) return; float own = x[i] * x[i]; const float* p = &own;
        for (int q = 0; q < 4; q++) { if (x[(i + q) % n] > *p) p = x + (i + q) % n; }
        out[i] = *p * x[i];";
    compare(device, body, &x, |x| {
        let of = |i: usize| {
            let all = (0..4).map(|q| x[(i + q) % x.len()]);
            all.fold(x[i] * x[i], f64::max) * x[i]
        };
        (0..x.len()).map(of).sum()
    })
}

fn copies(device: &TestDevice) -> TestResult {
    let x = numbers(53, 40);
    let body = "if (i >= n / 4) return; struct V { float a, b, c, d; }; V v;
        memcpy(&v, x + 4 * i, sizeof v); V u = v; u.a = v.d * v.b; memcpy(out + 4 * i, &u, sizeof u);";
    compare(device, body, &x, |x| x.chunks(4).map(|v| v[3] * v[1] + v[1] + v[2] + v[3]).sum())?;
    // A loop copies this many bytes.
    let body = "if (i >= n / 8) return; float v[8]; memcpy(v, x + 8 * i, sizeof v);
        v[i & 7] *= v[(i + 3) & 7]; memcpy(out + 8 * i, v, sizeof v);";
    compare(device, body, &x, |x| {
        let of = |(i, v): (usize, &[f64])| {
            let rest: f64 = (0..8).filter(|q| *q != i & 7).map(|q| v[q]).sum();
            rest + v[i & 7] * v[(i + 3) & 7]
        };
        x.chunks(8).enumerate().map(of).sum()
    })
}

fn local_arrays(device: &TestDevice) -> TestResult {
    let body = "if (i >= n) return; float d[3]; int b[3];
        for (int q = 0; q < 3; q++) { d[q] = x[q]; b[q] = q; }
        for (int j = 0; j < 4; j++) {
            float v = x[(i + j) % n]; int p = 2;
            while (p > 0 && d[p - 1] > v) { d[p] = d[p - 1]; b[p] = b[p - 1]; p--; }
            d[p] = v; b[p] = j;
        }
        out[i] = d[0] * d[1] + d[2] * b[1];";
    compare(device, body, &numbers(57, 40), |x| {
        let of = |i: usize| {
            let (mut d, mut b) = ([x[0], x[1], x[2]], [0usize, 1, 2]);
            for j in 0..4 {
                let (v, mut p) = (x[(i + j) % x.len()], 2);
                while p > 0 && d[p - 1] > v {
                    (d[p], b[p]) = (d[p - 1], b[p - 1]);
                    p -= 1;
                }
                (d[p], b[p]) = (v, j);
            }
            d[0] * d[1] + d[2] * b[1] as f64
        };
        (0..x.len()).map(of).sum()
    })
}

/// A buffer without a gradient that takes constants, or what depends on the input.
fn constant_outputs(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    for (value, fits) in [("1", true), ("x[i]", false)] {
        let program = Program::new(format!(
            "extern \"C\" __global__ void k(const float* x, float* out, float* acc, int n) {{
                 int i = blockIdx.x * blockDim.x + threadIdx.x;
                 if (i < n) {{ out[i] = x[i] * x[i]; acc[i] = {value}; }}
             }}"
        ));
        let buffer = |name| Param::buffer(name, Element::F32).len("n");
        let spec = OpSpec::new("k")
            .param(buffer("x").active())
            .param(buffer("out").active())
            .param(buffer("acc"))
            .param(Param::value("n"));
        let op = differentiate(device, spec, &program).map_err(failure)?;
        let x = DeviceBuffer::from_slice(&stream, &[0.5f32, 1.5, -2.0])?;
        let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; 3])?;
        let mut out = DeviceBuffer::<f32>::zeroed(&stream, 3)?;
        let mut acc = DeviceBuffer::<f32>::zeroed(&stream, 3)?;
        let recorded = Tape::record(&stream, |t| {
            t.watch(&x)?;
            t.launch(&op, LaunchConfig::cover(3, 32), (&x, &mut out, &mut acc, 3))
        });
        match recorded {
            Ok(mut tape) => {
                ensure!(fits, "values without a gradient were recorded");
                tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
                let gradient = tape.gradient(&x)?.to_vec(&stream)?;
                ensure!(gradient == [1.0, 3.0, -4.0], "{gradient:?}");
            }
            Err(error) => {
                let text = error.to_string();
                ensure!(!fits && text.contains("has no gradient by it"), "{text}");
            }
        }
    }
    Ok(())
}
