//! Products of groups of matrices, each with sizes and factors of its own. The lists of sizes are on the host, those of
//! matrices on the device.

use core::ffi::{c_int, c_void};

use cuda_sys::cublas::{
    CublasFns, cublasComputeType_t, cublasHandle_t, cublasOperation_t, cublasStatus_t, cudaDataType,
};

use super::args::{self, Batch, Number};
use super::handle::find;
use super::products::{Gemm, Matrix, Types, types};
use crate::call::{Error, Result, functions};

/// The lists of a call.
struct Lists<I> {
    ops: [*const cublasOperation_t; 2],
    sizes: [*const I; 3],
    factors: [*const c_void; 2],
    matrices: [*const c_void; 3],
    types: [cudaDataType; 3],
    lds: [*const I; 3],
    group_size: *const I,
}

impl<I: Copy + Into<i64>> Lists<I> {
    /// # Safety
    /// The lists of the host have so many elements.
    unsafe fn run(
        self,
        handle: cublasHandle_t,
        groups: i64,
        types: impl Fn() -> Result<Types>,
    ) -> Result {
        find(handle)?;
        args::sizes(&[("group_count", groups)])?;
        let null = self.ops.contains(&core::ptr::null())
            || self
                .sizes
                .iter()
                .chain(&self.lds)
                .chain([&self.group_size])
                .any(|list| list.is_null())
            || self.factors.iter().chain(&self.matrices).any(|list| list.is_null());
        if groups > 0 && null {
            return Err(Error::value("a list is null: pass all of them"));
        }
        let scale = args::width(types()?.scale) as usize;
        // Every group is checked before the first one is enqueued.
        for enqueued in [false, true] {
            let mut before = 0usize;
            for group in 0..usize::try_from(groups).unwrap_or(0) {
                // SAFETY: the lists have an element for each group.
                let get = |list: *const I| unsafe { list.add(group).read_unaligned() }.into();
                let count: i64 = get(self.group_size);
                args::sizes(&[("group_size", count)])?;
                let of = |at: usize| Matrix {
                    at: self.matrices[at].wrapping_byte_add(before.wrapping_mul(size_of::<u64>())),
                    ty: self.types[at],
                    ld: get(self.lds[at]),
                    batch: Batch::Listed,
                };
                let gemm = Gemm {
                    // SAFETY: as above.
                    ops: self.ops.map(|list| unsafe { list.add(group).read_unaligned() }),
                    size: self.sizes.map(get),
                    factors: self.factors.map(|list| list.wrapping_byte_add(group * scale)),
                    a: of(0),
                    b: of(1),
                    c: of(2),
                    batches: if enqueued { count } else { 0 },
                };
                // SAFETY: the caller's promise.
                unsafe { gemm.run(handle, &types) }?;
                before = before.wrapping_add(usize::try_from(count).unwrap_or(0));
            }
        }
        Ok(())
    }
}

macro_rules! grouped {
    ($($typed:ident $ty:ty, $int:ty;)* ; $($ex:ident, $wide:ty;)*) => { functions! { cublasStatus_t, CublasFns, GROUPED;
        $(fn $typed(
            handle: cublasHandle_t, transa_array: *const cublasOperation_t, transb_array: *const cublasOperation_t,
            m_array: *const $int, n_array: *const $int, k_array: *const $int, alpha_array: *const $ty,
            Aarray: *const *const $ty, lda_array: *const $int, Barray: *const *const $ty, ldb_array: *const $int,
            beta_array: *const $ty, Carray: *const *mut $ty, ldc_array: *const $int, group_count: $int,
            group_size: *const $int,
        ) {
            let lists = Lists {
                ops: [transa_array, transb_array], sizes: [m_array, n_array, k_array],
                factors: [alpha_array.cast(), beta_array.cast()], matrices: [Aarray.cast(), Barray.cast(), Carray.cast()],
                types: [<$ty>::TYPE; 3], lds: [lda_array, ldb_array, ldc_array], group_size,
            };
            lists.run(handle, group_count.into(), || Ok(Types { compute: <$ty>::COMPUTE, scale: <$ty>::TYPE }))
        })*
        $(fn $ex(
            handle: cublasHandle_t, transa_array: *const cublasOperation_t, transb_array: *const cublasOperation_t,
            m_array: *const $wide, n_array: *const $wide, k_array: *const $wide, alpha_array: *const c_void,
            Aarray: *const *const c_void, Atype: cudaDataType, lda_array: *const $wide, Barray: *const *const c_void,
            Btype: cudaDataType, ldb_array: *const $wide, beta_array: *const c_void, Carray: *const *mut c_void,
            Ctype: cudaDataType, ldc_array: *const $wide, group_count: $wide, group_size: *const $wide,
            computeType: cublasComputeType_t,
        ) {
            let lists = Lists {
                ops: [transa_array, transb_array], sizes: [m_array, n_array, k_array], factors: [alpha_array, beta_array],
                matrices: [Aarray.cast(), Barray.cast(), Carray.cast()], types: [Atype, Btype, Ctype],
                lds: [lda_array, ldb_array, ldc_array], group_size,
            };
            lists.run(handle, group_count.into(), || types(computeType, [Atype, Btype], Ctype))
        })*
    } };
}

grouped! {
    cublasSgemmGroupedBatched f32, c_int; cublasSgemmGroupedBatched_64 f32, i64;
    cublasDgemmGroupedBatched f64, c_int; cublasDgemmGroupedBatched_64 f64, i64;
    ; cublasGemmGroupedBatchedEx, c_int; cublasGemmGroupedBatchedEx_64, i64;
}
