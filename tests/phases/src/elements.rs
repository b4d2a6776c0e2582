//! Kernels of one dimension.

use cuda_safe::DeviceBuffer;
use gpu_phases::kernel;

#[kernel]
fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len() && y.len() == out.len());
    each(out, |i, out| *out = a * x[i] + y[i]);
}

#[test]
fn saxpy_has_equal_bits() {
    let stream = crate::stream();
    let x: Vec<f32> = (0..1000).map(|i| (i as f32).sin()).collect();
    let y: Vec<f32> = (0..1000).map(|i| 1.0 / (i as f32)).collect();
    let mut cpu = vec![0.0; 1000];
    saxpy::cpu(2.5, &x, &y, &mut cpu).unwrap();
    let (dx, dy) = (
        DeviceBuffer::from_slice(&stream, &x).unwrap(),
        DeviceBuffer::from_slice(&stream, &y).unwrap(),
    );
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 1000).unwrap();
    saxpy::launch(&stream, 2.5, &dx, &dy, &mut out).unwrap();
    assert_eq!(out.to_vec(&stream).unwrap(), cpu);
    let error = saxpy::cpu(2.5, &x[1..], &y, &mut cpu).unwrap_err();
    let text = "kernel `saxpy`: it needs x.len() == out.len() && y.len() == out.len(), \
        but x.len() = 999, out.len() = 1000, y.len() = 1000";
    assert_eq!(error.to_string(), text);
}
