//! Samples: values at positions.

use cuda_safe::{DeviceRepr, DeviceSliceMut, Error, KernelArg, Result, Stream, WriteView, kernels};
use nanovdb::ValueType;

use super::kernels::Nearest;
use super::samples::{Part, Samples};
use super::{Volume, VolumeValue, VolumeView};
use crate::geometry::{Source, of_source};
use crate::lengths::same_length;
use crate::part::MaybeMut;
use crate::real::Real;
use crate::structures::volume::Numbers;
use crate::structures::volume::exact::Float;

kernels! {
    #[name = "volume_{}_{V}_{C}"]
    struct Stored<
        V: VolumeValue in [
            f32 = "f32", f64 = "f64", [f32; 3] = "vec3f", [f64; 3] = "vec3d", [f32; 4] = "vec4f",
            [f64; 4] = "vec4d",
        ],
        C: Real in [f32 = "f32", f64 = "f64"]
    >;
    // SAFETY: thread i reads position i of the samples, if there are more, and writes value i, and gradient i if
    // gradients are no null pointer. Of a volume it reads what its view gives. Arithmetic is in C.
    unsafe in source(V::TYPE) {
        /// # Safety
        /// There are as many values as samples.
        unsafe fn trilinear(volume: VolumeView<'_, V>, samples: Part<'_>, values: &mut [V]);
        /// # Safety
        /// There are as many values as samples, and as many gradients or a null pointer.
        unsafe fn trilinear_gradient(
            volume: VolumeView<'_, V>, samples: Part<'_>, values: &mut [V], gradients: impl KernelArg,
        );
        /// # Safety
        /// As for `trilinear_gradient`.
        unsafe fn tricubic(
            volume: VolumeView<'_, V>, samples: Part<'_>, values: &mut [V], gradients: impl KernelArg,
        );
    }
}
of_source!(<V: VolumeValue, C: Real> Stored<V, C>, source(V::TYPE));

/// Returns the source for values of a type. `is_wide` refuses other types before.
const fn source(value_type: ValueType) -> Source {
    match value_type {
        ValueType::F64 => Source::VOLUME_SAMPLE_F64,
        ValueType::Vec3F => Source::VOLUME_SAMPLE_VEC3F,
        ValueType::Vec3D => Source::VOLUME_SAMPLE_VEC3D,
        ValueType::Vec4F => Source::VOLUME_SAMPLE_VEC4F,
        ValueType::Vec4D => Source::VOLUME_SAMPLE_VEC4D,
        _ => Source::VOLUME_SAMPLE_F32,
    }
}

/// How values at positions are interpolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Interpolation {
    /// The value of the nearest voxel, floor(p + 1/2).
    Nearest,
    /// Trilinear interpolation of the eight voxels around: continuous. Its gradient, the derivative, is not: between
    /// cells it is that of the cell on the far side.
    Trilinear,
    /// Interpolation of the 4^3 voxels around by Catmull-Rom splines (E. Catmull, R. Rom, "A Class of Local
    /// Interpolating Splines", 1974), which pass through the values of voxels. It and its gradient, the derivative,
    /// are continuous.
    Tricubic,
}

/// A [`VolumeValue`] that can be interpolated: `f32`, `f64`, and arrays of three or four of them.
pub trait Interpolated: VolumeValue {
    /// The derivatives along x, y and z; for an array, those of each of its numbers.
    type Gradient: DeviceRepr + bytemuck::Pod + std::fmt::Debug + Send + Sync;

    /// The numbers of a value, in the precision of the arithmetic.
    #[doc(hidden)]
    type Numbers<C: Float>: Numbers<C>;
    /// The type of its numbers.
    #[doc(hidden)]
    type Component: Real;
    #[doc(hidden)]
    fn apart<C: Float>(self) -> Self::Numbers<C>;
    /// Rounds to nearest.
    #[doc(hidden)]
    fn together<C: Float>(numbers: Self::Numbers<C>) -> Self;
    /// Returns the gradient with these derivatives along x, y and z.
    #[doc(hidden)]
    fn gradient<C: Float>(slopes: [Self::Numbers<C>; 3]) -> Self::Gradient;
    /// Maps the gradient of each number.
    #[doc(hidden)]
    fn map_gradient(
        gradient: Self::Gradient,
        map: impl Fn([Self::Component; 3]) -> [Self::Component; 3],
    ) -> Self::Gradient;
}

macro_rules! interpolated {
    ($($value:ty: $gradient:ty, $number:ident, $count:literal, $from:ident, $to:ident;)+) => {
        $(impl Interpolated for $value {
            type Gradient = $gradient;
            type Numbers<C: Float> = [C; $count];
            type Component = $number;

            #[inline(always)]
            fn apart<C: Float>(self) -> [C; $count] {
                bytemuck::cast::<Self, [$number; $count]>(self).map(C::$from)
            }
            #[inline(always)]
            fn together<C: Float>(numbers: [C; $count]) -> Self {
                bytemuck::cast(numbers.map(C::$to))
            }
            #[inline(always)]
            fn gradient<C: Float>([x, y, z]: [[C; $count]; 3]) -> $gradient {
                let of = |i: usize| [x[i], y[i], z[i]].map(C::$to);
                bytemuck::cast(std::array::from_fn::<_, $count, _>(of))
            }
            #[inline(always)]
            fn map_gradient(
                gradient: $gradient,
                map: impl Fn([$number; 3]) -> [$number; 3],
            ) -> $gradient {
                bytemuck::cast(bytemuck::cast::<_, [[$number; 3]; $count]>(gradient).map(map))
            }
        })+
    };
}

