use gpu_phases::{Device, kernel};

#[kernel]
fn has_no_threads(out: &mut [f32]) {
    blocks(Threads::<0>, out, |block, out| out.set(1.0));
}

#[kernel]
fn has_too_many_threads(out: &mut [f32]) {
    blocks(Threads::<1025>, out, |block, out| out.set(1.0));
}

#[kernel]
fn has_too_many_rows(out: &mut [f32]) {
    blocks(Threads::<64, 32>, out, |block, out| out.set(1.0));
}

#[kernel]
fn has_a_part_of_a_warp(out: &mut [f32]) {
    blocks(Threads::<33>, out, |block, out| {
        let mut x = block.per_thread(1.0f32);
        block.warp_sum(&mut x);
        out.set(1.0);
    });
}

#[kernel]
fn sums_a_part_of_a_warp(out: &mut [f32]) {
    blocks(Threads::<48>, out, |block, out| {
        let x = block.per_thread(1.0f32);
        let n = block.sum(&x);
        out.set(n);
    });
}

#[derive(Clone, Copy, Device)]
#[repr(C)]
struct Five {
    x: [u32; 5],
}

#[kernel]
fn passes_on_too_much(out: &mut [u32]) {
    blocks(Threads::<32>, out, |block, out| {
        let five = Five { x: [1; 5] };
        let before = block.carry(five, five, |a, _| a);
        out.set(before.x[0]);
    });
}

#[kernel(min_blocks = 9)]
fn has_more_blocks_than_threads(out: &mut [f32]) {
    blocks(Threads::<16, 16>, out, |block, out| out.set(1.0));
}

fn main() {
    let mut out = [0.0];
    has_more_blocks_than_threads(&mut out);
    has_no_threads(&mut out);
    has_too_many_threads(&mut out);
    has_too_many_rows(&mut out);
    has_a_part_of_a_warp(&mut out);
    sums_a_part_of_a_warp(&mut out);
    passes_on_too_much(&mut [0]);
}
