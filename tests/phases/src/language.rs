//! Generic methods, operators of references, methods of `Option`, `?`, parts of slices.

use gpu_phases::kernel::CpuError;
use gpu_phases::{Device, FaultKind, Int, Real, device, kernel};

use crate::both;

#[derive(Debug, Clone, Copy, PartialEq, Device)]
#[repr(C)]
struct Pair<T: Real> {
    a: T,
    b: T,
}

// SAFETY: two floats without padding, for which all bytes are values.
unsafe impl bytemuck::Zeroable for Pair<f32> {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for Pair<f32> {}

#[device]
impl<T: Real> Pair<T> {
    fn new(a: T, b: T) -> Self {
        Self { a, b }
    }

    /// Generic over a type, a constant and a closure.
    fn folded<I: Int, const N: usize>(&self, by: I, f: impl Fn(T, I) -> T) -> T {
        let mut sum = self.a;
        for k in 0..N {
            sum = f(sum, by.wrapping_add(I::from_i64(k as i64)));
        }
        sum + self.b
    }

    fn grown<F>(mut self, f: F) -> Self
    where
        F: Fn(T) -> T,
    {
        self.a = f(self.a);
        self
    }

    fn of<U: Real>(x: U) -> Self {
        Self::new(T::from_f64(x.to_f64() * 0.1), T::from_f64(2.5))
    }

    fn cast<U: Real>(self) -> Pair<U> {
        Pair { a: U::from_f64(self.a.to_f64()), b: U::from_f64(self.b.to_f64()) }
    }
}

#[device(references)]
impl<T: Real> std::ops::Add for Pair<T> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Pair { a: self.a + other.a, b: self.b - other.b }
    }
}

#[device(references)]
impl<T: Real> std::ops::Mul<T> for Pair<T> {
    type Output = Pair<T>;

    fn mul(self, by: T) -> Pair<T> {
        Pair { a: self.a * by, b: self.b }
    }
}

#[device(references)]
impl<T: Real> std::ops::Neg for Pair<T> {
    type Output = Self;

    fn neg(self) -> Self {
        Pair { a: -self.b, b: self.a }
    }
}

#[device(references)]
impl<T: Real> std::ops::SubAssign for Pair<T> {
    fn sub_assign(&mut self, other: Self) {
        self.a -= other.b;
    }
}

#[derive(Debug, Clone, Copy, Device)]
#[repr(C)]
struct Both<T>(T, T);

#[device]
impl<T: Real> Both<T> {
    fn product(&self) -> T {
        self.0 * self.1
    }
}

#[device(slot = 1)]
impl Both<u32> {
    fn added(self) -> u32 {
        self.0.wrapping_add(self.1)
    }
}

#[kernel]
fn methods(x: &[Pair<f32>], y: &[f64], out: &mut [Pair<f32>], wide: &mut [f64]) {
    assert!(x.len() == out.len() && y.len() == out.len());
    each((out, wide), |i, (out, wide)| {
        let p = x[i];
        let s = p.folded::<i32, 3>(7, |s, k| s * 0.5 + k as f32);
        let t = p.folded::<u8, 2>(254, |s, k| s - k as f32);
        let q: Pair<f64> = p.cast();
        *wide =
            Pair::<f64>::of(s).grown(|a| a * 0.3).a + q.cast::<f64>().b + Pair::<f64>::of(y[i]).a;
        *wide += Both(0.5, y[i]).product() + Both(3u32, i as u32).added() as f64;
        *out = Pair::<f32>::of(y[i]).grown(|a| a + t) + p;
    });
}

fn pairs(n: usize) -> Vec<Pair<f32>> {
    (0..n).map(|i| Pair { a: (i as f32).sin(), b: i as f32 * 0.37 }).collect()
}

#[test]
fn generic_methods_have_equal_bits() {
    let y: Vec<f64> = (0..200).map(|i| f64::from(i) * 0.7).collect();
    let zero = Pair { a: 0.0, b: 0.0 };
    both!(methods(read pairs(200), read y, write vec![zero; 200], write vec![0.0f64; 200]))
        .unwrap();
    let source = methods::source();
    assert!(source.contains(" m_folded_f_folded_1(") && source.contains(" m_folded_f_folded_2("));
    assert!(!source.contains("f_folded_3"));
}

#[kernel]
fn references(x: &[Pair<f32>], out: &mut [Pair<f32>]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let (a, b) = (&x[i], &x[(i + 1) % x.len()]);
        let mut sum = a + b;
        sum = &sum + *a;
        sum = sum + b;
        sum -= a;
        for p in x.iter() {
            sum = sum + p;
        }
        *out = -&sum + &(a * &0.5) * 3.0;
    });
}

#[test]
fn operators_of_references_have_equal_bits() {
    both!(references(read pairs(99), write pairs(99))).unwrap();
}

