//! Derivatives by differences of the kernel, with an estimate of their error.
//!
//! Central differences of a sequence of steps are extrapolated in pairs. Where three extrapolated values in a row
//! agree, neither curvature nor rounding matters: the value with the closest neighbours is taken, and their distance
//! is its error. Each output has its own step. Central differences do not show a kink. So half the difference of the
//! one-sided slopes, which vanishes with the step for a smooth function, also counts as an error; and so does the
//! distance to the slope of a larger step, if the slopes in between are erratic.

use cuda_safe::{Result, arg::InspectArgs};

use super::rig::Rig;

/// A derivative and its error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    pub(super) value: f64,
    /// The estimated error; infinite if the derivative is unknown.
    pub(super) error: f64,
    /// The magnitude of the output, and its largest change.
    pub(super) size: f64,
    pub(super) change: f64,
}

impl Estimate {
    pub(super) const UNKNOWN: Self =
        Self { value: f64::NAN, error: f64::INFINITY, size: 0.0, change: 0.0 };

    /// Creates an estimate without an output.
    pub(super) fn of(value: f64, error: f64) -> Self {
        Self { value, error, ..Self::UNKNOWN }
    }
}

/// The step sizes. Each is a quarter of the one before: 2^-first, then 2^-(first + 2), …
struct Steps {
    first: i32,
    count: i32,
}

impl Steps {
    /// Returns the steps for numbers with this rounding error.
    fn of(rounding: f64) -> Self {
        if rounding < 1e-12 {
            Self { first: 3, count: 11 }
        } else if rounding < 1e-6 {
            Self { first: 2, count: 8 }
        } else {
            Self { first: 1, count: 5 }
        }
    }

    fn each(&self) -> impl Iterator<Item = f64> + use<> {
        let (first, count) = (self.first, self.count);
        (0..count).map(move |at| 2f64.powi(-first - 2 * at))
    }
}

/// The differences of one output so far.
#[derive(Debug, Clone, Copy)]
struct Sequence {
    /// The last central difference, and half the last difference of the one-sided slopes.
    slope: f64,
    bend: f64,
    /// The last extrapolated values.
    last: f64,
    before: f64,
    /// The error of the last value: its rounding, and the extrapolated bend.
    floor: f64,
    best: Estimate,
    /// The last change of the slope, and the slope before it.
    change: f64,
    earlier: f64,
    /// The slope with the smallest change after it, that change, and the largest change since.
    calm: f64,
    least: f64,
    most: f64,
    /// The range of slopes of larger steps that may also be right.
    others: Option<(f64, f64)>,
}

impl Sequence {
    const NEW: Self = Self {
        slope: f64::NAN,
        bend: f64::NAN,
        last: f64::NAN,
        before: f64::NAN,
        floor: f64::NAN,
        best: Estimate::UNKNOWN,
        change: 0.0,
        earlier: f64::NAN,
        calm: f64::NAN,
        least: f64::INFINITY,
        most: 0.0,
        others: None,
    };

    /// Adds the values at one step to the left, at the point and to the right.
    fn add(&mut self, [left, here, right]: [f64; 3], step: f64, rounding: f64) {
        let slope = (right - left) / (2.0 * step);
        let bend = (right - here + (left - here)) / (2.0 * step);
        self.compare(slope, STAIRS * rounding * here.abs().max(left.abs()).max(right.abs()) / step);
        // The errors are power series of the step: of its square for `slope`, of its odd powers for `bend`.
        let extrapolated = (16.0 * slope - self.slope) / 15.0;
        let bent = (4.0 * bend - self.bend) / 3.0;
        let (up, down) = ((self.last - extrapolated).abs(), (self.last - self.before).abs());
        // `f64::max` would drop a NaN, which must make the error NaN.
        let error = if up > down { up } else { down + 0.0 * up } + self.floor;
        let (low, high) = self.others.unwrap_or((self.last, self.last));
        let error = error.max(self.last - low).max(high - self.last);
        if error < self.best.error && (up + down).is_finite() {
            (self.best.value, self.best.error) = (self.last, error);
        }
        for change in [(right - here).abs(), (left - here).abs()] {
            if change > self.best.change {
                self.best.change = change;
            }
        }
        self.best.size = here.abs();
        (self.before, self.last) = (self.last, extrapolated);
        (self.slope, self.bend) = (slope, bend);
        let rounded = rounding * right.abs().max(left.abs()) / step;
        self.floor = if bent.is_nan() { f64::NAN } else { rounded + bent.abs() };
    }

