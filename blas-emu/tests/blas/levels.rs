//! Vectors, and products of symmetric and triangular matrices.

use std::ptr;

use blas_emu::cublas::*;
use cuda_sys::cublas::*;

use crate::lab::*;

const SIZES: [usize; 7] = [0, 1, 2, 31, 32, 33, 257];
const FILLS: [cublasFillMode_t; 2] =
    [cublasFillMode_t::CUBLAS_FILL_MODE_LOWER, cublasFillMode_t::CUBLAS_FILL_MODE_UPPER];
const SIDES: [cublasSideMode_t; 2] =
    [cublasSideMode_t::CUBLAS_SIDE_LEFT, cublasSideMode_t::CUBLAS_SIDE_RIGHT];
const DIAGONALS: [cublasDiagType_t; 2] =
    [cublasDiagType_t::CUBLAS_DIAG_NON_UNIT, cublasDiagType_t::CUBLAS_DIAG_UNIT];

/// Returns the place of element `i` of a vector of `n` with this increment.
fn place(i: usize, n: usize, inc: i32) -> usize {
    let step = inc.unsigned_abs() as usize;
    if inc < 0 { (n - 1 - i) * step } else { i * step }
}

#[test]
fn functions_of_vectors() {
    let blas = Blas::new();
    for n in SIZES {
        for (incx, incy) in [(1, 1), (2, -3), (-1, 2)] {
            let mut random = Random(77 + n as u64);
            let (x, y): (Vec<float2>, Vec<float2>) =
                (random.many(2 * n + 1), random.many(3 * n + 1));
            let (dx, dy) = (Memory::new(&x), Memory::new(&y));
            let alpha = float2 { x: 0.5, y: -2.0 };
            ok!(cublasCaxpy_v2(blas.raw, int(n), &raw const alpha, dx.at(), incx, dy.at(), incy));
            let got = dy.get();
            for i in 0..n {
                let expected =
                    plus(y[place(i, n, incy)].z(), times(alpha.z(), x[place(i, n, incx)].z()));
                near(got[place(i, n, incy)], expected, 2, 6e-8, || {
                    format!("axpy {n} {incx} {incy} at {i}")
                });
            }
            let mut expected = [(0.0, 0.0); 2];
            for i in 0..n {
                let (a, b) = (x[place(i, n, incx)].z(), got[place(i, n, incy)].z());
                expected =
                    [plus(expected[0], times(a, b)), plus(expected[1], times(conj(a, true), b))];
            }
            let mut dots = [float2 { x: 9.0, y: 9.0 }; 2];
            ok!(cublasCdotu_v2(blas.raw, int(n), dx.at(), incx, dy.at(), incy, &raw mut dots[0]));
            ok!(cublasCdotc_v2(blas.raw, int(n), dx.at(), incx, dy.at(), incy, &raw mut dots[1]));
            for (dot, expected) in dots.into_iter().zip(expected) {
                near(dot, expected, 8 * n, 6e-8, || format!("dot {n}"));
            }
            ok!(cublasCswap_v2(blas.raw, int(n), dx.at(), incx, dy.at(), incy));
            let swapped = dx.get();
            assert!((0..n).all(|i| swapped[place(i, n, incx)].x == got[place(i, n, incy)].x));
        }
    }
}

