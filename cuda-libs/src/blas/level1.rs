//! Operations on vectors.

use std::ffi::c_void;

use cuda_safe::{DeviceBuffer, DeviceSliceMut, Stream};

use super::Blas;
use super::call::{Pointers, Uses, size};
use super::raw::{Numeric, Strided};
use super::scalar::{Aligned, Scalar};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::mat::{Vector, VectorMut};

impl<T: Element> Vector<'_, T> {
    pub(super) fn strided(&self, call: &'static str, name: &'static str) -> Result<Strided> {
        let address = self.data.device_ptr() as *mut c_void;
        Ok(Strided { address, step: size(call, name, self.step)? })
    }
}

impl<T: Element> VectorMut<'_, T> {
    pub(super) fn strided(&self, call: &'static str, name: &'static str) -> Result<Strided> {
        let address = self.data.device_ptr() as *mut c_void;
        Ok(Strided { address, step: size(call, name, self.step)? })
    }
}

/// Fails unless the vectors have one length, which is returned.
fn same_length(call: &'static str, x: usize, y: usize) -> Result<i64> {
    if x == y {
        return size(call, "x", x);
    }
    Err(Error::invalid(call, "y", format!("has {y} elements, but x has {x}")))
}

impl Blas {
    /// Returns the sum of the products of elements, without conjugates. Waits for it.
    ///
    /// # Errors
    /// As [`dot_into`](Self::dot_into), and [`DeviceBuffer::to_vec`].
    pub fn dot<'x, T: Numeric>(
        &self,
        stream: &Stream,
        x: impl Into<Vector<'x, T>>,
        y: impl Into<Vector<'x, T>>,
    ) -> Result<T> {
        let (x, y) = (x.into(), y.into());
        self.result("dot", stream, |out| self.sum("dot", false, stream, x, y, out.into()))
    }

    /// Writes the sum of the products of elements, without conjugates, to the first element of `out`. It is 0 of vectors
    /// without elements.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the lengths differ or `out` is empty; otherwise as [`gemm`](Self::gemm).
    #[doc(alias = "cublasDotEx")]
    #[doc(alias = "cublasSdot")]
    pub fn dot_into<'x, T: Numeric>(
        &self,
        stream: &Stream,
        x: impl Into<Vector<'x, T>>,
        y: impl Into<Vector<'x, T>>,
        out: impl Into<DeviceSliceMut<'x, T>>,
    ) -> Result<()> {
        self.sum("dot", false, stream, x.into(), y.into(), out.into())
    }

    /// Writes the sum of the products of the conjugates of x with y to the first element of `out`.
    ///
    /// # Errors
    /// As [`dot_into`](Self::dot_into).
    #[doc(alias = "cublasCdotc")]
    pub fn conjugate_dot_into<'x, T: Numeric>(
        &self,
        stream: &Stream,
        x: impl Into<Vector<'x, T>>,
        y: impl Into<Vector<'x, T>>,
        out: impl Into<DeviceSliceMut<'x, T>>,
    ) -> Result<()> {
        self.sum("conjugate_dot", true, stream, x.into(), y.into(), out.into())
    }

    fn sum<T: Numeric>(
        &self,
        call: &'static str,
        conjugate: bool,
        stream: &Stream,
        x: Vector<'_, T>,
        y: Vector<'_, T>,
        out: DeviceSliceMut<'_, T>,
    ) -> Result<()> {
        let n = same_length(call, x.len, y.len)?;
        let out = self.first(call, out)?;
        if n == 0 {
            return self.zero(call, stream, out);
        }
        let (sx, sy) = (x.strided(call, "x")?, y.strided(call, "y")?);
        let mut uses = Uses::new();
        uses.reads("x", &x.data);
        uses.reads("y", &y.data);
        uses.writes("out", &out);
        let to = out.device_ptr() as *mut c_void;
        // SAFETY: the vectors have n elements within their slices, and `out` has one, all of which are in the uses.
        unsafe {
            self.enqueue(call, stream, Pointers::Device, &uses, |blas, handle| {
                T::dot(blas, handle, conjugate, n, sx, sy, to)
            })
        }
    }

    /// Returns the Euclidean norm. Waits for it.
    ///
    /// # Errors
    /// As [`nrm2_into`](Self::nrm2_into), and [`DeviceBuffer::to_vec`].
    pub fn nrm2<'x, T: Numeric>(
        &self,
        stream: &Stream,
        x: impl Into<Vector<'x, T>>,
    ) -> Result<T::Real> {
        let x = x.into();
        self.result("nrm2", stream, |out| self.norm(stream, x, out.into()))
    }

    /// Writes the Euclidean norm to the first element of `out`. It is 0 of a vector without elements.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `out` is empty; otherwise as [`gemm`](Self::gemm).
    #[doc(alias = "cublasNrm2Ex")]
    #[doc(alias = "cublasSnrm2")]
    pub fn nrm2_into<'x, T: Numeric>(
        &self,
        stream: &Stream,
        x: impl Into<Vector<'x, T>>,
        out: impl Into<DeviceSliceMut<'x, T::Real>>,
    ) -> Result<()> {
        self.norm(stream, x.into(), out.into())
    }

    fn norm<T: Numeric>(
        &self,
        stream: &Stream,
        x: Vector<'_, T>,
        out: DeviceSliceMut<'_, T::Real>,
    ) -> Result<()> {
        const CALL: &str = "nrm2";
        let out = self.first(CALL, out)?;
        let n = size(CALL, "x", x.len)?;
        if n == 0 {
            return self.zero(CALL, stream, out);
        }
        let sx = x.strided(CALL, "x")?;
        let mut uses = Uses::new();
        uses.reads("x", &x.data);
        uses.writes("out", &out);
        let to = out.device_ptr() as *mut c_void;
        // SAFETY: the vector has n elements within its slice, and `out` has one, all of which are in the uses.
        unsafe {
            self.enqueue(CALL, stream, Pointers::Device, &uses, |blas, handle| {
                T::nrm2(blas, handle, n, sx, to)
            })
        }
    }

    /// Adds a multiple of a vector: `y += alpha x`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the lengths differ; otherwise as [`gemm`](Self::gemm).
    #[doc(alias = "cublasAxpyEx")]
    #[doc(alias = "cublasSaxpy")]
    pub fn axpy<'x, T: Numeric, P: Scalar<T::Factor>>(
        &self,
        stream: &Stream,
        alpha: P,
        x: impl Into<Vector<'x, T>>,
        y: impl Into<VectorMut<'x, T>>,
    ) -> Result<()> {
        const CALL: &str = "axpy";
        let (x, y) = (x.into(), y.into());
        let n = same_length(CALL, x.len, y.len)?;
        if n == 0 {
            return Ok(());
        }
        let (sx, sy) = (x.strided(CALL, "x")?, y.strided(CALL, "y")?);
        let mut uses = Uses::new();
        uses.reads("x", &x.data);
        uses.writes("y", &y.data);
        uses.factor("alpha", &alpha);
        let alpha = Aligned(alpha);
        let factor = alpha.0.pointer();
        // SAFETY: the vectors have n elements within their slices, which are in the uses, as is a factor on the device; one
        // on the host lives until the call has returned.
        unsafe {
            self.enqueue(CALL, stream, Pointers::of::<P>(), &uses, |blas, handle| {
                T::axpy(blas, handle, n, factor, sx, sy)
            })
        }
    }

    /// Multiplies a vector by a factor: `x *= alpha`.
    ///
    /// # Errors
    /// As [`gemm`](Self::gemm).
    #[doc(alias = "cublasScalEx")]
    #[doc(alias = "cublasSscal")]
    pub fn scal<'x, T: Numeric, P: Scalar<T::Factor>>(
        &self,
        stream: &Stream,
        alpha: P,
        x: impl Into<VectorMut<'x, T>>,
    ) -> Result<()> {
        const CALL: &str = "scal";
        let x = x.into();
        let n = size(CALL, "x", x.len)?;
        if n == 0 {
            return Ok(());
        }
        let sx = x.strided(CALL, "x")?;
        let mut uses = Uses::new();
        uses.writes("x", &x.data);
        uses.factor("alpha", &alpha);
        let alpha = Aligned(alpha);
        let factor = alpha.0.pointer();
        // SAFETY: the vector has n elements within its slice, which is in the uses, as is a factor on the device; one on the
        // host lives until the call has returned.
        unsafe {
            self.enqueue(CALL, stream, Pointers::of::<P>(), &uses, |blas, handle| {
                T::scal(blas, handle, n, factor, sx)
            })
        }
    }

    /// Returns the first element of memory for a result.
    fn first<'x, T: Element>(
        &self,
        call: &'static str,
        out: DeviceSliceMut<'x, T>,
    ) -> Result<DeviceSliceMut<'x, T>> {
        if out.is_empty() {
            return Err(Error::invalid(call, "out", "has no element"));
        }
        Ok(out.split_at_mut(1)?.0)
    }

    fn zero<T: Element>(
        &self,
        call: &'static str,
        stream: &Stream,
        mut out: DeviceSliceMut<'_, T>,
    ) -> Result<()> {
        self.is_own(call, stream)?;
        Ok(out.fill(stream, T::zeroed())?)
    }

    /// Returns a number that `run` writes to the device.
    fn result<T: Element>(
        &self,
        call: &'static str,
        stream: &Stream,
        run: impl FnOnce(&mut DeviceBuffer<T>) -> Result<()>,
    ) -> Result<T> {
        self.is_own(call, stream)?;
        if stream.is_recording() {
            let message = "records, so there is no number to return yet; write it to device memory";
            return Err(Error::invalid(call, "stream", message));
        }
        let mut out = DeviceBuffer::zeroed(stream, 1)?;
        run(&mut out)?;
        let mut number = [T::zeroed()];
        out.download(stream, &mut number)?;
        let [number] = number;
        Ok(number)
    }
}
