//! Gradients of transforms.
//!
//! The tape treats complex memory as real numbers: watch `x.as_slice().cast::<f32>()?`, and read the gradient of
//! that. It has the derivatives by the real and by the imaginary parts, in the order of the numbers.

use cuda_safe::{DeviceBuffer, DeviceSlice, DeviceSliceMut, PitchedLayout, Stream};
use tape::{Adjoint, CustomOp, Handle, Primal, Recorder};

use super::{Real, of_result};
use crate::blas::Blas;
use crate::element::Complex;
use crate::error::{Error, Result};
use crate::fft::shape::{Form, Resolved};
use crate::fft::{Config, Fft, Real as Transformed, Transform};
use crate::mat::{Vector, VectorMut};

/// A recorded transform.
struct Op<R> {
    blas: Blas,
    input: Handle<R>,
    output: Handle<R>,
    adjoint: Of<R>,
}

/// The transform of an adjoint.
enum Of<R> {
    /// A transform of complex numbers in the other direction.
    Forward(Fft<Complex<R>, Complex<R>>),
    Inverse(Fft<Complex<R>, Complex<R>>),
    /// A transform of whole spectra, with zeros for the frequencies that half a spectrum lacks. The numbers are the
    /// half spectra's rows and their lengths.
    FromHalf(Fft<Complex<R>, Complex<R>>, (usize, usize)),
    /// A transform of real numbers to half spectra with these rows and lengths.
    ToHalf(Fft<R, Complex<R>>, (usize, usize)),
}

/// Transforms complex numbers as [`Fft::forward`] does. The gradient is computed by the inverse transform, and added by
/// cuBLAS.
///
/// # Errors
/// As [`Fft::forward`], and [`Error::Invalid`] if the output has gaps, where the gradient would not be replaced, or
/// numbers of the input overlap.
pub fn forward<'x, R: Real + Transformed>(
    recorder: &mut Recorder<'_>,
    blas: &Blas,
    fft: &Fft<Complex<R>, Complex<R>>,
    input: impl Into<DeviceSlice<'x, Complex<R>>>,
    output: impl Into<DeviceSliceMut<'x, Complex<R>>>,
) -> Result<()> {
    let (input, output) = (input.into(), output.into());
    let adjoint = Of::Inverse(other_direction(fft)?);
    let run = |stream: &Stream, output| fft.forward(stream, input, output);
    record(recorder, blas, fft, adjoint, input, output, run)
}

/// Transforms complex numbers as [`Fft::inverse`] does.
///
/// # Errors
/// As [`forward`].
pub fn inverse<'x, R: Real + Transformed>(
    recorder: &mut Recorder<'_>,
    blas: &Blas,
    fft: &Fft<Complex<R>, Complex<R>>,
    input: impl Into<DeviceSlice<'x, Complex<R>>>,
    output: impl Into<DeviceSliceMut<'x, Complex<R>>>,
) -> Result<()> {
    let (input, output) = (input.into(), output.into());
    let adjoint = Of::Forward(other_direction(fft)?);
    let run = |stream: &Stream, output| fft.inverse(stream, input, output);
    record(recorder, blas, fft, adjoint, input, output, run)
}

/// Transforms real numbers to half of their spectrum, as [`Fft::forward`] does.
///
/// # Errors
/// As [`forward`](fn@forward), and [`Error::Invalid`] if the plan has layouts with gaps or padded rows.
pub fn forward_real<'x, R: Real + Transformed>(
    recorder: &mut Recorder<'_>,
    blas: &Blas,
    fft: &Fft<R, Complex<R>>,
    input: impl Into<DeviceSlice<'x, R>>,
    output: impl Into<DeviceSliceMut<'x, Complex<R>>>,
) -> Result<()> {
    let (input, output) = (input.into(), output.into());
    let (_, half) = dense(&fft.inner.shape)?;
    let adjoint: Of<R> =
        Of::FromHalf(other(fft, fft.inner.shape.dense([Form::Complex; 2])?)?, half);
    let run = |stream: &Stream, output| fft.forward(stream, input, output);
    record(recorder, blas, fft, adjoint, input, output, run)
}

/// Transforms half of a spectrum to real numbers, as [`Fft::inverse`] does, but leaves the input as it is: a copy is
/// transformed.
///
/// The gradient counts each frequency with its conjugate, which the half spectrum stands for.
///
/// # Errors
/// As [`forward_real`].
pub fn inverse_real<'x, R: Real + Transformed>(
    recorder: &mut Recorder<'_>,
    blas: &Blas,
    fft: &Fft<Complex<R>, R>,
    input: impl Into<DeviceSlice<'x, Complex<R>>>,
    output: impl Into<DeviceSliceMut<'x, R>>,
) -> Result<()> {
    let (input, output) = (input.into(), output.into());
    let (half, _) = dense(&fft.inner.shape)?;
    let adjoint: Of<R> =
        Of::ToHalf(other(fft, fft.inner.shape.dense([Form::Real, Form::Half])?)?, half);
    let run = |stream: &Stream, output| {
        let mut copy = zeros(stream, input.len())?;
        copy.copy_from(stream, input)?;
        fft.inverse(stream, &mut copy, output)
    };
    record(recorder, blas, fft, adjoint, input, output, run)
}

