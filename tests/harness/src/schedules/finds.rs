//! Planted mistakes, which the schedules must find.

use super::parent::{Outcome, Unit, run_all};
use crate::sabotage::Plant;
use crate::{Failure, TestResult, ensure};

/// How many seeds a bug has.
const HUNTED: u64 = 50;

/// Runs a test with a bug under seeds.
pub fn hunt(case: &'static str, plant: Plant, seeds: Vec<u64>) -> Result<Outcome, Failure> {
    let outcome = run_all(vec![Unit { case, plant, seeds }]).pop();
    outcome.map(|(_, outcome)| outcome).ok_or_else(|| Failure::new("nothing ran"))
}

/// Runs a test with a bug under one seed after the other, until one finds it. That must find nothing
/// without the bug.
pub fn finds(case: &'static str, plant: Plant) -> TestResult {
    let Outcome { ran, wrong } = hunt(case, plant, (0..HUNTED).collect())?;
    let Some(wrong) = wrong else {
        return Err(Failure::new(format!("no seed of {HUNTED} finds {plant:?} in {case}")));
    };
    let seed = ran.len() as u64;
    println!("{plant:?}: found by seed {seed}: {wrong}");
    ensure!(wrong.starts_with(&format!("{case}, seed {seed}: ")), "another failure");
    let Outcome { ran, wrong } = hunt(case, Plant::Nothing, vec![seed, seed])?;
    ensure!(wrong.is_none(), "without the bug: {wrong:?}");
    ensure!(ran.len() == 2 && ran[0] == ran[1], "a seed is not one schedule: {ran:?}");
    Ok(())
}
