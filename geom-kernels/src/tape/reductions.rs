//! Sums with gradients: the losses that most things end in.

use cuda_safe::{
    DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, Error, Kernel, LaunchConfig, ReadView,
    Result, Stream, WriteView,
};
use tape::{Adjoint, CustomOp, Differentiable, Handle, Primal, Recorder};

use super::DifferentiableValue;
use super::share_memory;
use crate::GeometryKernels;
use crate::part::scratch;

/// Threads in a block, and the elements that a block of a sum adds up: `device/geom/sort/reduce.cuh`.
pub(super) const THREADS: u32 = 256;
const CHUNK: usize = 4096;

/// There are less elements than this.
const LIMIT: usize = 1 << 31;

/// `f32` or `f64`.
pub trait Summed: Differentiable<Gradient = Self> + bytemuck::Pod + DeviceRepr + Send {
    /// That number.
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

/// Sums are of all the numbers that vectors consist of; in their precision and always in the same order, as of
/// [`Algorithms::sum`](crate::algorithms::Algorithms::sum), so that they have the same bits in every run and on every device.
/// They take two launches of up to 16,777,216 numbers, and their gradients one.
impl GeometryKernels {
    /// The sum of all elements, recorded, to the one number of `sum`; 0 of none.
    ///
    /// # Errors
    /// `sum` has not one element; 2^31 numbers or more; otherwise what the driver answered.
    pub fn record_sum<'a, 'b, V: DifferentiableValue<Number: Summed>>(
        &self,
        t: &mut Recorder<'_>,
        elements: impl ReadView<'a, V>,
        sum: impl WriteView<'b, V::Number>,
    ) -> Result<()> {
        self.record_divided(t, elements.read_view(), sum.write_view(), "sum", 1)
    }

    /// The sum of all elements by their number, recorded: of vectors, by the number of vectors. NaN of none.
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

    /// The sum of the products of numbers, recorded: the inner product. The factors may overlap.
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
        let kernels = self.tape_kernels().reduce(self, is_wide::<V>())?;
        let mut custom = t.custom();
        let op = DotOp::<V::Number> {
            kernel: kernels.dot_adjoint.clone(),
            x: custom.reads(x, Primal::Entry)?,
            y: custom.reads(y, Primal::Entry)?,
            out: custom.overwrites(&product)?,
            n,
            shared: share_memory(&x, &y) && x.byte_range() != y.byte_range(),
        };
        let one = V::Number::of(1.0);
        custom.run(op, |stream| {
            sum_up(stream, kernels.sum, n, one, product.reborrow(), |launch, divisor, out| {
                // SAFETY: each block reads its chunk of n elements and writes one sum.
                unsafe { kernels.dot.launch(stream, launch, (x, y, n, divisor, out)) }
            })
        })
    }

    fn record_divided<V: DifferentiableValue<Number: Summed>>(
        &self,
        t: &mut Recorder<'_>,
        elements: DeviceSlice<'_, V>,
        mut out: DeviceSliceMut<'_, V::Number>,
        name: &'static str,
        divisor: usize,
    ) -> Result<()> {
        let x = elements.cast::<V::Number>()?;
        let n = checked(x.len(), &out)?;
        let by_none = divisor == 0;
        let divisor = V::Number::of(divisor as f64);
        let kernels = self.tape_kernels().reduce(self, is_wide::<V>())?;
        let mut custom = t.custom();
        let op = SumOp::<V::Number> {
            name,
            kernel: kernels.sum_adjoint.clone(),
            x: custom.reads(x, Primal::None)?,
            out: custom.overwrites(&out)?,
            n,
            divisor,
        };
        custom.run(op, |stream| {
            if by_none {
                return out.fill(stream, V::Number::of(f64::NAN));
            }
            sum_up(stream, kernels.sum, n, divisor, out.reborrow(), |launch, divisor, out| {
                // SAFETY: each block reads its chunk of n elements and writes one sum.
                unsafe { kernels.sum.launch(stream, launch, (x, n, divisor, out)) }
            })
        })
    }
}

