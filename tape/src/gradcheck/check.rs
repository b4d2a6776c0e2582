//! Compares products of derivatives with products of gradients.

use cuda_safe::{Result, arg::InspectArgs};

use super::Gradcheck;
use super::differences::{self, Estimate};
use super::investigate::Pair;
use super::numbers::{Field, Random, power_of_two};
use super::pass::Pass;
use super::report::{Compared, Finding, Oracle, Place, Report};
use super::rig::Rig;
use super::tangents::{Found, Tangents};

pub(super) struct Check<'a, A> {
    pub(super) rig: Rig<'a, A>,
    tangents: Option<Tangents>,
    lost: Option<String>,
    pub(super) random: Random,
    pub(super) tolerance: f64,
    /// The relative accuracy with which a derivative must be known, compared with itself or a typical one.
    pub(super) known: f64,
    directions: usize,
    seed: u64,
    /// For each output, whether it may be compared: it is finite, and the same in two runs.
    pub(super) steady: Vec<bool>,
    varies: bool,
    /// Whether all inputs and outputs are finite.
    pub(super) finite: bool,
    params: Vec<Compared>,
    pub(super) findings: Vec<Finding>,
}

/// ⟨ȳ, J ẋ⟩ and ⟨Jᵀ ȳ, ẋ⟩.
#[derive(Debug, Clone, Copy)]
pub(super) struct Products {
    pub(super) expected: f64,
    pub(super) got: f64,
    /// The sum of all terms' magnitudes.
    pub(super) size: f64,
    /// The error of `expected`, due to the errors of the derivatives.
    pub(super) spread: f64,
    /// The factor by which independent errors of the terms compensate each other.
    pub(super) compensation: f64,
}

impl Products {
    pub(super) fn difference(&self) -> f64 {
        self.got - self.expected
    }

    /// Returns the difference relative to the size.
    pub(super) fn error(&self) -> f64 {
        let difference = self.difference().abs();
        if difference == 0.0 { 0.0 } else { difference / self.size }
    }

    /// Returns whether the difference can be explained by rounding errors, which mostly compensate each other.
    pub(super) fn agree(&self, tolerance: f64, rounding: f64) -> bool {
        let relative = (tolerance * self.compensation).max(32.0 * rounding).min(tolerance);
        self.difference().abs() <= relative * self.size + self.spread
    }
}

impl<'a, A: InspectArgs> Check<'a, A> {
    pub(super) fn new(
        rig: Rig<'a, A>,
        tangents: Option<Tangents>,
        random: Random,
        settings: &Gradcheck,
    ) -> Self {
        let by_type = |rounding: f64| match rounding {
            fine if fine < 1e-12 => 1e-9,
            single if single < 1e-6 => 1e-4,
            half if half < 1e-3 => 5e-3,
            _ => 2e-2,
        };
        let known = (64.0 * rig.rounding()).max(0.02);
        let tolerance = settings.tolerance.unwrap_or_else(|| by_type(rig.rounding()));
        let Gradcheck { directions, seed, .. } = *settings;
        let (steady, params, findings) = Default::default();
        let (lost, varies, finite) = (None, false, true);
        Self {
            rig,
            tangents,
            lost,
            random,
            tolerance,
            known,
            directions,
            seed,
            steady,
            varies,
            finite,
            params,
            findings,
        }
    }

    pub(super) fn run(mut self) -> Result<Report> {
        let point = self.rig.point.clone();
        if !point.is_empty() && self.rig.output_count() > 0 {
            self.run_twice(&point)?;
        }
        let inputs = self.rig.inputs.clone();
        for input in &inputs {
            let row = Compared { param: input.name.clone(), numbers: 0, error: 0.0, left_out: 0 };
            match self.params.iter_mut().find(|row| row.param == input.name) {
                Some(row) => row.numbers += input.count,
                None => self.params.push(Compared { numbers: input.count, ..row }),
            }
            self.compare(&point, input)?;
        }
        if !self.findings.iter().any(|finding| finding.problem.is_wrong()) {
            self.vary(&point)?;
        }
        let weight = |finding: &Finding| match finding.problem.is_wrong() {
            // A NaN is the worst finding.
            true if finding.error.is_nan() => f64::INFINITY,
            true => 10.0 + finding.error,
            false => 0.0,
        };
        let mut findings = self.findings;
        findings.sort_by(|one, other| weight(other).total_cmp(&weight(one)));
        Ok(Report {
            op: self.rig.op.name().to_owned(),
            oracle: if self.tangents.is_some() { Oracle::Tangents } else { Oracle::Differences },
            lost: self.lost,
            seed: self.seed,
            varies: self.varies,
            params: self.params,
            findings,
        })
    }

