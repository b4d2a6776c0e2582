//! What later phases and block-level code see, and how a block with a fault ends.

use gpu_phases::{Atomic, Block, Device, Part, Shared, device, kernel};

use super::{SIZES, Vec3, floats, words};
use crate::both;

#[kernel]
fn faulty(at: &[u32], x: &[f32], out: &mut [f32]) {
    assert!(at.len() == out.len());
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let first = out.start();
        let mut tile = block.shared([0.0f32; 64]);
        block.each((&mut tile, &mut out), |i, (t, _)| *t = x[at[first + i] as usize]);
        let mut left = 3;
        while tile[0] != 1e9 && left > 0 {
            let one = block.one(|| tile[1]);
            block.each(&mut out, |i, o| *o = tile[63 - i] + one);
            left -= 1;
        }
    });
}

#[test]
fn a_fault_in_a_block_is_the_same() {
    let mut at: Vec<u32> = (0..700).collect();
    both!(faulty(read at, read floats(700), write vec![0.0f32; 700])).unwrap();
    at[500] = 701;
    let (cpu, fault, failed) =
        both!(faulty(read at, read floats(700), write vec![0.0f32; 700])).unwrap_err();
    assert!(failed);
    let fault = fault.unwrap();
    assert_eq!((fault.index, fault.block, fault.element), (701, Some(7), [52, 0, 0]));
    assert_eq!(cpu.to_string(), fault.to_string());
}

#[kernel]
fn waits(at: &[u32], x: &[u32], out: &mut [u32]) {
    assert!(at.len() == out.len());
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let first = out.start();
        let mut left = block.shared([3u32; 64]);
        let mut more = left[0];
        while more > 0 {
            block.each((&mut left, &mut out), |i, (left, out)| {
                *out += x[at[first + i] as usize];
                *left -= 1;
            });
            more = left[5];
        }
    });
}

#[test]
fn a_loop_that_waits_for_a_thread_that_has_left_ends() {
    let mut at: Vec<u32> = (0..128).collect();
    let out = both!(waits(read at, read words(128), write vec![0u32; 128])).unwrap();
    assert_eq!(out[9], words(128)[9].wrapping_mul(3));
    at[69] = 128;
    let (cpu, fault, failed) =
        both!(waits(read at, read words(128), write vec![0u32; 128])).unwrap_err();
    assert!(failed);
    assert_eq!(cpu.to_string(), fault.unwrap().to_string());
}

#[kernel]
fn arguments_of_phases(x: &[u32], out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let first = out.start();
        let mut sizes = block.shared([0u32; 64]);
        let mut tile = block.shared([0u32; 64]);
        let mut own = block.per_thread(0u32);
        let counts = tile.atomic();
        block.each((&mut sizes, &mut own), |i, (s, own)| {
            *s = (63 - i) as u32;
            *own = i as u32;
        });
        block.run(sizes[3] as usize, |i| {
            counts.fetch_add(i, 1);
        });
        let third = block.broadcast(&own, sizes[40] as usize);
        block.each(&mut sizes, |i, s| *s += i as u32 + third);
        block.load(&mut own, x, first as isize - sizes[5] as isize, sizes[7]);
        block.each((&mut out, &mut own), |i, (o, own)| *o = *own + tile[i] + sizes[63 - i]);
    });
}

#[test]
fn arguments_of_phases_see_earlier_phases() {
    for n in SIZES {
        let out = both!(arguments_of_phases(read words(n), write vec![0u32; n])).unwrap();
        for (i, out) in out.iter().enumerate() {
            // 63 - i + i + 23 in each size; 60 counts.
            let from = (i / 64 * 64) as isize - 86 + (i % 64) as isize;
            let own = usize::try_from(from).ok().map_or(86, |from| words(n)[from]);
            assert_eq!(*out, own + u32::from(i % 64 < 60) + 86);
        }
    }
}

/// The second load is the one that remains, and the third one writes what the phase before it has read.
#[kernel]
fn loads_in_order(x: &[u32], y: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len() && y.len() == out.len());
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let first = out.start() as isize;
        let mut tile = block.shared([0u32; 64]);
        block.load(&mut tile, x, first, 1);
        block.load(&mut tile, y, first, 2);
        block.each(&mut out, |i, out| *out = tile[63 - i]);
        block.load(&mut tile, x, first, 3);
        block.each(&mut out, |i, out| *out ^= tile[i ^ 1] << 8);
    });
}

#[test]
fn loads_write_in_their_order() {
    for n in SIZES {
        let (x, y) = (words(n), words(n + 1)[1..].to_vec());
        let out =
            both!(loads_in_order(read x.clone(), read y.clone(), write vec![0u32; n])).unwrap();
        for (i, out) in out.iter().enumerate() {
            let (first, at) = (i / 64 * 64, i % 64);
            let of = |from: &[u32], at, or| from.get(first + at).copied().unwrap_or(or);
            assert_eq!(*out, of(&y, 63 - at, 2) ^ of(&x, at ^ 1, 3) << 8, "{i} of {n}");
        }
    }
}

