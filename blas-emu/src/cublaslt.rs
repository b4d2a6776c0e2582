//! The functions of cuBLASLt, `cublasLt.h`: products of matrices with what follows them. [`resolve`](crate::resolve) returns
//! their addresses by name.
//!
//! # Safety
//! Each function has the rules of the C function. Descriptors are addresses of structures, as in the header: they must be
//! alive. Any handle that is not null is accepted, as one of cuBLAS may be passed.

use core::ffi::{c_int, c_void};
use core::ptr;

use cuda_sys::cublas::cudaStream_t;
use cuda_sys::cublas::{cublasComputeType_t, cublasStatus_t, cudaDataType, libraryPropertyType};
use cuda_sys::cublaslt::{
    CublasLtFns, cublasLtHandle_t, cublasLtMatmulAlgo_t, cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t, cublasLtMatmulHeuristicResult_t, cublasLtMatmulPreference_t,
    cublasLtMatmulPreferenceAttributes_t, cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t,
};

use crate::call::{Error, Kind, Result, functions, put};
use crate::cublas::args::{Batch, applied, given, matrix, read};
use crate::cuda::Cuda;
use crate::kernels::{Compute, Epilogue, Operand, Product, Queue, Scalar};

/// The version of the API that this crate implements.
const VERSION: [c_int; 3] = [13, 1, 0];

/// The first word of each kind of structure: made by `Create`, or with the second one by `Init`.
const LAYOUT: [u64; 2] = [0x4c61_796f_7574_0001, 0x4c61_796f_7574_0002];
const DESC: [u64; 2] = [0x4d61_746d_756c_0001, 0x4d61_746d_756c_0002];
const PREFERENCE: [u64; 2] = [0x5072_6566_6572_0001, 0x5072_6566_6572_0002];

