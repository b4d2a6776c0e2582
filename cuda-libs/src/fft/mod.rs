//! cuFFT: Fourier transforms of one to three dimensions.

mod plan;
pub(crate) mod shape;

use std::ffi::{c_int, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use cuda_safe::{Access, Context, DeviceSlice, DeviceSliceMut, Stream};
use cuda_sys::cufft::{Cufft, cufftHandle, cufftType};

pub use shape::{Layout, Lengths, Shape};

use crate::element::{Complex, Element};
use crate::error::{Error, Result};
use crate::load::CufftLibrary;
use crate::uses::{Uses, is_aligned};
use plan::{Inner, Status};
use shape::{Form, Resolved, Side};

/// The names of this type and of its constructor in messages.
const OWNER: &str = "Fft";
const NEW: &str = "fft";

/// The default of [`Config::work_areas`].
const AREAS: usize = 4;

/// A plan: Fourier transforms of one shape from elements of type `I` to elements of type `O`. Cloning it is cheap;
/// clones share the plan, and may be used by several threads.
///
/// | `I`, `O` | transforms |
/// |---|---|
/// | `Complex<R>`, `Complex<R>` | complex ones in both directions |
/// | `R`, `Complex<R>` | forward, of real numbers, to half of the spectrum |
/// | `Complex<R>`, `R` | inverse, of half of a spectrum, to real numbers |
///
/// where `R` is `f32` or `f64`. [`forward`](Fft::forward) computes y(k) = Σ x(j) exp(-2πi jk/n), and `inverse` the same
/// sum with exp(+2πi jk/n). Neither scales: `inverse` after `forward` multiplies by the product of the lengths. Half a
/// spectrum has the frequencies 0 to n/2 of the last dimension, n/2 + 1 numbers; the others are the conjugates of
/// these. The half spectrum that is transformed back must be that of real numbers, so that the imaginary part of the
/// frequency 0 is 0, for example: if it is not, the result is unspecified.
///
/// Each call is ordered like a launch: after earlier uses of its memory on other streams, and before later ones. On a
/// stream that records it becomes part of the graph. While a framework captures the stream that it has lent, calls fail
/// if the plan has a work area: such a graph can't keep it.
///
/// ```no_run
/// use cuda_libs::{Complex, Fft};
/// use cuda_safe::{Context, DeviceBuffer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let context = Context::new(0)?;
/// let stream = context.stream()?;
/// let x = DeviceBuffer::from_slice(&stream, &[1.0f32, 2.0, 3.0, 4.0])?;
/// let mut y = DeviceBuffer::<Complex<f32>>::zeroed(&stream, 3)?;
/// let fft = Fft::<f32, Complex<f32>>::new(&context, 4)?;
/// fft.forward(&stream, &x, &mut y)?;
/// assert_eq!(y.to_vec(&stream)?[0], Complex::new(10.0, 0.0));
/// # Ok(()) }
/// ```
///
/// A wrong combination of types does not compile:
///
/// ```compile_fail
/// # fn run(context: &cuda_safe::Context) {
/// let fft = cuda_libs::Fft::<f64, cuda_libs::Complex<f32>>::new(context, 4);
/// # }
/// ```
///
/// # Plans and work areas
/// Creating a plan takes the library milliseconds. It may wait for the device, so it is refused while any thread records
/// in the context: make plans before. Each stream has a work area, up to [`Config::work_areas`] of them;
/// further streams share them, so that transforms of two such streams run one after the other. If at some moment more
/// threads than that call, each of them has a work area that is freed after its call. A graph keeps the work areas that
/// it has recorded.
///
/// Dropping the last clone frees the work areas in the order of their streams, and keeps the plan for the next `Fft` of
/// its types and shape in the context; it never waits. If a context has more than 16 such plans, [`new`](Self::new)
/// waits for the context's work and destroys the oldest ones. Plans that a graph has recorded are kept
/// until the context ends.
pub struct Fft<I, O> {
    pub(crate) inner: Arc<Inner>,
    types: PhantomData<fn(I) -> O>,
}

/// Options of an [`Fft`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Config {
    library: Option<CufftLibrary>,
    work_areas: Option<usize>,
}

