//! Sums with gradients, which most losses end in.

use cuda_safe::{
    DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, Error, KernelArg, LaunchConfig,
    ReadView, Result, Stream, WriteView, kernels,
};
use tape::{Differentiable, Frame, Gradient, Primal, Recorder, Saved};

use super::{DifferentiableValue, Recorded, share_memory};
use crate::GeometryKernels;
use crate::geometry::{Source, of_source};
use crate::lengths::cover;
use crate::part::scratch;

/// The block size, and the elements that a block of a sum adds up: `device/geom/sort/reduce.cuh`.
const THREADS: u32 = 256;
const CHUNK: usize = 4096;

/// The limit of elements.
const LIMIT: usize = 1 << 31;

/// The type of numbers in sums: `f32` or `f64`.
pub trait Summed: Differentiable<Gradient = Self> + bytemuck::Pod + DeviceRepr + Send {
    /// Converts a number.
    #[doc(hidden)]
    fn of(value: f64) -> Self;
}

impl Summed for f32 {
    fn of(value: f64) -> Self {
        value as f32
    }
}

impl Summed for f64 {
    fn of(value: f64) -> Self {
        value
    }
}

kernels! {
    #[name = "tape_{}_{T}"]
    pub(super) struct Reduce<T: Summed in [f32 = "f32", f64 = "f64"]>;
    // SAFETY: of what is summed, block b reads chunk b of 4096 of the n elements, which there is, and writes
    // out[b], by 256 threads, as its shared memory has room for. `root` replaces one number, by one thread. Thread i
    // of the adjoints, and of `first_greatest`, reads elements i and adds to gradients i, if i < n.
    unsafe in Source::TAPE_REDUCE {
        safe fn sum(x: &[T], n: u32, divisor: T, out: &mut [T])
            where n <= x.len(), 4096 * (grid.x - 1) < n, grid.x <= out.len(), block.x == 256;
        safe fn dot(x: &[T], y: &[T], n: u32, divisor: T, out: &mut [T])
            where n <= x.len(), n <= y.len(), 4096 * (grid.x - 1) < n, grid.x <= out.len(), block.x == 256;
        #[name = "tape_{Of}_{T}"]
        safe fn terms<Of: Term in [Squares = "squares", Sizes = "sizes"]>(
            x: &[T],
            n: u32,
            divisor: T,
            out: &mut [T],
        ) where n <= x.len(), 4096 * (grid.x - 1) < n, grid.x <= out.len(), block.x == 256;
        safe fn greatest(x: &[T], n: u32, out: &mut [T])
            where n <= x.len(), 4096 * (grid.x - 1) < n, grid.x <= out.len(), block.x == 256;
        safe fn root(out: &mut [T]) where 1 <= out.len(), grid.x == 1, block.x == 1;
        /// # Safety
        /// There are `n` gradients `of_x`; `g` is one.
        unsafe fn sum_adjoint(
            n: u32,
            divisor: T,
            g: Gradient<'_, T>,
            of_x: Gradient<'_, T>,
            frame: impl KernelArg<Abi = Frame>,
        );
        /// # Safety
        /// There are `n` elements and gradients of each factor; `g` is one. `shared` is not 0 if elements of one
        /// factor may be other elements of the other one.
        unsafe fn dot_adjoint(
            x: Saved<'_, T>,
            y: Saved<'_, T>,
            n: u32,
            g: Gradient<'_, T>,
            of_x: Gradient<'_, T>,
            of_y: Gradient<'_, T>,
            shared: u32,
            frame: impl KernelArg<Abi = Frame>,
        );
        /// # Safety
        /// There are `n` elements and gradients `of_x`; `g` is one.
        #[name = "tape_{Of}_adjoint_{T}"]
        unsafe fn terms_adjoint<Of: Term in [Squares = "squares", Sizes = "sizes"]>(
            x: Saved<'_, T>,
            n: u32,
            g: Gradient<'_, T>,
            of_x: Gradient<'_, T>,
            frame: impl KernelArg<Abi = Frame>,
        );
        /// # Safety
        /// There are `n` elements and gradients `of_x`; `norm` and `g` are one each.
        unsafe fn norm_adjoint(
            x: Saved<'_, T>,
            n: u32,
            norm: Saved<'_, T>,
            g: Gradient<'_, T>,
            of_x: Gradient<'_, T>,
            frame: impl KernelArg<Abi = Frame>,
        );
        /// Lowers `first` to the least index of an element as large as `norm`.
        ///
        /// # Safety
        /// There are `n` elements, and one `norm`.
        unsafe fn first_greatest(x: &Saved<'_, T>, n: u32, norm: Saved<'_, T>, first: &mut [u32])
            where 1 <= first.len();
        /// One thread reads element `first`, if that is below `n`, and adds to its gradient.
        ///
        /// # Safety
        /// There are `n` elements and gradients `of_x`; `g` is one. The launch has one thread.
        unsafe fn greatest_adjoint(
            x: &Saved<'_, T>,
            n: u32,
            first: &[u32],
            g: Gradient<'_, T>,
            of_x: Gradient<'_, T>,
            frame: impl KernelArg<Abi = Frame>,
        ) where 1 <= first.len();
    }
}
of_source!(<T: Summed> Reduce<T>, Source::TAPE_REDUCE);

