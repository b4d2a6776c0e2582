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

#[kernel]
fn changes_a_receiver(out: &mut [i32]) {
    each(out, |i, out| {
        let mut x = 1;
        let r = &x;
        *out = (*r).max({ x = 5; 2 });
    });
}

#[kernel]
fn changes_a_receiver_in_a_macro(out: &mut [f32]) {
    each(out, |i, out| {
        let mut x = 1.0f32;
        let r = &x;
        *out = r.powf({ assert!({ x = 5.0; true }); 2.0 });
    });
}

#[derive(Clone, Copy, gpu_phases::Device)]
#[repr(C)]
struct Counter {
    count: u32,
}

#[gpu_phases::device]
impl Counter {
    fn step(&mut self) -> u32 {
        self.count += 1;
        self.count
    }

    fn with(self, n: u32) -> u32 {
        self.count + n
    }
}

#[kernel]
fn changes_a_receiver_by_a_method(out: &mut [u32]) {
    each(out, |i, out| {
        let mut x = Counter { count: 1 };
        *out = x.with(x.step());
    });
}

#[gpu_phases::device]
fn same(x: &Counter) -> &Counter {
    x
}

#[kernel]
fn changes_what_a_receiver_refers_to(out: &mut [u32]) {
    each(out, |i, out| {
        let mut x = Counter { count: 1 };
        *out = same(&x).with(x.step());
    });
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

#[kernel]
fn changes_a_variable_in_a_condition(out: &mut [f32]) {
    let mut n = 4;
    assert!({
        n = 1;
        true
    });
    each(out, |i, out| *out = n as f32);
}

#[kernel]
fn changes_a_variable_in_a_number_of_blocks(out: &mut [f32]) {
    let mut n = 4;
    blocks(
        Threads::<32>,
        (
            grid({
                n = 1;
                1
            }),
            chunks(out, n),
        ),
        |block, (_, mut out)| block.each(&mut out, |i, out| *out = 1.0),
    );
}

#[derive(Clone, Copy, gpu_phases::Device)]
#[repr(C)]
struct Linked {
    x: f32,
}

impl Linked {
    // What it writes would be trusted.
    pub const PHASES_METHODS_0: gpu_phases::__private::Link =
        gpu_phases::__private::Link::new(|_| {});
}

fn main() {}
