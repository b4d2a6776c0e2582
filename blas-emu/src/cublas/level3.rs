//! Products with symmetric and triangular matrices, of matrices with themselves, sums, and triangular systems.

use core::ffi::c_int;
use core::ptr;

use cuda_sys::cublas::{
    CublasFns, cuComplex, cuDoubleComplex, cublasDiagType_t, cublasFillMode_t, cublasHandle_t,
    cublasOperation_t, cublasSideMode_t, cublasStatus_t,
};

use super::args::{
    Batch, Number, applied, diagonal, given, leading, matrix, operation, right, sizes, upper,
    vector,
};
use super::each_type;
use super::handle::{Call, find};
use super::level2::Kind;
use crate::call::{Error, Result, functions};
use crate::kernels::{Each, Operand, Product, Scalar, Triangle, each, fill, shape};

/// A matrix of a call and its leading dimension.
type At<T> = (*const T, i64);

/// # Safety
/// Factors are null or lie where the pointer mode says; the rest lives until the work is done.
#[allow(clippy::too_many_arguments, reason = "those of the functions")]
unsafe fn symm<T: Number>(
    handle: cublasHandle_t,
    side: cublasSideMode_t,
    uplo: cublasFillMode_t,
    [m, n]: [i64; 2],
    factors: [*const T; 2],
    [a, b, c]: [At<T>; 3],
    kind: Kind,
) -> Result {
    let handle = find(handle)?;
    let call = handle.enter()?;
    sizes(&[("m", m), ("n", n)])?;
    let (right, upper) = (right(side)?, i16::from(upper(uplo)?));
    let k = if right { n } else { m };
    leading("lda", a.1, k)?;
    leading("ldb", b.1, m)?;
    leading("ldc", c.1, m)?;
    // SAFETY: the caller's promise.
    let (alpha, beta) =
        unsafe { (call.factor("alpha", factors[0])?, call.factor("beta", factors[1])?) };
    if m == 0 || n == 0 {
        return Ok(());
    }
    let [a, b, c] = [a, b, c].map(|(at, ld)| matrix(at, T::TYPE, ld, Batch::One));
    let shape = if kind == Kind::Hermitian { shape::HERMITIAN } else { shape::SYMMETRIC };
    let a = Operand { shape, upper, ..a };
    given("A", &a, !alpha.is(0.0))?;
    given("B", &b, !alpha.is(0.0))?;
    given("C", &c, true)?;
    let (a, b) = if right { (b, a) } else { (a, b) };
    call.queue.product(
        T::COMPUTE,
        &Product { a, b, c, d: c, alpha, beta, m, n, k, batches: 1, ..Product::default() },
    )
}

macro_rules! symms {
    ($kind:ident $list:ident: $($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, side: cublasSideMode_t, uplo: cublasFillMode_t, m: $int, n: $int, alpha: *const $ty,
            A: *const $ty, lda: $int, B: *const $ty, ldb: $int, beta: *const $ty, C: *mut $ty, ldc: $int,
        ) {
            let all = [(A, lda.into()), (B, ldb.into()), (C.cast_const(), ldc.into())];
            symm(handle, side, uplo, [m.into(), n.into()], [alpha, beta], all, Kind::$kind)
        } )* }
    };
    ($list:ident: $($rest:tt)*) => { symms! { Symmetric $list: $($rest)* } };
}
each_type! { symms SYMM: cublasSsymm_v2 cublasSsymm_v2_64 cublasDsymm_v2 cublasDsymm_v2_64 cublasCsymm_v2 cublasCsymm_v2_64 cublasZsymm_v2
cublasZsymm_v2_64 }
symms! { Hermitian HEMM: cublasChemm_v2 cuComplex, c_int; cublasChemm_v2_64 cuComplex, i64;
cublasZhemm_v2 cuDoubleComplex, c_int; cublasZhemm_v2_64 cuDoubleComplex, i64; }