#[test]
fn numbers_of_vectors_go_where_the_pointer_mode_says() {
    let blas = Blas::new();
    for n in SIZES {
        let x: Vec<f64> = Random(3 + n as u64).many(2 * n + 1);
        let dx = Memory::new(&x);
        let own: Vec<f64> = (0..n).map(|i| x[2 * i]).collect();
        let places = Memory::new(&[7.0f64; 2]);
        let indices = Memory::new(&[7i32; 2]);
        let (mut host, mut index) = ([7.0f64; 2], [7i32; 2]);
        for on_device in [false, true] {
            blas.on_device(on_device);
            let (to, at) = if on_device {
                (places.at(), indices.at())
            } else {
                (host.as_mut_ptr(), index.as_mut_ptr())
            };
            ok!(cublasDnrm2_v2(blas.raw, int(n), dx.at(), 2, to));
            ok!(cublasDasum_v2(blas.raw, int(n), dx.at(), 2, to.wrapping_add(1)));
            ok!(cublasIdamax_v2(blas.raw, int(n), dx.at(), 2, at));
            ok!(cublasIdamin_v2(blas.raw, int(n), dx.at(), 2, at.wrapping_add(1)));
        }
        let norm = own.iter().map(|x| x * x).sum::<f64>().sqrt();
        let sum = own.iter().map(|x| x.abs()).sum::<f64>();
        let best = |sign: f64| {
            let key = |i: &usize| (sign * own[*i].abs(), usize::MAX - i);
            let best = (0..n).max_by(|a, b| key(a).partial_cmp(&key(b)).unwrap());
            best.map_or(0, |i| i as i32 + 1)
        };
        for (numbers, found) in [(host.to_vec(), index.to_vec()), (places.get(), indices.get())] {
            near(numbers[0], (norm, 0.0), 2 * n, 1.2e-16, || format!("norm of {n}"));
            near(numbers[1], (sum, 0.0), 2 * n, 1.2e-16, || format!("sum of {n}"));
            assert_eq!(found, [best(1.0), best(-1.0)], "{n}");
        }
    }
    blas.on_device(false);
    let huge = Memory::new(&[3e300f64, 4e300]);
    let mut norm = 0.0;
    ok!(cublasDnrm2_v2(blas.raw, 2, huge.at(), 1, &raw mut norm));
    assert!((norm / 5e300 - 1.0).abs() < 1e-15);
    let status = cublasStatus_t::CUBLAS_STATUS_EXECUTION_FAILED;
    let graph = blas.capture(|| {
        fails!(status, "captured", cublasDnrm2_v2(blas.raw, 2, huge.at(), 1, &raw mut norm));
        blas.on_device(true);
        ok!(cublasDnrm2_v2(blas.raw, 2, huge.at(), 1, huge.at()));
    });
    graph.launch(blas.stream);
    assert!((huge.get()[0] / 5e300 - 1.0).abs() < 1e-15);
}

/// Returns op(A) of a square matrix that is symmetric, Hermitian or triangular, from what is stored of it.
fn full(a: &[double2], n: usize, fill: usize, kind: &str, unit: bool) -> Vec<Z> {
    let mut all = vec![(0.0, 0.0); n * n];
    for j in 0..n {
        for i in 0..n {
            let stored = if fill == 0 { i >= j } else { i <= j };
            let own = a[if stored { i + j * n } else { j + i * n }].z();
            all[i + j * n] = match kind {
                "triangular" if !stored => (0.0, 0.0),
                "triangular" if unit && i == j => (1.0, 0.0),
                "hermitian" if i == j => (own.0, 0.0),
                "hermitian" => conj(own, !stored),
                _ => own,
            };
        }
    }
    all
}

fn product(a: &[Z], b: &[Z], [m, n, k]: [usize; 3]) -> Vec<Z> {
    let of = |at: usize| {
        (0..k).fold((0.0, 0.0), |sum, p| plus(sum, times(a[at % m + p * m], b[p + at / m * k])))
    };
    (0..m * n).map(of).collect()
}

fn transposed(a: &[Z], [rows, cols]: [usize; 2], conjugated: bool) -> Vec<Z> {
    (0..rows * cols).map(|at| conj(a[at / cols + at % cols * rows], conjugated)).collect()
}

#[track_caller]
fn same(got: &[double2], expected: &[Z], steps: usize, scale: f64, what: &str) {
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        near(*got, *expected, steps, scale * 1.2e-16, || format!("{what} at {at}"));
    }
}

fn zs(a: &[double2]) -> Vec<Z> {
    a.iter().map(|a| a.z()).collect()
}

