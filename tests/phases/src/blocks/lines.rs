//! Patches of parts, arrays of threads that are loaded, and loops of block level whose ends are constants.

use cuda_safe::DeviceBuffer;
use gpu_phases::kernel;

use super::words;
use crate::both;

const SIZES: [usize; 13] = [0, 1, 2, 3, 4, 31, 32, 33, 127, 128, 129, 255, 1000];

/// Each thread reverses its patch, and adds the index of its first element.
#[kernel]
fn reversed<const K: usize>(x: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<32>, chunks(out, 70), |block, mut out| {
        let first = out.start();
        block.each(&mut out, |i, out| *out = x[first + i]);
        block.each(out.patches::<K>(), |i, mut patch| {
            for k in 0..K / 2 {
                let t = patch[k];
                patch[k] = patch[K - 1 - k];
                patch[K - 1 - k] = t;
            }
            for k in 0..K {
                patch[k] += (i as u32) << 8;
            }
        });
    });
}

/// The same: what a patch has beyond the part are copies of its first element.
fn reversed_chunks<const K: usize>(x: &[u32]) -> Vec<u32> {
    let mut out = Vec::new();
    for chunk in x.chunks(70) {
        for (at, patch) in chunk.chunks(K).enumerate() {
            let mut whole = patch.to_vec();
            whole.resize(K, patch[0]);
            whole.reverse();
            out.extend(whole[..patch.len()].iter().map(|x| x + ((at * K) << 8) as u32));
        }
    }
    out
}

#[test]
fn patches_of_parts_have_ragged_ends() {
    fn check<const K: usize>() {
        for n in SIZES {
            let x = words(n).iter().map(|x| x & 0xff).collect::<Vec<_>>();
            let _alone = crate::alone();
            let stream = crate::stream();
            let mut cpu = vec![7; n];
            reversed::cpu::<K>(&x, &mut cpu).unwrap();
            assert_eq!(cpu, reversed_chunks::<K>(&x), "{K} {n}");
            // Also where a patch is not aligned to 16 bytes.
            for offset in [0, 1, 4] {
                let device = DeviceBuffer::from_slice(&stream, &x).unwrap();
                let mut out = DeviceBuffer::from_slice(&stream, &vec![9u32; n + offset]).unwrap();
                let part = out.slice_mut(offset..n + offset).unwrap();
                reversed::launch::<_, _, _, K>(&stream, &device, part).unwrap();
                let out = out.to_vec(&stream).unwrap();
                assert_eq!(out[offset..], cpu, "{K} {n} {offset}");
                assert!(out[..offset].iter().all(|x| *x == 9));
            }
        }
    }
    check::<1>();
    check::<3>();
    check::<4>();
    check::<16>();
    check::<100>();
}

/// Arrays that whole warps load and store.
#[kernel]
fn turned<const K: usize>(x: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<64>, chunks(out, 64 * K), |block, mut out| {
        let mut own = block.per_thread([0u32; K]);
        block.load(&mut own, x, out.start() as isize, 5);
        block.each((out.patches::<K>(), &mut own), |first, (mut out, own)| {
            for k in 0..K {
                out[k] = own[k] ^ (first + k) as u32;
            }
        });
    });
}

#[test]
fn warps_turn_arrays() {
    fn check<const K: usize>() {
        let _alone = crate::alone();
        let stream = crate::stream();
        for n in [0, 1, 31 * K, 32 * K, 33 * K, 64 * K - 1, 64 * K, 200 * K + 3] {
            let x = words(n);
            let expected: Vec<u32> =
                x.iter().enumerate().map(|(i, x)| x ^ (i % (64 * K)) as u32).collect();
            let mut cpu = vec![7; n];
            turned::cpu::<K>(&x, &mut cpu).unwrap();
            assert_eq!(cpu, expected, "{K} {n}");
            // Also where an array is not aligned to 16 bytes.
            for offset in [0, 1, 4] {
                let mut moved = vec![9; offset];
                moved.extend(&x);
                let device = DeviceBuffer::from_slice(&stream, &moved).unwrap();
                let mut out = DeviceBuffer::from_slice(&stream, &vec![9u32; n + offset]).unwrap();
                let from = device.slice(offset..n + offset).unwrap();
                let part = out.slice_mut(offset..n + offset).unwrap();
                turned::launch::<_, _, _, K>(&stream, from, part).unwrap();
                let out = out.to_vec(&stream).unwrap();
                assert_eq!(out[offset..], expected, "{K} {n} {offset}");
                assert!(out[..offset].iter().all(|x| *x == 9));
            }
        }
    }
    check::<4>();
    check::<8>();
    check::<16>();
    check::<32>();
}

