//! Checks of loops: before them, deferred to their end, and at each index.
//!
//! Each case runs with one element, so the device has one fault to report: the first in the order of Rust.

use gpu_phases::kernel;

use crate::both;

/// Runs a kernel with one element. Both targets have the same bits, or the same fault.
macro_rules! one {
    ($kernel:ident($($argument:tt)*)) => {
        match both!($kernel($($argument)*, write vec![3i64; 1])) {
            Ok(_) => true,
            Err((cpu, fault, _)) => {
                let fault = fault.unwrap_or_else(|| panic!("only the CPU fails: {cpu}"));
                assert_eq!(cpu.to_string(), fault.to_string());
                false
            }
        }
    };
}

/// Numbers that look random, below `bound`.
fn numbers(seed: u64, n: usize, bound: u64) -> Vec<u32> {
    let mut state = seed;
    (0..n)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % bound) as u32
        })
        .collect()
}

/// Indices that grow with the counter, in all kinds of loops.
#[kernel]
fn grows(shape: &[u32], x: &[u32], y: &[u32], out: &mut [i64]) {
    each(out, |i, out| {
        let (from, to, by, more) =
            (shape[0] as usize, shape[1] as usize, shape[2] as usize, shape[3] as usize);
        let mut s = 1u32;
        for k in from..to {
            s = s.wrapping_mul(31) ^ x[k * by + more];
        }
        for k in from..to {
            s = s.wrapping_mul(31) ^ x[k] ^ y[more + by * k * 2 + i];
        }
        for k in from..=to {
            s = s.wrapping_mul(31) ^ y[k + more];
        }
        for k in (from..to).rev() {
            s = s.wrapping_mul(31) ^ y[(k + 1) * by];
        }
        for k in (from..=to).rev() {
            s = s.wrapping_mul(31) ^ x[k + x.len() * 0];
        }
        for k in (from..to).step_by(by + 1) {
            s = s.wrapping_mul(31) ^ x[k] ^ y[k * 3];
        }
        for k in (from..=to).step_by(2) {
            s = s.wrapping_mul(31) ^ x[k + more];
        }
        *out = s as i64;
    });
}

#[test]
fn indices_that_grow_fault_where_rust_does() {
    let (x, y) = (numbers(1, 90, 1 << 31), numbers(2, 150, 1 << 31));
    let (mut fine, mut faults) = (0, 0);
    for from in [0, 3, 89, 200] {
        for to in [0, 3, 20, 44, 88, 89, 90, 150] {
            for by in [0, 1, 2, 5] {
                for more in [0, 1, 60, u32::MAX] {
                    match one!(grows(read vec![from, to, by, more], read x, read y)) {
                        true => fine += 1,
                        false => faults += 1,
                    }
                }
            }
        }
    }
    assert!(fine > 20 && faults > 100, "{fine} without a fault, {faults} with one");
}

/// Counters of other types, and indices that each iteration need not reach.
#[kernel]
fn counters(from: i32, to: i32, limit: usize, x: &[u32], y: &[u32], out: &mut [i64]) {
    each(out, |i, out| {
        let mut s = 7i64;
        for k in from..to {
            s = s.wrapping_mul(3) ^ x[k as usize] as i64;
        }
        let ends = (from as u8, to as u8);
        for k in ends.0..ends.1 {
            s = s.wrapping_mul(3) ^ y[k as usize + i] as i64;
        }
        let end = to as usize;
        for k in 0..end {
            if k < limit {
                s = s.wrapping_mul(3) ^ x[k * 2] as i64;
            }
            if k + 1 < end && y[k + 1] > 5 {
                s += 1;
            }
        }
        for k in 0..end {
            if k >= limit {
                break;
            }
            s = s.wrapping_mul(3) ^ x[k * 2] as i64;
        }
        for k in 0..end {
            if k >= limit {
                continue;
            }
            s = s.wrapping_mul(3) ^ x[k * 2] as i64;
        }
        *out = s;
    });
}