pub(super) fn is_wide<V: DifferentiableValue>() -> bool {
    size_of::<V::Number>() == 8
}

pub(super) fn checked<T: Copy + 'static>(n: usize, out: &DeviceSliceMut<'_, T>) -> Result<u32> {
    if out.len() != 1 {
        return Err(Error::invalid(format!("room for {} sums, and one is written", out.len())));
    }
    let n = Some(n).filter(|n| *n < LIMIT).and_then(|n| u32::try_from(n).ok());
    n.ok_or_else(|| Error::invalid("a sum of 2^31 numbers or more"))
}

/// Runs `first`, a block of which adds up each chunk, and adds up what they give until one sum is left.
pub(super) fn sum_up<T: Summed>(
    stream: &Stream,
    sum: &Kernel,
    n: u32,
    divisor: T,
    out: DeviceSliceMut<'_, T>,
    first: impl FnOnce(LaunchConfig, T, DeviceSliceMut<'_, T>) -> Result<()>,
) -> Result<()> {
    join(
        stream,
        n,
        out,
        |launch, out| first(launch, divisor, out),
        |launch, parts, n, out| {
            // SAFETY: each block reads its chunk of n elements and writes one sum.
            unsafe { sum.launch(stream, launch, (parts, n, divisor, out)) }
        },
    )
}

/// Runs `first`, a block of which joins each chunk, and `next` on what they give, until one is left. Nothing gives
/// 0.
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
    // SAFETY: the blocks write one each.
    let mut parts = unsafe { scratch::<T>(stream, chunks)? };
    first(launch(chunks), parts.as_slice_mut())?;
    loop {
        let n = chunks as u32;
        chunks = chunks.div_ceil(CHUNK);
        if chunks == 1 {
            return next(launch(1), &parts, n, out);
        }
        // SAFETY: the blocks write one each.
        let mut fewer = unsafe { scratch::<T>(stream, chunks)? };
        next(launch(chunks), &parts, n, fewer.as_slice_mut())?;
        parts = fewer;
    }
}

struct SumOp<T> {
    name: &'static str,
    kernel: Kernel,
    x: Handle<T>,
    out: Handle<T>,
    n: u32,
    divisor: T,
}

impl<T: Summed> CustomOp for SumOp<T> {
    fn name(&self) -> &str {
        self.name
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let (g, of_x) = (pass.gradient(self.out)?, pass.gradient(self.x)?);
        if self.n == 0 || g.is_null() {
            return Ok(());
        }
        let launch = LaunchConfig::cover(self.n as usize, THREADS);
        let args = (self.n, self.divisor, g, of_x, pass.frame());
        // SAFETY: thread i adds to gradient i, of which there are n.
        unsafe { self.kernel.launch(pass.stream(), launch, args) }
    }

    fn log(&self) -> Option<usize> {
        Some(0)
    }
}

struct DotOp<T> {
    kernel: Kernel,
    x: Handle<T>,
    y: Handle<T>,
    out: Handle<T>,
    n: u32,
    /// Whether elements of one factor may be other elements of the other one.
    shared: bool,
}

impl<T: Summed> CustomOp for DotOp<T> {
    fn name(&self) -> &str {
        "dot"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let (g, n) = (pass.gradient(self.out)?, self.n);
        if n == 0 || g.is_null() {
            return Ok(());
        }
        let (x, y) = (pass.value(self.x)?, pass.value(self.y)?);
        let (of_x, of_y) = (pass.gradient(self.x)?, pass.gradient(self.y)?);
        let args = (x, y, n, g, of_x, of_y, u32::from(self.shared), pass.frame());
        // SAFETY: thread i reads elements i and adds to gradients i, of which there are n.
        unsafe { self.kernel.launch(pass.stream(), LaunchConfig::cover(n as usize, THREADS), args) }
    }

    fn log(&self) -> Option<usize> {
        Some(if self.shared { 2 * self.n as usize } else { 0 })
    }
}
