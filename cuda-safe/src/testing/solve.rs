//! Values of a launch's variables that meet all its conditions.
//!
//! A draw begins with values that are worth trying, and repairs one broken condition after the other: it takes one of the
//! condition's variables, preferably a length, and sets it to a value for which the condition just holds. So `==` works as
//! a definition, and bounds are met exactly. Draws that do not end well are given up, and begun again at another scale.

use super::declared::{Arithmetic, Comparison};
use super::problem::{Clause, Link, Problem, Term, What};
use super::random::Random;

/// Repairs of one draw.
const STEPS: usize = 150;
/// Draws until the conditions count as impossible to meet.
const DRAWS: usize = 400;

/// The conditions could not be met.
#[derive(Debug)]
pub(super) struct Unmet {
    /// The clause that was broken most often at the end of a draw.
    pub(super) clause: String,
    pub(super) draws: usize,
}

impl Problem {
    /// Draws values that meet all conditions. Sizes are at most `largest`, or what the conditions ask for.
    pub(super) fn solve(&self, largest: u64, random: &mut Random) -> Result<Vec<i128>, Unmet> {
        let mut broken = vec![0_usize; self.clauses.len()];
        for _ in 0..DRAWS {
            let scale = *random.choose(&[largest, largest / 8, 300, 300, 64, 16, 4]).unwrap_or(&4);
            let scale = scale.clamp(1, largest.max(1));
            let values: Vec<i128> =
                (0..self.variables.len()).map(|at| self.draw(at, scale, random)).collect();
            match self.repair(values, &[], scale, random) {
                Ok(mut values) => {
                    if random.once_in(3) {
                        self.move_to_a_bound(&mut values, random);
                    }
                    // A slice of the least allowed length shows reads past its end at once.
                    if !random.once_in(4) {
                        self.shorten(&mut values);
                    }
                    return Ok(values);
                }
                Err(clause) => broken.iter_mut().skip(clause).take(1).for_each(|count| *count += 1),
            }
        }
        let most = broken.iter().enumerate().max_by_key(|(_, count)| **count);
        let clause = most.and_then(|(at, _)| self.clauses.get(at));
        let clause = clause.map(|clause| clause.text.clone()).unwrap_or_default();
        Err(Unmet { clause, draws: DRAWS })
    }

    /// Changes values until all conditions hold, but none of `pinned`. The error is the clause that is still broken.
    pub(super) fn repair(
        &self,
        mut values: Vec<i128>,
        pinned: &[usize],
        scale: u64,
        random: &mut Random,
    ) -> Result<Vec<i128>, usize> {
        for _ in 0..STEPS {
            let broken: Vec<usize> = (0..self.clauses.len())
                .filter(|at| self.clauses.get(*at).is_some_and(|clause| !clause.holds(&values)))
                .collect();
            let Some(at) = random.choose(&broken).copied() else { return Ok(values) };
            let Some(clause) = self.clauses.get(at) else { return Err(at) };
            self.repair_one(clause, &mut values, pinned, scale, random);
        }
        let broken = self.clauses.iter().position(|clause| !clause.holds(&values));
        broken.map_or(Ok(values), Err)
    }

    fn repair_one(
        &self,
        clause: &Clause,
        values: &mut [i128],
        pinned: &[usize],
        scale: u64,
        random: &mut Random,
    ) {
        let Some(links) = random.choose(&clause.alternatives) else { return };
        let Some(link) = links.iter().find(|link| !link.holds(values)) else { return };
        let mut candidates = link.variables();
        candidates.retain(|variable| !pinned.contains(variable));
        // Lengths are what the other numbers are the sizes of.
        let weight = |variable: &usize| match self.variables.get(*variable).map(|it| it.what) {
            Some(What::Length) => 8,
            Some(What::Integer | What::Any) => 3,
            _ => 1,
        };
        while !candidates.is_empty() {
            let all: u64 = candidates.iter().map(weight).sum();
            let mut chosen = random.below(all);
            let at = candidates.iter().position(|variable| {
                let weight = weight(variable);
                let here = chosen < weight;
                chosen = chosen.saturating_sub(weight);
                here
            });
            let variable = candidates.swap_remove(at.unwrap_or(0));
            candidates.retain(|other| *other != variable);
            // Chance skips a step, which leads out of a wrong branch of the search.
            if random.once_in(12) {
                continue;
            }
            if let Some(value) = self.set(link, variable, values, true, random) {
                values[variable] = value;
                return;
            }
        }
        // No single change satisfies the link.
        let variables = link.variables();
        let free: Vec<usize> =
            variables.into_iter().filter(|variable| !pinned.contains(variable)).collect();
        if let Some(variable) = random.choose(&free).copied() {
            values[variable] = self.draw(variable, scale, random);
        }
    }

