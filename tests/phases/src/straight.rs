//! Bodies whose indices are inspected before they run, and bodies that look like them.
//!
//! Cases with one element have one fault, so the device must report the first in the order of Rust.

use gpu_phases::{Atomic, Device, device, kernel};

use crate::both;

/// Runs a kernel with outputs of 1 and of 70 elements. Returns whether the one element has failed.
macro_rules! run {
    ($kernel:ident($($argument:tt)*)) => {{
        if let Err((cpu, fault, _)) = both!($kernel($($argument)*, write vec![3i64; 70])) {
            let fault = fault.unwrap_or_else(|| panic!("only the CPU fails: {cpu}"));
            assert_eq!(fault.kernel, stringify!($kernel));
        }
        match both!($kernel($($argument)*, write vec![3i64; 1])) {
            Ok(_) => false,
            Err((cpu, fault, _)) => {
                let fault = fault.unwrap_or_else(|| panic!("only the CPU fails: {cpu}"));
                assert_eq!(cpu.to_string(), fault.to_string());
                true
            }
        }
    }};
}

fn is_inspected(source: &str) -> bool {
    source.contains("= inspecting(")
}

/// Indices in branches, conditions, loops and arrays; other checks on elements.
#[kernel]
fn taps(
    width: usize,
    back: usize,
    step: u32,
    table: [i64; 4],
    x: &[i64],
    y: &[u32],
    out: &mut [i64],
) {
    each(out, |i, out| {
        let at = i * width + 2;
        let mut sum = x[at] * 2 - x[at + back];
        if i + 1 > back && x[i] > 3 {
            sum += 1;
        }
        if back % 2 == 0 {
            sum ^= x[at - back];
        } else if back < 30 {
            sum ^= y[i + step as usize] as i64;
        }
        sum = (sum % 1000) * 3 + x[at + 2 * back] + table[back % 7];
        let [a, b] = [y[i], y[back]];
        let large = if a > b { sum } else { -sum };
        *out = large + a as i64 / b as i64;
    });
}

#[test]
fn the_first_failure_is_that_of_rust() {
    assert!(is_inspected(&taps::source()));
    let x: Vec<i64> = (0..150).map(|i| (i * 37) % 11).collect();
    // Some divisors are zero.
    let y: Vec<u32> = (0..90).map(|i| (i * 29) % 8).collect();
    let (mut fine, mut faults) = (0, 0);
    for width in [0usize, 1, 2, usize::MAX, 1 << 33] {
        for back in [0usize, 1, 2, 3, 29, 88, 89, 144, 150, usize::MAX - 1] {
            for step in [0u32, 19, 89, 90, u32::MAX] {
                match run!(taps(value width, value back, value step, value [4, 3, -2, 9], read x, read y))
                {
                    false => fine += 1,
                    true => faults += 1,
                }
            }
        }
    }
    assert!(fine > 20 && faults > 50, "{fine} without a fault, {faults} with one");
}

/// Several variables with one name, and one that changes, from which indices are counted.
#[kernel]
fn renamed(back: usize, x: &[i64], out: &mut [i64]) {
    each(out, |i, out| {
        let at = i + 1;
        let mut moved = at;
        let first = x[at + back] - x[moved] * 2;
        moved = at + 2 * back;
        let at = back;
        *out = if i > 0 {
            let at = at + i;
            first + x[at] * 3 - x[at - back]
        } else {
            first + x[moved] * 5 + x[at - 1] * 7 + x[at + i]
        };
    });
}

#[test]
fn distances_are_from_the_variable_of_each_index() {
    assert!(is_inspected(&renamed::source()) && renamed::source().contains("near<false>("));
    let x: Vec<i64> = (0..150).map(|i| (i * 37) % 101).collect();
    let large = [148, 149, 150, 1 << 32, usize::MAX, usize::MAX - 1];
    let (mut fine, mut faults) = (0, 0);
    for back in [0usize, 1, 2, 31, 32, 33, 73, 74, 75].into_iter().chain(large) {
        match run!(renamed(value back, read x)) {
            false => fine += 1,
            true => faults += 1,
        }
    }
    assert!(fine > 5 && faults > 5, "{fine} without a fault, {faults} with one");
}

#[kernel]
fn gathered(back: usize, x: &[i64], y: &[u32], out: &mut [i64]) {
    each(out, |i, out| {
        let at = y[i % 4] as usize;
        *out = x[at + back] + x[i];
    });
}

#[kernel]
fn behind_an_and(back: usize, x: &[i64], y: &[u32], out: &mut [i64]) {
    each(out, |i, out| {
        let near = y[i % 4] > 3 && x[i + back] > 4;
        *out = near as i64 + x[i];
    });
}

#[kernel]
fn behind_an_or(back: usize, x: &[i64], y: &[u32], out: &mut [i64]) {
    each(out, |i, out| {
        *out = (y[i % 4] > 3 || x[i + back] > 4) as i64 + x[i];
    });
}

