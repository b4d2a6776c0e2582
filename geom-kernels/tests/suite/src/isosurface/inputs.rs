//! Fields to find surfaces in.

use test_harness::Rng;

/// Numbers at the points of a lattice.
#[derive(Debug, Clone)]
pub(super) struct Values {
    pub(super) dims: [usize; 3],
    pub(super) data: Vec<f32>,
}

impl Values {
    pub(super) fn from_fn(dims: [usize; 3], mut value: impl FnMut([usize; 3]) -> f32) -> Self {
        let [nx, ny, nz] = dims;
        let mut data = Vec::with_capacity(nx * ny * nz);
        for x in 0..nx {
            for y in 0..ny {
                data.extend((0..nz).map(|z| value([x, y, z])));
            }
        }
        Self { dims, data }
    }

    pub(super) fn at(&self, [x, y, z]: [usize; 3]) -> f32 {
        self.data[(x * self.dims[1] + y) * self.dims[2] + z]
    }

    pub(super) fn contains(&self, at: [usize; 3]) -> bool {
        at.iter().zip(self.dims).all(|(at, n)| *at < n)
    }

    /// With `value` all around.
    pub(super) fn within(&self, value: f32) -> Self {
        Self::from_fn(self.dims.map(|n| n + 2), |at| {
            let inner = at.map(|i| i.wrapping_sub(1));
            if self.contains(inner) { self.at(inner) } else { value }
        })
    }
}

/// Any numbers: every case occurs if there are enough cells.
pub(super) fn noise(rng: &mut Rng, dims: [usize; 3]) -> Values {
    Values::from_fn(dims, |_| rng.float())
}

/// Few numbers, so that many are equal to 0.
pub(super) fn steps(rng: &mut Rng, dims: [usize; 3]) -> Values {
    let numbers = [-1.0, -0.5, 0.0, -0.0, 0.5, 1.0];
    Values::from_fn(dims, |_| numbers[rng.below(numbers.len())])
}

/// The largest and least numbers that there are.
pub(super) fn extremes(rng: &mut Rng, dims: [usize; 3]) -> Values {
    let numbers = [f32::MAX, -f32::MAX, f32::MIN_POSITIVE, 1e-45, -1e-45, 1e-40, -1e-40, 0.0];
    Values::from_fn(dims, |_| numbers[rng.below(numbers.len())])
}

/// Noise of which about one of `one_in` numbers is not finite.
pub(super) fn broken(rng: &mut Rng, dims: [usize; 3], one_in: usize) -> Values {
    let bad = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    Values::from_fn(dims, |_| match rng.below(one_in) {
        0 => bad[rng.below(4)],
        _ => rng.float(),
    })
}

/// The distance from a sphere, in steps of the lattice.
pub(super) fn sphere(dims: [usize; 3], center: [f64; 3], radius: f64) -> Values {
    Values::from_fn(dims, |at| {
        let squared: f64 = at.iter().zip(center).map(|(x, c)| (*x as f64 - c).powi(2)).sum();
        (squared.sqrt() - radius) as f32
    })
}

/// The distance from a torus around the z axis through `center`.
pub(super) fn torus(dims: [usize; 3], center: [f64; 3], radii: [f64; 2]) -> Values {
    Values::from_fn(dims, |at| {
        let [x, y, z]: [f64; 3] = std::array::from_fn(|i| at[i] as f64 - center[i]);
        let out = x.hypot(y) - radii[0];
        (out.hypot(z) - radii[1]) as f32
    })
}

/// A gyroid of this period.
pub(super) fn gyroid(dims: [usize; 3], period: f64) -> Values {
    Values::from_fn(dims, |at| {
        let [x, y, z] = at.map(|x| x as f64 * std::f64::consts::TAU / period);
        (x.sin() * y.cos() + y.sin() * z.cos() + z.sin() * x.cos()) as f32
    })
}
