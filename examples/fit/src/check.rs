//! Whether the gradient is right, and the mesh where the surface is: by the host, in f64, and by another mesh.

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::mesh::{ClosestPoint, Mesh, PointQueries, TriangleMesh};
use geom_kernels::volume::nanovdb::Grid;

use crate::shape;

type Checked<T> = Result<T, Box<dyn std::error::Error>>;

/// How far a gradient may be off, relative to the greatest of its numbers.
const TOLERANCE: f64 = 1e-3;
/// About how many points are checked.
const POINTS: usize = 200;

/// How far the mesh and the surface may be apart: the bear is 1.9 high.
const OFF: f64 = 0.03;
/// The relative difference allowed between the volumes of the mesh and the surface.
const VOLUME_OFF: f64 = 0.01;

/// The volume's value between eight voxels, by the host.
fn sample(grid: &Grid, at: [f64; 3]) -> f64 {
    let at = grid.map().apply_inverse(at);
    let low = at.map(f64::floor);
    (0..8).fold(0.0, |sum, corner| {
        let step = [corner >> 2, corner >> 1 & 1, corner & 1];
        let voxel = std::array::from_fn(|axis| low[axis] as i32 + step[axis]);
        let weight: f64 = (0..3)
            .map(|axis| {
                let part = at[axis] - low[axis];
                if step[axis] == 1 { part } else { 1.0 - part }
            })
            .product();
        sum + weight * grid.get::<f32>(voxel).map_or(f64::NAN, f64::from)
    })
}

/// Returns the part of the loss that depends on a point at `place`; `faces` are the faces with the point.
fn part(grid: &Grid, mesh: &TriangleMesh, faces: &[[u32; 3]], point: u32, place: [f64; 3]) -> f64 {
    let of = |index: u32| {
        if index == point { place } else { mesh.points[index as usize].map(f64::from) }
    };
    let middles = faces.iter().map(|face| {
        let [a, b, c] = face.map(of);
        std::array::from_fn(|axis| (a[axis] + b[axis] + c[axis]) / 3.0)
    });
    middles.chain([place]).map(|at| sample(grid, at).powi(2)).sum()
}

/// Compares the gradient of the loss of this mesh with central differences, for some of the points.
///
/// # Errors
/// By how much it differs.
pub(crate) fn gradient(grid: &Grid, mesh: &TriangleMesh, found: &[[f32; 3]]) -> Checked<()> {
    let greatest = found.iter().flatten().fold(0.0f64, |most, x| most.max(f64::from(x.abs())));
    for point in (0..mesh.points.len()).step_by((mesh.points.len() / POINTS).max(1)) {
        let (number, place) = (point as u32, mesh.points[point].map(f64::from));
        let has = |face: &&[u32; 3]| face.contains(&number);
        let faces: Vec<[u32; 3]> = mesh.faces.iter().filter(has).copied().collect();
        for axis in 0..3 {
            let side = |by: f64| {
                let mut moved = place;
                moved[axis] += by;
                part(grid, mesh, &faces, number, moved)
            };
            let (less, here, more) = (side(-1e-6), side(0.0), side(1e-6));
            let kink = TOLERANCE * greatest * 1e-6;
            if ((more - here) - (here - less)).abs() > kink {
                continue; // between two cells of the volume
            }
            let (wanted, is) = ((more - less) / 2e-6, f64::from(found[point][axis]));
            let is_near = (is - wanted).abs() <= TOLERANCE * greatest;
            // A NaN is not.
            if !is_near {
                return Err(format!(
                    "axis {axis} of the gradient of point {point} is {is}, not {wanted}"
                )
                .into());
            }
        }
    }
    Ok(())
}

/// How far two surfaces are apart.
pub(crate) struct Apart {
    /// The mesh's points from the surface, and the surface's from the mesh, at most.
    pub(crate) points: f64,
    pub(crate) surface: f64,
    /// How much larger the mesh's volume is, in parts.
    pub(crate) volume: f64,
}

/// Compares a mesh with the bear: with the function, and with a mesh of the surface in the volume.
///
/// # Errors
/// A mesh that is no longer closed; otherwise the error that the driver returns.
pub(crate) fn compare(stream: &Stream, mesh: &Mesh<'_>, surface: &Mesh<'_>) -> Checked<Apart> {
    let [report, wanted] = [mesh.report(stream)?, surface.report(stream)?];
    if !report.watertight || report.skipped_faces > 0 {
        return Err(format!("the mesh is broken: {report:?}").into());
    }
    let points = mesh.points().to_vec(stream)?;
    let off = points.iter().map(|p| shape::distance(p.map(f64::from)).abs());
    let mut closest = DeviceBuffer::<ClosestPoint>::zeroed(stream, surface.points().len())?;
    mesh.closest_points(stream, &PointQueries::at(surface.points()), &mut closest)?;
    let closest = closest.to_vec(stream)?;
    let away = closest.iter().map(|closest| f64::from(closest.distance_squared).sqrt());
    Ok(Apart {
        points: off.fold(0.0, f64::max),
        surface: away.fold(0.0, f64::max),
        volume: report.volume / wanted.volume - 1.0,
    })
}

