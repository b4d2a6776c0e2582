//! Expansions have no `unsafe` that a crate's `forbid` refuses, no warnings, and names that C++ reserves.
#![forbid(unsafe_code)]
#![deny(warnings)]

use gpu_phases::{Device, device, each, kernel};

#[derive(Debug, Clone, Copy, PartialEq, Device)]
#[repr(C)]
struct Point {
    int: f32,
    template: f32,
}

#[derive(Debug, Clone, Copy, PartialEq, Device)]
#[repr(u8)]
enum Mode {
    Fast,
    Slow,
}

#[device]
impl Point {
    fn new(int: f32, template: f32) -> Self {
        Self { int, template }
    }

    fn delete(self) -> f32 {
        self.int + self.template
    }
}

#[device]
fn operator(float: f32) -> f32 {
    float + 1.0
}

#[kernel]
fn class(double: &[f32], signed: Mode, namespace: &mut [f32]) {
    assert!(double.len() == namespace.len());
    each(namespace, |long, short| {
        let auto = Point::new(double[long], 2.0);
        let typename = if signed == Mode::Slow { 0.5 } else { 1.5 };
        *short = operator(auto.delete()) * typename;
    });
}

mod qualified {
    #[gpu_phases::kernel]
    pub fn index(out: &mut [u32]) {
        gpu_phases::each(gpu_phases::image(out, [2, 2]), |[x, y], out| *out = (x + 10 * y) as u32);
    }
}

mod imports {
    use gpu_phases::{Atomic, each, image, kernel};

    #[kernel]
    pub fn count(bins: &Atomic<[u32]>, out: &mut [u32]) {
        assert!(bins.len() == 1);
        each(image(out, [1, 1]), |[x, y], out| *out = bins.fetch_add(0, (x + y) as u32));
    }

    pub fn in_a_function() {
        use gpu_phases::{Atomic, each, image, kernel};

        #[kernel]
        fn count(bins: &Atomic<[u32]>, out: &mut [u32]) {
            assert!(bins.len() == 1);
            each(image(out, [1, 1]), |[x, y], out| *out = bins.fetch_add(0, (x + y) as u32));
        }

        assert!(count::cpu(Atomic::from_mut(&mut [1]), &mut [0]).is_ok());
    }
}

mod without_import {
    use gpu_phases::kernel;

    #[kernel]
    pub fn first(out: &mut [u32]) {
        each(out, |i, out| *out = i as u32);
    }

    #[kernel]
    pub fn second(out: &mut [u32]) {
        each(volume(out, [1, 2, 2]), |[x, y, z], out| *out = (x + y + z) as u32);
    }
}

#[kernel]
fn loops_over_parts(x: &[f32], out: &mut [f32]) {
    assert!(x.len() == 4 * out.len());
    each(out, |i, out| {
        let mut a = [1.0f32, 2.0, 3.0];
        for v in &x[4 * i..4 * i + 2] {
            a[0] += *v;
        }
        for (j, (v, w)) in x[4 * i..4 * i + 2].iter().zip(x[4 * i + 2..].iter()).enumerate() {
            a[1] += v * w * j as f32;
        }
        for v in &mut a[1..] {
            *v *= 2.0;
        }
        for v in a[..1].iter_mut() {
            *v += 100.0;
        }
        *out = a[0] + a[1] + a[2];
    });
}

fn main() {
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let mut out = [0.0; 2];
    loops_over_parts(&x, &mut out);
    assert_eq!(out, [130.0, 218.0]);
    imports::in_a_function();
    assert!(!imports::count::source().is_empty());
    let mut out = [9; 4];
    qualified::index(&mut out);
    assert_eq!(out, [0, 1, 10, 11]);
    without_import::first(&mut out);
    assert_eq!(out, [0, 1, 2, 3]);
    without_import::second(&mut out);
    assert_eq!(out, [0, 1, 1, 2]);
    let mut out = [0.0; 3];
    class(&[1.0, 2.0, 3.0], Mode::Slow, &mut out);
    assert_eq!(out, [2.0, 2.5, 3.0]);
    class(&[1.0, 2.0, 3.0], Mode::Fast, &mut out);
    assert_eq!(out, [6.0, 7.5, 9.0]);
    assert!(class::source().contains("__global__"));
}