/// Patches of shared memory and of a part of it, of elements that are no words.
#[kernel]
fn shared_patches(x: &[u8], out: &mut [u8], tops: &mut [u64]) {
    assert!(x.len() == out.len() && tops.len() == out.len().div_ceil(64));
    blocks(Threads::<64>, (chunks(out, 64), tops), |block, (out, top)| {
        let first = out.start();
        let mut bytes = block.shared([0u8; 64]);
        let mut wide = block.shared([0u64; 66]);
        block.load(&mut bytes, x, first as isize, 1);
        block.each(bytes.patches::<16>(), |_, mut patch| {
            for k in 1..16 {
                patch[k] = patch[k].wrapping_add(patch[k - 1]);
            }
        });
        block.each(&mut wide, |i, wide| *wide = bytes[i % 64] as u64);
        let (mut low, _) = wide.split_at_mut(33);
        block.each(low.patches::<2>(), |i, mut patch| patch[1] = patch[0] << 1 | (i as u64) << 32);
        block.each(out, |i, out| *out = bytes[i]);
        top.set(wide[31] ^ wide[32] ^ wide[33]);
    });
}

#[test]
fn patches_of_shared_memory() {
    for n in SIZES {
        let x: Vec<u8> = words(n).iter().map(|x| *x as u8).collect();
        let blocks = n.div_ceil(64);
        let (out, tops) =
            both!(shared_patches(read x, write vec![0u8; n], write vec![0u64; blocks])).unwrap();
        for (chunk, top) in tops.iter().enumerate() {
            let mut bytes = x[64 * chunk..].to_vec();
            bytes.resize(64.max(bytes.len()), 1);
            for patch in bytes[..64].chunks_mut(16) {
                for k in 1..16 {
                    patch[k] = patch[k].wrapping_add(patch[k - 1]);
                }
            }
            let end = n.min(64 * chunk + 64);
            assert_eq!(out[64 * chunk..end], bytes[..end - 64 * chunk]);
            let pair = |at: usize| u64::from(bytes[at]);
            // The last of 33 elements has a patch of its own.
            let odd = pair(30) << 1 | 30 << 32;
            assert_eq!(*top, odd ^ pair(32) ^ pair(33), "{n} {chunk}");
        }
    }
}

/// A fault of the thread `bad` between patches and a value that the block passes on.
#[kernel]
fn failing(bad: usize, x: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<64>, chunks(out, 256), |block, mut out| {
        let first = out.start();
        let mut own = block.per_thread([0u32; 4]);
        let mut sum = block.per_thread(0u32);
        block.load(&mut own, x, first as isize - 1, 5);
        block.each((&mut own, &mut sum), |t, (own, sum)| {
            for k in 0..4 {
                *sum += own[k];
            }
            if first + 4 * t == bad {
                *sum = x[x.len() + t];
            }
        });
        let total = block.scan(&mut sum);
        let before = block.carry(total, 0, |a, b| a + b);
        block.each((out.patches::<4>(), &mut own, &mut sum), |_, (mut out, own, sum)| {
            let mut next = before + *sum;
            for k in 0..4 {
                next += own[k];
                out[k] = next;
            }
        });
    });
}

