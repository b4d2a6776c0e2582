//! Queries of meshes: against an oracle that shares nothing with them, and, bit for bit, against kernels
//! that ask every face.

mod acceptance;
mod brute;
mod build;
mod closest;
mod cpu;
mod evaluate;
mod graphs;
mod inputs;
mod kernels;
mod layouts;
mod limits;
mod overlaps;
mod queries;
mod ray_inputs;
mod ray_ranges;
mod rays;
mod shapes;
mod signs;

use test_harness::{Case, TestDevice, deep};

pub(super) use brute::SOURCE as BRUTE_SOURCE;
pub(super) use kernels::SOURCE;

pub(crate) fn cases() -> Vec<Case> {
    [
        closest::cases(),
        cpu::cases(),
        limits::cases(),
        layouts::cases(),
        overlaps::cases(),
        signs::cases(),
        rays::cases(),
        ray_ranges::cases(),
        evaluate::cases(),
        build::cases(),
        graphs::cases(),
        kernels::cases(),
        acceptance::cases(),
    ]
    .concat()
}

const EPS: f64 = f32::EPSILON as f64;

/// Whether there is time for more and larger cases.
fn thorough(device: &TestDevice) -> bool {
    deep() || (device.tier() == "gpu" && !device.is_instrumented())
}

fn wide(p: [f32; 3]) -> [f64; 3] {
    p.map(f64::from)
}

fn sub(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|i| a[i] - b[i])
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn length(a: [f64; 3]) -> f64 {
    dot(a, a).sqrt()
}

/// (1 - u - v) a + u b + v c.
fn blend([a, b, c]: [[f64; 3]; 3], u: f64, v: f64) -> [f64; 3] {
    std::array::from_fn(|i| (1.0 - u - v) * a[i] + u * b[i] + v * c[i])
}