/// How a second matrix takes part in an update of a triangle.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Second {
    /// `op(A) op(B)'`
    Once,
    /// `op(A) op(B)' + op(B) op(A)'`
    Twice,
}

/// `C = alpha op(A) op(A)' + beta C`, of a triangle, or with a second matrix.
#[allow(clippy::too_many_arguments, reason = "those of the functions")]
fn syrk<T: Number>(
    handle: cublasHandle_t,
    uplo: cublasFillMode_t,
    trans: cublasOperation_t,
    [n, k]: [i64; 2],
    factors: impl FnOnce(&Call<'_>) -> Result<[Scalar; 2]>,
    a: At<T>,
    second: Option<(At<T>, Second)>,
    c: At<T>,
    kind: Kind,
) -> Result {
    let handle = find(handle)?;
    let call = handle.enter()?;
    sizes(&[("n", n), ("k", k)])?;
    let written = if upper(uplo)? { fill::UPPER } else { fill::LOWER };
    let op = operation("trans", trans)?;
    let hermitian = kind == Kind::Hermitian;
    let complex = T::COMPUTE.is_complex();
    if op.0 && complex && op.1 != hermitian {
        let wanted = if hermitian { "N or C" } else { "N or T" };
        return Err(Error::value(format!("trans {}: pass {wanted}", trans.0)));
    }
    let rows = if op.0 { k } else { n };
    leading("lda", a.1, rows)?;
    leading("ldb", second.map_or(a.1, |(b, _)| b.1), rows)?;
    leading("ldc", c.1, n)?;
    let [alpha, beta] = factors(&call)?;
    if n == 0 {
        return Ok(());
    }
    let of = |(at, ld): At<T>| matrix(at, T::TYPE, ld, Batch::One);
    let (left, c) = (applied(of(a), op), of(c));
    let right = second.map_or(left, |(b, _)| applied(of(b), op));
    let read = k > 0 && !alpha.is(0.0);
    given("A", &left, read)?;
    given("B", &right, read)?;
    given("C", &c, true)?;
    let adjoint =
        |one: Operand| Operand { conj: one.conj ^ c_int::from(hermitian), ..one.transposed() };
    let real_diagonal = c_int::from(hermitian);
    let first = Product {
        a: left,
        b: adjoint(right),
        c,
        d: c,
        alpha,
        beta,
        m: n,
        n,
        k,
        batches: 1,
        fill: written,
        real_diagonal,
        ..Product::default()
    };
    call.queue.product(T::COMPUTE, &first)?;
    if !second.is_some_and(|(_, second)| second == Second::Twice) {
        return Ok(());
    }
    let alpha = Scalar { conj: c_int::from(hermitian), ..alpha };
    let other = Product { a: right, b: adjoint(left), alpha, beta: Scalar::value(1.0), ..first };
    call.queue.product(T::COMPUTE, &other)
}

macro_rules! syrks {
    ($kind:ident $list:ident: $($name:ident $ty:ty, $factor:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, uplo: cublasFillMode_t, trans: cublasOperation_t, n: $int, k: $int, alpha: *const $factor,
            A: *const $ty, lda: $int, beta: *const $factor, C: *mut $ty, ldc: $int,
        ) {
            let factors = |call: &Call<'_>| Ok([call.factor("alpha", alpha)?, call.factor("beta", beta)?]);
            let (a, c) = ((A, lda.into()), (C.cast_const(), ldc.into()));
            syrk(handle, uplo, trans, [n.into(), k.into()], factors, a, None, c, Kind::$kind)
        } )* }
    };
    ($list:ident: $($name:ident $ty:ty, $int:ty;)*) => { syrks! { Symmetric $list: $($name $ty, $ty, $int;)* } };
}
each_type! { syrks SYRK: cublasSsyrk_v2 cublasSsyrk_v2_64 cublasDsyrk_v2 cublasDsyrk_v2_64 cublasCsyrk_v2 cublasCsyrk_v2_64 cublasZsyrk_v2
cublasZsyrk_v2_64 }
syrks! { Hermitian HERK: cublasCherk_v2 cuComplex, f32, c_int; cublasCherk_v2_64 cuComplex, f32, i64;
cublasZherk_v2 cuDoubleComplex, f64, c_int; cublasZherk_v2_64 cuDoubleComplex, f64, i64; }

