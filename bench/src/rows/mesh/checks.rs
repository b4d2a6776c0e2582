//! Comparisons of results with the oracle in f64.

use cuda_safe::vector::Float3;
use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::mesh::{ClosestPoint, NO_FACE, RayHit, Sign, TriangleMesh};
use geom_kernels::{Aabb, Ray};
use geom_oracle::{Mesh, Nearest};
use rayon::prelude::*;

use super::State;
use crate::replay::{CALLS, SETS};
use crate::stop::Stop;

/// Results of each set that are compared: more than 10,000 in all.
const COMPARED: usize = 3000;

/// The tolerance for the rounding of a ray: see `Mesh::nearest_certain`.
const TOLERANCE: f64 = 1e-5;

pub(super) struct Checks {
    oracle: Mesh,
    boxes: Vec<Aabb<f32>>,
    /// The diagonal of the mesh's box.
    size: f64,
}

impl Checks {
    pub(super) fn new(mesh: &TriangleMesh) -> Self {
        let around = |face: &[u32; 3]| {
            let mut all = Aabb::<f32>::EMPTY;
            for point in face.iter().filter_map(|i| mesh.points.get(*i as usize)) {
                all.lower = std::array::from_fn(|axis| all.lower[axis].min(point[axis]));
                all.upper = std::array::from_fn(|axis| all.upper[axis].max(point[axis]));
            }
            all
        };
        let size = mesh.bounds().map_or(0.0, |bounds| {
            (0..3).map(|i| f64::from(bounds.upper[i] - bounds.lower[i]).powi(2)).sum::<f64>().sqrt()
        });
        let oracle = Mesh::new(&mesh.points, &mesh.faces);
        Self { oracle, boxes: mesh.faces.iter().map(around).collect(), size }
    }

    /// How much the distance to q may be off.
    fn bound(&self, q: [f32; 3]) -> f64 {
        let length = q.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        4.0 * f64::from(f32::EPSILON) * (length + self.size)
    }

    /// The greatest error of some distances, as a part of what is allowed.
    fn errors(
        &self,
        points: &[[f32; 3]],
        distance: impl Fn(usize) -> f64 + Sync,
    ) -> Result<f64, Stop> {
        let step = (points.len() / COMPARED).max(1);
        let error = |i: usize| {
            let q = points[i];
            let Some(best) = self.oracle.closest(q.map(f64::from)) else {
                return Err(Stop::failed("the oracle finds nothing"));
            };
            let (found, part) = (distance(i), self.bound(q));
            let error = (found - best.distance).abs() / part;
            // So written that a NaN is wrong.
            let right = error <= 1.0;
            if right {
                return Ok(error);
            }
            Err(Stop::failed(format!("{q:?}: {found}, not {}", best.distance)))
        };
        let chosen: Vec<usize> = (0..points.len()).step_by(step).collect();
        let errors: Vec<f64> = chosen.into_par_iter().map(error).collect::<Result<_, Stop>>()?;
        Ok(errors.into_iter().fold(0.0, f64::max))
    }

    pub(super) fn closest(
        &self,
        stream: &Stream,
        state: &State,
        sets: &[Vec<[f32; 3]>],
        sign: Option<Sign>,
    ) -> Result<String, Stop> {
        let (mut mean, mut worst, mut count) = (0.0, 0.0f64, 0);
        for (points, closest) in sets.iter().zip(&state.closest) {
            let closest: Vec<ClosestPoint> = closest.to_vec(stream)?;
            let distance = |i: usize| f64::from(closest[i].distance_squared).sqrt();
            mean += (0..closest.len()).map(distance).sum::<f64>() / closest.len() as f64;
            worst = worst.max(self.errors(points, distance)?);
            count += points.len();
        }
        let mean = mean / sets.len() as f64;
        let text = format!(
            "mean distance {mean:.4}, {} of {count} distances right, worst {worst:.2} of the bound",
            COMPARED * SETS
        );
        if sign.is_none() {
            return Ok(text);
        }
        // The signs of the set that came last.
        let last = &sets[(CALLS - 1) % SETS];
        let distances = state.distances.to_vec(stream)?;
        let step = (last.len() / (10 * COMPARED)).max(1);
        let chosen: Vec<usize> = (0..last.len()).step_by(step).collect();
        let wrong =
            chosen.par_iter().find_any(|i| (distances[**i] < 0.0) != self.oracle.inside(last[**i]));
        match wrong {
            Some(i) => Err(Stop::failed(format!("{:?}: the sign of {}", last[*i], distances[*i]))),
            None => Ok(format!("{text}, {} signs right", chosen.len())),
        }
    }