/// Returns the plan of the adjoint, of another shape and with the library of this one, which keeps it.
fn other<I, O, A: Transform<B>, B: Transform<A, Real = A::Real>>(
    fft: &Fft<I, O>,
    shape: Resolved,
) -> Result<Fft<A, B>> {
    let kept = fft.inner.adjoint.get().and_then(|kept| kept.downcast_ref::<Fft<A, B>>());
    if let Some(kept) = kept {
        return Ok(kept.clone());
    }
    let config = Config::new().library(fft.inner.library);
    let made: Fft<A, B> = Fft::resolved(&fft.inner.context, shape, &config)?;
    // Of two threads, one's is kept.
    let _ = fft.inner.adjoint.set(Box::new(made.clone()));
    Ok(made)
}

fn other_direction<R: Transformed>(
    fft: &Fft<Complex<R>, Complex<R>>,
) -> Result<Fft<Complex<R>, Complex<R>>> {
    let shape = &fft.inner.shape;
    shape.input_is_apart()?;
    if shape.output.span != shape.output.elements() {
        return Err(Error::invalid(
            "fft",
            "output",
            "has gaps, where the gradient would stay; use packed memory",
        ));
    }
    other(fft, shape.swapped())
}

/// Returns the numbers of rows and of their elements of both sides.
fn dense(shape: &Resolved) -> Result<((usize, usize), (usize, usize))> {
    let both = shape.input.rows(shape.rank).zip(shape.output.rows(shape.rank));
    both.ok_or_else(|| {
        Error::invalid(
            "fft",
            "shape",
            "has layouts or padded rows; gradients of real transforms are for packed memory",
        )
    })
}

fn record<'o, R, I, O>(
    recorder: &mut Recorder<'_>,
    blas: &Blas,
    fft: &Fft<I, O>,
    adjoint: Of<R>,
    input: DeviceSlice<'_, I>,
    output: DeviceSliceMut<'o, O>,
    run: impl FnOnce(&Stream, DeviceSliceMut<'o, O>) -> Result<()>,
) -> Result<()>
where
    R: Real + Transformed,
    I: bytemuck::Pod,
    O: bytemuck::Pod,
{
    let (from, to) = (fft.inner.shape.input.span, fft.inner.shape.output.span);
    let mut custom = recorder.custom();
    let reads = custom.reads(input.slice(..from.min(input.len()))?.cast::<R>()?, Primal::None)?;
    let written = output.as_slice();
    let written = written.slice(..to.min(written.len()))?.cast::<R>()?;
    let op = Op {
        blas: blas.clone(),
        input: reads,
        output: custom.overwrites(written, Primal::None)?,
        adjoint,
    };
    Ok(custom.run(op, |stream| Ok(run(stream, output)?))?)
}

impl<R: Real + Transformed> CustomOp for Op<R> {
    fn name(&self) -> &str {
        "fft"
    }

    /// A transform is a matrix, whose conjugate transpose is the transform with the other sign.
    fn backward(&mut self, pass: &mut Adjoint<'_>) -> cuda_safe::Result<()> {
        if !pass.wants(self.input) {
            return Ok(());
        }
        let stream = pass.stream().clone();
        let Some(gradient) = of_result(pass, self.output)? else { return Ok(()) };
        // Gradients may lie at addresses that are no multiples of a complex number's size.
        let mut incoming = DeviceBuffer::<R>::zeroed(&stream, gradient.len().next_multiple_of(2))?;
        incoming.slice_mut(..gradient.len())?.copy_from(&stream, gradient)?;
        let complex = incoming.as_slice().cast::<Complex<R>>()?;
        let (added, step, factor) = match &self.adjoint {
            Of::Forward(fft) => {
                let mut out = zeros(&stream, fft.output_len())?;
                fft.forward(&stream, complex, &mut out)?;
                (out, 1, R::ONE)
            }
            Of::Inverse(fft) => {
                let mut out = zeros(&stream, fft.output_len())?;
                fft.inverse(&stream, complex, &mut out)?;
                (out, 1, R::ONE)
            }
            Of::FromHalf(fft, (rows, width)) => {
                let mut all = zeros(&stream, fft.output_len())?;
                let whole = PitchedLayout::compact((all.len() / rows, *rows));
                let half = PitchedLayout::compact((*width, *rows));
                all.as_slice_mut().copy_3d_from(&stream, whole, complex, half, (*width, *rows))?;
                fft.inverse_in_place(&stream, &mut all)?;
                // The real parts.
                (all, 2, R::ONE)
            }
            Of::ToHalf(fft, (rows, width)) => {
                let mut half = zeros(&stream, fft.output_len())?;
                fft.forward(&stream, incoming.slice(..fft.input_len())?, &mut half)?;
                // All but the frequencies 0 and n / 2 count twice.
                let is_even = fft.input_len() / rows % 2 == 0;
                for column in [Some(0), is_even.then(|| width - 1)].into_iter().flatten() {
                    for part in [0, 1] {
                        let numbers = half.as_slice_mut().cast_mut::<R>()?;
                        let (_, numbers) = numbers.split_at_mut(2 * column + part)?;
                        let column = VectorMut::with_step(numbers, *rows, 2 * width)?;
                        self.blas.scal(&stream, R::HALF, column)?;
                    }
                }
                (half, 1, R::TWO)
            }
        };
        let Some(target) = pass.gradient_mut(self.input)? else { return Ok(()) };
        let added = added.as_slice().cast::<R>()?;
        let added = Vector::with_step(added, target.len(), step)?;
        Ok(self.blas.axpy(&stream, factor, added, VectorMut::new(target))?)
    }
}

fn zeros<R: Transformed>(
    stream: &Stream,
    len: usize,
) -> cuda_safe::Result<DeviceBuffer<Complex<R>>> {
    DeviceBuffer::zeroed(stream, len)
}
