//! Rays that are easy to get wrong.

use geom_kernels::mesh::Ray;

use super::inputs::{Around, Input};
use super::{sub, wide};
use test_harness::Rng;

/// Rays around a mesh.
pub(super) fn rays(rng: &mut Rng, input: &Input, n: usize) -> Vec<Ray> {
    let around = Around::new(input);
    let mut bounded = || {
        let ray = ray(rng, input, &around);
        // The oracle asks as much of directions as of points.
        let most = 2f32.powi(60);
        Ray { direction: ray.direction.map(|x| x.clamp(-most, most)), ..ray }
    };
    (0..n).map(|_| bounded()).collect()
}

fn ray(rng: &mut Rng, input: &Input, around: &Around<'_>) -> Ray {
    let origin = around.point(rng);
    let narrow = |p: [f64; 3]| p.map(|x| x as f32);
    let random = [0; 3].map(|_: i32| rng.float());
    match rng.below(12) {
        0..4 => Ray::new(origin, random),
        // At a vertex, an edge or a face, as well as the direction can be given.
        4..7 => Ray::new(origin, narrow(sub(around.on(rng), wide(origin)))),
        // Along an axis, or in a plane across one.
        7 => {
            let mut direction = [0.0, -0.0, 0.0];
            direction[rng.below(3)] = [1.0, -1.0, 2.5][rng.below(3)];
            Ray::new(origin, direction)
        }
        8 => {
            let mut direction = random;
            direction[rng.below(3)] = [0.0, -0.0, 1e-30][rng.below(3)];
            Ray::new(origin, direction)
        }
        // Along an edge.
        9 => {
            let face = input.mesh.faces.get(rng.below(input.mesh.faces.len().max(1)));
            let corner =
                |k: usize| face.and_then(|face| input.mesh.points.get(face[k] as usize)).copied();
            match (corner(0), corner(1)) {
                (Some(a), Some(b)) => {
                    let along: [f32; 3] = std::array::from_fn(|i| b[i] - a[i]);
                    Ray::new(std::array::from_fn(|i| a[i] - along[i]), along)
                }
                _ => Ray::new(origin, random),
            }
        }
        // From the mesh itself.
        10 => Ray::new(narrow(around.on(rng)), random),
        _ => Ray::segment(origin, around.point(rng)),
    }
}

/// The ray as the oracle takes it. A negative `t_min` is 0 to the device.
pub(super) fn to_oracle(ray: &Ray) -> geom_oracle::Ray {
    geom_oracle::Ray {
        origin: ray.origin,
        direction: ray.direction,
        t_min: ray.t_min.max(0.0),
        t_max: ray.t_max,
    }
}
