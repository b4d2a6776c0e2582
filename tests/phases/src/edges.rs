//! The ends of what checks, casts and shapes allow.

use cuda_safe::DeviceBuffer;
use gpu_phases::{Atomic, FaultKind, device, kernel};

use crate::both;

/// Runs all operators on all pairs of the type's extremes. A thread that fails writes nothing.
macro_rules! operators {
    ($($name:ident $ty:ident),+) => {$(
        mod $name {
            use super::*;

            #[kernel]
            fn compute(op: u32, x: &[$ty], y: &[$ty], out: &mut [$ty], done: &mut [u32]) {
                assert!(x.len() == out.len() && y.len() == out.len());
                each((out, done), |i, (out, done)| {
                    let (a, b) = (x[i], y[i]);
                    *out = match op {
                        0 => a + b,
                        1 => a - b,
                        2 => a * b,
                        3 => a / b,
                        4 => a % b,
                        5 => a << b,
                        _ => a >> b,
                    };
                    *done = 1;
                });
            }

            fn expected(op: u32, a: $ty, b: $ty) -> Option<$ty> {
                let checks = (compute::kernel().overflow_checks)();
                let by = u32::try_from(b).unwrap_or(u32::MAX);
                let masked = b as u32;
                match (op, checks) {
                    (0, true) => a.checked_add(b),
                    (0, false) => Some(a.wrapping_add(b)),
                    (1, true) => a.checked_sub(b),
                    (1, false) => Some(a.wrapping_sub(b)),
                    (2, true) => a.checked_mul(b),
                    (2, false) => Some(a.wrapping_mul(b)),
                    (3, _) => a.checked_div(b),
                    (4, _) => a.checked_rem(b),
                    (5, true) => a.checked_shl(by),
                    (5, false) => Some(a.wrapping_shl(masked)),
                    (_, true) => a.checked_shr(by),
                    (_, false) => Some(a.wrapping_shr(masked)),
                }
            }

            pub(super) fn run(stream: &cuda_safe::Stream) {
                let bits = $ty::BITS as $ty;
                let ends = [$ty::MIN, $ty::MIN + 1, 0, 1, 2, bits - 1, bits, $ty::MAX - 1, $ty::MAX, !0];
                let (x, y): (Vec<$ty>, Vec<$ty>) =
                    ends.iter().flat_map(|a| ends.iter().map(|b| (*a, *b))).unzip();
                let buffer = |data: &[$ty]| DeviceBuffer::from_slice(stream, data).unwrap();
                for op in 0..7 {
                    let mut out = buffer(&vec![0; x.len()]);
                    let mut done = DeviceBuffer::<u32>::zeroed(stream, x.len()).unwrap();
                    compute::launch(stream, op, &buffer(&x), &buffer(&y), &mut out, &mut done).unwrap();
                    let expected: Vec<_> =
                        x.iter().zip(&y).map(|(a, b)| expected(op, *a, *b)).collect();
                    assert_eq!(stream.synchronize().is_err(), expected.contains(&None));
                    let kind = stream.context().take_fault().map(|fault| fault.kind);
                    let kinds = [FaultKind::Overflow, FaultKind::Division, FaultKind::Shift];
                    let of_op = kinds[[0, 0, 0, 1, 1, 2, 2][op as usize]];
                    assert!(kind.is_none_or(|kind| kind == of_op), "{op}: {kind:?}");
                    let (out, done) = (out.to_vec(stream).unwrap(), done.to_vec(stream).unwrap());
                    for (i, value) in expected.iter().enumerate() {
                        let found = (done[i] == 1).then_some(out[i]);
                        assert_eq!(found, *value, "{}: {op} of {} and {}", stringify!($ty), x[i], y[i]);
                    }
                }
            }
        }
    )+};
}

operators!(of_i8 i8, of_u8 u8, of_i32 i32, of_u32 u32, of_i64 i64, of_u64 u64);

#[test]
fn operators_fail_where_rusts_do() {
    let _alone = crate::alone();
    let stream = crate::stream();
    of_i8::run(&stream);
    of_u8::run(&stream);
    of_i32::run(&stream);
    of_u32::run(&stream);
    of_i64::run(&stream);
    of_u64::run(&stream);
}

#[kernel]
fn casts(x: &[f64], out: &mut [[i64; 16]]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let (d, f) = (x[i], x[i] as f32);
        *out = [
            d as i8 as i64,
            d as u8 as i64,
            d as i16 as i64,
            d as u16 as i64,
            d as i32 as i64,
            d as u32 as i64,
            d as i64,
            d as u64 as i64,
            f as i8 as i64,
            f as u8 as i64,
            f as i16 as i64,
            f as u16 as i64,
            f as i32 as i64,
            f as u32 as i64,
            f as i64,
            f as u64 as i64,
        ];
    });
}