    /// Returns a value of `variable` for which the link holds, the others unchanged: mostly the one where it just holds,
    /// and with `slack` sometimes another.
    fn set(
        &self,
        link: &Link,
        variable: usize,
        values: &mut [i128],
        slack: bool,
        random: &mut Random,
    ) -> Option<i128> {
        let before = values.get(variable).copied()?;
        let limits = self.variables.get(variable)?;
        let spare = if slack && random.once_in(4) { i128::from(random.scaled(64)) } else { 0 };
        let tries = match link {
            Link::PowerOfTwo(term) => {
                let power = 1_i128 << random.below(12);
                vec![invert(term, variable, power, values, random)]
            }
            Link::Compare(left, comparison, right) => {
                let (less, more) = match comparison {
                    Comparison::Equal => (0, 0),
                    Comparison::Less | Comparison::Greater => (1 + spare, 1 + spare),
                    Comparison::LessEqual | Comparison::GreaterEqual => (spare, spare),
                };
                let upward = matches!(comparison, Comparison::Less | Comparison::LessEqual);
                let mut tries = Vec::new();
                for (side, other, on_left) in [(left, right, true), (right, left, false)] {
                    let mut occurrences = Vec::new();
                    side.collect(&mut occurrences);
                    if !occurrences.contains(&variable) {
                        continue;
                    }
                    let Some(bound) = other.value(values) else { continue };
                    let target = if upward == on_left {
                        bound.checked_sub(less)
                    } else {
                        bound.checked_add(more)
                    };
                    tries.push(target.and_then(|to| invert(side, variable, to, values, random)));
                }
                tries
            }
        };
        let mut found = None;
        for value in tries.into_iter().flatten() {
            for near in [value, value.saturating_sub(1), value.saturating_add(1)] {
                if (limits.least..=limits.most).contains(&near) {
                    values[variable] = near;
                    if link.holds(values) {
                        found = Some(near);
                        break;
                    }
                }
            }
        }
        values[variable] = before;
        found
    }

    /// Moves one variable to where some condition just holds, if all others still do.
    fn move_to_a_bound(&self, values: &mut [i128], random: &mut Random) {
        let links: Vec<&Link> = self.clauses.iter().flat_map(Clause::links).collect();
        let Some(link) = random.choose(&links) else { return };
        let Some(variable) = random.choose(&link.variables()).copied() else { return };
        let Some(value) = self.set(link, variable, values, false, random) else { return };
        let before = std::mem::replace(&mut values[variable], value);
        if !self.holds(values) {
            values[variable] = before;
        }
    }

    /// Makes each slice that has a lower bound as short as the conditions allow with the other values.
    pub(super) fn shorten(&self, values: &mut [i128]) {
        for variable in 0..values.len() {
            if self.bounded.get(variable) != Some(&true) {
                continue;
            }
            // The conditions hold at `above`, and not at `below`, if `below` is a length.
            let (mut below, mut above) = (-1, values[variable]);
            while below + 1 < above {
                let middle = i128::midpoint(below, above);
                values[variable] = middle;
                if self.holds(values) {
                    above = middle;
                } else {
                    below = middle;
                }
            }
            values[variable] = above;
        }
    }
}

/// Returns a value of `variable`, which occurs in `term` once, for which the term is `target` or close to it.
fn invert(
    term: &Term,
    variable: usize,
    target: i128,
    values: &[i128],
    random: &mut Random,
) -> Option<i128> {
    let contains = |term: &Term| {
        let mut all = Vec::new();
        term.collect(&mut all);
        all.iter().filter(|other| **other == variable).count()
    };
    match term {
        Term::Int(_) => None,
        Term::Var(other) => (*other == variable).then_some(target),
        Term::Neg(inner) => invert(inner, variable, target.checked_neg()?, values, random),
        Term::Binary(left, op, right) => {
            let (in_left, in_right) = (contains(left), contains(right));
            match (in_left, in_right) {
                (1.., 0) => {
                    let other = right.value(values)?;
                    let target = match op {
                        Arithmetic::Add => target.checked_sub(other)?,
                        Arithmetic::Sub => target.checked_add(other)?,
                        Arithmetic::Mul => target.checked_div(other)?,
                        // Each dividend in a range gives the quotient.
                        Arithmetic::Div => {
                            let least = target.checked_mul(other)?;
                            let span = u64::try_from(other.unsigned_abs()).unwrap_or(u64::MAX);
                            let more = i128::from(random.below(span));
                            let up = if random.once_in(2) { 0 } else { more };
                            least.checked_add(if target < 0 { -up } else { up })?
                        }
                        Arithmetic::Rem => {
                            let now = left.value(values)?;
                            let whole = now.checked_sub(now.checked_rem(other)?)?;
                            let whole = match random.below(3) {
                                // The smallest ones, too: a multiple near by may be 0.
                                0 => other.checked_mul(1 + i128::from(random.below(4)))?,
                                _ => whole,
                            };
                            whole.checked_add(target)?
                        }
                    };
                    invert(left, variable, target, values, random)
                }
                (0, 1..) => {
                    let other = left.value(values)?;
                    let target = match op {
                        Arithmetic::Add => target.checked_sub(other)?,
                        Arithmetic::Sub => other.checked_sub(target)?,
                        Arithmetic::Mul | Arithmetic::Div if target == 0 => 0,
                        Arithmetic::Mul => target.checked_div(other)?,
                        Arithmetic::Div => other.checked_div(target)?,
                        // A divisor of what is too much.
                        Arithmetic::Rem => {
                            let much = other.checked_sub(target)?;
                            let divisor = 1 + i128::from(random.below(64));
                            if much.checked_rem(divisor)? == 0 { divisor } else { much }
                        }
                    };
                    invert(right, variable, target, values, random)
                }
                // The variable occurs several times, so a value is found by trying.
                _ => {
                    let power = i128::from(random.scaled(1 << 16));
                    Some(if random.once_in(2) { power } else { target.checked_sub(power)? })
                }
            }
        }
    }
}
