//! Whether the mesh is closed, and encloses as much as the field does.

use geom_kernels::mesh::MeshReport;
use geom_kernels::volume::nanovdb::Grid;
use rayon::prelude::*;

use crate::field::Field;

/// Points along the edge of a cell that are counted.
const PLACES: u32 = 4;

/// By what part volumes may differ.
const TOLERANCE: f64 = 0.01;

/// Describes a mesh whose faces should enclose this volume, to 1 % or as if they were `off` by that.
///
/// # Errors
/// It is open, or encloses another one.
pub(crate) fn check(report: &MeshReport, counted: f64, off: f64) -> Result<String, String> {
    if !report.watertight {
        return Err(format!(
            "the mesh is not closed: {} edges of one face, {} of more than two, {} of faces turned around",
            report.boundary_edges, report.non_manifold_edges, report.inconsistent_edges
        ));
    }
    let volume = report.volume;
    // Written so that a NaN is refused.
    let is_near = (volume - counted).abs() <= (TOLERANCE * counted).max(off * report.area);
    if !is_near {
        return Err(format!("the mesh encloses {volume}, but the field {counted}"));
    }
    let differs = 100.0 * (volume / counted - 1.0);
    Ok(format!("it encloses {volume:.5}; counted in the field {counted:.5}: {differs:+.2} %"))
}

/// The volume inside, by counting: whole cells between eight voxels, and of those that the surface passes some
/// points, at which the field is linear along each axis.
pub(crate) fn volume(grid: &Grid, field: &Field) -> f64 {
    let [nx, ny, nz] = field.dims;
    let plane = |x: usize| -> Vec<f64> {
        let voxel = |i: usize| {
            let at = [x, i / nz, i % nz];
            let at = [0, 1, 2].map(|axis: usize| field.origin[axis] + at[axis] as i32);
            grid.get::<f32>(at).map_or(f64::NAN, f64::from)
        };
        (0..ny * nz).map(voxel).collect()
    };
    let slab = |x: usize| -> u64 {
        let planes = [plane(x), plane(x + 1)];
        let cells = (0..ny - 1).flat_map(|y| (0..nz - 1).map(move |z| [y, z]));
        let points = cells.map(|[y, z]| {
            let row = y * nz + z;
            let corners = planes.each_ref().map(|p| [row, row + nz].map(|i| [p[i], p[i + 1]]));
            u64::from(points_inside(field, corners, [x, y, z]))
        });
        points.sum()
    };
    let points: u64 = (0..nx - 1).into_par_iter().map(slab).sum();
    let [[a, b, c], [d, e, f], [g, h, i]] = grid.map().matrix();
    let cell = (a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)).abs();
    points as f64 / f64::from(PLACES.pow(3)) * cell
}

/// How many of a cell's points are inside.
fn points_inside(field: &Field, corners: [[[f64; 2]; 2]; 2], cell: [usize; 3]) -> u32 {
    let inside = corners.as_flattened().as_flattened().iter().filter(|x| field.is_inside(**x));
    match inside.count() {
        0 => return 0,
        8 => return PLACES.pow(3),
        _ => {}
    }
    // The points are moved at random, or planes along the axes would be off by the same in all cells.
    let mut seed = cell.iter().fold(42u64, |seed, i| mmix(seed ^ *i as u64));
    let shift = [(); 3].map(|()| {
        seed = mmix(seed);
        (seed >> 11) as f64 / (1u64 << 53) as f64
    });
    let place = |n: u32, axis: usize| (f64::from(n) + shift[axis]) / f64::from(PLACES);
    let lerp = |[a, b]: [f64; 2], t: f64| a + t * (b - a);
    let mut count = 0;
    for n in 0..PLACES.pow(3) {
        let [x, y, z] = [n / PLACES.pow(2), n / PLACES % PLACES, n % PLACES];
        let along_y = corners.map(|rows| rows.map(|row| lerp(row, place(z, 2))));
        let along_x = along_y.map(|row| lerp(row, place(y, 1)));
        count += u32::from(field.is_inside(lerp(along_x, place(x, 0))));
    }
    count
}

/// D. Knuth, MMIX; its low bits are poor, so the high ones are mixed in.
fn mmix(seed: u64) -> u64 {
    let next = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    next ^ (next >> 29)
}

#[cfg(test)]
mod tests {
    use geom_kernels::volume::nanovdb::{Builder, Map};

    use super::*;

    #[test]
    fn open_and_wrong_meshes_are_found() {
        let cube = MeshReport { watertight: true, volume: 8.0, area: 24.0, ..Default::default() };
        check(&cube, 8.0, 0.0).unwrap();
        check(&cube, 7.93, 0.0).unwrap();
        check(&cube, 7.9, 0.0).unwrap_err();
        check(&cube, 7.9, 0.01).unwrap();
        check(&cube, 8.1, 0.0).unwrap_err();
        check(&cube, -8.0, 0.0).unwrap_err();
        check(&cube, f64::NAN, 0.01).unwrap_err();
        check(&MeshReport { volume: f64::NAN, ..cube }, 8.0, 0.01).unwrap_err();
        let open = MeshReport { watertight: false, boundary_edges: 3, ..cube };
        assert!(check(&open, 8.0, 0.0).unwrap_err().contains("3 edges of one face"));
    }

    /// Behind a tilted plane in a box of tilted voxels: of linear numbers, so that only counting is off.
    #[test]
    fn points_are_counted_where_they_lie() {
        let map =
            Map::affine([[0.5, 0.0, 0.0], [0.1, -0.25, 0.0], [0.0, 0.3, 2.0]], [7.0; 3]).unwrap();
        for sign in [1.0f32, -1.0] {
            // So far outside that the surface is close to the box.
            let mut builder = Builder::<f32>::new(1e7 * sign);
            builder.map(map);
            for i in 0..20i32.pow(3) {
                let voxel = [i / 400 - 5, i / 20 % 20, i % 20 + 100];
                let [x, y, z] = voxel.map(|x| x as f32);
                builder.set(voxel, sign * (x + 0.5 * y + 0.25 * (z - 100.0) - 7.3));
            }
            let grid = builder.build().unwrap();
            let field = Field::new(&grid, 0.0).unwrap();
            assert_eq!((field.origin, field.dims), ([-6, -1, 99], [22; 3]));
            let volume = volume(&grid, &field);
            // In the cells between voxels, by columns along x.
            let n = 200u32;
            let mut inside = 0.0;
            for i in 0..n.pow(2) {
                let [y, z] = [i / n, i % n].map(|k| 19.0 * (f64::from(k) + 0.5) / f64::from(n));
                inside +=
                    (12.3 - 0.5 * y - 0.25 * z).clamp(0.0, 19.0) * (19.0 / f64::from(n)).powi(2);
            }
            let ratio = volume / (inside * 0.25);
            assert!((ratio - 1.0).abs() < 2e-3, "{ratio}");
        }
    }
}