    /// Notes slopes that are as plausible as those of smaller steps. The graph of a sum that loses digits is a
    /// staircase: between two stairs its slope is 0 or too small. So the slope before may be the right one where the
    /// slope was steady and is not any more, or suddenly stops changing, unless no stair is that high.
    fn compare(&mut self, slope: f64, highest: f64) {
        let change = (slope - self.slope).abs();
        let stairs = |by: f64| by <= highest;
        if self.change > 512.0 * change && stairs(self.change) {
            self.note(self.earlier);
        }
        if change < self.least {
            (self.calm, self.least, self.most) = (self.slope, change, 0.0);
        } else if change > self.most {
            self.most = change;
            if self.most > 4.0 * self.least && stairs(self.most) {
                self.note(self.calm);
            }
        }
        (self.change, self.earlier) = (change, self.slope);
    }

    fn note(&mut self, slope: f64) {
        if slope.is_finite() {
            let (low, high) = self.others.unwrap_or((slope, slope));
            self.others = Some((low.min(slope), high.max(slope)));
        }
    }
}

/// The largest height of a stair, in rounding errors of the result: 24 bits are lost.
const STAIRS: f64 = (1 << 24) as f64;

/// Returns the derivatives of all outputs at a point in a direction.
pub(super) fn derivatives<A: InspectArgs>(
    rig: &mut Rig<'_, A>,
    point: &[f64],
    direction: &[f64],
) -> Result<Vec<Estimate>> {
    let roundings = output_roundings(rig);
    let mut sequences = vec![Sequence::NEW; rig.output_count()];
    let here = rig.forward(point)?;
    for step in Steps::of(rig.rounding()).each() {
        let right = rig.forward(&moved(point, direction, step))?;
        let left = rig.forward(&moved(point, direction, -step))?;
        let sides = left.iter().zip(&here).zip(&right);
        for ((sequence, rounding), ((left, here), right)) in
            sequences.iter_mut().zip(&roundings).zip(sides)
        {
            sequence.add([*left, *here, *right], step, *rounding);
        }
    }
    Ok(sequences.iter().map(|sequence| sequence.best).collect())
}

fn output_roundings<A: InspectArgs>(rig: &Rig<'_, A>) -> Vec<f64> {
    rig.outputs
        .iter()
        .flat_map(|output| std::iter::repeat_n(output.rounding(), output.count))
        .collect()
}

fn moved(point: &[f64], direction: &[f64], by: f64) -> Vec<f64> {
    // Numbers with a zero direction stay as they are, also a NaN or an infinity.
    let each = point.iter().zip(direction);
    each.map(|(at, by_one)| if *by_one == 0.0 { *at } else { at + by * by_one }).collect()
}

/// How an output behaves on both sides of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Sides {
    /// Both slopes are the same within their errors.
    Smooth,
    /// The slopes to the left and to the right.
    Kink { left: f64, right: f64 },
    /// The output jumps.
    Jump,
    /// The output or its slope is not finite at the point or beside it.
    Undefined,
}

/// Returns how an output behaves in a direction.
pub(super) fn sides<A: InspectArgs>(
    rig: &mut Rig<'_, A>,
    point: &[f64],
    direction: &[f64],
    output: usize,
) -> Result<Sides> {
    let of = |values: &[f64]| values.get(output).copied().unwrap_or(f64::NAN);
    let here = of(&rig.forward(point)?);
    let rounding = output_roundings(rig).get(output).copied().unwrap_or(1.0);
    // Each side has its own slope; the error of a one-sided difference is a power series of the step.
    let mut slopes = [OneSided::new(), OneSided::new()];
    let mut jumps = Vec::new();
    for step in Steps::of(rig.rounding()).each() {
        let right = of(&rig.forward(&moved(point, direction, step))?);
        let left = of(&rig.forward(&moved(point, direction, -step))?);
        let floor = 2.0 * rounding * right.abs().max(left.abs()).max(here.abs());
        for (side, change) in slopes.iter_mut().zip([here - left, right - here]) {
            side.add(change / step, floor / step);
        }
        jumps.push(((right - left).abs(), floor));
    }
    let [left, right] = slopes.map(|side| side.best);
    if !here.is_finite() {
        return Ok(Sides::Undefined);
    }
    // A jump does not become smaller with the step.
    let (first, last) = (jumps.get(1), jumps.last());
    if let (Some((first, _)), Some((last, floor))) = (first, last)
        && *last > 64.0 * floor
        && *last > 0.25 * first
    {
        return Ok(Sides::Jump);
    }
    if !left.error.is_finite() || !right.error.is_finite() {
        return Ok(Sides::Undefined);
    }
    let apart = (right.value - left.value).abs();
    let size = right.value.abs() + left.value.abs();
    if apart > 4.0 * (right.error + left.error) + 0.01 * size {
        return Ok(Sides::Kink { left: left.value, right: right.value });
    }
    Ok(Sides::Smooth)
}

