//! Gradients: products as operations of a [`Recorder`], with the adjoints that calculus knows.
//!
//! Each function runs its operation and records it, if gradients flow through it. The gradients are computed by products of
//! the same library.

#[cfg(feature = "cufft")]
pub mod fft;
#[cfg(feature = "cublaslt")]
pub mod lt;

use cuda_safe::{DeviceBuffer, DeviceSlice, DeviceSliceMut, Stream};
use tape::{Adjoint, CustomOp, Differentiable, Handle, Primal, Recorder};

use crate::blas::{Blas, Compute, Float, Multiply};
use crate::error::{Error, Result};
use crate::mat::{Layout, Mat, MatMut, Vector, VectorMut};

/// A type with gradients of products: `f32` and `f64`. The trait is sealed.
pub trait Real:
    Float
    + Multiply<Self, Scale = Self, Compute: Compute<Self, Self>>
    + Differentiable<Gradient = Self>
    + sealed::Constants
{
}

mod sealed {
    pub trait Constants: Copy + Send {
        const ZERO: Self;
        const HALF: Self;
        const ONE: Self;
        const TWO: Self;
    }
    impl Constants for f32 {
        const ZERO: Self = 0.0;
        const HALF: Self = 0.5;
        const ONE: Self = 1.0;
        const TWO: Self = 2.0;
    }
    impl Constants for f64 {
        const ZERO: Self = 0.0;
        const HALF: Self = 0.5;
        const ONE: Self = 1.0;
        const TWO: Self = 2.0;
    }
}

impl Real for f32 {}
impl Real for f64 {}

/// A matrix or a vector that an adjoint reads, or whose gradient it adds to.
struct Operand<T> {
    handle: Handle<T>,
    layout: Layout,
}

/// `c = alpha a b`.
struct Gemm<T> {
    blas: Blas,
    alpha: T,
    a: Operand<T>,
    b: Operand<T>,
    c: Operand<T>,
}

/// `y = alpha a x`.
struct Gemv<T> {
    blas: Blas,
    alpha: T,
    a: Operand<T>,
    x: (Handle<T>, usize, usize),
    y: (Handle<T>, usize, usize),
}

/// `out = x · y`.
struct Dot<T> {
    blas: Blas,
    x: (Handle<T>, usize, usize),
    y: (Handle<T>, usize, usize),
    out: Handle<T>,
}

/// Multiplies matrices, or batches of them, as [`Blas::gemm`] does with a beta of 0: `c = alpha a b`.
///
/// # Errors
/// As [`Blas::gemm`], and [`Error::Invalid`] if `c` is not all of its memory from the first to the last element, because
/// the gradient of the rest would not be replaced.
pub fn gemm<T: Real>(
    recorder: &mut Recorder<'_>,
    blas: &Blas,
    alpha: T,
    a: Mat<'_, T>,
    b: Mat<'_, T>,
    c: MatMut<'_, T>,
) -> Result<()> {
    for (argument, batch) in [("a", a.layout.batch), ("b", b.layout.batch)] {
        if batch != c.layout.batch {
            let message = format!(
                "is a batch of {batch} matrices, but c of {}; a gradient is not the sum over a batch",
                c.layout.batch
            );
            return Err(Error::invalid("gemm", argument, message));
        }
    }
    covers("gemm", "c", &c.layout)?;
    for (argument, layout) in [("a", &a.layout), ("b", &b.layout)] {
        apart("gemm", argument, layout)?;
    }
    let mut custom = recorder.custom();
    let op = Gemm {
        blas: blas.clone(),
        alpha,
        a: Operand { handle: custom.reads(a.data, Primal::Entry)?, layout: a.layout },
        b: Operand { handle: custom.reads(b.data, Primal::Entry)?, layout: b.layout },
        c: Operand {
            handle: custom.overwrites(c.data.as_slice(), Primal::None)?,
            layout: c.layout,
        },
    };
    Ok(custom.run(op, |stream| Ok(blas.gemm(stream, alpha, a, b, T::ZERO, c)?))?)
}