#[test]
fn counters_and_conditions_fault_where_rust_does() {
    let (x, y) = (numbers(3, 80, 1 << 31), numbers(4, 60, 10));
    let (mut fine, mut faults) = (0, 0);
    for from in [-5, -1, 0, 7, i32::MAX] {
        for to in [-1, 0, 5, 40, 41, 59, 60, 61, 80, 300] {
            for limit in [0usize, 10, 40, 41, 90] {
                match one!(counters(value from, value to, value limit, read x, read y)) {
                    true => fine += 1,
                    false => faults += 1,
                }
            }
        }
    }
    assert!(fine > 20 && faults > 50, "{fine} without a fault, {faults} with one");
}

/// Gathers, whose checks are deferred, in a loop that changes variables of all kinds.
#[kernel]
fn gathers(n: usize, at: &[u32], next: &[u32], values: &[u32], out: &mut [i64]) {
    each(out, |i, out| {
        let (mut s, mut turns, mut place) = (0i64, [0u32; 4], i);
        let mut last = (0u32, 1.0f32);
        for k in 0..n {
            turns[k % 4] += values[k] & 3;
            s = s.wrapping_mul(5) ^ values[at[k] as usize].wrapping_mul(3) as i64;
            last = (next[place], last.1 + 0.5);
            place = last.0 as usize;
        }
        for k in 0..n {
            s ^= at[values[at[k] as usize] as usize % (turns[k % 4] as usize + 1)] as i64;
        }
        *out = s ^ (turns[0] + turns[1] * 3) as i64 ^ last.1 as i64 ^ place as i64;
    });
}

#[test]
fn gathers_fault_where_rust_does() {
    let count = 70;
    let (at, next) = (numbers(5, count, 70), numbers(6, count, 70));
    let values = numbers(7, count, 1 << 20);
    for n in [0usize, 1, 7, 8, 15, 16, 17, 31, 33, 70] {
        assert!(one!(gathers(value n, read at, read next, read values)), "{n}");
    }
    assert!(!one!(gathers(value 71usize, read at, read next, read values)));
    for bad in [0, 5, 15, 16, 40, 69] {
        for (which, wrong) in [(0, 70), (1, 70), (0, u32::MAX), (1, 1 << 30)] {
            let (mut at, mut next) = (at.clone(), next.clone());
            match which {
                0 => at[bad] = wrong,
                _ => next[bad] = wrong,
            }
            for n in [17usize, 41, 70] {
                one!(gathers(value n, read at, read next, read values));
            }
            // Two faults: the first one counts, whichever array it is in.
            (at[33], next[31]) = (71, 72);
            one!(gathers(value 70usize, read at, read next, read values));
        }
    }
    let empty: Vec<u32> = Vec::new();
    assert!(!one!(gathers(value 5usize, read at, read next, read empty)));
    assert!(one!(gathers(value 0usize, read empty, read empty, read empty)));
}

#[kernel]
fn twice(n: usize, at: &[u32], next: &[u32], values: &[u32], out: &mut [i64]) {
    each(out, |_i, out| {
        let mut s = 0i64;
        for k in 0..n {
            s = s.wrapping_mul(5) ^ (values[at[k] as usize] ^ next[k * 2 + 1]) as i64;
        }
        *out = s;
    });
}

#[test]
fn gathers_beside_other_indices_have_equal_bits() {
    let (at, next) = (numbers(12, 60, 70), numbers(13, 90, 1 << 31));
    let values = numbers(14, 70, 1 << 31);
    for n in [1usize, 16, 17, 45] {
        assert!(one!(twice(value n, read at, read next, read values)), "{n}");
    }
    assert!(!one!(twice(value 46usize, read at, read next, read values)));
}

#[kernel]
fn wraps(n: usize, by: usize, more: usize, x: &[u32], out: &mut [i64]) {
    each(out, |_i, out| {
        let mut s = 0u32;
        for k in 0..n {
            s ^= x[k * by + more];
        }
        *out = s as i64;
    });
}

