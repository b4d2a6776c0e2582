//! Rust kernels that are differentiated.

use cuda_safe::kernel::blocks::Element;
use cuda_safe::kernel::{Atomic, Device, Real, device, kernel};

#[kernel(gradient)]
pub(super) fn saxpy<T: Real>(#[active] a: T, x: &[T], y: &[T], out: &mut [T]) {
    assert!(x.len() == out.len() && y.len() == out.len());
    each(out, |i, out| *out = a * x[i] + y[i]);
}

/// Without conditions: each index is checked on the device.
#[kernel(gradient)]
pub(super) fn checked<T: Real>(#[active] a: T, x: &[T], y: &[T], out: &mut [T]) {
    each(out, |i, out| *out = a * x[i] * x[(i + 1) % x.len()] + y[i]);
}

#[kernel(gradient)]
pub(super) fn bend<T: Real>(x: &[T], out: &mut [T]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let y = x[i];
        let one = T::from_f64(1.0);
        let z = if y > T::default() { y * y } else { one - y };
        *out = (z * z + one).sqrt().min(z + z).max(y)
            + (y - one).abs()
            + y.mul_add(z, one)
            + y.clamp(-one, one) * z
            + y.powi(3)
            + (z + one).recip()
            + y.copysign(z) * y.fract()
            + y % T::from_f64(0.75)
            + y.signum() * y;
    });
}

/// A spring: `steps` steps of semi-implicit Euler.
#[kernel(gradient)]
pub(super) fn swing<T: Real>(
    #[active] stiffness: T,
    step: T,
    steps: u32,
    at: &[T],
    speed: &[T],
    end: &mut [T],
    end_speed: &mut [T],
) {
    assert!(at.len() == end.len() && speed.len() == end.len());
    each((end, end_speed), |i, (end, end_speed)| {
        let (mut x, mut v) = (at[i], speed[i]);
        for _ in 0..steps {
            v -= step * stiffness * (x + x * x * x);
            x += step * v;
        }
        *end = x;
        *end_speed = v;
    });
}

#[kernel(gradient)]
pub(super) fn gather<T: Real>(index: &[u32], x: &[T], out: &mut [T]) {
    assert!(index.len() == out.len());
    each(out, |i, out| {
        let y = x[index[i] as usize];
        *out = y * y;
    });
}

#[kernel(gradient)]
pub(super) fn spmv<T: Real>(starts: &[u32], columns: &[u32], values: &[T], x: &[T], out: &mut [T]) {
    assert!(starts.len() == out.len() + 1 && values.len() == columns.len());
    each(out, |row, out| {
        let mut sum = T::default();
        for k in starts[row] as usize..starts[row + 1] as usize {
            sum += values[k] * x[columns[k] as usize];
        }
        *out = sum;
    });
}

/// A dense product, with an index of the counter and a carried product.
#[kernel(gradient)]
pub(super) fn dense<T: Real>(a: &[T], x: &[T], out: &mut [T]) {
    assert!(a.len() == x.len() * out.len());
    each(out, |row, out| {
        let mut product = T::from_f64(1.0);
        for k in 0..x.len() {
            product *= T::from_f64(1.0) + a[row * x.len() + k] * x[k];
        }
        *out = product;
    });
}

/// As `swing`, by the number of steps in memory, with the place as the only output.
#[kernel(gradient)]
pub(super) fn places<T: Real>(
    #[active] stiffness: T,
    step: T,
    steps: &[u32],
    at: &[T],
    speed: &[T],
    end: &mut [T],
) {
    assert!(at.len() == end.len() && speed.len() == end.len());
    each(end, |i, end| {
        let (mut x, mut v) = (at[i], speed[i]);
        for _ in 0..steps[0] {
            v -= step * stiffness * (x + x * x * x);
            x += step * v;
        }
        *end = x;
    });
}

/// The product of each row's sines, as their series, in nested loops.
#[kernel(gradient)]
pub(super) fn rows<T: Real>(x: &[T], out: &mut [T]) {
    let columns = x.len() / out.len();
    assert!(x.len() == columns * out.len());
    each(out, |row, out| {
        let mut product = T::from_f64(1.0);
        for k in 0..columns {
            let y = x[row * columns + k];
            let (mut term, mut sum) = (y, y);
            for n in 1..4usize {
                term *= -y * y / T::from_f64((2 * n * (2 * n + 1)) as f64);
                sum += term;
            }
            product *= T::from_f64(1.0) + sum;
        }
        *out = product;
    });
}

