//! Products of matrices that lie anywhere.

use std::ffi::c_void;

use cuda_safe::{DeviceBuffer, Stream};
use cuda_sys::cublas::cublasGemmAlgo_t;

use super::Blas;
use super::call::{Pointers, Uses, one, size};
use super::compute::{Compute, Multiply};
use super::gemm::Product;
use super::raw::narrow;
use super::scalar::{Aligned, Scalar};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::mat::{Layout, Mat, MatMut};

const CALL: &str = "gemm_batched";

/// Fails unless all matrices have one layout, which is returned with whether they are conjugated.
fn alike(
    argument: &'static str,
    mut layouts: impl Iterator<Item = (Layout, bool)>,
) -> Result<Option<(Layout, bool)>> {
    let Some(first) = layouts.next() else { return Ok(None) };
    one(CALL, argument, first.0.batch)?;
    let key = |(layout, conjugate): (Layout, bool)| {
        (
            layout.rows,
            layout.cols,
            layout.order,
            layout.leading_dimension(),
            layout.batch,
            conjugate,
        )
    };
    match layouts.position(|other| key(other) != key(first)) {
        None => Ok(Some(first)),
        Some(at) => {
            let message = format!("has another shape or layout at index {} than at 0", at + 1);
            Err(Error::invalid(CALL, argument, message))
        }
    }
}

impl Blas {
    /// Multiplies matrices that lie anywhere: `c[i] = alpha a[i] b[i] + beta c[i]`. All of `a` have one shape and layout, and
    /// so have `b` and `c`.
    ///
    /// The addresses are uploaded before. If the matrices of a batch lie at one distance from each other,
    /// [`gemm`](Self::gemm) with [`Layout::batch`] is faster.
    ///
    /// # Errors
    /// As [`gemm`](Self::gemm), and [`Error::Invalid`] if the shapes or the numbers of matrices differ.
    #[doc(alias = "cublasGemmBatchedEx")]
    pub fn gemm_batched<T: Multiply<C>, C: Element, P: Scalar<T::Scale>>(
        &self,
        stream: &Stream,
        alpha: P,
        a: &[Mat<'_, T>],
        b: &[Mat<'_, T>],
        beta: P,
        c: &mut [MatMut<'_, C>],
    ) -> Result<()> {
        for (argument, len) in [("a", a.len()), ("b", b.len())] {
            if len != c.len() {
                let message = format!("has {len} matrices, but c has {}", c.len());
                return Err(Error::invalid(CALL, argument, message));
            }
        }
        let of_a = alike("a", a.iter().map(|matrix| (matrix.layout, matrix.conjugate)))?;
        let of_b = alike("b", b.iter().map(|matrix| (matrix.layout, matrix.conjugate)))?;
        let of_c = alike("c", c.iter().map(|matrix| (matrix.layout, false)))?;
        let (Some(of_a), Some(of_b), Some((of_c, _))) = (of_a, of_b, of_c) else { return Ok(()) };
        let product = Product::new(CALL, (&of_a.0, of_a.1), (&of_b.0, of_b.1), &of_c)?;
        let Some(product) = product else { return Ok(()) };
        let count = size(CALL, "c", c.len())?;
        let targets: Vec<u64> = c.iter().map(|matrix| matrix.data.device_ptr()).collect();
        // An operand without elements may have no address; none of it is read.
        let addresses = |matrices: &[Mat<'_, T>]| -> Vec<u64> {
            let all = matrices.iter().map(|matrix| matrix.data.device_ptr()).zip(&targets);
            all.map(|(address, target)| if address == 0 { *target } else { address }).collect()
        };
        let (a_list, b_list) = (addresses(a), addresses(b));
        let (first, second) = if product.exchanged { (b_list, a_list) } else { (a_list, b_list) };
        self.is_own(CALL, stream)?;
        let list;
        let mut uses = Uses::new();
        a.iter().for_each(|matrix| uses.reads("a", &matrix.data));
        b.iter().for_each(|matrix| uses.reads("b", &matrix.data));
        c.iter().for_each(|matrix| uses.writes("c", &matrix.data));
        uses.factor("alpha", &alpha);
        uses.factor("beta", &beta);
        // Before the addresses are uploaded.
        self.may_use(CALL, &uses)?;
        list = DeviceBuffer::from_slice(stream, &[first, second, targets].concat())?;
        uses.reads("addresses", &list.as_slice());
        let part = |index: usize| list.device_ptr() + (index * c.len() * size_of::<u64>()) as u64;
        let first = part(0) as *const *const c_void;
        let second = part(1) as *const *const c_void;
        let target = part(2) as *const *mut c_void;
        let factors = (Aligned(alpha), Aligned(beta));
        let (alpha, beta) = (factors.0.0.pointer(), factors.1.0.pointer());
        let [lda, ldb, ldc] = product.leading_dimensions();
        let Product { rows: m, cols: n, inner: k, first: op_a, second: op_b, .. } = product;
        let (ty, result) = (T::TYPE.raw, C::TYPE.raw);
        let compute = <T::Compute as Compute<T, C>>::TYPE;
        let algorithm = cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT;
        // SAFETY: the shapes fit the matrices, which lie within their slices, and whose memory is in the uses, as is the
        // list of their addresses. Each result is borrowed exclusively, so none overlap. Factors on the host live until
        // the call has returned.
        unsafe {
            self.enqueue(CALL, stream, Pointers::of::<P>(), uses, |blas, handle| {
                if narrow(&[m, n, k, lda, ldb, ldc, count]) {
                    blas.cublasGemmBatchedEx(
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
                        second,
                        ty,
                        ldb as i32,
                        beta,
                        target,
                        result,
                        ldc as i32,
                        count as i32,
                        compute,
                        algorithm,
                    )
                } else {
                    blas.cublasGemmBatchedEx_64(
                        handle, op_a.op, op_b.op, m, n, k, alpha, first, ty, lda, second, ty, ldb,
                        beta, target, result, ldc, count, compute, algorithm,
                    )
                }
            })
        }
    }
}