impl Config {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the library. The default is [`CufftLibrary::load`](crate::Library::load).
    #[must_use]
    pub fn library(self, library: CufftLibrary) -> Self {
        Self { library: Some(library), ..self }
    }

    /// Sets how many streams have a separate work area, at least 1. The default is 4.
    #[must_use]
    pub fn work_areas(self, count: usize) -> Self {
        Self { work_areas: Some(count), ..self }
    }
}

/// A type of real numbers that cuFFT transforms: `f32` and `f64`. The trait is sealed.
pub trait Real: Element + sealed::Precision {}

impl Real for f32 {}
impl Real for f64 {}

/// A type of elements that is transformed to elements of type `O`. The trait is sealed.
pub trait Transform<O>: Copy + sealed::Transform + 'static {}

impl<R: Real> Transform<Self> for Complex<R> {}
impl<R: Real> Transform<Complex<R>> for R {}
impl<R: Real> Transform<R> for Complex<R> {}

mod sealed {
    use super::{Cufft, Status, c_int, c_void, cufftHandle, cufftType};

    pub trait Precision: Transform<Real = Self> + Sized {
        const COMPLEX: cufftType;
        const FORWARD: cufftType;
        const INVERSE: cufftType;
        /// Runs a plan of one of these types.
        ///
        /// # Safety
        /// The rules of cuFFT's function.
        unsafe fn execute(
            cufft: &Cufft,
            ty: cufftType,
            plan: cufftHandle,
            from: *mut c_void,
            to: *mut c_void,
            sign: c_int,
        ) -> Status;
    }

    pub trait Transform {
        type Real: super::Real;
        const IS_REAL: bool;
    }
}

impl<R: Real> sealed::Transform for Complex<R> {
    type Real = R;
    const IS_REAL: bool = false;
}

macro_rules! precisions {
    ($($ty:ty, $complex:ident $forward:ident $inverse:ident, $both:ident $to:ident $from:ident;)*) => {$(
        impl sealed::Transform for $ty {
            type Real = Self;
            const IS_REAL: bool = true;
        }
        impl sealed::Precision for $ty {
            const COMPLEX: cufftType = cufftType::$complex;
            const FORWARD: cufftType = cufftType::$forward;
            const INVERSE: cufftType = cufftType::$inverse;
            unsafe fn execute(
                cufft: &Cufft,
                ty: cufftType,
                plan: cufftHandle,
                from: *mut c_void,
                to: *mut c_void,
                sign: c_int,
            ) -> Status {
                // SAFETY: the caller's promise.
                unsafe {
                    match ty {
                        cufftType::$forward => cufft.$to(plan, from.cast(), to.cast()),
                        cufftType::$inverse => cufft.$from(plan, from.cast(), to.cast()),
                        _ => cufft.$both(plan, from.cast(), to.cast(), sign),
                    }
                }
            }
        }
    )*};
}

precisions! {
    f32, CUFFT_C2C CUFFT_R2C CUFFT_C2R, cufftExecC2C cufftExecR2C cufftExecC2R;
    f64, CUFFT_Z2Z CUFFT_D2Z CUFFT_Z2D, cufftExecZ2Z cufftExecD2Z cufftExecZ2D;
}

/// The signs of the exponents.
const FORWARD: c_int = -1;
const INVERSE: c_int = 1;

impl<I, O> Clone for Fft<I, O> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), types: PhantomData }
    }
}

impl<I, O> fmt::Debug for Fft<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fft").field(&format_args!("{}", self.inner.shape)).finish()
    }
}

impl<I: Transform<O>, O: Transform<I, Real = I::Real>> Fft<I, O> {
    /// The type of the plan.
    const TYPE: cufftType = match (I::IS_REAL, O::IS_REAL) {
        (true, _) => <I::Real as sealed::Precision>::FORWARD,
        (_, true) => <I::Real as sealed::Precision>::INVERSE,
        _ => <I::Real as sealed::Precision>::COMPLEX,
    };

