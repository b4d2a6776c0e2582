//! `geom_kernels::volume`.

use cuda_safe::DeviceBuffer;
use geom_kernels::Ray;
use geom_kernels::Real;
use geom_kernels::volume::nanovdb::{Grid, Map};
use geom_kernels::volume::{
    Capacity, DenseOptions, IndexedValues, Interpolated, Interpolation, Keep, Samples, Volume,
    VolumeHit, VolumeOptions, VolumeValue, VoxelList,
};

use super::{Got, Lab, Plain, Voxels, word};

pub(in super::super) const SMOOTH: [(&str, Interpolation); 2] =
    [("trilinear", Interpolation::Trilinear), ("tricubic", Interpolation::Tricubic)];

pub(in super::super) fn upload_volume(lab: &Lab, grid: &Grid) -> Got<Volume> {
    Ok(Volume::upload(&lab.stream, &lab.geometry, grid)?)
}

/// The volumes of a file of NanoVDB.
pub(in super::super) fn read_volumes(lab: &Lab, file: &[u8]) -> Got<Vec<Volume>> {
    Ok(Volume::read(&lab.stream, &lab.geometry, file)?)
}

/// How a volume is built from a list of voxels.
#[derive(Clone, Copy)]
pub(in super::super) enum From {
    Tiles,
    Voxels,
}

/// A background, a map, and room for nodes and entries if it is to be built in place.
pub(in super::super) fn volume_options<T: VolumeValue>(
    background: T,
    map: Map,
    room: Option<[u32; 4]>,
) -> VolumeOptions<T> {
    let options = VolumeOptions::new(background).map(map).name("golden");
    match room {
        Some([leaves, lower, upper, entries]) => {
            options.capacity(Capacity { leaves, lower, upper, entries })
        }
        None => options,
    }
}

pub(in super::super) fn listed_volume<'a, T: VolumeValue>(
    lab: &Lab,
    list: impl Into<VoxelList<'a>>,
    from: From,
    options: &VolumeOptions<T>,
) -> Got<Volume> {
    Ok(match from {
        From::Tiles => Volume::from_leaves(&lab.stream, &lab.geometry, list, options.clone())?,
        From::Voxels => Volume::from_voxels(&lab.stream, &lab.geometry, list, options.clone())?,
    })
}

pub(in super::super) fn valued_volume<'a, T: VolumeValue>(
    lab: &Lab,
    list: impl Into<VoxelList<'a>>,
    values: &'a DeviceBuffer<T>,
    options: &VolumeOptions<T>,
) -> Got<Volume> {
    Ok(Volume::from_voxels_with(&lab.stream, &lab.geometry, list, values, options.clone())?)
}

pub(in super::super) fn rebuild_volume<'a>(
    lab: &Lab,
    volume: &mut Volume,
    list: impl Into<VoxelList<'a>>,
    from: From,
) -> Got<()> {
    match from {
        From::Tiles => volume.rebuild_from_leaves(&lab.stream, list)?,
        From::Voxels => volume.rebuild_from_voxels(&lab.stream, list)?,
    }
    Ok(())
}

pub(in super::super) fn rebuild_valued_volume<'a, T: VolumeValue>(
    lab: &Lab,
    volume: &mut Volume,
    list: impl Into<VoxelList<'a>>,
    values: &'a DeviceBuffer<T>,
) -> Got<()> {
    Ok(volume.rebuild_from_voxels_with(&lab.stream, list, values)?)
}

