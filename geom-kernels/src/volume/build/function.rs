//! Volumes of functions that are evaluated on the host.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use cuda_safe::{DeviceBuffer, Result, Stream};
use nanovdb::ValueType;

use super::dense::{DenseArg, DenseOptions, Keep, VoxelBox, check};
use super::run::{Fill, Listed, Work};
use super::tiles::{VoxelList, finish};
use crate::GeometryKernels;
use crate::preparation::Operation;
use crate::volume::{Volume, VolumeValue};

/// The leaves that a thread processes at a time.
const ROW: usize = 64;

/// The kept leaves: their origins and values.
struct Leaves<T> {
    origins: Vec<[i32; 3]>,
    values: Vec<T>,
    /// The origins of leaves inside a band.
    inside: Vec<[i32; 3]>,
}

impl<T> Default for Leaves<T> {
    fn default() -> Self {
        Self { origins: Vec::new(), values: Vec::new(), inside: Vec::new() }
    }
}

impl Volume {
    /// Builds a volume from the values of a function at the voxels of a box, as [`from_dense`](Self::from_dense) does
    /// from an array; `options.origin` is the first voxel. The function is evaluated on the host by all its cores, leaf
    /// by leaf, and only leaves that are kept take memory.
    ///
    /// # Errors
    /// As [`from_dense`](Self::from_dense).
    ///
    /// # Panics
    /// If the function does: once all threads have ended, with the panic of one of them.
    pub fn from_fn<T: VolumeValue + Send + Sync>(
        stream: &Stream,
        geometry: &GeometryKernels,
        dims: [usize; 3],
        mut options: DenseOptions<T>,
        function: impl Fn([i32; 3]) -> T + Sync,
    ) -> Result<Self> {
        check(&options)?;
        if T::TYPE == ValueType::Mask {
            // The background of a mask means that nothing is active.
            options.volume.background = T::zeroed();
        }
        let options = &options;
        let voxels = VoxelBox::new(options.origin, dims)?;
        let leaves = evaluate(voxels, options, &function);
        let (kept, inside) = (leaves.origins.len(), leaves.inside.len());
        let n = kept + inside;
        let mut entries = leaves.origins;
        entries.extend(leaves.inside);
        let mut asks = vec![0u8; kept];
        asks.resize(n, 1);

        let entries = DeviceBuffer::from_slice(stream, &entries)?;
        let values = DeviceBuffer::from_slice(stream, &leaves.values)?;
        let operations = [Operation::VOLUME_NODES, Operation::INDEX_KEYS, Operation::DENSE_LEAVES];
        geometry.prepare_kernels(&operations)?;
        let mut work = Work::new(stream, geometry, &options.volume, n, true)?;
        work.clear(stream)?;
        let listed = Listed { list: VoxelList::from(&entries), map: options.volume.map };
        if n != 0 {
            work.upload_asks(stream, &asks)?;
            work.list_keys(stream, listed)?;
        }
        let values = values.as_slice().cast()?;
        let arg = DenseArg::new(values, voxels, options.keep).by_leaves();
        finish(stream, geometry, &options.volume, work, n, (None, Fill::Dense(arg)))
    }
}

/// Evaluates all leaves of a box, and returns those that are kept, in the order of the lattice.
fn evaluate<T: VolumeValue + Send + Sync>(
    voxels: VoxelBox,
    options: &DenseOptions<T>,
    function: &(impl Fn([i32; 3]) -> T + Sync),
) -> Leaves<T> {
    let count = voxels.lattice().count.map(|n| n as usize);
    let leaves = count.iter().product::<usize>();
    let rows = leaves.div_ceil(ROW);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(rows).max(1);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        loop {
            let row = next.fetch_add(1, Ordering::Relaxed);
            if row >= rows {
                return found;
            }
            let mut kept = Leaves::default();
            for leaf in row * ROW..leaves.min(row * ROW + ROW) {
                evaluate_leaf(voxels, options, function, leaf, &mut kept);
            }
            found.push((row, kept));
        }
    };
    let mut found = Vec::new();
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        // A panic of this thread propagates after the others have ended.
        found.extend(work());
        let joined: Vec<_> = helpers.into_iter().map(ScopedJoinHandle::join).collect();
        for theirs in joined {
            found.extend(theirs.unwrap_or_else(|panic| resume_unwind(panic)));
        }
    });
    found.sort_unstable_by_key(|(row, _)| *row);
    let mut all = Leaves::default();
    for (_, kept) in found {
        all.origins.extend(kept.origins);
        all.values.extend(kept.values);
        all.inside.extend(kept.inside);
    }
    all
}

fn evaluate_leaf<T: VolumeValue>(
    voxels: VoxelBox,
    options: &DenseOptions<T>,
    function: &impl Fn([i32; 3]) -> T,
    leaf: usize,
    kept: &mut Leaves<T>,
) {
    let lattice = voxels.lattice();
    let [_, ny, nz] = lattice.count.map(|n| n as usize);
    // Leaf numbers along an axis are below 2^22.
    let at = [leaf / nz / ny, leaf / nz % ny, leaf % nz];
    let origin = [0, 1, 2].map(|axis: usize| (lattice.first[axis] + at[axis] as i32) * 8);
    let (mut active, mut inside, mut outside) = (false, false, false);
    let begin = kept.values.len();
    for place in 0..512 {
        let local = [place >> 6, place >> 3 & 7, place & 7];
        let voxel = [0, 1, 2].map(|axis: usize| origin[axis] + local[axis]);
        let in_box = (0..3).all(|axis| {
            let distance = i64::from(voxel[axis]) - i64::from(voxels.origin[axis]);
            (0..i64::from(voxels.size[axis])).contains(&distance)
        });
        if !in_box {
            outside = true;
            kept.values.push(options.volume.background);
            continue;
        }
        let value = function(voxel);
        let (is_active, is_inside) = judge(&value, options);
        active |= is_active;
        if is_inside {
            inside = true;
        } else {
            outside = true;
        }
        kept.values.push(value);
    }
    if active || (inside && outside) {
        kept.origins.push(origin);
        return;
    }
    kept.values.truncate(begin);
    if inside {
        kept.inside.push(origin);
    }
}

/// Returns whether a value is active, and whether it is inside of a band, like `DenseField`
/// (device/geom/volume/dense.cuh).
fn judge<T: VolumeValue>(value: &T, options: &DenseOptions<T>) -> (bool, bool) {
    match options.keep {
        Keep::All => (true, false),
        Keep::Tolerance(tolerance) => (value.differs(&options.volume.background, tolerance), false),
        Keep::NarrowBand(width) => {
            let real = value.real();
            (real.abs() < width, real < 0.0)
        }
    }
}
