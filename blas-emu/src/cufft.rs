//! The functions of cuFFT, `cufft.h`. [`resolve`](crate::resolve) returns their addresses by name.
//!
//! # Safety
//! Each function has the rules of the C function. Plans are checked: an invalid one is an error.

mod plan;

use core::ffi::{c_int, c_longlong, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use cuda_sys::cufft::{
    CufftFns, cudaStream_t, cufftComplex, cufftDoubleComplex, cufftDoubleReal, cufftHandle,
    cufftReal, cufftResult, cufftType, libraryPropertyType,
};

use crate::call::{Code, Error, Kind, Result, functions, put};
use plan::{Layout, Plan, Shape, find, insert, remove};

impl Code for cufftResult {
    const SUCCESS: Self = Self::CUFFT_SUCCESS;

    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Handle => Self::CUFFT_INVALID_PLAN,
            Kind::Value => Self::CUFFT_INVALID_VALUE,
            Kind::Unsupported => Self::CUFFT_NOT_SUPPORTED,
            Kind::Type => Self::CUFFT_INVALID_TYPE,
            Kind::Size => Self::CUFFT_INVALID_SIZE,
            Kind::Memory => Self::CUFFT_ALLOC_FAILED,
            Kind::Start => Self::CUFFT_SETUP_FAILED,
            Kind::Launch => Self::CUFFT_EXEC_FAILED,
            Kind::Internal => Self::CUFFT_INTERNAL_ERROR,
        }
    }
}

/// The version of the API that this crate implements.
const VERSION: [c_int; 3] = [12, 4, 0];

/// Makes an empty plan.
///
/// # Safety
/// `place` is null or valid for the write.
unsafe fn create(place: *mut cufftHandle, make: impl FnOnce(&mut Plan) -> Result) -> Result {
    static NEXT: AtomicI32 = AtomicI32::new(1);
    if place.is_null() {
        return Err(Error::value("plan is null: pass a place for the plan"));
    }
    let mut plan = Plan::new()?;
    make(&mut plan)?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    insert(number, plan);
    // SAFETY: not null, and the caller's promise.
    unsafe { put(place, "plan", number) }
}

/// Makes the plan of a handle, and writes the size of its work area.
///
/// # Safety
/// `size` is null or valid for the write.
unsafe fn make(handle: cufftHandle, shape: Result<Shape>, size: *mut usize) -> Result {
    let plan = find(handle)?;
    let mut plan = plan.lock();
    let shape = shape?;
    let bytes = shape.work_size()?;
    plan.make(shape)?;
    // SAFETY: the caller's promise.
    unsafe { put(size, "workSize", bytes) }
}

/// Writes the size of the work area of a plan that is not made.
///
/// # Safety
/// `size` is null or valid for the write.
unsafe fn estimate(shape: Result<Shape>, size: *mut usize) -> Result {
    // SAFETY: the caller's promise.
    unsafe { put(size, "workSize", shape?.work_size()?) }
}

/// Reads a shape with distances.
///
/// # Safety
/// The lists are null where `cufftPlanMany` allows it, or have an element for each dimension.
#[allow(clippy::too_many_arguments, reason = "those of the functions")]
unsafe fn many<I: Copy + Into<i64>>(
    rank: c_int,
    n: *const I,
    input: (*const I, I, I),
    output: (*const I, I, I),
    ty: cufftType,
    batch: I,
) -> Result<Shape> {
    if !(1..=3).contains(&rank) {
        return Err(Error::value(format!("rank {rank}: pass 1 to 3")));
    }
    let list = |from: *const I| {
        let element = |at: usize| {
            // SAFETY: the caller's promise: the list has an element for each dimension.
            unsafe { from.add(at).read_unaligned() }.into()
        };
        (0..rank as usize).map(element).collect()
    };
    if n.is_null() {
        return Err(Error::value("n is null: pass the lengths"));
    }
    let lengths: Vec<i64> = list(n);
    let layout = |(embed, stride, distance): (*const I, I, I)| {
        (!embed.is_null()).then(|| Layout {
            embed: list(embed),
            stride: stride.into(),
            distance: distance.into(),
        })
    };
    // As in cuFFT, either layout is the default if one of both is not given.
    let layouts = layout(input).zip(layout(output));
    Shape::new(&lengths, layouts, ty, batch.into())
}

fn dense(lengths: &[c_int], ty: cufftType, batch: c_int) -> Result<Shape> {
    let lengths: Vec<i64> = lengths.iter().map(|length| i64::from(*length)).collect();
    Shape::new(&lengths, None, ty, batch.into())
}

