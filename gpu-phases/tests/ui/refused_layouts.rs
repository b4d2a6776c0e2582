use gpu_phases::{each, kernel};

#[derive(Clone, Copy, gpu_phases::Device)]
#[repr(C)]
struct Padded {
    x: u8,
    y: u32,
}

#[derive(Clone, Copy, gpu_phases::Device)]
#[repr(C)]
struct HoldsATuple {
    x: (f32, f32),
}

#[kernel]
fn padded(x: &[Padded], out: &mut [f32]) {
    each(out, |i, out| *out = x[i].x as f32);
}

#[kernel]
fn tuples(x: &[(f32, f32)], out: &mut [f32]) {
    each(out, |i, out| *out = x[i].0);
}

#[kernel]
fn options(x: &[Option<f32>], out: &mut [f32]) {
    each(out, |i, out| *out = 0.0);
}

#[kernel]
fn holds_a_tuple(x: &[HoldsATuple], out: &mut [f32]) {
    each(out, |i, out| *out = x[i].x.0);
}

#[derive(Clone, Copy, gpu_phases::Device)]
enum Shape {
    Sphere(f32),
    Empty,
}

#[kernel]
fn enums_with_values(x: &[Shape], out: &mut [f32]) {
    each(out, |i, out| *out = 0.0);
}

#[kernel(gradient)]
fn an_active_integer(#[active] n: u32, x: &[f32], out: &mut [f32]) {
    each(out, |i, out| *out = x[i] * n as f32);
}

#[kernel(gradient)]
fn active_integers(
    #[active] indices: &[u32],
    out: &mut [f32],
) {
    each(out, |i, out| *out = indices[i] as f32);
}

fn main() {}
