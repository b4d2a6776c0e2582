//! Voxels: their values, whether they are active, and writing them.

use cuda_safe::{DeviceSlice, Error, Result, Stream, WriteView};

use super::samples::in_parts;
use super::{Volume, VolumeValue};
use crate::Flag;
use crate::lengths::same_length;
use crate::part::enqueues;

impl Volume {
    /// The value of each voxel: of an inactive one too, and the background where nothing is stored. Of index
    /// grids it is the index.
    ///
    /// # Errors
    /// `values` is of another type than the volume's, or has another length than `voxels`; otherwise what the
    /// driver answered.
    pub fn lookup<'a, 'b, T: VolumeValue>(
        &self,
        stream: &Stream,
        voxels: impl Into<DeviceSlice<'a, [i32; 3]>>,
        values: impl WriteView<'b, T>,
    ) -> Result<()> {
        let (view, voxels, mut values) = (self.view::<T>()?, voxels.into(), values.write_view());
        same_length("values", values.len(), voxels.len())?;
        let kernel = self.lookup_kernel()?;
        in_parts(voxels.len(), |range, launch| {
            let n = range.len() as u32;
            let args = (view, voxels.slice(range.clone())?, n, values.slice_mut(range)?);
            // SAFETY: reads n voxels and writes n values of the volume's type.
            unsafe { kernel.launch(stream, launch, args) }
        })
    }

    /// Whether each voxel is active, itself or as part of a tile.
    ///
    /// # Errors
    /// `active` has another length than `voxels`; otherwise what the driver answered.
    pub fn is_active<'a, 'b>(
        &self,
        stream: &Stream,
        voxels: impl Into<DeviceSlice<'a, [i32; 3]>>,
        active: impl WriteView<'b, Flag>,
    ) -> Result<()> {
        let (voxels, mut active) = (voxels.into(), active.write_view());
        same_length("answers", active.len(), voxels.len())?;
        let kernel = self.active_kernel()?;
        in_parts(voxels.len(), |range, launch| {
            let n = range.len() as u32;
            let args = (self.any_view(), voxels.slice(range.clone())?, n, active.slice_mut(range)?);
            // SAFETY: the kernel is that of the volume's type; reads n voxels and writes n answers.
            unsafe { kernel.launch(stream, launch, args) }
        })
    }

    /// Writes the values of voxels that lie in leaves, and to `refused[0]` how many do not: voxels of tiles and
    /// those outside stay as they are. Voxels don't become active by that, except those of a mask, which have no
    /// other value.
    ///
    /// A voxel that is in the list twice gets one of its values. Of vectors, each component is that of one of its
    /// values, and not always of the same one.
    ///
    /// What the grid stores of minima, maxima and averages stays as it was.
    ///
    /// # Errors
    /// `values` is of another type than the volume's, or has another length than `voxels`; `refused` has not one
    /// element; the volume is one of indices; otherwise what the driver answered.
    pub fn store<'a, 'b, 'c, T: VolumeValue>(
        &mut self,
        stream: &Stream,
        voxels: impl Into<DeviceSlice<'a, [i32; 3]>>,
        values: impl Into<DeviceSlice<'b, T>>,
        refused: impl WriteView<'c, u64>,
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
        let kernel = self.store_kernel()?.clone();
        // Nobody's graph counts between the two.
        enqueues(stream, [refused.allocation()]).run(|| {
            refused.fill(stream, 0)?;
            in_parts(voxels.len(), |range, launch| {
                let n = range.len() as u32;
                let (voxels, values) = (voxels.slice(range.clone())?, values.slice(range)?);
                let args = (self.view_mut::<T>()?, voxels, n, values, refused.slice_mut(..)?);
                // SAFETY: reads n voxels and values, writes values of voxels in leaves of the volume by relaxed
                // stores, which don't race with each other, and adds to the count.
                unsafe { kernel.launch(stream, launch, args) }
            })
        })
    }
}
