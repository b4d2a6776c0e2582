//! Checks of the suite itself: that it is complete, and that what it names exists.

mod api;
mod names;
mod rows;
mod sources;

use crate::attacks::PROGRAMS;
use crate::harness::{Attack, Failure, Kind, TestResult, ensure};
use crate::{Check, harness};
use xtask::mutant::Mutant;

/// Whether every row and every function must be attacked. If not, what is missing is only printed.
const COMPLETE: bool = true;

/// The least number of attacks of a complete suite. Variants count once.
const LEAST: usize = 150;

pub(crate) const CHECKS: [(&str, Check); 10] = [
    ("every_attack_is_listed", every_attack_is_listed),
    ("only_kernels_are_unsafe", sources::only_kernels_are_unsafe),
    ("locks", sources::locks),
    ("rows_exist", rows::rows_exist),
    ("every_row_is_attacked", rows::every_row_is_attacked),
    ("targets_exist_and_are_used", api::targets_exist_and_are_used),
    ("every_handle_is_attacked", api::every_handle_is_attacked),
    ("documented_names_exist", names::documented_names_exist),
    ("mutants_fit", mutants_fit),
    ("enough_attacks", enough_attacks),
];

/// Fails with what is missing, or prints it while the suite is not complete.
fn missing(what: &str, missing: &[String]) -> TestResult {
    if missing.is_empty() {
        return Ok(());
    }
    let text = format!("{} {what}:\n  {}", missing.len(), missing.join("\n  "));
    if COMPLETE {
        return Err(Failure::new(text));
    }
    println!("not complete: {text}");
    Ok(())
}

/// A function that is documented as an attack is listed, and a listed one is documented.
fn every_attack_is_listed(attacks: &[Attack]) -> TestResult {
    let documented = attacks.iter().filter(|attack| attack.kind == Kind::Program);
    for attack in documented.clone() {
        let listed = crate::attacks::program(&attack.name).is_some();
        ensure!(listed, "{} is not in the list at the end of its file", attack.name);
    }
    for (theme, programs) in PROGRAMS {
        for program in *programs {
            let name = format!("{theme}::{}", program.name);
            let found = documented.clone().any(|attack| attack.name == name);
            ensure!(found, "{name} has no comment with `- row: …`");
        }
    }
    Ok(())
}

fn enough_attacks(attacks: &[Attack]) -> TestResult {
    let count = attacks.len();
    println!("{count} attacks");
    if COMPLETE {
        ensure!(count >= LEAST, "{count} attacks, and there must be {LEAST}");
    }
    Ok(())
}

/// Each mutant can be applied, and names attacks that exist.
fn mutants_fit(attacks: &[Attack]) -> TestResult {
    let mutants = Mutant::all(&harness::package().join("mutants")).map_err(Failure::new)?;
    ensure!(!mutants.is_empty());
    for mutant in mutants {
        let Mutant { name, about, fails, edits } = mutant;
        ensure!(about.ends_with('.'), "{name}: the description is a sentence");
        for fails in fails {
            ensure!(
                attacks.iter().any(|attack| attack.name == fails),
                "{name} names no attack: {fails}"
            );
        }
        for edit in edits {
            let text = std::fs::read_to_string(harness::workspace().join(&edit.file))
                .map_err(|error| Failure::new(format!("{name}: {}: {error}", edit.file)))?;
            edit.apply(&text).map_err(|error| Failure::new(format!("{name}: {error}")))?;
        }
    }
    Ok(())
}