/// Multiplies a matrix with a vector, as [`Blas::gemv`] does with a beta of 0: `y = alpha a x`.
///
/// # Errors
/// As [`Blas::gemv`], and [`Error::Invalid`] if `y` has gaps or the matrix no elements.
pub fn gemv<'x, T: Real>(
    recorder: &mut Recorder<'_>,
    blas: &Blas,
    alpha: T,
    a: Mat<'_, T>,
    x: impl Into<Vector<'x, T>>,
    y: impl Into<VectorMut<'x, T>>,
) -> Result<()> {
    let (x, y) = (x.into(), y.into());
    dense("gemv", "y", y.step)?;
    apart("gemv", "a", &a.layout)?;
    if a.layout.rows == 0 || a.layout.cols == 0 {
        return Err(Error::invalid("gemv", "a", "has no elements, so y would be unchanged"));
    }
    let mut custom = recorder.custom();
    let op = Gemv {
        blas: blas.clone(),
        alpha,
        a: Operand { handle: custom.reads(a.data, Primal::Entry)?, layout: a.layout },
        x: (custom.reads(x.data, Primal::Entry)?, x.len, x.step),
        y: (custom.overwrites(y.data.as_slice(), Primal::None)?, y.len, y.step),
    };
    Ok(custom.run(op, |stream| Ok(blas.gemv(stream, alpha, a, x, T::ZERO, y)?))?)
}

/// Writes the sum of the products of elements to the first element of `out`, as [`Blas::dot_into`] does.
///
/// # Errors
/// As [`Blas::dot_into`], and [`Error::Invalid`] unless `out` has one element.
pub fn dot<'x, T: Real>(
    recorder: &mut Recorder<'_>,
    blas: &Blas,
    x: impl Into<Vector<'x, T>>,
    y: impl Into<Vector<'x, T>>,
    out: impl Into<DeviceSliceMut<'x, T>>,
) -> Result<()> {
    let (x, y, out) = (x.into(), y.into(), out.into());
    if out.len() != 1 {
        return Err(Error::invalid("dot", "out", format!("has {} elements, not 1", out.len())));
    }
    let mut custom = recorder.custom();
    let op = Dot {
        blas: blas.clone(),
        x: (custom.reads(x.data, Primal::Entry)?, x.len, x.step),
        y: (custom.reads(y.data, Primal::Entry)?, y.len, y.step),
        out: custom.overwrites(out.as_slice(), Primal::None)?,
    };
    Ok(custom.run(op, |stream| Ok(blas.dot_into(stream, x, y, out)?))?)
}

/// Fails unless the elements of a result are all those of its memory.
fn covers(call: &'static str, argument: &'static str, layout: &Layout) -> Result<()> {
    let elements = layout.rows.checked_mul(layout.cols);
    let elements = elements.and_then(|elements| elements.checked_mul(layout.batch));
    if layout.span() == elements {
        return Ok(());
    }
    let message = "has gaps between its rows, columns or matrices, where the gradient would stay; use packed memory";
    Err(Error::invalid(call, argument, message))
}

/// Fails for an operand whose matrices overlap: their gradients would be added to by several threads at once.
fn apart(call: &'static str, argument: &'static str, layout: &Layout) -> Result<()> {
    layout.apart().map_err(|error| Error::invalid(call, argument, format!("overlaps: {error}")))
}

fn dense(call: &'static str, argument: &'static str, step: usize) -> Result<()> {
    if step == 1 {
        return Ok(());
    }
    let message = format!("has a step of {step}, and gaps, where the gradient would stay");
    Err(Error::invalid(call, argument, message))
}

/// Returns the gradient of a result; `None` if it is zero.
fn of_result<'p, T: Real>(
    pass: &'p Adjoint<'_>,
    handle: Handle<T>,
) -> cuda_safe::Result<Option<DeviceSlice<'p, T>>> {
    pass.gradient(handle)?.as_slice()
}