/// The cube root of x² + 1 by Newton's method, until it changes by little.
#[kernel(gradient)]
pub(super) fn roots<T: Real>(x: &[T], out: &mut [T]) {
    each(out, |i, out| {
        let a = x[i] * x[i] + T::from_f64(1.0);
        let mut y = a;
        let mut turns = 0;
        loop {
            let step = (y * y * y - a) / (T::from_f64(3.0) * y * y);
            y -= step;
            turns += 1;
            if step.abs() < T::from_f64(1e-7) || turns == 40 {
                break;
            }
        }
        *out = y;
    });
}

/// Sums of squares of up to three elements, by parts of slices.
#[kernel(gradient)]
pub(super) fn windows<T: Real>(x: &[T], out: &mut [T]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let first = if i > 0 { i - 1 } else { 0 };
        let mut sum = T::default();
        for y in &x[first..i + 1] {
            sum += *y * *y;
        }
        for (k, y) in x[first..].iter().enumerate() {
            if k > 2 {
                break;
            }
            sum += *y * x[i];
        }
        *out = sum;
    });
}

/// A recurrence in a local array.
#[kernel(gradient)]
pub(super) fn arrays<T: Real>(x: &[T], out: &mut [T]) {
    each(out, |i, out| {
        let mut ring = [x[i]; 4];
        for k in 0..10usize {
            ring[k % 4] = ring[(k + 1) % 4] * x[(i + k) % x.len()] + ring[k % 4];
        }
        *out = ring[0] + ring[1] * ring[2] - ring[3];
    });
}

#[derive(Clone, Copy, PartialEq, Device)]
#[repr(u8)]
enum Case {
    Square,
    Line,
    Nothing,
}

#[device]
fn case_of<T: Real>(y: T) -> (Case, T) {
    if y > T::from_f64(1.0) {
        (Case::Square, y)
    } else if y > T::from_f64(-1.0) {
        (Case::Line, y * y)
    } else {
        (Case::Nothing, -y)
    }
}

/// Values in enums, options and tuples.
#[kernel(gradient)]
pub(super) fn cases_of<T: Real>(x: &[T], out: &mut [T]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let y = x[i];
        let positive = if y > T::default() { Some(y * y * y) } else { None };
        let (case, by) = case_of(y);
        let (a, b) = match case {
            Case::Square => (by * y, y),
            Case::Line => (by * y, T::default()),
            Case::Nothing => (T::default(), by),
        };
        *out = a * b + positive.map(|p| p * y).unwrap_or(y);
    });
}

#[kernel(gradient, contract)]
pub(super) fn contracted<T: Real>(x: &[T], out: &mut [T]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let y = x[i];
        let mut z = y * y + y;
        z += y * z;
        z -= z * z;
        *out = z - y * z;
    });
}

/// Functions that are constant between steps.
#[kernel(gradient)]
pub(super) fn rounded<T: Real>(x: &[T], out: &mut [T]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let y = x[i] * T::from_f64(4.0);
        let steps = y.floor() + y.ceil() + y.trunc() + y.round() + y.round_ties_even();
        let whole = T::from_f64(1.5);
        *out = y * steps + y.rem_euclid(whole) * y + y.div_euclid(whole) * y;
        if y.is_finite() && !y.is_nan() && y.is_sign_negative() {
            *out = *out * y;
        }
    });
}

#[kernel(gradient)]
pub(super) fn cubes<T: Real>(width: usize, height: usize, depth: usize, x: &[T], out: &mut [T]) {
    assert!(x.len() == out.len());
    each(volume(out, [width, height, depth]), |[i, j, k], out| {
        let y = x[(k * height + j) * width + i];
        *out = y * y * y * x[0];
    });
}

#[kernel(gradient)]
pub(super) fn mean_of_squares(x: &[f32], threads: &mut [u8], sum: &Atomic<[f32]>) {
    assert!(x.len() == threads.len() && sum.len() == 1);
    each(threads, |i, _| {
        sum.fetch_add(0, x[i] * x[i] / x.len() as f32);
    });
}

