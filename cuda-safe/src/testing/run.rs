//! Making launches, judging them, and making a wrong one smaller.

use super::Launches;
use super::declared::DeclaredKernel;
use super::drawn::{Drawn, launch};
use super::error::{Broken, Error, Tested};
use super::problem::{Bounds, Problem, What};
use super::random::{Random, seed_of};
use super::solve::Unmet;
use crate::error::{ErrorKind, Result};

/// Draws for each launch that is to be made, until there are too few.
const DRAWS: usize = 8;
/// Launches that are made to find a smaller one.
const SMALLER: usize = 400;

/// The method of a kernel, with the arguments of a launch.
type Call<'f> = dyn FnMut(&mut Drawn<'_>) -> Result<()> + 'f;

/// What became of a launch.
enum Outcome {
    Fine,
    Refused(crate::Error),
    /// What was found, and the arguments that are no integers.
    Wrong(Vec<String>, Vec<(String, String)>),
}

/// A kernel under test.
struct Trial<'t> {
    kernel: &'t DeclaredKernel,
    problem: Problem,
    seed: u64,
}

/// Searches for a first launch with blocks that may find none.
const SEARCHES: u32 = 2;

/// One of so many draws may be of a launch without blocks.
const EMPTY: u64 = 16;

impl Launches<'_> {
    /// Tests one kernel: generated code calls it.
    ///
    /// # Errors
    /// As `test_launches` of the struct.
    #[doc(hidden)]
    pub fn test(&mut self, kernel: &DeclaredKernel, call: &mut Call<'_>) -> Result<(), Error> {
        let bounds = Bounds { elements: self.elements, threads: self.threads };
        let name = match kernel.instance {
            "" => kernel.name.to_owned(),
            instance => format!("{} ({instance})", kernel.name),
        };
        let trial = Trial {
            kernel,
            problem: Problem::new(kernel, bounds, false),
            seed: seed_of(self.seed, &name),
        };
        let with_blocks = Problem::new(kernel, bounds, true);
        let mut tested = Tested { kernel: name, launched: 0, empty: 0, refused: 0 };
        let (mut last, mut draws, mut blockless) = (None, 0_usize, 0);
        while tested.launched < self.count && draws < self.count.saturating_mul(DRAWS) {
            draws += 1;
            let contents = trial.seed.wrapping_add(draws as u64);
            let mut random = Random::new(contents);
            let unmet = |Unmet { clause, draws }| {
                let kernel = tested.kernel.clone();
                Error::Unmet { kernel, clause, draws }
            };
            let blocks = !random.once_in(EMPTY);
            let wanted = if blocks { &with_blocks } else { &trial.problem };
            let values = match wanted.solve(self.elements, &mut random) {
                Ok(values) => values,
                // Each further search would take as long, and find none.
                Err(none) if blocks && tested.launched == 0 && blockless + 1 == SEARCHES => {
                    return Err(unmet(none));
                }
                Err(_) => {
                    blockless += u32::from(blocks);
                    trial.problem.solve(self.elements, &mut random).map_err(unmet)?
                }
            };
            let launch = launch(&trial.problem, &values, kernel.cooperative);
            match self.launch(&trial, &values, contents, call)? {
                Outcome::Fine if launch.grid.count() == 0 => tested.empty += 1,
                Outcome::Fine => tested.launched += 1,
                Outcome::Refused(error) => {
                    tested.refused += 1;
                    last = Some(error);
                }
                Outcome::Wrong(found, others) => {
                    let wrong = Wrong { values, found, others };
                    let broken =
                        self.broken(&trial, &wrong, (draws, contents), tested.kernel, call)?;
                    return Err(Error::Broken(Box::new(broken)));
                }
            }
        }
        if tested.launched < self.count {
            return Err(Error::TooFew {
                kernel: tested.kernel,
                launched: tested.launched,
                wanted: self.count,
                refused: last,
            });
        }
        self.report.tested.push(tested);
        Ok(())
    }

    /// Makes a launch, waits for it, and judges it.
    fn launch(
        &mut self,
        trial: &Trial<'_>,
        values: &[i128],
        contents: u64,
        call: &mut Call<'_>,
    ) -> Result<Outcome, Error> {
        let Trial { kernel, problem, .. } = trial;
        // Findings between launches belong to none of them.
        let _ = (self.found)();
        let mut drawn =
            Drawn::new(kernel, problem, values, &self.generators, contents, &self.stream);
        let made = call(&mut drawn);
        let done = self.stream.synchronize();
        if let Some(missing) = drawn.missing.take() {
            return Err(missing);
        }
        let mut found = (self.found)();
        let others = std::mem::take(&mut drawn.others);
        match (made, done) {
            (Ok(()), Ok(())) => found.append(&mut drawn.written),
            // A fatal error on a GPU is returned without an observation: nothing can be launched any more.
            (_, Err(error)) | (Err(error), _) if error.is_fatal() => found.push(error.to_string()),
            (Err(error), _) => match error.kind() {
                ErrorKind::Precondition { .. } | ErrorKind::Limit { .. } => {
                    return Ok(Outcome::Refused(error));
                }
                _ => return Err(error.into()),
            },
            (Ok(()), Err(error)) => return Err(error.into()),
        }
        Ok(if found.is_empty() { Outcome::Fine } else { Outcome::Wrong(found, others) })
    }

    /// Describes a wrong launch, made as small as it can be.
    fn broken(
        &mut self,
        trial: &Trial<'_>,
        first: &Wrong,
        (number, contents): (usize, u64),
        kernel: String,
        call: &mut Call<'_>,
    ) -> Result<Broken, Error> {
        let mut best = first.clone();
        let mut budget = SMALLER;
        let mut random = Random::new(contents ^ 1);
        while self.smaller(trial, &mut best, contents, &mut budget, &mut random, call)? {}
        let Problem { variables, .. } = &trial.problem;
        let named = |values: &[i128]| -> Vec<(String, i128)> {
            variables.iter().map(|it| it.name.clone()).zip(values.iter().copied()).collect()
        };
        Ok(Broken {
            kernel,
            launch: launch(&trial.problem, &best.values, trial.kernel.cooperative).to_string(),
            values: named(&best.values),
            others: best.others,
            found: best.found,
            first: named(&first.values),
            number,
            seed: self.seed,
        })
    }

    /// Tries to make each value of a wrong launch smaller; returns whether one could be.
    fn smaller(
        &mut self,
        trial: &Trial<'_>,
        best: &mut Wrong,
        contents: u64,
        budget: &mut usize,
        random: &mut Random,
        call: &mut Call<'_>,
    ) -> Result<bool, Error> {
        let problem = &trial.problem;
        let mut improved = false;
        for variable in 0..problem.variables.len() {
            let Some(least) = problem.variables.get(variable).map(|it| it.least) else { continue };
            let Some(now) = best.values.get(variable).copied() else { continue };
            let goal = least.max(0);
            let between = goal.saturating_add(now.saturating_sub(goal) / 2);
            let one = now.saturating_sub((now - goal).signum());
            for value in [goal, goal + 1, between, one] {
                for way in 0..4 {
                    let Some(values) = moved(problem, &best.values, variable, value, way, random)
                    else {
                        continue;
                    };
                    if size(problem, &values) >= size(problem, &best.values) {
                        continue;
                    }
                    // A lost device makes no other launch.
                    if *budget == 0 || self.stream.synchronize().is_err() {
                        return Ok(false);
                    }
                    *budget -= 1;
                    if let Outcome::Wrong(found, others) =
                        self.launch(trial, &values, contents, call)?
                    {
                        *best = Wrong { values, found, others };
                        improved = true;
                        break;
                    }
                }
            }
        }
        Ok(improved)
    }
}