impl Apart {
    /// Whether one sees no difference.
    pub(crate) fn is_small(&self) -> bool {
        // So written that a NaN is not.
        self.points <= OFF && self.surface <= OFF && self.volume.abs() <= VOLUME_OFF
    }
}

impl std::fmt::Display for Apart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { points, surface, volume } = self;
        write!(
            f,
            "points of the mesh are at most {points:.5} from the bear, the bear at most {surface:.5} from the \
             mesh; volumes differ by {:+.2} %",
            100.0 * volume
        )
    }
}

#[cfg(test)]
mod tests {
    use cuda_safe::{Context, Driver};
    use geom_kernels::GeometryKernels;
    use geom_kernels::mesh::{MeshOptions, shapes};

    use super::*;
    use crate::RADIUS;
    use crate::fit::Fit;

    fn software_device() -> Context {
        let driver = Driver::from_sys(cuda_emu::driver()).unwrap();
        driver.device(0).unwrap().context().unwrap()
    }

    /// By the function, and not by the volume.
    fn loss(mesh: &TriangleMesh) -> f64 {
        let corner = |index: u32| mesh.points[index as usize].map(f64::from);
        let middles = mesh.faces.iter().map(|face| {
            let [a, b, c] = face.map(corner);
            std::array::from_fn(|axis| (a[axis] + b[axis] + c[axis]) / 3.0)
        });
        let places = (0..mesh.points.len() as u32).map(corner).chain(middles);
        places.map(|at| shape::distance(at).powi(2)).sum()
    }

    #[test]
    fn the_bear_is_in_the_ball_and_distances_are_no_longer_than_they_are() {
        let ball = shapes::icosphere(4, RADIUS).unwrap();
        for (one, other) in ball.points.iter().zip(ball.points.iter().rev()) {
            let [one, other] = [one, other].map(|p| p.map(f64::from));
            assert!(shape::distance(one) > 0.0, "{one:?}");
            let way: f64 = (0..3).map(|axis| (one[axis] - other[axis]).powi(2)).sum();
            let differ = (shape::distance(one) - shape::distance(other)).abs();
            assert!(differ <= way.sqrt() + 1e-12, "{differ} from {one:?} to {other:?}");
        }
        // Above an ear, which is a ball; and in the middle of the other one.
        assert!((shape::distance([0.31, 1.2, 0.0]) - 0.245).abs() < 1e-12);
        assert!((shape::distance([-0.31, 0.8, 0.0]) + 0.155).abs() < 1e-2);
    }

    #[test]
    fn a_ball_becomes_a_bear_and_wrong_answers_are_found() {
        let context = software_device();
        let (stream, geometry) = (context.stream().unwrap(), GeometryKernels::new(&context));
        let volume = shape::make(&stream, &geometry, 48).unwrap();
        let grid = volume.download(&stream).unwrap();
        let mut mesh = shapes::icosphere(4, RADIUS).unwrap();
        let mut fit = Fit::new(&context, &geometry, &volume, &mesh).unwrap();
        fit.look().unwrap();
        let mut found = fit.gradient().unwrap();
        gradient(&grid, &mesh, &found).unwrap();
        let (first, wanted) = (fit.loss().unwrap(), loss(&mesh));
        assert!((first - wanted).abs() < 0.01 * wanted, "{first}, not {wanted}");

        // One of the checked numbers.
        let greatest = found.iter().flatten().fold(0.0f32, |most, x| most.max(x.abs()));
        found[0][1] += 2e-3 * greatest;
        gradient(&grid, &mesh, &found).unwrap_err();

        let surface = shape::surface(&stream, &geometry, &volume).unwrap();
        let compared = |mesh: &TriangleMesh| {
            let options = MeshOptions::default();
            let mesh = Mesh::upload(&stream, &geometry, mesh, options).unwrap();
            compare(&stream, &mesh, &surface)
        };
        assert!(!compared(&mesh).unwrap().is_small());
        let [first, last] = crate::descend(&mut fit, 150).unwrap();
        assert!(last < 1e-3 * first, "{last} of {first}");
        mesh.points = fit.points().unwrap();
        let apart = compared(&mesh).unwrap();
        assert!(apart.is_small(), "{apart}");

        // Inside out, without an arm, and with a hole.
        let mut wrong = mesh.clone();
        wrong.flip();
        assert!(!compared(&wrong).unwrap().is_small());
        let mut wrong = mesh.clone();
        for point in &mut wrong.points {
            point[0] = point[0].min(0.45);
        }
        assert!(!compared(&wrong).unwrap().is_small());
        mesh.faces.pop();
        assert!(compared(&mesh).is_err());
    }
}
