//! Rays: the faces that they hit, decided exactly, and the margin of that decision.

mod exact;
#[cfg(test)]
mod tests;
mod tolerant;

use exact::Exact;
pub use tolerant::{Class, Nearest};

use rayon::prelude::*;

use crate::Mesh;
use crate::tree::Bounds;
use crate::vector::{Triangle, valid, widen};

/// The points origin + t · direction for t from `t_min` to `t_max`, both of it.
///
/// A direction need not have length 1. A ray of no direction, with a NaN, or with coordinates that are not
/// finite or beyond 2^60, hits nothing. `t_max` may be infinite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ray {
    /// Where t is 0.
    pub origin: [f32; 3],
    /// The unit of t.
    pub direction: [f32; 3],
    /// The least t of a hit.
    pub t_min: f32,
    /// The largest t of a hit.
    pub t_max: f32,
}

impl Ray {
    /// A ray from `origin` that does not end.
    pub fn new(origin: [f32; 3], direction: [f32; 3]) -> Self {
        Self { origin, direction, t_min: 0.0, t_max: f32::INFINITY }
    }

    /// The segment between two points, with t from 0 to 1. Its direction is rounded to f32.
    pub fn segment(from: [f32; 3], to: [f32; 3]) -> Self {
        let direction = std::array::from_fn(|i| to[i] - from[i]);
        Self { origin: from, direction, t_min: 0.0, t_max: 1.0 }
    }

    fn is_valid(&self) -> bool {
        valid(widen(self.origin)) && valid(widen(self.direction)) && self.t_min <= self.t_max
    }

    /// Whether the ray may meet a box that is larger by the `slack`th part of its farthest distance; with a
    /// slack the whole line.
    fn meets(&self, bounds: &Bounds, slack: f64) -> bool {
        let (o, d) = (widen(self.origin), widen(self.direction));
        let (mut enter, mut leave) = match slack > 0.0 {
            true => (f64::NEG_INFINITY, f64::INFINITY),
            false => (f64::from(self.t_min), f64::from(self.t_max)),
        };
        let reach = |i: usize| (bounds.lower[i] - o[i]).abs().max((bounds.upper[i] - o[i]).abs());
        let margin = slack * (reach(0) + reach(1) + reach(2));
        for i in 0..3 {
            let (low, high) = (bounds.lower[i] - o[i] - margin, bounds.upper[i] - o[i] + margin);
            if d[i] == 0.0 {
                if low > 0.0 || high < 0.0 {
                    return false;
                }
                continue;
            }
            let (low, high) =
                if d[i] > 0.0 { (low / d[i], high / d[i]) } else { (high / d[i], low / d[i]) };
            // Rounding moves each by two units in the last place at most.
            enter = enter.max(low - low.abs() * 1e-15);
            leave = leave.min(high + high.abs() * 1e-15);
        }
        enter <= leave
    }
}

/// Where a ray hits a face.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Where on the ray; it errs by 1e-13 of itself.
    pub t: f64,
    /// The weights of the face's vertices 1 and 2; they err by 1e-13.
    pub uv: [f64; 2],
    /// The face.
    pub face: u32,
    /// Whether the ray comes from where the face's vertices are counter-clockwise.
    pub front: bool,
    /// How many of the face's edges the ray meets exactly: 0 inside, 1 on a edge, 2 in a corner.
    pub edges: u8,
}

impl Mesh {
    /// The hits of a ray with all faces, the nearest first, and of hits at the same t the lesser face
    /// first. Decided exactly; edges and corners belong to a face, and faces along the ray are not hit.
    pub fn ray_hits(&self, ray: &Ray) -> Vec<Hit> {
        let mut hits = Vec::new();
        if ray.is_valid() {
            let found =
                |slot: usize| hits.extend(hit(&self.triangles[slot], self.faces[slot], ray));
            self.tree.visit(|bounds| ray.meets(bounds, 0.0), found);
        }
        sorted(hits)
    }

    /// [`ray_hits`](Self::ray_hits) by asking every face.
    pub fn ray_hits_brute(&self, ray: &Ray) -> Vec<Hit> {
        let all = self.triangles.iter().zip(&self.faces).filter(|_| ray.is_valid());
        sorted(all.filter_map(|(triangle, face)| hit(triangle, *face, ray)).collect())
    }

    /// The hit of a ray with one face, if it hits it.
    pub fn ray_hit_on_face(&self, face: u32, ray: &Ray) -> Option<Hit> {
        self.triangle(face).filter(|_| ray.is_valid()).and_then(|triangle| hit(triangle, face, ray))
    }

    /// [`ray_hits`](Self::ray_hits) of many rays, on all cores.
    pub fn ray_hits_of_all(&self, rays: &[Ray]) -> Vec<Vec<Hit>> {
        rays.par_iter().map(|ray| self.ray_hits(ray)).collect()
    }
}

fn sorted(mut hits: Vec<Hit>) -> Vec<Hit> {
    hits.sort_unstable_by(|a, b| a.t.total_cmp(&b.t).then(a.face.cmp(&b.face)));
    hits
}

fn hit(triangle: &Triangle, face: u32, ray: &Ray) -> Option<Hit> {
    let exact = Exact::new(triangle, ray);
    let edges = exact.edges_met()?;
    exact.is_within(ray).then(|| exact.hit(face, edges))
}
