//! Reduction: removes parts of a program while it still fails.

use crate::program::{Program, Statement, Trips};

/// The smallest program found that `fails` says true of, which it does of `program`: delta debugging on
/// the statements. First runs of statements are taken away, halves before quarters; then blocks give
/// way to what is in them, loops run once, and guards go; and all again until nothing helps.
pub fn reduce(program: &Program, mut fails: impl FnMut(&Program) -> bool) -> Program {
    let mut best = program.clone();
    loop {
        let before = best.clone();
        remove_runs(&mut best, &mut fails);
        simplify(&mut best, &mut fails);
        if best == before {
            return best;
        }
    }
}

/// Takes runs of statements away, in all lists, the longest first.
fn remove_runs(best: &mut Program, fails: &mut impl FnMut(&Program) -> bool) {
    let mut length = best.body.len().max(1);
    loop {
        let mut at = 0;
        loop {
            let mut smaller = best.clone();
            // Runs are counted through all lists, outer ones first.
            let mut skip = at;
            match remove(&mut smaller.body, &mut skip, length) {
                false => break,
                true if fails(&smaller) => *best = smaller,
                true => at += length,
            }
        }
        if length == 1 {
            return;
        }
        length /= 2;
    }
}

/// Takes `length` statements away after `skip` of those of this list and then of the lists in it;
/// false if there are none left.
fn remove(list: &mut Vec<Statement>, skip: &mut usize, length: usize) -> bool {
    if *skip < list.len() {
        let end = (*skip + length).min(list.len());
        list.drain(*skip..end);
        return true;
    }
    *skip -= list.len();
    list.iter_mut()
        .any(|statement| lists(statement).into_iter().any(|inner| remove(inner, skip, length)))
}

/// The lists of statements in a statement.
fn lists(statement: &mut Statement) -> Vec<&mut Vec<Statement>> {
    match statement {
        Statement::If { then, otherwise, .. } => vec![then, otherwise],
        Statement::Switch { arms, .. } => arms.iter_mut().collect(),
        Statement::Loop { body, .. } => vec![body],
        Statement::Op(_)
        | Statement::Exchange { .. }
        | Statement::Gather(_)
        | Statement::Call { .. } => Vec::new(),
    }
}

/// Makes single statements simpler, each while that still fails.
fn simplify(best: &mut Program, fails: &mut impl FnMut(&Program) -> bool) {
    let mut at = 0;
    while let Some(tries) = simpler(&best.body, at) {
        let mut helped = false;
        for statements in tries {
            let mut smaller = best.clone();
            if replace(&mut smaller.body, &mut { at }, &statements) && fails(&smaller) {
                *best = smaller;
                helped = true;
                break;
            }
        }
        if !helped {
            at += 1;
        }
    }
}

/// Returns the replacements of the statement with this number, counted as they are written.
fn simpler(list: &[Statement], at: usize) -> Option<Vec<Vec<Statement>>> {
    let mut left = at;
    let mut copy = list.to_vec();
    let statement = find(&mut copy, &mut left)?;
    Some(match statement.clone() {
        Statement::Op(mut op) if op.guard.is_some() => {
            op.guard = None;
            vec![vec![Statement::Op(op)]]
        }
        Statement::If { then, otherwise, .. } => {
            vec![[then.clone(), otherwise.clone()].concat(), then, otherwise]
        }
        Statement::Switch { arms, .. } => {
            let mut tries = vec![arms.concat()];
            tries.extend(arms);
            tries
        }
        Statement::Loop { trips, body } => {
            let mut tries = vec![body.clone()];
            if trips != Trips::Constant(0) {
                tries.push(vec![Statement::Loop { trips: Trips::Constant(0), body }]);
            }
            tries
        }
        _ => Vec::new(),
    })
}

/// The statement with a number: each list's own come before those inside of them.
fn find<'l>(list: &'l mut [Statement], left: &mut usize) -> Option<&'l mut Statement> {
    for statement in list {
        if *left == 0 {
            return Some(statement);
        }
        *left -= 1;
        let inner = lists(statement).into_iter().find_map(|inner| find(inner, left));
        if inner.is_some() {
            return inner;
        }
    }
    None
}

/// Replaces the statement that `find` finds.
fn replace(list: &mut Vec<Statement>, left: &mut usize, by: &[Statement]) -> bool {
    for at in 0..list.len() {
        if *left == 0 {
            list.splice(at..=at, by.iter().cloned());
            return true;
        }
        *left -= 1;
        if lists(&mut list[at]).into_iter().any(|inner| replace(inner, left, by)) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::rows;

    /// Whether an instruction of a row is anywhere.
    fn has(list: &[Statement], opcode: &str) -> bool {
        list.iter().any(|statement| match statement {
            Statement::Op(op) => rows()[op.row].opcode() == opcode,
            other => lists(&mut other.clone()).into_iter().any(|inner| has(inner, opcode)),
        })
    }

    #[test]
    fn what_matters_is_left() {
        let mut tried = 0;
        for seed in 0..60 {
            let program = Program::new(seed);
            let opcodes = ["prmt", "cvt"];
            let fails = |program: &Program| opcodes.iter().all(|one| has(&program.body, one));
            if fails(&program) {
                let reduced = reduce(&program, |program| {
                    tried += 1;
                    fails(program)
                });
                assert!(fails(&reduced));
                assert_eq!(reduced.body.len(), 2, "seed {seed}: {:?}", reduced.body);
            }
        }
        assert!(tried > 100, "{tried}");
    }
}
