//! Shared arrays whose length the launch computes, and patches of tiles.

use gpu_phases::kernel;

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

fn main() {}
