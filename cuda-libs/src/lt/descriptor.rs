//! Descriptors of cuBLASLt, which are freed when they are dropped.

use bytemuck::Pod;
use cuda_sys::cublaslt::{
    CublasLt, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, cublasLtMatmulDescOpaque_t,
    cublasLtMatmulPreferenceAttributes_t, cublasLtMatmulPreferenceOpaque_t, cublasLtMatrixLayout_t,
    cublasLtMatrixLayoutAttribute_t, cublasLtMatrixLayoutOpaque_t, cublasStatus_t,
};

use super::Lt;
use crate::blas::call::{Status, size};
use crate::element::DataType;
use crate::error::{Error, Result};

/// A descriptor of the kind `T`, of host memory alone.
#[derive(Debug)]
pub(super) struct Descriptor<T: Kind> {
    functions: &'static CublasLt,
    raw: *mut T,
}

// SAFETY: a descriptor is a structure on the heap, which belongs to no thread.
unsafe impl<T: Kind> Send for Descriptor<T> {}
// SAFETY: a shared reference only gives its address, and cuBLASLt only reads through those that it is passed.
unsafe impl<T: Kind> Sync for Descriptor<T> {}

/// A kind of descriptors.
pub(super) trait Kind: Sized {
    /// The type of attributes' names.
    type Attribute;
    /// # Safety
    /// `raw` is alive, and is not used after.
    unsafe fn destroy(functions: &CublasLt, raw: *mut Self) -> Status;
    /// # Safety
    /// `raw` is alive, no other thread uses it, and `value` is valid for reads of `bytes`.
    unsafe fn set(
        functions: &CublasLt,
        raw: *mut Self,
        attribute: Self::Attribute,
        value: *const std::ffi::c_void,
        bytes: usize,
    ) -> Status;
}

macro_rules! kinds {
    ($($ty:ident $attribute:ident $destroy:ident $set:ident;)*) => {$(
        impl Kind for $ty {
            type Attribute = $attribute;
            unsafe fn destroy(functions: &CublasLt, raw: *mut Self) -> Status {
                // SAFETY: the caller's promise.
                unsafe { functions.$destroy(raw) }
            }
            unsafe fn set(
                functions: &CublasLt, raw: *mut Self, attribute: $attribute, value: *const std::ffi::c_void, bytes: usize,
            ) -> Status {
                // SAFETY: the caller's promise.
                unsafe { functions.$set(raw, attribute, value, bytes) }
            }
        }
    )*};
}

kinds! {
    cublasLtMatrixLayoutOpaque_t cublasLtMatrixLayoutAttribute_t cublasLtMatrixLayoutDestroy
        cublasLtMatrixLayoutSetAttribute;
    cublasLtMatmulDescOpaque_t cublasLtMatmulDescAttributes_t cublasLtMatmulDescDestroy cublasLtMatmulDescSetAttribute;
    cublasLtMatmulPreferenceOpaque_t cublasLtMatmulPreferenceAttributes_t cublasLtMatmulPreferenceDestroy
        cublasLtMatmulPreferenceSetAttribute;
}

impl<T: Kind> Descriptor<T> {
    /// Creates a descriptor by a function of cuBLASLt.
    fn new(lt: &Lt, create: impl FnOnce(&CublasLt, *mut *mut T) -> Status) -> Result<Self> {
        let functions = lt.library.as_sys();
        let mut raw = std::ptr::null_mut();
        match create(functions, &raw mut raw) {
            Ok(cublasStatus_t::CUBLAS_STATUS_SUCCESS) => Ok(Self { functions, raw }),
            status => Err(lt.failed("plan", status)),
        }
    }

    pub(super) fn raw(&self) -> *mut T {
        self.raw
    }

    /// Sets an attribute.
    pub(super) fn set<V: Pod>(&mut self, attribute: T::Attribute, value: &V) -> Status {
        let value = std::ptr::from_ref(value);
        // SAFETY: the descriptor is alive and borrowed exclusively.
        unsafe { T::set(self.functions, self.raw, attribute, value.cast(), size_of::<V>()) }
    }

    /// Sets an attribute while a plan is made.
    pub(super) fn plan<V: Pod>(
        &mut self,
        lt: &Lt,
        attribute: T::Attribute,
        value: V,
    ) -> Result<()> {
        match self.set(attribute, &value) {
            Ok(cublasStatus_t::CUBLAS_STATUS_SUCCESS) => Ok(()),
            status => Err(lt.failed("plan", status)),
        }
    }
}

impl<T: Kind> Drop for Descriptor<T> {
    fn drop(&mut self) {
        // SAFETY: it is alive, and nothing has its address after this.
        let _status = unsafe { T::destroy(self.functions, self.raw) };
    }
}

pub(super) type MatrixLayout = Descriptor<cublasLtMatrixLayoutOpaque_t>;
pub(super) type Product = Descriptor<cublasLtMatmulDescOpaque_t>;
pub(super) type Preference = Descriptor<cublasLtMatmulPreferenceOpaque_t>;

impl MatrixLayout {
    /// Describes a column-major matrix, or a batch of them.
    pub(super) fn of_matrix(
        lt: &Lt,
        ty: DataType,
        (rows, cols, leading): (i64, i64, i64),
        (batch, stride): (i64, i64),
    ) -> Result<Self> {
        let batch = i32::try_from(batch).map_err(|_| {
            Error::invalid("plan", "d", format!("is a batch of {batch}, which is above 2^31"))
        })?;
        let mut this = Self::new(lt, |functions, place: *mut cublasLtMatrixLayout_t| {
            // SAFETY: `place` is valid for the write.
            unsafe {
                functions.cublasLtMatrixLayoutCreate(
                    place,
                    ty.raw,
                    rows.cast_unsigned(),
                    cols.cast_unsigned(),
                    leading,
                )
            }
        })?;
        if batch != 1 {
            use cublasLtMatrixLayoutAttribute_t as A;
            this.plan(lt, A::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch)?;
            this.plan(lt, A::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride)?;
        }
        Ok(this)
    }
}

impl Product {
    pub(super) fn of_types(
        lt: &Lt,
        compute: cuda_sys::cublas::cublasComputeType_t,
        scale: DataType,
    ) -> Result<Self> {
        Self::new(lt, |functions, place: *mut cublasLtMatmulDesc_t| {
            // SAFETY: `place` is valid for the write.
            unsafe { functions.cublasLtMatmulDescCreate(place, compute, scale.raw) }
        })
    }
}

impl Preference {
    /// Algorithms with at most this workspace, for addresses that are multiples of `alignment`.
    pub(super) fn of_limits(lt: &Lt, workspace: usize, alignment: usize) -> Result<Self> {
        use cublasLtMatmulPreferenceAttributes_t as A;
        let mut this = Self::new(lt, |functions, place| {
            // SAFETY: `place` is valid for the write.
            unsafe { functions.cublasLtMatmulPreferenceCreate(place) }
        })?;
        let bytes = size("plan", "workspace", workspace)?;
        this.plan(lt, A::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes)?;
        for attribute in [
            A::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            A::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            A::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            A::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ] {
            this.plan(lt, attribute, alignment as u32)?;
        }
        Ok(this)
    }
}