#[kernel(gradient)]
pub(super) fn square_in_place<T: Real>(#[active] a: T, x: &mut [T]) {
    each(x, |_, x| *x = a * *x * *x);
}

/// The second output takes values of `x`, and has no gradient.
#[kernel(gradient)]
pub(super) fn with_flag(x: &[f32], out: &mut [f32], #[inactive] sign: &mut [f32]) {
    assert!(x.len() == out.len() && sign.len() == out.len());
    each((out, sign), |i, (out, sign)| {
        *out = x[i] * x[i] * x[i];
        *sign = if x[i] > 0.0 { 1.0 } else { -1.0 };
    });
}

/// The factors have no gradient. The names are those of variables that the macro makes.
#[kernel(gradient)]
pub(super) fn weighted(#[inactive] kernel: &[f32], target: &[f32], recorder: &mut [f32]) {
    assert!(target.len() == recorder.len() && kernel.len() == recorder.len());
    each(recorder, |i, checked| *checked = kernel[i] * target[i] * target[i]);
}

#[derive(Debug, Clone, Copy, PartialEq, Device, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(super) struct Body {
    pub(super) at: [f32; 3],
    pub(super) speed: [f32; 3],
    pub(super) kind: u32,
    pub(super) mass: f32,
}

#[derive(Debug, Clone, Copy, PartialEq, Device, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(super) struct Field {
    pub(super) gravity: f32,
    pub(super) drag: f32,
}

#[device]
fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// The energy of bodies, and their places after a step.
#[kernel(gradient)]
pub(super) fn energies(
    #[active] field: Field,
    bodies: &[Body],
    energy: &mut [f32],
    next: &mut [[f32; 3]],
) {
    assert!(bodies.len() == energy.len() && bodies.len() == next.len());
    each((energy, next), |i, (energy, next)| {
        let body = bodies[i];
        let kept = 1.0 - field.drag * body.kind as f32;
        *energy =
            0.5 * body.mass * dot(body.speed, body.speed) + body.mass * field.gravity * body.at[2];
        for k in 0..3 {
            next[k] = body.at[k] + kept * body.speed[k];
        }
    });
}

/// The Laplacian of an image, with the edge repeated, weighted by a square.
#[kernel(gradient)]
pub(super) fn laplace<T: Real>(width: usize, height: usize, x: &[T], out: &mut [T]) {
    assert!(x.len() == out.len());
    each(image(out, [width, height]), |[i, j], out| {
        let here = x[j * width + i];
        let left = if i > 0 { x[j * width + i - 1] } else { here };
        let right = if i + 1 < width { x[j * width + i + 1] } else { here };
        let below = if j > 0 { x[(j - 1) * width + i] } else { here };
        let above = if j + 1 < height { x[(j + 1) * width + i] } else { here };
        *out = here * (left + right + below + above - T::from_f64(4.0) * here);
    });
}

#[kernel(gradient)]
pub(super) fn by_bits(x: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| *out = f32::from_bits(x[i].to_bits() + 1)); // refused: by_bits
}

#[kernel(gradient)]
pub(super) fn by_place(x: &[f32], out: &mut [f32], taken: &Atomic<[u32]>, slots: &mut [u32]) {
    assert!(x.len() == out.len() && taken.len() == 1 && slots.len() == out.len());
    each((out, slots), |i, (out, slot)| {
        *slot = taken.fetch_add(0, 1); // refused: by_place
        *out = x[*slot as usize];
    });
}

#[kernel(gradient)]
pub(super) fn of_nothing(x: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| *out = x[i].floor()); // refused: of_nothing
}

#[kernel(gradient)]
pub(super) fn leaks(x: &[f32], out: &mut [f32], #[inactive] copy: &mut [f32]) {
    assert!(x.len() == out.len() && copy.len() == out.len());
    each((out, copy), |i, (out, copy)| {
        *out = x[i] * x[i];
        *copy = x[i];
    });
}

#[derive(Debug, Clone, Copy, PartialEq, Device, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(super) struct Mixed {
    pub(super) a: f64,
    pub(super) b: [f32; 2],
}

#[kernel(gradient)]
pub(super) fn of_two_types(x: &[Mixed], out: &mut [f32]) {
    each(out, |i, out| *out = x[i].a as f32 * x[i].b[0]);
}