/// Adds to the gradient of an operand, if it is wanted. A gradient is written, so it is borrowed from the pass
/// exclusively; what is read meanwhile is copied.
fn add<T: Real>(
    pass: &mut Adjoint<'_>,
    target: Handle<T>,
    from: Handle<T>,
    with: Handle<T>,
    run: impl FnOnce(
        &Stream,
        DeviceSlice<'_, T>,
        DeviceSlice<'_, T>,
        DeviceSliceMut<'_, T>,
    ) -> Result<()>,
) -> cuda_safe::Result<()> {
    if !pass.wants(target) {
        return Ok(());
    }
    let stream = pass.stream().clone();
    let Some(gradient) = of_result(pass, from)? else { return Ok(()) };
    let mut incoming = DeviceBuffer::<T>::zeroed(&stream, gradient.len())?;
    incoming.copy_from(&stream, gradient)?;
    let other = copied(pass, &stream, with)?;
    let Some(target) = pass.gradient_mut(target)? else { return Ok(()) };
    Ok(run(&stream, incoming.as_slice(), other.as_slice(), target)?)
}

/// Returns a copy of a value that was kept.
fn copied<T: Real>(
    pass: &Adjoint<'_>,
    stream: &Stream,
    what: Handle<T>,
) -> cuda_safe::Result<DeviceBuffer<T>> {
    let value = pass.value(what)?;
    let mut copy = DeviceBuffer::<T>::zeroed(stream, value.len())?;
    value.copy_to(stream, &mut copy)?;
    Ok(copy)
}

impl<T: Real> CustomOp for Gemm<T> {
    fn name(&self) -> &str {
        "gemm"
    }

    /// The gradient of a is that of c times the transpose of b; that of b is the transpose of a times that of c.
    fn backward(&mut self, pass: &mut Adjoint<'_>) -> cuda_safe::Result<()> {
        let Self { blas, alpha, a, b, c } = self;
        add(pass, a.handle, c.handle, b.handle, |stream, incoming, value, target| {
            let incoming = Mat::with(incoming, c.layout)?;
            let value = Mat::with(value, b.layout)?.transposed();
            blas.gemm(stream, *alpha, incoming, value, T::ONE, MatMut::with(target, a.layout)?)
        })?;
        add(pass, b.handle, c.handle, a.handle, |stream, incoming, value, target| {
            let incoming = Mat::with(incoming, c.layout)?;
            let value = Mat::with(value, a.layout)?.transposed();
            blas.gemm(stream, *alpha, value, incoming, T::ONE, MatMut::with(target, b.layout)?)
        })
    }
}

impl<T: Real> CustomOp for Gemv<T> {
    fn name(&self) -> &str {
        "gemv"
    }

    /// The gradient of a is the product of that of y with x; that of x is the transpose of a times that of y.
    fn backward(&mut self, pass: &mut Adjoint<'_>) -> cuda_safe::Result<()> {
        let Self { blas, alpha, a, x, y } = self;
        let (x, y) = (*x, *y);
        add(pass, a.handle, y.0, x.0, |stream, incoming, value, target| {
            let incoming = Vector::with_step(incoming, y.1, y.2)?;
            let value = Vector::with_step(value, x.1, x.2)?;
            blas.ger(stream, *alpha, incoming, value, MatMut::with(target, a.layout)?)
        })?;
        add(pass, x.0, y.0, a.handle, |stream, incoming, value, target| {
            let incoming = Vector::with_step(incoming, y.1, y.2)?;
            let value = Mat::with(value, a.layout)?.transposed();
            let target = VectorMut::with_step(target, x.1, x.2)?;
            blas.gemv(stream, *alpha, value, incoming, T::ONE, target)
        })
    }
}

impl<T: Real> CustomOp for Dot<T> {
    fn name(&self) -> &str {
        "dot"
    }

    /// The gradient of x is y times that of the sum, and the other way round.
    fn backward(&mut self, pass: &mut Adjoint<'_>) -> cuda_safe::Result<()> {
        let Self { blas, x, y, out } = self;
        for (target, with) in [(*x, *y), (*y, *x)] {
            add(pass, target.0, *out, with.0, |stream, incoming, value, gradient| {
                let factor = crate::blas::DeviceScalar::new(incoming)?;
                let value = Vector::with_step(value, with.1, with.2)?;
                let gradient = VectorMut::with_step(gradient, target.1, target.2)?;
                blas.axpy(stream, factor, value, gradient)
            })?;
        }
        Ok(())
    }
}