#[test]
fn casts_of_floats_saturate() {
    let near = |x: f64| [x, x.next_up(), x.next_down(), x - 1.0, x + 1.0, x as f32 as f64];
    let ends = [8, 16, 32, 64].map(|bits| [f64::exp2(bits as f64), f64::exp2(bits as f64 - 1.0)]);
    let ends = ends.into_iter().flatten().chain([0.0, 0.5, 1e300]).flat_map(near);
    let all =
        ends.flat_map(|x| [x, -x]).chain([f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
    let x: Vec<f64> = all.collect();
    both!(casts(read x, write vec![[0i64; 16]; x.len()])).unwrap();
}

#[kernel]
fn rooms(size: [usize; 3], bad: [usize; 3], x: &[u32], out: &mut [u32]) {
    each(volume(out, [size[0], size[1], size[2]]), |[x_at, y, z], out| {
        let all_bad = x_at == bad[0] && y == bad[1] && z == bad[2];
        *out = x[if all_bad { x.len() } else { z }] + (x_at + 100 * y) as u32;
    });
}

#[kernel]
fn planes(w: usize, h: usize, bad: usize, x: &[u32], out: &mut [u32]) {
    each(image(out, [w, h]), |[column, row], out| {
        *out = x[if column == bad && row == bad { 7 } else { 0 }] + (column + 100 * row) as u32;
    });
}

#[test]
fn faults_of_images_and_volumes_have_their_element() {
    let x = [5, 6, 7, 8, 9];
    let size = [40, 11, 5];
    both!(rooms(value size, value [99, 0, 0], read x, write vec![0u32; 2200])).unwrap();
    let (cpu, fault, _) =
        both!(rooms(value size, value [33, 9, 3], read x, write vec![0u32; 2200])).unwrap_err();
    let fault = fault.unwrap();
    assert_eq!((fault.element, fault.index, fault.len), ([33, 9, 3], 5, 5));
    assert_eq!(cpu.to_string(), fault.to_string());

    both!(planes(value 70usize, value 9usize, value 99usize, read x, write vec![0u32; 630]))
        .unwrap();
    let (cpu, fault, _) =
        both!(planes(value 9usize, value 70usize, value 8usize, read x, write vec![0u32; 630]))
            .unwrap_err();
    assert_eq!(fault.as_ref().map(|fault| fault.element), Some([8, 8, 0]));
    assert_eq!(cpu.to_string(), fault.unwrap().to_string());
}

#[kernel]
fn pair(w: usize, h: usize, a: &mut [u32], b: &mut [u32]) {
    each((image(a, [w, h]), image(b, [h, w])), |[x, y], (a, b)| {
        *a = x as u32;
        *b = y as u32;
    });
}

#[kernel]
fn two(a: &mut [u32], b: &mut [u32]) {
    each((a, b), |i, (a, b)| {
        *a = i as u32;
        *b = 1;
    });
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let _alone = crate::alone();
    let stream = crate::stream();
    let zeroed = |len| DeviceBuffer::<u32>::zeroed(&stream, len).unwrap();
    let refused = |result: cuda_safe::Result<()>, words: &str| {
        let error = result.expect_err(words);
        assert!(error.to_string().contains(words), "{error}");
        stream.synchronize().unwrap();
    };
    let (x, size) = (zeroed(2), [4, 3, 2]);
    for len in [23, 25, 0] {
        let launched = rooms::launch(&stream, size, [0; 3], &x, &mut zeroed(len));
        refused(launched, &format!("but it has {len} elements"));
    }
    let huge = [1 << 40, 1 << 40, 1];
    refused(rooms::launch(&stream, huge, [0; 3], &x, &mut zeroed(24)), "but it has 24 elements");
    let (mut a, mut b) = (zeroed(12), zeroed(12));
    refused(pair::launch(&stream, 3, 4, &mut a, &mut b), "different shapes");
    refused(two::launch(&stream, &mut a, &mut b.slice_mut(..11).unwrap()), "different shapes");
}

/// A condition that is no equality of lengths says nothing about them.
#[kernel]
fn either(any: u32, x: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len() || any == 1);
    each(out, |i, out| *out = x[i]);
}

#[kernel]
fn unlike(x: &[f32], out: &mut [f32]) {
    assert!(x.len() != out.len());
    each(out, |i, out| *out = x[i]);
}

#[kernel]
fn far(at: &[u64], x: &[f32], out: &mut [f32]) {
    assert!(at.len() == out.len());
    each(out, |i, out| *out = x[at[i] as usize]);
}

#[kernel]
fn local(at: usize, out: &mut [u32]) {
    each(out, |i, out| {
        let (mut four, three) = ([i as u32; 4], [1u32, 2, 3]);
        four[at] += 1;
        *out = four[at] + three[at - 1];
    });
}

#[test]
fn indices_are_compared_with_the_length_itself() {
    both!(local(value 3usize, write vec![0u32; 3])).unwrap();
    for at in [0, 4, 1 << 32] {
        let (cpu, fault, _) = both!(local(value at, write vec![0u32; 1])).unwrap_err();
        // Without checks of overflows, `at - 1` is an index out of bounds.
        assert_eq!(cpu.to_string(), fault.unwrap().to_string());
    }
    let x = vec![1.0f32; 5];
    let (cpu, fault, _) = both!(either(value 1, read x, write vec![0.0f32; 6])).unwrap_err();
    assert_eq!(cpu.to_string(), fault.unwrap().to_string());
    let (cpu, fault, _) = both!(unlike(read x, write vec![0.0f32; 6])).unwrap_err();
    assert_eq!(cpu.to_string(), fault.unwrap().to_string());
    assert!(either::cpu(0, &x, &mut [0.0; 6]).unwrap_err().to_string().contains("it needs"));
    for at in [5, 1 << 32, (1 << 32) + 4, u64::MAX] {
        let (cpu, fault, _) = both!(far(read [at], read x, write vec![0.0f32; 1])).unwrap_err();
        assert_eq!(cpu.to_string(), fault.unwrap().to_string());
    }
}

#[device]
fn next(state: &mut i32) -> i32 {
    *state = state.wrapping_mul(31).wrapping_add(7);
    *state
}

#[kernel]
fn order(x: &[i32], out: &mut [[i32; 8]]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let (mut s, mut k) = (x[i] & 1023, 0usize);
        let mut t = [3, 5, 7, 11];
        let a = next(&mut s).wrapping_sub(next(&mut s));
        let b = s & 255;
        let c = b + {
            s &= 63;
            s
        } * 2;
        let d = s + {
            s += 1;
            s
        };
        t[{
            k += 1;
            k
        }] = k as i32 * 100;
        s -= {
            s += 5;
            s & 31
        };
        let e = (next(&mut s) & 1 == 0) && (next(&mut s) & 1 == 0);
        let f = [next(&mut s), s, next(&mut s)];
        *out = [a, c, d, t[k], s, e as i32, f[0] ^ f[1], f[2]];
    });
}

