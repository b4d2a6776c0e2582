//! Operations on a matrix and vectors.

use std::ffi::c_void;

use cuda_safe::Stream;
use cuda_sys::cublas::cublasOperation_t;

use super::Blas;
use super::call::{Pointers, Uses, one, size};
use super::gemm::Operand;
use super::raw::{Float, Stored};
use super::scalar::{Aligned, Scalar};
use crate::error::{Error, Result};
use crate::mat::{Mat, MatMut, Order, Vector, VectorMut};

impl Blas {
    /// Multiplies a matrix with a vector: `y = alpha a x + beta y`.
    ///
    /// If `beta` is 0, the old `y` is not read. If the matrix has no elements, `y` is unchanged, as BLAS says. For `f16` and
    /// `bf16`, multiply matrices of one column with [`gemm`](Self::gemm).
    ///
    /// # Errors
    /// [`Error::Invalid`] if the shapes do not fit, or `a` is a batch; otherwise as [`gemm`](Self::gemm).
    #[doc(alias = "cublasSgemv")]
    pub fn gemv<'x, T: Float, P: Scalar<T>>(
        &self,
        stream: &Stream,
        alpha: P,
        a: Mat<'_, T>,
        x: impl Into<Vector<'x, T>>,
        beta: P,
        y: impl Into<VectorMut<'x, T>>,
    ) -> Result<()> {
        const CALL: &str = "gemv";
        let (x, y) = (x.into(), y.into());
        one(CALL, "a", a.layout.batch)?;
        let (rows, cols) = a.shape();
        for (argument, len, what, wanted) in
            [("x", x.len, "columns", cols), ("y", y.len, "rows", rows)]
        {
            if len != wanted {
                let message = format!("has {len} elements, but a has {wanted} {what}");
                return Err(Error::invalid(CALL, argument, message));
            }
        }
        if rows == 0 || cols == 0 {
            return Ok(());
        }
        let Operand { op, leading, .. } = Operand::of(CALL, "a", &a.layout, (false, a.conjugate))?;
        // The sizes of the matrix as it is stored, by columns.
        let stored = if op == cublasOperation_t::CUBLAS_OP_N { (rows, cols) } else { (cols, rows) };
        let (m, n) = (size(CALL, "a", stored.0)?, size(CALL, "a", stored.1)?);
        let matrix = Stored { address: a.data.device_ptr() as *mut c_void, leading };
        let (sx, sy) = (x.strided(CALL, "x")?, y.strided(CALL, "y")?);
        let mut uses = Uses::new();
        uses.reads("a", &a.data);
        uses.reads("x", &x.data);
        uses.writes("y", &y.data);
        uses.factor("alpha", &alpha);
        uses.factor("beta", &beta);
        let factors = (Aligned(alpha), Aligned(beta));
        let (alpha, beta) = (factors.0.0.pointer(), factors.1.0.pointer());
        // SAFETY: the matrix and the vectors fit each other and lie within their slices, which are in the uses. Factors on
        // the host live until the call has returned.
        unsafe {
            self.enqueue(CALL, stream, Pointers::of::<P>(), &uses, |blas, handle| {
                T::gemv(blas, handle, op, m, n, alpha, matrix, sx, beta, sy)
            })
        }
    }

    /// Adds a product of vectors to a matrix: `a += alpha x yᵀ`, without conjugates.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the shapes do not fit, or `a` is a batch; otherwise as [`gemm`](Self::gemm).
    #[doc(alias = "cublasSger")]
    #[doc(alias = "cublasCgeru")]
    pub fn ger<'x, T: Float, P: Scalar<T>>(
        &self,
        stream: &Stream,
        alpha: P,
        x: impl Into<Vector<'x, T>>,
        y: impl Into<Vector<'x, T>>,
        a: MatMut<'_, T>,
    ) -> Result<()> {
        const CALL: &str = "ger";
        let (x, y) = (x.into(), y.into());
        one(CALL, "a", a.layout.batch)?;
        let (rows, cols) = a.shape();
        for (argument, len, what, wanted) in
            [("x", x.len, "rows", rows), ("y", y.len, "columns", cols)]
        {
            if len != wanted {
                let message = format!("has {len} elements, but a has {wanted} {what}");
                return Err(Error::invalid(CALL, argument, message));
            }
        }
        if rows == 0 || cols == 0 {
            return Ok(());
        }
        let (sx, sy) = (x.strided(CALL, "x")?, y.strided(CALL, "y")?);
        let (m, n) = (size(CALL, "a", rows)?, size(CALL, "a", cols)?);
        // A row-major matrix is its transpose by columns, to which y xᵀ is added.
        let (m, n, first, second) = match a.layout.order {
            Order::ColumnMajor => (m, n, sx, sy),
            Order::RowMajor => (n, m, sy, sx),
        };
        let leading = size(CALL, "a", a.layout.leading_dimension())?;
        let matrix = Stored { address: a.data.device_ptr() as *mut c_void, leading };
        let mut uses = Uses::new();
        uses.reads("x", &x.data);
        uses.reads("y", &y.data);
        uses.writes("a", &a.data);
        uses.factor("alpha", &alpha);
        let factor = Aligned(alpha);
        let alpha = factor.0.pointer();
        // SAFETY: as in `gemv`.
        unsafe {
            self.enqueue(CALL, stream, Pointers::of::<P>(), &uses, |blas, handle| {
                T::ger(blas, handle, m, n, alpha, first, second, matrix)
            })
        }
    }
}
