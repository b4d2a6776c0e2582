//! Products of matrices.

use std::ffi::c_void;

use cuda_safe::Stream;
use cuda_sys::cublas::{
    Cublas, cublasComputeType_t, cublasGemmAlgo_t, cublasHandle_t, cublasOperation_t, cudaDataType,
};

use super::Blas;
use super::call::{Pointers, Status, Uses, size};
use super::compute::{Compute, Multiply};
use super::raw::narrow;
use super::scalar::{Aligned, Scalar, sealed::Pointed};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::mat::{Layout, Mat, MatMut, Order};

/// An operand as cuBLAS takes it: column-major, perhaps to be transposed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operand {
    pub(crate) op: cublasOperation_t,
    pub(crate) leading: i64,
    pub(crate) stride: i64,
}

impl Operand {
    /// Describes a matrix, or with `transposed` its transpose. cuBLAS conjugates only what it transposes.
    #[inline]
    pub(crate) fn of(
        call: &'static str,
        argument: &'static str,
        layout: &Layout,
        (transposed, conjugate): (bool, bool),
    ) -> Result<Self> {
        let order = if transposed { layout.order.other() } else { layout.order };
        let op = match (order, conjugate) {
            (Order::ColumnMajor, false) => cublasOperation_t::CUBLAS_OP_N,
            (Order::RowMajor, false) => cublasOperation_t::CUBLAS_OP_T,
            (Order::RowMajor, true) => cublasOperation_t::CUBLAS_OP_C,
            (Order::ColumnMajor, true) => {
                return Err(Error::invalid(
                    call,
                    argument,
                    "is conjugated, and its order is that of the result: cuBLAS conjugates only what it transposes, so \
                     give it the other order",
                ));
            }
        };
        // A matrix without elements has any leading dimension; cuBLAS wants at least 1, and the length of a column.
        let leading = size(call, argument, layout.leading_dimension())?.max(1);
        let stride =
            if layout.batch == 1 { 0 } else { size(call, argument, layout.batch_stride())? };
        Ok(Self { op, leading, stride })
    }
}

/// The sizes of a product, for a column-major result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Product {
    pub(crate) rows: i64,
    pub(crate) cols: i64,
    pub(crate) inner: i64,
    pub(crate) batch: i64,
    /// Whether the operands are exchanged: a row-major c is its transpose, which is the product of the transposed b and a.
    pub(crate) exchanged: bool,
    pub(crate) first: Operand,
    pub(crate) second: Operand,
    pub(crate) leading: i64,
    pub(crate) stride: i64,
}

impl Product {
    /// Checks the shapes. `None` if the result has no elements.
    #[inline]
    pub(crate) fn new(
        call: &'static str,
        (a, a_conjugate): (&Layout, bool),
        (b, b_conjugate): (&Layout, bool),
        c: &Layout,
    ) -> Result<Option<Self>> {
        let invalid = |argument, message: String| Err(Error::invalid(call, argument, message));
        if b.rows != a.cols {
            return invalid("b", format!("has {} rows, but a has {} columns", b.rows, a.cols));
        }
        if c.rows != a.rows {
            return invalid("c", format!("has {} rows, but a has {}", c.rows, a.rows));
        }
        if c.cols != b.cols {
            return invalid("c", format!("has {} columns, but b has {}", c.cols, b.cols));
        }
        let fits = |batch: usize| batch == c.batch || batch == 1;
        if !fits(a.batch) || !fits(b.batch) {
            let (argument, batch) = if fits(a.batch) { ("b", b.batch) } else { ("a", a.batch) };
            let message = format!("is a batch of {batch} matrices, but c of {}", c.batch);
            return invalid(argument, message);
        }
        let exchanged = c.order == Order::RowMajor;
        let of_a = Operand::of(call, "a", a, (exchanged, a_conjugate))?;
        let of_b = Operand::of(call, "b", b, (exchanged, b_conjugate))?;
        let (rows, cols) = (size(call, "c", c.rows)?, size(call, "c", c.cols)?);
        let (first, second, rows, cols) = match exchanged {
            false => (of_a, of_b, rows, cols),
            true => (of_b, of_a, cols, rows),
        };
        let batch = size(call, "c", c.batch)?;
        if rows == 0 || cols == 0 || batch == 0 {
            return Ok(None);
        }
        let Operand { leading, stride, .. } = Operand::of(call, "c", c, (exchanged, false))?;
        let inner = size(call, "a", a.cols)?;
        Ok(Some(Self { rows, cols, inner, batch, exchanged, first, second, leading, stride }))
    }

