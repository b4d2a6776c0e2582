//! Damped oscillators with a cubic spring, each by 64 steps.

use cuda_safe::kernel::{Device, kernel};

/// The steps of a launch.
pub const STEPS: u32 = 64;

/// An oscillator.
#[derive(Debug, Clone, Copy, PartialEq, Device, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Oscillator {
    /// How far it is from its rest.
    pub position: f32,
    /// Its velocity.
    pub velocity: f32,
}

/// Moves each oscillator on by 64 steps of length `dt` of the semi-implicit Euler method.
#[kernel(contract)]
pub fn integrate(dt: f32, start: &[Oscillator], end: &mut [Oscillator]) {
    assert!(start.len() == end.len());
    each(end, |i, end| {
        let Oscillator { position: mut x, velocity: mut v } = start[i];
        for _ in 0..STEPS {
            v -= dt * (x + 0.5 * x * x * x + 0.1 * v);
            x += dt * v;
        }
        *end = Oscillator { position: x, velocity: v };
    });
}