#[kernel]
fn references_over_phases(x: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let first = out.start();
        let mut tile = block.shared([Vec3::ZERO; 64]);
        let mut other = block.shared([0.0f32; 64]);
        block.each((&mut tile, &mut out), |i, (t, _)| t.x = x[first + i]);
        let last = &tile[out.len() - 1];
        block.each(&mut other, |i, o| *o = i as f32);
        block.each(&mut out, |i, o| *o = other[63 - i]);
        let before = last.x;
        block.each(&mut tile, |i, t| t.x = before + other[i]);
        block.each(&mut out, |i, o| *o += tile[63 - i].x);
    });
}

#[test]
fn references_are_read_where_they_are_used() {
    for n in SIZES {
        let out = both!(references_over_phases(read floats(n), write vec![0.0f32; n])).unwrap();
        for (i, out) in out.iter().enumerate() {
            let last = floats(n)[(i / 64 * 64 + 63).min(n - 1)];
            let distance = (63 - i % 64) as f32;
            assert_eq!(*out, distance + (last + distance));
        }
    }
}

#[device]
fn twice<const N: usize>(
    block: &mut Block<N>,
    tile: &mut Shared<[u32; 64]>,
    f: impl Fn(usize) -> u32 + Sync,
) {
    block.each(tile, |i, t| *t = 2 * f(i));
}

#[kernel]
fn closures(at: &[u32], x: &[u32], out: &mut [u32]) {
    assert!(at.len() == out.len());
    blocks(Threads::<64>, chunks(out, 64), |block, out| {
        let first = out.start();
        let n = out.len();
        let mut tile = block.shared([0u32; 64]);
        let pick = |i: usize| if i < n { x[at[first + i] as usize] } else { 0 };
        block.each(&mut tile, |i, t| *t = pick(i));
        let neighbour = |i: usize| tile[63 - i] + 1;
        let mut copy = block.shared([0u32; 64]);
        twice(block, &mut copy, |i| neighbour(i) + pick(i));
        let whole = neighbour(0);
        block.each(out, |i, o| *o = copy[i] + tile[i] + whole);
    });
}

#[test]
fn closures_of_block_level_fail_in_their_thread() {
    let mut at: Vec<u32> = (0..200).map(|i| i * 7 % 200).collect();
    both!(closures(read at, read words(200), write vec![0u32; 200])).unwrap();
    at[150] = 200;
    let (cpu, fault, failed) =
        both!(closures(read at, read words(200), write vec![0u32; 200])).unwrap_err();
    assert!(failed);
    let fault = fault.unwrap();
    assert_eq!((fault.index, fault.block, fault.element), (200, Some(2), [22, 0, 0]));
    assert_eq!(cpu.to_string(), fault.to_string());
}

#[kernel]
fn neighbours_of_a_part(count: usize, out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let n = out.len();
        let mut own = block.per_thread(0u32);
        for _ in 0..count {
            block.each((&mut own, &mut out), |_, (_, o)| *o += 1);
            block.each(&mut own, |i, own| *own += if i < n { out[n - 1 - i] } else { 0 });
            block.each((&mut out, &mut own), |_, (o, own)| *o += *own);
        }
    });
}

#[test]
fn parts_change_their_threads_between_phases() {
    assert!(neighbours_of_a_part::source().contains("slice<u32> out"));
    assert!(!neighbours_of_a_part::source().contains("u32* __restrict__ out"));
    for n in SIZES {
        both!(neighbours_of_a_part(value 5usize, write words(n))).unwrap();
    }
}

#[kernel]
fn waits_for_a_split(at: &[u32], x: &[u32], out: &mut [u32]) {
    assert!(at.len() == out.len());
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let first = out.start();
        let mut left = block.shared([2u32; 64]);
        let mut go = true;
        while go {
            block.each((&mut left, &mut out), |i, (left, out)| {
                *out += x[at[first + i] as usize];
                *left -= 1;
            });
            let (low, high) = left.split_at_mut(32);
            go = low[5] > 0 || high[5] > 0;
        }
    });
}

#[test]
fn a_loop_that_a_split_decides_ends() {
    let mut at: Vec<u32> = (0..128).collect();
    both!(waits_for_a_split(read at, read words(128), write vec![0u32; 128])).unwrap();
    at[69] = 128;
    let (cpu, fault, failed) =
        both!(waits_for_a_split(read at, read words(128), write vec![0u32; 128])).unwrap_err();
    assert!(failed);
    assert_eq!(cpu.to_string(), fault.unwrap().to_string());
}

#[device]
fn counted(
    block: &mut Block<64>,
    out: &mut Part<'_, u32>,
    add: impl Fn(usize) + Sync,
    get: impl Fn(usize) -> u32 + Sync,
) {
    block.run(64, |i| add(i));
    block.each(out, |i, o| *o += get(63 - i));
}

