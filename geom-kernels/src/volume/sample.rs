//! Values at positions.

use cuda_safe::{DeviceRepr, DeviceSliceMut, Error, Result, Stream, WriteView};

use super::samples::Samples;
use super::{Volume, VolumeValue};
use crate::lengths::same_length;
use crate::part::read_part;
use crate::real::Real;

/// How values at positions come from those of voxels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Interpolation {
    /// That of the nearest voxel, floor(p + 1/2).
    Nearest,
    /// Between the eight voxels around: continuous. Its gradient, which is its derivative, is not: between
    /// cells it is that of the cell on the far side.
    Trilinear,
    /// Between the 4^3 voxels around, through the values of voxels, by the splines of E. Catmull and R. Rom ("A
    /// Class of Local Interpolating Splines", 1974). Continuous, and so is its gradient, its derivative.
    Tricubic,
}

/// A [`VolumeValue`] that can be interpolated: `f32`, `f64`, and arrays of three or four of them.
pub trait Interpolated: VolumeValue {
    /// Its derivatives along x, y and z; of an array, those of each of its numbers.
    type Gradient: DeviceRepr + bytemuck::Pod + std::fmt::Debug;
}

macro_rules! interpolated {
    ($($value:ty: $gradient:ty;)+) => {
        $(impl Interpolated for $value {
            type Gradient = $gradient;
        })+
    };
}

interpolated! {
    f32: [f32; 3];
    f64: [f64; 3];
    [f32; 3]: [[f32; 3]; 3];
    [f64; 3]: [[f64; 3]; 3];
    [f32; 4]: [[f32; 3]; 4];
    [f64; 4]: [[f64; 3]; 4];
}

impl Volume {
    /// The value at each position: of any type the nearest, the others of an [`Interpolated`] type.
    ///
    /// If positions or values are of f64, so is the arithmetic, and the answer is rounded last. All of it is
    /// exact in the crate's sense: the same bits everywhere. Fields that are constant come out as they are, and
    /// of linear ones the trilinear interpolation is off by no more than its roundings.
    ///
    /// # Errors
    /// `values` is of another type than the volume's, or has another length than there are positions; a type
    /// that can't be interpolated so; otherwise what the driver answered.
    pub fn sample<'b, P: Real, T: VolumeValue>(
        &self,
        stream: &Stream,
        samples: &Samples<'_, P>,
        interpolation: Interpolation,
        values: impl WriteView<'b, T>,
    ) -> Result<()> {
        let (view, mut values) = (self.view::<T>()?, values.write_view());
        same_length("values", values.len(), samples.len())?;
        let wide = Samples::<P>::WIDE;
        match interpolation {
            Interpolation::Nearest => {
                let kernel = self.nearest_kernel(wide)?;
                samples.in_parts(|part, launch, range| {
                    // SAFETY: writes one value for each position, of the volume's type.
                    unsafe { kernel.launch(stream, launch, (view, part, values.slice_mut(range)?)) }
                })
            }
            Interpolation::Trilinear => {
                let [kernel, ..] = self.interpolating(wide)?;
                samples.in_parts(|part, launch, range| {
                    // SAFETY: as above.
                    unsafe { kernel.launch(stream, launch, (view, part, values.slice_mut(range)?)) }
                })
            }
            Interpolation::Tricubic => {
                let [.., kernel] = self.interpolating(wide)?;
                samples.in_parts(|part, launch, range| {
                    let args = (view, part, values.slice_mut(range)?, read_part::<u8>(None));
                    // SAFETY: as above, and nothing through the null pointer.
                    unsafe { kernel.launch(stream, launch, args) }
                })
            }
        }
    }

    /// As [`sample`](Self::sample), with the gradient in the space of the positions.
    ///
    /// # Errors
    /// As [`sample`](Self::sample), of `gradients` too; the nearest value has no gradient.
    pub fn sample_with_gradient<'b, 'c, P: Real, T: Interpolated>(
        &self,
        stream: &Stream,
        samples: &Samples<'_, P>,
        interpolation: Interpolation,
        values: impl WriteView<'b, T>,
        gradients: impl WriteView<'c, T::Gradient>,
    ) -> Result<()> {
        let view = self.view::<T>()?;
        let mut values: DeviceSliceMut<'_, T> = values.write_view();
        let mut gradients: DeviceSliceMut<'_, T::Gradient> = gradients.write_view();
        same_length("values", values.len(), samples.len())?;
        same_length("gradients", gradients.len(), samples.len())?;
        let [_, trilinear, tricubic] = self.interpolating(Samples::<P>::WIDE)?;
        let kernel = match interpolation {
            Interpolation::Nearest => return Err(no_gradient()),
            Interpolation::Trilinear => trilinear,
            Interpolation::Tricubic => tricubic,
        };
        samples.in_parts(|part, launch, range| {
            let (values, gradients) =
                (values.slice_mut(range.clone())?, gradients.slice_mut(range)?);
            // SAFETY: writes one value and one gradient for each position, of the volume's type.
            unsafe { kernel.launch(stream, launch, (view, part, values, gradients)) }
        })
    }
}

pub(crate) fn no_gradient() -> Error {
    Error::invalid("the nearest value has no gradient")
}