/// A launch that went wrong.
#[derive(Clone)]
struct Wrong {
    values: Vec<i128>,
    found: Vec<String>,
    others: Vec<(String, String)>,
}

/// Returns the values with another one for `variable`, and others changed as the conditions need it: none, lengths
/// alone, or any.
fn moved(
    problem: &Problem,
    values: &[i128],
    variable: usize,
    value: i128,
    way: usize,
    random: &mut Random,
) -> Option<Vec<i128>> {
    let limits = problem.variables.get(variable)?;
    if values.get(variable) == Some(&value) || !(limits.least..=limits.most).contains(&value) {
        return None;
    }
    let mut moved = values.to_vec();
    *moved.get_mut(variable)? = value;
    let is_pinned = |other: &usize| {
        let is_length = problem.variables.get(*other).is_some_and(|it| it.what == What::Length);
        *other == variable || way == 1 && !is_length
    };
    let pinned: Vec<usize> = (0..moved.len()).filter(is_pinned).collect();
    let mut repaired = match way {
        0 => problem.holds(&moved).then_some(moved)?,
        _ => problem.repair(moved, &pinned, 4, random).ok()?,
    };
    if way > 0 {
        problem.shorten(&mut repaired);
    }
    Some(repaired)
}

/// Returns how large a launch is: its threads, lengths and integers together.
fn size(problem: &Problem, values: &[i128]) -> u128 {
    let threads = launch(problem, values, false).threads();
    let all = values.iter().map(|value| value.unsigned_abs());
    all.fold(u128::from(threads), u128::saturating_add)
}
