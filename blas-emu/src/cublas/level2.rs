//! Matrices and vectors. A vector is a matrix of one column, so most are products.

use core::ffi::c_int;

use cuda_sys::cublas::{
    CublasFns, cuComplex, cuDoubleComplex, cublasDiagType_t, cublasFillMode_t, cublasHandle_t,
    cublasOperation_t, cublasStatus_t,
};

use super::args::{
    Batch, Number, applied, diagonal, given, increment, leading, matrix, operation, sizes, upper,
    vector,
};
use super::each_type;
use super::handle::{Call, find};
use crate::call::{Result, functions};
use crate::kernels::{Operand, Product, Scalar, Triangle, fill, shape};

/// Which of two kinds of a function is meant, which are one for real types.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Symmetric,
    Hermitian,
}

/// `y = alpha op(A) x + beta y`
///
/// # Safety
/// Factors are null or lie where the pointer mode says; the rest lives until the work is done.
#[allow(clippy::too_many_arguments, reason = "those of the functions")]
unsafe fn gemv<T: Number>(
    handle: cublasHandle_t,
    trans: cublasOperation_t,
    [m, n]: [i64; 2],
    factors: [*const T; 2],
    (a, lda): (*const T, i64),
    (x, incx): (*const T, i64),
    (y, incy): (*const T, i64),
    batches: [Batch; 3],
    count: i64,
) -> Result {
    let handle = find(handle)?;
    let call = handle.enter()?;
    sizes(&[("m", m), ("n", n), ("batchCount", count)])?;
    let op = operation("trans", trans)?;
    leading("lda", lda, m)?;
    increment("incx", incx)?;
    increment("incy", incy)?;
    let (rows, cols) = if op.0 { (n, m) } else { (m, n) };
    // SAFETY: the caller's promise.
    let (alpha, beta) =
        unsafe { (call.factor("alpha", factors[0])?, call.factor("beta", factors[1])?) };
    // BLAS leaves y unchanged if m or n is 0.
    if m == 0 || n == 0 || count == 0 {
        return Ok(());
    }
    let a = applied(matrix(a, T::TYPE, lda, batches[0]), op);
    let (x, y) =
        (vector(x, T::TYPE, cols, incx, batches[1]), vector(y, T::TYPE, rows, incy, batches[2]));
    given("A", &a, !alpha.is(0.0))?;
    given("x", &x, !alpha.is(0.0))?;
    given("y", &y, true)?;
    let product = Product {
        a,
        b: x,
        c: y,
        d: y,
        alpha,
        beta,
        m: rows,
        n: 1,
        k: cols,
        batches: count,
        ..Product::default()
    };
    call.queue.product(T::COMPUTE, &product)
}

macro_rules! gemv {
    ($list:ident: $($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, trans: cublasOperation_t, m: $int, n: $int, alpha: *const $ty, A: *const $ty, lda: $int,
            x: *const $ty, incx: $int, beta: *const $ty, y: *mut $ty, incy: $int,
        ) {
            let (a, x, y) = ((A, lda.into()), (x, incx.into()), (y.cast_const(), incy.into()));
            gemv(handle, trans, [m.into(), n.into()], [alpha, beta], a, x, y, [Batch::One; 3], 1)
        } )* }
    };
}
each_type! { gemv GEMV: cublasSgemv_v2 cublasSgemv_v2_64 cublasDgemv_v2 cublasDgemv_v2_64 cublasCgemv_v2 cublasCgemv_v2_64 cublasZgemv_v2
cublasZgemv_v2_64 }

macro_rules! gemv_strided {
    ($list:ident: $($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, trans: cublasOperation_t, m: $int, n: $int, alpha: *const $ty, A: *const $ty, lda: $int,
            strideA: i64, x: *const $ty, incx: $int, stridex: i64, beta: *const $ty, y: *mut $ty, incy: $int, stridey: i64,
            batchCount: $int,
        ) {
            let (a, x, y) = ((A, lda.into()), (x, incx.into()), (y.cast_const(), incy.into()));
            let batches = [strideA, stridex, stridey].map(Batch::Strided);
            gemv(handle, trans, [m.into(), n.into()], [alpha, beta], a, x, y, batches, batchCount.into())
        } )* }
    };
}
each_type! { gemv_strided GEMV_STRIDED: cublasSgemvStridedBatched cublasSgemvStridedBatched_64 cublasDgemvStridedBatched
cublasDgemvStridedBatched_64 cublasCgemvStridedBatched cublasCgemvStridedBatched_64 cublasZgemvStridedBatched
cublasZgemvStridedBatched_64 }

