//! Parameters that are filled in, and launches over extents.

use cuda_safe::{DeviceBuffer, LaunchConfig, Stream, kernels};

const SOURCE: &str = "";

kernels! {
    unsafe in SOURCE {
        safe fn slice(x: &[f32] = y, y: &[f32]);
        safe fn float(a: f32 = 1.0);
        safe fn wide(a: i128 = 1);
        safe fn itself(n: u32 = n + 1);
        safe fn later(n: u32 = m, m: u32 = 1);
        safe fn unknown(n: u32 = limit);
        safe fn launch(n: u32 = block.x);
        safe fn comparison(n: u32 = 1 < 2);
        safe fn cut_off(n: u32 =);
        safe fn half(x: &[f32], n: usize = x.len() / 2);
        unsafe fn four(n: u32) over [n, n, n, n];
        unsafe fn none(n: u32) over [];
        unsafe fn bare(w: u32, h: u32) over w, h;
        unsafe fn a_slice(x: &[f32]) over x;
        unsafe fn of_a_float(a: f32) over a;
        unsafe fn of_the_launch() over block.x;
        unsafe fn large(n: u32) over n by 2048;
        unsafe fn flat(w: u32, h: u32) over [w, h] by 256;
        unsafe fn expression(n: u32) over n by n;
    }
}

kernels! {
    struct AfterWhere;
    unsafe in SOURCE {
        safe fn late(n: u32) where n > 0 over n;
    }
}

mod good {
    cuda_safe::kernels! {
        pub struct Saxpy;
        unsafe in "" {
            safe fn saxpy(a: f32, x: &[f32], y: &mut [f32], n: usize = x.len()) over n
                where y.len() == n;
            safe fn explicit(x: &mut [f32], n: usize = x.len());
        }
    }
}
use good::Saxpy;

fn said_twice(k: &Saxpy, s: &Stream, x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) {
    let _ = k.saxpy(s, 2.0, x, y, 10);
}

fn with_a_launch(k: &Saxpy, s: &Stream, x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) {
    let _ = k.saxpy(s, LaunchConfig::cover(10, 256), 2.0, x, y);
}

fn without_a_launch(k: &Saxpy, s: &Stream, x: &mut DeviceBuffer<f32>) {
    let _ = k.explicit(s, x);
}

fn main() {}
