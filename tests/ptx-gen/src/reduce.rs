//! Reduction: removes parts of a program while it still fails.

use crate::program::{Program, Statement, Trips};

/// A statement that may have lists of statements in it.
pub(crate) trait Tree: Clone + PartialEq {
    /// The lists of statements in a statement.
    fn lists(&mut self) -> Vec<&mut Vec<Self>>;

    /// What a statement can be replaced by: something simpler each.
    fn simpler(&self) -> Vec<Vec<Self>>;
}

/// The smallest program found that `fails` says true of, which it does of `program`: delta debugging on
/// the statements. First runs of statements are taken away, halves before quarters; then blocks give
/// way to what is in them, loops run once, and guards go; and all again until nothing helps.
pub fn reduce(program: &Program, mut fails: impl FnMut(&Program) -> bool) -> Program {
    let with = |body: &[Statement]| Program { body: body.to_vec(), ..program.clone() };
    with(&smallest(&program.body, &mut |body| fails(&with(body))))
}

/// The smallest list of statements found for which `fails` returns true.
pub(crate) fn smallest<S: Tree>(body: &[S], fails: &mut impl FnMut(&[S]) -> bool) -> Vec<S> {
    let mut best = body.to_vec();
    loop {
        let before = best.clone();
        remove_runs(&mut best, fails);
        simplify(&mut best, fails);
        if best == before {
            return best;
        }
    }
}

/// The lists with one statement less.
pub(crate) fn smaller<S: Tree>(body: &[S]) -> impl Iterator<Item = Vec<S>> + '_ {
    (0..).map_while(|at| {
        let mut smaller = body.to_vec();
        remove(&mut smaller, &mut { at }, 1).then_some(smaller)
    })
}

/// Takes runs of statements away, in all lists, the longest first.
fn remove_runs<S: Tree>(best: &mut Vec<S>, fails: &mut impl FnMut(&[S]) -> bool) {
    let mut length = best.len().max(1);
    loop {
        let mut at = 0;
        loop {
            let mut smaller = best.clone();
            // Runs are counted through all lists, outer ones first.
            let mut skip = at;
            match remove(&mut smaller, &mut skip, length) {
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
fn remove<S: Tree>(list: &mut Vec<S>, skip: &mut usize, length: usize) -> bool {
    if *skip < list.len() {
        let end = (*skip + length).min(list.len());
        list.drain(*skip..end);
        return true;
    }
    *skip -= list.len();
    list.iter_mut()
        .any(|statement| statement.lists().into_iter().any(|inner| remove(inner, skip, length)))
}

/// Makes single statements simpler, each while that still fails.
fn simplify<S: Tree>(best: &mut Vec<S>, fails: &mut impl FnMut(&[S]) -> bool) {
    let mut at = 0;
    while let Some(tries) = find(&mut best.clone(), &mut { at }).map(|found| found.simpler()) {
        let mut helped = false;
        for statements in tries {
            let mut smaller = best.clone();
            if replace(&mut smaller, &mut { at }, &statements) && fails(&smaller) {
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

impl Tree for Statement {
    fn lists(&mut self) -> Vec<&mut Vec<Self>> {
        match self {
            Self::If { then, otherwise, .. } => vec![then, otherwise],
            Self::Switch { arms, .. } => arms.iter_mut().collect(),
            Self::Loop { body, .. } => vec![body],
            Self::Op(_) | Self::Exchange { .. } | Self::Gather(_) | Self::Call { .. } => Vec::new(),
        }
    }

    fn simpler(&self) -> Vec<Vec<Self>> {
        match self.clone() {
            Self::Op(mut op) if op.guard.is_some() => {
                op.guard = None;
                vec![vec![Self::Op(op)]]
            }
            Self::If { then, otherwise, .. } => {
                vec![[then.clone(), otherwise.clone()].concat(), then, otherwise]
            }
            Self::Switch { arms, .. } => {
                let mut tries = vec![arms.concat()];
                tries.extend(arms);
                tries
            }
            Self::Loop { trips, body } => {
                let mut tries = vec![body.clone()];
                if trips != Trips::Constant(0) {
                    tries.push(vec![Self::Loop { trips: Trips::Constant(0), body }]);
                }
                tries
            }
            _ => Vec::new(),
        }
    }
}

/// A copy of the statement with a number: each list's own come before those inside of them.
fn find<S: Tree>(list: &mut [S], left: &mut usize) -> Option<S> {
    for statement in list {
        if *left == 0 {
            return Some(statement.clone());
        }
        *left -= 1;
        let inner = statement.lists().into_iter().find_map(|inner| find(inner, left));
        if inner.is_some() {
            return inner;
        }
    }
    None
}

/// Replaces the statement that `find` finds.
fn replace<S: Tree>(list: &mut Vec<S>, left: &mut usize, by: &[S]) -> bool {
    for at in 0..list.len() {
        if *left == 0 {
            list.splice(at..=at, by.iter().cloned());
            return true;
        }
        *left -= 1;
        if list[at].lists().into_iter().any(|inner| replace(inner, left, by)) {
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
            other => other.clone().lists().into_iter().any(|inner| has(inner, opcode)),
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