#[kernel]
fn atomics_over_phases(x: &[u32], out: &mut [u32], bins: &Atomic<[u32]>) {
    assert!(x.len() == out.len() && x.len() == bins.len());
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let (first, n) = (out.start(), out.len());
        let mut local = block.shared([0u32; 64]);
        let counts = local.atomic();
        block.run(n, |i| {
            bins.fetch_add(first + n - 1 - i, x[first + i]);
        });
        block.each(&mut out, |i, o| *o = bins.load(first + i));
        counted(
            block,
            &mut out,
            |i| {
                counts.fetch_add(i, 1 + i as u32);
            },
            |i| counts.load(i),
        );
    });
}

#[test]
fn phases_see_atomic_operations_of_earlier_ones() {
    for n in SIZES {
        let x = words(n);
        let _alone = crate::alone();
        let stream = crate::stream();
        let from = cuda_safe::DeviceBuffer::from_slice(&stream, &x).unwrap();
        let mut out = cuda_safe::DeviceBuffer::<u32>::zeroed(&stream, n).unwrap();
        let mut bins = cuda_safe::DeviceBuffer::<u32>::zeroed(&stream, n).unwrap();
        atomics_over_phases::launch(&stream, &from, &mut out, &mut bins).unwrap();
        let out = out.to_vec(&stream).unwrap();
        let (mut cpu, mut counts) = (vec![0; n], vec![0; n]);
        atomics_over_phases::cpu(&x, &mut cpu, Atomic::from_mut(&mut counts)).unwrap();
        assert_eq!(out, cpu);
        for (block, out) in x.chunks(64).zip(out.chunks(64)) {
            let expected = block.iter().rev().enumerate().map(|(i, x)| x + 64 - i as u32);
            assert!(expected.eq(out.iter().copied()));
        }
    }
}

#[derive(Clone, Copy, Device)]
#[repr(C)]
struct Ramp {
    first: f32,
}

#[device]
impl Ramp {
    fn fill(block: &mut Block<64>, tile: &mut Shared<[f32; 64]>, ramp: Ramp) {
        block.each(tile, |i, t| *t = ramp.first + i as f32);
    }
}

#[kernel]
fn fills_by_associated_functions(out: &mut [f32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut tile = block.shared([1.0f32; 64]);
        block.each(&mut out, |i, o| *o = tile[63 - i]);
        Ramp::fill(block, &mut tile, Ramp { first: 2.0 });
        block.each(&mut out, |i, o| *o += tile[63 - i]);
    });
}

#[test]
fn phases_see_what_associated_functions_wrote() {
    for n in SIZES {
        let out = both!(fills_by_associated_functions(write vec![0.0f32; n])).unwrap();
        assert!(out.iter().enumerate().all(|(i, out)| *out == 66.0 - (i % 64) as f32));
    }
}

#[kernel]
fn references_of_patterns(x: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let first = out.start();
        let mut tile = block.shared([0u32; 64]);
        let mut other = block.shared([0u32; 64]);
        block.each((&mut tile, &mut out), |i, (t, _)| *t = x[first + i]);
        let Some(last) = Some(&tile[out.len() - 1]) else { return };
        block.each(&mut other, |i, o| *o = i as u32);
        block.each(&mut out, |i, o| *o = other[63 - i]);
        block.each(&mut other, |i, o| *o = *last + i as u32);
        block.each(&mut tile, |_, t| *t = 0);
        block.each(&mut out, |i, o| *o += other[i] + tile[63 - i]);
    });
}

#[test]
fn references_of_patterns_are_read_where_they_are_used() {
    for n in SIZES {
        both!(references_of_patterns(read words(n), write vec![0u32; n])).unwrap();
    }
}

#[kernel]
fn prints_references(x: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let first = out.start();
        let mut tile = block.shared([0u32; 64]);
        let mut other = block.shared([0u32; 64]);
        block.each((&mut tile, &mut out), |i, (t, _)| *t = x[first + i]);
        let last = &tile[out.len() - 1];
        block.each(&mut other, |i, o| *o = i as u32);
        block.each(&mut out, |i, o| *o = other[63 - i]);
        println!("{last}");
        block.each(&mut tile, |_, t| *t = 0);
        block.each(&mut out, |i, o| *o += tile[i]);
    });
}

#[test]
fn references_are_read_where_they_are_printed() {
    both!(prints_references(read words(60), write vec![0u32; 60])).unwrap();
}

#[kernel]
fn sorted_quotients(by: f32, x: &mut [f32]) {
    blocks(Threads::<32>, chunks(x, 40), |block, mut x| {
        let mut tile = block.shared([0.0f32; 40]);
        block.each(&mut tile, |i, tile| *tile = (i as f32 - 20.0) / by);
        block.sort(&mut tile);
        block.each(&mut x, |i, x| *x = tile[i]);
    });
}

#[test]
fn sorts_nans_to_the_end() {
    // Processors make a negative one of 0 / 0, and devices a positive one.
    let x = both!(sorted_quotients(value 0.0, write vec![0.0; 40])).unwrap();
    assert_eq!((x[0], x[20], x[38]), (f32::NEG_INFINITY, f32::INFINITY, f32::INFINITY));
    assert!(x[39].is_nan());
}