    /// Runs the kernel twice, to find the outputs that are finite and reproducible.
    fn run_twice(&mut self, point: &[f64]) -> Result<()> {
        let (one, two) = (self.rig.forward(point)?, self.rig.forward(point)?);
        self.steady = vec![false; one.len()];
        self.finite = point.iter().chain(&one).all(|value| value.is_finite());
        for output in &self.rig.outputs {
            let range = output.range();
            let (Some(one), Some(two)) = (one.get(range.clone()), two.get(range.clone())) else {
                continue;
            };
            let typical = typical(one.iter().copied());
            let Some(steady) = self.steady.get_mut(range) else { continue };
            for ((steady, one), two) in steady.iter_mut().zip(one).zip(two) {
                self.varies |= one.to_bits() != two.to_bits();
                // A sum in another order changes little.
                *steady = one.is_finite() && (one - two).abs() <= 1e-3 * one.abs().max(typical);
            }
        }
        Ok(())
    }

    /// Returns the derivatives of all outputs in a direction.
    pub(super) fn derivatives(
        &mut self,
        point: &[f64],
        direction: &[f64],
    ) -> Result<Vec<Estimate>> {
        if let Some(tangents) = self.tangents {
            match tangents.derivatives(&mut self.rig, point, direction)? {
                Found::Derivatives(found) => return Ok(found),
                Found::Lost(place) => {
                    self.lost = Some(place);
                    self.tangents = None;
                }
            }
        }
        differences::derivatives(&mut self.rig, point, direction)
    }

    fn compare(&mut self, point: &[f64], input: &Field) -> Result<()> {
        if input.count == 0 {
            return Ok(());
        }
        let outputs = self.rig.outputs.clone();
        let mut compared = vec![false; outputs.len()];
        let mut unknown: Vec<Option<(Vec<f64>, Vec<Estimate>)>> = vec![None; outputs.len()];
        for number in 0..self.directions {
            let (direction, derivatives) = self.visible(point, input, number)?;
            let each = outputs.iter().zip(&mut compared).zip(&mut unknown);
            for ((output, compared), unknown) in each.filter(|((it, _), _)| it.count > 0) {
                let weights = self.weights(output, &derivatives);
                let left_out = output.count - used(&weights);
                if let Some(row) = self.row(input) {
                    row.left_out = row.left_out.max(left_out);
                }
                if left_out > 0 && unknown.is_none() {
                    *unknown = Some((direction.clone(), derivatives.clone()));
                }
                if left_out == output.count {
                    continue;
                }
                *compared = true;
                let gradients = self.rig.backward(point, &weights, &Pass::plain())?;
                let products = self.products(&derivatives, &weights, &gradients, &direction);
                if let Some(row) = self.row(input).filter(|row| !row.error.is_nan()) {
                    let error = products.error();
                    row.error = if error.is_nan() { error } else { row.error.max(error) };
                }
                let agree = products.agree(self.tolerance, self.rig.rounding());
                // A vague product agrees only because its derivatives are almost unknown.
                let vague = products.error() > 0.1 && products.got.abs() > 0.1 * products.spread;
                if agree && vague && !self.is_found(input, output) {
                    self.unknown(input, output);
                }
                if !agree && !self.is_found(input, output) {
                    let pair = Pair { input, output, direction: &direction, weights: &weights };
                    self.investigate(point, pair, products)?;
                }
            }
        }
        for ((output, compared), unknown) in outputs.iter().zip(compared).zip(unknown) {
            let Some((direction, derivatives)) = unknown else { continue };
            if !self.is_found(input, output) {
                self.explain(point, input, output, &direction, &derivatives, compared)?;
            }
        }
        Ok(())
    }