#[test]
fn indices_that_wrap_fault_where_rust_does() {
    let x = numbers(15, 20, 1 << 31);
    assert!(one!(wraps(value 5usize, value 4usize, value 3usize, read x)));
    for (n, by, more) in
        [(5usize, 1usize, usize::MAX), (5, 1 << 62, 3), (3, 1 << 63, 0), (2, 3, usize::MAX - 1)]
    {
        assert!(!one!(wraps(value n, value by, value more, read x)), "{n} {by} {more}");
    }
}

/// More variables than are kept for a second run, and arrays that are written at the counter.
#[kernel]
fn large(n: usize, x: &[u32], out: &mut [i64]) {
    each(out, |_i, out| {
        let (mut a, mut b) = ([0u32; 40], [1u32; 12]);
        for k in 0..n {
            a[k] = x[k * 2] ^ 7;
            b[k % 12] += a[k] & 15;
        }
        let mut s = 0i64;
        for k in 0..40usize {
            s = s.wrapping_mul(7) + (a[k] ^ b[k % 12]) as i64;
        }
        for k in 0..12 {
            b[k] = x[(b[k] & 127) as usize];
        }
        *out = s ^ b[3] as i64;
    });
}

#[test]
fn arrays_fault_where_rust_does() {
    let x = numbers(8, 128, 1 << 31);
    for (n, fine) in [(0usize, true), (1, true), (40, true), (41, false), (64, false), (65, false)]
    {
        assert_eq!(one!(large(value n, read x)), fine, "{n}");
    }
    for shorter in [1, 60, 79, 80, 100] {
        one!(large(value 40usize, read x[..shorter].to_vec()));
    }
}

/// The third element is out of bounds, and the loop would go on for ever.
#[kernel]
fn long(end: u64, x: &[u32], out: &mut [i64]) {
    each(out, |_i, out| {
        let mut s = 0u32;
        for k in 0..end {
            s ^= x[(k & 7) as usize];
        }
        *out = s as i64;
    });
}

#[test]
fn long_loops_stop_at_a_fault() {
    let x = numbers(11, 8, 1 << 31);
    assert!(one!(long(value 20_000u64, read x)));
    for end in [20u64, (1 << 24) + 1, u64::MAX] {
        assert!(!one!(long(value end, read x[..2].to_vec())));
    }
}

/// A function with a loop is called in one, and each has checks.
#[gpu_phases::device]
fn total(x: &[u32], from: usize, n: usize) -> u32 {
    let mut s = 0u32;
    for k in 0..n {
        s = s.wrapping_mul(9) ^ x[from + k];
    }
    s
}

#[kernel]
fn calls(n: usize, m: usize, at: &[u32], x: &[u32], out: &mut [i64]) {
    each(out, |_i, out| {
        let mut s = 0u32;
        for k in 0..n {
            s ^= total(x, at[k] as usize, m).wrapping_add(x[k]);
        }
        *out = s as i64;
    });
}

#[test]
fn functions_in_loops_fault_where_rust_does() {
    let (at, x) = (numbers(9, 40, 50), numbers(10, 64, 1 << 31));
    for n in [0usize, 1, 39, 40, 41] {
        for m in [0usize, 1, 14, 15, 30, 64, 65] {
            one!(calls(value n, value m, read at, read x));
        }
    }
    assert!(one!(calls(value 40usize, value 14usize, read at, read x)));
    assert!(!one!(calls(value 40usize, value 40usize, read at, read x)));
}

/// Methods that write through references.
#[derive(Clone, Copy, gpu_phases::Device)]
#[repr(C)]
struct Walk {
    at: u32,
}

#[gpu_phases::device]
impl Walk {
    fn next(&mut self) -> usize {
        self.at += 1;
        self.at as usize
    }

    fn add(self, to: &mut i64, more: i64) {
        *to += more;
    }

    fn set(self, to: &mut [u32], k: usize, value: u32) {
        to[k] = value;
    }