#[test]
fn products_with_symmetric_and_hermitian_matrices() {
    let blas = Blas::new();
    let (alpha, beta) = (double2 { x: 0.5, y: 1.0 }, double2 { x: -1.0, y: 0.25 });
    for (m, n) in [(0, 3), (1, 1), (33, 5), (6, 31)] {
        for (side, fill) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let order = if side == 0 { m } else { n };
            let mut random = Random(5 + (m + n) as u64);
            let a: Vec<double2> = random.many(order * order);
            let (b, c): (Vec<double2>, Vec<double2>) = (random.many(m * n), random.many(m * n));
            let (da, db) = (Memory::new(&a), Memory::new(&b));
            for (kind, function) in [
                (
                    "symmetric",
                    cublasZsymm_v2
                        as unsafe extern "C" fn(_, _, _, _, _, _, _, _, _, _, _, _, _) -> _,
                ),
                ("hermitian", cublasZhemm_v2),
            ] {
                let dc = Memory::new(&c);
                let (la, lb) = (int(order.max(1)), int(m.max(1)));
                ok!(function(
                    blas.raw,
                    SIDES[side],
                    FILLS[fill],
                    int(m),
                    int(n),
                    &raw const alpha,
                    da.at().cast_const(),
                    la,
                    db.at().cast_const(),
                    lb,
                    &raw const beta,
                    dc.at(),
                    lb
                ));
                let full = full(&a, order, fill, kind, false);
                let ab = if side == 0 {
                    product(&full, &zs(&b), [m, n, m])
                } else {
                    product(&zs(&b), &full, [m, n, n])
                };
                let expected: Vec<Z> = ab
                    .iter()
                    .zip(&c)
                    .map(|(ab, c)| plus(times(alpha.z(), *ab), times(beta.z(), c.z())))
                    .collect();
                same(&dc.get(), &expected, 4 * order, 1.0, kind);
            }
        }
    }
}

#[test]
fn triangular_systems_are_solved_and_multiplied() {
    let blas = Blas::new();
    let alpha = double2 { x: 0.5, y: 1.0 };
    for (m, n) in [(0, 2), (1, 1), (5, 33), (32, 3)] {
        for number in 0..24 {
            let (side, fill, diag, op) =
                (number % 2, number / 2 % 2, number / 4 % 2, OPS[number / 8]);
            let order = if side == 0 { m } else { n };
            let mut random = Random(11 + (m + n) as u64);
            let mut a: Vec<double2> = random.many(order * order);
            for (at, a) in a.iter_mut().enumerate() {
                // Solutions stay of about 1.
                let diagonal = at % order == at / order;
                let (scale, more) = if diagonal { (1.0, 2.0) } else { (0.5 / order as f64, 0.0) };
                *a = double2 { x: a.x * scale + more, y: a.y * scale };
            }
            let b: Vec<double2> = random.many(m * n);
            let (da, db, dx) = (Memory::new(&a), Memory::new(&b), Memory::new(&b));
            let (la, lb) = (int(order.max(1)), int(m.max(1)));
            ok!(cublasZtrmm_v2(
                blas.raw,
                SIDES[side],
                FILLS[fill],
                op,
                DIAGONALS[diag],
                int(m),
                int(n),
                &raw const alpha,
                da.at(),
                la,
                db.at(),
                lb,
                dx.at(),
                lb
            ));
            let full = full(&a, order, fill, "triangular", diag == 1);
            let full =
                if op == OPS[0] { full } else { transposed(&full, [order; 2], op == OPS[2]) };
            let of = |b: &[Z]| {
                let ab = if side == 0 {
                    product(&full, b, [m, n, m])
                } else {
                    product(b, &full, [m, n, n])
                };
                ab.into_iter().map(|ab| times(alpha.z(), ab)).collect::<Vec<Z>>()
            };
            same(&dx.get(), &of(&zs(&b)), 4 * order, 2.0, "trmm");
            // In place, and back.
            ok!(cublasZtrmm_v2(
                blas.raw,
                SIDES[side],
                FILLS[fill],
                op,
                DIAGONALS[diag],
                int(m),
                int(n),
                &raw const alpha,
                da.at(),
                la,
                db.at(),
                lb,
                db.at(),
                lb
            ));
            same(&db.get(), &of(&zs(&b)), 4 * order, 2.0, "trmm in place");
            let one = double2 { x: 0.4, y: -0.8 };
            ok!(cublasZtrsm_v2(
                blas.raw,
                SIDES[side],
                FILLS[fill],
                op,
                DIAGONALS[diag],
                int(m),
                int(n),
                &raw const one,
                da.at(),
                la,
                dx.at(),
                lb
            ));
            // 1 / alpha is the other factor.
            same(&dx.get(), &zs(&b), 16 * (order + 4), 4.0, "trsm");
        }
    }
}

