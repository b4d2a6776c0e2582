//! Norms with gradients.

use cuda_safe::{
    DeviceBuffer, DeviceSlice, DeviceSliceMut, Kernel, LaunchConfig, ReadView, Result, WriteView,
};
use tape::{Adjoint, CustomOp, Handle, Primal, Recorder};

use super::DifferentiableValue;
use super::kernels::Reduce;
use super::reductions::{Summed, THREADS, checked, is_wide, join, sum_up};
use crate::GeometryKernels;
use crate::part::kept_scratch;

/// Norms are of all the numbers that vectors consist of, and are computed as sums are.
impl GeometryKernels {
    /// The sum of the squares of all numbers, recorded.
    ///
    /// # Errors
    /// As [`record_sum`](Self::record_sum).
    pub fn record_squared_norm<'a, 'b, V: DifferentiableValue<Number: Summed>>(
        &self,
        t: &mut Recorder<'_>,
        elements: impl ReadView<'a, V>,
        norm: impl WriteView<'b, V::Number>,
    ) -> Result<()> {
        self.record_each(t, elements.read_view(), norm.write_view(), "squared norm", |kernels| {
            [kernels.squares, kernels.squares_adjoint]
        })
    }

    /// The root of the sum of the squares of all numbers, recorded: the Euclidean norm. Its gradient is the unit
    /// vector, and 0 where the norm is 0.
    ///
    /// Squares of f32 are infinite from 1.9e19 on, and 0 below 2.6e-23.
    ///
    /// # Errors
    /// As [`record_sum`](Self::record_sum).
    pub fn record_norm<'a, 'b, V: DifferentiableValue<Number: Summed>>(
        &self,
        t: &mut Recorder<'_>,
        elements: impl ReadView<'a, V>,
        norm: impl WriteView<'b, V::Number>,
    ) -> Result<()> {
        let (x, mut norm) = (elements.read_view().cast::<V::Number>()?, norm.write_view());
        let n = checked(x.len(), &norm)?;
        let kernels = self.tape_kernels().reduce(self, is_wide::<V>())?;
        let mut custom = t.custom();
        let op = NormOp::<V::Number> {
            kernel: kernels.norm_adjoint.clone(),
            x: custom.reads(x, Primal::Entry)?,
            out: custom.overwrites_and_keeps(&norm)?,
            n,
        };
        let one = V::Number::of(1.0);
        custom.run(op, |stream| {
            stream.graph_lock([norm.allocation()]).run(|| {
                sum_up(stream, kernels.sum, n, one, norm.reborrow(), |launch, divisor, out| {
                    // SAFETY: each block reads its chunk of n elements and writes one sum.
                    unsafe { kernels.squares.launch(stream, launch, (x, n, divisor, out)) }
                })?;
                // SAFETY: one thread, which replaces one number.
                unsafe { kernels.root.launch(stream, LaunchConfig::new(1, 1), (norm.reborrow(),)) }
            })
        })
    }

    /// The sum of the absolute values of all numbers, recorded: the 1-norm. The gradient by a number is its sign,
    /// and 0 of 0.
    ///
    /// # Errors
    /// As [`record_sum`](Self::record_sum).
    pub fn record_norm_1<'a, 'b, V: DifferentiableValue<Number: Summed>>(
        &self,
        t: &mut Recorder<'_>,
        elements: impl ReadView<'a, V>,
        norm: impl WriteView<'b, V::Number>,
    ) -> Result<()> {
        self.record_each(t, elements.read_view(), norm.write_view(), "1-norm", |kernels| {
            [kernels.sizes, kernels.sizes_adjoint]
        })
    }

