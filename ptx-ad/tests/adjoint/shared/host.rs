//! The kernels on the host, in f64, with derivatives by one input.

use std::ops::{Add, Div, Mul, Sub};

/// A number and its derivative.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Dual(pub(super) f64, pub(super) f64);

impl Add for Dual {
    type Output = Self;
    fn add(self, by: Self) -> Self {
        Self(self.0 + by.0, self.1 + by.1)
    }
}

impl Sub for Dual {
    type Output = Self;
    fn sub(self, by: Self) -> Self {
        Self(self.0 - by.0, self.1 - by.1)
    }
}

impl Mul for Dual {
    type Output = Self;
    fn mul(self, by: Self) -> Self {
        Self(self.0 * by.0, self.1 * by.0 + self.0 * by.1)
    }
}

impl Div for Dual {
    type Output = Self;
    fn div(self, by: Self) -> Self {
        Self(self.0 / by.0, (self.1 - self.0 / by.0 * by.1) / by.0)
    }
}

impl std::iter::Sum for Dual {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

const fn c(value: f64) -> Dual {
    Dual(value, 0.0)
}

fn exp(x: Dual) -> Dual {
    Dual(x.0.exp(), x.0.exp() * x.1)
}

fn sqrt(x: Dual) -> Dual {
    Dual(x.0.sqrt(), x.1 * 0.5 / x.0.sqrt())
}

/// What a kernel does: its inputs, its integers, and the number of outputs.
pub(super) type Function = fn(&[Vec<Dual>], &[u32], usize) -> Vec<Dual>;

fn at(x: &[Dual], i: usize) -> Dual {
    x.get(i).copied().unwrap_or_default()
}

/// Elements of a block of 64 threads.
fn block(x: &[Dual], block: usize, f: impl Fn(Dual) -> Dual) -> Vec<Dual> {
    (0..64).map(|t| x.get(block * 64 + t).map_or(c(0.0), |x| f(*x))).collect()
}

pub(super) fn tree(x: &[Vec<Dual>], _: &[u32], count: usize) -> Vec<Dual> {
    let sum = |b| block(&x[0], b, |x| x * x).into_iter().sum::<Dual>();
    (0..count).map(|b| sum(b) * sum(b)).collect()
}

pub(super) fn rolled_tree(x: &[Vec<Dual>], _: &[u32], count: usize) -> Vec<Dual> {
    let of = |b| {
        let mut s = block(&x[0], b, |x| x * x);
        for half in [32, 16, 8, 4, 2, 1] {
            for t in 0..half {
                s[t] = s[t] * s[t + half] + s[t];
            }
        }
        s[0]
    };
    (0..count).map(of).collect()
}

pub(super) fn scan(x: &[Vec<Dual>], _: &[u32], count: usize) -> Vec<Dual> {
    let first = |i: usize| i / 64 * 64;
    (0..count).map(|i| (first(i)..=i).map(|k| x[0][k] * x[0][k]).sum()).collect()
}

pub(super) fn product(x: &[Vec<Dual>], sizes: &[u32], count: usize) -> Vec<Dual> {
    let [n, p] = [sizes[1] as usize, sizes[2] as usize];
    (0..count).map(|i| (0..p).map(|k| x[0][i / n * p + k] * x[1][k * n + i % n]).sum()).collect()
}

pub(super) fn softmax(x: &[Vec<Dual>], sizes: &[u32], _: usize) -> Vec<Dual> {
    let rows = x[0].chunks(sizes[0] as usize);
    rows.flat_map(|row| {
        let sum: Dual = row.iter().map(|x| exp(*x)).sum();
        row.iter().map(move |x| exp(*x) / sum)
    })
    .collect()
}

pub(super) fn layer_norm(x: &[Vec<Dual>], sizes: &[u32], _: usize) -> Vec<Dual> {
    let n = f64::from(sizes[1]);
    let row = |row: &[Dual]| {
        let mean = row.iter().copied().sum::<Dual>() / c(n);
        let square: Dual = row.iter().map(|x| (*x - mean) * (*x - mean)).sum();
        let scale = c(1.0) / sqrt(square / c(n) + c(0.001));
        row.iter().zip(&x[1]).map(|(x, w)| (*x - mean) * scale * *w).collect::<Vec<_>>()
    };
    x[0].chunks(sizes[1] as usize).flat_map(row).collect()
}

pub(super) fn heat(x: &[Vec<Dual>], sizes: &[u32], count: usize) -> Vec<Dual> {
    let tile = |tile: usize| {
        let start = |t: usize| (tile * 32 + t).checked_sub(1).map_or(c(0.0), |i| at(&x[0], i));
        let mut s: Vec<Dual> = (0..34).map(start).collect();
        for _ in 0..sizes[1] {
            let old = s.clone();
            for t in 1..33 {
                let flow = old[t - 1] - c(2.0) * old[t] + old[t + 1];
                s[t] = old[t] + c(0.2) * old[t] * flow;
            }
        }
        s[1..33].to_vec()
    };
    let mut all: Vec<Dual> = (0..count.div_ceil(32)).flat_map(tile).collect();
    all.truncate(count);
    all
}

pub(super) fn convolution(x: &[Vec<Dual>], _: &[u32], count: usize) -> Vec<Dual> {
    let of = |i: usize| (0..7).filter(move |k| i + k >= 3).map(move |k| (i + k - 3, k));
    (0..count).map(|i| of(i).map(|(i, k)| at(&x[0], i) * x[1][k]).sum()).collect()
}

/// What a thread makes of the values of its warp.
type Step<'a> = &'a dyn Fn(&[Dual], usize) -> Dual;

/// Changes the values of each warp, where threads without an element have 1, one step after the other.
fn warps(x: &[Dual], steps: &[Step<'_>]) -> Vec<Dual> {
    let padded = x.len().next_multiple_of(32);
    let mut all: Vec<Dual> = (0..padded).map(|i| x.get(i).copied().unwrap_or(c(1.0))).collect();
    for step in steps {
        let warp = |(at, warp): (usize, &[Dual])| {
            // The number of the thread in its block of 64.
            (0..32).map(|lane| step(warp, at % 2 * 32 + lane)).collect::<Vec<_>>()
        };
        all = all.chunks(32).enumerate().flat_map(warp).collect();
    }
    all.truncate(x.len());
    all
}

pub(super) fn broadcast(x: &[Vec<Dual>], _: &[u32], _: usize) -> Vec<Dual> {
    let steps: [Step<'_>; 2] = [&|v, t| v[t % 32] * v[0], &|v, t| v[t % 32] + v[t % 32] * v[21]];
    warps(&x[0], &steps)
}

pub(super) fn up(x: &[Vec<Dual>], _: &[u32], _: usize) -> Vec<Dual> {
    let from = |t: usize, by: usize, width: usize| t % 32 - if t % width >= by { by } else { 0 };
    let steps: [Step<'_>; 2] = [&|v, t| v[t % 32] + v[from(t, 3, 32)] * v[t % 32], &|v, t| {
        v[t % 32] + v[from(t, 5, 8)] * v[t % 32]
    }];
    warps(&x[0], &steps)
}

pub(super) fn down(x: &[Vec<Dual>], _: &[u32], _: usize) -> Vec<Dual> {
    let from =
        |t: usize, by: usize, width: usize| t % 32 + if t % width + by < width { by } else { 0 };
    let steps: [Step<'_>; 2] = [&|v, t| v[t % 32] + v[from(t, 3, 8)] * v[t % 32], &|v, t| {
        v[t % 32] * v[from(t, t % 3, 32)]
    }];
    warps(&x[0], &steps)
}

pub(super) fn index(x: &[Vec<Dual>], _: &[u32], _: usize) -> Vec<Dual> {
    let steps: [Step<'_>; 3] = [
        &|v, t| v[t % 32] * v[t * 7 % 11],
        &|v, t| v[t % 32] * v[t % 32 / 8 * 8 + t * 3 % 8],
        &|v, t| v[t % 32] * v[t % 32 / 4 * 4 + 2],
    ];
    warps(&x[0], &steps)
}

/// The sum over a block of 64 threads, squared.
pub(super) fn block_sum(x: &[Vec<Dual>], sizes: &[u32], count: usize) -> Vec<Dual> {
    tree(x, sizes, count)
}

pub(super) fn leaves(x: &[Vec<Dual>], _: &[u32], count: usize) -> Vec<Dual> {
    let x = &x[0];
    // What a thread has stored at last before the barrier, or 1.
    let stored = |i: usize| x.get(i).map_or(c(1.0), |x| *x * *x);
    let next = |i: usize| i / 64 * 64 + (i + 1) % 64;
    let v = |i: usize| x[i] * stored(next(i));
    (0..count)
        .map(|i| {
            let other = i ^ 1;
            let left = |i: usize| i >= x.len() || (i % 64).is_multiple_of(3);
            match (left(i), left(other)) {
                (true, _) => v(i),
                (false, true) => v(i) * stored(other),
                (false, false) => v(i) * v(other),
            }
        })
        .collect()
}
