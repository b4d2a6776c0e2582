//! Compares passes that take the gradients in different ways.

use cuda_safe::{Result, arg::InspectArgs};

use super::check::{Check, place, typical};
use super::numbers::{Field, only};
use super::pass::Pass;
use super::report::{Finding, Problem, Variation};
use crate::spec::Effect;

/// The gradients of a plain pass at one point.
struct Reference {
    gradients: Vec<f64>,
    /// The difference of two equal passes.
    noise: Vec<f64>,
}

impl<A: InspectArgs> Check<'_, A> {
    /// Compares all kinds of passes at a point.
    pub(super) fn vary(&mut self, point: &[f64]) -> Result<()> {
        let inputs = self.rig.inputs.clone();
        let outputs = self.rig.outputs.clone();
        let mut weights = vec![0.0; self.rig.output_count()];
        for (weight, steady) in weights.iter_mut().zip(self.steady.clone()) {
            let value = self.random.sign() * (0.5 + 0.5 * self.random.fraction());
            *weight = if steady { f64::from(value as f32) } else { 0.0 };
        }
        if weights.iter().all(|weight| *weight == 0.0) || inputs.iter().all(|it| it.count == 0) {
            return Ok(());
        }
        let plain = Pass::plain();
        let gradients = self.rig.backward(point, &weights, &plain)?;
        let again = self.rig.backward(point, &weights, &plain)?;
        let noise = gradients.iter().zip(&again).map(|(one, two)| (one - two).abs()).collect();
        let reference = Reference { gradients, noise };
        self.primal(point, &outputs)?;

        if inputs.iter().any(|input| input.effect == Effect::Overwrites) {
            let found = self.rig.backward(point, &weights, &Pass::drops())?;
            let read = |field: &Field, _: usize| field.effect != Effect::Overwrites;
            self.same(&reference, &found, Variation::Dropped, read, &[]);
        }
        let alone = |field: &Field| {
            field.effect == Effect::Reads && !outputs.iter().any(|it| it.home == field.home)
        };
        if inputs.iter().any(|field| alone(field) && field.dense().is_some()) {
            self.add(point, &weights, &reference)?;
        }
        let kept = Pass { overwrites: true, ..Pass::plain() };
        let found = self.rig.backward(point, &weights, &kept)?;
        self.same(&reference, &found, Variation::Overwritten, |_, _| true, &[]);
        if outputs.iter().filter(|output| output.count > 0).count() > 1 {
            let mut sum = vec![0.0; point.len()];
            for output in &outputs {
                let some = only(&weights, output.range());
                if some.iter().all(|weight| *weight == 0.0) {
                    continue;
                }
                let part = self.rig.backward(point, &some, &plain)?;
                sum.iter_mut().zip(&part).for_each(|(sum, part)| *sum += part);
            }
            self.same(&reference, &sum, Variation::OneOutput, |_, _| true, &[]);
        }
        if inputs.iter().filter(|input| input.count > 0).count() > 1 {
            for (at, input) in inputs.iter().enumerate().filter(|(_, input)| input.count > 0) {
                let found = self.rig.backward(point, &weights, &Pass::only(at))?;
                let of = |field: &Field, _: usize| field.range() == input.range();
                self.same(&reference, &found, Variation::OneInput, of, &[]);
            }
        }
        if self.rig.op.inner.settings.scratch.is_some() {
            let little = Pass { scratch: Some(1), ..Pass::plain() };
            let found = self.rig.backward(point, &weights, &little)?;
            self.same(&reference, &found, Variation::Resumed, |_, _| true, &[]);
        }
        if self.rig.op.inner.settings.log.is_some_and(|log| !log.is_a_guess()) {
            let logged = Pass { deterministic: true, ..Pass::plain() };
            let found = self.rig.backward(point, &weights, &logged)?;
            self.same(&reference, &found, Variation::Deterministic, |_, _| true, &[]);
        }
        Ok(())
    }

    /// Checks a pass in which inputs have a gradient before the adjoint runs.
    fn add(&mut self, point: &[f64], weights: &[f64], reference: &Reference) -> Result<()> {
        let mut before = vec![0.0; point.len()];
        for input in &self.rig.inputs {
            let known = reference.gradients.get(input.range()).unwrap_or_default();
            let size = typical(known.iter().copied()).clamp(1e-18, 1e18);
            let Some(before) = before.get_mut(input.range()) else { continue };
            for value in before {
                let random = self.random.sign() * (0.5 + 0.5 * self.random.fraction());
                *value = f64::from((random * size) as f32);
            }
        }
        let pass = Pass { before: Some(before.clone()), ..Pass::plain() };
        let mut found = self.rig.backward(point, weights, &pass)?;
        let given = self.rig.given_before(&before);
        found.iter_mut().zip(&given).for_each(|(found, given)| *found -= given);
        let is_given = |_: &Field, at: usize| given.get(at).is_some_and(|given| *given != 0.0);
        self.same(reference, &found, Variation::Added, is_given, &given);
        Ok(())
    }

    /// Notes the largest difference from the reference among the numbers that are to be compared. The pass has added
    /// to `before`, which is subtracted again.
    fn same(
        &mut self,
        reference: &Reference,
        found: &[f64],
        variation: Variation,
        compared: impl Fn(&Field, usize) -> bool,
        before: &[f64],
    ) {
        let mut worst: Option<Finding> = None;
        for input in &self.rig.inputs {
            let known = reference.gradients.get(input.range()).unwrap_or_default();
            let scale = typical(known.iter().copied());
            let (mut count, mut of) = (0, 0);
            let mut here: Option<Finding> = None;
            for at in input.range().filter(|at| compared(input, *at)) {
                let (Some(&expected), Some(&got)) = (reference.gradients.get(at), found.get(at))
                else {
                    continue;
                };
                of += 1;
                let noise = reference.noise.get(at).copied().unwrap_or(0.0);
                let before = before.get(at).copied().unwrap_or(0.0).abs();
                let most = self.tolerance * (expected.abs() + got.abs() + scale + before)
                    + 8.0 * noise
                    + 4.0 * self.rig.tiny();
                let difference = (got - expected).abs();
                let same = expected.to_bits() == got.to_bits() || expected.is_nan();
                if same || difference <= most {
                    continue;
                }
                count += 1;
                let error = difference / (expected.abs() + got.abs());
                if here.as_ref().is_none_or(|here| error > here.error || error.is_nan()) {
                    here = Some(Finding {
                        problem: if got.is_finite() { Problem::Wrong } else { Problem::NotFinite },
                        variation,
                        input: place(input, at),
                        output: None,
                        expected,
                        got,
                        error,
                        nearby: false,
                        numbers: None,
                    });
                }
            }
            let here = here.map(|here| Finding { numbers: Some((count, of)), ..here });
            let is_worse = |here: &Finding| {
                worst.as_ref().is_none_or(|worst| {
                    !worst.error.is_nan() && (here.error > worst.error || here.error.is_nan())
                })
            };
            if here.as_ref().is_some_and(is_worse) {
                worst = here;
            }
        }
        self.findings.extend(worst);
    }

    /// Checks that the primal, which runs instead of the forward kernel, has its results.
    fn primal(&mut self, point: &[f64], outputs: &[Field]) -> Result<()> {
        if self.rig.op.inner.tape_bytes.is_none() {
            return Ok(());
        }
        let wanted = self.rig.forward(point)?;
        let given = self.rig.recorded(point)?;
        for output in outputs {
            let (Some(wanted), Some(given)) =
                (wanted.get(output.range()), given.get(output.range()))
            else {
                continue;
            };
            let scale = typical(wanted.iter().copied());
            for (at, (expected, got)) in output.range().zip(wanted.iter().zip(given)) {
                let steady = self.steady.get(at).copied().unwrap_or(false);
                let most = self.tolerance * (expected.abs() + got.abs() + scale);
                let difference = (got - expected).abs();
                if !steady || difference <= most {
                    continue;
                }
                self.findings.push(Finding {
                    problem: Problem::Primal,
                    variation: Variation::Plain,
                    input: place(output, at),
                    output: None,
                    expected: *expected,
                    got: *got,
                    error: difference / (expected.abs() + got.abs()),
                    nearby: false,
                    numbers: None,
                });
                break;
            }
        }
        Ok(())
    }
}