#[kernel]
fn in_a_branch(back: usize, x: &[i64], y: &[u32], out: &mut [i64]) {
    each(out, |i, out| {
        let more = if y[i % 4] > 3 { x[i + back] } else { 0 };
        *out = more + x[i];
    });
}

#[kernel]
fn in_the_next_iteration(back: usize, x: &[i64], y: &[u32], out: &mut [i64]) {
    each(out, |i, out| {
        let (mut at, mut sum) = (i, 0);
        for k in 0..3 {
            sum += x[at];
            at = y[k] as usize + back;
        }
        *out = sum;
    });
}

#[kernel]
fn by_a_condition(back: usize, x: &[i64], y: &[u32], out: &mut [i64]) {
    each(out, |i, out| {
        let mut at = i;
        if y[i % 4] > 3 {
            at = back;
        }
        *out = x[at] + x[i];
    });
}

#[kernel]
fn by_a_method(back: usize, x: &[i64], y: &[u32], out: &mut [i64]) {
    each(out, |i, out| {
        *out = x[(y[i % 4] as usize).max(back)] + x[i];
    });
}

#[kernel]
fn in_a_match(back: usize, x: &[i64], y: &[u32], out: &mut [i64]) {
    each(out, |i, out| {
        let more = match y[i % 4] {
            0..4 => 0,
            _ => x[i + back],
        };
        *out = more + x[i];
    });
}

#[kernel]
fn some(back: usize, x: &[i64], y: &[u32], out: &mut [i64]) {
    each(out, |i, out| {
        let mut sum = y[0] as i64;
        for k in 0..back {
            sum += x[i % 2 + k];
        }
        *out = sum + x[back];
    });
}

#[test]
fn indices_that_follow_from_elements_are_checked_where_they_are_used() {
    let x: Vec<i64> = (0..102).collect();
    let mut faults = 0;
    macro_rules! all {
        ($($kernel:ident)*) => {$(
            let mut failed = 0;
            for y in [[9u32, 1, 9, 1], [1, 9, 1, 9]] {
                for back in [0usize, 1, 2, 60, 100, 101, 102, 5000] {
                    failed += usize::from(run!($kernel(value back, read x, read y)));
                }
            }
            assert!(failed > 0 && failed < 16, "{}: {failed}", stringify!($kernel));
            faults += failed;
        )*};
    }
    all!(gathered behind_an_and behind_an_or in_a_branch in_the_next_iteration by_a_condition by_a_method in_a_match some);
    assert!(faults > 20);
    let sources = [
        gathered::source(),
        behind_an_and::source(),
        behind_an_or::source(),
        in_a_branch::source(),
        in_the_next_iteration::source(),
        by_a_condition::source(),
        by_a_method::source(),
        in_a_match::source(),
        some::source(),
    ];
    assert!(!sources.iter().any(|source| is_inspected(source)));
}

/// A value that another thread may change between the inspection and the run.
#[kernel]
fn of_an_atomic(at: &Atomic<[u32]>, x: &[i64], out: &mut [i64]) {
    each(out, |i, out| *out = x[at.load(0) as usize] + x[i]);
}

#[test]
fn values_that_may_change_are_not_inspected() {
    assert!(!is_inspected(&of_an_atomic::source()));
    both!(of_an_atomic(shared vec![1u32], read vec![5i64, 6], write vec![0i64; 2])).unwrap();
}

/// Names that mean something else later.
#[kernel]
fn shadowed(x: &[i64], y: &[u32], out: &mut [i64]) {
    each(out, |i, out| {
        let at = i + 1;
        let first = x[at];
        let at = y[i] as i64;
        let i = at + first;
        *out = i;
    });
}

#[test]
fn names_that_are_used_again() {
    let x: Vec<i64> = (0..80).collect();
    both!(shadowed(read x, read vec![7u32; 70], write vec![0i64; 70])).unwrap();
    assert!(both!(shadowed(read x, read vec![7u32; 70], write vec![0i64; 80])).is_err());
}

/// Loops with constant ends: all indices grow with the counters.
#[kernel]
fn window(width: usize, at: usize, weights: [i64; 6], x: &[i64], out: &mut [i64]) {
    each(out, |i, out| {
        let mut sum = 0;
        if at != 5 {
            let first = i * width + at;
            for b in 0..2 {
                let row = first + b * width;
                for a in 0..3 {
                    sum += weights[3 * b + a] * x[row + a];
                }
            }
        }
        for k in 3..3 {
            sum += x[1000 + k];
        }
        *out = sum + x[i];
    });
}

#[test]
fn a_length_that_indices_begin_with_is_computed_once() {
    // `first`, in each of the three copies: `row` is in a loop.
    assert_eq!(window::source().matches(" = apart(c, ").count(), 3);
}