    fn walk(&mut self, n: usize, at: &[u32], x: &[u32]) -> u32 {
        let mut s = 0u32;
        for k in 0..n {
            self.at += 1;
            s = s.wrapping_mul(3) ^ x[at[self.at as usize % at.len()] as usize] ^ at[k];
        }
        s
    }

    fn long(&mut self, end: u64, x: &[u32], from: usize) {
        for k in 0..end {
            self.at ^= x[(k & 7) as usize + from];
        }
    }
}

/// A loop does not set back what it changes through a reference, so it does not run twice.
#[kernel]
fn references(form: u32, n: usize, at: &[u32], x: &[u32], out: &mut [i64]) {
    each(out, |_i, out| {
        let (mut walk, mut other, mut s) = (Walk { at: 1 }, Walk { at: 0 }, 0i64);
        let count = at.len();
        match form {
            0 => s = walk.walk(n, at, x) as i64,
            1 => {
                for _k in 0..n {
                    walk.add(out, 1);
                    s = s.wrapping_mul(3) ^ x[at[*out as usize % count] as usize] as i64;
                }
            }
            2 => {
                let r = &mut Walk { at: 0 };
                for _k in 0..n {
                    let next = r.next();
                    s = s.wrapping_mul(3) ^ x[at[next % count] as usize] as i64;
                }
            }
            3 => {
                let mut r = &mut walk;
                for _k in 0..n {
                    r.at += 1;
                    s = s.wrapping_mul(3) ^ x[at[r.at as usize % count] as usize] as i64;
                }
                r = &mut other;
                r.at += 1;
            }
            4 => {
                let mut b = [0u32; 64];
                let p = &mut b[..];
                for k in 0..n {
                    walk.set(p, k + 1, k as u32 ^ p[k]);
                    s = s.wrapping_mul(3) ^ p[k] as i64 ^ x[at[k] as usize] as i64;
                }
            }
            _ => {
                for k in 0..n {
                    let from = x[at[k] as usize] as usize;
                    walk.long(if from < x.len() - 8 { 9 } else { u64::MAX }, x, from);
                }
            }
        }
        *out ^= s ^ (walk.at + other.at) as i64;
    });
}

#[test]
fn references_in_loops_are_written_once() {
    let mut at = numbers(16, 40, 60);
    let x = numbers(17, 70, 50);
    for form in 0..6u32 {
        for n in [0usize, 17, 33] {
            assert!(one!(references(value form, value n, read at, read x)), "{form} {n}");
        }
    }
    at[9] = 70;
    for form in 0..6u32 {
        for n in [5usize, 17, 33] {
            assert_eq!(
                one!(references(value form, value n, read at, read x)),
                n == 5,
                "{form} {n}"
            );
        }
    }
    // A loop that a loop calls ends after its first failed check.
    at[9] = 3;
    let mut far = x.clone();
    far[3] = 66;
    assert!(!one!(references(value 5u32, value 33usize, read at, read far)));
}

/// References to slices lead to shorter and longer ones after an iteration.
#[kernel]
fn reseated(n: usize, x: &[u32], y: &[u32], out: &mut [i64]) {
    each(out, |_i, out| {
        let (mut slices, mut s) = ([x, x], 0i64);
        for r in slices.iter_mut() {
            for k in 0..n {
                s = s.wrapping_mul(3) ^ r[k] as i64;
                *r = &x[..x.len() - 3];
            }
            *r = &x[..3];
            for k in 0..n {
                s = s.wrapping_mul(3) ^ y[r.len() + k] as i64;
                *r = x;
            }
        }
        *out = s;
    });
}

#[test]
fn slices_behind_references_fault_where_rust_does() {
    let (x, y) = (numbers(18, 40, 1 << 31), numbers(19, 45, 1 << 31));
    for (n, fine) in [(0usize, true), (1, true), (5, true), (6, false), (38, false)] {
        assert_eq!(one!(reseated(value n, read x, read y)), fine, "{n}");
    }
}
