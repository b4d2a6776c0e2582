//! Shared arrays whose length the launch computes, patches of tiles, and values that blocks pass on.

use gpu_phases::{Block, device, kernel};

#[kernel]
fn length_of_the_block(out: &mut [u32]) {
    blocks(Threads::<32>, chunks(out, 40), |block, out| {
        let n = out.len();
        let tile = block.shared_slice::<u32>(n, 0);
        block.each(out, |i, o| *o = tile[i]);
    });
}

#[kernel]
fn no_type(n: usize, out: &mut [u32]) {
    blocks(Threads::<32>, chunks(out, 40), |block, out| {
        let tile = block.shared_slice(n, 0u32);
        block.each(out, |i, o| *o = tile[i]);
    });
}

#[kernel]
fn in_a_loop(n: usize, out: &mut [u32]) {
    blocks(Threads::<32>, chunks(out, 40), |block, mut out| {
        for _ in 0..3 {
            let tile = block.shared_slice::<u32>(n, 0);
            block.each(&mut out, |i, o| *o += tile[i]);
        }
    });
}

#[kernel]
fn in_an_expression(n: usize, out: &mut [u32]) {
    blocks(Threads::<32>, chunks(out, 40), |block, out| {
        let length = block.shared_slice::<u32>(n, 0).len() as u32;
        block.each(out, |_, o| *o = length);
    });
}

#[kernel]
fn written_by_the_block(n: usize, out: &mut [u32]) {
    blocks(Threads::<32>, chunks(out, 40), |block, out| {
        let mut tile = block.shared_slice::<u32>(n, 0);
        tile[0] = 1;
        block.each(out, |i, o| *o = tile[i]);
    });
}

#[kernel]
fn patches_of_no_size(n: usize, out: &mut [u32]) {
    blocks(Threads::<32>, tiles::<8, 8, _>(out, [n, n]), |block, mut out| {
        block.each(out.patches(), |_, mut patch| *patch = [[1u32; 2]; 2]);
    });
}

#[kernel]
fn patches_of_a_line(n: usize, out: &mut [u32]) {
    blocks(Threads::<32>, chunks(out, n), |block, mut out| {
        block.each(out.patches::<2, 2>(), |_, mut patch| *patch = [[1u32; 2]; 2]);
    });
}

#[kernel]
fn a_patch_beside_its_tile(n: usize, out: &mut [u32]) {
    blocks(Threads::<32>, tiles::<8, 8, _>(out, [n, n]), |block, mut out| {
        block.each((out.patches::<2, 2>(), &mut out), |_, (mut patch, o)| patch[0][0] = *o);
    });
}

#[kernel]
fn a_patch_that_leaves_its_phase(n: usize, out: &mut [u32]) {
    blocks(Threads::<32>, tiles::<8, 8, _>(out, [n, n]), |block, mut out| {
        let mut kept = None;
        block.each(out.patches::<2, 2>(), |_, patch| kept = Some(patch));
    });
}

#[kernel]
fn passes_on_in_a_loop(out: &mut [u32]) {
    blocks(Threads::<32>, out, |block, out| {
        let mut sum = 0;
        for k in 0..3 {
            sum += block.carry(k, 0, |a, b| a + b);
        }
        out.set(sum);
    });
}

#[kernel]
fn passes_on_in_a_branch(n: u32, out: &mut [u32]) {
    blocks(Threads::<32>, out, |block, out| {
        let sum = if n > 3 { block.carry(n, 0, |a, b| a + b) } else { 0 };
        out.set(sum);
    });
}

#[kernel]
fn passes_on_after_a_return(out: &mut [u32]) {
    blocks(Threads::<32>, out, |block, out| {
        if block.index() == 5 {
            return;
        }
        let sum = block.carry(1, 0, |a, b| a + b);
        out.set(sum);
    });
}

#[kernel]
fn passes_on_in_a_phase(out: &mut [u32]) {
    blocks(Threads::<32>, chunks(out, 32), |block, out| {
        block.each(out, |_, o| *o = block.carry(1, 0, |a, b| a + b));
    });
}

#[device]
fn passed_on(block: &mut Block<32>) -> u32 {
    block.carry(1, 0, |a, b| a + b)
}

#[device]
fn sum_of(a: u32, b: u32) -> u32 {
    a + b
}

#[kernel]
fn passes_on_by_a_name(out: &mut [u32]) {
    blocks(Threads::<32>, out, |block, out| {
        let sum = block.carry(1, 0, sum_of);
        out.set(sum);
    });
}

#[kernel]
fn counts_operations(out: &mut [u32]) {
    blocks(Threads::<32>, out, |block, out| {
        let mut count = 0;
        let sum = block.carry(1, 0, |a, b| {
            count += 1;
            a + b
        });
        out.set(sum + count);
    });
}

fn main() {}
