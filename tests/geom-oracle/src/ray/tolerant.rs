//! Results that a device with rounding must find: hits and misses that stay so if corners move a little.

use rayon::prelude::*;

use super::exact::Exact;
use super::{Hit, Ray};
use crate::Mesh;
use crate::distance::nearest_on_segment;
use crate::vector::{Triangle, cross, dot, length, scale, sub};

/// The relation of a ray to a face.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Class {
    /// It hits, and t errs by so much at most.
    Hit(Hit, f64),
    /// It misses.
    Miss,
    /// It is too close to a edge, to an end of the ray, or to running along the face.
    Uncertain,
}

/// The first hit of a ray.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Nearest {
    /// This one, and t errs by so much at most.
    Hit(Hit, f64),
    /// Nothing.
    Miss,
    /// A face at the front of which it can't be said whether it is hit, or several at about the same t.
    Uncertain,
}

impl Mesh {
    /// Returns the relation of `ray` to a face for every computation whose error is less than the part `tolerance` of
    /// the distance from the ray's origin to the face's farthest corner, in corners and in t. `Miss` for a face that
    /// was skipped and a ray that is not valid.
    pub fn classify(&self, face: u32, ray: &Ray, tolerance: f64) -> Class {
        match self.triangle(face).filter(|_| ray.is_valid()) {
            Some(triangle) => classify(triangle, face, ray, tolerance).0,
            None => Class::Miss,
        }
    }

    /// Returns the first hit that every computation with an error less than `tolerance` must find, as for
    /// [`classify`](Self::classify).
    pub fn nearest_certain(&self, ray: &Ray, tolerance: f64) -> Nearest {
        let mut best: Option<(Hit, f64)> = None;
        // The least t of what is hit or may be, of all faces and of all but the best one.
        let (mut first, mut second) = (f64::INFINITY, f64::INFINITY);
        let mut first_face = None;
        if ray.is_valid() {
            let meets = |bounds: &_| ray.meets(bounds, tolerance.max(f64::MIN_POSITIVE));
            self.tree.visit(meets, |slot| {
                let face = self.faces[slot];
                let (class, from) = classify(&self.triangles[slot], face, ray, tolerance);
                if class == Class::Miss {
                    return;
                }
                if from < first {
                    second = std::mem::replace(&mut first, from);
                    first_face = Some(face);
                } else {
                    second = second.min(from);
                }
                if let Class::Hit(hit, error) = class
                    && best.is_none_or(|(best, _)| (hit.t, hit.face) < (best.t, best.face))
                {
                    best = Some((hit, error));
                }
            });
        }
        match best {
            Some((hit, error)) => {
                let rival = if first_face == Some(hit.face) { second } else { first };
                if rival > hit.t + error { Nearest::Hit(hit, error) } else { Nearest::Uncertain }
            }
            None if first_face.is_some() => Nearest::Uncertain,
            None => Nearest::Miss,
        }
    }

    /// [`nearest_certain`](Self::nearest_certain) of many rays, on all cores.
    pub fn nearest_certain_of_all(&self, rays: &[Ray], tolerance: f64) -> Vec<Nearest> {
        rays.par_iter().map(|ray| self.nearest_certain(ray, tolerance)).collect()
    }
}

/// Returns the relation of the ray to the triangle, and the least t at which it might be hit.
fn classify(triangle: &Triangle, face: u32, ray: &Ray, tolerance: f64) -> (Class, f64) {
    let exact = Exact::new(triangle, ray);
    let (seen, d) = (exact.seen(), exact.direction());
    let d2 = dot(d, d);
    if d2 == 0.0 {
        return (Class::Miss, f64::INFINITY);
    }
    let size = seen.iter().map(|corner| length(*corner)).fold(0.0, f64::max);
    // Corners move by so much, and all ts of the triangle with them.
    let moved = tolerance * size;
    let ts = seen.map(|corner| dot(corner, d) / d2);
    let slack = moved / d2.sqrt();
    let from = ts.iter().copied().fold(f64::INFINITY, f64::min) - slack;
    let to = ts.iter().copied().fold(f64::NEG_INFINITY, f64::max) + slack;
    let (t_min, t_max) = (f64::from(ray.t_min), f64::from(ray.t_max));
    if to < t_min || from > t_max {
        return (Class::Miss, f64::INFINITY);
    }

    // In the plane across the ray, how far its line passes from the edges.
    let flat = [0, 1, 2].map(|i| sub(seen[i], scale(d, ts[i])));
    let edge = |i: usize, j: usize| nearest_on_segment(flat[i], flat[j]).0;
    let clearance = edge(0, 1).min(edge(1, 2)).min(edge(2, 0)).sqrt();
    if clearance <= moved {
        return (Class::Uncertain, from.max(t_min));
    }
    let Some(edges) = exact.edges_met() else {
        return (Class::Miss, f64::INFINITY);
    };
    let hit = exact.hit(face, edges);
    // A plane that moves by `moved` is met at a t that moves by more the more it leans.
    let normal = cross(sub(triangle[1], triangle[0]), sub(triangle[2], triangle[0]));
    let error = 2.0 * moved * length(normal) / dot(normal, d).abs() + tolerance * hit.t.abs();
    let (from, to) = (hit.t - error, hit.t + error);
    match () {
        _ if to < t_min || from > t_max => (Class::Miss, f64::INFINITY),
        _ if from <= t_min || to >= t_max => (Class::Uncertain, from.max(t_min)),
        _ => (Class::Hit(hit, error), from),
    }
}
