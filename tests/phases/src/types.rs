//! Structures, enums, functions, generics, options, closures, images.

use gpu_phases::{Device, Int, Real, device, kernel};

use crate::both;

#[derive(Debug, Clone, Copy, PartialEq, Device, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Vec3 {
    x: f32,
    y: f32,
    z: f32,
}

#[device]
impl Vec3 {
    const ZERO: Self = Self { x: 0.0, y: 0.0, z: 0.0 };

    fn new(x: f32, y: f32, z: f32) -> Self {
        Self { x, y, z }
    }

    fn dot(self, other: Self) -> f32 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    fn scale(self, by: f32) -> Self {
        Self::new(self.x * by, self.y * by, self.z * by)
    }

    fn bump(&mut self, by: f32) {
        self.x += by;
    }

    fn min(&self, other: &Self) -> Self {
        Self { x: self.x.min(other.x), y: self.y.min(other.y), ..*self }
    }
}

#[device]
impl std::ops::Add for Vec3 {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { x: self.x + other.x, y: self.y + other.y, z: self.z + other.z }
    }
}

#[device]
impl std::ops::Sub for Vec3 {
    type Output = Vec3;

    fn sub(self, other: Vec3) -> Self::Output {
        Vec3::new(self.x - other.x, self.y - other.y, self.z - other.z)
    }
}

#[device]
impl std::ops::Mul<f32> for Vec3 {
    type Output = Vec3;

    fn mul(self, by: f32) -> Vec3 {
        self.scale(by)
    }
}

#[device]
impl std::ops::AddAssign for Vec3 {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

const SOFT: f32 = 1e-3;

#[device]
fn pull(p: Vec3, q: Vec3) -> Vec3 {
    let d = q - p;
    let r = 1.0 / (d.dot(d) + SOFT).sqrt();
    d.scale(r * r * r)
}

#[kernel]
fn nbody(positions: &[Vec3], forces: &mut [Vec3]) {
    assert!(positions.len() == forces.len());
    let n = positions.len();
    each(forces, |i, force| {
        let mut sum = Vec3::ZERO;
        for j in 0..n {
            sum = sum + pull(positions[i], positions[j]);
        }
        sum += Vec3::new(1.0, 2.0, 3.0) * 0.5;
        sum.bump(0.25);
        *force = sum.min(&positions[i]);
    });
}

fn points(n: usize) -> Vec<Vec3> {
    (0..n).map(|i| Vec3 { x: (i as f32).sin(), y: (i as f32).cos(), z: i as f32 * 0.01 }).collect()
}

#[test]
fn structures_have_equal_bits() {
    both!(nbody(read points(300), write points(300))).unwrap();
}

#[derive(Debug, Clone, Copy, PartialEq, Device)]
#[repr(u8)]
enum Mode {
    Fast,
    Slow = 7,
}

#[device]
fn mode(x: u32) -> Mode {
    use Mode::{Fast, Slow};
    if x % 3 == 0 { Fast } else { Slow }
}

#[device]
fn root(x: f32) -> Option<f32> {
    if x < 0.0 { None } else { Some(x.sqrt()) }
}

#[device]
fn twice<T: Real>(x: T, f: impl Fn(T) -> T) -> T {
    f(f(x))
}

#[device]
fn power<I: Int, const N: usize>(x: I) -> I {
    let mut y = x;
    for _ in 0..N {
        y = y.wrapping_mul(x);
    }
    y
}

#[kernel]
fn mixed(x: &[u32], out: &mut [f32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let m = mode(x[i]);
        let mut v = match m {
            Mode::Fast => 1.0,
            Mode::Slow => x[i] as f32,
        };
        if let Some(r) = root(v - 3.0) {
            v += r;
        }
        let Some(q) = root(x[i] as f32) else { return };
        let scaled = |a: f32| a * v + q;
        let (a, b) = (scaled(2.0), twice(q, |y| y * 0.5 + v));
        let p = power::<u32, 3>(x[i]) as f32;
        let both = (a, [b, p]);
        let (c, [d, e]) = both;
        *out = c + d.max(e) + m as u8 as f32 + if m == Mode::Slow { 1.0 } else { 0.5 };
    });
}

#[test]
fn enums_options_closures_and_generics_have_equal_bits() {
    both!(mixed(read (0..500).collect::<Vec<u32>>(), write vec![0.0f32; 500])).unwrap();
}

#[kernel]
fn picture(w: usize, h: usize, out: &mut [f32], flags: &mut [u32]) {
    each((image(out, [w, h]), image(flags, [w, h])), |[x, y], (out, flag)| {
        *out = x as f32 * 0.5 - y as f32;
        *flag = (x ^ y) as u32;
    });
}

#[test]
fn images_and_several_outputs_have_equal_bits() {
    let _alone = crate::alone();
    let stream = crate::stream();
    let (w, h) = (45, 19);
    let (mut out, mut flags) = (vec![0.0f32; w * h], vec![0u32; w * h]);
    picture::cpu(w, h, &mut out, &mut flags).unwrap();
    let mut d = cuda_safe::DeviceBuffer::<f32>::zeroed(&stream, w * h).unwrap();
    let mut e = cuda_safe::DeviceBuffer::<u32>::zeroed(&stream, w * h).unwrap();
    picture::launch(&stream, w, h, &mut d, &mut e).unwrap();
    crate::check::same("picture", &out, &d.to_vec(&stream).unwrap());
    crate::check::same("picture", &flags, &e.to_vec(&stream).unwrap());
}

