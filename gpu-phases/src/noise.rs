//! Gradient noise in kernels (Perlin 2002), with the same bits on every target.
//!
//! Points have 1 to 4 coordinates. The lattice has a random direction at each point with whole coordinates, by a hash
//! of them and the seed; at these points the noise is 0. It has continuous second derivatives, and lies between -1.04
//! and 1.04.
//!
//! ```
//! use gpu_phases::kernel;
//! use gpu_phases::noise::{Octaves, curl_2, fractal};
//!
//! #[kernel]
//! fn clouds(width: usize, height: usize, clouds: &mut [f32], wind: &mut [[f32; 2]]) {
//!     each((image(clouds, [width, height]), image(wind, [width, height])), |[x, y], (cloud, wind)| {
//!         let p = [x as f32 / 32.0, y as f32 / 32.0];
//!         let octaves = Octaves { count: 5, lacunarity: 2.0, gain: 0.5 };
//!         let (value, _) = fractal(1, p, octaves);
//!         *cloud = 0.5 + 0.5 * value;
//!         *wind = curl_2(2, p, Octaves::ONE);
//!     });
//! }
//!
//! # fn main() -> Result<(), gpu_phases::kernel::CpuError> {
//! let (mut out, mut wind) = (vec![0.0; 64 * 64], vec![[0.0; 2]; 64 * 64]);
//! clouds::cpu(64, 64, &mut out, &mut wind)?;
//! assert!(out.iter().any(|x| *x > 0.7) && out.iter().any(|x| *x < 0.3));
//! # Ok(())
//! # }
//! ```

use crate::random::mix;
use crate::{Device, device};

/// A sum of noises, each of a higher frequency than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Device)]
#[repr(C)]
pub struct Octaves {
    /// How many there are.
    pub count: u32,
    /// The frequency of an octave, divided by that of the one before.
    pub lacunarity: f32,
    /// The height of an octave, divided by that of the one before.
    pub gain: f32,
}

// SAFETY: all fields may be zeros.
unsafe impl bytemuck::Zeroable for Octaves {}
// SAFETY: all fields are numbers, which take any bytes, and there is no padding (`Device`).
unsafe impl bytemuck::Pod for Octaves {}

#[device]
impl Octaves {
    /// The noise itself.
    pub const ONE: Self = Self { count: 1, lacunarity: 1.0, gain: 1.0 };
}

/// Returns the noise at a point.
#[device]
#[must_use]
pub fn noise<const N: usize>(seed: u32, p: [f32; N]) -> f32 {
    let (value, _) = periodic(seed, p, [0; N]);
    value
}

/// Returns the noise at a point, and its derivatives by the coordinates. It repeats along an axis after `period`
/// steps; for a period of 0 it does not.
#[device(contract)]
#[must_use]
pub fn periodic<const N: usize>(seed: u32, p: [f32; N], period: [u32; N]) -> (f32, [f32; N]) {
    // The hashes of the coordinates of both sides of the cell, and where the point is between them.
    let mut lower = [0u32; N];
    let mut upper = [0u32; N];
    let mut inside = [0.0f32; N];
    // The quintic step from 0 to 1, and its derivative.
    let mut step = [0.0f32; N];
    let mut slope = [0.0f32; N];
    for d in 0..N {
        let floor = p[d].floor();
        let t = p[d] - floor;
        let (mut at, mut next) = (floor as i32, (floor as i32).wrapping_add(1));
        let wrap = period[d] as i32;
        if wrap > 0 {
            at = at.rem_euclid(wrap);
            next = next.rem_euclid(wrap);
        }
        lower[d] = (at as u32).wrapping_mul(FACTORS[d]);
        upper[d] = (next as u32).wrapping_mul(FACTORS[d]);
        inside[d] = t;
        step[d] = t * t * t * (t * (t * 6.0 - 15.0) + 10.0);
        slope[d] = t * t * (t * (t * 30.0 - 60.0) + 30.0);
    }
    let mut value = 0.0;
    let mut gradient = [0.0f32; N];
    let start = mix(seed);
    for corner in 0..1u32 << N {
        let mut hash = start;
        let mut share = [0.0f32; N];
        let mut away = [0.0f32; N];
        for d in 0..N {
            let far = corner >> d & 1 == 1;
            hash ^= if far { upper[d] } else { lower[d] };
            share[d] = if far { step[d] } else { 1.0 - step[d] };
            away[d] = if far { inside[d] - 1.0 } else { inside[d] };
        }
        let direction: [f32; N] = direction(mix(hash));
        let mut height = 0.0;
        let mut weight = 1.0;
        for d in 0..N {
            height += direction[d] * away[d];
            weight *= share[d];
        }
        value += weight * height;
        for d in 0..N {
            let mut change = if corner >> d & 1 == 1 { slope[d] } else { -slope[d] };
            for other in 0..N {
                change *= if other == d { 1.0 } else { share[other] };
            }
            gradient[d] += weight * direction[d] + change * height;
        }
    }
    (value, gradient)
}