/// The term of each number in a sum, and the name of the sum.
pub(super) trait Term: 'static {
    const SUM: &'static str;
}

pub(super) struct Squares;
pub(super) struct Sizes;

impl Term for Squares {
    const SUM: &'static str = "squared norm";
}

impl Term for Sizes {
    const SUM: &'static str = "1-norm";
}

/// Sums are over all numbers of all vectors, in their precision and in a fixed order, like
/// [`Algorithms::sum`](crate::algorithms::Algorithms::sum), so they have the same bits in every run and on every
/// device. A sum of up to 16,777,216 numbers takes two launches, and its gradient one.
impl GeometryKernels {
    /// Records the sum of all elements, written to the one element of `sum`; 0 for no elements.
    ///
    /// # Errors
    /// `sum` does not have one element; 2^31 numbers or more; otherwise if the driver returns an error.
    pub fn record_sum<'a, 'b, V: DifferentiableValue<Number: Summed>>(
        &self,
        t: &mut Recorder<'_>,
        elements: impl ReadView<'a, V>,
        sum: impl WriteView<'b, V::Number>,
    ) -> Result<()> {
        self.record_divided(t, elements.read_view(), sum.write_view(), "sum", 1)
    }

    /// Records the mean of all elements; for vectors, the sum over the number of vectors. The mean of no elements is
    /// NaN.
    ///
    /// # Errors
    /// As [`record_sum`](Self::record_sum).
    pub fn record_mean<'a, 'b, V: DifferentiableValue<Number: Summed>>(
        &self,
        t: &mut Recorder<'_>,
        elements: impl ReadView<'a, V>,
        mean: impl WriteView<'b, V::Number>,
    ) -> Result<()> {
        let elements = elements.read_view();
        self.record_divided(t, elements, mean.write_view(), "mean", elements.len())
    }