/// What becomes of a dense array: everything, what differs from the background, or a band.
pub(in super::super) fn keeps(distance: f64) -> [(&'static str, Keep); 3] {
    [
        ("all", Keep::All),
        ("tolerance", Keep::Tolerance(distance)),
        ("band", Keep::NarrowBand(distance)),
    ]
}

fn dense_options<T: VolumeValue>(
    options: VolumeOptions<T>,
    origin: [i32; 3],
    keep: Keep,
) -> DenseOptions<T> {
    DenseOptions::new(options).origin(origin).keep(keep)
}

/// From an array on the device, from one on the host, and from a function that gives its values.
pub(in super::super) fn dense_volumes<T: VolumeValue + Plain + Send + Sync>(
    lab: &Lab,
    (dims, dense): ([usize; 3], &[T]),
    options: &VolumeOptions<T>,
    (origin, keep): ([i32; 3], Keep),
) -> Got<[Volume; 3]> {
    let options = dense_options(options.clone(), origin, keep);
    let (stream, geometry) = (&lab.stream, &lab.geometry);
    let there = lab.up(dense)?;
    let place = move |voxel: [i32; 3]| {
        let [x, y, z]: [usize; 3] = std::array::from_fn(|i| (voxel[i] - origin[i]) as usize);
        (x * dims[1] + y) * dims[2] + z
    };
    Ok([
        Volume::from_dense(stream, geometry, dims, &there, options.clone())?,
        Volume::from_host_dense(stream, geometry, dims, dense, options.clone())?,
        Volume::from_fn(stream, geometry, dims, options.clone(), |voxel| dense[place(voxel)])?,
    ])
}

/// Leaves, lower and upper nodes, active tiles, active voxels, values.
pub(in super::super) fn volume_counts(lab: &Lab, volume: &Volume) -> Got<Vec<u64>> {
    let counts = volume.counts(&lab.stream)?;
    let mut words = [counts.leaves, counts.lower, counts.upper].map(u64::from).to_vec();
    words.extend(counts.active_tiles.map(u64::from));
    words.extend([counts.active_voxels, counts.values]);
    Ok(words)
}

pub(in super::super) fn build_status(lab: &Lab, volume: &Volume) -> Got<Vec<u64>> {
    let status = volume.build_status(&lab.stream)?;
    let exceeded = [
        status.leaf_capacity_exceeded,
        status.lower_capacity_exceeded,
        status.upper_capacity_exceeded,
        status.is_built(),
    ];
    let counts = [status.invalid_entries, status.leaves, status.lower, status.upper];
    let mut words = exceeded.map(u64::from).to_vec();
    words.extend(counts.map(u64::from));
    words.push(status.active_voxels);
    Ok(words)
}

/// The first voxels of leaves, and the active voxels.
pub(in super::super) fn volume_lists(lab: &Lab, volume: &Volume) -> Got<(Voxels, Voxels)> {
    let (tiles, voxels) = (volume.leaf_origins(&lab.stream)?, volume.voxels(&lab.stream)?);
    Ok((lab.down(&tiles)?, lab.down(&voxels)?))
}

/// The grid's bytes as they are on the device.
pub(in super::super) fn volume_bytes(lab: &Lab, volume: &Volume) -> Got<Vec<u8>> {
    Ok(volume.download_bytes(&lab.stream)?)
}

/// The grid, with statistics and a checksum, and its number of values.
pub(in super::super) fn volume_grid(lab: &Lab, volume: &Volume) -> Got<(Vec<u8>, u64)> {
    let grid = volume.download(&lab.stream)?;
    Ok((grid.bytes().to_vec(), volume.value_count().unwrap_or(word(usize::MAX))))
}

pub(in super::super) fn to_dense<T: VolumeValue + Plain>(
    lab: &Lab,
    volume: &Volume,
    origin: [i32; 3],
    dims: [usize; 3],
) -> Got<Vec<T>> {
    lab.filled(dims.iter().product(), |out| volume.to_dense(&lab.stream, origin, dims, out))
}

/// Values of voxels, and whether they are active.
pub(in super::super) fn looked_up<T: VolumeValue + Plain>(
    lab: &Lab,
    volume: &Volume,
    voxels: &DeviceBuffer<[i32; 3]>,
) -> Got<(Vec<T>, Vec<u8>)> {
    Ok((
        lab.filled(voxels.len(), |out| volume.lookup(&lab.stream, voxels, out))?,
        lab.filled(voxels.len(), |out| volume.is_active(&lab.stream, voxels, out))?,
    ))
}

/// How many values were refused.
pub(in super::super) fn store<T: VolumeValue>(
    lab: &Lab,
    volume: &mut Volume,
    voxels: &DeviceBuffer<[i32; 3]>,
    values: &DeviceBuffer<T>,
) -> Got<Vec<u64>> {
    // The call adds to it.
    let mut refused = lab.up(&[0u64])?;
    volume.store(&lab.stream, voxels, values, &mut refused)?;
    lab.down(&refused)
}

pub(in super::super) fn samples<P: Real>(
    points: &DeviceBuffer<[P; 3]>,
    in_world: bool,
) -> Samples<'_, P> {
    if in_world { Samples::world(points) } else { Samples::index(points) }
}