/// What a coordinate is multiplied by, in its hash.
const FACTORS: [u32; 4] = [0x1b87_3593, 0x9e37_79b1, 0x85eb_ca77, 0xcc9e_2d51];

/// Returns one of the directions of the lattice: in 2 dimensions 8 at equal angles, in 3 the 12 edges of a cube
/// (Perlin 2002), in 4 the 32 alike.
#[device]
fn direction<const N: usize>(hash: u32) -> [f32; N] {
    let mut direction = [0.0f32; N];
    if N == 1 {
        direction[0] = hash as i32 as f32 * (1.0 / 1_073_741_824.0);
        return direction;
    }
    // In 2 dimensions half of the directions have no coordinate that is 0.
    let kinds = if N == 2 { 4 } else { N as u32 };
    let zero = (hash & 0xffff).wrapping_mul(kinds) >> 16;
    let length = match N {
        2 => {
            if zero < 2 {
                std::f32::consts::SQRT_2
            } else {
                1.0
            }
        }
        3 => 1.0,
        _ => 2.0 / 3.0,
    };
    for d in 0..N {
        let negative = (hash << d) >> 31 == 1;
        direction[d] = if d as u32 == zero {
            0.0
        } else if negative {
            -length
        } else {
            length
        };
    }
    direction
}

/// Returns a sum of noises at a point, and its derivatives by the coordinates.
#[device(contract)]
#[must_use]
pub fn fractal<const N: usize>(seed: u32, p: [f32; N], octaves: Octaves) -> (f32, [f32; N]) {
    let mut sum = 0.0;
    let mut gradient = [0.0f32; N];
    let (mut frequency, mut height) = (1.0, 1.0);
    for octave in 0..octaves.count {
        let mut at = p;
        for d in 0..N {
            at[d] = p[d] * frequency;
        }
        let (value, slope) = periodic(seed ^ octave.wrapping_mul(0x9e37_79b9), at, [0; N]);
        sum += height * value;
        for d in 0..N {
            gradient[d] += height * frequency * slope[d];
        }
        frequency *= octaves.lacunarity;
        height *= octaves.gain;
    }
    (sum, gradient)
}

/// Returns the curl of a sum of noises at a point: a velocity without divergence in the plane of the first two
/// coordinates. A third one may be the time.
#[device]
#[must_use]
pub fn curl_2<const N: usize>(seed: u32, p: [f32; N], octaves: Octaves) -> [f32; 2] {
    let (_, gradient) = fractal(seed, p, octaves);
    [gradient[1], -gradient[0]]
}

/// Returns the curl of three sums of noises at a point (Bridson et al. 2007): a velocity without divergence in the
/// space of the first three coordinates. A fourth one may be the time.
#[device]
#[must_use]
pub fn curl_3<const N: usize>(seed: u32, p: [f32; N], octaves: Octaves) -> [f32; 3] {
    let (_, a) = fractal(seed, p, octaves);
    let (_, b) = fractal(seed ^ 0x517c_c1b7, p, octaves);
    let (_, c) = fractal(seed ^ 0x2722_0a95, p, octaves);
    [c[1] - b[2], a[2] - c[0], b[0] - a[1]]
}

#[cfg(test)]
#[path = "noise_tests.rs"]
mod tests;