interpolated! {
    f32: [f32; 3], f32, 1, from_f32, to_f32;
    f64: [f64; 3], f64, 1, of, to_f64;
    [f32; 3]: [[f32; 3]; 3], f32, 3, from_f32, to_f32;
    [f64; 3]: [[f64; 3]; 3], f64, 3, of, to_f64;
    [f32; 4]: [[f32; 3]; 4], f32, 4, from_f32, to_f32;
    [f64; 4]: [[f64; 3]; 4], f64, 4, of, to_f64;
}

impl Volume {
    /// Samples the value at each position: by the nearest voxel for any type, and by the other methods for
    /// [`Interpolated`] types.
    ///
    /// If positions or values are f64, so is the arithmetic, and the result is rounded last. All of it is exact in
    /// the crate's sense: the same bits everywhere. Constant fields give their exact value, and the trilinear
    /// interpolation of linear fields has only rounding errors.
    ///
    /// # Errors
    /// `values` has another type than the volume's, or another length than there are positions; a type that can't be
    /// interpolated this way; otherwise if the driver returns an error.
    pub fn sample<'a, P: Real, T: VolumeValue>(
        &self,
        stream: &Stream,
        samples: &Samples<'_, P>,
        interpolation: Interpolation,
        values: impl WriteView<'a, T>,
    ) -> Result<()> {
        let (view, mut values) = (self.view::<T>()?, values.write_view());
        same_length("values", values.len(), samples.len())?;
        if interpolation != Interpolation::Nearest {
            return self.interpolated(
                stream,
                samples,
                interpolation,
                values,
                None::<DeviceSliceMut<'_, u8>>,
            );
        }
        let kernels = self.geometry().kernels::<Nearest>()?;
        samples.in_parts(|part, launch, range| {
            // SAFETY: there are as many values as positions, as was just compared.
            unsafe { kernels.nearest::<T, P>(stream, launch, view, part, values.slice_mut(range)?) }
        })
    }

    /// Samples as [`sample`](Self::sample) does, with the gradient in the space of the positions.
    ///
    /// # Errors
    /// As [`sample`](Self::sample), also for `gradients`; interpolation by the nearest voxel, which has no gradient.
    pub fn sample_with_gradient<'a, P: Real, T: Interpolated>(
        &self,
        stream: &Stream,
        samples: &Samples<'_, P>,
        interpolation: Interpolation,
        values: impl WriteView<'a, T>,
        gradients: impl WriteView<'a, T::Gradient>,
    ) -> Result<()> {
        self.view::<T>()?;
        let values: DeviceSliceMut<'_, T> = values.write_view();
        let gradients: DeviceSliceMut<'_, T::Gradient> = gradients.write_view();
        same_length("values", values.len(), samples.len())?;
        same_length("gradients", gradients.len(), samples.len())?;
        if interpolation == Interpolation::Nearest {
            return Err(no_gradient());
        }
        self.interpolated(stream, samples, interpolation, values, Some(gradients))
    }

    /// Interpolates in f64 if positions or values are of f64. There are as many values, and gradients, as samples.
    fn interpolated<P: Real, T: VolumeValue, G: Copy + 'static>(
        &self,
        stream: &Stream,
        samples: &Samples<'_, P>,
        interpolation: Interpolation,
        values: DeviceSliceMut<'_, T>,
        gradients: Option<DeviceSliceMut<'_, G>>,
    ) -> Result<()> {
        if is_wide(T::TYPE)? || Samples::<P>::WIDE {
            self.interpolated_in::<P, T, f64, G>(stream, samples, interpolation, values, gradients)
        } else {
            self.interpolated_in::<P, T, f32, G>(stream, samples, interpolation, values, gradients)
        }
    }

    fn interpolated_in<P: Real, T: VolumeValue, C: Real, G: Copy + 'static>(
        &self,
        stream: &Stream,
        samples: &Samples<'_, P>,
        interpolation: Interpolation,
        mut values: DeviceSliceMut<'_, T>,
        mut gradients: Option<DeviceSliceMut<'_, G>>,
    ) -> Result<()> {
        let (kernels, view) = (self.geometry().kernels::<Stored<T, C>>()?, self.view::<T>()?);
        samples.in_parts(|part, launch, range| {
            let out = values.slice_mut(range.clone())?;
            let gradients = MaybeMut::part(&mut gradients, range)?;
            // SAFETY: there are as many values, and gradients if any, as positions.
            unsafe {
                match (interpolation, gradients.is_none()) {
                    (Interpolation::Tricubic, _) => {
                        kernels.tricubic(stream, launch, view, part, out, gradients)
                    }
                    (_, true) => kernels.trilinear(stream, launch, view, part, out),
                    (_, false) => {
                        kernels.trilinear_gradient(stream, launch, view, part, out, gradients)
                    }
                }
            }
        })
    }
}

/// Returns whether values are f64.
///
/// # Errors
/// Values that can't be interpolated.
pub(super) fn is_wide(value_type: ValueType) -> Result<bool> {
    match value_type {
        ValueType::F32 | ValueType::Vec3F | ValueType::Vec4F => Ok(false),
        ValueType::F64 | ValueType::Vec3D | ValueType::Vec4D => Ok(true),
        other => {
            let name = other.name();
            let what = format!("values of {name} have no numbers between them; take the nearest");
            Err(Error::invalid(what))
        }
    }
}

pub(crate) fn no_gradient() -> Error {
    Error::invalid("the nearest value has no gradient")
}