macro_rules! gemv_listed {
    ($list:ident: $($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, trans: cublasOperation_t, m: $int, n: $int, alpha: *const $ty, Aarray: *const *const $ty,
            lda: $int, xarray: *const *const $ty, incx: $int, beta: *const $ty, yarray: *const *mut $ty, incy: $int,
            batchCount: $int,
        ) {
            let (a, x, y) = ((Aarray.cast(), lda.into()), (xarray.cast(), incx.into()), (yarray.cast(), incy.into()));
            gemv(handle, trans, [m.into(), n.into()], [alpha, beta], a, x, y, [Batch::Listed; 3], batchCount.into())
        } )* }
    };
}
each_type! { gemv_listed GEMV_LISTED: cublasSgemvBatched cublasSgemvBatched_64 cublasDgemvBatched cublasDgemvBatched_64
cublasCgemvBatched cublasCgemvBatched_64 cublasZgemvBatched cublasZgemvBatched_64 }

/// `A = alpha x y' + A`, of all of A or of a triangle, where `y'` is conjugated for a Hermitian matrix.
fn rank_one<T: Number>(
    call: &Call<'_>,
    [m, n]: [i64; 2],
    alpha: Scalar,
    [x, y]: [Operand; 2],
    a: Operand,
    conjugated: bool,
    written: i32,
) -> Result {
    for (name, operand) in [("x", &x), ("y", &y), ("A", &a)] {
        given(name, operand, true)?;
    }
    let b = Operand { conj: c_int::from(conjugated), ..y.transposed() };
    let beta = Scalar::value(1.0);
    let real_diagonal = c_int::from(conjugated && written != fill::ALL);
    let product = Product {
        a: x,
        b,
        c: a,
        d: a,
        alpha,
        beta,
        m,
        n,
        k: 1,
        batches: 1,
        fill: written,
        real_diagonal,
        ..Product::default()
    };
    call.queue.product(T::COMPUTE, &product)
}

macro_rules! ger {
    ($list:ident: $($name:ident $wide:ident $ty:ty, $conj:literal;)*) => {
        ger! { @ $list: $($name $ty, $conj, c_int; $wide $ty, $conj, i64;)* }
    };
    (@ $list:ident: $($name:ident $ty:ty, $conj:literal, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, m: $int, n: $int, alpha: *const $ty, x: *const $ty, incx: $int, y: *const $ty, incy: $int,
            A: *mut $ty, lda: $int,
        ) {
            let handle = find(handle)?;
            let call = handle.enter()?;
            let (m, n, incx, incy) = (m.into(), n.into(), incx.into(), incy.into());
            sizes(&[("m", m), ("n", n)])?;
            increment("incx", incx)?;
            increment("incy", incy)?;
            leading("lda", lda.into(), m)?;
            let alpha = call.factor("alpha", alpha)?;
            if m == 0 || n == 0 || alpha.is(0.0) {
                return Ok(());
            }
            let ty = <$ty>::TYPE;
            let vectors = [vector(x, ty, m, incx, Batch::One), vector(y, ty, n, incy, Batch::One)];
            rank_one::<$ty>(&call, [m, n], alpha, vectors, matrix(A, ty, lda.into(), Batch::One), $conj, fill::ALL)
        } )* }
    };
}
ger! { GER:
    cublasSger_v2 cublasSger_v2_64 f32, false; cublasDger_v2 cublasDger_v2_64 f64, false;
    cublasCgeru_v2 cublasCgeru_v2_64 cuComplex, false; cublasCgerc_v2 cublasCgerc_v2_64 cuComplex, true;
    cublasZgeru_v2 cublasZgeru_v2_64 cuDoubleComplex, false; cublasZgerc_v2 cublasZgerc_v2_64 cuDoubleComplex, true;
}

