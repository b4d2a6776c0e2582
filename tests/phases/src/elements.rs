//! Kernels of one dimension: numbers, control flow, loops.

use gpu_phases::kernel::CpuError;
use gpu_phases::{FaultKind, device, kernel};

use crate::both;

#[kernel]
fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len() && y.len() == out.len());
    each(out, |i, out| *out = a * x[i] + y[i]);
}

fn floats(n: usize) -> Vec<f32> {
    let special = [
        0.0,
        -0.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e-40,
        2e9,
        -3.5,
    ];
    (0..n)
        .map(|i| if i < special.len() { special[i] } else { (i as f32 * 0.37).sin() * 100.0 })
        .collect()
}

fn ints(n: usize) -> Vec<i32> {
    (0..n).map(|i| (i as i32 * 7919) % 1000 - 500).collect()
}

#[test]
fn saxpy_has_equal_bits() {
    let (x, y) = (floats(1000), floats(1000));
    both!(saxpy(value 2.5f32, read x, read y, write vec![0.0f32; 1000])).unwrap();
    let error = saxpy::cpu(2.5, &x[1..], &y, &mut [0.0; 1000]).unwrap_err();
    let text = "kernel `saxpy`: it needs x.len() == out.len() && y.len() == out.len(), \
        but x.len() = 999, out.len() = 1000, y.len() = 1000";
    assert_eq!(error.to_string(), text);
}

#[kernel]
fn gather(at: &[u32], x: &[f32], out: &mut [f32]) {
    assert!(at.len() == out.len());
    each(out, |i, out| *out = x[at[i] as usize]);
}

#[test]
fn a_bad_index_is_the_same_fault() {
    let mut at: Vec<u32> = (0..700).collect();
    both!(gather(read at, read floats(700), write vec![0.0f32; 700])).unwrap();
    at[500] = 701;
    let (cpu, fault, failed) =
        both!(gather(read at, read floats(700), write vec![0.0f32; 700])).unwrap_err();
    assert!(failed);
    let fault = fault.unwrap();
    assert_eq!(
        (fault.kind, fault.index, fault.len, fault.element),
        (FaultKind::Index, 701, 700, [500, 0, 0])
    );
    assert_eq!(cpu.to_string(), fault.to_string());
}

#[kernel]
fn flow(x: &[i32], f: &[f32], out: &mut [i32]) {
    assert!(x.len() == out.len() && f.len() == out.len());
    each(out, |i, out| {
        let mut s = 0;
        for k in 0..x[i] & 15 {
            if k == 3 {
                continue;
            }
            s += k;
            if s > 40 {
                break;
            }
        }
        let x = x[i];
        let class = match x {
            0 => 1,
            1 | 2 => 2,
            3..=20 => 3,
            n if n < 0 => {
                let m = -n;
                m / 3
            }
            _ => 4,
        };
        let mut n = x.wrapping_abs() as u32;
        let mut steps = 0u32;
        while n > 1 && steps < 50 {
            n = if n % 2 == 0 { n / 2 } else { n * 3 + 1 };
            steps += 1;
        }
        let found = loop {
            steps += 7;
            if steps % 5 == 0 {
                break steps as i32;
            }
        };
        let (a, b) = (f[i] as i32, f[i] as u8);
        let c = if f[i] > 0.0 { s } else { class };
        let mut t = [0i32; 4];
        for k in (0..4usize).rev() {
            t[k] = x.wrapping_mul(k as i32 + 1) >> 1;
        }
        for k in (1..=9).step_by(4) {
            t[k % 4] ^= k as i32;
        }
        let mut sum = 0i32;
        for v in t.iter() {
            sum = sum.wrapping_add(*v);
        }
        'outer: for p in 0..5 {
            for q in 0..5 {
                if p * q == 6 {
                    sum += p;
                    break 'outer;
                }
                if q > p {
                    continue 'outer;
                }
                sum += 1;
            }
        }
        if x == 77 {
            return;
        }
        *out = s ^ class ^ found ^ a.wrapping_add(b as i32) ^ c ^ sum ^ n as i32;
    });
}

#[test]
fn control_flow_has_equal_bits() {
    both!(flow(read ints(700), read floats(700), write vec![5i32; 700])).unwrap();
}

/// Reads after the end of `x` if that has two elements.
#[device]
pub(crate) fn of_another_file(at: &[u32], x: &[u32]) -> u32 {
    x[at[0] as usize + 2]
}

#[kernel]
fn spmv(offsets: &[u32], columns: &[u32], values: &[f32], x: &[f32], y: &mut [f32]) {
    assert!(offsets.len() == y.len() + 1 && columns.len() == values.len());
    each(y, |row, y| {
        let mut s = 0.0;
        for k in offsets[row] as usize..offsets[row + 1] as usize {
            s += values[k] * x[columns[k] as usize];
        }
        *y = s;
    });
}

/// A matrix of 300 rows.
fn matrix() -> (Vec<u32>, Vec<u32>, Vec<f32>) {
    let offsets: Vec<u32> = (0..=300).map(|row| row * 5).collect();
    let columns: Vec<u32> = (0..1500).map(|k| k * 37 % 200).collect();
    (offsets, columns, floats(1500))
}