    const FORMS: [Form; 2] = match (I::IS_REAL, O::IS_REAL) {
        (true, _) => [Form::Real, Form::Half],
        (_, true) => [Form::Half, Form::Real],
        _ => [Form::Complex; 2],
    };

    /// A half spectrum that is transformed back is overwritten.
    const DESTROYS: bool = O::IS_REAL;

    /// Finds and loads cuFFT, and makes a plan in the context.
    ///
    /// # Errors
    /// As [`Library::load`](crate::Library::load). [`Error::Invalid`] if a length, the batch or a stride is 0, memory
    /// is smaller than a transform, elements that are written overlap, a number is above 2^63, or a new plan is needed
    /// while the context records. [`Error::Cufft`] if the library refuses the shape, or lacks memory.
    #[doc(alias = "cufftPlanMany")]
    #[doc(alias = "cufftPlan1d")]
    #[doc(alias = "cufftPlan2d")]
    #[doc(alias = "cufftPlan3d")]
    pub fn new(context: &Context, shape: impl Into<Shape>) -> Result<Self> {
        Self::with(context, shape, &Config::new())
    }

    /// Works like [`new`](Self::new), with options.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(context: &Context, shape: impl Into<Shape>, config: &Config) -> Result<Self> {
        let shape = Resolved::new(&shape.into(), Self::FORMS, Self::DESTROYS)?;
        Self::resolved(context, shape, config)
    }

    pub(crate) fn resolved(context: &Context, shape: Resolved, config: &Config) -> Result<Self> {
        cuda_safe::check_caller()?;
        let library = match config.library {
            Some(library) => library,
            None => CufftLibrary::load()?,
        };
        library.is_for(context)?;
        let areas = config.work_areas.unwrap_or(AREAS).max(1);
        let inner = Inner::new(library, context, Self::TYPE, shape, areas)?;
        Ok(Self { inner: Arc::new(inner), types: PhantomData })
    }

    /// Returns the context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// Returns the library.
    #[must_use]
    pub fn library(&self) -> CufftLibrary {
        self.inner.library
    }

    /// Returns the number of elements of the input from the first to the last. A call takes memory with at least as
    /// many.
    #[must_use]
    pub fn input_len(&self) -> usize {
        self.inner.shape.input.span
    }

    /// Works like [`input_len`](Self::input_len) for the output.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.inner.shape.output.span
    }

    /// Returns how many bytes a work area has.
    #[must_use]
    pub fn work_area_bytes(&self) -> usize {
        self.inner.area_bytes
    }

    /// Waits for all work of the context, and destroys the plan and all kept ones of the context, but for those that a
    /// graph has recorded. Needed only before [`Context::close`], to free their memory.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are other clones or the context records, the error of earlier work, or that of
    /// cuFFT.
    pub fn close(self) -> Result<()> {
        let (library, context) = (self.inner.library, self.inner.context.clone());
        if let Err(inner) = Arc::try_unwrap(self.inner) {
            let others = Arc::strong_count(&inner).saturating_sub(1);
            return Err(Error::invalid(
                "close",
                "fft",
                format!("is used by {others} other clones"),
            ));
        }
        plan::clear(library, &context)
    }

    /// Transforms the elements at one address to elements at another, or the same one.
    ///
    /// # Safety
    /// The elements at both addresses are those of the shape's sides, and among the uses: those of the output, and of a
    /// half spectrum, as written.
    unsafe fn run(
        &self,
        call: &'static str,
        stream: &Stream,
        uses: Uses<'_>,
        [from, to]: [u64; 2],
        sign: c_int,
    ) -> Result<()> {
        let (from, to) = (from as *mut c_void, to as *mut c_void);
        // SAFETY: cuFFT transforms the plan's elements, and the caller promises where they are.
        unsafe {
            self.inner.enqueue(call, stream, uses, |cufft, plan| {
                <I::Real as sealed::Precision>::execute(cufft, Self::TYPE, plan, from, to, sign)
            })
        }
    }

    /// Transforms to memory that may not be that of the input.
    fn apart<'x>(
        &self,
        call: &'static str,
        stream: &Stream,
        input: DeviceSlice<'x, I>,
        output: &DeviceSliceMut<'x, O>,
        sign: c_int,
    ) -> Result<()> {
        let Resolved { input: from, output: to, .. } = &self.inner.shape;
        let (from_bytes, to_bytes) = (
            self.fits::<I>(call, "input", (input.device_ptr(), input.len()), from)?,
            self.fits::<O>(call, "output", (output.device_ptr(), output.len()), to)?,
        );
        let access = if Self::DESTROYS { Access::Write } else { Access::Read };
        let addresses = [input.device_ptr(), output.device_ptr()];
        let [from_start, to_start] = [input.byte_range().start, output.byte_range().start];
        let mut uses = Uses::new();
        uses.add("input", input.allocation(), from_start..from_start + from_bytes, access, true);
        let range = to_start..to_start + to_bytes;
        uses.add("output", output.allocation(), range, Access::Write, true);
        // SAFETY: both slices have the elements of their sides; a half spectrum is a slice that its caller borrows
        // exclusively.
        unsafe { self.run(call, stream, uses, addresses, sign) }
    }

    /// Transforms within memory that both sides share.
    fn in_place(
        &self,
        call: &'static str,
        stream: &Stream,
        data: &DeviceSliceMut<'_, Complex<I::Real>>,
        sign: c_int,
    ) -> Result<()> {
        let shape = &self.inner.shape;
        shape.in_place(call)?;
        let mut all = 0;
        for side in [&shape.input, &shape.output] {
            // A padded row of real numbers may end within a complex one.
            let is_real = side.form == Form::Real;
            let needed = if is_real { side.span.div_ceil(2) } else { side.span };
            if data.len() < needed {
                return Err(short(call, "data", data.len(), needed));
            }
            all = all.max(needed);
        }
        let start = data.byte_range().start;
        let mut uses = Uses::new();
        let is_fit = is_aligned::<Complex<I::Real>>(data.device_ptr());
        let bytes = all * size_of::<Complex<I::Real>>();
        uses.add("data", data.allocation(), start..start + bytes, Access::Write, is_fit);
        // SAFETY: the slice has the elements of both sides, whose rows begin at the same addresses.
        unsafe { self.run(call, stream, uses, [data.device_ptr(); 2], sign) }
    }

    /// Fails if memory lacks elements of a side, or has an address that cuFFT does not take; returns the side's bytes.
    fn fits<T>(
        &self,
        call: &'static str,
        argument: &'static str,
        (address, len): (u64, usize),
        side: &Side,
    ) -> Result<usize> {
        if len < side.span {
            return Err(short(call, argument, len, side.span));
        }
        if !is_aligned::<Complex<I::Real>>(address) {
            let message = "lies at an address that is no multiple of a complex number's size";
            return Err(Error::invalid(call, argument, message));
        }
        Ok(side.span * size_of::<T>())
    }
}

