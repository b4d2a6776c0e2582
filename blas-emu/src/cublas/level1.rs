//! Vectors.

use core::ffi::{c_int, c_void};

use cuda_sys::cublas::{
    CublasFns, cuComplex, cuDoubleComplex, cublasHandle_t, cublasStatus_t, cudaDataType,
};

use super::args::{self, Batch, Number, vector};
use super::handle::{Call, find};
use super::{each_type, mixed};
use crate::call::{Error, Result, functions};
use crate::kernels::{Compute, Each, Fold, Operand, Scalar, each, fold};

/// A vector of a call.
#[derive(Clone, Copy)]
pub(super) struct Vector {
    pub(super) at: *const c_void,
    pub(super) ty: cudaDataType,
    pub(super) inc: i64,
}

impl Vector {
    pub(super) fn of<T: Number>(at: *const T, inc: impl Into<i64>) -> Self {
        Self { at: at.cast(), ty: T::TYPE, inc: inc.into() }
    }

    fn operand(self, name: &str, n: i64) -> Result<Operand> {
        if self.at.is_null() {
            return Err(Error::value(format!("{name} is null: pass the address of the vector")));
        }
        Ok(vector(self.at, self.ty, n, self.inc, Batch::One))
    }
}

/// Enqueues a function of each element. Nothing is done for no elements.
pub(super) fn elements(
    handle: cublasHandle_t,
    compute: Compute,
    op: c_int,
    n: i64,
    vectors: [Option<Vector>; 2],
    factors: impl FnOnce(&Call<'_>) -> Result<[Scalar; 2]>,
) -> Result {
    let handle = find(handle)?;
    let call = handle.enter()?;
    let [alpha, beta] = factors(&call)?;
    if n <= 0 {
        return Ok(());
    }
    let of = |name, vector: Option<Vector>| {
        vector.map_or(Ok(Operand::default()), |one| one.operand(name, n))
    };
    let (x, y) = (of("x", vectors[0])?, of("y", vectors[1])?);
    if op == each::AXPY && alpha.is(0.0) {
        // y stays as it is, also where x is NaN.
        return Ok(());
    }
    call.queue
        .each(compute, &Each { x, y, alpha, beta, m: n, n: 1, batches: 1, op, ..Each::default() })
}

/// Enqueues the computation of a number.
///
/// # Safety
/// `to` is null or valid for the write of a value of the type where the pointer mode says.
#[allow(clippy::too_many_arguments, reason = "those of the functions")]
pub(super) unsafe fn number(
    handle: cublasHandle_t,
    compute: Compute,
    op: c_int,
    n: i64,
    x: Vector,
    y: Option<(Vector, bool)>,
    to: *mut c_void,
    to_type: cudaDataType,
) -> Result {
    let handle = find(handle)?;
    let call = handle.enter()?;
    let index = matches!(op, fold::GREATEST | fold::LEAST);
    let bytes = if index && to_type != cudaDataType::CUDA_R_32I {
        8
    } else {
        args::width(to_type) as usize
    };
    let one = y.is_none();
    if n <= 0 || (one && x.inc <= 0) {
        // SAFETY: the caller's promise.
        return unsafe { call.zero(to, bytes) };
    }
    let mut fold =
        Fold { x: x.operand("x", n)?, n, to_type: args::code(to_type), op, ..Fold::default() };
    if let Some((y, conjugated)) = y {
        fold.y = y.operand("y", n)?;
        fold.x.conj = c_int::from(conjugated);
    }
    // SAFETY: the caller's promise.
    unsafe { call.result(to, bytes, |to| call.queue.fold(compute, &Fold { to, ..fold })) }
}

pub(super) fn none(_: &Call<'_>) -> Result<[Scalar; 2]> {
    Ok([Scalar::default(); 2])
}

macro_rules! copy {
    ($list:ident: $($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(handle: cublasHandle_t, n: $int, x: *const $ty, incx: $int, y: *mut $ty, incy: $int) {
            let vectors = [Some(Vector::of(x, incx)), Some(Vector::of(y, incy))];
            elements(handle, <$ty>::COMPUTE, each::COPY, n.into(), vectors, none)
        } )* }
    };
}
each_type! { copy COPY: cublasScopy_v2 cublasScopy_v2_64 cublasDcopy_v2 cublasDcopy_v2_64 cublasCcopy_v2 cublasCcopy_v2_64 cublasZcopy_v2
cublasZcopy_v2_64 }

macro_rules! swap {
    ($list:ident: $($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(handle: cublasHandle_t, n: $int, x: *mut $ty, incx: $int, y: *mut $ty, incy: $int) {
            let vectors = [Some(Vector::of(x, incx)), Some(Vector::of(y, incy))];
            elements(handle, <$ty>::COMPUTE, each::SWAP, n.into(), vectors, none)
        } )* }
    };
}
each_type! { swap SWAP: cublasSswap_v2 cublasSswap_v2_64 cublasDswap_v2 cublasDswap_v2_64 cublasCswap_v2 cublasCswap_v2_64 cublasZswap_v2
cublasZswap_v2_64 }

