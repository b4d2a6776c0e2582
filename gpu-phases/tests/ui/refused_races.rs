use gpu_phases::{each, kernel};

#[kernel]
fn adds_to_a_variable(x: &[f32], out: &mut [f32]) {
    let mut total = 0.0f32;
    each(out, |i, out| {
        total += x[i];
        *out = total;
    });
}

#[kernel]
fn writes_the_next_element(out: &mut [f32]) {
    each(out, |i, item| out[i + 1] = 1.0);
}

#[kernel]
fn reads_what_is_written(out: &mut [f32]) {
    each(out, |i, item| *item = out[0]);
}

#[kernel]
fn reads_the_next_element(out: &mut [f32]) {
    each(out, |i, out| *out = out[i + 1]);
}

#[kernel]
fn reads_another_output(a: &mut [u8], b: &mut [f32]) {
    each((a, b), |i, (x, b)| *b = a[i] as f32);
}

#[kernel]
fn has_arrays_and_a_slice_of_its_name(a: &mut [[f32; 2]], b: &mut [f32]) {
    each((a, b), |i, (a, b)| {
        a[i % 2] = 1.0;
        let b = [a[0], a[1]];
        a[0] = b[i % 2];
    });
}

#[kernel]
fn writes_an_input(x: &[f32], out: &mut [f32]) {
    each(out, |i, out| x[i] = 1.0);
}

#[kernel]
fn writes_another_output(a: &mut [f32], b: &mut [f32]) {
    each(a, |i, a| b[i] = 1.0);
}

#[kernel]
fn has_an_output_twice(a: &mut [f32]) {
    each((a, a), |i, (a, b)| *a = *b);
}

#[derive(Clone, Copy, gpu_phases::Device)]
struct NoLayout {
    x: f32,
}

/// Uses of a refused type are no further errors.
#[kernel]
fn uses(x: &[NoLayout], out: &mut [f32]) {
    each(out, |i, out| *out = x[i].x);
}

/// Promises that the macros make.
fn promises() {
    let _ = gpu_phases::trust::Trusted::new();
    let _ = gpu_phases::trust::Checked::new();
    let _ = gpu_phases::EmbeddedPack::new("kernels.pack", b"");
}

fn main() {}