#[cold]
fn short(call: &'static str, argument: &'static str, len: usize, needed: usize) -> Error {
    Error::invalid(call, argument, format!("has {len} elements, but the plan needs {needed}"))
}

impl<R: Real> Fft<Complex<R>, Complex<R>> {
    /// Transforms, with exp(-2πi jk/n).
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are not enough elements, an address is no multiple of the size of a complex number,
    /// or memory or stream belong to another context; an error of cuFFT, or of the enqueue.
    #[doc(alias = "cufftExecC2C")]
    #[doc(alias = "cufftExecZ2Z")]
    pub fn forward<'x>(
        &self,
        stream: &Stream,
        input: impl Into<DeviceSlice<'x, Complex<R>>>,
        output: impl Into<DeviceSliceMut<'x, Complex<R>>>,
    ) -> Result<()> {
        self.apart("forward", stream, input.into(), &output.into(), FORWARD)
    }

    /// Transforms, with exp(+2πi jk/n). Does not divide by the number of elements.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn inverse<'x>(
        &self,
        stream: &Stream,
        input: impl Into<DeviceSlice<'x, Complex<R>>>,
        output: impl Into<DeviceSliceMut<'x, Complex<R>>>,
    ) -> Result<()> {
        self.apart("inverse", stream, input.into(), &output.into(), INVERSE)
    }

    /// Works like [`forward`](Self::forward), and overwrites the input.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and if the plan's output has another layout than its input.
    pub fn forward_in_place<'x>(
        &self,
        stream: &Stream,
        data: impl Into<DeviceSliceMut<'x, Complex<R>>>,
    ) -> Result<()> {
        self.in_place("forward_in_place", stream, &data.into(), FORWARD)
    }

    /// Works like [`inverse`](Self::inverse), and overwrites the input.
    ///
    /// # Errors
    /// As [`forward_in_place`](Self::forward_in_place).
    pub fn inverse_in_place<'x>(
        &self,
        stream: &Stream,
        data: impl Into<DeviceSliceMut<'x, Complex<R>>>,
    ) -> Result<()> {
        self.in_place("inverse_in_place", stream, &data.into(), INVERSE)
    }
}