/// Runs a transform.
fn execute(
    handle: cufftHandle,
    ty: cufftType,
    from: *mut c_void,
    to: *mut c_void,
    direction: c_int,
) -> Result {
    let plan = find(handle)?;
    if !matches!(direction, -1 | 1) {
        return Err(Error::value(format!(
            "direction {direction}: pass CUFFT_FORWARD (-1) or CUFFT_INVERSE (1)"
        )));
    }
    if from.is_null() || to.is_null() {
        return Err(Error::value("idata or odata is null: pass memory of the device"));
    }
    plan.lock().execute(
        ty,
        from.expose_provenance() as u64,
        to.expose_provenance() as u64,
        direction > 0,
    )
}

functions! { cufftResult, CufftFns, PLANS;
    fn cufftCreate(handle: *mut cufftHandle) { create(handle, |_| Ok(())) }
    fn cufftDestroy(plan: cufftHandle) { remove(plan)?.lock().free() }
    fn cufftPlan1d(plan: *mut cufftHandle, nx: c_int, type_: cufftType, batch: c_int) {
        create(plan, |plan| plan.make(dense(&[nx], type_, batch)?))
    }
    fn cufftPlan2d(plan: *mut cufftHandle, nx: c_int, ny: c_int, type_: cufftType) {
        create(plan, |plan| plan.make(dense(&[nx, ny], type_, 1)?))
    }
    fn cufftPlan3d(plan: *mut cufftHandle, nx: c_int, ny: c_int, nz: c_int, type_: cufftType) {
        create(plan, |plan| plan.make(dense(&[nx, ny, nz], type_, 1)?))
    }
    fn cufftPlanMany(
        plan: *mut cufftHandle, rank: c_int, n: *mut c_int, inembed: *mut c_int, istride: c_int, idist: c_int,
        onembed: *mut c_int, ostride: c_int, odist: c_int, type_: cufftType, batch: c_int,
    ) {
        let shape = many(rank, n, (inembed, istride, idist), (onembed, ostride, odist), type_, batch);
        create(plan, |plan| plan.make(shape?))
    }
    fn cufftMakePlan1d(plan: cufftHandle, nx: c_int, type_: cufftType, batch: c_int, workSize: *mut usize) {
        make(plan, dense(&[nx], type_, batch), workSize)
    }
    fn cufftMakePlan2d(plan: cufftHandle, nx: c_int, ny: c_int, type_: cufftType, workSize: *mut usize) {
        make(plan, dense(&[nx, ny], type_, 1), workSize)
    }
    fn cufftMakePlan3d(plan: cufftHandle, nx: c_int, ny: c_int, nz: c_int, type_: cufftType, workSize: *mut usize) {
        make(plan, dense(&[nx, ny, nz], type_, 1), workSize)
    }
    fn cufftMakePlanMany(
        plan: cufftHandle, rank: c_int, n: *mut c_int, inembed: *mut c_int, istride: c_int, idist: c_int,
        onembed: *mut c_int, ostride: c_int, odist: c_int, type_: cufftType, batch: c_int, workSize: *mut usize,
    ) { make(plan, many(rank, n, (inembed, istride, idist), (onembed, ostride, odist), type_, batch), workSize) }
    fn cufftMakePlanMany64(
        plan: cufftHandle, rank: c_int, n: *mut c_longlong, inembed: *mut c_longlong, istride: c_longlong,
        idist: c_longlong, onembed: *mut c_longlong, ostride: c_longlong, odist: c_longlong, type_: cufftType,
        batch: c_longlong, workSize: *mut usize,
    ) { make(plan, many(rank, n, (inembed, istride, idist), (onembed, ostride, odist), type_, batch), workSize) }
    fn cufftEstimate1d(nx: c_int, type_: cufftType, batch: c_int, workSize: *mut usize) {
        estimate(dense(&[nx], type_, batch), workSize)
    }
    fn cufftEstimate2d(nx: c_int, ny: c_int, type_: cufftType, workSize: *mut usize) {
        estimate(dense(&[nx, ny], type_, 1), workSize)
    }
    fn cufftEstimate3d(nx: c_int, ny: c_int, nz: c_int, type_: cufftType, workSize: *mut usize) {
        estimate(dense(&[nx, ny, nz], type_, 1), workSize)
    }
    fn cufftEstimateMany(
        rank: c_int, n: *mut c_int, inembed: *mut c_int, istride: c_int, idist: c_int, onembed: *mut c_int, ostride: c_int,
        odist: c_int, type_: cufftType, batch: c_int, workSize: *mut usize,
    ) { estimate(many(rank, n, (inembed, istride, idist), (onembed, ostride, odist), type_, batch), workSize) }
    fn cufftGetSize1d(handle: cufftHandle, nx: c_int, type_: cufftType, batch: c_int, workSize: *mut usize) {
        find(handle)?;
        estimate(dense(&[nx], type_, batch), workSize)
    }
    fn cufftGetSize2d(handle: cufftHandle, nx: c_int, ny: c_int, type_: cufftType, workSize: *mut usize) {
        find(handle)?;
        estimate(dense(&[nx, ny], type_, 1), workSize)
    }
    fn cufftGetSize3d(handle: cufftHandle, nx: c_int, ny: c_int, nz: c_int, type_: cufftType, workSize: *mut usize) {
        find(handle)?;
        estimate(dense(&[nx, ny, nz], type_, 1), workSize)
    }
    fn cufftGetSizeMany(
        handle: cufftHandle, rank: c_int, n: *mut c_int, inembed: *mut c_int, istride: c_int, idist: c_int,
        onembed: *mut c_int, ostride: c_int, odist: c_int, type_: cufftType, batch: c_int, workArea: *mut usize,
    ) {
        find(handle)?;
        estimate(many(rank, n, (inembed, istride, idist), (onembed, ostride, odist), type_, batch), workArea)
    }
    fn cufftGetSizeMany64(
        plan: cufftHandle, rank: c_int, n: *mut c_longlong, inembed: *mut c_longlong, istride: c_longlong,
        idist: c_longlong, onembed: *mut c_longlong, ostride: c_longlong, odist: c_longlong, type_: cufftType,
        batch: c_longlong, workSize: *mut usize,
    ) {
        find(plan)?;
        estimate(many(rank, n, (inembed, istride, idist), (onembed, ostride, odist), type_, batch), workSize)
    }
    fn cufftGetSize(handle: cufftHandle, workSize: *mut usize) {
        put(workSize, "workSize", find(handle)?.lock().work_size()?)
    }
    fn cufftSetWorkArea(plan: cufftHandle, workArea: *mut c_void) {
        find(plan)?.lock().set_work(workArea.expose_provenance() as u64)
    }
    fn cufftSetAutoAllocation(plan: cufftHandle, autoAllocate: c_int) {
        find(plan)?.lock().set_auto(autoAllocate != 0)
    }
    fn cufftSetStream(plan: cufftHandle, stream: cudaStream_t) {
        find(plan)?.lock().set_stream(stream);
        Ok(())
    }
    fn cufftExecC2C(plan: cufftHandle, idata: *mut cufftComplex, odata: *mut cufftComplex, direction: c_int) {
        execute(plan, cufftType::CUFFT_C2C, idata.cast(), odata.cast(), direction)
    }
    fn cufftExecZ2Z(plan: cufftHandle, idata: *mut cufftDoubleComplex, odata: *mut cufftDoubleComplex, direction: c_int) {
        execute(plan, cufftType::CUFFT_Z2Z, idata.cast(), odata.cast(), direction)
    }
    fn cufftExecR2C(plan: cufftHandle, idata: *mut cufftReal, odata: *mut cufftComplex) {
        execute(plan, cufftType::CUFFT_R2C, idata.cast(), odata.cast(), -1)
    }
    fn cufftExecD2Z(plan: cufftHandle, idata: *mut cufftDoubleReal, odata: *mut cufftDoubleComplex) {
        execute(plan, cufftType::CUFFT_D2Z, idata.cast(), odata.cast(), -1)
    }
    fn cufftExecC2R(plan: cufftHandle, idata: *mut cufftComplex, odata: *mut cufftReal) {
        execute(plan, cufftType::CUFFT_C2R, idata.cast(), odata.cast(), 1)
    }
    fn cufftExecZ2D(plan: cufftHandle, idata: *mut cufftDoubleComplex, odata: *mut cufftDoubleReal) {
        execute(plan, cufftType::CUFFT_Z2D, idata.cast(), odata.cast(), 1)
    }
    fn cufftGetVersion(version: *mut c_int) {
        put(version, "version", VERSION[0] * 1000 + VERSION[1] * 100 + VERSION[2])
    }
    fn cufftGetProperty(type_: libraryPropertyType, value: *mut c_int) {
        let Some(part) = VERSION.get(type_.0 as usize) else {
            return Err(Error::value(format!("type {}: pass 0 to 2", type_.0)));
        };
        put(value, "value", *part)
    }
}

/// The functions.
pub(crate) const TABLE: &[crate::List] = &[PLANS];