#[test]
fn updates_write_one_triangle() {
    let blas = Blas::new();
    let (alpha, beta) = (0.5f64, -1.5f64);
    for (n, k) in [(1, 1), (33, 4), (17, 0), (5, 40)] {
        for (fill, op) in [(0, 0), (1, 0), (0, 2), (1, 2)] {
            let mut random = Random(21 + (n + k) as u64);
            let (a, b): (Vec<double2>, Vec<double2>) = (random.many(n * k), random.many(n * k));
            let c: Vec<double2> = random.many(n * n);
            let (da, db, dc) = (Memory::new(&a), Memory::new(&b), Memory::new(&c));
            let lda = int(if op == 0 { n } else { k.max(1) });
            let of = |a: &[double2]| if op == 0 { zs(a) } else { transposed(&zs(a), [k, n], true) };
            let (left, right) = (of(&a), of(&b));
            let check = |got: Vec<double2>, sum: &[Z], what: &str| {
                for at in 0..n * n {
                    let (i, j) = (at % n, at / n);
                    if if fill == 0 { i < j } else { i > j } {
                        assert_eq!(
                            (got[at].x, got[at].y),
                            (c[at].x, c[at].y),
                            "{what}: the other triangle"
                        );
                        continue;
                    }
                    let old = if i == j { (c[at].x, 0.0) } else { c[at].z() };
                    let expected = plus(sum[at], times((beta, 0.0), old));
                    near(got[at], expected, 8 * k, 1.2e-16, || {
                        format!("{what} {n} {k} at {i}, {j}")
                    });
                    assert!(i != j || got[at].y == 0.0);
                }
            };
            ok!(cublasZherk_v2(
                blas.raw,
                FILLS[fill],
                OPS[op],
                int(n),
                int(k),
                &raw const alpha,
                da.at(),
                lda,
                &raw const beta,
                dc.at(),
                int(n)
            ));
            let aa = product(&left, &transposed(&left, [n, k], true), [n, n, k]);
            check(
                dc.get(),
                &aa.iter().map(|z| times((alpha, 0.0), *z)).collect::<Vec<_>>(),
                "herk",
            );
            let dc = Memory::new(&c);
            let factor = double2 { x: 0.5, y: -1.0 };
            ok!(cublasZher2k_v2(
                blas.raw,
                FILLS[fill],
                OPS[op],
                int(n),
                int(k),
                &raw const factor,
                da.at(),
                lda,
                db.at(),
                lda,
                &raw const beta,
                dc.at(),
                int(n)
            ));
            let ab = product(&left, &transposed(&right, [n, k], true), [n, n, k]);
            let ba = product(&right, &transposed(&left, [n, k], true), [n, n, k]);
            let sum: Vec<Z> = ab
                .iter()
                .zip(&ba)
                .map(|(ab, ba)| plus(times(factor.z(), *ab), times(conj(factor.z(), true), *ba)))
                .collect();
            check(dc.get(), &sum, "her2k");
        }
    }
}