pub(in super::super) fn nearest_samples<P: Real, T: VolumeValue + Plain>(
    lab: &Lab,
    volume: &Volume,
    at: &Samples<'_, P>,
) -> Got<Vec<T>> {
    lab.filled(at.len(), |out| volume.sample(&lab.stream, at, Interpolation::Nearest, out))
}

/// Values by the call for them alone, and values with gradients.
pub(in super::super) type Sampled<T> = (Vec<T>, Vec<T>, Vec<<T as Interpolated>::Gradient>);

pub(in super::super) fn sampled<P: Real, T: Interpolated + Plain>(
    lab: &Lab,
    volume: &Volume,
    at: &Samples<'_, P>,
    how: Interpolation,
) -> Got<Sampled<T>> {
    let (n, stream) = (at.len(), &lab.stream);
    let alone = lab.filled(n, |out| volume.sample(stream, at, how, out))?;
    let (values, gradients) = lab.filled_both((n, n), |values, gradients| {
        volume.sample_with_gradient(stream, at, how, values, gradients)
    })?;
    Ok((alone, values, gradients))
}

/// Values of an array that a volume of indices leads to: the nearest, and others with gradients.
pub(in super::super) fn indexed<P: Real, T: Interpolated + Plain>(
    lab: &Lab,
    volume: &Volume,
    (at, how): (&Samples<'_, P>, Interpolation),
    (values, background): (&DeviceBuffer<T>, T),
) -> Got<[Vec<T>; 3]> {
    let (n, stream) = (at.len(), &lab.stream);
    let array = IndexedValues::new(values, background);
    let nearest = Interpolation::Nearest;
    let nearest = lab.filled(n, |out| volume.sample_indexed(stream, at, nearest, &array, out))?;
    let alone = lab.filled(n, |out| volume.sample_indexed(stream, at, how, &array, out))?;
    let (values, _) = lab.filled_both::<T, T::Gradient>((n, n), |values, gradients| {
        volume.sample_indexed_with_gradient(stream, at, how, &array, values, gradients)
    })?;
    Ok([nearest, alone, values])
}

pub(in super::super) fn indexed_gradients<P: Real, T: Interpolated + Plain>(
    lab: &Lab,
    volume: &Volume,
    (at, how): (&Samples<'_, P>, Interpolation),
    (values, background): (&DeviceBuffer<T>, T),
) -> Got<Vec<T::Gradient>> {
    let array = IndexedValues::new(values, background);
    let (_, gradients) =
        lab.filled_both::<T, T::Gradient>((at.len(), at.len()), |values, gradients| {
            volume.sample_indexed_with_gradient(&lab.stream, at, how, &array, values, gradients)
        })?;
    Ok(gradients)
}

/// Positions, directions and gradients, each to the world and from it.
pub(in super::super) fn mapped<P: Real>(
    lab: &Lab,
    volume: &Volume,
    from: &DeviceBuffer<[P; 3]>,
) -> Got<[Vec<P>; 6]>
where
    [P; 3]: Plain,
{
    let (n, stream) = (from.len(), &lab.stream);
    let all = [
        lab.filled(n, |to| volume.index_to_world(stream, from, to))?,
        lab.filled(n, |to| volume.world_to_index(stream, from, to))?,
        lab.filled(n, |to| volume.index_to_world_directions(stream, from, to))?,
        lab.filled(n, |to| volume.world_to_index_directions(stream, from, to))?,
        lab.filled(n, |to| volume.index_to_world_gradients(stream, from, to))?,
        lab.filled(n, |to| volume.world_to_index_gradients(stream, from, to))?,
    ];
    Ok(all.map(Vec::into_flattened))
}

/// First crossings of a value, and integrals.
pub(in super::super) fn marched(
    lab: &Lab,
    volume: &Volume,
    rays: &DeviceBuffer<Ray>,
    iso: f64,
) -> Got<(Vec<VolumeHit>, Vec<f32>)> {
    Ok((
        lab.filled(rays.len(), |out| volume.first_crossings(&lab.stream, rays, iso, out))?,
        lab.filled(rays.len(), |out| volume.integrals(&lab.stream, rays, out))?,
    ))
}