#[test]
fn operands_are_evaluated_in_rusts_order() {
    // C++ leaves the order of arguments open, so no two calls are in one statement.
    for line in order::source().lines() {
        assert!(line.matches("f_next_").count() < 2, "{line}");
    }
    both!(order(read (0..64).collect::<Vec<i32>>(), write vec![[0i32; 8]; 64])).unwrap();
}

#[kernel]
fn parts(short: &[i32], long: &[i32], out: &mut [i32]) {
    each(out, |i, out| {
        let mut sum = 0i32;
        for (a, b) in short.iter().zip(long) {
            sum += *a * *b;
        }
        for (b, a) in long.iter().zip(short) {
            sum += *a - *b;
        }
        *out = sum
            + match i {
                0..3 => 1000,
                3..=5 => 2000,
                6 | 8 => 3000,
                _ => 4000,
            };
    });
}

#[kernel]
fn slots(at: &[u32], bins: &Atomic<[u32]>, out: &mut [u32]) {
    assert!(at.len() == out.len());
    each(out, |i, out| {
        let slot = if at[i] > 90 { None } else { Some(at[i] as usize) };
        *out = bins.fetch_add(slot.unwrap(), 2);
        bins.fetch_sub(0, 1);
    });
}

#[test]
fn zips_patterns_options_and_atomics_keep_their_limits() {
    let short: Vec<i32> = (1..8).collect();
    both!(parts(read short, read (1..70).collect::<Vec<i32>>(), write vec![0i32; 10])).unwrap();

    let _alone = crate::alone();
    let stream = crate::stream();
    for (bad, kind) in [(3, FaultKind::Index), (90, FaultKind::Index), (91, FaultKind::None)] {
        let (at, mut bins, mut out) = ([0, 2, bad], [0; 3], [0; 3]);
        let cpu = slots::cpu(&at, Atomic::from_mut(&mut bins), &mut out).unwrap_err();
        let at = DeviceBuffer::from_slice(&stream, &at).unwrap();
        let mut bins = DeviceBuffer::<u32>::zeroed(&stream, 3).unwrap();
        let mut out = DeviceBuffer::<u32>::zeroed(&stream, 3).unwrap();
        slots::launch(&stream, &at, &mut bins, &mut out).unwrap();
        assert!(stream.synchronize().is_err());
        let fault = stream.context().take_fault().unwrap();
        assert_eq!((fault.kind, fault.element), (kind, [2, 0, 0]));
        assert_eq!(cpu.to_string(), fault.to_string());
        assert_eq!(bins.to_vec(&stream).unwrap(), [0, 0, 2]);
    }
}

