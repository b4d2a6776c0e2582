//! Atomic operations in shared memory.

use gpu_phases::{Atomic, kernel};

use super::{SIZES, words};
use crate::both;

#[kernel]
fn histogram(data: &[u32], unused: &mut [u32], bins: &Atomic<[u32]>) {
    assert!(bins.len() == 256 && unused.is_empty());
    blocks(Threads::<128>, grid(data.len().div_ceil(300)), |block, _| {
        let start = block.index() * 300;
        let count = (data.len() - start).min(300);
        let mut local = block.shared([0u32; 256]);
        let counts = local.atomic();
        block.run(count, |i| {
            counts.fetch_add((data[start + i] & 255) as usize, 1);
        });
        block.run(256, |i| {
            bins.fetch_add(i, local[i]);
        });
    });
}

#[test]
fn counts_by_atomics_in_shared_memory() {
    for n in SIZES {
        let data = words(n);
        let mut expected = vec![0u32; 256];
        data.iter().for_each(|x| expected[*x as usize & 255] += 1);
        let mut cpu = vec![0u32; 256];
        histogram::cpu(&data, &mut [], Atomic::from_mut(&mut cpu)).unwrap();
        assert_eq!(cpu, expected);
        let _alone = crate::alone();
        let stream = crate::stream();
        let x = cuda_safe::DeviceBuffer::from_slice(&stream, &data).unwrap();
        let mut none = cuda_safe::DeviceBuffer::<u32>::zeroed(&stream, 0).unwrap();
        let mut bins = cuda_safe::DeviceBuffer::<u32>::zeroed(&stream, 256).unwrap();
        histogram::launch(&stream, &x, &mut none, &mut bins).unwrap();
        assert_eq!(bins.to_vec(&stream).unwrap(), expected);
    }
}

/// Each operation of shared memory, with its result: a thread has an element of its own.
#[kernel]
fn operations(x: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<64>, chunks(out, 96), |block, out| {
        let first = out.start();
        let mut numbers = block.shared([5u32; 96]);
        let mut floats = block.shared([0.5f32; 96]);
        let mut results = block.shared([0u32; 96]);
        let number = numbers.atomic();
        let float = floats.atomic();
        let result = results.atomic();
        block.run(number.len().min(out.len()), |i| {
            let x = x[first + i];
            let mut all = number.fetch_add(i, x);
            all = all.wrapping_mul(31) ^ number.fetch_sub(i, 7);
            all = all.wrapping_mul(31) ^ number.fetch_min(i, x);
            all = all.wrapping_mul(31) ^ number.fetch_max(i, 100);
            all = all.wrapping_mul(31) ^ number.fetch_and(i, !x);
            all = all.wrapping_mul(31) ^ number.fetch_or(i, x >> 3);
            all = all.wrapping_mul(31) ^ number.fetch_xor(i, 0x55);
            all = all.wrapping_mul(31) ^ number.swap(i, x & 3);
            all = all.wrapping_mul(31) ^ number.compare_exchange(i, 1, 9);
            all = all.wrapping_mul(31) ^ number.load(i);
            all = all.wrapping_mul(31) ^ float.fetch_add(i, x as f32).to_bits();
            all = all.wrapping_mul(31) ^ float.swap(i, 0.25).to_bits();
            float.store(i, float.load(i) + 1.0);
            result.store(i, all);
        });
        block.each(out, |i, o| *o = results[i] ^ numbers[i] ^ floats[i].to_bits());
    });
}

#[test]
fn atomics_of_shared_memory_do_what_those_of_devices_do() {
    for n in SIZES {
        both!(operations(read words(n), write vec![0u32; n])).unwrap();
    }
    let (mut cpu, mut bits) = ([0], 5u32);
    operations::cpu(&[6], &mut cpu).unwrap();
    let mut all = 0u32;
    for (result, next) in
        [(5, 11), (11, 4), (4, 4), (4, 100), (100, 96), (96, 96), (96, 53), (53, 2), (2, 2), (2, 2)]
    {
        assert_eq!(bits, result);
        all = all.wrapping_mul(31) ^ result;
        bits = next;
    }
    all = all.wrapping_mul(31) ^ 0.5f32.to_bits();
    all = all.wrapping_mul(31) ^ 6.5f32.to_bits();
    assert_eq!(cpu[0], all ^ 2 ^ 1.25f32.to_bits());
}

#[kernel]
fn beyond(at: &[u32], out: &mut [u32]) {
    assert!(at.len() == out.len());
    blocks(Threads::<32>, chunks(out, 40), |block, out| {
        let first = out.start();
        let mut counts = block.shared([0u32; 40]);
        let count = counts.atomic();
        block.run(out.len(), |i| {
            count.fetch_add(at[first + i] as usize, 1);
        });
        block.each(out, |i, o| *o = counts[i]);
    });
}

#[test]
fn an_index_beyond_a_shared_array_is_the_same_fault() {
    let mut at: Vec<u32> = (0..100).map(|i| i % 3).collect();
    let out = both!(beyond(read at, write vec![0u32; 100])).unwrap();
    assert_eq!(out[40..43], [13, 14, 13]);
    at[77] = 40;
    let (cpu, fault, failed) = both!(beyond(read at, write vec![0u32; 100])).unwrap_err();
    assert!(failed);
    let fault = fault.unwrap();
    assert_eq!((fault.index, fault.len, fault.block, fault.element), (40, 40, Some(1), [5, 0, 0]));
    assert_eq!(cpu.to_string(), fault.to_string());
}