    /// The greatest absolute value among all numbers, recorded: the maximum norm; NaN loses against numbers. The
    /// gradient is that of one number, the first of those that are as great, and 0 where all are 0.
    ///
    /// # Errors
    /// As [`record_sum`](Self::record_sum).
    pub fn record_norm_max<'a, 'b, V: DifferentiableValue<Number: Summed>>(
        &self,
        t: &mut Recorder<'_>,
        elements: impl ReadView<'a, V>,
        norm: impl WriteView<'b, V::Number>,
    ) -> Result<()> {
        let (x, mut norm) = (elements.read_view().cast::<V::Number>()?, norm.write_view());
        let n = checked(x.len(), &norm)?;
        let kernels = self.tape_kernels().reduce(self, is_wide::<V>())?;
        let mut custom = t.custom();
        let known_x = custom.reads(x, Primal::Entry)?;
        let out = custom.overwrites_and_keeps(&norm)?;
        let find = kernels.first_greatest.clone();
        let kernel = kernels.greatest_adjoint.clone();
        let home = norm.allocation().home_stream().clone();
        custom.run_with(|stream, through| {
            let greatest = kernels.greatest;
            let join_elements = |launch, out: DeviceSliceMut<'_, V::Number>| {
                // SAFETY: each block reads its chunk of n elements and writes one.
                unsafe { greatest.launch(stream, launch, (x, n, out)) }
            };
            join(stream, n, norm.reborrow(), join_elements, |launch, parts, n, out| {
                // SAFETY: as above.
                unsafe { greatest.launch(stream, launch, (parts, n, out)) }
            })?;
            // SAFETY: the adjoint fills it.
            let first = unsafe { kept_scratch::<u32>(stream, &home, usize::from(through))? };
            Ok(GreatestOp { find, kernel, x: known_x, out, n, first })
        })
    }

    /// A sum of something of each number: by a kernel and its adjoint.
    fn record_each<V: DifferentiableValue<Number: Summed>>(
        &self,
        t: &mut Recorder<'_>,
        elements: DeviceSlice<'_, V>,
        mut out: DeviceSliceMut<'_, V::Number>,
        name: &'static str,
        of: impl for<'k> FnOnce(&Reduce<'k>) -> [&'k Kernel; 2],
    ) -> Result<()> {
        let x = elements.cast::<V::Number>()?;
        let n = checked(x.len(), &out)?;
        let kernels = self.tape_kernels().reduce(self, is_wide::<V>())?;
        let [first, adjoint] = of(&kernels);
        let mut custom = t.custom();
        let op = EachOp::<V::Number> {
            name,
            kernel: adjoint.clone(),
            x: custom.reads(x, Primal::Entry)?,
            out: custom.overwrites(&out)?,
            n,
        };
        let one = V::Number::of(1.0);
        custom.run(op, |stream| {
            sum_up(stream, kernels.sum, n, one, out.reborrow(), |launch, divisor, out| {
                // SAFETY: each block reads its chunk of n elements and writes one sum.
                unsafe { first.launch(stream, launch, (x, n, divisor, out)) }
            })
        })
    }
}

/// Whose adjoint looks at each number and the gradient.
struct EachOp<T> {
    name: &'static str,
    kernel: Kernel,
    x: Handle<T>,
    out: Handle<T>,
    n: u32,
}

impl<T: Summed> CustomOp for EachOp<T> {
    fn name(&self) -> &str {
        self.name
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let (g, of_x) = (pass.gradient(self.out)?, pass.gradient(self.x)?);
        if self.n == 0 || g.is_null() {
            return Ok(());
        }
        let launch = LaunchConfig::cover(self.n as usize, THREADS);
        let args = (pass.value(self.x)?, self.n, g, of_x, pass.frame());
        // SAFETY: thread i reads element i and adds to gradient i, of which there are n.
        unsafe { self.kernel.launch(pass.stream(), launch, args) }
    }

    fn log(&self) -> Option<usize> {
        Some(0)
    }
}

struct NormOp<T> {
    kernel: Kernel,
    x: Handle<T>,
    out: Handle<T>,
    n: u32,
}

impl<T: Summed> CustomOp for NormOp<T> {
    fn name(&self) -> &str {
        "norm"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let (g, of_x) = (pass.gradient(self.out)?, pass.gradient(self.x)?);
        if self.n == 0 || g.is_null() {
            return Ok(());
        }
        let launch = LaunchConfig::cover(self.n as usize, THREADS);
        let args = (pass.value(self.x)?, self.n, pass.value(self.out)?, g, of_x, pass.frame());
        // SAFETY: thread i reads element i and adds to gradient i, of which there are n.
        unsafe { self.kernel.launch(pass.stream(), launch, args) }
    }

    fn log(&self) -> Option<usize> {
        Some(0)
    }
}

struct GreatestOp<T> {
    find: Kernel,
    kernel: Kernel,
    x: Handle<T>,
    out: Handle<T>,
    n: u32,
    /// Where the greatest number is.
    first: DeviceBuffer<u32>,
}

impl<T: Summed> CustomOp for GreatestOp<T> {
    fn name(&self) -> &str {
        "maximum norm"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let g = pass.gradient(self.out)?;
        if self.n == 0 || g.is_null() {
            return Ok(());
        }
        let (stream, n) = (pass.stream(), self.n);
        let (x, out, of_x) = (pass.value(self.x)?, pass.value(self.out)?, pass.gradient(self.x)?);
        stream.graph_lock([self.first.allocation()]).run(|| {
            self.first.fill(stream, u32::MAX)?;
            let launch = LaunchConfig::cover(n as usize, THREADS);
            // SAFETY: thread i reads element i, of which there are n, and lowers one number.
            unsafe { self.find.launch(stream, launch, (&x, n, &out, &mut self.first)) }?;
            let args = (&x, n, &self.first, g, of_x, pass.frame());
            // SAFETY: one thread reads that element, if it is below n, and adds to its gradient.
            unsafe { self.kernel.launch(stream, LaunchConfig::new(1, 1), args) }
        })
    }

    fn log(&self) -> Option<usize> {
        Some(0)
    }
}
