//! Triangular systems, and products of a matrix with its transpose.

use cuda_libs::Complex;
use cuda_libs::blas::{Diagonal, Float, Side, Triangle};
use test_harness::{Case, TestDevice, TestResult, cases, ensure};

use super::lab::{Matrix, Number, ORDERS, Wide, blas};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "libs::triangles",
        device(solved_in_f32 = solved::<f32>),
        device(solved_in_f64 = solved::<f64>),
        device(solved_in_c32 = solved::<Complex<f32>>),
        device(solved_in_c64 = solved::<Complex<f64>>),
        device(products_of_f32 = products::<f32>),
        device(products_of_f64 = products::<f64>),
        device(products_of_c32 = products::<Complex<f32>>),
        device(products_of_c64 = products::<Complex<f64>>),
    ]
}

const TRIANGLES: [Triangle; 2] = [Triangle::Lower, Triangle::Upper];

fn within(triangle: Triangle, i: usize, j: usize) -> bool {
    if triangle == Triangle::Lower { j <= i } else { i <= j }
}

/// The product of the triangle with the solution is the right side.
fn solved<T: Number + Float>(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4221);
    let mut at = 0;
    for (oa, ob) in ORDERS.into_iter().flat_map(|a| ORDERS.map(move |b| (a, b))) {
        for (triangle, side, diagonal) in TRIANGLES.into_iter().flat_map(|triangle| {
            [
                (Side::Left, Diagonal::Stored),
                (Side::Right, Diagonal::Unit),
                (Side::Right, Diagonal::Stored),
            ]
            .map(move |(side, diagonal)| (triangle, side, diagonal))
        }) {
            let sizes = [0, 1, 5, 31, 32, 33];
            let n = sizes[at % sizes.len()];
            at += 1;
            let shape = if side == Side::Left { (n, 7) } else { (7, n) };
            let mut a = Matrix::<T>::new(&stream, &mut rng, (n, n), oa, 1)?;
            // A dominant diagonal, so that the solution is of the size of the right side.
            for i in 0..n {
                for j in 0..n {
                    let index = a.at(0, i, j);
                    let scaled = a.host[index].wide() / (n as f64);
                    a.host[index] = T::of(if i == j { scaled + 2.0 } else { scaled });
                }
            }
            a.device.upload(&stream, &a.host)?;
            let mut b = Matrix::<T>::new(&stream, &mut rng, shape, ob, 1)?;
            let alpha = T::of(Wide::new(0.5, 0.25));
            // Transposed every other time: the other triangle of what is stored.
            let transposed = at % 2 == 0;
            let view = if transposed { a.mat()?.transposed() } else { a.mat()? };
            blas.trsm(&stream, (side, triangle, diagonal), alpha, view, b.mat_mut()?)?;
            let x = b.device.to_vec(&stream)?;
            let solution = |i: usize, j: usize| x[b.at(0, i, j)].wide();
            let entry = |i: usize, j: usize| match (i == j, diagonal) {
                (true, Diagonal::Unit) => Wide::new(1.0, 0.0),
                _ if !within(triangle, i, j) => Wide::default(),
                _ if transposed => a.get(0, j, i),
                _ => a.get(0, i, j),
            };
            for (i, j) in (0..shape.0).flat_map(|i| (0..shape.1).map(move |j| (i, j))) {
                let product: Wide = match side {
                    Side::Left => (0..n).map(|l| entry(i, l) * solution(l, j)).sum(),
                    Side::Right => (0..n).map(|l| solution(i, l) * entry(l, j)).sum(),
                };
                let off = (product - alpha.wide() * b.get(0, i, j)).norm();
                ensure!(
                    off <= 64.0 * T::EPSILON * (n as f64),
                    "{side:?} {triangle:?} {i} {j}: {off}"
                );
            }
        }
    }
    Ok(())
}

fn products<T: Number + Float>(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4222);
    let shapes = [(0, 3), (1, 1), (5, 0), (31, 3), (32, 33), (33, 32)];
    for (at, (oa, oc, triangle)) in ORDERS
        .into_iter()
        .flat_map(|a| {
            ORDERS.into_iter().flat_map(move |c| TRIANGLES.map(move |triangle| (a, c, triangle)))
        })
        .enumerate()
    {
        let (n, k) = shapes[at % shapes.len()];
        let a = Matrix::<T>::new(&stream, &mut rng, (n, k), oa, 1)?;
        let mut c = Matrix::<T>::new(&stream, &mut rng, (n, n), oc, 1)?;
        let (alpha, beta) = (T::of(Wide::new(0.5, 0.25)), T::of(Wide::new(-1.0, 0.5)));
        blas.syrk(&stream, triangle, alpha, a.mat()?, beta, c.mat_mut()?)?;
        c.check(&stream, 16.0 * T::EPSILON * (k as f64 + 2.0), (n, n, 1), |_, i, j| {
            let sum: Wide = (0..k).map(|l| a.get(0, i, l) * a.get(0, j, l)).sum();
            within(triangle, i, j).then(|| alpha.wide() * sum + beta.wide() * c.get(0, i, j))
        })?;
    }
    Ok(())
}