#[test]
fn deferred_checks_report_the_first_bad_index() {
    let (offsets, mut columns, values) = matrix();
    let x = vec![0.5f32; 200];
    both!(spmv(read offsets, read columns, read values, read x, write vec![0.0f32; 300])).unwrap();
    // Two bad indices in one row: the first one is reported.
    (columns[1003], columns[1001]) = (999, 777);
    let (cpu, fault, _) =
        both!(spmv(read offsets, read columns, read values, read x, write vec![0.0f32; 300]))
            .unwrap_err();
    let fault = fault.unwrap();
    assert_eq!((fault.index, fault.len, fault.element[0]), (777, 200, 200));
    assert_eq!(cpu.to_string(), fault.to_string());
    // The row's end is beyond the values.
    let (mut offsets, columns, values) = matrix();
    offsets[300] = 1503;
    let (cpu, fault, _) =
        both!(spmv(read offsets, read columns, read values, read x, write vec![0.0f32; 300]))
            .unwrap_err();
    let fault = fault.unwrap();
    assert_eq!((fault.index, fault.len, fault.element[0]), (1500, 1500, 299));
    assert_eq!(cpu.to_string(), fault.to_string());
}

#[kernel]
fn empty_gather(n: usize, x: &[f32], out: &mut [f32]) {
    each(out, |i, out| {
        for j in 0..n {
            let k = (j * 7919 + i) & 1023;
            if x[k] > 0.0 {
                *out += x[j];
            }
        }
    });
}

#[test]
fn loops_with_effects_and_empty_slices_fault_as_on_the_cpu() {
    both!(empty_gather(value 5usize, read vec![1.0f32; 1024], write vec![0.0f32; 1])).unwrap();
    let (cpu, fault, _) =
        both!(empty_gather(value 5usize, read vec![1.0f32; 3], write vec![0.0f32; 1])).unwrap_err();
    assert_eq!(cpu.to_string(), fault.unwrap().to_string());
}

#[kernel]
fn arithmetic(x: &[i32], by: &[i32], out: &mut [i32]) {
    assert!(x.len() == out.len() && by.len() == out.len());
    each(out, |i, out| {
        let mut s = 1i32;
        for k in 0..4 {
            s = s * x[i] + k;
        }
        *out = s / by[i] % 7 - (x[i] << 3);
    });
}

#[test]
fn overflows_and_divisions_are_the_same_faults() {
    let x = vec![3i32; 40];
    both!(arithmetic(read x, read vec![2i32; 40], write vec![0i32; 40])).unwrap();
    let mut large = x.clone();
    large[9] = 1 << 20;
    let overflow = cfg!(debug_assertions).then_some((&large, 2, FaultKind::Overflow));
    for (x, by, kind) in overflow.into_iter().chain([(&x, 0, FaultKind::Division)]) {
        let (cpu, fault, _) =
            both!(arithmetic(read x, read vec![by; 40], write vec![0i32; 40])).unwrap_err();
        let CpuError::Fault(cpu) = cpu else { panic!("{cpu}") };
        let fault = fault.unwrap();
        assert_eq!((cpu.kind, cpu.line), (kind, fault.line));
        assert_eq!(fault.kind, kind);
        if kind == FaultKind::Overflow {
            assert_eq!(fault, cpu);
        }
    }
}

/// Loops whose counter is an index, with jumps in their bodies.
#[kernel]
fn jumps(n: usize, x: &[i32], y: &[i32], out: &mut [i32]) {
    each(out, |i, out| {
        let mut s = 0i32;
        for j in 0..n {
            s = s.wrapping_add(match x[j] {
                v if v % 3 == 0 => v,
                v if v > 100 => -v,
                _ => 1,
            });
        }
        for j in i % 2..n {
            s ^= 'found: {
                if x[j] == y[j] {
                    break 'found 5;
                }
                y[j] >> 2
            };
        }
        for j in 0..n {
            if x[j] == 499 {
                break;
            }
            s = s.wrapping_mul(3) ^ y[j];
        }
        let sum = |k: usize| {
            let mut sum = 0i32;
            for j in k..n {
                sum = sum.wrapping_add(x[j]);
            }
            sum
        };
        for j in 0..3 {
            s = s.wrapping_add(sum(j)) ^ x[j];
        }
        *out = s;
    });
}

#[test]
fn counters_as_indices_have_equal_bits_and_faults() {
    both!(jumps(value 200usize, read ints(200), read ints(230), write vec![0i32; 50])).unwrap();
    both!(jumps(value 3usize, read ints(3), read ints(3), write vec![0i32; 50])).unwrap();
    for (x, y) in [(199, 230), (230, 10), (0, 0)] {
        let (cpu, fault, _) =
            both!(jumps(value 200usize, read ints(x), read ints(y), write vec![0i32; 1]))
                .unwrap_err();
        assert_eq!(cpu.to_string(), fault.unwrap().to_string());
    }
}
