//! From a volume to a mesh, on the device.

use cuda_safe::{Error, Result, Stream};
use example_common::time;
use geom_kernels::GeometryKernels;
use geom_kernels::isosurface::{MarchingCubes, VolumeField};
use geom_kernels::mesh::{Mesh, MeshOptions, TriangleMesh};
use geom_kernels::volume::Volume;

use crate::field::Field;

/// A surface, for queries and to be saved, turned outwards.
pub(crate) struct Surface {
    pub(crate) host: TriangleMesh,
    pub(crate) mesh: Mesh<'static>,
    /// How long it took, in words.
    pub(crate) times: String,
}

/// Finds the surface; times are of so many runs.
pub(crate) fn find(
    stream: &Stream,
    geometry: &GeometryKernels,
    volume: &Volume,
    field: &Field,
    runs: usize,
) -> Result<Surface> {
    let (iso, cubes) = (field.iso, MarchingCubes::new(geometry));
    let (copy, blocks) = time(stream, runs, || VolumeField::build(stream, geometry, volume))?;
    if !blocks.is_complete() {
        return Err(Error::invalid("a volume with parts that no surface is found in"));
    }
    let (extract, found) = time(stream, runs, || cubes.extract(stream, &blocks, iso))?;
    if found.counts.faces == 0 {
        return Err(Error::invalid(format!("the field is nowhere {iso}")));
    }

    // With topology, for the normals of vertices.
    let options = MeshOptions::default().topology();
    let mut host = found.download(stream)?;
    let mut mesh = if field.is_greater_inside {
        // Faces are turned to where numbers are greater.
        host.flip();
        Mesh::upload(stream, geometry, &host, options)?
    } else {
        found.into_mesh(stream, geometry, options)?
    };
    let (build, ()) = time(stream, runs, || mesh.rebuild(stream))?;
    let times = format!(
        "{} blocks in {copy:.2} ms, the surface in {extract:.2} ms, hierarchy and normals in {build:.2} ms",
        blocks.blocks()
    );
    Ok(Surface { host, mesh, times })
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use cuda_safe::Driver;
    use geom_kernels::volume::nanovdb::{Builder, Grid, GridClass, Map};

    use super::*;
    use crate::{blobs, check};

    fn on_software_device(
        test: impl FnOnce(&Stream, &GeometryKernels) -> std::result::Result<(), Box<dyn Error>>,
    ) {
        let driver = Driver::from_sys(cuda_emu::driver()).unwrap();
        let context = driver.device(0).unwrap().context().unwrap();
        test(&context.stream().unwrap(), &GeometryKernels::new(&context)).unwrap();
    }

    #[test]
    fn drops_are_closed_and_as_large_as_counted() {
        on_software_device(|stream, geometry| {
            let volume = blobs::make(stream, geometry, 48)?;
            let grid = volume.download(stream)?;
            let field = Field::new(&grid, 0.5)?;
            let report = find(stream, geometry, &volume, &field, 1)?.mesh.report(stream)?;
            check::check(&report, check::volume(&grid, &field), 0.0)?;
            // Drops that reach farther by a tenth of a voxel are others.
            let wider = check::volume(&grid, &Field::new(&grid, 0.45)?);
            check::check(&report, wider, 0.0).unwrap_err();
            let nowhere = find(stream, geometry, &volume, &Field::new(&grid, 1e3)?, 1);
            assert!(nowhere.is_err_and(|error| error.to_string().contains("nowhere")));
            Ok(())
        });
    }

    /// A ball of distances, or with a minus of depths, in voxels of a quarter.
    pub(crate) fn ball(middle: [f64; 3], radius: f64, sign: f64) -> Grid {
        let mut builder = Builder::<f32>::new(sign as f32);
        let map = Map::uniform(0.25, [10.0, -20.0, 30.0]).unwrap();
        builder.map(map).class(GridClass::LEVEL_SET);
        for i in 0..48i32.pow(3) {
            let voxel = [i / 48 / 48 - 17, i / 48 % 48 - 40, i % 48 - 3];
            let at = map.apply(voxel.map(f64::from));
            let squared: f64 = (0..3).map(|axis| (at[axis] - middle[axis]).powi(2)).sum();
            builder.set(voxel, (sign * (squared.sqrt() - radius)) as f32);
        }
        builder.build().unwrap()
    }

    #[test]
    fn a_ball_lies_where_the_map_says() {
        let (middle, radius) = ([11.0, -24.5, 35.0], 4.0);
        for sign in [1.0, -1.0] {
            on_software_device(|stream, geometry| {
                let grid = ball(middle, radius, sign);
                let volume = Volume::upload(stream, geometry, &grid)?;
                let field = Field::new(&grid, 0.0)?;
                assert_eq!(field.is_greater_inside, sign < 0.0);
                let Surface { host, mesh, .. } = find(stream, geometry, &volume, &field, 1)?;
                let (report, exact) = (mesh.report(stream)?, radius.powi(3) * 4.18879);
                check::check(&report, exact, 0.0)?;
                assert_eq!(report.euler_characteristic, 2);
                assert_eq!(host.volume().signum(), 1.0);
                for point in &host.points {
                    let squared: f64 =
                        (0..3).map(|axis| (f64::from(point[axis]) - middle[axis]).powi(2)).sum();
                    let off = squared.sqrt() - radius;
                    // A voxel's distances are linear but for its square over 8 radii.
                    assert!(off.abs() < 0.25 * 0.25 / 8.0 / radius * 1.1, "{off}");
                }
                Ok(())
            });
        }
    }
}
