//! Index grids, whose values are in separate arrays.

use cuda_safe::{
    DeviceRepr, DeviceSlice, DeviceSliceMut, Error, KernelArg, Result, Stream, WriteView,
    arg::{ArgType, UseVisitor},
    kernels,
};
use nanovdb::ValueType;

use super::sample::{is_wide, no_gradient};
use super::samples::{Part, Samples};
use super::{Index, Interpolated, Interpolation, OnIndex, Volume, VolumeValue, VolumeView};
use crate::geometry::{Source, of_source};
use crate::lengths::same_length;
use crate::part::{MaybeMut, read};
use crate::real::Real;

kernels! {
    #[name = "volume_{}_{T}_{V}_{C}"]
    struct Indexed<
        V: Interpolated in [
            f32 = "f32", f64 = "f64", [f32; 3] = "vec3f", [f64; 3] = "vec3d", [f32; 4] = "vec4f",
            [f64; 4] = "vec4d",
        ],
        C: Real in [f32 = "f32", f64 = "f64"]
    >;
    // SAFETY: thread i reads position i of the samples, if there are more, and writes element i, and gradient i if
    // gradients are no null pointer. Of a volume it reads what its view gives, and elements that the array has.
    // Arithmetic is in C.
    unsafe in source(V::TYPE) {
        /// # Safety
        /// There are as many elements as samples.
        unsafe fn nearest<T: VolumeValue in [Index = "index", OnIndex = "on_index"]>(
            volume: VolumeView<'_, T>, samples: Part<'_>, values: IndexedValues<'_, V>, out: &mut [V],
        );
        /// # Safety
        /// There are as many elements as samples, and as many gradients or a null pointer.
        unsafe fn trilinear<T: VolumeValue in [Index = "index", OnIndex = "on_index"]>(
            volume: VolumeView<'_, T>, samples: Part<'_>, values: IndexedValues<'_, V>, out: &mut [V],
            gradients: impl KernelArg,
        );
        /// # Safety
        /// As for `trilinear`.
        unsafe fn tricubic<T: VolumeValue in [Index = "index", OnIndex = "on_index"]>(
            volume: VolumeView<'_, T>, samples: Part<'_>, values: IndexedValues<'_, V>, out: &mut [V],
            gradients: impl KernelArg,
        );
    }
}
of_source!(<V: Interpolated, C: Real> Indexed<V, C>, source(V::TYPE));

/// Returns the source for values of a type. Other types are not [`Interpolated`].
const fn source(value_type: ValueType) -> Source {
    match value_type {
        ValueType::F64 => Source::VOLUME_INDEX_F64,
        ValueType::Vec3F => Source::VOLUME_INDEX_VEC3F,
        ValueType::Vec3D => Source::VOLUME_INDEX_VEC3D,
        ValueType::Vec4F => Source::VOLUME_INDEX_VEC4F,
        ValueType::Vec4D => Source::VOLUME_INDEX_VEC4D,
        _ => Source::VOLUME_INDEX_F32,
    }
}

/// The values of the voxels of an index grid: index i has the value `values[i - 1]`, and index 0 the background.
/// Kernels take it as a `geom::IndexedValues<V>` by value.
///
/// (Arrays for NanoVDB's own functions start with an additional element, the background.)
#[derive(Debug, Clone, Copy)]
pub struct IndexedValues<'a, V: Interpolated> {
    values: DeviceSlice<'a, V>,
    background: V,
}

impl<'a, V: Interpolated> IndexedValues<'a, V> {
    /// Creates the values from an array, and the background.
    #[must_use]
    pub fn new(values: impl Into<DeviceSlice<'a, V>>, background: V) -> Self {
        Self { values: values.into(), background }
    }

    /// Returns the array, and the background.
    #[cfg(feature = "tape")]
    pub(crate) fn parts(&self) -> (DeviceSlice<'a, V>, V) {
        (self.values, self.background)
    }

    /// Returns the number of values in the array.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether the array is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// `geom::IndexedValues`.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub struct RawIndexedValues<V> {
    pub(crate) data: u64,
    pub(crate) count: u64,
    pub(crate) background: V,
}

// SAFETY: repr(C); LAYOUTS has it as geom::IndexedValues, of each of these.
unsafe impl<V: Interpolated> DeviceRepr for RawIndexedValues<V> {}

// SAFETY: kernels read only elements below the array's length.
unsafe impl<V: Interpolated> KernelArg for IndexedValues<'_, V> {
    type Abi = RawIndexedValues<V>;
    const TYPE: ArgType = ArgType::value::<RawIndexedValues<V>>();

    fn abi(&self) -> RawIndexedValues<V> {
        RawIndexedValues {
            data: self.values.device_ptr(),
            count: self.values.len() as u64,
            background: self.background,
        }
    }

    fn uses<U: UseVisitor>(&self, visitor: &mut U) -> Result<()> {
        read(visitor, &self.values)
    }
}