    /// Returns the leading dimensions. An operand without elements takes the least that cuBLAS accepts.
    #[inline]
    pub(crate) fn leading_dimensions(&self) -> [i64; 3] {
        let stored = |operand: &Operand, rows: i64, cols: i64| match operand.op {
            cublasOperation_t::CUBLAS_OP_N => operand.leading.max(rows),
            _ => operand.leading.max(cols),
        };
        [
            stored(&self.first, self.rows, self.inner).max(1),
            stored(&self.second, self.inner, self.cols).max(1),
            self.leading,
        ]
    }
}

impl Blas {
    /// Multiplies matrices: `c = alpha a b + beta c`, of each matrix of a batch.
    ///
    /// `c` is a matrix of as many rows as `a` and columns as `b`. All may be row- or column-major, and views of transposed
    /// matrices. A single `a` or `b` multiplies all matrices of the other's batch. `alpha` and `beta` are numbers, or both
    /// [`DeviceScalar`](super::DeviceScalar)s.
    ///
    /// If `beta` is 0, the old `c` is not read, and may hold NaN. If the inner dimension is 0, `c` becomes `beta c`. If `c`
    /// has no elements, nothing is enqueued.
    ///
    /// ```no_run
    /// # use cuda_libs::{Blas, Mat, MatMut, Result};
    /// # use cuda_safe::{DeviceBuffer, Stream};
    /// # fn run(blas: &Blas, stream: &Stream, a: &DeviceBuffer<f32>, b: &DeviceBuffer<f32>, c: &mut DeviceBuffer<f32>) -> Result<()> {
    /// let (a, b, c) = (Mat::new(a, 64, 16)?, Mat::new(b, 16, 32)?, MatMut::new(c, 64, 32)?);
    /// blas.gemm(stream, 1.0, a, b, 0.0, c)
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] if the shapes do not fit, or memory is of another context. `Err` means that nothing was enqueued,
    /// except for [`Error::Cublas`], and for errors of the driver as from launches.
    #[doc(alias = "cublasGemmEx")]
    #[doc(alias = "cublasGemmStridedBatchedEx")]
    #[doc(alias = "matmul")]
    pub fn gemm<T: Multiply<C>, C: Element, P: Scalar<T::Scale>>(
        &self,
        stream: &Stream,
        alpha: P,
        a: Mat<'_, T>,
        b: Mat<'_, T>,
        beta: P,
        c: MatMut<'_, C>,
    ) -> Result<()> {
        let compute = <T::Compute as Compute<T, C>>::TYPE;
        self.multiply(stream, compute, (&alpha, &beta), &a, &b, &c)
    }

    /// Multiplies matrices as [`gemm`](Self::gemm) does, in a precision of [`marker`](super::marker).
    ///
    /// ```no_run
    /// # use cuda_libs::{Blas, Mat, MatMut, Result, blas::marker::Tf32};
    /// # fn run(blas: &Blas, stream: &cuda_safe::Stream, a: Mat<'_, f32>, b: Mat<'_, f32>, c: MatMut<'_, f32>) -> Result<()> {
    /// blas.gemm_in::<Tf32, _, _, _>(stream, 1.0, a, b, 0.0, c)
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`gemm`](Self::gemm).
    pub fn gemm_in<M: Compute<T, C>, T: Element, C: Element, P: Scalar<M::Scale>>(
        &self,
        stream: &Stream,
        alpha: P,
        a: Mat<'_, T>,
        b: Mat<'_, T>,
        beta: P,
        c: MatMut<'_, C>,
    ) -> Result<()> {
        self.multiply(stream, M::TYPE, (&alpha, &beta), &a, &b, &c)
    }

    #[inline]
    fn multiply<T: Element, C: Element, P: Pointed>(
        &self,
        stream: &Stream,
        compute: cublasComputeType_t,
        (alpha, beta): (&P, &P),
        a: &Mat<'_, T>,
        b: &Mat<'_, T>,
        c: &MatMut<'_, C>,
    ) -> Result<()> {
        let operands = ((&a.layout, a.conjugate), (&b.layout, b.conjugate));
        let Some(product) = Product::new("gemm", operands.0, operands.1, &c.layout)? else {
            return Ok(());
        };
        let mut uses = Uses::new();
        uses.reads("a", &a.data);
        uses.reads("b", &b.data);
        uses.writes("c", &c.data);
        uses.factor("alpha", alpha);
        uses.factor("beta", beta);
        let target = c.data.device_ptr();
        // An operand without elements may have no address; none of it is read.
        let address = |pointer: u64| if pointer == 0 { target } else { pointer } as *const c_void;
        let (pa, pb) = (address(a.data.device_ptr()), address(b.data.device_ptr()));
        let (first, second) = if product.exchanged { (pb, pa) } else { (pa, pb) };
        let factors = (Aligned(*alpha), Aligned(*beta));
        let request = Request {
            product,
            types: [T::TYPE.raw, C::TYPE.raw],
            compute,
            factors: [factors.0.0.pointer(), factors.1.0.pointer()],
            operands: [first, second],
            target: target as *mut c_void,
        };
        // SAFETY: the shapes fit the matrices, which lie within their slices, and whose memory is in the uses. Factors on
        // the host live until the call has returned.
        unsafe {
            self.enqueue("gemm", stream, Pointers::of::<P>(), &uses, |blas, handle| {
                request.make(blas, handle)
            })
        }
    }
}