/// Writes a structure. Every attribute has a word: that with number `n` is at `n + 1`.
///
/// # Safety
/// `at` is null or valid for the write of `N` words.
unsafe fn fill<const N: usize, T>(
    at: *mut T,
    size: usize,
    head: u64,
    words: &[(usize, u64)],
) -> Result {
    if at.is_null() || size < N * 8 {
        return Err(Error::value(format!(
            "a structure at {at:p} of {size} bytes: {} are needed",
            N * 8
        )));
    }
    let mut all = [0; N];
    all[0] = head;
    for (attribute, value) in words {
        all[attribute + 1] = *value;
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { at.cast::<[u64; N]>().write_unaligned(all) };
    Ok(())
}

/// Makes a structure on the heap.
///
/// # Safety
/// `place` is null or valid for the write.
unsafe fn create<const N: usize, T>(
    place: *mut *mut T,
    head: u64,
    words: &[(usize, u64)],
) -> Result {
    if place.is_null() {
        return Err(Error::value("the place of the descriptor is null"));
    }
    let new = Box::into_raw(Box::new([0u64; N]));
    // SAFETY: the memory is new, and the caller's promise.
    unsafe {
        fill::<N, _>(new, N * 8, head, words)?;
        put(place, "descriptor", new.cast())
    }
}

/// Frees a structure of [`create`].
///
/// # Safety
/// `at` is null or the address of an alive structure of this size.
unsafe fn destroy<const N: usize, T>(at: *mut T, heads: [u64; 2]) -> Result {
    // SAFETY: the caller's promise.
    let all = unsafe { words::<N, _>(at, heads) }?;
    if all[0] == heads[0] {
        // SAFETY: `create` has made it by a box of this type; its head is cleared, so that it is freed once.
        unsafe {
            at.cast::<u64>().write(0);
            drop(Box::from_raw(at.cast::<[u64; N]>()));
        }
    }
    Ok(())
}

/// Returns the words of a structure.
///
/// # Safety
/// `at` is null or the address of an alive structure of this size.
unsafe fn words<const N: usize, T>(at: *const T, heads: [u64; 2]) -> Result<[u64; N]> {
    if at.is_null() {
        return Err(Error::value("a descriptor is null"));
    }
    // SAFETY: not null, and the caller's promise.
    let all = unsafe { at.cast::<[u64; N]>().read_unaligned() };
    if heads.contains(&all[0]) {
        return Ok(all);
    }
    Err(Error::value(format!("{at:p} is no descriptor of this kind")))
}

/// Sets an attribute of so many bytes.
///
/// # Safety
/// `at` is null or an alive structure; `from` is null or valid for the read.
unsafe fn set<const N: usize, T>(
    at: *mut T,
    heads: [u64; 2],
    (attribute, bytes): (usize, usize),
    (from, size): (*const c_void, usize),
) -> Result {
    // SAFETY: the caller's promise.
    unsafe { words::<N, _>(at, heads) }?;
    if from.is_null() || size != bytes {
        return Err(Error::value(format!(
            "attribute {attribute} has {bytes} bytes, and not {size}, at {from:p}"
        )));
    }
    let mut value = [0u8; 8];
    // SAFETY: not null, and the caller's promise; at most 8 bytes.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr(), bytes) };
    // SAFETY: the structure has `N` words, of which this is one.
    unsafe { at.cast::<u64>().add(attribute + 1).write_unaligned(u64::from_le_bytes(value)) };
    Ok(())
}

/// Reads an attribute of so many bytes.
///
/// # Safety
/// As for [`set`]; `to` and `written` are null or valid for the write.
unsafe fn get<const N: usize, T>(
    at: *const T,
    heads: [u64; 2],
    (attribute, bytes): (usize, usize),
    (to, size, written): (*mut c_void, usize, *mut usize),
) -> Result {
    // SAFETY: the caller's promise.
    let all = unsafe { words::<N, _>(at, heads) }?;
    if !written.is_null() {
        // SAFETY: as above.
        unsafe { put(written, "sizeWritten", bytes) }?;
    }
    if size == 0 && !written.is_null() {
        return Ok(());
    }
    if to.is_null() || size < bytes {
        return Err(Error::value(format!(
            "attribute {attribute} has {bytes} bytes, and not {size}, at {to:p}"
        )));
    }
    let value = all[attribute + 1].to_le_bytes();
    // SAFETY: as above.
    unsafe { ptr::copy_nonoverlapping(value.as_ptr(), to.cast::<u8>(), bytes) };
    Ok(())
}

/// Returns the number and the bytes of an attribute of a layout.
fn of_layout(attribute: cublasLtMatrixLayoutAttribute_t) -> Result<(usize, usize)> {
    match attribute.0 {
        number @ (0 | 1 | 5) => Ok((number as usize, 4)),
        number @ (2 | 3 | 4 | 6) => Ok((number as usize, 8)),
        other => Err(Error::unsupported(format!("attribute {other} of a layout"))),
    }
}

/// Returns the number and the bytes of an attribute of a product.
fn of_desc(attribute: cublasLtMatmulDescAttributes_t) -> Result<(usize, usize)> {
    match attribute.0 {
        number @ (0..=7 | 15 | 22 | 26) => Ok((number as usize, 4)),
        number @ (8 | 10..=14 | 17..=21 | 23) => Ok((number as usize, 8)),
        25 => Ok((25, 1)),
        other => Err(Error::unsupported(format!("attribute {other} of a product"))),
    }
}

fn of_preference(attribute: cublasLtMatmulPreferenceAttributes_t) -> Result<(usize, usize)> {
    match attribute.0 {
        1 => Ok((1, 8)),
        number @ (0 | 3 | 5..=9) => Ok((number as usize, 4)),
        other => Err(Error::unsupported(format!("attribute {other} of a preference"))),
    }
}

/// The first word of the one algorithm.
const ALGORITHM: u64 = 0x416c_676f_0000_0001;

/// Returns the algorithm, which needs no workspace.
fn the_algorithm() -> cublasLtMatmulHeuristicResult_t {
    let mut result = cublasLtMatmulHeuristicResult_t::default();
    result.algo.data[0] = ALGORITHM;
    result
}

/// Fails unless it is the algorithm that this library returns.
///
/// # Safety
/// `algorithm` is null or valid for the read.
unsafe fn is_known(algorithm: *const cublasLtMatmulAlgo_t) -> Result {
    // SAFETY: not null, and the caller's promise.
    if algorithm.is_null() || unsafe { (*algorithm).data[0] } == ALGORITHM {
        return Ok(());
    }
    Err(Error::value("algo was not returned by cublasLtMatmulAlgoGetHeuristic"))
}

fn layout_words(ty: cudaDataType, rows: u64, cols: u64, ld: i64) -> [(usize, u64); 5] {
    [(0, ty.0.into()), (2, rows), (3, cols), (4, ld.cast_unsigned()), (5, 1)]
}

/// The epilogue is 1, of all elements, with types of their own for bias and auxiliary output.
fn desc_words(compute: cublasComputeType_t, scale: cudaDataType) -> [(usize, u64); 6] {
    let none = u64::from(u32::MAX);
    [(0, compute.0.into()), (1, scale.0.into()), (6, 2), (7, 1), (22, none), (26, none)]
}

/// A layout.
struct Layout([u64; 14]);

impl Layout {
    /// # Safety
    /// `at` is null or an alive structure.
    unsafe fn of(at: cublasLtMatrixLayout_t) -> Result<Self> {
        // SAFETY: the caller's promise.
        Ok(Self(unsafe { words::<14, _>(at, LAYOUT) }?))
    }

    fn ty(&self) -> cudaDataType {
        cudaDataType(self.0[1] as u32)
    }

    fn size(&self) -> [i64; 2] {
        [self.0[3], self.0[4]].map(|size| i64::try_from(size).unwrap_or(i64::MAX))
    }

    fn batches(&self) -> i64 {
        i64::from(self.0[6] as i32)
    }

    fn operand(&self, name: &str, at: *const c_void) -> Result<Operand> {
        let [rows, cols] = self.size();
        let (ld, row_major) = (self.0[5].cast_signed(), self.0[2] == 1);
        if self.0[2] > 1 {
            return Err(Error::unsupported(format!(
                "order {} of {name}: rows and columns are there",
                self.0[2]
            )));
        }
        let lines = if row_major { cols } else { rows };
        if ld < lines.max(1) {
            return Err(Error::value(format!(
                "the leading dimension {ld} of {name} is less than {}",
                lines.max(1)
            )));
        }
        let operand = matrix(at, self.ty(), ld, Batch::Strided(self.0[7].cast_signed()));
        Ok(if row_major { operand.transposed() } else { operand })
    }
}

/// Returns the type in which a product is computed.
fn compute(
    compute: cublasComputeType_t,
    scale: cudaDataType,
    types: [cudaDataType; 4],
) -> Result<Compute> {
    use cudaDataType as D;
    let [a, b, c, d] = types;
    let eight = |ty| matches!(ty, D::CUDA_R_8F_E4M3 | D::CUDA_R_8F_E5M2);
    let float = |ty| matches!(ty, D::CUDA_R_16F | D::CUDA_R_16BF | D::CUDA_R_32F);
    let same = |ty| [a, b, c, d].iter().all(|other| *other == ty);
    let (known, result) = match (compute.0, scale) {
        (64 | 65, D::CUDA_R_16F) => (same(D::CUDA_R_16F), Compute::F32),
        (68 | 69, D::CUDA_R_32F) => {
            let inputs = (a == b && (float(a) || a == D::CUDA_R_8I)) || (eight(a) && eight(b));
            let outputs = float(c) && (d == c || (eight(a) && eight(d)));
            (inputs && outputs && (a != D::CUDA_R_32F || c == D::CUDA_R_32F), Compute::F32)
        }
        (74 | 75 | 77 | 78, D::CUDA_R_32F) => (same(D::CUDA_R_32F), Compute::F32),
        (68 | 69 | 74 | 75 | 77 | 78, D::CUDA_C_32F) => (same(D::CUDA_C_32F), Compute::C32),
        (70 | 71 | 79, D::CUDA_R_64F) => (same(D::CUDA_R_64F), Compute::F64),
        (70 | 71 | 79, D::CUDA_C_64F) => (same(D::CUDA_C_64F), Compute::C64),
        (72 | 73, D::CUDA_R_32I) => {
            (a == D::CUDA_R_8I && b == a && c == D::CUDA_R_32I && d == c, Compute::I32)
        }
        _ => (false, Compute::F32),
    };
    if known {
        return Ok(result);
    }
    let [a, b, c, d] = types.map(|ty| ty.0);
    Err(Error::unsupported(format!(
        "compute type {} and scale type {} with A of type {a}, B of {b}, C of {c} and D of {d}",
        compute.0, scale.0
    )))
}

/// Returns what follows a product.
fn epilogue(desc: &[u64; 32], compute: Compute, d: cudaDataType) -> Result<Epilogue> {
    let act = match desc[8] {
        1 | 4 => 0,
        2 | 6 | 130 | 134 => 1,
        32 | 36 | 160 | 164 => 2,
        136 => 3,
        192 => 4,
        other => return Err(Error::unsupported(format!("epilogue {other}"))),
    };
    let (bias, aux) = (desc[8] & 4 != 0, desc[8] & 128 != 0);
    let scaled = [18, 19, 20, 21, 22, 24].iter().any(|word| desc[*word] != 0);
    if compute != Compute::F32 && (desc[8] != 1 || scaled) {
        return Err(Error::unsupported("epilogues and scales are those of products in f32"));
    }
    if (bias && desc[9] == 0) || (aux && desc[12] == 0) {
        return Err(Error::value(format!(
            "epilogue {} needs the pointer of its bias or auxiliary memory",
            desc[8]
        )));
    }
    let ty = |word: usize, other: cudaDataType| match desc[word] as u32 {
        u32::MAX => other.0.cast_signed(),
        given => given.cast_signed(),
    };
    let eight = matches!(d, cudaDataType::CUDA_R_8F_E4M3 | cudaDataType::CUDA_R_8F_E5M2);
    Ok(Epilogue {
        bias: if bias { desc[9] } else { 0 },
        aux: if aux { desc[12] } else { 0 },
        scale_a: desc[18],
        scale_b: desc[19],
        scale_c: desc[20],
        scale_d: desc[21],
        amax_d: desc[22],
        scale_aux: desc[24],
        bias_batch: desc[11].cast_signed(),
        aux_ld: desc[13].cast_signed(),
        aux_batch: desc[14].cast_signed(),
        bias_type: ty(27, if eight { cudaDataType::CUDA_R_16BF } else { d }),
        bias_by_col: 0,
        aux_type: ty(23, d),
        act,
    })
}

/// Checks a product, and returns it without its addresses.
///
/// # Safety
/// Descriptors are null or alive.
unsafe fn checked(
    handle: cublasLtHandle_t,
    desc: cublasLtMatmulDesc_t,
    layouts: [cublasLtMatrixLayout_t; 4],
    places: [*const c_void; 4],
) -> Result<(Product, Compute, [u64; 32])> {
    if handle.is_null() {
        return Err(Error::new(Kind::Handle, "the handle is null"));
    }
    // SAFETY: the caller's promise.
    let desc = unsafe { words::<32, _>(desc, DESC) }?;
    let [a, b, c, d] = layouts;
    // SAFETY: as above.
    let all = unsafe { [Layout::of(a)?, Layout::of(b)?, Layout::of(c)?, Layout::of(d)?] };
    let scale = cudaDataType(desc[2] as u32);
    let kind = compute(
        cublasComputeType_t(desc[1] as u32),
        scale,
        [all[0].ty(), all[1].ty(), all[2].ty(), all[3].ty()],
    )?;
    let op = |name: &str, word: usize| {
        crate::cublas::args::operation(name, cuda_sys::cublas::cublasOperation_t(desc[word] as u32))
    };
    let (op_a, op_b, op_c) = (op("transA", 4)?, op("transB", 5)?, op("transC", 6)?);
    if op_c.0 || desc[7] != 2 {
        return Err(Error::unsupported("a transposed C, and a part of D"));
    }
    let operands = [
        applied(all[0].operand("A", places[0])?, op_a),
        applied(all[1].operand("B", places[1])?, op_b),
        all[2].operand("C", places[2])?,
        all[3].operand("D", places[3])?,
    ];
    let flip =
        |[rows, cols]: [i64; 2], flipped: bool| if flipped { [cols, rows] } else { [rows, cols] };
    let ([m, k], [k_b, n]) = (flip(all[0].size(), op_a.0), flip(all[1].size(), op_b.0));
    if k != k_b || all[2].size() != [m, n] || all[3].size() != [m, n] {
        return Err(Error::value(format!(
            "op(A) is {m} x {k}, op(B) {k_b} x {n}, C {:?} and D {:?}",
            all[2].size(),
            all[3].size()
        )));
    }
    let batches = all[3].batches();
    if batches < 1 || all.iter().any(|layout| layout.batches() != batches) {
        return Err(Error::value(format!(
            "{batches} matrices in D: all layouts must have one batch count, from 1 on"
        )));
    }
    let after = epilogue(&desc, kind, all[3].ty())?;
    let [a, b, c, d] = operands;
    Ok((Product { a, b, c, d, m, n, k, batches, after, ..Product::default() }, kind, desc))
}

/// Returns the factors of a product.
///
/// # Safety
/// Factors are null or lie where the pointer mode says.
unsafe fn factors(
    desc: &[u64; 32],
    alpha: *const c_void,
    beta: *const c_void,
) -> Result<[Scalar; 2]> {
    let (ty, mode) = (desc[2] as i32, desc[3]);
    let host = |name: &str, at: *const c_void| {
        if at.is_null() {
            return Err(Error::value(format!("{name} is null: pass the address of the factor")));
        }
        // SAFETY: not null, and the caller's promise.
        let (x, y) = unsafe { read(at, ty) }?;
        Ok(Scalar { x, y, ty, ..Scalar::default() })
    };
    let device = |name: &str, at: *const c_void, row: i64| {
        if at.is_null() {
            return Err(Error::value(format!("{name} is null: pass the address of the factor")));
        }
        Ok(Scalar {
            at: at.expose_provenance() as u64,
            ty,
            row,
            batch: desc[15].cast_signed() * row,
            ..Scalar::default()
        })
    };
    Ok(match mode {
        0 => [host("alpha", alpha)?, host("beta", beta)?],
        1 => [device("alpha", alpha, 0)?, device("beta", beta, 0)?],
        2 => [device("alpha", alpha, 1)?, device("beta", beta, 1)?],
        3 => [device("alpha", alpha, 1)?, Scalar::value(0.0)],
        4 => [device("alpha", alpha, 1)?, host("beta", beta)?],
        other => return Err(Error::value(format!("pointer mode {other}: pass 0 to 4"))),
    })
}

functions! { cublasStatus_t, CublasLtFns, MATMUL;
    fn cublasLtCreate(lightHandle: *mut cublasLtHandle_t) {
        if lightHandle.is_null() {
            return Err(Error::value("lightHandle is null: pass a place for the handle"));
        }
        Cuda::get()?.context()?;
        put(lightHandle, "lightHandle", ptr::without_provenance_mut(16))
    }
    fn cublasLtDestroy(lightHandle: cublasLtHandle_t) {
        if lightHandle.is_null() { Err(Error::new(Kind::Handle, "the handle is null")) } else { Ok(()) }
    }
    fn cublasLtGetProperty(type_: libraryPropertyType, value: *mut c_int) {
        let Some(part) = VERSION.get(type_.0 as usize) else {
            return Err(Error::value(format!("type {}: pass 0 to 2", type_.0)));
        };
        put(value, "value", *part)
    }
    fn cublasLtMatrixLayoutCreate(matLayout: *mut cublasLtMatrixLayout_t, type_: cudaDataType, rows: u64, cols: u64, ld: i64) {
        create::<14, _>(matLayout, LAYOUT[0], &layout_words(type_, rows, cols, ld))
    }
    fn cublasLtMatrixLayoutInit_internal(
        matLayout: cublasLtMatrixLayout_t, size: usize, type_: cudaDataType, rows: u64, cols: u64, ld: i64,
    ) { fill::<14, _>(matLayout, size, LAYOUT[1], &layout_words(type_, rows, cols, ld)) }
    fn cublasLtMatrixLayoutDestroy(matLayout: cublasLtMatrixLayout_t) { destroy::<14, _>(matLayout, LAYOUT) }
    fn cublasLtMatrixLayoutSetAttribute(
        matLayout: cublasLtMatrixLayout_t, attr: cublasLtMatrixLayoutAttribute_t, buf: *const c_void, sizeInBytes: usize,
    ) { set::<14, _>(matLayout, LAYOUT, of_layout(attr)?, (buf, sizeInBytes)) }
    fn cublasLtMatrixLayoutGetAttribute(
        matLayout: cublasLtMatrixLayout_t, attr: cublasLtMatrixLayoutAttribute_t, buf: *mut c_void, sizeInBytes: usize,
        sizeWritten: *mut usize,
    ) { get::<14, _>(matLayout, LAYOUT, of_layout(attr)?, (buf, sizeInBytes, sizeWritten)) }
    fn cublasLtMatmulDescCreate(
        matmulDesc: *mut cublasLtMatmulDesc_t, computeType: cublasComputeType_t, scaleType: cudaDataType,
    ) { create::<32, _>(matmulDesc, DESC[0], &desc_words(computeType, scaleType)) }
    fn cublasLtMatmulDescInit_internal(
        matmulDesc: cublasLtMatmulDesc_t, size: usize, computeType: cublasComputeType_t, scaleType: cudaDataType,
    ) { fill::<32, _>(matmulDesc, size, DESC[1], &desc_words(computeType, scaleType)) }
    fn cublasLtMatmulDescDestroy(matmulDesc: cublasLtMatmulDesc_t) { destroy::<32, _>(matmulDesc, DESC) }
    fn cublasLtMatmulDescSetAttribute(
        matmulDesc: cublasLtMatmulDesc_t, attr: cublasLtMatmulDescAttributes_t, buf: *const c_void, sizeInBytes: usize,
    ) { set::<32, _>(matmulDesc, DESC, of_desc(attr)?, (buf, sizeInBytes)) }
    fn cublasLtMatmulDescGetAttribute(
        matmulDesc: cublasLtMatmulDesc_t, attr: cublasLtMatmulDescAttributes_t, buf: *mut c_void, sizeInBytes: usize,
        sizeWritten: *mut usize,
    ) { get::<32, _>(matmulDesc, DESC, of_desc(attr)?, (buf, sizeInBytes, sizeWritten)) }
    fn cublasLtMatmulPreferenceCreate(pref: *mut cublasLtMatmulPreference_t) { create::<12, _>(pref, PREFERENCE[0], &[]) }
    fn cublasLtMatmulPreferenceInit_internal(pref: cublasLtMatmulPreference_t, size: usize) {
        fill::<12, _>(pref, size, PREFERENCE[1], &[])
    }
    fn cublasLtMatmulPreferenceDestroy(pref: cublasLtMatmulPreference_t) { destroy::<12, _>(pref, PREFERENCE) }
    fn cublasLtMatmulPreferenceSetAttribute(
        pref: cublasLtMatmulPreference_t, attr: cublasLtMatmulPreferenceAttributes_t, buf: *const c_void, sizeInBytes: usize,
    ) { set::<12, _>(pref, PREFERENCE, of_preference(attr)?, (buf, sizeInBytes)) }
    fn cublasLtMatmulPreferenceGetAttribute(
        pref: cublasLtMatmulPreference_t, attr: cublasLtMatmulPreferenceAttributes_t, buf: *mut c_void, sizeInBytes: usize,
        sizeWritten: *mut usize,
    ) { get::<12, _>(pref, PREFERENCE, of_preference(attr)?, (buf, sizeInBytes, sizeWritten)) }
    fn cublasLtMatmulAlgoGetHeuristic(
        lightHandle: cublasLtHandle_t, operationDesc: cublasLtMatmulDesc_t, Adesc: cublasLtMatrixLayout_t,
        Bdesc: cublasLtMatrixLayout_t, Cdesc: cublasLtMatrixLayout_t, Ddesc: cublasLtMatrixLayout_t,
        preference: cublasLtMatmulPreference_t, requestedAlgoCount: c_int,
        heuristicResultsArray: *mut cublasLtMatmulHeuristicResult_t, returnAlgoCount: *mut c_int,
    ) {
        if requestedAlgoCount < 1 || heuristicResultsArray.is_null() || returnAlgoCount.is_null() {
            return Err(Error::value("pass places for at least one result and for their number"));
        }
        words::<12, _>(preference, PREFERENCE)?;
        put(returnAlgoCount, "returnAlgoCount", 0)?;
        checked(lightHandle, operationDesc, [Adesc, Bdesc, Cdesc, Ddesc], [ptr::null(); 4])?;
        put(heuristicResultsArray, "heuristicResultsArray", the_algorithm())?;
        put(returnAlgoCount, "returnAlgoCount", 1)
    }
    fn cublasLtMatmulAlgoCheck(
        lightHandle: cublasLtHandle_t, operationDesc: cublasLtMatmulDesc_t, Adesc: cublasLtMatrixLayout_t,
        Bdesc: cublasLtMatrixLayout_t, Cdesc: cublasLtMatrixLayout_t, Ddesc: cublasLtMatrixLayout_t,
        algo: *const cublasLtMatmulAlgo_t, result: *mut cublasLtMatmulHeuristicResult_t,
    ) {
        if algo.is_null() {
            return Err(Error::value("algo is null: pass the address of an algorithm"));
        }
        is_known(algo)?;
        checked(lightHandle, operationDesc, [Adesc, Bdesc, Cdesc, Ddesc], [ptr::null(); 4])?;
        put(result, "result", the_algorithm())
    }
    fn cublasLtMatmul(
        lightHandle: cublasLtHandle_t, computeDesc: cublasLtMatmulDesc_t, alpha: *const c_void, A: *const c_void,
        Adesc: cublasLtMatrixLayout_t, B: *const c_void, Bdesc: cublasLtMatrixLayout_t, beta: *const c_void,
        C: *const c_void, Cdesc: cublasLtMatrixLayout_t, D: *mut c_void, Ddesc: cublasLtMatrixLayout_t,
        algo: *const cublasLtMatmulAlgo_t, workspace: *mut c_void, workspaceSizeInBytes: usize, stream: cudaStream_t,
    ) {
        is_known(algo)?;
        let (product, compute, desc) =
            checked(lightHandle, computeDesc, [Adesc, Bdesc, Cdesc, Ddesc], [A, B, C, D.cast_const()])?;
        let [alpha, beta] = factors(&desc, alpha, beta)?;
        let cuda = Cuda::get()?;
        cuda.context()?;
        if product.m == 0 || product.n == 0 {
            return Ok(());
        }
        given("A", &product.a, product.k > 0 && !alpha.is(0.0))?;
        given("B", &product.b, product.k > 0 && !alpha.is(0.0))?;
        given("C", &product.c, !beta.is(0.0))?;
        given("D", &product.d, true)?;
        let queue = Queue { cuda, stream };
        queue.scratch((workspace.expose_provenance() as u64, workspaceSizeInBytes))?;
        queue.product(compute, &Product { alpha, beta, ..product })
    }
}

/// Returns the version of the library.
///
/// # Safety
/// None.
#[allow(non_snake_case, reason = "the header's name")]
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub unsafe extern "C" fn cublasLtGetVersion() -> usize {
    (VERSION[0] * 10_000 + VERSION[1] * 100 + VERSION[2]) as usize
}

const _: fn(&mut CublasLtFns) = |table| table.cublasLtGetVersion = Some(cublasLtGetVersion);

/// The functions without a code as their result.
const OTHERS: &[(&str, crate::Address)] =
    &[("cublasLtGetVersion", crate::Address(cublasLtGetVersion as *const c_void))];

/// The functions.
pub(crate) const TABLE: &[crate::List] = &[MATMUL, OTHERS];