macro_rules! syr2k {
    ($kind:ident $second:ident $list:ident: $($name:ident $ty:ty, $factor:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, uplo: cublasFillMode_t, trans: cublasOperation_t, n: $int, k: $int, alpha: *const $ty,
            A: *const $ty, lda: $int, B: *const $ty, ldb: $int, beta: *const $factor, C: *mut $ty, ldc: $int,
        ) {
            let factors = |call: &Call<'_>| Ok([call.factor("alpha", alpha)?, call.factor("beta", beta)?]);
            let (a, b, c) = ((A, lda.into()), (B, ldb.into()), (C.cast_const(), ldc.into()));
            let second = Some((b, Second::$second));
            syrk(handle, uplo, trans, [n.into(), k.into()], factors, a, second, c, Kind::$kind)
        } )* }
    };
    ($second:ident $list:ident: $($name:ident $ty:ty, $int:ty;)*) => { syr2k! { Symmetric $second $list: $($name $ty, $ty, $int;)* } };
}
macro_rules! twice { ($($all:tt)*) => { syr2k! { Twice $($all)* } }; }
macro_rules! once { ($($all:tt)*) => { syr2k! { Once $($all)* } }; }
each_type! { twice SYR2K: cublasSsyr2k_v2 cublasSsyr2k_v2_64 cublasDsyr2k_v2 cublasDsyr2k_v2_64 cublasCsyr2k_v2 cublasCsyr2k_v2_64
cublasZsyr2k_v2 cublasZsyr2k_v2_64 }
each_type! { once SYRKX: cublasSsyrkx cublasSsyrkx_64 cublasDsyrkx cublasDsyrkx_64 cublasCsyrkx cublasCsyrkx_64 cublasZsyrkx
cublasZsyrkx_64 }
syr2k! { Hermitian Twice HER2K: cublasCher2k_v2 cuComplex, f32, c_int; cublasCher2k_v2_64 cuComplex, f32, i64;
cublasZher2k_v2 cuDoubleComplex, f64, c_int; cublasZher2k_v2_64 cuDoubleComplex, f64, i64; }
syr2k! { Hermitian Once HERKX: cublasCherkx cuComplex, f32, c_int; cublasCherkx_64 cuComplex, f32, i64;
cublasZherkx cuDoubleComplex, f64, c_int; cublasZherkx_64 cuDoubleComplex, f64, i64; }

/// Solves `op(A) X = alpha B` or `X op(A) = alpha B`, or multiplies.
///
/// # Safety
/// As [`symm`].
#[allow(clippy::too_many_arguments, reason = "those of the functions")]
unsafe fn triangular<T: Number>(
    handle: cublasHandle_t,
    (side, uplo): (cublasSideMode_t, cublasFillMode_t),
    (trans, diag): (cublasOperation_t, cublasDiagType_t),
    [m, n]: [i64; 2],
    alpha: *const T,
    [a, b, x]: [At<T>; 3],
    (batch, batches): (Batch, i64),
    op: c_int,
) -> Result {
    let handle = find(handle)?;
    let call = handle.enter()?;
    sizes(&[("m", m), ("n", n), ("batchCount", batches)])?;
    let (right, upper) = (right(side)?, i16::from(upper(uplo)?));
    let (trans, shape) = (operation("trans", trans)?, diagonal(diag)?);
    leading("lda", a.1, if right { n } else { m })?;
    leading("ldb", b.1, m)?;
    leading("ldc", x.1, m)?;
    // SAFETY: the caller's promise.
    let alpha = unsafe { call.factor("alpha", alpha) }?;
    if m == 0 || n == 0 || batches == 0 {
        return Ok(());
    }
    let [a, b, x] = [a, b, x].map(|(at, ld)| matrix(at, T::TYPE, ld, batch));
    given("A", &a, !alpha.is(0.0))?;
    given("B", &b, true)?;
    given("C", &x, true)?;
    let a = applied(Operand { shape, upper, ..a }, trans);
    let triangle = if right {
        let (a, b, x) = (a.transposed(), b.transposed(), x.transposed());
        Triangle { a, b, x, alpha, m: n, n: m, batches, op }
    } else {
        Triangle { a, b, x, alpha, m, n, batches, op }
    };
    call.queue.triangle(T::COMPUTE, &triangle)
}

