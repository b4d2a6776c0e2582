//! Seeds: the gradients of outputs with which a pass begins.

use std::ops::Range;
use std::sync::Arc;

use cuda_safe::{Allocation, DeviceSlice, Error, Result};

use crate::element::{Differentiable, FloatType};
use crate::variable::{Watched, memory_of};

/// Outputs with given gradients, for [`Tape::backward_with`](crate::Tape::backward_with). The gradients are borrowed:
/// a gradient of the same tape can't seed its next pass, which reuses that memory.
///
/// ```compile_fail,E0502
/// # fn twice(tape: &mut cuda_tape::Tape, stream: &cuda_safe::Stream, x: &cuda_safe::DeviceBuffer<f32>) -> cuda_safe::Result<()> {
/// let seeds = cuda_tape::Seeds::new().with(x, tape.gradient(x)?)?;
/// tape.backward_with(stream, &seeds)
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Seeds<'a> {
    pub(crate) seeds: Vec<Seed<'a>>,
}

#[derive(Debug)]
pub(crate) struct Seed<'a> {
    pub(crate) output: Arc<Allocation>,
    pub(crate) range: Range<usize>,
    pub(crate) real: Option<FloatType>,
    pub(crate) gradient: DeviceSlice<'a, u8>,
}

impl<'a> Seeds<'a> {
    /// Creates an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a seed: `gradient` is the gradient of `output`, with as many elements.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if the lengths differ.
    pub fn with<'b, T: Differentiable>(
        mut self,
        output: impl Watched<'b, T>,
        gradient: impl Into<DeviceSlice<'a, T::Gradient>>,
    ) -> Result<Self> {
        let (output, gradient) = (memory_of(output)?, gradient.into());
        if output.len() != gradient.len() {
            return Err(Error::invalid(format!(
                "{} gradients for {} elements",
                gradient.len(),
                output.len()
            )));
        }
        self.seeds.push(Seed {
            output: output.allocation().clone(),
            range: output.byte_range(),
            real: T::ELEMENT.real,
            gradient: gradient.cast()?,
        });
        Ok(self)
    }
}

/// The kind of the given gradients.
pub(crate) enum Given<'a> {
    One(FloatType),
    Seeds(&'a [Seed<'a>]),
}
