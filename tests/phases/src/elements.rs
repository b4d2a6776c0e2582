//! Kernels of one dimension: numbers, control flow, loops.

use gpu_phases::{FaultKind, kernel};

use crate::both;

#[kernel]
fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len() && y.len() == out.len());
    each(out, |i, out| *out = a * x[i] + y[i]);
}

fn floats(n: usize) -> Vec<f32> {
    let special = [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE, 1e-40, 2e9, -3.5];
    (0..n).map(|i| if i < special.len() { special[i] } else { (i as f32 * 0.37).sin() * 100.0 }).collect()
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
    let (cpu, fault, failed) = both!(gather(read at, read floats(700), write vec![0.0f32; 700])).unwrap_err();
    assert!(failed);
    let fault = fault.unwrap();
    assert_eq!((fault.kind, fault.index, fault.len, fault.element), (FaultKind::Index, 701, 700, [500, 0, 0]));
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
