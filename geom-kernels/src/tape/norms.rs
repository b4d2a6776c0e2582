//! Norms with gradients.

use cuda_safe::{DeviceSlice, DeviceSliceMut, LaunchConfig, ReadView, Result, WriteView};
use tape::{Primal, Recorder};

use super::reductions::{Reduce, Sizes, Squares, Summed, Term, checked, join, sum_up};
use super::{DifferentiableValue, Recorded};
use crate::GeometryKernels;
use crate::lengths::cover;
use crate::part::kept_scratch;

/// Norms are over all numbers of all vectors, and are computed like sums.
impl GeometryKernels {
    /// Records the sum of the squares of all numbers.
    ///
    /// # Errors
    /// As [`record_sum`](Self::record_sum).
    pub fn record_squared_norm<'a, 'b, V: DifferentiableValue<Number: Summed>>(
        &self,
        t: &mut Recorder<'_>,
        elements: impl ReadView<'a, V>,
        norm: impl WriteView<'b, V::Number>,
    ) -> Result<()> {
        self.record_terms::<Squares, V>(t, elements.read_view(), norm.write_view())
    }

    /// Records the Euclidean norm: the root of the sum of the squares of all numbers. Its gradient is the unit vector,
    /// and 0 where the norm is 0.
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
        let kernels = self.kernels::<Reduce<V::Number>>()?;
        let mut custom = t.custom();
        let known_x = custom.reads(x, Primal::Entry)?;
        let out = custom.overwrites(&norm, Primal::Exit)?;
        let (count, by) = (x.len(), kernels.clone());
        let op = Recorded { name: "norm", out, count, adds: 0 }.adjoint(move |pass, g| {
            let (x, norm) = (pass.value(known_x)?, pass.value(out)?);
            let (of_x, frame) = (pass.gradient(known_x)?, pass.frame());
            // SAFETY: there were n elements.
            unsafe { by.norm_adjoint(pass.stream(), cover(count), x, n, norm, g, of_x, frame) }
        });
        let one = V::Number::of(1.0);
        custom.run(op, |stream| {
            stream.graph_lock([norm.allocation()]).run(|| {
                sum_up(stream, &kernels, n, one, norm.reborrow(), |launch, out| {
                    kernels.terms::<Squares>(stream, launch, x, n, one, out)
                })?;
                kernels.root(stream, (1, 1), norm.reborrow())
            })
        })
    }

    /// Records the 1-norm: the sum of the absolute values of all numbers. The gradient with respect to a number is its
    /// sign, and 0 of 0.
    ///
    /// # Errors
    /// As [`record_sum`](Self::record_sum).
    pub fn record_norm_1<'a, 'b, V: DifferentiableValue<Number: Summed>>(
        &self,
        t: &mut Recorder<'_>,
        elements: impl ReadView<'a, V>,
        norm: impl WriteView<'b, V::Number>,
    ) -> Result<()> {
        self.record_terms::<Sizes, V>(t, elements.read_view(), norm.write_view())
    }

    /// Records the maximum norm: the greatest absolute value among all numbers, where NaN counts as less than any
    /// number. Only the first of the numbers with that absolute value has a gradient; if all are 0, none has.
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
        let kernels = self.kernels::<Reduce<V::Number>>()?;
        let mut custom = t.custom();
        let known_x = custom.reads(x, Primal::Entry)?;
        let out = custom.overwrites(&norm, Primal::Exit)?;
        let home = norm.allocation().home_stream().clone();
        custom.run_with(|stream, through| {
            let first =
                |launch, out: DeviceSliceMut<'_, _>| kernels.greatest(stream, launch, x, n, out);
            join(stream, n, norm.reborrow(), first, |launch, parts, n, out| {
                kernels.greatest(stream, launch, parts, n, out)
            })?;
            // SAFETY: `first_greatest` fills it with the index of the greatest number.
            let mut first = unsafe { kept_scratch::<u32>(stream, &home, usize::from(through))? };
            let count = x.len();
            let op = Recorded { name: "maximum norm", out, count, adds: 0 };
            Ok(op.adjoint(move |pass, g| {
                let (stream, launch) = (pass.stream(), cover(count));
                let (x, norm) = (pass.value(known_x)?, pass.value(out)?);
                let (of_x, frame) = (pass.gradient(known_x)?, pass.frame());
                stream.graph_lock([first.allocation()]).run(|| {
                    first.fill(stream, u32::MAX)?;
                    // SAFETY: there were n elements.
                    unsafe { kernels.first_greatest(stream, launch, &x, n, norm, &mut first) }?;
                    let one = LaunchConfig::new(1, 1);
                    // SAFETY: as above, and one thread.
                    unsafe { kernels.greatest_adjoint(stream, one, &x, n, &first, g, of_x, frame) }
                })
            }))
        })
    }

    /// Records a sum of a term of each number.
    fn record_terms<Of: Term, V: DifferentiableValue<Number: Summed>>(
        &self,
        t: &mut Recorder<'_>,
        elements: DeviceSlice<'_, V>,
        mut sum: DeviceSliceMut<'_, V::Number>,
    ) -> Result<()> {
        let x = elements.cast::<V::Number>()?;
        let n = checked(x.len(), &sum)?;
        let kernels = self.kernels::<Reduce<V::Number>>()?;
        let mut custom = t.custom();
        let known_x = custom.reads(x, Primal::Entry)?;
        let out = custom.overwrites(&sum, Primal::None)?;
        let (count, by) = (x.len(), kernels.clone());
        let op = Recorded { name: Of::SUM, out, count, adds: 0 }.adjoint(move |pass, g| {
            let (x, of_x, frame) = (pass.value(known_x)?, pass.gradient(known_x)?, pass.frame());
            // SAFETY: there were n elements.
            unsafe { by.terms_adjoint::<Of>(pass.stream(), cover(count), x, n, g, of_x, frame) }
        });
        let one = V::Number::of(1.0);
        custom.run(op, |stream| {
            sum_up(stream, &kernels, n, one, sum.reborrow(), |launch, out| {
                kernels.terms::<Of>(stream, launch, x, n, one, out)
            })
        })
    }
}
