use gpu_phases::{device, each, kernel};

#[kernel]
fn has_no_gradients(#[active] a: f32, out: &mut [f32]) {
    each(out, |i, out| *out = a);
}

#[kernel(gradient)]
fn an_inactive_value(#[inactive] a: f32, out: &mut [f32]) {
    each(out, |i, out| *out = a);
}

#[kernel(gradient)]
fn marked_twice(#[active] #[inactive] x: &[f32], out: &mut [f32]) {
    each(out, |i, out| *out = x[i]);
}

#[kernel(gradient)]
fn another_marker(#[wrt] x: &[f32], out: &mut [f32]) {
    each(out, |i, out| *out = x[i]);
}

#[kernel(gradient)]
fn with_arguments(#[active(x)] x: &[f32], out: &mut [f32]) {
    each(out, |i, out| *out = x[i]);
}

#[device(gradient)]
fn twice(x: f32) -> f32 {
    2.0 * x
}

#[kernel(gradients)]
fn misspelt(x: &[f32], out: &mut [f32]) {
    each(out, |i, out| *out = x[i]);
}

fn main() {}