    pub(super) fn positions(
        &self,
        stream: &Stream,
        out: &[DeviceBuffer<Float3>],
        sets: &[Vec<[f32; 3]>],
    ) -> Result<String, Stop> {
        let mut worst = 0.0f64;
        for (points, out) in sets.iter().zip(out) {
            let out = out.to_vec(stream)?;
            let distance = |i: usize| {
                let (p, q) = ([out[i].x, out[i].y, out[i].z], points[i]);
                (0..3).map(|a| (f64::from(p[a]) - f64::from(q[a])).powi(2)).sum::<f64>().sqrt()
            };
            worst = worst.max(self.errors(points, distance)?);
        }
        Ok(format!("{} positions right, worst {worst:.2} of the bound", COMPARED * SETS))
    }

    fn asked(ray: &Ray) -> geom_oracle::Ray {
        geom_oracle::Ray {
            origin: ray.origin,
            direction: ray.direction,
            t_min: ray.t_min,
            t_max: ray.t_max,
        }
    }

    pub(super) fn hits(
        &self,
        stream: &Stream,
        hits: &[DeviceBuffer<RayHit>],
        sets: &[Vec<Ray>],
    ) -> Result<String, Stop> {
        let (mut total, mut compared, mut doubtful) = (0, 0, 0);
        for (rays, hits) in sets.iter().zip(hits) {
            let hits = hits.to_vec(stream)?;
            total += hits.iter().filter(|hit| hit.face != NO_FACE).count();
            let step = (rays.len() / COMPARED).max(1);
            let chosen: Vec<usize> = (0..rays.len()).step_by(step).collect();
            let outcome = |i: &usize| {
                let (hit, ray) = (hits[*i], Self::asked(&rays[*i]));
                let right = match self.oracle.nearest_certain(&ray, TOLERANCE) {
                    Nearest::Hit(want, error) => {
                        let near = (f64::from(hit.t) - want.t).abs() <= error + 1e-5 * want.t.abs();
                        near && hit.front == u32::from(want.front)
                    }
                    Nearest::Miss => hit.face == NO_FACE,
                    Nearest::Uncertain => return Ok(false),
                };
                if right { Ok(true) } else { Err(Stop::failed(format!("{ray:?}: {hit:?}"))) }
            };
            let certain: Vec<bool> = chosen.par_iter().map(outcome).collect::<Result<_, Stop>>()?;
            compared += certain.iter().filter(|certain| **certain).count();
            doubtful += certain.iter().filter(|certain| !**certain).count();
        }
        let hits = total / sets.len();
        Ok(format!("{hits} hits, {compared} right, {doubtful} too close to an edge to tell"))
    }

    pub(super) fn any(
        &self,
        stream: &Stream,
        any: &DeviceBuffer<u8>,
        rays: &[Ray],
    ) -> Result<String, Stop> {
        let any = any.to_vec(stream)?;
        let step = (rays.len() / (COMPARED * SETS)).max(1);
        let chosen: Vec<usize> = (0..rays.len()).step_by(step).collect();
        let wrong = chosen.par_iter().find_any(|i| {
            let ray = Self::asked(&rays[**i]);
            match self.oracle.nearest_certain(&ray, TOLERANCE) {
                Nearest::Hit(..) => any[**i] != 1,
                Nearest::Miss => any[**i] != 0,
                Nearest::Uncertain => false,
            }
        });
        match wrong {
            Some(i) => Err(Stop::failed(format!("{:?}", rays[*i]))),
            None => Ok(format!("{} rays right", chosen.len())),
        }
    }

    pub(super) fn counts(
        &self,
        stream: &Stream,
        counts: &[DeviceBuffer<u32>],
        sets: &[Vec<Aabb<f32>>],
    ) -> Result<String, Stop> {
        let (mut mean, mut compared) = (0.0, 0);
        for (boxes, counts) in sets.iter().zip(counts) {
            let counts = counts.to_vec(stream)?;
            mean += counts.iter().map(|count| f64::from(*count)).sum::<f64>() / counts.len() as f64;
            let step = (boxes.len() / COMPARED).max(1);
            let chosen: Vec<usize> = (0..boxes.len()).step_by(step).collect();
            let wrong = chosen.par_iter().find_any(|i| {
                let count = self.boxes.iter().filter(|b| touch(b, &boxes[**i])).count();
                count != counts[**i] as usize
            });
            if let Some(i) = wrong {
                return Err(Stop::failed(format!("{:?}: {} boxes", boxes[*i], counts[*i])));
            }
            compared += chosen.len();
        }
        Ok(format!("mean {:.1}, {compared} counts equal brute force", mean / sets.len() as f64))
    }
}

fn touch(a: &Aabb<f32>, b: &Aabb<f32>) -> bool {
    (0..3).all(|i| a.lower[i] <= b.upper[i] && b.lower[i] <= a.upper[i])
}