#[device]
fn root(x: f32) -> Option<f32> {
    if x < 0.0 { None } else { Some(x.sqrt()) }
}

#[device]
fn both_roots(x: f32, y: f32, limit: Option<f32>) -> Option<Pair<f32>> {
    let a = root(x)?;
    if a > limit? {
        return None;
    }
    let sum = a + root(y)? * 2.0;
    Some(Pair { a: sum, b: root(sum - 3.0)? })
}

#[kernel]
fn options(x: &[f32], out: &mut [f32]) {
    each(out, |i, out| {
        let (a, b) = (root(x[i]), root(x[(i * 7 + 3) % x.len()]));
        let limit = if i % 5 == 0 { None } else { Some(1.5) };
        let mut calls = 0u32;
        let mapped = a.map(|v| {
            calls += 1;
            v * 3.0
        });
        let chained = b.and_then(|v| root(v - 0.5)).or(mapped).map(|v| v as f64);
        let large = a.filter(|v| *v > 1.0 && v.floor() != 2.0);
        let both = both_roots(x[i], x[(i + 2) % x.len()], limit);
        *out = calls as f32
            + mapped.map_or(0.25, |v| v - 1.0)
            + chained.unwrap_or_else(|| 7.5) as f32
            + large.or_else(|| b.map(|v| -v)).unwrap_or(100.0)
            + both.map(|p| p.a * p.b).unwrap_or(1e-3)
            + if a.is_some_and(|v| v > 2.0) { 0.5 } else { 0.0 };
        if let Some(Pair { a, .. }) = both {
            *out += a;
        }
    });
}

#[test]
fn options_have_equal_bits() {
    let x: Vec<f32> = (0..300).map(|i| (i as f32 * 0.7).sin() * 9.0 + 2.0).collect();
    let out = both!(options(read x, write vec![0.0f32; 300])).unwrap();
    assert!(out.iter().any(|v| *v > 100.0) && out.iter().any(|v| *v < 50.0));
}

#[device]
fn total(x: &[f32]) -> f32 {
    let mut sum = 0.0;
    for v in x.iter() {
        sum += *v;
    }
    sum + x.len() as f32
}

#[device]
fn tail<'a>(x: &'a [f32], from: usize) -> &'a [f32] {
    &x[from..]
}

#[device]
fn fill(x: &mut [f32], value: f32) {
    let last = x.len() - 1;
    for k in 0..last {
        x[k] = value + k as f32;
    }
}

#[kernel]
fn parts(x: &[f32], from: &[u32], out: &mut [f32]) {
    assert!(from.len() == out.len());
    each(out, |i, out| {
        let (a, b) = (from[i] as usize, i % 7);
        let part = &x[a..a + b];
        let mut local = [1.0f32; 8];
        fill(&mut local[2..], x[a]);
        local[1] += total(&local[..4]);
        let mut sum = total(part) + total(tail(part, b / 2)) + total(&local[..]);
        for j in 0..4usize {
            let of = &x[j * a..];
            sum += of[j] + total(&of[1..3]);
        }
        let rest = &mut local[6..8];
        rest[1] = sum;
        *out = local[7] + local[6];
    });
}

#[test]
fn parts_have_equal_bits_and_faults() {
    let x: Vec<f32> = (0..64).map(|i| i as f32 * 0.3).collect();
    let from: Vec<u32> = (0..50).map(|i| i % 19).collect();
    both!(parts(read x, read from, write vec![0.0f32; 50])).unwrap();
    // Past the end in one loop, whose check is deferred, and before it.
    for (start, index, len) in [(30, 90, 64), (62, 66, 64)] {
        let mut bad = from.clone();
        bad[11] = start;
        let (cpu, device, failed) =
            both!(parts(read x, read bad, write vec![0.0f32; 50])).unwrap_err();
        let CpuError::Fault(cpu) = cpu else { panic!("{cpu}") };
        let device = device.unwrap();
        assert!(failed);
        assert_eq!(
            (cpu.kind, cpu.index, cpu.len, cpu.element[0]),
            (FaultKind::Index, index, len, 11)
        );
        assert_eq!((cpu.line, cpu.index, cpu.len), (device.line, device.index, device.len));
    }
}

#[kernel]
fn backwards(x: &[f32], n: usize, out: &mut [f32]) {
    each(out, |i, out| *out = total(&x[i + 3..n]));
}

#[test]
fn parts_that_end_before_they_start_are_faults() {
    let (cpu, device, _) =
        both!(backwards(read [1.0f32; 8], value 2, write [0.0f32; 1])).unwrap_err();
    let CpuError::Fault(cpu) = cpu else { panic!("{cpu}") };
    assert_eq!((cpu.index, cpu.len), (3, 2));
    assert_eq!(device.map(|fault| (fault.index, fault.len)), Some((3, 2)));
}