/// The slopes on one side.
struct OneSided {
    slope: f64,
    last: f64,
    floor: f64,
    best: Estimate,
}

impl OneSided {
    fn new() -> Self {
        Self { slope: f64::NAN, last: f64::NAN, floor: f64::NAN, best: Estimate::UNKNOWN }
    }

    fn add(&mut self, slope: f64, floor: f64) {
        let extrapolated = (4.0 * slope - self.slope) / 3.0;
        let error = (extrapolated - self.last).abs() + self.floor;
        if error < self.best.error {
            self.best = Estimate::of(self.last, error);
        }
        (self.slope, self.last, self.floor) = (slope, extrapolated, floor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The derivative of a function at 1, in f64 or rounded to f32.
    fn of(f: impl Fn(f64) -> f64, rounding: f64) -> Estimate {
        let mut sequence = Sequence::NEW;
        let round = |x: f64| if rounding > 1e-12 { f64::from(x as f32) } else { x };
        let f = |x: f64| round(f(round(x)));
        for step in Steps::of(rounding).each() {
            sequence.add([f(1.0 - step), f(1.0), f(1.0 + step)], step, rounding);
        }
        sequence.best
    }

    const DOUBLE: f64 = f64::EPSILON / 2.0;
    const SINGLE: f64 = f32::EPSILON as f64 / 2.0;

    #[test]
    fn errors_are_estimated_well() {
        type Function = fn(f64) -> f64;
        let functions: [(Function, f64); 6] = [
            (|x| x.exp(), 1f64.exp()),
            (|x| (20.0 * x).sin(), 20.0 * 20f64.cos()),
            (|x| 3.0 * x - 1.0, 3.0),
            (|_| 7.0, 0.0),
            (|x| x.powi(9), 9.0),
            (|x| 1e4 * (x - 0.999), 1e4),
        ];
        for (at, (f, wanted)) in functions.into_iter().enumerate() {
            for (rounding, most) in [(DOUBLE, 1e-8), (SINGLE, 5e-3)] {
                let found = of(f, rounding);
                let wrong = (found.value - wanted).abs();
                assert!(wrong <= found.error, "{at}: {wrong:e} of {found:?}");
                assert!(found.error <= most * wanted.abs().max(1.0), "{at}: {found:?}");
            }
        }
    }

    #[test]
    fn a_kink_near_the_point_has_no_certain_slope_or_the_right_one() {
        for rounding in [DOUBLE, SINGLE] {
            for away in [1e-1, 1e-3, 1e-6, 1e-9, 1e-13, 0.0] {
                let found = of(|x| (x - 1.0 + away).abs(), rounding);
                let wanted = f64::from(u8::from(away > 0.0));
                let wrong = (found.value - wanted).abs();
                assert!(wrong <= found.error, "{away:e}: {found:?}");
                assert!(found.error > 0.5 || away > 1e-7, "{away:e}: {found:?}");
                assert!(
                    found.error < 1e-2 || rounding > 1e-12 || away < 1e-4,
                    "{away:e}: {found:?}"
                );
            }
            let found = of(|x| if x > 1.0 + 1e-9 { 1.0 } else { f64::NAN }, rounding);
            assert!(found.error.is_infinite());
        }
    }

    #[test]
    fn stairs_have_no_certain_slope() {
        for offset in [0.0, 0.3, 0.5, 0.77] {
            for extra in [0.0, 2.0] {
                let found = of(|x| ((x + offset) * 1e3).floor() / 1e3 + extra * x, SINGLE);
                let wrong = (found.value - 1.0 - extra).abs();
                assert!(wrong <= found.error, "{offset}, {extra}: {found:?}");
            }
        }
    }
}