#[test]
fn the_last_iteration_of_loops_is_inspected() {
    assert!(is_inspected(&window::source()));
    let x: Vec<i64> = (0..150).map(|i| (i * 37) % 11).collect();
    let (mut fine, mut faults) = (0, 0);
    let far = [1 << 31, 1 << 32, (1 << 32) - 70, 1 << 62, 1 << 63, usize::MAX / 2 - 1, usize::MAX];
    for width in [0usize, 1, 2, 70, 140, 144, 145, 146, 147, 148].into_iter().chain(far) {
        for at in [0usize, 1, 2, 5, 77, 147, 148, 149].into_iter().chain(far) {
            match run!(window(value width, value at, value [4, 3, -2, 9, 5, 1], read x)) {
                false => fine += 1,
                true => faults += 1,
            }
        }
    }
    assert!(fine > 20 && faults > 50, "{fine} without a fault, {faults} with one");
}

/// Indices that do not grow with the counters.
#[kernel]
fn zigzag(at: usize, x: &[i64], out: &mut [i64]) {
    each(out, |i, out| {
        let (mut sum, mut next) = (0, at);
        for k in 0..4 {
            sum += x[3 - k] + x[next];
            next += 40;
            if k == 2 {
                next = i;
            }
        }
        *out = sum;
    });
}

#[kernel]
fn twice(at: usize, x: &[i64], out: &mut [i64]) {
    each(out, |i, out| {
        let mut sum = 0;
        for k in 0..4 {
            let k = 8 - 2 * k;
            sum += x[at + k] + x[i];
        }
        *out = sum;
    });
}

#[kernel]
fn carried(at: usize, x: &[i64], out: &mut [i64]) {
    each(out, |i, out| {
        let (mut sum, mut from) = (0, at);
        for k in 0..4 {
            sum += x[from] + x[i];
            from = (sum & 7) as usize + k;
        }
        *out = sum;
    });
}

#[kernel]
fn repeated(at: usize, x: &[i64], out: &mut [i64]) {
    each(out, |i, out| {
        let (mut sum, mut from) = (0, at);
        for k in 0..4 {
            sum += x[from] + x[i];
            from += 38 + k;
        }
        *out = sum;
    });
}

/// The last iteration alone, which an inspection runs, ends with another index.
#[kernel]
fn after_a_loop(at: usize, x: &[i64], out: &mut [i64]) {
    each(out, |i, out| {
        let mut from = at;
        for k in 0..4 {
            from += k;
        }
        let next = from + 1;
        *out = x[next] + x[i];
    });
}

#[test]
fn indices_that_do_not_grow_are_checked_where_they_are_used() {
    for source in [
        zigzag::source(),
        twice::source(),
        carried::source(),
        repeated::source(),
        after_a_loop::source(),
    ] {
        assert!(!is_inspected(&source), "{source}");
    }
    let x: Vec<i64> = (0..150).map(|i| (i * 37) % 11).collect();
    let mut faults = 0;
    for at in [0usize, 1, 29, 30, 69, 70, 141, 142, 143, 149, 150, usize::MAX - 100] {
        faults += usize::from(run!(zigzag(value at, read x)));
        faults += usize::from(run!(twice(value at, read x)));
        faults += usize::from(run!(carried(value at, read x)));
        faults += usize::from(run!(repeated(value at, read x)));
        assert_eq!(run!(after_a_loop(value at, read x)), at >= 143);
    }
    assert!(faults > 8, "{faults}");
}

/// Its sums fall.
#[derive(Clone, Copy, Device)]
#[repr(C)]
struct From(u64);

#[device]
impl std::ops::Add<usize> for From {
    type Output = usize;

    fn add(self, back: usize) -> usize {
        self.0 as usize - back
    }
}

/// The sum of two has a loop that ends for no zero.
#[derive(Debug, Clone, Copy, Device, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Halved(i64);

#[device]
impl std::ops::Add for Halved {
    type Output = i64;

    fn add(self, other: Self) -> i64 {
        let (mut left, mut count) = (self.0, other.0);
        while left != 1 {
            left /= 2;
            count = (count + 1) & 0xffff;
        }
        count
    }
}

#[kernel]
fn falling(from: From, x: &[i64], out: &mut [i64]) {
    each(out, |i, out| {
        let mut sum = x[i];
        for k in 0..4 {
            sum += x[from + k];
        }
        *out = sum;
    });
}

#[kernel]
fn halved(x: &[Halved], out: &mut [i64]) {
    each(out, |i, out| *out = x[i] + x[i]);
}

#[test]
fn operators_of_the_program_are_not_inspected() {
    assert!(is_inspected(&falling::source()) && is_inspected(&halved::source()));
    let x: Vec<i64> = (0..80).collect();
    assert!(!run!(falling(value From(79), read x)));
    assert!(run!(falling(value From(82), read x)));
    let x: Vec<Halved> = (1..80).map(Halved).collect();
    assert!(!run!(halved(read x)));
}