macro_rules! trsm {
    ($list:ident: $($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, side: cublasSideMode_t, uplo: cublasFillMode_t, trans: cublasOperation_t,
            diag: cublasDiagType_t, m: $int, n: $int, alpha: *const $ty, A: *const $ty, lda: $int, B: *mut $ty, ldb: $int,
        ) {
            let b = (B.cast_const(), ldb.into());
            let (size, all) = ([m.into(), n.into()], [(A, lda.into()), b, b]);
            triangular(handle, (side, uplo), (trans, diag), size, alpha, all, (Batch::One, 1), 0)
        } )* }
    };
}
each_type! { trsm TRSM: cublasStrsm_v2 cublasStrsm_v2_64 cublasDtrsm_v2 cublasDtrsm_v2_64 cublasCtrsm_v2 cublasCtrsm_v2_64 cublasZtrsm_v2
cublasZtrsm_v2_64 }

macro_rules! trsm_listed {
    ($list:ident: $($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, side: cublasSideMode_t, uplo: cublasFillMode_t, trans: cublasOperation_t,
            diag: cublasDiagType_t, m: $int, n: $int, alpha: *const $ty, A: *const *const $ty, lda: $int, B: *const *mut $ty,
            ldb: $int, batchCount: $int,
        ) {
            let b = (B.cast(), ldb.into());
            let (size, all) = ([m.into(), n.into()], [(A.cast(), lda.into()), b, b]);
            triangular(handle, (side, uplo), (trans, diag), size, alpha, all, (Batch::Listed, batchCount.into()), 0)
        } )* }
    };
}
each_type! { trsm_listed TRSM_LISTED: cublasStrsmBatched cublasStrsmBatched_64 cublasDtrsmBatched cublasDtrsmBatched_64
cublasCtrsmBatched cublasCtrsmBatched_64 cublasZtrsmBatched cublasZtrsmBatched_64 }

macro_rules! trmm {
    ($list:ident: $($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, side: cublasSideMode_t, uplo: cublasFillMode_t, trans: cublasOperation_t,
            diag: cublasDiagType_t, m: $int, n: $int, alpha: *const $ty, A: *const $ty, lda: $int, B: *const $ty, ldb: $int,
            C: *mut $ty, ldc: $int,
        ) {
            let (size, all) = ([m.into(), n.into()], [(A, lda.into()), (B, ldb.into()), (C.cast_const(), ldc.into())]);
            triangular(handle, (side, uplo), (trans, diag), size, alpha, all, (Batch::One, 1), 1)
        } )* }
    };
}
each_type! { trmm TRMM: cublasStrmm_v2 cublasStrmm_v2_64 cublasDtrmm_v2 cublasDtrmm_v2_64 cublasCtrmm_v2 cublasCtrmm_v2_64 cublasZtrmm_v2
cublasZtrmm_v2_64 }

