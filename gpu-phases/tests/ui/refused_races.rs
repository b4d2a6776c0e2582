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

fn main() {}