/// Lengths of parts of 64 elements, by a tree in shared memory.
#[kernel(gradient)]
pub(super) fn lengths<T: Real + Element>(x: &[T], out: &mut [T]) {
    blocks(Threads::<64>, out, |block, length| {
        let first = block.index() * 64;
        let mut tile = block.shared([T::default(); 64]);
        block.each(&mut tile, |i, t| {
            if first + i < x.len() {
                *t = x[first + i] * x[first + i];
            }
        });
        let mut half = 32;
        while half > 0 {
            let (low, high) = tile.split_at_mut(half);
            block.each(low, |i, a| *a += high[i]);
            half /= 2;
        }
        length.set(tile[0].sqrt());
    });
}

/// Three steps of averages with the neighbours in the block, in two arrays.
#[kernel(gradient)]
pub(super) fn smoothed<T: Real + Element>(x: &[T], out: &mut [T]) {
    assert!(x.len() == out.len());
    blocks(Threads::<32>, chunks(out, 32), |block, out| {
        let first = out.start();
        let mut now = block.shared([T::default(); 32]);
        let mut next = block.shared([T::default(); 32]);
        block.each(&mut now, |i, a| {
            if first + i < x.len() {
                *a = x[first + i];
            }
        });
        for _ in 0..3 {
            block.each(&mut next, |i, a| {
                let (left, right) = (now[if i == 0 { 31 } else { i - 1 }], now[(i + 1) % 32]);
                *a = now[i] * left + right;
            });
            std::mem::swap(&mut now, &mut next);
        }
        block.each(out, |i, o| *o = now[i]);
    });
}

/// The square of a matrix of 6 rows, by tiles of 4 rows.
#[kernel(gradient)]
pub(super) fn products<T: Real + Element>(x: &[T], out: &mut [T]) {
    assert!(x.len() == 36 && out.len() == 36);
    blocks(Threads::<4, 4>, tiles::<4, 4, _>(out, [6, 6]), |block, c| {
        let [row, column] = c.origin();
        let mut left = block.shared([[T::default(); 4]; 4]);
        let mut right = block.shared([[T::default(); 4]; 4]);
        let mut sum = block.per_thread(T::default());
        for start in (0..6).step_by(4) {
            block.load_matrix(&mut left, x, [6, 6], [row as isize, start as isize], T::default());
            block.load_matrix(
                &mut right,
                x,
                [6, 6],
                [start as isize, column as isize],
                T::default(),
            );
            block.each(&mut sum, |[i, j], s| {
                for k in 0..4 {
                    *s += left[i][k] * right[k][j];
                }
            });
        }
        block.each((c, &mut sum), |_, (c, s)| *c = *s);
    });
}

macro_rules! waves {
    ($($name:ident $f:ident)+) => {$(
        /// Elementary functions, of numbers between 0 and 1.
        #[allow(dead_code, reason = "the test calls the functions of the type of this name")]
        #[kernel(gradient)]
        pub(super) fn $name(x: &[$f], out: &mut [$f]) {
            assert!(x.len() == out.len());
            each(out, |i, out| {
                let x = x[i];
                let (sin, cos) = (x * 3.0).sin_cos();
                *out = x.sin() * x.exp() + x.ln() * x.cos() + x.tan() - x.tanh() * x.asin()
                    + x.powf(2.5) * x.cbrt() + x.atan2(0.3) + x.hypot(0.4) + sin * cos * x.log2()
                    + x.sinh() / x.cosh() + x.exp2() * x.ln_1p() + x.exp_m1() * x.acos() + x.log10() * x.atan();
            });
        }
    )+};
}
waves!(waves_f32 f32 waves_f64 f64);

#[kernel(gradient)]
pub(super) fn held<T: Real>(x: &[T], out: &mut [T]) {
    assert!(x.len() == out.len());
    each(out, |i, out| *out = x[i] * x[i].stop_gradient());
}

/// The sine, also of numbers whose quadrant is found from their bits.
#[allow(dead_code, reason = "the test calls the functions of the type of this name")]
#[kernel(gradient)]
pub(super) fn sine(x: &[f64], out: &mut [f64]) {
    assert!(x.len() == out.len());
    each(out, |i, out| *out = x[i].sin());
}
