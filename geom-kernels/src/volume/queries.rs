//! Voxels: their values, whether they are active, and writing them.

use cuda_safe::{DeviceSlice, DeviceSliceMut, Error, Result, Stream, WriteView};

use nanovdb::ValueType;

use super::kernels::{Active, Lookup, Store};
use super::samples::BLOCK;
use super::value::{Bool, Index, Mask, OnIndex};
use super::{Volume, VolumeValue};
use crate::lengths::{in_parts, same_length};
use crate::part::enqueues;

impl Volume {
    /// Looks up the value of each voxel, active or not; the background where nothing is stored. For index grids the
    /// value is the index.
    ///
    /// # Errors
    /// `values` is of another type than the volume's, or has another length than `voxels`; otherwise if the
    /// driver returns an error.
    pub fn lookup<'a, T: VolumeValue>(
        &self,
        stream: &Stream,
        voxels: impl Into<DeviceSlice<'a, [i32; 3]>>,
        values: impl WriteView<'a, T>,
    ) -> Result<()> {
        let (view, voxels, mut values) = (self.view::<T>()?, voxels.into(), values.write_view());
        same_length("values", values.len(), voxels.len())?;
        let kernels = self.geometry().kernels::<Lookup>()?;
        in_parts(voxels.len(), BLOCK, |range, n, launch| {
            let (voxels, values) = (voxels.slice(range.clone())?, values.slice_mut(range)?);
            kernels.lookup(stream, launch, view, voxels, n, values)
        })
    }

    /// Finds whether each voxel is active, itself or as part of a tile.
    ///
    /// # Errors
    /// `active` has another length than `voxels`; otherwise if the driver returns an error.
    pub fn is_active<'a>(
        &self,
        stream: &Stream,
        voxels: impl Into<DeviceSlice<'a, [i32; 3]>>,
        active: impl WriteView<'a, u8>,
    ) -> Result<()> {
        let (voxels, active) = (voxels.into(), active.write_view());
        same_length("answers", active.len(), voxels.len())?;
        // Value types of the same layout share kernels; only the host knows the type.
        match self.value_type() {
            ValueType::F32 | ValueType::I32 | ValueType::U32 | ValueType::Rgba8 => {
                self.active_as::<u32>(stream, voxels, active)
            }
            ValueType::F64 | ValueType::I64 => self.active_as::<i64>(stream, voxels, active),
            ValueType::I16 => self.active_as::<i16>(stream, voxels, active),
            ValueType::U8 => self.active_as::<u8>(stream, voxels, active),
            ValueType::Vec3F => self.active_as::<[f32; 3]>(stream, voxels, active),
            ValueType::Vec3D => self.active_as::<[f64; 3]>(stream, voxels, active),
            ValueType::Vec4F => self.active_as::<[f32; 4]>(stream, voxels, active),
            ValueType::Vec4D => self.active_as::<[f64; 4]>(stream, voxels, active),
            ValueType::Bool => self.active_as::<Bool>(stream, voxels, active),
            ValueType::Mask => self.active_as::<Mask>(stream, voxels, active),
            ValueType::Index => self.active_as::<Index>(stream, voxels, active),
            ValueType::OnIndex => self.active_as::<OnIndex>(stream, voxels, active),
        }
    }

    /// Finds whether voxels are active, in a volume whose values have the layout of `T`.
    fn active_as<T: VolumeValue>(
        &self,
        stream: &Stream,
        voxels: DeviceSlice<'_, [i32; 3]>,
        mut active: DeviceSliceMut<'_, u8>,
    ) -> Result<()> {
        let kernels = self.geometry().kernels::<Active>()?;
        in_parts(voxels.len(), BLOCK, |range, n, launch| {
            let (voxels, active) = (voxels.slice(range.clone())?, active.slice_mut(range)?);
            // SAFETY: the caller's promise.
            unsafe { kernels.active(stream, launch, self.any_view::<T>(), voxels, n, active) }
        })
    }

    /// Stores the values of voxels that lie in leaves, and writes to `refused[0]` how many voxels do not: voxels of
    /// tiles and those outside stay unchanged. Voxels don't become active, except those of a mask, which have no
    /// other value.
    ///
    /// A voxel that is in the list twice gets one of its values; each component of a vector may come from a different
    /// one.
    ///
    /// The grid's stored minima, maxima and averages are not updated.
    ///
    /// # Errors
    /// `values` has another type than the volume's, or another length than `voxels`; `refused` does not have one
    /// element; the volume is an index grid; otherwise if the driver returns an error.
    pub fn store<'a, T: VolumeValue>(
        &mut self,
        stream: &Stream,
        voxels: impl Into<DeviceSlice<'a, [i32; 3]>>,
        values: impl Into<DeviceSlice<'a, T>>,
        refused: impl WriteView<'a, u64>,
    ) -> Result<()> {
        let (voxels, values, mut refused): (_, DeviceSlice<'_, T>, _) =
            (voxels.into(), values.into(), refused.write_view());
        self.check_type(T::TYPE)?;
        if T::TYPE.is_index() {
            let name = T::TYPE.name();
            return Err(Error::invalid(format!("a volume of {name} has no values to be stored")));
        }
        let (n, wanted) = (values.len(), voxels.len());
        if n != wanted {
            return Err(Error::invalid(format!("{n} values for {wanted} voxels")));
        }
        same_length("counts", refused.len(), 1)?;
        let kernels = self.geometry().kernels::<Store>()?;
        // The lock keeps out graphs that use `refused` between the two.
        enqueues(stream, [refused.allocation()]).run(|| {
            refused.fill(stream, 0)?;
            in_parts(voxels.len(), BLOCK, |range, n, launch| {
                let (voxels, values) = (voxels.slice(range.clone())?, values.slice(range)?);
                kernels.store(
                    stream,
                    launch,
                    self.view_mut::<T>()?,
                    voxels,
                    n,
                    values,
                    &mut refused,
                )
            })
        })
    }
}