/// `C = alpha op(A) + beta op(B)`
///
/// # Safety
/// As [`symm`].
#[allow(clippy::too_many_arguments, reason = "those of the functions")]
unsafe fn geam<T: Number>(
    handle: cublasHandle_t,
    ops: [cublasOperation_t; 2],
    [m, n]: [i64; 2],
    factors: [*const T; 2],
    [a, b, c]: [At<T>; 3],
) -> Result {
    let handle = find(handle)?;
    let call = handle.enter()?;
    sizes(&[("m", m), ("n", n)])?;
    let (left, right) = (operation("transa", ops[0])?, operation("transb", ops[1])?);
    // SAFETY: the caller's promise.
    let (alpha, beta) =
        unsafe { (call.factor("alpha", factors[0])?, call.factor("beta", factors[1])?) };
    leading("lda", a.1, if left.0 { n } else { m })?;
    leading("ldb", b.1, if right.0 { n } else { m })?;
    leading("ldc", c.1, m)?;
    for (name, one, op) in [("A", a, left), ("B", b, right)] {
        if ptr::eq(one.0, c.0) && !c.0.is_null() && (op.0 || one.1 != c.1) {
            return Err(Error::value(format!(
                "C is {name}, which must then have the same leading dimension and not be transposed"
            )));
        }
    }
    if m == 0 || n == 0 {
        return Ok(());
    }
    let [a, b, c] = [a, b, c].map(|(at, ld)| matrix(at, T::TYPE, ld, Batch::One));
    given("A", &a, !alpha.is(0.0))?;
    given("B", &b, !beta.is(0.0))?;
    given("C", &c, true)?;
    let (x, y) = (applied(a, left), applied(b, right));
    call.queue
        .each(T::COMPUTE, &Each { x, y, z: c, alpha, beta, m, n, batches: 1, op: each::SUM_OF_TWO })
}

macro_rules! geams {
    ($list:ident: $($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, transa: cublasOperation_t, transb: cublasOperation_t, m: $int, n: $int, alpha: *const $ty,
            A: *const $ty, lda: $int, beta: *const $ty, B: *const $ty, ldb: $int, C: *mut $ty, ldc: $int,
        ) {
            let all = [(A, lda.into()), (B, ldb.into()), (C.cast_const(), ldc.into())];
            geam(handle, [transa, transb], [m.into(), n.into()], [alpha, beta], all)
        } )* }
    };
}
each_type! { geams GEAM: cublasSgeam cublasSgeam_64 cublasDgeam cublasDgeam_64 cublasCgeam cublasCgeam_64 cublasZgeam cublasZgeam_64 }

macro_rules! dgmm {
    ($list:ident: $($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, mode: cublasSideMode_t, m: $int, n: $int, A: *const $ty, lda: $int, x: *const $ty,
            incx: $int, C: *mut $ty, ldc: $int,
        ) {
            let handle = find(handle)?;
            let call = handle.enter()?;
            let (m, n, ty) = (i64::from(m), i64::from(n), <$ty>::TYPE);
            sizes(&[("m", m), ("n", n)])?;
            let right = right(mode)?;
            leading("lda", lda.into(), m)?;
            leading("ldc", ldc.into(), m)?;
            // An increment of 0 repeats the first element, as NVIDIA's formula says.
            if m == 0 || n == 0 {
                return Ok(());
            }
            let (a, c) = (matrix(A, ty, lda.into(), Batch::One), matrix(C, ty, ldc.into(), Batch::One));
            let x = vector(x, ty, if right { n } else { m }, incx.into(), Batch::One);
            for (name, one) in [("A", &a), ("x", &x), ("C", &c)] {
                given(name, one, true)?;
            }
            let y = if right { x.transposed() } else { x };
            let each = Each { x: a, y, z: c, m, n, batches: 1, op: each::TIMES_DIAGONAL, ..Each::default() };
            call.queue.each(<$ty>::COMPUTE, &each)
        } )* }
    };
}
each_type! { dgmm DGMM: cublasSdgmm cublasSdgmm_64 cublasDdgmm cublasDdgmm_64 cublasCdgmm cublasCdgmm_64 cublasZdgmm cublasZdgmm_64 }