#[kernel]
fn scale<T: Real>(by: T, x: &[T], out: &mut [T]) {
    assert!(x.len() == out.len());
    each(out, |i, out| *out = by * x[i].abs().sqrt() + T::from_f64(0.1));
}

#[test]
fn generic_kernels_have_equal_bits() {
    let x: Vec<f64> = (0..300).map(|i| f64::from(i) * 0.7).collect();
    let y: Vec<f32> = (0..300).map(|i| i as f32 * 0.7).collect();
    both!(scale(value 2.5f64, read x, write vec![0.0f64; 300])).unwrap();
    both!(scale(value 2.5f32, read y, write vec![0.0f32; 300])).unwrap();
}

#[device(contract)]
fn horner(x: f32, k: f32) -> f32 {
    (x * k - 0.25) * x + 1.5 - k * x + (x * x + k * (x * 0.7))
}

#[kernel(contract)]
fn contracted(x: &[f32], p: &[Vec3], out: &mut [f32]) {
    assert!(x.len() == out.len() && p.len() == out.len());
    each(out, |i, out| {
        let mut s = horner(x[i], 0.3);
        let mut n = 3usize;
        for j in 0..10 {
            s += x[i] * x[j];
            n += j * 2;
            s -= 0.1 * s;
        }
        let v = p[i] * 2.0 + p[0];
        *out = s * v.x + n as f32;
    });
}

#[test]
fn contraction_by_syntax_has_equal_bits() {
    let x: Vec<f32> = (0..400).map(|i| (i as f32).sin()).collect();
    let fused = both!(contracted(read x, read points(400), write vec![0.0f32; 400])).unwrap();
    assert_ne!(fused[7], 0.0);
    assert!(contracted::source().contains("o_add_product_assign"));
}

#[kernel]
fn into_elements(x: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let mut sums = [Vec3::ZERO; 4];
        for j in 0..8usize {
            sums[j % 4] += Vec3::new(x[i], j as f32, 1.0);
        }
        let k = i % 4;
        sums[k] += sums[3 - k];
        *out = sums[k].dot(sums[1]);
    });
}

#[test]
fn operators_assign_to_elements_of_user_types() {
    let x: Vec<f32> = (0..100).map(|i| i as f32 / 7.0).collect();
    both!(into_elements(read x, write vec![0.0f32; x.len()])).unwrap();
}

#[kernel]
fn one_more(x: &[u8], out: &mut [u8]) {
    assert!(x.len() == out.len());
    each(out, |i, out| *out = x[i] + 1);
}

/// The profile's `overflow-checks` decides, whatever its `debug-assertions` are.
#[test]
fn the_description_has_the_overflow_checks_of_rust() {
    let here = std::panic::catch_unwind(|| std::hint::black_box(255u8) + std::hint::black_box(1));
    assert_eq!((one_more::kernel().overflow_checks)(), here.is_err());
    assert!(one_more::source().contains(&format!("const now<{}> c", here.is_err())));
    match both!(one_more(read [255u8; 3], write vec![0u8; 3])) {
        Ok(out) => assert!(here.is_ok() && out == [0; 3]),
        Err((_, fault, failed)) => {
            assert!(here.is_err() && failed);
            assert_eq!(fault.unwrap().kind, gpu_phases::FaultKind::Overflow);
        }
    }
}

#[derive(Debug, Clone, Copy, Device)]
#[repr(C)]
struct Walk {
    left: u32,
}

#[device]
impl Walk {
    fn even(self) -> u32 {
        if self.left == 0 { 1 } else { Walk { left: self.left - 1 }.odd() }
    }

    fn odd(self) -> u32 {
        if self.left == 0 { 0 } else { by_function(self) }
    }
}

#[device]
fn by_function(walk: Walk) -> u32 {
    Walk { left: walk.left - 1 }.even()
}

#[kernel]
fn walks(out: &mut [u32]) {
    each(out, |i, out| *out = Walk { left: i as u32 }.even());
}

#[test]
fn a_cycle_of_methods_is_an_error_of_the_load() {
    let source = walks::source();
    let first = source.lines().next().unwrap();
    assert!(first.starts_with("#error device functions call each other in a cycle: "), "{first}");
    for name in ["types::Walk::even", "types::Walk::odd", "by_function", "write a loop"] {
        assert!(first.contains(name), "{first}");
    }
    assert!(!nbody::source().contains("#error"));
}

#[kernel]
fn widened(x: &[u8], y: &[f32], out: &mut [f64]) {
    each(out, |i, out| {
        let sum = f32::from(x[i]) + y[i] + f32::from(-3i16);
        *out = f64::from(sum) * f64::from(u32::from(x[i] > 7) + u32::from(x[i]))
            + i64::from(x[i]) as f64;
    });
}

#[test]
fn conversions_by_from_have_equal_bits() {
    let y: Vec<f32> = (0..256).map(|i| i as f32 * 0.3).collect();
    let sums = both!(widened(read (0..=255).collect::<Vec<u8>>(), read y, write vec![0.0f64; 256]));
    assert!(sums.unwrap()[9] > 0.0);
}