#[derive(Debug, Clone, Copy, PartialEq, Device)]
enum Shape {
    Sphere { at: Duo, r: f32 },
    Plane(f32, u8),
    Empty,
    Many([i32; 3]),
}

#[derive(Debug, Clone, Copy, PartialEq, Device)]
#[repr(C)]
struct Duo {
    x: f32,
    y: f32,
}

use Shape::Many;

#[device]
impl Shape {
    const UNIT: Self = Shape::Sphere { at: Duo { x: 0.5, y: -1.5 }, r: 1.0 };
    const NOTHING: Self = Self::Empty;

    fn area(&self) -> f32 {
        match self {
            Shape::Sphere { at: Duo { x, .. }, r } if *r > 0.5 => *x * *r,
            Self::Sphere { r, .. } => *r,
            Self::Plane(0.0..=1.0, n) => *n as f32,
            Shape::Plane(d, _) => *d,
            Self::Empty => -1.0,
            Many([a, b, _]) => (*a - *b) as f32,
        }
    }

    fn grow(&mut self) {
        match self {
            Shape::Sphere { r, .. } => *r += 1.0,
            Many(list) => list[1] = 7,
            Shape::Plane(..) => *self = Shape::Empty,
            Shape::Empty => {}
        }
    }
}

#[device]
fn shape(x: f32, k: u32) -> Option<Shape> {
    Some(match k % 6 {
        0 => Shape::Sphere { at: Duo { x, y: 1.0 }, r: x.abs() },
        1 => Shape::Plane(x, k as u8),
        2 => Many([k as i32, x as i32, 3]),
        3 => Shape::UNIT,
        4 => Shape::NOTHING,
        _ => return None,
    })
}

#[device]
fn matches(s: Shape) -> bool {
    match s {
        Shape::Empty | Many([1 | 2, _, _]) => true,
        _ => false,
    }
}

#[kernel]
fn shapes(x: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let mut all = [Shape::Empty; 4];
        for j in 0..4u32 {
            if let Some(s) = shape(x[i], i as u32 + j) {
                all[j as usize] = s;
            }
        }
        let mut sum = 0.0;
        for s in all.iter_mut() {
            s.grow();
            sum = sum * 0.75 + s.area();
        }
        *out = sum;
        let Shape::Sphere { r, at } = all[0] else { return };
        *out -= if matches(all[1]) { r } else { at.y };
    });
}

#[test]
fn enums_with_values_have_equal_bits() {
    let x: Vec<f32> = (0..200).map(|i| (i as f32 * 0.7).sin() * 3.0).collect();
    let out = both!(shapes(read x, write vec![0.0f32; 200])).unwrap();
    assert!(out.iter().any(|v| *v > 1.0) && out.iter().any(|v| *v < -1.0));
}

#[kernel]
fn constants(out: &mut [f32]) {
    each(out, |i, out| {
        *out = match shape(1.0, i as u32) {
            Some(Shape::UNIT) => 1.0,
            _ => 2.0,
        };
    });
}

#[test]
fn constants_of_enums_with_values_are_no_patterns() {
    let stream = crate::stream();
    let mut out = cuda_safe::DeviceBuffer::<f32>::zeroed(&stream, 4).unwrap();
    let error = constants::launch(&stream, &mut out).unwrap_err().to_string();
    assert!(error.contains("write Type::Variant"), "{error}");
    assert!(!error.contains("bug of gpu-phases"), "{error}");
}

/// Operands that may fail are stored in variables, which belong to their branch.
#[kernel]
fn differences(x: &[f32], k: &[i32], out: &mut [f32], sums: &mut [i32]) {
    assert!(x.len() == out.len() && k.len() == out.len());
    each((out, sums), |i, (out, sum)| {
        let inside = i > 0 && i + 1 < x.len();
        *out = if inside { x[i + 1] - x[i - 1] } else { x[i] + x[i] };
        *sum = if k[i] != 0 {
            1000 / k[i] + 7 % k[i]
        } else {
            if i > 0 { k[i - 1] - k[i] } else { -1 }
        };
    });
}

#[test]
fn branches_with_several_operands_do_not_fail_outside() {
    for n in [1, 2, 40] {
        let x: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
        let k: Vec<i32> = (0..n as i32).map(|i| i % 3).collect();
        let (out, sums) =
            both!(differences(read x, read k, write vec![0.0f32; n], write vec![0i32; n])).unwrap();
        assert!(
            out.iter()
                .enumerate()
                .all(|(i, out)| *out == if i == 0 || i + 1 == n { i as f32 } else { 1.0 })
        );
        assert_eq!(sums[0], -1);
        assert!(sums.iter().skip(1).eq([1000, 501, 2].iter().cycle().take(n - 1)));
    }
}
