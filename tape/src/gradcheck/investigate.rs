//! Finds out, after products differ, whether the adjoint is wrong or the point is special, and which numbers
//! disagree.

use std::collections::BinaryHeap;
use std::ops::Range;

use cuda_safe::{Result, arg::InspectArgs};

use super::check::{Check, Products, is_known, place, typical_of, used, whole};
use super::differences::{self, Estimate, Sides};
use super::numbers::{Field, only, power_of_two};
use super::part::Part;
use super::pass::Pass;
use super::report::{Finding, Place, Problem, Variation};
use crate::spec::Effect;

/// The number of points near the given one that are tried.
const NEAR: usize = 5;
/// The most numbers of a parameter that are all compared.
const SMALL: usize = 64;
/// The number of parts of a larger parameter that are compared.
const PARTS: usize = 200;

/// Differences at several points.
#[derive(Debug, Clone, Copy, Default)]
struct Bias {
    mean: f64,
    /// Eight standard errors of the mean, because there are few points.
    uncertain: f64,
    spread: f64,
    size: f64,
}

impl Bias {
    fn of(all: &[Products]) -> Self {
        let count = all.len().max(1) as f64;
        let mean_of = |what: &dyn Fn(&Products) -> f64| all.iter().map(what).sum::<f64>() / count;
        let mean = mean_of(&Products::difference);
        let variance = mean_of(&|one| (one.difference() - mean).powi(2)) / (count - 1.0).max(1.0);
        let (spread, size) = (mean_of(&|one| one.spread), mean_of(&|one| one.size));
        Self { mean, uncertain: 8.0 * variance.sqrt(), spread, size }
    }

    /// Returns whether there is a difference that neither chance nor the oracle explains.
    fn persists(&self, tolerance: f64) -> bool {
        self.mean.abs() > self.uncertain + self.spread + tolerance * self.size
    }
}

/// The number found, and how many numbers differ of how many, if all were tried.
type Located = (Option<usize>, Option<(usize, usize)>);

/// Numbers of an input and an output whose products are compared.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) input: &'a Field,
    pub(super) output: &'a Field,
    /// The direction of the input.
    pub(super) direction: &'a [f64],
    /// The weights of the output.
    pub(super) weights: &'a [f64],
}

/// A number of an input and one of an output, at one point.
#[derive(Debug, Clone, Copy)]
struct Entry {
    input: usize,
    output: usize,
    /// How many numbers of the input differ, and how many were checked.
    numbers: Option<(usize, usize)>,
}

/// The verdict of nearby points.
enum Nearby {
    /// The adjoint is wrong, and the finding is noted.
    Wrong,
    /// The adjoint is right there.
    Right,
    Unknown,
}

