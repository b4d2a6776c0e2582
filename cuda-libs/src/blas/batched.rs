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

/// Fails unless all matrices have one layout, which is returned with whether they are conjugated.
fn alike(
    call: &'static str,
    argument: &'static str,
    mut layouts: impl Iterator<Item = (Layout, bool)>,
) -> Result<Option<(Layout, bool)>> {
    let Some(first) = layouts.next() else { return Ok(None) };
    one(call, argument, first.0.batch)?;
    let key = |(layout, conjugate): (Layout, bool)| (layout.stated(), conjugate);
    match layouts.position(|other| key(other) != key(first)) {
        None => Ok(Some(first)),
        Some(at) => {
            let message = format!("has another shape or layout at index {} than at 0", at + 1);
            Err(Error::invalid(call, argument, message))
        }
    }
}

/// Products of one shape, with the addresses of the operands as cuBLAS takes them and of the results.
struct List {
    product: Product,
    count: i64,
    addresses: [Vec<u64>; 3],
}

impl List {
    /// Checks the matrices. `None` if no result has elements.
    fn new<T: Element, C: Element>(
        call: &'static str,
        a: &[Mat<'_, T>],
        b: &[Mat<'_, T>],
        c: &[MatMut<'_, C>],
    ) -> Result<Option<Self>> {
        for (argument, len) in [("a", a.len()), ("b", b.len())] {
            if len != c.len() {
                let message = format!("has {len} matrices, but c has {}", c.len());
                return Err(Error::invalid(call, argument, message));
            }
        }
        let of_a = alike(call, "a", a.iter().map(|matrix| (matrix.layout, matrix.conjugate)))?;
        let of_b = alike(call, "b", b.iter().map(|matrix| (matrix.layout, matrix.conjugate)))?;
        let of_c = alike(call, "c", c.iter().map(|matrix| (matrix.layout, false)))?;
        let (Some(of_a), Some(of_b), Some((of_c, _))) = (of_a, of_b, of_c) else {
            return Ok(None);
        };
        let product = Product::new(call, (&of_a.0, of_a.1), (&of_b.0, of_b.1), &of_c)?;
        let Some(product) = product else { return Ok(None) };
        let count = size(call, "c", c.len())?;
        let targets: Vec<u64> = c.iter().map(|matrix| matrix.data.device_ptr()).collect();
        // An operand without elements may have no address; none of it is read.
        let addresses = |matrices: &[Mat<'_, T>]| -> Vec<u64> {
            let all = matrices.iter().map(|matrix| matrix.data.device_ptr()).zip(&targets);
            all.map(|(address, target)| if address == 0 { *target } else { address }).collect()
        };
        let (a, b) = (addresses(a), addresses(b));
        let (first, second) = if product.exchanged { (b, a) } else { (a, b) };
        Ok(Some(Self { product, count, addresses: [first, second, targets] }))
    }
}

/// Adds the memory of matrices.
fn add<'a, T: Element, C: Element>(
    uses: &mut Uses<'a>,
    a: &[Mat<'a, T>],
    b: &[Mat<'a, T>],
    c: &[MatMut<'a, C>],
) {
    a.iter().for_each(|matrix| uses.reads("a", &matrix.data));
    b.iter().for_each(|matrix| uses.reads("b", &matrix.data));
    c.iter().for_each(|matrix| uses.writes("c", &matrix.data));
}

/// Products of one shape among those of [`Blas::gemm_grouped`].
#[derive(Debug)]
pub struct Group<'a, T: Multiply<T>> {
    /// The factor of the products.
    pub alpha: T::Scale,
    /// The first operands, all of one shape and layout.
    pub a: Vec<Mat<'a, T>>,
    /// The second operands, as many.
    pub b: Vec<Mat<'a, T>>,
    /// The factor of the old results.
    pub beta: T::Scale,
    /// The results, as many.
    pub c: Vec<MatMut<'a, T>>,
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
        const CALL: &str = "gemm_batched";
        let Some(List { product, count, addresses }) = List::new(CALL, a, b, c)? else {
            return Ok(());
        };
        self.is_own(CALL, stream)?;
        let list;
        let mut uses = Uses::new();
        add(&mut uses, a, b, c);
        uses.factor("alpha", &alpha);
        uses.factor("beta", &beta);
        // Before the addresses are uploaded.
        self.may_use(CALL, &uses)?;
        list = DeviceBuffer::from_slice(stream, &addresses.concat())?;
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
            self.enqueue(CALL, stream, Pointers::of::<P>(), &uses, |blas, handle| {
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

    /// Multiplies matrices that lie anywhere, in groups of one shape each: `c[i] = alpha a[i] b[i] + beta c[i]` of each
    /// group, in one call. Real numbers; the factors are numbers.
    ///
    /// # Errors
    /// As [`gemm_batched`](Self::gemm_batched), and [`Error::Missing`] before cuBLAS 12.5.
    #[doc(alias = "cublasGemmGroupedBatchedEx")]
    pub fn gemm_grouped<T: Multiply<T>>(
        &self,
        stream: &Stream,
        groups: &mut [Group<'_, T>],
    ) -> Result<()> {
        const CALL: &str = "gemm_grouped";
        if T::TYPE.is_complex() {
            return Err(Error::invalid(
                CALL,
                "groups",
                "have complex numbers, which cuBLAS does not group",
            ));
        }
        self.is_own(CALL, stream)?;
        let list;
        let mut uses = Uses::new();
        let (mut addresses, mut ops) =
            ([Vec::new(), Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        // Rows, columns, the inner dimension, the leading dimensions, and the number of matrices.
        let mut sizes: [Vec<i64>; 7] = Default::default();
        let (mut alphas, mut betas) = (Vec::new(), Vec::new());
        for Group { alpha, a, b, beta, c } in groups.iter() {
            add(&mut uses, a, b, c);
            let Some(group) = List::new(CALL, a, b, c)? else { continue };
            let Product { rows, cols, inner, first, second, .. } = group.product;
            let [lda, ldb, ldc] = group.product.leading_dimensions();
            let all = [rows, cols, inner, lda, ldb, ldc, group.count];
            sizes.iter_mut().zip(all).for_each(|(list, size)| list.push(size));
            ops.iter_mut().zip([first.op, second.op]).for_each(|(list, op)| list.push(op));
            let lists = addresses.iter_mut().zip(group.addresses);
            lists.for_each(|(list, group)| list.extend(group));
            alphas.push(*alpha);
            betas.push(*beta);
        }
        let count = alphas.len();
        if count == 0 {
            return Ok(());
        }
        // Before the addresses are uploaded.
        self.may_use(CALL, &uses)?;
        let matrices = addresses[0].len();
        list = DeviceBuffer::from_slice(stream, &addresses.concat())?;
        uses.reads("addresses", &list.as_slice());
        let part = |index: usize| list.device_ptr() + (index * matrices * size_of::<u64>()) as u64;
        let first = part(0) as *const *const c_void;
        let second = part(1) as *const *const c_void;
        let target = part(2) as *const *mut c_void;
        let [op_a, op_b] = ops.each_ref().map(Vec::as_ptr);
        let (alpha, beta) = (alphas.as_ptr().cast(), betas.as_ptr().cast());
        let (ty, compute) = (T::TYPE.raw, <T::Compute as Compute<T, T>>::TYPE);
        let groups = size(CALL, "groups", count)?;
        let is_narrow = narrow(&[groups]) && sizes.iter().all(|sizes| narrow(sizes));
        let short =
            sizes.each_ref().map(|sizes| sizes.iter().map(|size| *size as i32).collect::<Vec<_>>());
        // SAFETY: as of `gemm_batched`; the lists on the host have an element for each group, and live until the call has
        // returned.
        unsafe {
            self.enqueue(CALL, stream, Pointers::Host, &uses, |blas, handle| {
                if is_narrow {
                    let [m, n, k, lda, ldb, ldc, counts] = short.each_ref().map(Vec::as_ptr);
                    blas.cublasGemmGroupedBatchedEx(
                        handle,
                        op_a,
                        op_b,
                        m,
                        n,
                        k,
                        alpha,
                        first,
                        ty,
                        lda,
                        second,
                        ty,
                        ldb,
                        beta,
                        target,
                        ty,
                        ldc,
                        groups as i32,
                        counts,
                        compute,
                    )
                } else {
                    let [m, n, k, lda, ldb, ldc, counts] = sizes.each_ref().map(Vec::as_ptr);
                    blas.cublasGemmGroupedBatchedEx_64(
                        handle, op_a, op_b, m, n, k, alpha, first, ty, lda, second, ty, ldb, beta,
                        target, ty, ldc, groups, counts, compute,
                    )
                }
            })
        }
    }
}