    /// Returns a direction and the derivatives of all outputs in it. The direction is longer than usual if the
    /// outputs would otherwise hardly change.
    fn visible(
        &mut self,
        point: &[f64],
        input: &Field,
        number: usize,
    ) -> Result<(Vec<f64>, Vec<Estimate>)> {
        let mut direction = self.direction(point, input, number)?;
        let mut derivatives = self.derivatives(point, &direction)?;
        for _ in 0..3 {
            let is_hidden = |output: &Field| self.is_hidden(output, &derivatives);
            if !self.rig.outputs.iter().any(is_hidden) {
                break;
            }
            let longer: Vec<f64> = direction.iter().map(|by| by * 64.0).collect();
            let found = self.derivatives(point, &longer)?;
            let seen = |output: &&Field| !self.is_all_unknown(output, &found);
            let before = |output: &&Field| !self.is_all_unknown(output, &derivatives);
            let outputs = &self.rig.outputs;
            if outputs.iter().filter(seen).count() < outputs.iter().filter(before).count() {
                break;
            }
            (direction, derivatives) = (longer, found);
        }
        Ok((direction, derivatives))
    }

    fn is_all_unknown(&self, output: &Field, derivatives: &[Estimate]) -> bool {
        let typical = typical_of(output, derivatives);
        let mut known = derivatives.get(output.range()).unwrap_or_default().iter();
        known.all(|known| !is_known(known, typical, self.known))
    }

    /// Returns whether the derivatives of an output are unknown because it hardly changes.
    fn is_hidden(&self, output: &Field, derivatives: &[Estimate]) -> bool {
        let known = derivatives.get(output.range()).unwrap_or_default();
        let still = |known: &Estimate| known.size > 0.0 && known.change <= 1e-3 * known.size;
        self.is_all_unknown(output, derivatives) && !known.is_empty() && known.iter().all(still)
    }

    fn row(&mut self, input: &Field) -> Option<&mut Compared> {
        self.params.iter_mut().find(|row| row.param == input.name)
    }

    /// Returns whether something was found for this input and this output.
    fn is_found(&self, input: &Field, output: &Field) -> bool {
        let of = |place: &Place| place.param == output.name;
        let same = |finding: &Finding| {
            finding.input.param == input.name && finding.output.as_ref().is_some_and(of)
        };
        self.findings.iter().any(same)
    }

    /// Returns a random direction of one input: of all of its numbers, or of some. The first has the signs of a
    /// gradient, so that its products do not cancel.
    fn direction(&mut self, point: &[f64], input: &Field, number: usize) -> Result<Vec<f64>> {
        let mut signs = vec![0.0; point.len()];
        if number == 0 {
            let weights: Vec<f64> =
                self.steady.clone().iter().map(|steady| f64::from(u8::from(*steady))).collect();
            signs = self.rig.backward(point, &weights, &Pass::plain())?;
        }
        let mut direction = vec![0.0; point.len()];
        let share = 0.25f64.powi(i32::try_from(number).unwrap_or(i32::MAX));
        let share = if input.count <= 8 { 1.0 } else { share.max(4.0 / input.count as f64) };
        for at in input.range() {
            // The scale is a power of two, so that most points are exact.
            let scale = power_of_two(self.rig.scales().get(at).copied().unwrap_or(1.0));
            let moves = self.random.fraction() < share;
            let random = self.random.sign();
            let sign = match signs.get(at) {
                Some(sign) if *sign != 0.0 && sign.is_finite() => sign.signum(),
                _ => random,
            };
            let finite = point.get(at).is_some_and(|value| value.is_finite());
            if let Some(place) = direction.get_mut(at).filter(|_| moves && finite) {
                *place = sign * scale;
            }
        }
        Ok(direction)
    }