/// Loops whose indices look like their counters.
#[kernel]
fn hidden(n: usize, x: &[u32], y: &[u32], out: &mut [u32]) {
    each(out, |_, out| {
        let mut sum = 0u32;
        for j in 0..n {
            let j = j * 2;
            sum = sum.wrapping_add(x[j]);
        }
        *out = sum;
    });
}

#[kernel]
fn exchanged(n: usize, x: &[u32], y: &[u32], out: &mut [u32]) {
    each(out, |_, out| {
        let mut sum = 0u32;
        let mut from = x;
        for j in 0..n {
            sum = sum.wrapping_add(from[j]);
            if j == 2 {
                from = y;
            }
        }
        *out = sum;
    });
}

#[test]
fn names_that_hide_a_counter_are_checked() {
    let x: Vec<u32> = (0..20).collect();
    both!(hidden(value 10usize, read x, read x, write vec![0u32; 1])).unwrap();
    both!(exchanged(value 20usize, read x, read x, write vec![0u32; 1])).unwrap();
    let (cpu, fault, _) =
        both!(hidden(value 11usize, read x, read x, write vec![0u32; 1])).unwrap_err();
    assert_eq!(cpu.to_string(), fault.unwrap().to_string());
    let (cpu, fault, _) =
        both!(exchanged(value 20usize, read x, read x[..7].to_vec(), write vec![0u32; 1]))
            .unwrap_err();
    assert_eq!(cpu.to_string(), fault.unwrap().to_string());
}

#[kernel]
fn counts(at: &[u32], x: &[u32], bins: &Atomic<[u32]>, out: &mut [u32]) {
    each(out, |_, out| {
        for j in 0..at.len() {
            let by = x[at[j] as usize];
            bins.fetch_add(0, by);
        }
        *out = crate::elements::of_another_file(at, x);
    });
}

#[test]
fn a_thread_that_fails_has_no_later_effects() {
    let _alone = crate::alone();
    let stream = crate::stream();
    for (at, sum) in [([0u32, 1, 0], 14), ([0, 9, 0], 2), ([0, 0, 1], 14)] {
        let (x, mut bins) = ([2u32, 10], [0u32]);
        let cpu = counts::cpu(&at, &x, Atomic::from_mut(&mut bins), &mut [0]).unwrap_err();
        let buffer = |data: &[u32]| DeviceBuffer::from_slice(&stream, data).unwrap();
        let (mut bins, mut out) = (buffer(&[0]), buffer(&[0]));
        counts::launch(&stream, &buffer(&at), &buffer(&x), &mut bins, &mut out).unwrap();
        assert!(stream.synchronize().is_err());
        // The second one fails in a function of another file.
        assert_eq!(cpu.to_string(), stream.context().take_fault().unwrap().to_string());
        assert_eq!(bins.to_vec(&stream).unwrap(), [sum]);
    }
}

#[device]
fn same(x: i32) -> i32 {
    x
}

/// Each form fails on a line of its own if `x` is the greatest number.
#[kernel]
fn forms(form: usize, x: i32, out: &mut [i32]) {
    each(out, |_, out| {
        let mut s = x;
        let t = [x, 2];
        match form {
            0 => s = x + 1,
            1 => s += 1,
            2 => s *= t[1],
            3 => s = same(x) + same(x),
            4 => s = 1 + x,
            5 => s = t[0] * t[1],
            6 => s = x.min(x) + 1,
            7 => s = -(-2147483647 - (x - 2147483646)),
            8 => s = x << (x & 32 | 32),
            9 => s <<= x,
            10 => s = x / (x - 2147483647),
            11 => s = 7 % (2147483647 - x),
            12 => s = t[(x - 2147483645) as usize],
            13 => s = Some(x).unwrap_or(3) + 1,
            14 => {
                s = (if x > 3 {
                    let m = x;
                    m
                } else {
                    4
                }) + 1
            }
            15 => s = x + same(1),
            _ => s = (x - 2147483647 - 1) * (x - 2147483647 + 2) - 2147483647,
        }
        *out = s;
    });
}

#[test]
fn a_failed_operation_has_its_line() {
    for form in 0..=16usize {
        let results = both!(forms(value form, value i32::MAX, write vec![0i32; 1]));
        let Err((cpu, fault, _)) = results else {
            assert!(!(forms::kernel().overflow_checks)(), "{form} does not fail");
            continue;
        };
        assert_eq!(cpu.to_string(), fault.unwrap().to_string(), "{form}");
    }
}
