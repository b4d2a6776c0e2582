//! `a * x + y`.

use cuda_safe::kernel::kernel;

/// One float a thread.
#[kernel(contract)]
pub fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len() && y.len() == out.len());
    each(out, |i, out| *out = a * x[i] + y[i]);
}

/// Four floats a thread.
#[kernel(contract)]
pub fn saxpy4(a: f32, x: &[[f32; 4]], y: &[[f32; 4]], out: &mut [[f32; 4]]) {
    assert!(x.len() == out.len() && y.len() == out.len());
    each(out, |i, out| {
        let (x, y) = (x[i], y[i]);
        *out = [a * x[0] + y[0], a * x[1] + y[1], a * x[2] + y[2], a * x[3] + y[3]];
    });
}
