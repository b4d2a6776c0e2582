#![forbid(unsafe_code)]
use gpu_phases::{device, each, kernel};

fn plain(x: f32) -> f32 {
    x
}

#[derive(Clone, Copy, gpu_phases::Device)]
#[repr(C)]
struct P {
    x: f32,
}

impl P {
    fn double(self) -> f32 {
        self.x * 2.0
    }

    fn len(self) -> usize {
        1
    }

    fn new(x: f32) -> Self {
        Self { x }
    }
}

#[kernel]
fn calls_a_plain_function(out: &mut [f32]) {
    each(out, |i, out| *out = plain(1.0));
}

#[kernel]
fn calls_a_plain_method(x: &[P], out: &mut [f32]) {
    each(out, |i, out| *out = x[i].double());
}

#[kernel]
fn calls_a_plain_method_with_a_name_of_rust(x: &[P], out: &mut [f32]) {
    each(out, |i, out| *out = x[i].len() as f32);
}

#[kernel]
fn calls_a_plain_associated_function(out: &mut [P]) {
    each(out, |i, out| *out = P::new(1.0));
}

#[kernel]
fn reads_a_missing_name(out: &mut [f32]) {
    each(out, |i, out| *out = missing);
}

#[kernel]
fn reads_slices_of_tuples(x: &[(f32, u8)], out: &mut [f32]) {
    each(out, |i, out| *out = x[i].0);
}

#[kernel]
fn reads_strings(x: &[String], out: &mut [f32]) {
    each(out, |i, out| *out = 0.0);
}

#[kernel]
fn reads_cells(x: &[std::cell::Cell<f32>], out: &mut [f32]) {
    each(out, |i, out| *out = 0.0);
}

#[kernel]
fn mixes_types(x: &[f32], n: u32, out: &mut [f32]) {
    each(out, |i, out| *out = x[i] + n);
}

#[kernel]
fn indexes_by_u32(x: &[f32], n: u32, out: &mut [f32]) {
    each(out, |i, out| *out = x[n]);
}

#[derive(Clone, Copy, gpu_phases::Device)]
#[repr(u8)]
enum OwnEquality {
    A,
    B,
}

impl PartialEq for OwnEquality {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

fn promises() {
    let _ = gpu_phases::trust::Trusted(());
    let _ = gpu_phases::trust::Checked(());
    let _ = gpu_phases::trust::Trusted::new();
    let _ = gpu_phases::trust::Checked::new();
}

struct Foreign;

impl gpu_phases::device::Device for Foreign {}

// Generated code gives them a `Checked`, which would launch any other kernel.
impl gpu_phases::target::Target for Foreign {}
impl gpu_phases::target::Record for Foreign {}

#[device]
fn first(n: u32) -> u32 {
    if n == 0 { 0 } else { second(n - 1) }
}

#[device]
fn second(n: u32) -> u32 {
    first(n)
}

fn main() {}
