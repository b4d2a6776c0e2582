//! Some of the kernels without contraction, for comparisons: a product is rounded before it is added.

use cuda_safe::kernel::kernel;

use crate::integrate::{Oscillator, STEPS};
use crate::nbody::SOFT;
use cuda_safe::kernel::vector::Vec3;

/// [`saxpy`](crate::saxpy::saxpy()).
#[kernel]
pub fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len() && y.len() == out.len());
    each(out, |i, out| *out = a * x[i] + y[i]);
}

/// [`triad`](crate::stream::triad()).
#[kernel]
pub fn triad(scalar: f64, b: &[f64], c: &[f64], a: &mut [f64]) {
    assert!(b.len() == a.len() && c.len() == a.len());
    each(a, |i, a| *a = b[i] + scalar * c[i]);
}

/// [`mandelbrot`](crate::mandelbrot::mandelbrot()).
#[kernel]
pub fn mandelbrot(width: usize, height: usize, limit: u32, counts: &mut [u32]) {
    let (dx, dy) = (3.5 / width as f32, 2.0 / height as f32);
    each(image(counts, [width, height]), |[x, y], count| {
        let (a, b) = (x as f32 * dx - 2.5, y as f32 * dy - 1.0);
        let (mut re, mut im) = (0.0, 0.0);
        let mut n = 0;
        while n < limit && re * re + im * im <= 4.0 {
            let next = re * re - im * im + a;
            im = 2.0 * re * im + b;
            re = next;
            n += 1;
        }
        *count = n;
    });
}

/// [`nbody`](crate::nbody::nbody()).
#[kernel]
pub fn nbody(positions: &[Vec3], forces: &mut [Vec3]) {
    assert!(positions.len() == forces.len());
    let n = positions.len();
    each(forces, |i, force| {
        let (p, mut sum) = (positions[i], Vec3::ZERO);
        for j in 0..n {
            let d = positions[j] - p;
            let r = 1.0 / (d.x * d.x + d.y * d.y + d.z * d.z + SOFT).sqrt();
            sum = sum + d * (r * r * r);
        }
        *force = sum;
    });
}

/// [`spmv`](crate::spmv::spmv()).
#[kernel]
pub fn spmv(offsets: &[u32], columns: &[u32], values: &[f32], x: &[f32], y: &mut [f32]) {
    assert!(offsets.len() == y.len() + 1 && columns.len() == values.len());
    each(y, |row, y| {
        let mut sum = 0.0;
        for k in offsets[row] as usize..offsets[row + 1] as usize {
            sum += values[k] * x[columns[k] as usize];
        }
        *y = sum;
    });
}

/// [`integrate`](crate::integrate::integrate()).
#[kernel]
pub fn integrate(dt: f32, start: &[Oscillator], end: &mut [Oscillator]) {
    assert!(start.len() == end.len());
    each(end, |i, end| {
        let Oscillator { position: mut x, velocity: mut v } = start[i];
        for _ in 0..STEPS {
            v -= dt * (x + 0.5 * x * x * x + 0.1 * v);
            x += dt * v;
        }
        *end = Oscillator { position: x, velocity: v };
    });
}

/// [`dot`](crate::stream::dot()).
#[kernel]
pub fn dot(a: &[f64], b: &[f64], sums: &mut [f64]) {
    assert!(a.len() == b.len());
    let (n, stride) = (a.len(), sums.len());
    each(sums, |i, sum| {
        let mut s = 0.0;
        for k in (i..n).step_by(stride) {
            s += a[k] * b[k];
        }
        *sum = s;
    });
}

/// [`matmul`](crate::matmul::matmul()).
#[kernel]
pub fn matmul(n: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    assert!(a.len() == n * n && b.len() == n * n);
    each(image(c, [n, n]), |[column, row], c| {
        let mut sum = 0.0;
        for k in 0..n {
            sum += a[row * n + k] * b[k * n + column];
        }
        *c = sum;
    });
}