    /// Returns random weights for those numbers of an output whose derivatives are known.
    pub(super) fn weights(&mut self, output: &Field, derivatives: &[Estimate]) -> Vec<f64> {
        let mut weights = vec![0.0; derivatives.len()];
        let typical = typical_of(output, derivatives);
        for at in output.range() {
            let weight = self.random.sign() * (0.5 + 0.5 * self.random.fraction());
            let Some(known) = derivatives.get(at) else { continue };
            if !self.is_steady(at) || !is_known(known, typical, self.known) {
                continue;
            }
            // The weights are scaled so that small outputs count as much as large ones.
            let size = known.value.abs().clamp(typical / 64.0, typical * 64.0);
            let scale = power_of_two(if size > 0.0 { size } else { 1.0 }).clamp(1e-18, 1e18);
            if let Some(place) = weights.get_mut(at) {
                *place = f64::from((weight / scale) as f32);
            }
        }
        weights
    }

    /// Returns both products; terms with a zero factor are zero.
    pub(super) fn products(
        &self,
        derivatives: &[Estimate],
        weights: &[f64],
        gradients: &[f64],
        direction: &[f64],
    ) -> Products {
        let (mut expected, mut size, mut variance) = (0.0, 0.0, 0.0);
        for (derivative, weight) in derivatives.iter().zip(weights).filter(|(_, w)| **w != 0.0) {
            let term = derivative.value * weight;
            expected += term;
            size += term.abs();
            variance += (derivative.error * weight).powi(2);
        }
        let (mut got, mut sum, mut squares, mut moves) = (0.0, 0.0, 0.0, 0.0);
        for (gradient, by) in gradients.iter().zip(direction).filter(|(_, by)| **by != 0.0) {
            let term = gradient * by;
            got += term;
            sum += term.abs();
            squares += term * term;
            moves += by.abs();
        }
        size += sum;
        let compensation = if sum > 0.0 { f64::sqrt(squares) / sum } else { 1.0 };
        // The spread includes gradients that are too small for their type.
        let spread = 4.0 * f64::sqrt(variance) + moves * self.rig.tiny();
        Products { expected, got, size, spread, compensation }
    }

    /// Returns whether an output is finite and reproducible.
    pub(super) fn is_steady(&self, output: usize) -> bool {
        self.steady.get(output).copied().unwrap_or(false)
    }
}

/// Returns how many weights are not zero.
pub(super) fn used(weights: &[f64]) -> usize {
    weights.iter().filter(|weight| **weight != 0.0).count()
}

/// Returns the typical size of the nonzero derivatives of an output.
pub(super) fn typical_of(output: &Field, derivatives: &[Estimate]) -> f64 {
    let known = derivatives.get(output.range()).unwrap_or_default();
    typical(known.iter().map(|known| known.value).filter(|value| *value != 0.0))
}

/// Returns whether a derivative is known well enough: to `share` of itself or of a typical one, or to be zero.
pub(super) fn is_known(known: &Estimate, typical: f64, share: f64) -> bool {
    let Estimate { value, error, size, .. } = *known;
    let zero = value.abs() <= error && error <= share * size;
    error.is_finite() && (zero || error <= share * value.abs().max(typical))
}

/// Returns the root mean square of the finite values; 0 if there are none.
pub(super) fn typical(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values.filter(|value| value.is_finite()) {
        sum += value * value;
        count += 1.0;
    }
    let mean: f64 = if count > 0.0 { sum / count } else { 0.0 };
    if mean.is_finite() { mean.sqrt() } else { f64::MAX.sqrt() }
}

/// Returns the place of a whole parameter.
pub(super) fn whole(field: &Field) -> Place {
    Place { param: field.name.clone(), element: None, offset: None }
}

/// Returns the place of one number of a parameter.
pub(super) fn place(field: &Field, number: usize) -> Place {
    let (element, offset) = field.element_of(number - field.first);
    Place {
        param: field.name.clone(),
        element: matches!(field.home, super::numbers::Home::Memory(_)).then_some(element),
        offset: field.has_members().then_some(offset),
    }
}
