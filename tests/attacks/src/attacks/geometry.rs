//! Attacks on the kernels of `geom-kernels`, which are called through safe functions.

pub(crate) mod boxes;
pub(crate) mod builds;
pub(crate) mod files;
pub(crate) mod grids;
pub(crate) mod left_out;
pub(crate) mod meshes;
pub(crate) mod surfaces;
pub(crate) mod topology;
pub(crate) mod trusted;
pub(crate) mod volumes;

use cuda_safe::DeviceBuffer;
use geom_kernels::GeometryKernels;
use geom_kernels::algorithms::Algorithms;
use geom_kernels::mesh::{Mesh, MeshOptions};
use test_harness::{TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

/// Sorts with scratch memory that is one byte short, and into slices of other lengths.
///
/// - row: launching foreign code is unsafe
/// - targets: `Algorithms::with_scratch`, `GeometryKernels::algorithms`
fn scratch_that_is_too_short(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let sort = GeometryKernels::new(&lab.context()?).algorithms();
    let keys = DeviceBuffer::from_slice(&stream, &[3u32, 1, 2])?;
    let mut sorted = DeviceBuffer::<u32>::zeroed(&stream, 3)?;
    let bytes = Algorithms::keys_scratch::<u32>(3, ..)?;
    let mut scratch = DeviceBuffer::<u8>::zeroed(&stream, bytes)?;
    let short = sort.with_scratch(scratch.slice_mut(..bytes - 1)?);
    lab.refused(short.sort_keys(&stream, &keys, &mut sorted, ..), "scratch")?;
    let within = sort.with_scratch(&mut scratch);
    lab.refused(
        within.sort_keys(&stream, &keys, sorted.slice_mut(..2)?, ..),
        "the sorted keys has 2 elements, not 3",
    )?;
    within.sort_keys(&stream, &keys, &mut sorted, ..)?;
    ensure_eq!(sorted.to_vec(&stream)?, [1, 2, 3]);
    Ok(())
}

/// Builds a mesh whose faces name points that are not there.
///
/// - row: launching foreign code is unsafe
/// - targets: `Mesh::build`, `GeometryKernels::new`
fn faces_without_points(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let points =
        DeviceBuffer::from_slice(&stream, &[[0.0f32; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])?;
    for faces in [[[0u32, 1, 3]], [[0, 1, u32::MAX]]] {
        let faces = DeviceBuffer::from_slice(&stream, &faces)?;
        lab.refused(
            Mesh::build(&stream, &geometry, &points, &faces, MeshOptions::default()).map(drop),
            "face",
        )?;
    }
    ensure!(stream.synchronize().is_ok());
    Ok(())
}

attacks!["geometry", right(scratch_that_is_too_short), refused(faces_without_points),];
