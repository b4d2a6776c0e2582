//! What NVRTC makes of kernels over blocks.

use cuda_safe::nvrtc::{Arch, Options, Program, Std};
use gpu_phases::kernel;

use super::floats;
use crate::both;

/// Each thread has four sums, and shows them in a row of a shared array.
#[kernel]
fn four_sums(x: &[f32], out: &mut [f32]) {
    blocks(Threads::<32>, chunks(out, 128), |block, out| {
        let first = out.start();
        let mut tile = block.shared([0.0f32; 160]);
        let mut sums = block.per_thread([0.0f32; 4]);
        for start in 0..2 {
            block.each(&mut sums, |t, sums| {
                for k in 0..4 {
                    let i = first + t + 32 * k + 7 * start;
                    sums[k] += if i < x.len() { x[i] } else { 0.0 };
                }
            });
        }
        block.each((tile.rows(5), &mut sums), |_, (row, sums)| {
            for k in 0..4 {
                row[k] = sums[k];
            }
        });
        block.each(out, |i, out| *out = tile[i % 32 * 5 + i / 32]);
    });
}

#[kernel(min_blocks = 8)]
fn elements_of_eight_blocks(out: &mut [f32]) {
    each(out, |i, out| *out = i as f32);
}

#[kernel(min_blocks = 32)]
fn small_blocks(out: &mut [f32]) {
    blocks(Threads::<64>, out, |block, out| out.set(block.index() as f32));
}

#[test]
fn the_least_number_of_blocks_is_that_of_the_kernel_only() {
    for (kernel, source, threads, least) in [
        (elements_of_eight_blocks::kernel(), elements_of_eight_blocks::source(), 256, 8),
        (small_blocks::kernel(), small_blocks::source(), 64, 32),
    ] {
        let ptx = cuda_safe::kernel::ptx(kernel, Arch::sm(9, 0)).unwrap();
        assert!(ptx.contains(&format!(".maxntid {threads}")), "{ptx}");
        assert!(ptx.contains(&format!(".minnctapersm {least}")), "{ptx}");
        let options = Options::new().std(Std::Cpp17).extra("-default-device");
        let program = Program::new(source)
            .options(options.define_flag("PHASES_GRADIENT"))
            .host_headers(false)
            .kernel(kernel.entry());
        let ptx = program.compile(Arch::compute(9, 0)).unwrap().ptx.unwrap();
        assert!(ptx.contains(".entry") && !ptx.contains(".minnctapersm"), "{ptx}");
    }
}

/// A loop that writes only its thread's variables: its check is made at its end.
#[kernel]
fn gathers(at: &[u32], out: &mut [f32]) {
    assert!(at.len() == 4 * out.len());
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        let first = out.start();
        let mut tile = block.shared([[0.0f32; 3]; 64]);
        block.each(&mut tile, |[i, j], t| *t = (3 * i + j) as f32);
        block.each(out, |i, out| {
            let mut sum = 0.0;
            for k in 0..4 {
                sum += tile[at[4 * (first + i) + k] as usize][k % 3];
            }
            *out = sum;
        });
    });
}

/// Indices that are products of constants and of the index of a thread.
#[kernel]
fn products(out: &mut [f32]) {
    blocks(Threads::<16, 16>, tiles::<16, 16, _>(out, [16, 16]), |block, out| {
        let mut tile = block.shared([[1.0f32; 16]; 64]);
        let mut sum = block.per_thread([0.0f32; 4]);
        block.each(&mut tile, |[i, j], t| *t = (i + j) as f32);
        block.each(&mut sum, |[i, j], sum| {
            for a in 0..4 {
                for b in 0..4 {
                    sum[a] += tile[i + 16 * a][j] * tile[j + 16 * b][i];
                }
            }
        });
        block.each((out, &mut sum), |_, (out, sum)| *out = sum[0] + sum[1] * sum[2] - sum[3]);
    });
}

#[test]
fn arrays_of_threads_are_in_registers() {
    for n in [0, 1, 128, 200] {
        let out = both!(four_sums(read floats(n), write vec![0.0f32; n])).unwrap();
        let x = floats(n);
        let expected = |i: usize| 0.0 + x[i] + x.get(i + 7).copied().unwrap_or(0.0);
        assert!(out.iter().enumerate().all(|(i, out)| *out == expected(i)));
    }
    for kernel in [four_sums::kernel(), products::kernel()] {
        let ptx = cuda_safe::kernel::ptx(kernel, Arch::sm(9, 0)).unwrap();
        assert!(!ptx.contains(".local"), "{ptx}");
    }
}

#[test]
fn deferred_checks_leave_loads_of_shared_memory() {
    let at: Vec<u32> = (0..400).map(|i| i * 5 % 64).collect();
    let out = both!(gathers(read at, write vec![0.0f32; 100])).unwrap();
    assert_eq!(out[0], (0.0 + 0.0) + (15.0 + 1.0) + (30.0 + 2.0) + 45.0);
    let mut wrong = at.clone();
    wrong[77] = 64;
    let (cpu, fault, failed) = both!(gathers(read wrong, write vec![0.0f32; 100])).unwrap_err();
    assert!(failed);
    assert_eq!(cpu.to_string(), fault.unwrap().to_string());
    let ptx = cuda_safe::kernel::ptx(gathers::kernel(), Arch::sm(9, 0)).unwrap();
    assert!(ptx.contains("ld.shared.f32") && !ptx.contains("ld.f32"), "{ptx}");
}

#[test]
fn hoisted_checks_of_constants_cost_nothing() {
    both!(products(write vec![0.0f32; 256])).unwrap();
    let ptx = cuda_safe::kernel::ptx(products::kernel(), Arch::sm(9, 0)).unwrap();
    assert!(!ptx.contains("mul.hi.u64"), "{ptx}");
}

#[kernel]
fn exchanges(x: &[u32], out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        let first = out.start();
        let mut pair = block.per_thread([0u32, 0]);
        block.each(&mut pair, |t, pair| {
            let i = first + t;
            *pair = if i < x.len() { [x[i], !x[i]] } else { [0, 7] };
        });
        let mut near = block.per_thread([0u32, 0]);
        block.each((&mut near, &mut pair), |_, (near, pair)| *near = *pair);
        block.warp_xor(&mut near, 3);
        let mut from = block.per_thread(0u32);
        block.each(&mut from, |t, from| *from = (t * t) as u32);
        let mut far = block.per_thread([0u32, 0]);
        block.each((&mut far, &mut pair), |_, (far, pair)| *far = *pair);
        block.warp_broadcast(&mut far, &from);
        let one = block.broadcast(&pair, 40);
        block.each((out, &mut near, &mut far), |_, (out, near, far)| {
            *out = near[0] ^ far[1].rotate_left(3) ^ one[0].wrapping_mul(one[1]);
        });
    });
}

#[test]
fn lanes_exchange_arrays() {
    for n in [1usize, 64, 100] {
        let x = super::words(n);
        let out = both!(exchanges(read x, write vec![0u32; n])).unwrap();
        let pair = |i: usize| x.get(i).map_or([0, 7], |x| [*x, !x]);
        for (i, out) in out.iter().enumerate() {
            let (block, lane) = (i / 64 * 64, i % 64);
            let far = pair(block + lane / 32 * 32 + lane * lane % 32)[1];
            let one = pair(block + 40);
            let expected = pair(i ^ 3)[0] ^ far.rotate_left(3) ^ one[0].wrapping_mul(one[1]);
            assert_eq!(*out, expected, "element {i} of {n}");
        }
    }
}