macro_rules! scal {
    ($list:ident: $($name:ident $ty:ty, $factor:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(handle: cublasHandle_t, n: $int, alpha: *const $factor, x: *mut $ty, incx: $int) {
            elements(handle, <$ty>::COMPUTE, each::SCALE, n.into(), [Some(Vector::of(x, incx)), None], |call| {
                Ok([call.factor("alpha", alpha)?, Scalar::default()])
            })
        } )* }
    };
}
mixed! { scal SCAL:
    cublasSscal_v2 cublasSscal_v2_64 f32, f32; cublasDscal_v2 cublasDscal_v2_64 f64, f64;
    cublasCscal_v2 cublasCscal_v2_64 cuComplex, cuComplex; cublasZscal_v2 cublasZscal_v2_64 cuDoubleComplex, cuDoubleComplex;
    cublasCsscal_v2 cublasCsscal_v2_64 cuComplex, f32; cublasZdscal_v2 cublasZdscal_v2_64 cuDoubleComplex, f64;
}

macro_rules! axpy {
    ($list:ident: $($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(handle: cublasHandle_t, n: $int, alpha: *const $ty, x: *const $ty, incx: $int, y: *mut $ty, incy: $int) {
            let vectors = [Some(Vector::of(x, incx)), Some(Vector::of(y, incy))];
            elements(handle, <$ty>::COMPUTE, each::AXPY, n.into(), vectors, |call| {
                Ok([call.factor("alpha", alpha)?, Scalar::default()])
            })
        } )* }
    };
}
each_type! { axpy AXPY: cublasSaxpy_v2 cublasSaxpy_v2_64 cublasDaxpy_v2 cublasDaxpy_v2_64 cublasCaxpy_v2 cublasCaxpy_v2_64 cublasZaxpy_v2
cublasZaxpy_v2_64 }

macro_rules! dot {
    ($list:ident: $($name:ident $ty:ty, $int:ty, $conj:literal;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, n: $int, x: *const $ty, incx: $int, y: *const $ty, incy: $int, result: *mut $ty,
        ) {
            let y = Some((Vector::of(y, incy), $conj));
            number(handle, <$ty>::COMPUTE, fold::DOT, n.into(), Vector::of(x, incx), y, result.cast(), <$ty>::TYPE)
        } )* }
    };
}
dot! { DOT:
    cublasSdot_v2 f32, c_int, false; cublasSdot_v2_64 f32, i64, false;
    cublasDdot_v2 f64, c_int, false; cublasDdot_v2_64 f64, i64, false;
    cublasCdotu_v2 cuComplex, c_int, false; cublasCdotu_v2_64 cuComplex, i64, false;
    cublasCdotc_v2 cuComplex, c_int, true; cublasCdotc_v2_64 cuComplex, i64, true;
    cublasZdotu_v2 cuDoubleComplex, c_int, false; cublasZdotu_v2_64 cuDoubleComplex, i64, false;
    cublasZdotc_v2 cuDoubleComplex, c_int, true; cublasZdotc_v2_64 cuDoubleComplex, i64, true;
}

macro_rules! nrm2 {
    ($list:ident: $($name:ident $ty:ty, $real:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(handle: cublasHandle_t, n: $int, x: *const $ty, incx: $int, result: *mut $real) {
            number(handle, <$ty>::COMPUTE, fold::NORM, n.into(), Vector::of(x, incx), None, result.cast(), <$real>::TYPE)
        } )* }
    };
}
mixed! { nrm2 NRM2:
    cublasSnrm2_v2 cublasSnrm2_v2_64 f32, f32; cublasDnrm2_v2 cublasDnrm2_v2_64 f64, f64;
    cublasScnrm2_v2 cublasScnrm2_v2_64 cuComplex, f32; cublasDznrm2_v2 cublasDznrm2_v2_64 cuDoubleComplex, f64;
}

macro_rules! asum {
    ($list:ident: $($name:ident $ty:ty, $real:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(handle: cublasHandle_t, n: $int, x: *const $ty, incx: $int, result: *mut $real) {
            let (op, x) = (fold::ABSOLUTE_SUM, Vector::of(x, incx));
            number(handle, <$ty>::COMPUTE, op, n.into(), x, None, result.cast(), <$real>::TYPE)
        } )* }
    };
}
mixed! { asum ASUM:
    cublasSasum_v2 cublasSasum_v2_64 f32, f32; cublasDasum_v2 cublasDasum_v2_64 f64, f64;
    cublasScasum_v2 cublasScasum_v2_64 cuComplex, f32; cublasDzasum_v2 cublasDzasum_v2_64 cuDoubleComplex, f64;
}

/// The type of an index: of 32 bits, or another one for 64.
pub(super) fn index(bytes: usize) -> cudaDataType {
    if bytes == 4 { cudaDataType::CUDA_R_32I } else { cudaDataType::CUDA_R_64I }
}

