//! Copies of a volume's values and bytes.

use cuda_safe::{Error, Result, Stream, WriteView};

use super::dense::{Dense, DenseArg, VoxelBox};
use super::layout::RawNodes;
use super::run::leaf_blocks;
use crate::volume::{Volume, VolumeValue};

impl Volume {
    /// Downloads the grid's bytes from the device, including boxes, counts and the unused capacity. A grid that was
    /// built on the device has no statistics of values and no checksum. See [`download`](Self::download). Waits.
    ///
    /// # Errors
    /// As [`counts`](Self::counts).
    pub fn download_bytes(&self, stream: &Stream) -> Result<Vec<u8>> {
        let memory = self.memory()?;
        self.check_built(stream)?;
        memory.slice(..self.length())?.to_vec(stream)
    }

    /// Copies the values of a box of voxels, active or not, to an array: `dense[(x * ny + y) * nz + z]` becomes the
    /// value of `origin + (x, y, z)`, with `dims` = `[nx, ny, nz]`. Where nothing is stored it is the background; for
    /// indices and masks, the result of a lookup. The call can be recorded in a graph.
    ///
    /// # Errors
    /// Values of another type; `dense` has another length than the box has voxels; a box that exceeds the range from
    /// -2^23 to below 2^23 or touches 2^31 leaves or more; otherwise if the kernels cannot be loaded, or the driver
    /// returns an error.
    pub fn to_dense<'a, T: VolumeValue>(
        &self,
        stream: &Stream,
        origin: [i32; 3],
        dims: [usize; 3],
        dense: impl WriteView<'a, T>,
    ) -> Result<()> {
        self.check_type(T::TYPE)?;
        let voxels = VoxelBox::new(origin, dims)?;
        let dense = dense.write_view();
        if dense.len() != voxels.len() {
            let n = dense.len();
            return Err(Error::invalid(format!("room for {n} values of a box of {dims:?} voxels")));
        }
        if dense.is_empty() {
            return Ok(());
        }
        let arg = DenseArg::of_box(voxels);
        let n = arg.lattice_len();
        let (kernels, nodes) = (self.geometry().kernels::<Dense>()?, RawNodes::of(T::TYPE));
        let (root, lattice, dense) = (self.root_part()?, arg.lattice(), dense.cast_mut::<u8>()?);
        // SAFETY: all distances in the volume lead to nodes, and there are as many values as the box has.
        unsafe {
            kernels.to_dense(stream, leaf_blocks(n), nodes, root, &arg, lattice, n as u32, dense)
        }
    }
}