#[test]
fn matrices_and_vectors() {
    let blas = Blas::new();
    let (alpha, beta) = (float2 { x: 0.5, y: 1.0 }, float2 { x: 0.0, y: 0.0 });
    for (m, n) in [(0, 4), (1, 1), (33, 7), (5, 257)] {
        for op in OPS {
            let (rows, cols) = if op == OPS[0] { (m, n) } else { (n, m) };
            let mut random = Random(31 + (m + n) as u64);
            let (a, x): (Vec<float2>, Vec<float2>) =
                (random.many(m * n), random.many(2 * cols + 1));
            let y = vec![float2 { x: f32::NAN, y: 0.0 }; rows];
            let (da, dx, dy) = (Memory::new(&a), Memory::new(&x), Memory::new(&y));
            ok!(cublasCgemv_v2(
                blas.raw,
                op,
                int(m),
                int(n),
                &raw const alpha,
                da.at(),
                int(m.max(1)),
                dx.at(),
                -2,
                &raw const beta,
                dy.at(),
                1
            ));
            for (i, got) in dy.get().into_iter().enumerate().take(if m * n == 0 { 0 } else { rows })
            {
                let of = |sum, j| plus(sum, times(at(&a, m, op, i, j), x[place(j, cols, -2)].z()));
                near(got, times(alpha.z(), (0..cols).fold((0.0, 0.0), of)), 8 * cols, 6e-8, || {
                    format!("gemv {m} {n} at {i}")
                });
            }
            // A rank-one update, and the sum and the product with a diagonal matrix.
            let u: Vec<float2> = random.many(m);
            let v: Vec<float2> = random.many(n);
            let (du, dv) = (Memory::new(&u), Memory::new(&v));
            ok!(cublasCgerc_v2(
                blas.raw,
                int(m),
                int(n),
                &raw const alpha,
                du.at(),
                1,
                dv.at(),
                1,
                da.at(),
                int(m.max(1))
            ));
            let sum = Memory::new(&vec![float2 { x: 0.0, y: 0.0 }; m * n]);
            let scaled = Memory::new(&vec![float2 { x: 0.0, y: 0.0 }; m * n]);
            let lm = int(m.max(1));
            ok!(cublasCgeam(
                blas.raw,
                OPS[0],
                OPS[0],
                int(m),
                int(n),
                &raw const alpha,
                da.at(),
                lm,
                &raw const alpha,
                da.at(),
                lm,
                sum.at(),
                lm
            ));
            ok!(cublasCdgmm(
                blas.raw,
                SIDES[1],
                int(m),
                int(n),
                da.at(),
                lm,
                dv.at(),
                1,
                scaled.at(),
                lm
            ));
            let (da, sum, scaled) = (da.get(), sum.get(), scaled.get());
            for at in 0..m * n {
                let (i, j) = (at % m, at / m);
                let expected =
                    plus(a[at].z(), times(alpha.z(), times(u[i].z(), conj(v[j].z(), true))));
                near(da[at], expected, 8, 6e-8, || format!("ger at {at}"));
                near(sum[at], times((2.0, 0.0), times(alpha.z(), da[at].z())), 8, 6e-8, || {
                    format!("geam at {at}")
                });
                near(scaled[at], times(da[at].z(), v[j].z()), 8, 6e-8, || format!("dgmm at {at}"));
            }
        }
    }
}

#[test]
fn vectors_and_matrices_are_copied() {
    enter();
    let from: Vec<f32> = Random(1).many(40);
    let there = Memory::new(&[0.0f32; 40]);
    ok!(cublasSetMatrix(3, 5, 4, from.as_ptr().cast(), 8, there.void(), 4));
    let got = there.get();
    assert!((0..20).all(|at| got[at] == if at % 4 < 3 { from[at % 4 + at / 4 * 8] } else { 0.0 }));
    let mut back = [0.0f32; 9];
    ok!(cublasGetVector(5, 4, there.void(), 4, back.as_mut_ptr().cast(), 2));
    assert!((0..5).all(|at| back[2 * at] == from[8 * at]));
    let invalid = cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE;
    fails!(
        invalid,
        "distances",
        cublasSetMatrix(3, 5, 4, from.as_ptr().cast(), 2, there.void(), 4)
    );
    fails!(invalid, "null", cublasSetVector(3, 4, ptr::null(), 1, there.void(), 1));
}

#[test]
fn a_factor_of_zero_leaves_y_alone() {
    let (blas, zero) = (Blas::new(), 0.0f32);
    let (x, y) = (Memory::new(&[f32::NAN; 3]), Memory::new(&[1.0f32, f32::NAN, 3.0]));
    ok!(cublasSaxpy_v2(blas.raw, 3, &raw const zero, x.at(), 1, y.at(), 1));
    let got = y.get();
    assert!(got[0] == 1.0 && got[1].is_nan() && got[2] == 3.0, "{got:?}");
}

#[test]
fn an_increment_of_zero_scales_by_the_first_element() {
    let blas = Blas::new();
    let (a, x) =
        (Memory::new(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]), Memory::new(&[2.0f32, f32::NAN]));
    for side in SIDES {
        let c = Memory::new(&[0.0f32; 6]);
        ok!(cublasSdgmm(blas.raw, side, 2, 3, a.at(), 2, x.at(), 0, c.at(), 2));
        assert_eq!(c.get(), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    }
}