#[test]
fn arrays_of_threads_are_loaded() {
    for n in SIZES.into_iter().chain([256, 257, 256 * 40 + 1]) {
        let x = words(n).iter().map(|x| x & 0xff).collect::<Vec<_>>();
        let out = both!(failing(value usize::MAX, read x, write vec![0u32; n])).unwrap();
        // Each block begins one element before its own.
        let mut sum = 0;
        for (chunk, out) in out.chunks(256).enumerate() {
            for (i, out) in out.iter().enumerate() {
                sum += (256 * chunk + i).checked_sub(1).map_or(5, |at| x[at]);
                assert_eq!(*out, sum, "{n} {chunk} {i}");
            }
            if chunk * 256 + 256 > n {
                break;
            }
        }
    }
    for offset in [1, 2, 3] {
        let _alone = crate::alone();
        let stream = crate::stream();
        let x = words(700).iter().map(|x| x & 0xff).collect::<Vec<_>>();
        let device = DeviceBuffer::from_slice(&stream, &x).unwrap();
        let n = x.len() - offset;
        let mut cpu = vec![0; n];
        failing::cpu(usize::MAX, &x[offset..], &mut cpu).unwrap();
        let mut out = DeviceBuffer::<u32>::zeroed(&stream, n).unwrap();
        failing::launch(&stream, usize::MAX, device.slice(offset..).unwrap(), &mut out).unwrap();
        assert_eq!(out.to_vec(&stream).unwrap(), cpu, "{offset}");
    }
}

#[test]
fn a_fault_of_a_thread_with_a_patch() {
    for n in [1, 33, 256, 257, 256 * 40 + 1] {
        let x = words(n).iter().map(|x| x & 0xff).collect::<Vec<_>>();
        for bad in [0, 4, 252, 256, 256 * 39 + 8, 256 * 40] {
            match both!(failing(value bad, read x, write vec![0u32; n])) {
                Ok(_) => assert!(bad >= n.next_multiple_of(256), "{n} {bad}"),
                Err((cpu, fault, failed)) => {
                    assert!(failed);
                    let fault = fault.unwrap();
                    assert_eq!(fault.block, Some(bad as u64 / 256));
                    assert_eq!(cpu.to_string(), fault.to_string(), "{n} {bad}");
                }
            }
        }
    }
}

/// A bitonic sort, whose loops the compiler unrolls, and one with an end that is no constant.
#[kernel]
fn sorted<const BITS: u32, const N: usize>(bits: u32, x: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<32>, chunks(out, N), |block, out| {
        let first = out.start();
        let mut tile = block.shared([0u32; N]);
        block.load(&mut tile, x, first as isize, u32::MAX);
        for step in 1..BITS {
            let size = 1 << step;
            for bit in (0..step).rev() {
                block.each(tile.pairs(1 << bit), |i, (a, b)| {
                    if (*a > *b) == (i & size == 0) {
                        let t = *a;
                        *a = *b;
                        *b = t;
                    }
                });
            }
        }
        for bit in (0..bits).rev() {
            block.each(tile.pairs(1 << bit), |_, (a, b)| {
                let sum = *a ^ *b;
                *b = sum;
            });
        }
        block.each(out, |i, out| *out = tile[i]);
    });
}

#[test]
fn loops_of_block_level_are_unrolled() {
    assert!(sorted::source::<7, 64>().contains("_Pragma(\"unroll\") for (auto"));
    for n in SIZES {
        let x = words(n);
        let _alone = crate::alone();
        let stream = crate::stream();
        for bits in [0, 3, 6, 9] {
            let mut cpu = vec![0; n];
            sorted::cpu::<7, 64>(bits, &x, &mut cpu).unwrap();
            if bits == 0 {
                let mut expected = x.clone();
                expected.chunks_mut(64).for_each(<[u32]>::sort_unstable);
                assert_eq!(cpu, expected);
            }
            let device = DeviceBuffer::from_slice(&stream, &x).unwrap();
            let mut out = DeviceBuffer::<u32>::zeroed(&stream, n).unwrap();
            sorted::launch::<_, _, _, 7, 64>(&stream, bits, &device, &mut out).unwrap();
            assert_eq!(out.to_vec(&stream).unwrap(), cpu, "{n} {bits}");
        }
    }
}