    /// Records the sum of the products of numbers: the inner product. The factors may overlap.
    ///
    /// # Errors
    /// The factors differ in length; otherwise as [`record_sum`](Self::record_sum).
    pub fn record_dot<'a, 'b, 'c, V: DifferentiableValue<Number: Summed>>(
        &self,
        t: &mut Recorder<'_>,
        x: impl ReadView<'a, V>,
        y: impl ReadView<'b, V>,
        product: impl WriteView<'c, V::Number>,
    ) -> Result<()> {
        let (x, y, mut product) = (x.read_view(), y.read_view(), product.write_view());
        if x.len() != y.len() {
            let (x, y) = (x.len(), y.len());
            return Err(Error::invalid(format!("a product of {x} elements with {y}")));
        }
        let (x, y) = (x.cast::<V::Number>()?, y.cast::<V::Number>()?);
        let n = checked(x.len(), &product)?;
        let kernels = self.kernels::<Reduce<V::Number>>()?;
        let shared = share_memory(&x, &y) && x.byte_range() != y.byte_range();
        let mut custom = t.custom();
        let factors = (custom.reads(x, Primal::Entry)?, custom.reads(y, Primal::Entry)?);
        let out = custom.overwrites(&product, Primal::None)?;
        let (count, by) = (x.len(), kernels.clone());
        let adds = if shared { 2 * count } else { 0 };
        let op = Recorded { name: "dot", out, count, adds }.adjoint(move |pass, g| {
            let (x, y) = (pass.value(factors.0)?, pass.value(factors.1)?);
            let (of_x, of_y) = (pass.gradient(factors.0)?, pass.gradient(factors.1)?);
            let (launch, shared, frame) = (cover(count), u32::from(shared), pass.frame());
            // SAFETY: both factors had n elements.
            unsafe { by.dot_adjoint(pass.stream(), launch, x, y, n, g, of_x, of_y, shared, frame) }
        });
        let one = V::Number::of(1.0);
        custom.run(op, |stream| {
            sum_up(stream, &kernels, n, one, product.reborrow(), |launch, out| {
                kernels.dot(stream, launch, x, y, n, one, out)
            })
        })
    }

    fn record_divided<V: DifferentiableValue<Number: Summed>>(
        &self,
        t: &mut Recorder<'_>,
        elements: DeviceSlice<'_, V>,
        mut sum: DeviceSliceMut<'_, V::Number>,
        name: &'static str,
        divisor: usize,
    ) -> Result<()> {
        let x = elements.cast::<V::Number>()?;
        let n = checked(x.len(), &sum)?;
        let by_none = divisor == 0;
        let divisor = V::Number::of(divisor as f64);
        let kernels = self.kernels::<Reduce<V::Number>>()?;
        let mut custom = t.custom();
        let known_x = custom.reads(x, Primal::None)?;
        let out = custom.overwrites(&sum, Primal::None)?;
        let (count, by) = (x.len(), kernels.clone());
        let op = Recorded { name, out, count, adds: 0 }.adjoint(move |pass, g| {
            let (of_x, frame) = (pass.gradient(known_x)?, pass.frame());
            // SAFETY: there were n elements.
            unsafe { by.sum_adjoint(pass.stream(), cover(count), n, divisor, g, of_x, frame) }
        });
        custom.run(op, |stream| {
            if by_none {
                return sum.fill(stream, V::Number::of(f64::NAN));
            }
            sum_up(stream, &kernels, n, divisor, sum.reborrow(), |launch, out| {
                kernels.sum(stream, launch, x, n, divisor, out)
            })
        })
    }
}

pub(super) fn checked<T: Copy + 'static>(n: usize, out: &DeviceSliceMut<'_, T>) -> Result<u32> {
    if out.len() != 1 {
        return Err(Error::invalid(format!("room for {} sums, and one is written", out.len())));
    }
    let n = Some(n).filter(|n| *n < LIMIT).and_then(|n| u32::try_from(n).ok());
    n.ok_or_else(|| Error::invalid("a sum of 2^31 numbers or more"))
}

/// Runs `first`, whose blocks sum one chunk each, and sums the results until one is left. The last launch divides.
pub(super) fn sum_up<T: Summed>(
    stream: &Stream,
    kernels: &Reduce<T>,
    n: u32,
    divisor: T,
    out: DeviceSliceMut<'_, T>,
    first: impl FnOnce(LaunchConfig, DeviceSliceMut<'_, T>) -> Result<()>,
) -> Result<()> {
    join(stream, n, out, first, |launch, parts, n, out| {
        kernels.sum(stream, launch, parts, n, divisor, out)
    })
}

/// Runs `first`, whose blocks reduce one chunk each, and `next` on the results until one is left. No elements give 0.
pub(super) fn join<T: Summed>(
    stream: &Stream,
    n: u32,
    mut out: DeviceSliceMut<'_, T>,
    first: impl FnOnce(LaunchConfig, DeviceSliceMut<'_, T>) -> Result<()>,
    next: impl Fn(LaunchConfig, &DeviceBuffer<T>, u32, DeviceSliceMut<'_, T>) -> Result<()>,
) -> Result<()> {
    let launch = |chunks: usize| LaunchConfig::new(chunks as u32, THREADS);
    let mut chunks = (n as usize).div_ceil(CHUNK);
    match chunks {
        0 => return out.fill(stream, T::of(0.0)),
        1 => return first(launch(1), out),
        _ => {}
    }
    // SAFETY: each block writes one element.
    let mut parts = unsafe { scratch::<T>(stream, chunks)? };
    first(launch(chunks), parts.as_slice_mut())?;
    loop {
        let n = chunks as u32;
        chunks = chunks.div_ceil(CHUNK);
        if chunks == 1 {
            return next(launch(1), &parts, n, out);
        }
        // SAFETY: each block writes one element.
        let mut fewer = unsafe { scratch::<T>(stream, chunks)? };
        next(launch(chunks), &parts, n, fewer.as_slice_mut())?;
        parts = fewer;
    }
}