/// A product as cuBLAS takes it.
struct Request {
    product: Product,
    /// The types of the operands and of the result.
    types: [cudaDataType; 2],
    compute: cublasComputeType_t,
    /// Alpha and beta.
    factors: [*const c_void; 2],
    operands: [*const c_void; 2],
    target: *mut c_void,
}

impl Request {
    /// Calls cuBLAS. A product of one matrix with another has the function that is tuned for it.
    ///
    /// # Safety
    /// The handle is alive and in no other use, and the addresses are those of matrices and factors of these types and sizes.
    unsafe fn make(&self, blas: &Cublas, handle: cublasHandle_t) -> Status {
        let [lda, ldb, ldc] = self.product.leading_dimensions();
        let Product {
            rows: m, cols: n, inner: k, batch, first: op_a, second: op_b, stride, ..
        } = self.product;
        let ([ty, result], compute, [alpha, beta]) = (self.types, self.compute, self.factors);
        let ([first, second], target) = (self.operands, self.target);
        let algorithm = cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT;
        let is_narrow = narrow(&[m, n, k, lda, ldb, ldc, batch]);
        // SAFETY: the caller's promise.
        unsafe {
            match (batch, is_narrow) {
                (1, true) => blas.cublasGemmEx(
                    handle, op_a.op, op_b.op, m as i32, n as i32, k as i32, alpha, first, ty,
                    lda as i32, second, ty, ldb as i32, beta, target, result, ldc as i32, compute,
                    algorithm,
                ),
                (1, false) => blas.cublasGemmEx_64(
                    handle, op_a.op, op_b.op, m, n, k, alpha, first, ty, lda, second, ty, ldb,
                    beta, target, result, ldc, compute, algorithm,
                ),
                (_, true) => blas.cublasGemmStridedBatchedEx(
                    handle,
                    op_a.op,
                    op_b.op,
                    m as i32,
                    n as i32,
                    k as i32,
                    alpha,
                    first,
                    ty,
                    lda as i32,
                    op_a.stride,
                    second,
                    ty,
                    ldb as i32,
                    op_b.stride,
                    beta,
                    target,
                    result,
                    ldc as i32,
                    stride,
                    batch as i32,
                    compute,
                    algorithm,
                ),
                (_, false) => blas.cublasGemmStridedBatchedEx_64(
                    handle,
                    op_a.op,
                    op_b.op,
                    m,
                    n,
                    k,
                    alpha,
                    first,
                    ty,
                    lda,
                    op_a.stride,
                    second,
                    ty,
                    ldb,
                    op_b.stride,
                    beta,
                    target,
                    result,
                    ldc,
                    stride,
                    batch,
                    compute,
                    algorithm,
                ),
            }
        }
    }
}