impl<R: Real> Fft<R, Complex<R>> {
    /// Transforms real numbers to half of their spectrum, with exp(-2πi jk/n).
    ///
    /// # Errors
    /// As [`forward`](Fft::forward) of complex numbers; the real numbers, too, must begin at a multiple of the size of
    /// a complex number.
    #[doc(alias = "cufftExecR2C")]
    #[doc(alias = "cufftExecD2Z")]
    pub fn forward<'x>(
        &self,
        stream: &Stream,
        input: impl Into<DeviceSlice<'x, R>>,
        output: impl Into<DeviceSliceMut<'x, Complex<R>>>,
    ) -> Result<()> {
        self.apart("forward", stream, input.into(), &output.into(), FORWARD)
    }

    /// Works like [`forward`](Self::forward), and overwrites the real numbers, which are given as pairs.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and if the rows of both sides do not begin at the same addresses: use
    /// [`Shape::padded`].
    pub fn forward_in_place<'x>(
        &self,
        stream: &Stream,
        data: impl Into<DeviceSliceMut<'x, Complex<R>>>,
    ) -> Result<()> {
        self.in_place("forward_in_place", stream, &data.into(), FORWARD)
    }
}

impl<R: Real> Fft<Complex<R>, R> {
    /// Transforms half of a spectrum to real numbers, with exp(+2πi jk/n). Does not divide by the number of elements.
    /// The input is overwritten with unspecified numbers.
    ///
    /// # Errors
    /// As [`forward`](Fft::forward) of real numbers.
    #[doc(alias = "cufftExecC2R")]
    #[doc(alias = "cufftExecZ2D")]
    pub fn inverse<'x>(
        &self,
        stream: &Stream,
        input: impl Into<DeviceSliceMut<'x, Complex<R>>>,
        output: impl Into<DeviceSliceMut<'x, R>>,
    ) -> Result<()> {
        let (input, output) = (input.into(), output.into());
        self.apart("inverse", stream, input.as_slice(), &output, INVERSE)
    }

    /// Works like [`inverse`](Self::inverse), and writes the real numbers over the spectrum, as pairs.
    ///
    /// # Errors
    /// As [`inverse`](Self::inverse), and if the rows of both sides do not begin at the same addresses: use
    /// [`Shape::padded`].
    pub fn inverse_in_place<'x>(
        &self,
        stream: &Stream,
        data: impl Into<DeviceSliceMut<'x, Complex<R>>>,
    ) -> Result<()> {
        self.in_place("inverse_in_place", stream, &data.into(), INVERSE)
    }
}
