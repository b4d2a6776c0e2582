//! Triangles: solving by one, and products of a matrix with its transpose.

use std::ffi::c_void;

use cuda_safe::Stream;
use cuda_sys::cublas::{cublasDiagType_t, cublasFillMode_t, cublasOperation_t, cublasSideMode_t};

use super::Blas;
use super::call::{Pointers, Uses, one, size};
use super::gemm::Operand;
use super::raw::{Float, Stored};
use super::scalar::{Aligned, Scalar};
use crate::error::{Error, Result};
use crate::mat::{Mat, MatMut, Order};

/// The triangle of a matrix that is used. The other one is neither read nor written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Triangle {
    /// The diagonal, and what is below it.
    Lower,
    /// The diagonal, and what is above it.
    Upper,
}

impl Triangle {
    /// Returns the triangle of the matrix as cuBLAS sees it, by columns.
    fn stored(self, order: Order) -> cublasFillMode_t {
        match (self, order) {
            (Self::Lower, Order::ColumnMajor) | (Self::Upper, Order::RowMajor) => {
                cublasFillMode_t::CUBLAS_FILL_MODE_LOWER
            }
            _ => cublasFillMode_t::CUBLAS_FILL_MODE_UPPER,
        }
    }
}

/// The side at which the triangle stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// `a x = alpha b`.
    Left,
    /// `x a = alpha b`.
    Right,
}

/// The diagonal of a triangle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Diagonal {
    /// Read from the matrix.
    Stored,
    /// Ones; that of the matrix is not read.
    Unit,
}

impl Blas {
    /// Solves `a x = alpha b`, or `x a = alpha b`, for x, which replaces `b`. `a` is square; only the `triangle` of it is
    /// read. It is not tested for zeros on the diagonal.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the shapes do not fit, or a matrix is a batch; otherwise as [`gemm`](Self::gemm).
    #[doc(alias = "cublasStrsm")]
    pub fn trsm<T: Float, P: Scalar<T>>(
        &self,
        stream: &Stream,
        (side, triangle, diagonal): (Side, Triangle, Diagonal),
        alpha: P,
        a: Mat<'_, T>,
        b: MatMut<'_, T>,
    ) -> Result<()> {
        const CALL: &str = "trsm";
        one(CALL, "a", a.layout.batch)?;
        one(CALL, "b", b.layout.batch)?;
        square(CALL, "a", a.shape())?;
        let (rows, cols) = b.shape();
        let (what, len) = match side {
            Side::Left => ("rows", rows),
            Side::Right => ("columns", cols),
        };
        if len != a.layout.rows {
            let message = format!("has {len} {what}, but a is {} x {0}", a.layout.rows);
            return Err(Error::invalid(CALL, "b", message));
        }
        if rows == 0 || cols == 0 {
            return Ok(());
        }
        // The transpose of a row-major b is solved by the transpose of a at the other side, by columns.
        let transposed = b.layout.order == Order::RowMajor;
        let (a_layout, b_layout) = match transposed {
            true => (a.layout.transposed(), b.layout.transposed()),
            false => (a.layout, b.layout),
        };
        let left = (side == Side::Left) != transposed;
        let side = match left {
            true => cublasSideMode_t::CUBLAS_SIDE_LEFT,
            false => cublasSideMode_t::CUBLAS_SIDE_RIGHT,
        };
        let diagonal = match diagonal {
            Diagonal::Stored => cublasDiagType_t::CUBLAS_DIAG_NON_UNIT,
            Diagonal::Unit => cublasDiagType_t::CUBLAS_DIAG_UNIT,
        };
        // What is stored is the same, however it is viewed.
        let fill = triangle.stored(a.layout.order);
        let Operand { op, leading, .. } = Operand::of(CALL, "a", &a_layout, (false, a.conjugate))?;
        let (m, n) = (size(CALL, "b", b_layout.rows)?, size(CALL, "b", b_layout.cols)?);
        let triangle = Stored { address: a.data.device_ptr() as *mut c_void, leading };
        let leading = size(CALL, "b", b_layout.leading_dimension())?;
        let target = Stored { address: b.data.device_ptr() as *mut c_void, leading };
        let mut uses = Uses::new();
        uses.reads("a", &a.data);
        uses.writes("b", &b.data);
        uses.factor("alpha", &alpha);
        let factor = Aligned(alpha);
        let alpha = factor.0.pointer();
        // SAFETY: the matrices fit each other and lie within their slices, which are in the uses. A factor on the host lives
        // until the call has returned.
        unsafe {
            self.enqueue(CALL, stream, Pointers::of::<P>(), &uses, |blas, handle| {
                T::trsm(blas, handle, (side, fill, op, diagonal), m, n, alpha, triangle, target)
            })
        }
    }

    /// Multiplies a matrix with its transpose, without conjugates: `c = alpha a aᵀ + beta c`. Only the `triangle` of `c` is
    /// read and written.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the shapes do not fit, or a matrix is a batch or conjugated; otherwise as
    /// [`gemm`](Self::gemm).
    #[doc(alias = "cublasSsyrk")]
    pub fn syrk<T: Float, P: Scalar<T>>(
        &self,
        stream: &Stream,
        triangle: Triangle,
        alpha: P,
        a: Mat<'_, T>,
        beta: P,
        c: MatMut<'_, T>,
    ) -> Result<()> {
        const CALL: &str = "syrk";
        one(CALL, "a", a.layout.batch)?;
        one(CALL, "c", c.layout.batch)?;
        if a.conjugate {
            return Err(Error::invalid(CALL, "a", "is conjugated, and the product is not"));
        }
        square(CALL, "c", c.shape())?;
        let (n, k) = a.shape();
        if c.layout.rows != n {
            let message = format!("is {} x {0}, but a has {n} rows", c.layout.rows);
            return Err(Error::invalid(CALL, "c", message));
        }
        if n == 0 {
            return Ok(());
        }
        let fill = triangle.stored(c.layout.order);
        let Operand { op, leading, .. } = Operand::of(CALL, "a", &a.layout, (false, false))?;
        // An operand without elements may have no address, and is as good as one of n rows and no columns.
        let (of_a, op, leading) = match k {
            0 => (c.data.device_ptr(), cublasOperation_t::CUBLAS_OP_N, size(CALL, "a", n)?),
            _ => (a.data.device_ptr(), op, leading),
        };
        let (n, k) = (size(CALL, "a", n)?, size(CALL, "a", k)?);
        let matrix = Stored { address: of_a as *mut c_void, leading };
        let leading = size(CALL, "c", c.layout.leading_dimension())?;
        let target = Stored { address: c.data.device_ptr() as *mut c_void, leading };
        let mut uses = Uses::new();
        uses.reads("a", &a.data);
        uses.writes("c", &c.data);
        uses.factor("alpha", &alpha);
        uses.factor("beta", &beta);
        let factors = (Aligned(alpha), Aligned(beta));
        let (alpha, beta) = (factors.0.0.pointer(), factors.1.0.pointer());
        // SAFETY: as in `trsm`.
        unsafe {
            self.enqueue(CALL, stream, Pointers::of::<P>(), &uses, |blas, handle| {
                T::syrk(blas, handle, fill, op, n, k, alpha, matrix, beta, target)
            })
        }
    }
}

/// Fails unless a matrix is square.
fn square(call: &'static str, argument: &'static str, (rows, cols): (usize, usize)) -> Result<()> {
    if rows == cols {
        return Ok(());
    }
    Err(Error::invalid(call, argument, format!("is {rows} x {cols}, but must be square")))
}