impl Volume {
    /// Samples an index grid ([`Index`] or [`OnIndex`]), whose values are in an array, as [`sample`](Self::sample)
    /// does.
    ///
    /// The array has an element for each index from 1 on. For a volume that was built on the device, only the device
    /// knows how many these are ([`counts`](Self::counts)): there any array is accepted, and an index beyond its end
    /// has the background.
    ///
    /// # Errors
    /// The volume is no index grid; it came from the host and the length of `values` differs from its number of
    /// indices, which is [`value_count`](Self::value_count) less one; `out` has another length than there are
    /// positions; otherwise if the driver returns an error.
    pub fn sample_indexed<'a, P: Real, V: Interpolated>(
        &self,
        stream: &Stream,
        samples: &Samples<'_, P>,
        interpolation: Interpolation,
        values: &IndexedValues<'_, V>,
        out: impl WriteView<'a, V>,
    ) -> Result<()> {
        self.indexed(stream, samples, interpolation, values, out.write_view(), None)
    }

    /// Samples an index grid, whose values are in an array, as [`sample_with_gradient`](Self::sample_with_gradient)
    /// does.
    ///
    /// # Errors
    /// As [`sample_indexed`](Self::sample_indexed), also for `gradients`; interpolation by the nearest voxel, which
    /// has no gradient.
    pub fn sample_indexed_with_gradient<'a, P: Real, V: Interpolated>(
        &self,
        stream: &Stream,
        samples: &Samples<'_, P>,
        interpolation: Interpolation,
        values: &IndexedValues<'_, V>,
        out: impl WriteView<'a, V>,
        gradients: impl WriteView<'a, V::Gradient>,
    ) -> Result<()> {
        let gradients = gradients.write_view();
        same_length("gradients", gradients.len(), samples.len())?;
        if interpolation == Interpolation::Nearest {
            return Err(no_gradient());
        }
        self.indexed(stream, samples, interpolation, values, out.write_view(), Some(gradients))
    }

    fn indexed<P: Real, V: Interpolated>(
        &self,
        stream: &Stream,
        samples: &Samples<'_, P>,
        interpolation: Interpolation,
        values: &IndexedValues<'_, V>,
        out: DeviceSliceMut<'_, V>,
        gradients: Option<DeviceSliceMut<'_, V::Gradient>>,
    ) -> Result<()> {
        let there = self.value_type();
        if !there.is_index() {
            let name = there.name();
            return Err(Error::invalid(format!("a volume of {name} has its own values")));
        }
        // The host does not know the count of a volume that was built on the device; no kernel reads beyond the
        // array.
        let count = values.len() as u64;
        if let Some(wanted) = self.value_count().map(|count| count.saturating_sub(1))
            && count != wanted
        {
            let what = format!("{count} values for a volume of {wanted} indices, from 1 on");
            return Err(Error::invalid(what));
        }
        same_length("values", out.len(), samples.len())?;
        let wide = is_wide(V::TYPE)? || Samples::<P>::WIDE;
        let what = (stream, samples, interpolation, values);
        match (there, wide) {
            (ValueType::Index, false) => self.indexed_in::<Index, P, V, f32>(what, out, gradients),
            (ValueType::Index, true) => self.indexed_in::<Index, P, V, f64>(what, out, gradients),
            (_, false) => self.indexed_in::<OnIndex, P, V, f32>(what, out, gradients),
            (_, true) => self.indexed_in::<OnIndex, P, V, f64>(what, out, gradients),
        }
    }

    fn indexed_in<T: VolumeValue, P: Real, V: Interpolated, C: Real>(
        &self,
        (stream, samples, interpolation, values): (
            &Stream,
            &Samples<'_, P>,
            Interpolation,
            &IndexedValues<'_, V>,
        ),
        mut out: DeviceSliceMut<'_, V>,
        mut gradients: Option<DeviceSliceMut<'_, V::Gradient>>,
    ) -> Result<()> {
        let (kernels, view) = (self.geometry().kernels::<Indexed<V, C>>()?, self.view::<T>()?);
        samples.in_parts(|part, launch, range| {
            let (out, values) = (out.slice_mut(range.clone())?, *values);
            let gradients = MaybeMut::part(&mut gradients, range)?;
            // SAFETY: there are as many elements, and gradients if any, as positions.
            unsafe {
                match interpolation {
                    Interpolation::Nearest => {
                        kernels.nearest(stream, launch, view, part, values, out)
                    }
                    Interpolation::Trilinear => {
                        kernels.trilinear(stream, launch, view, part, values, out, gradients)
                    }
                    Interpolation::Tricubic => {
                        kernels.tricubic(stream, launch, view, part, values, out, gradients)
                    }
                }
            }
        })
    }
}
