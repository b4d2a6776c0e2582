//! The queries that the peers were asked.

use geom_kernels::mesh::TriangleMesh;
use geom_kernels::{Aabb, Ray};

use crate::data::random;
use crate::stop::Stop;

/// Rays of a row or column of the camera.
const CAMERA: usize = 1024;

/// Makes queries around a mesh.
pub(super) struct Inputs {
    bounds: Aabb<f32>,
}

impl Inputs {
    pub(super) fn new(mesh: &TriangleMesh) -> Result<Self, Stop> {
        let bounds = mesh.bounds().ok_or_else(|| Stop::failed("a mesh without points"))?;
        Ok(Self { bounds })
    }

    fn center(&self) -> [f64; 3] {
        let Aabb { lower, upper } = self.bounds;
        std::array::from_fn(|i| f64::midpoint(f64::from(lower[i]), f64::from(upper[i])))
    }

    /// Half the diagonal.
    fn radius(&self) -> f64 {
        let Aabb { lower, upper } = self.bounds;
        let side = |i: usize| f64::from(upper[i]) - f64::from(lower[i]);
        (0..3).map(|i| side(i) * side(i)).sum::<f64>().sqrt() / 2.0
    }

    /// Points of the bounding box, in no order.
    pub(super) fn points(&self, n: usize, set: usize) -> Vec<[f32; 3]> {
        let Aabb { lower, upper } = self.bounds;
        let place = |p: &[f32]| {
            std::array::from_fn(|i| lower[i] + (upper[i] - lower[i]) * (0.5 * p[i] + 0.5))
        };
        random(3 * n, 200 + set as u64).chunks_exact(3).map(place).collect()
    }

    /// Sorted by a Morton key of 30 bits.
    pub(super) fn sorted(&self, points: &[[f32; 3]]) -> Vec<[f32; 3]> {
        let Aabb { lower, upper } = self.bounds;
        let key = |p: &[f32; 3]| {
            let cell: [u32; 3] = std::array::from_fn(|i| {
                (f64::from(p[i] - lower[i]) / f64::from(upper[i] - lower[i]) * 1023.0) as u32
            });
            (0..10).fold(0u32, |key, bit| {
                (0..3).fold(key, |key, i| key | (cell[i] >> bit & 1) << (3 * bit + i))
            })
        };
        let mut sorted = points.to_vec();
        sorted.sort_by_cached_key(key);
        sorted
    }

    /// 1024 × 1024 rays of a camera above the mesh.
    pub(super) fn camera(&self) -> Vec<Ray> {
        let (c, r) = (self.center(), self.radius());
        let origin = [c[0], c[1], c[2] + 2.5 * r].map(|x| x as f32);
        let place = |i: usize| -1.0 + 2.0 * i as f64 / (CAMERA - 1) as f64;
        let ray = |i: usize| {
            let (x, y) = (place(i % CAMERA), place(i / CAMERA));
            Ray::new(origin, unit([0.45 * x, 0.45 * y, -1.0]))
        };
        (0..CAMERA * CAMERA).map(ray).collect()
    }

    /// As many rays from random points of the bounding sphere towards others.
    pub(super) fn incoherent(&self, set: usize) -> Vec<Ray> {
        let (c, r) = (self.center(), self.radius());
        // Twice as many as are needed lie in the ball, and outside of a small one.
        let numbers = random(3 * 5 * CAMERA * CAMERA, 300 + set as u64);
        let on_sphere = |p: &[f32]| {
            let p: [f64; 3] = std::array::from_fn(|i| f64::from(p[i]));
            let square = p.iter().map(|x| x * x).sum::<f64>();
            let inside = (1e-3..=1.0).contains(&square);
            inside.then(|| std::array::from_fn(|i| c[i] + r * p[i] / square.sqrt()))
        };
        let points: Vec<[f64; 3]> = numbers.chunks_exact(3).filter_map(on_sphere).collect();
        let ray = |pair: &[[f64; 3]]| {
            let direction = std::array::from_fn(|i| pair[1][i] - pair[0][i]);
            Ray::new(pair[0].map(|x| x as f32), unit(direction))
        };
        points.chunks_exact(2).take(CAMERA * CAMERA).map(ray).collect()
    }

    /// Cubes of half side 0.01 × 2R around points of the bounding box.
    pub(super) fn cubes(&self, n: usize, set: usize) -> Vec<Aabb<f32>> {
        let half = (0.01 * 2.0 * self.radius()) as f32;
        let around = |p: &[f32; 3]| Aabb { lower: p.map(|x| x - half), upper: p.map(|x| x + half) };
        self.points(n, set).iter().map(around).collect()
    }
}

fn unit(v: [f64; 3]) -> [f32; 3] {
    let length = v.iter().map(|x| x * x).sum::<f64>().sqrt();
    v.map(|x| (x / length) as f32)
}