/// `y = alpha A x + beta y` of a symmetric or Hermitian matrix.
///
/// # Safety
/// As [`gemv`].
unsafe fn symv<T: Number>(
    handle: cublasHandle_t,
    uplo: cublasFillMode_t,
    n: i64,
    factors: [*const T; 2],
    (a, lda): (*const T, i64),
    [x, y]: [(*const T, i64); 2],
    kind: Kind,
) -> Result {
    let handle = find(handle)?;
    let call = handle.enter()?;
    sizes(&[("n", n)])?;
    let upper = i16::from(upper(uplo)?);
    leading("lda", lda, n)?;
    increment("incx", x.1)?;
    increment("incy", y.1)?;
    // SAFETY: the caller's promise.
    let (alpha, beta) =
        unsafe { (call.factor("alpha", factors[0])?, call.factor("beta", factors[1])?) };
    if n == 0 {
        return Ok(());
    }
    let shape = if kind == Kind::Hermitian { shape::HERMITIAN } else { shape::SYMMETRIC };
    let a = Operand { shape, upper, ..matrix(a, T::TYPE, lda, Batch::One) };
    let [x, y] = [x, y].map(|(at, inc)| vector(at, T::TYPE, n, inc, Batch::One));
    given("A", &a, !alpha.is(0.0))?;
    given("x", &x, !alpha.is(0.0))?;
    given("y", &y, true)?;
    let product = Product {
        a,
        b: x,
        c: y,
        d: y,
        alpha,
        beta,
        m: n,
        n: 1,
        k: n,
        batches: 1,
        ..Product::default()
    };
    call.queue.product(T::COMPUTE, &product)
}

macro_rules! symvs {
    ($kind:ident $list:ident: $($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, uplo: cublasFillMode_t, n: $int, alpha: *const $ty, A: *const $ty, lda: $int, x: *const $ty,
            incx: $int, beta: *const $ty, y: *mut $ty, incy: $int,
        ) {
            let vectors = [(x, incx.into()), (y.cast_const(), incy.into())];
            symv(handle, uplo, n.into(), [alpha, beta], (A, lda.into()), vectors, Kind::$kind)
        } )* }
    };
    ($list:ident: $($rest:tt)*) => { symvs! { Symmetric $list: $($rest)* } };
}
each_type! { symvs SYMV: cublasSsymv_v2 cublasSsymv_v2_64 cublasDsymv_v2 cublasDsymv_v2_64 cublasCsymv_v2 cublasCsymv_v2_64 cublasZsymv_v2
cublasZsymv_v2_64 }
symvs! { Hermitian HEMV: cublasChemv_v2 cuComplex, c_int; cublasChemv_v2_64 cuComplex, i64;
cublasZhemv_v2 cuDoubleComplex, c_int; cublasZhemv_v2_64 cuDoubleComplex, i64; }

/// `A = alpha x x' + A`, or with a second vector `A = alpha x y' + alpha' y x' + A`, of a triangle.
#[allow(clippy::too_many_arguments, reason = "those of the functions")]
fn symmetric_rank<T: Number>(
    handle: cublasHandle_t,
    uplo: cublasFillMode_t,
    n: i64,
    alpha: impl FnOnce(&Call<'_>) -> Result<Scalar>,
    x: (*const T, i64),
    y: Option<(*const T, i64)>,
    (a, lda): (*const T, i64),
    kind: Kind,
) -> Result {
    let handle = find(handle)?;
    let call = handle.enter()?;
    sizes(&[("n", n)])?;
    let written = if upper(uplo)? { fill::UPPER } else { fill::LOWER };
    increment("incx", x.1)?;
    increment("incy", y.map_or(1, |y| y.1))?;
    leading("lda", lda, n)?;
    let alpha = alpha(&call)?;
    if n == 0 || alpha.is(0.0) {
        return Ok(());
    }
    let of = |(at, inc): (*const T, i64)| vector(at, T::TYPE, n, inc, Batch::One);
    let (a, conjugated) = (matrix(a, T::TYPE, lda, Batch::One), kind == Kind::Hermitian);
    let (x, y) = (of(x), y.map(of));
    rank_one::<T>(&call, [n, n], alpha, [x, y.unwrap_or(x)], a, conjugated, written)?;
    let Some(y) = y else { return Ok(()) };
    let alpha = Scalar { conj: c_int::from(conjugated), ..alpha };
    rank_one::<T>(&call, [n, n], alpha, [y, x], a, conjugated, written)
}

macro_rules! syr {
    ($kind:ident $list:ident: $($name:ident $ty:ty, $factor:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, uplo: cublasFillMode_t, n: $int, alpha: *const $factor, x: *const $ty, incx: $int,
            A: *mut $ty, lda: $int,
        ) {
            let alpha = |call: &Call<'_>| call.factor("alpha", alpha);
            let a = (A.cast_const(), lda.into());
            symmetric_rank(handle, uplo, n.into(), alpha, (x, incx.into()), None, a, Kind::$kind)
        } )* }
    };
    ($list:ident: $($name:ident $ty:ty, $int:ty;)*) => { syr! { Symmetric $list: $($name $ty, $ty, $int;)* } };
}
each_type! { syr SYR: cublasSsyr_v2 cublasSsyr_v2_64 cublasDsyr_v2 cublasDsyr_v2_64 cublasCsyr_v2 cublasCsyr_v2_64 cublasZsyr_v2
cublasZsyr_v2_64 }
syr! { Hermitian HER: cublasCher_v2 cuComplex, f32, c_int; cublasCher_v2_64 cuComplex, f32, i64;
cublasZher_v2 cuDoubleComplex, f64, c_int; cublasZher_v2_64 cuDoubleComplex, f64, i64; }

