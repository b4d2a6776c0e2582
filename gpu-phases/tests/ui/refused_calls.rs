#![allow(unused_imports)]
use gpu_phases::{Atomic, Device, device, each, kernel};

#[derive(Clone, Copy, Device)]
#[repr(C)]
struct P {
    x: f32,
}

// An error of an item is the only one: what uses the item has none.
#[device]
impl P {
    fn area(&self) -> f32 {
        self.x
    }

    fn wave(&self) -> f32 {
        self.x.asinh()
    }
}

#[device]
fn height(p: &P) -> f32 {
    f32::atanh(p.x)
}

trait Shape {
    fn sides(&self) -> u32;
}

#[device]
impl Shape for P {
    fn sides(&self) -> u32 {
        3
    }
}

fn on_the_host(p: P) -> f32 {
    p.area() + p.wave() + height(&p) + p.sides() as f32
}

#[kernel]
fn uses_all(x: &[P], out: &mut [f32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| *out = x[i].area() + x[i].wave() + height(&x[i]) + x[i].sides() as f32);
}

#[device]
fn a1(x: f32) -> f32 {
    f32::acosh(x)
}
#[device]
fn a2(x: f32) -> f32 {
    <f32>::hypot(x, x)
}
#[device]
fn a3(x: f32) -> f32 {
    <f32 as std::ops::Add>::add(x, x)
}
#[device]
fn a4(x: u32) -> u32 {
    u32::isqrt(x)
}
#[device]
fn a5() -> u32 {
    u32::min_value()
}
#[device]
fn a6(x: f32) -> f32 {
    f32::to_radians(x) + x.to_degrees()
}
#[device]
fn a7(x: f32) -> f32 {
    x.to_degrees()
}
#[device]
fn a8(x: i32) -> i32 {
    i32::wrapping_abs(x)
}
#[device]
fn a9(x: f64) -> bool {
    f64::is_positive(x)
}
#[device]
fn a10() -> bool {
    bool::default()
}
#[device]
fn a11(x: f32) -> f32 {
    f32::clone(&x)
}
#[device]
fn a12(x: u64) -> Option<u32> {
    u32::try_from(x).ok()
}

#[device]
fn b1(a: u32, b: u32) -> u32 {
    std::cmp::min(a, b)
}
#[device]
fn b2(mut a: u32, mut b: u32) -> u32 {
    std::mem::swap(&mut a, &mut b);
    a
}
#[device]
fn b3() {
    std::hint::spin_loop();
}
#[device]
fn b4(x: &[f32]) -> f32 {
    x.get(1).copied().unwrap_or(0.0)
}
#[device]
fn b5(x: [f32; 4]) -> f32 {
    x.last().map(|x| *x).unwrap_or(0.0)
}
#[device]
fn b6(x: &[f32]) -> f32 {
    x.windows(2)[0]
}
#[device]
fn b7(x: f32) -> f64 {
    x.into()
}
#[device]
fn b8(mut x: [f32; 4]) {
    x.sort_by(|a, b| a.total_cmp(b));
}
#[device]
fn b9(x: &mut [f32]) {
    x.swap(0, 1);
}
#[device]
fn b10(x: &[f32], j: i32) -> f32 {
    x[j.try_into().unwrap()]
}
#[device]
fn b11() -> u32 {
    let mut v = Vec::<u32>::new();
    v.push(1);
    v[0]
}
#[device]
fn b12(x: P) -> P {
    x.clone()
}

#[kernel]
fn reads_past_the_end(x: &[f32], out: &mut [f32]) {
    each(out, |i, out| *out = x.get(i + 1).map(|x| *x).unwrap_or(0.0));
}

#[kernel]
fn counts_by_an_operator(x: &[u32], bins: &Atomic<[u32]>, out: &mut [u32]) {
    each(out, |i, out| bins[x[i] as usize] += 1);
}

#[kernel]
fn asserts_values(x: &[f32], out: &mut [f32]) {
    assert!(x[0] > 0.0);
    each(out, |i, out| *out = x[i]);
}

fn main() {
    let _ = asserts_values::launch(gpu_phases::Cpu, &[1.0], &mut vec![0.0]);
    let _ = asserts_values::cpu(&[1.0], &mut [0.0]);
    asserts_values(&[1.0], &mut [0.0]);
    println!("{}", asserts_values::source());
}