macro_rules! extreme {
    ($list:ident: $($name:ident $wide:ident $op:ident $ty:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(handle: cublasHandle_t, n: c_int, x: *const $ty, incx: c_int, result: *mut c_int) {
            number(handle, <$ty>::COMPUTE, fold::$op, n.into(), Vector::of(x, incx), None, result.cast(), index(4))
        }
        fn $wide(handle: cublasHandle_t, n: i64, x: *const $ty, incx: i64, result: *mut i64) {
            number(handle, <$ty>::COMPUTE, fold::$op, n, Vector::of(x, incx), None, result.cast(), index(8))
        } )* }
    };
}
extreme! { IAMAX:
    cublasIsamax_v2 cublasIsamax_v2_64 GREATEST f32; cublasIdamax_v2 cublasIdamax_v2_64 GREATEST f64;
    cublasIcamax_v2 cublasIcamax_v2_64 GREATEST cuComplex; cublasIzamax_v2 cublasIzamax_v2_64 GREATEST cuDoubleComplex;
    cublasIsamin_v2 cublasIsamin_v2_64 LEAST f32; cublasIdamin_v2 cublasIdamin_v2_64 LEAST f64;
    cublasIcamin_v2 cublasIcamin_v2_64 LEAST cuComplex; cublasIzamin_v2 cublasIzamin_v2_64 LEAST cuDoubleComplex;
}

macro_rules! rot {
    ($list:ident: $($name:ident $wide:ident $ty:ty, $real:ty, $s:ty;)*) => {
        rot! { @ $list: $($name $ty, $real, $s, c_int; $wide $ty, $real, $s, i64;)* }
    };
    (@ $list:ident: $($name:ident $ty:ty, $real:ty, $s:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(
            handle: cublasHandle_t, n: $int, x: *mut $ty, incx: $int, y: *mut $ty, incy: $int, c: *const $real, s: *const $s,
        ) {
            let vectors = [Some(Vector::of(x, incx)), Some(Vector::of(y, incy))];
            elements(handle, <$ty>::COMPUTE, each::ROTATE, n.into(), vectors, |call| {
                Ok([call.factor("c", c)?, call.factor("s", s)?])
            })
        } )* }
    };
}
rot! { ROT:
    cublasSrot_v2 cublasSrot_v2_64 f32, f32, f32; cublasDrot_v2 cublasDrot_v2_64 f64, f64, f64;
    cublasCrot_v2 cublasCrot_v2_64 cuComplex, f32, cuComplex; cublasCsrot_v2 cublasCsrot_v2_64 cuComplex, f32, f32;
    cublasZrot_v2 cublasZrot_v2_64 cuDoubleComplex, f64, cuDoubleComplex; cublasZdrot_v2 cublasZdrot_v2_64 cuDoubleComplex, f64, f64;
}

/// Applies a modified rotation, whose five numbers are where the pointer mode says.
unsafe fn rotm<T: Number + Into<f64>>(
    handle: cublasHandle_t,
    n: i64,
    x: Vector,
    y: Vector,
    param: *const T,
) -> Result {
    let handle = find(handle)?;
    let call = handle.enter()?;
    let mut each = Each { m: n, n: 1, batches: 1, op: each::MODIFIED_ROTATE, ..Each::default() };
    if param.is_null() {
        return Err(Error::value("param is null: pass the address of five numbers"));
    }
    if call.on_device() {
        each.z = vector(param, T::TYPE, 5, 1, Batch::One);
    } else {
        // SAFETY: the caller passes five numbers on the host.
        let [kind, h11, h21, h12, h22] =
            unsafe { param.cast::<[T; 5]>().read_unaligned() }.map(Into::into);
        // The four numbers of the matrix are the factors: the kinds say which of them are given.
        let (h11, h22) = if kind == 0.0 { (1.0, 1.0) } else { (h11, h22) };
        let (h12, h21) = if kind == 1.0 { (1.0, -1.0) } else { (h12, h21) };
        if kind == -2.0 {
            return Ok(());
        }
        each.alpha = Scalar { x: h11, y: h12, ..Scalar::default() };
        each.beta = Scalar { x: h21, y: h22, ..Scalar::default() };
    }
    if n <= 0 {
        return Ok(());
    }
    (each.x, each.y) = (x.operand("x", n)?, y.operand("y", n)?);
    call.queue.each(T::COMPUTE, &each)
}

macro_rules! rotms {
    ($list:ident: $($name:ident $ty:ty, $int:ty;)*) => { functions! { cublasStatus_t, CublasFns, $list; $(
        fn $name(handle: cublasHandle_t, n: $int, x: *mut $ty, incx: $int, y: *mut $ty, incy: $int, param: *const $ty) {
            rotm(handle, n.into(), Vector::of(x, incx), Vector::of(y, incy), param)
        } )* }
    };
}
rotms! { ROTM: cublasSrotm_v2 f32, c_int; cublasSrotm_v2_64 f32, i64; cublasDrotm_v2 f64, c_int; cublasDrotm_v2_64 f64, i64; }
