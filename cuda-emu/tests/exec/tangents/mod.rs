//! Tangents, compared with differences of functions in f64.

mod api;
mod generated;
mod instructions;
mod kernels;
mod lost;
mod moves;
mod special;

use cuda_emu::exec::{Fault, Program};
use cuda_emu::{Lost, Real, Tangents};

use crate::device::{Device, Shape};

/// A device that tracks tangents.
pub(crate) struct Tracked {
    pub(crate) device: Device,
}

impl Tracked {
    pub(crate) fn new() -> Self {
        let mut device = Device::new(2);
        device.info.tangents = true;
        // `min` and `max` of three floats are newer than compute capability 9.0.
        device.info.cc = (10, 0);
        device.space.track_tangents();
        Self { device }
    }

    pub(crate) fn tangents(&self) -> Tangents<'_> {
        Tangents::of(&self.device.space).expect("tangents are tracked")
    }

    pub(crate) fn load(&self, ptx: &str) -> Program {
        self.device.load(ptx).unwrap_or_else(|error| panic!("{error}\n{ptx}"))
    }

    pub(crate) fn launch(&self, program: &Program, name: &str, shape: Shape, args: &[u64]) {
        self.try_launch(program, name, shape, args).unwrap_or_else(|fault| panic!("{fault}"));
    }

    pub(crate) fn try_launch(
        &self,
        program: &Program,
        name: &str,
        shape: Shape,
        args: &[u64],
    ) -> Result<(), Fault> {
        self.device.launch(program, name, shape, args).map(|_| ())
    }

    /// Uploads numbers with tangents.
    pub(crate) fn upload<T: Copy>(&self, values: &[T], real: Real, tangents: &[f64]) -> u64 {
        let start = self.device.upload(values);
        self.tangents().set(start, real, tangents).expect("memory");
        start
    }

    pub(crate) fn get(&self, start: u64, real: Real, count: usize) -> Vec<f64> {
        self.tangents().get(start, real, count).expect("memory")
    }

    pub(crate) fn lost(&self) -> Vec<Lost> {
        self.tangents().lost()
    }
}

/// The derivative of a function in a direction, by differences of fourth order.
pub(crate) fn slope(step: f64, f: impl Fn(f64) -> f64) -> f64 {
    (8.0 * (f(step) - f(-step)) - (f(2.0 * step) - f(-2.0 * step))) / (12.0 * step)
}

/// Fails unless two numbers agree, relative to a scale.
#[track_caller]
pub(crate) fn close(got: f64, wanted: f64, scale: f64, tolerance: f64, what: &str) {
    let error = (got - wanted).abs() / scale.max(1e-30);
    assert!(error <= tolerance, "{what}: {got:e}, {wanted:e} by differences, error {error:e}");
}