macro_rules! syr2 {
    ($kind:ident $list:ident: $($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, uplo: cublasFillMode_t, n: $int, alpha: *const $ty, x: *const $ty, incx: $int,
            y: *const $ty, incy: $int, A: *mut $ty, lda: $int,
        ) {
            let alpha = |call: &Call<'_>| call.factor("alpha", alpha);
            let (y, a) = (Some((y, incy.into())), (A.cast_const(), lda.into()));
            symmetric_rank(handle, uplo, n.into(), alpha, (x, incx.into()), y, a, Kind::$kind)
        } )* }
    };
    ($list:ident: $($rest:tt)*) => { syr2! { Symmetric $list: $($rest)* } };
}
each_type! { syr2 SYR2: cublasSsyr2_v2 cublasSsyr2_v2_64 cublasDsyr2_v2 cublasDsyr2_v2_64 cublasCsyr2_v2 cublasCsyr2_v2_64 cublasZsyr2_v2
cublasZsyr2_v2_64 }
syr2! { Hermitian HER2: cublasCher2_v2 cuComplex, c_int; cublasCher2_v2_64 cuComplex, i64;
cublasZher2_v2 cuDoubleComplex, c_int; cublasZher2_v2_64 cuDoubleComplex, i64; }

/// Solves `op(A) x = b`, or multiplies by a triangular matrix.
#[allow(clippy::too_many_arguments, reason = "those of the functions")]
fn triangular<T: Number>(
    handle: cublasHandle_t,
    uplo: cublasFillMode_t,
    trans: cublasOperation_t,
    diag: cublasDiagType_t,
    n: i64,
    (a, lda): (*const T, i64),
    (x, incx): (*const T, i64),
    op: c_int,
) -> Result {
    let handle = find(handle)?;
    let call = handle.enter()?;
    sizes(&[("n", n)])?;
    let (upper, trans, shape) =
        (i16::from(upper(uplo)?), operation("trans", trans)?, diagonal(diag)?);
    leading("lda", lda, n)?;
    increment("incx", incx)?;
    if n == 0 {
        return Ok(());
    }
    let a = applied(Operand { shape, upper, ..matrix(a, T::TYPE, lda, Batch::One) }, trans);
    let x = vector(x, T::TYPE, n, incx, Batch::One);
    given("A", &a, true)?;
    given("x", &x, true)?;
    let alpha = Scalar::value(1.0);
    call.queue.triangle(T::COMPUTE, &Triangle { a, b: x, x, alpha, m: n, n: 1, batches: 1, op })
}

macro_rules! triangular {
    ($op:literal $list:ident: $($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, uplo: cublasFillMode_t, trans: cublasOperation_t, diag: cublasDiagType_t, n: $int,
            A: *const $ty, lda: $int, x: *mut $ty, incx: $int,
        ) { triangular(handle, uplo, trans, diag, n.into(), (A, lda.into()), (x.cast_const(), incx.into()), $op) } )* }
    };
}
macro_rules! trsv { ($($all:tt)*) => { triangular! { 0 $($all)* } }; }
macro_rules! trmv { ($($all:tt)*) => { triangular! { 1 $($all)* } }; }
each_type! { trsv TRSV: cublasStrsv_v2 cublasStrsv_v2_64 cublasDtrsv_v2 cublasDtrsv_v2_64 cublasCtrsv_v2 cublasCtrsv_v2_64 cublasZtrsv_v2
cublasZtrsv_v2_64 }
each_type! { trmv TRMV: cublasStrmv_v2 cublasStrmv_v2_64 cublasDtrmv_v2 cublasDtrmv_v2_64 cublasCtrmv_v2 cublasCtrmv_v2_64 cublasZtrmv_v2
cublasZtrmv_v2_64 }
