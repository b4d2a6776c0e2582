use gpu_phases::{each, kernel};

#[kernel]
unsafe fn is_unsafe(out: &mut [f32]) {
    each(out, |i, out| *out = 0.0);
}

#[kernel]
async fn is_async(out: &mut [f32]) {
    each(out, |i, out| *out = 0.0);
}

#[kernel]
const fn is_const(out: &mut [f32]) {
    each(out, |i, out| *out = 0.0);
}

#[kernel]
extern "C" fn is_extern(out: &mut [f32]) {
    each(out, |i, out| *out = 0.0);
}

#[kernel]
fn returns(out: &mut [f32]) -> f32 {
    each(out, |i, out| *out = 0.0);
}

#[kernel]
fn has_a_lifetime<'a>(x: &'a [f32], out: &mut [f32]) {
    each(out, |i, out| *out = x[i]);
}

#[kernel]
fn names_a_lifetime(x: &'static [f32], out: &mut [f32]) {
    each(out, |i, out| *out = x[i]);
}

#[kernel]
fn takes_nothing() {}

#[kernel]
fn takes_a_reference(x: &f32, out: &mut [f32]) {
    each(out, |i, out| *out = *x);
}

#[kernel]
fn takes_a_mutable_reference(x: &mut f32, out: &mut [f32]) {
    each(out, |i, out| *out = *x);
}

#[kernel]
fn takes_a_slice_by_value(x: [f32], out: &mut [f32]) {
    each(out, |i, out| *out = x[i]);
}

#[kernel]
fn takes_a_closure(f: impl Fn(f32) -> f32, out: &mut [f32]) {
    each(out, |i, out| *out = f(1.0));
}

#[kernel]
fn takes_a_function(f: fn(f32) -> f32, out: &mut [f32]) {
    each(out, |i, out| *out = f(1.0));
}

#[kernel]
fn takes_dyn(f: &dyn Fn(f32) -> f32, out: &mut [f32]) {
    each(out, |i, out| *out = f(1.0));
}

#[kernel]
fn takes_a_pattern((a, b): (f32, f32), out: &mut [f32]) {
    each(out, |i, out| *out = a + b);
}

#[kernel]
fn takes_self(self, out: &mut [f32]) {
    each(out, |i, out| *out = 0.0);
}

#[kernel]
struct NoFunction;

#[kernel(fast)]
fn has_no_such_argument(out: &mut [f32]) {
    each(out, |i, out| *out = 0.0);
}

#[kernel]
fn has_no_loop(out: &mut [f32]) {}

#[kernel]
fn ends_by_a_statement(out: &mut [f32]) {
    each(out, |i, out| *out = 0.0);
    let x = 1;
}

#[kernel]
fn runs_over_an_input(x: &[f32], out: &mut [f32]) {
    each(x, |i, out| *out = 0.0);
}

#[kernel]
fn runs_over_a_part(out: &mut [f32]) {
    each(&mut out[1..], |i, out| *out = 0.0);
}

#[kernel]
fn takes_one_argument(out: &mut [f32]) {
    each(out, |out| *out = 0.0);
}

#[kernel]
fn moves(out: &mut [f32]) {
    each(out, move |i, out| *out = 0.0);
}

#[kernel]
fn names_its_closure(out: &mut [f32]) {
    let f = |i: usize, out: &mut f32| *out = 0.0;
    each(out, f);
}

#[kernel]
fn mixes_dimensions(a: &mut [f32], b: &mut [f32]) {
    each((a, image(b, [2, 2])), |i, (a, b)| *a = 0.0);
}

#[kernel]
fn hides_its_shape(n: [usize; 2], out: &mut [f32]) {
    each(image(out, n), |[x, y], out| *out = 0.0);
}

#[kernel]
fn prints_before_its_loop(out: &mut [f32]) {
    println!("start");
    each(out, |i, out| *out = 0.0);
}

#[kernel(pack = "kernels.pack")]
fn names_a_file(out: &mut [f32]) {
    each(out, |i, out| *out = 0.0);
}

#[kernel(min_blocks = 9)]
fn has_more_blocks_than_threads(out: &mut [f32]) {
    each(out, |i, out| *out = 0.0);
}

#[kernel(min_blocks = 33)]
fn has_too_many_blocks(out: &mut [f32]) {
    each(out, |i, out| *out = 0.0);
}

#[gpu_phases::device(min_blocks = 2)]
fn is_no_kernel(x: f32) -> f32 {
    x
}

fn main() {}
