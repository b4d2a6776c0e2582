//! Interpolation in f64, as sums of weighted voxels, and how far the device may be off.

use geom_kernels::Real;
use geom_kernels::volume::Interpolation;

/// The unit roundoffs of f32 and f64: half the distance from 1 to the next number.
pub(super) const U32: f64 = f32::EPSILON as f64 / 2.0;
pub(super) const U64: f64 = f64::EPSILON / 2.0;

/// A sample: numbers of a value, of each its derivatives, and the greatest size of a number of the voxels.
pub(super) struct Wanted {
    pub(super) value: Vec<f64>,
    pub(super) gradient: Vec<[f64; 3]>,
    pub(super) most: f64,
}

/// The sample at a position, of voxels that have `parts` numbers; without a position, `outside`.
pub(super) fn sample<P: Real>(
    how: Interpolation,
    p: [P; 3],
    outside: &[f64],
    voxel: impl Fn([i32; 3]) -> Vec<f64>,
) -> Wanted {
    let parts = outside.len();
    let p = p.map(Real::wide);
    if !p.iter().all(|x| x.abs() <= f64::from(1 << 30)) {
        let most = outside.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        return Wanted { value: outside.to_vec(), gradient: vec![[0.0; 3]; parts], most };
    }
    let cell = p.map(|x| x.floor() as i32);
    let (first, weights) = match how {
        Interpolation::Tricubic => (-1, p.map(|x| catmull_rom(x - x.floor()))),
        _ => (0, p.map(|x| linear(x - x.floor()))),
    };
    let count = weights[0].len();
    let mut wanted = Wanted { value: vec![0.0; parts], gradient: vec![[0.0; 3]; parts], most: 0.0 };
    for n in 0..count * count * count {
        let at = [n / count / count, n / count % count, n % count];
        let values = voxel(std::array::from_fn(|a| cell[a] + first + at[a] as i32));
        let [x, y, z] = std::array::from_fn(|a| weights[a][at[a]]);
        for (i, v) in values.into_iter().enumerate() {
            wanted.value[i] += x.0 * y.0 * z.0 * v;
            wanted.gradient[i][0] += x.1 * y.0 * z.0 * v;
            wanted.gradient[i][1] += x.0 * y.1 * z.0 * v;
            wanted.gradient[i][2] += x.0 * y.0 * z.1 * v;
            wanted.most = wanted.most.max(v.abs());
        }
    }
    wanted
}

/// Weights of two neighbours, and their derivatives.
fn linear(t: f64) -> Vec<(f64, f64)> {
    vec![(1.0 - t, -1.0), (t, 1.0)]
}

/// Those of four.
fn catmull_rom(t: f64) -> Vec<(f64, f64)> {
    let (t2, t3) = (t * t, t * t * t);
    vec![
        (0.5 * (-t3 + 2.0 * t2 - t), 0.5 * (-3.0 * t2 + 4.0 * t - 1.0)),
        (0.5 * (3.0 * t3 - 5.0 * t2 + 2.0), 0.5 * (9.0 * t2 - 10.0 * t)),
        (0.5 * (-3.0 * t3 + 4.0 * t2 + t), 0.5 * (-9.0 * t2 + 8.0 * t + 1.0)),
        (0.5 * (t3 - t2), 0.5 * (3.0 * t2 - 2.0 * t)),
    ]
}

/// How far a value, and a derivative, may be off: in roundoffs u of the arithmetic, times the greatest voxel M.
///
/// Trilinear. One step fma(t, b - a, a) is off by 2 u M, as the difference is up to 2 M and is rounded; u M, as
/// the result is; and u M, as t is off by up to u / 2 where a position just below a whole number is rounded up.
/// Errors of a and b pass on as they are. So 4 u M a step and 12 for three. A derivative along x is a
/// difference of values off by 8, itself rounded: 16 + 2. One along z is a difference (2) and two steps among
/// numbers up to 2 M (16); along y, of values off by 4: 8 + 2, and a step: 8. All 18.
///
/// Tricubic. The slopes are off by 1 and the difference between by 2; their sum by 4; d, up to 6 M, by
/// 4 + 4 + 6 = 14; c, up to 9 M, by 6 + 14 + 9 = 29; the polynomial by 14 + 29 + 15 + 1 + 16 = 75, rounded last 77,
/// and by t 19, as no slope is above 37 M: 96. Its derivative by 3 * 14 + 18 + 58 + 36 + 1 + 37 = 192, and by t
/// 27, as no second one is above 54 M: 220. Values of splines are up to 1.25 M and their slopes up to 3 M. So
/// values are off by 96, 96 (1.25) + 96 (1.25) = 240, 240 (1.25) + 96 (1.25)^2 = 450; derivatives, taken along
/// whichever axis, by 220 (1.25)^2 + 3 * 240 = 1064.
///
/// A sixteenth more is for products of errors.
pub(super) fn bounds(how: Interpolation) -> (f64, f64) {
    match how {
        Interpolation::Tricubic => (450.0 * 1.0625, 1064.0 * 1.0625),
        _ => (12.0 * 1.0625, 18.0 * 1.0625),
    }
}