impl<A: InspectArgs> Check<'_, A> {
    /// Finds out why products differ at a point.
    pub(super) fn investigate(
        &mut self,
        point: &[f64],
        pair: Pair<'_>,
        products: Products,
    ) -> Result<()> {
        let Pair { input, output, .. } = pair;
        let before = self.findings.len();
        match self.nearby(point, pair)? {
            Nearby::Wrong => return Ok(()),
            Nearby::Unknown => {}
            Nearby::Right => {
                if let Some(entry) = self.locate(point, pair)? {
                    self.doubt(point, input, output, entry)?;
                }
            }
        }
        // A large difference without an explanation makes the result undecided.
        let most = self.tolerance * products.size + products.spread;
        let difference = products.difference();
        let much = difference.is_nan() || difference.abs() > most;
        if much && self.findings.len() == before {
            self.unknown(input, output);
        }
        Ok(())
    }

    /// Finds out why derivatives of some outputs are unknown at a point, and whether they are right nearby.
    pub(super) fn explain(
        &mut self,
        point: &[f64],
        input: &Field,
        output: &Field,
        direction: &[f64],
        derivatives: &[Estimate],
        compared: bool,
    ) -> Result<()> {
        let typical = typical_of(output, derivatives);
        let mut weights = vec![0.0; derivatives.len()];
        let mut first = None;
        for at in output.range() {
            let known =
                derivatives.get(at).is_some_and(|known| is_known(known, typical, self.known));
            let weight = self.random.sign() * (0.5 + self.random.fraction());
            if let Some(place) = weights.get_mut(at).filter(|_| !known && self.is_steady(at)) {
                *place = f64::from(weight as f32);
                first = first.or(Some(at));
            }
        }
        let Some(first) = first else {
            if !compared {
                self.unknown(input, output);
            }
            return Ok(());
        };
        let pair = Pair { input, output, direction, weights: &weights };
        match self.nearby(point, pair)? {
            Nearby::Wrong => return Ok(()),
            Nearby::Right => {}
            // Other directions were compared, so the parameter is not left unchecked.
            Nearby::Unknown if compared => return Ok(()),
            Nearby::Unknown => {
                self.unknown(input, output);
                return Ok(());
            }
        }
        // The search finds the number of the input at which the output is not smooth.
        let moving = |at: &usize| direction.get(*at).is_some_and(|by| *by != 0.0);
        let mut numbers: Vec<usize> = input.range().filter(moving).collect();
        let smooth = |check: &mut Self, part: &[usize]| -> Result<bool> {
            let some = only(direction, part.iter().copied());
            Ok(differences::sides(&mut check.rig, point, &some, first)? == Sides::Smooth)
        };
        while numbers.len() > 1 {
            let rest = numbers.split_off(numbers.len() / 2);
            if smooth(self, &numbers)? {
                numbers = rest;
            }
        }
        match numbers.first() {
            Some(number) => {
                let entry = Entry { input: *number, output: first, numbers: None };
                self.doubt(point, input, output, entry)
            }
            None => Ok(()),
        }
    }

    /// Compares products at points near the given one: first on one side of it, then on the other.
    fn nearby(&mut self, point: &[f64], pair: Pair<'_>) -> Result<Nearby> {
        let mut side: Vec<f64> = point.iter().map(|_| self.random.sign()).collect();
        let mut result = Nearby::Unknown;
        for _ in 0..2 {
            match self.beside(point, &side, pair)? {
                Nearby::Wrong => return Ok(Nearby::Wrong),
                Nearby::Right => result = Nearby::Right,
                Nearby::Unknown => {}
            }
            side.iter_mut().for_each(|sign| *sign = -*sign);
        }
        Ok(result)
    }

    fn beside(&mut self, point: &[f64], side: &[f64], pair: Pair<'_>) -> Result<Nearby> {
        let Pair { input, output, .. } = pair;
        let near: Vec<Vec<f64>> = (0..NEAR).map(|_| self.near(point, side)).collect();
        let mut all = Vec::new();
        let mut broken = 0;
        for point in &near {
            match self.products_at(point, pair)? {
                Some(found) if found.got.is_finite() => all.push(found),
                Some(_) => broken += 1,
                None => {}
            }
        }
        if broken == 0 && all.len() < 3 {
            return Ok(Nearby::Unknown);
        }
        let bias = Bias::of(&all);
        // A small difference of large sums is investigated further, and single numbers decide.
        let least = (32.0 * self.rig.rounding()).min(self.tolerance);
        let suspicious = all.len() >= 3 && bias.persists(least);
        if let Some(beside) = near.first().filter(|_| suspicious || broken > NEAR / 2) {
            if let Some(entry) = self.locate(beside, pair)?
                && self.is_wrong(&near, entry)?
            {
                self.blame(point, beside, input, output, entry)?;
                return Ok(Nearby::Wrong);
            }
            // A difference of a few percent may come from the rounding of terms that cancel.
            let several = input.count > 1 || output.count > 1;
            if several && bias.persists(self.tolerance.max(0.05)) {
                self.blame_all(input, output, &all);
                return Ok(Nearby::Wrong);
            }
        }
        Ok(Nearby::Right)
    }

    /// Returns a point near another: all numbers are moved a little to one side. A number that is not finite becomes
    /// finite.
    fn near(&mut self, point: &[f64], side: &[f64]) -> Vec<f64> {
        let by = if self.rig.rounding() < 1e-6 { 1.0 / 16.0 } else { 1.0 / 8.0 };
        let scales = self.rig.scales().to_vec();
        let each = point.iter().zip(side).zip(&scales);
        let move_one = |((at, side), scale): ((&f64, &f64), &f64)| {
            let at = if at.is_finite() { *at } else { *scale };
            at + side * (0.5 + 0.5 * self.random.fraction()) * by * scale
        };
        each.map(move_one).collect()
    }

    /// Returns both products at another point, with randomly scaled weights; `None` if they are unknown.
    fn products_at(&mut self, point: &[f64], pair: Pair<'_>) -> Result<Option<Products>> {
        let derivatives = self.derivatives(point, pair.direction)?;
        let (weights, scale) = self.scaled(pair.output, &derivatives, pair.weights);
        if used(&weights) == 0 {
            return Ok(None);
        }
        let gradients = self.rig.backward(point, &weights, &Pass::plain())?;
        let Products { expected, got, size, spread, compensation } =
            self.products(&derivatives, &weights, &gradients, pair.direction);
        let (expected, got, size) = (expected / scale, got / scale, size / scale);
        Ok(Some(Products { expected, got, size, spread: spread / scale, compensation }))
    }

    /// Returns the weights of outputs whose derivatives are known, times a random factor, with which adjoints round
    /// differently.
    fn scaled(
        &mut self,
        output: &Field,
        derivatives: &[Estimate],
        weights: &[f64],
    ) -> (Vec<f64>, f64) {
        let scale = f64::from((0.5 + self.random.fraction()) as f32);
        let mut weights = self.known(output, derivatives, weights);
        weights.iter_mut().for_each(|weight| *weight = f64::from((*weight * scale) as f32));
        (weights, scale)
    }

    /// Finds the numbers that differ most at a point.
    fn locate(&mut self, point: &[f64], pair: Pair<'_>) -> Result<Option<Entry>> {
        let Pair { input, output, direction, weights } = pair;
        let derivatives = self.derivatives(point, direction)?;
        let (weights, _) = self.scaled(output, &derivatives, weights);
        let gradients = self.rig.backward(point, &weights, &Pass::plain())?;
        let moving = |at: &usize| direction.get(*at).is_some_and(|by| *by != 0.0);
        let numbers: Vec<usize> = input.range().filter(moving).collect();
        let broken = |at: &&usize| gradients.get(**at).is_some_and(|value| !value.is_finite());
        let count = numbers.iter().filter(broken).count();
        let (chosen, count) = match numbers.iter().find(broken) {
            Some(number) => (Some(*number), Some((count, numbers.len()))),
            None => self.search(&numbers, |check, part| {
                let some = only(direction, part.iter().copied());
                let derivatives = check.derivatives(point, &some)?;
                let known = check.known(output, &derivatives, &weights);
                let of = check.products(&derivatives, &known, &gradients, &some);
                // The gradients must be taken again if some outputs are left out.
                let same = known == weights;
                Ok(if same { of } else { check.again(point, &derivatives, &known, &some)? })
            })?,
        };
        let Some(chosen) = chosen else { return Ok(None) };
        // The input number is fixed now, and the search goes over parts of the outputs.
        let unit = only(direction, [chosen]);
        let derivatives = self.derivatives(point, &unit)?;
        let known = self.known(output, &derivatives, &weights);
        let outputs: Vec<usize> =
            output.range().filter(|at| known.get(*at).is_some_and(|w| *w != 0.0)).collect();
        let (found, _) = self.search(&outputs, |check, part| {
            check.again(point, &derivatives, &only(&known, part.iter().copied()), &unit)
        })?;
        Ok(found.map(|output| Entry { input: chosen, output, numbers: count }))
    }

    fn again(
        &mut self,
        point: &[f64],
        derivatives: &[Estimate],
        weights: &[f64],
        direction: &[f64],
    ) -> Result<Products> {
        let gradients = self.rig.backward(point, weights, &Pass::plain())?;
        Ok(self.products(derivatives, weights, &gradients, direction))
    }

    /// Returns the weights of outputs whose derivatives are known, and zero for the others.
    fn known(&self, output: &Field, derivatives: &[Estimate], weights: &[f64]) -> Vec<f64> {
        let typical = typical_of(output, derivatives);
        let each = weights.iter().zip(derivatives);
        each.map(|(weight, known)| if is_known(known, typical, self.known) { *weight } else { 0.0 })
            .collect()
    }

    /// Finds the number whose products differ most: tries all, or the parts that differ most. If all were tried, also
    /// returns how many differ.
    fn search(
        &mut self,
        numbers: &[usize],
        mut compare: impl FnMut(&mut Self, &[usize]) -> Result<Products>,
    ) -> Result<Located> {
        let excess = |of: &Products| match of.difference().is_finite() {
            true => (of.difference().abs() - of.spread).max(0.0),
            // A number with a derivative makes the clearer finding.
            false => 1e300 * (1.0 + of.expected.abs()),
        };
        if numbers.len() <= SMALL {
            let (mut best, mut most, mut count) = (None, -1.0, 0);
            for number in numbers {
                let found = compare(self, &[*number])?;
                let differs = excess(&found);
                if !found.agree(self.tolerance, 0.0) {
                    count += 1;
                }
                if differs > most {
                    (best, most) = (Some(*number), differs);
                }
            }
            return Ok((best, Some((count, numbers.len()))));
        }
        let mut parts = BinaryHeap::new();
        parts.push(Part { excess: f64::INFINITY, range: 0..numbers.len() });
        for _ in 0..PARTS {
            let Some(part) = parts.pop() else { break };
            let Range { start, end } = part.range;
            if end - start <= 1 {
                return Ok((numbers.get(start).copied(), None));
            }
            let middle = start.midpoint(end);
            for range in [start..middle, middle..end] {
                let some = numbers.get(range.clone()).unwrap_or_default();
                let excess = excess(&compare(self, some)?);
                parts.push(Part { excess, range });
            }
        }
        Ok((parts.pop().and_then(|part| numbers.get(part.range.start).copied()), None))
    }

    /// Returns whether an entry is wrong at several points.
    fn is_wrong(&mut self, near: &[Vec<f64>], entry: Entry) -> Result<bool> {
        let (mut all, mut broken) = (Vec::new(), 0);
        for point in near {
            let weight = f64::from((0.5 + self.random.fraction()) as f32);
            let found = self.entry_at(point, entry, weight)?;
            if found.got.is_finite() && found.expected.is_finite() {
                all.push(found);
            } else if found.expected.is_finite() {
                broken += 1;
            }
        }
        let biased = all.len() >= 3 && Bias::of(&all).persists(self.tolerance);
        Ok(broken > NEAR / 2 || biased || !self.is_linear(near, entry)?)
    }

    /// Returns whether a gradient for twice the weight is twice the gradient, up to rounding. The difference between
    /// a nonlinear gradient and the derivative varies with the weight.
    fn is_linear(&mut self, near: &[Vec<f64>], entry: Entry) -> Result<bool> {
        for point in near {
            let mut got = [0.0; 3];
            for (got, weight) in got.iter_mut().zip([1.0, 1.0, -2.0]) {
                let weights = single(self.rig.output_count(), entry.output, weight);
                let gradients = self.rig.backward(point, &weights, &Pass::plain())?;
                *got = gradients.get(entry.input).copied().unwrap_or(f64::NAN) / weight;
            }
            let [one, again, twice] = got;
            // Repeated runs may differ, too, because sums are taken in another order.
            let noise = 64.0 * (one - again).abs();
            if (one - twice).abs() <= noise + self.tolerance * (one.abs() + twice.abs()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the derivative of one output by one number, and its gradient for the output weight `weight`, divided
    /// by that weight.
    fn entry_at(&mut self, point: &[f64], entry: Entry, weight: f64) -> Result<Products> {
        let step = self.step(entry.input);
        let unit = single(point.len(), entry.input, step);
        let derivatives = self.derivatives(point, &unit)?;
        let weights = single(derivatives.len(), entry.output, weight);
        let Products { expected, got, size, spread, .. } =
            self.again(point, &derivatives, &weights, &unit)?;
        let by = weight * step;
        let (expected, got, size) = (expected / by, got / by, size / by);
        Ok(Products { expected, got, size, spread: spread / by, compensation: 1.0 })
    }

    fn blame(
        &mut self,
        point: &[f64],
        near: &[f64],
        input: &Field,
        output: &Field,
        entry: Entry,
    ) -> Result<()> {
        let (mut found, mut nearby) = (self.entry_at(point, entry, 1.0)?, false);
        let mut problem = Problem::Wrong;
        if found.agree(self.tolerance, 0.0) && !self.is_linear(&[point.to_vec()], entry)? {
            (found, problem) = (self.entry_at(point, entry, 2.0)?, Problem::NotLinear);
        } else if found.agree(self.tolerance, 0.0) || !found.expected.is_finite() {
            (found, nearby) = (self.entry_at(near, entry, 1.0)?, true);
        }
        if !found.got.is_finite() {
            let here = if nearby { near } else { point };
            problem = match self.is_unwritten(here, entry)? {
                true => Problem::Unwritten,
                false => Problem::NotFinite,
            };
        }
        if input.effect == Effect::Overwrites && problem == Problem::Wrong {
            problem = match found.expected == 0.0 {
                true => Problem::NotCleared,
                false => Problem::NotOverwritten,
            };
        }
        let places = [place(input, entry.input), place(output, entry.output)];
        self.note(problem, places, &found, nearby, entry.numbers);
        Ok(())
    }

    /// Returns whether a gradient that was not finite is finite if its memory is zero before the adjoint runs.
    fn is_unwritten(&mut self, point: &[f64], entry: Entry) -> Result<bool> {
        let weights = single(self.rig.output_count(), entry.output, 1.0);
        let pass = Pass { poison: false, ..Pass::plain() };
        let gradients = self.rig.backward(point, &weights, &pass)?;
        Ok(gradients.get(entry.input).is_some_and(|gradient| gradient.is_finite()))
    }

    /// Reports products that differ where no single number does.
    fn blame_all(&mut self, input: &Field, output: &Field, all: &[Products]) {
        let Some(found) = all.first() else { return };
        self.note(Problem::Wrong, [whole(input), whole(output)], found, true, None);
    }

    /// Notes what is wrong with the derivative of an output by an input.
    fn note(
        &mut self,
        problem: Problem,
        [input, output]: [Place; 2],
        found: &Products,
        nearby: bool,
        numbers: Option<(usize, usize)>,
    ) {
        self.findings.push(Finding {
            problem,
            variation: Variation::Plain,
            input,
            output: Some(output),
            expected: found.expected,
            got: found.got,
            error: found.error(),
            nearby,
            numbers,
        });
    }

    /// Reports that no derivative is known.
    pub(super) fn unknown(&mut self, input: &Field, output: &Field) {
        self.findings.push(Finding {
            problem: Problem::Unknown,
            variation: Variation::Plain,
            input: whole(input),
            output: Some(whole(output)),
            expected: f64::NAN,
            got: f64::NAN,
            error: f64::NAN,
            nearby: false,
            numbers: None,
        });
    }

    /// Reports what is special about a point at which an entry is wrong or unknown, while it is right nearby.
    fn doubt(&mut self, point: &[f64], input: &Field, output: &Field, entry: Entry) -> Result<()> {
        let found = self.entry_at(point, entry, 1.0)?;
        let known = found.spread <= 0.1 * found.size;
        if known && found.agree(self.tolerance, 0.0) {
            return Ok(());
        }
        let step = self.step(entry.input);
        let unit = single(point.len(), entry.input, step);
        let finite = found.got.is_finite();
        let problem = match differences::sides(&mut self.rig, point, &unit, entry.output)? {
            // Zero times infinity, of numbers that were left out, gives NaN.
            Sides::Kink { .. } | Sides::Smooth if !finite && !self.finite => Problem::Undefined,
            Sides::Kink { .. } | Sides::Smooth if !finite => Problem::NotFinite,
            Sides::Kink { left, right } => Problem::Kink { left: left / step, right: right / step },
            Sides::Jump => Problem::Discontinuity,
            Sides::Undefined => Problem::Undefined,
            // The gradient agrees: only the derivative was not known well.
            Sides::Smooth if !known => return Ok(()),
            Sides::Smooth => Problem::OnlyHere,
        };
        let places = [place(input, entry.input), place(output, entry.output)];
        self.note(problem, places, &found, false, entry.numbers);
        Ok(())
    }

    /// Returns the step by which a number is moved.
    fn step(&self, input: usize) -> f64 {
        power_of_two(self.rig.scales().get(input).copied().unwrap_or(1.0))
    }
}

/// Returns a direction, or weights, with one number that is not zero.
fn single(count: usize, at: usize, value: f64) -> Vec<f64> {
    let mut single = vec![0.0; count];
    if let Some(place) = single.get_mut(at) {
        *place = value;
    }
    single
}
