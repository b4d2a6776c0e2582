//! Keeps the gradient of a pass in the operation, for the next pass.
//!
//! - row: a view does not outlive its buffer
//! - targets: `Adjoint::gradient`, `Gradient::as_slice`
//! - must: not compile none "lifetime may not live long enough"

use cuda_safe::{DeviceSlice, Result};
use tape::{Adjoint, CustomOp, Handle};

pub struct Keeps {
    x: Handle<f32>,
    kept: Option<DeviceSlice<'static, f32>>,
}

impl CustomOp for Keeps {
    fn name(&self) -> &str {
        "keeps"
    }
    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let gradient = pass.gradient(self.x)?.as_slice()?;
        self.kept = gradient; //~ refused
        Ok(())
    }
}
