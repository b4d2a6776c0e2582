//! The five kernels of BabelStream.

use cuda_safe::kernel::kernel;

/// `c = a`
#[kernel]
pub fn copy(a: &[f64], c: &mut [f64]) {
    assert!(a.len() == c.len());
    each(c, |i, c| *c = a[i]);
}

/// `b = scalar * c`
#[kernel]
pub fn mul(scalar: f64, c: &[f64], b: &mut [f64]) {
    assert!(c.len() == b.len());
    each(b, |i, b| *b = scalar * c[i]);
}

/// `c = a + b`
#[kernel]
pub fn add(a: &[f64], b: &[f64], c: &mut [f64]) {
    assert!(a.len() == c.len() && b.len() == c.len());
    each(c, |i, c| *c = a[i] + b[i]);
}

/// `a = b + scalar * c`
#[kernel(contract)]
pub fn triad(scalar: f64, b: &[f64], c: &[f64], a: &mut [f64]) {
    assert!(b.len() == a.len() && c.len() == a.len());
    each(a, |i, a| *a = b[i] + scalar * c[i]);
}

/// The first pass of a dot product: thread `i` adds up the products `i`, `i + sums.len()`, and so on. Neighbours read
/// neighbouring elements, and the order of the additions does not depend on the device. With 8 blocks on a multiprocessor, an
/// H200 has all of 2^18 threads at once.
#[kernel(contract, min_blocks = 8)]
pub fn dot(a: &[f64], b: &[f64], sums: &mut [f64]) {
    assert!(a.len() == b.len());
    let (n, stride) = (a.len(), sums.len());
    each(sums, |i, sum| {
        let mut s = 0.0;
        for k in (i..n).step_by(stride) {
            s += a[k] * b[k];
        }
        *sum = s;
    });
}

/// The next passes: adds up the sums of the one before.
#[kernel]
pub fn sum(x: &[f64], sums: &mut [f64]) {
    let (n, stride) = (x.len(), sums.len());
    each(sums, |i, sum| {
        let mut s = 0.0;
        for k in (i..n).step_by(stride) {
            s += x[k];
        }
        *sum = s;
    });
}
