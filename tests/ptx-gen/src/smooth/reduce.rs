//! What statements of differentiable programs can be replaced by when a program is reduced.

use super::statement::{Count, Index, Local, Loop, Statement, Test, Trips};
use crate::reduce::Tree;

impl Tree for Statement {
    fn lists(&mut self) -> Vec<&mut Vec<Self>> {
        match self {
            Self::If { then, otherwise, .. } => [then].into_iter().chain(otherwise).collect(),
            Self::Switch { arms, .. } => arms.iter_mut().collect(),
            Self::Loop(inner) => vec![&mut inner.body, &mut inner.other],
            _ => Vec::new(),
        }
    }

    fn simpler(&self) -> Vec<Vec<Self>> {
        match self.clone() {
            Self::If { then, otherwise: Some(otherwise), .. } => {
                vec![[then.clone(), otherwise.clone()].concat(), then, otherwise]
            }
            Self::If { then, .. } => vec![then],
            Self::Switch { arms, .. } => {
                let mut tries = vec![arms.concat()];
                tries.extend(arms);
                tries
            }
            Self::Loop(inner) => {
                let mut tries = vec![[inner.body.clone(), inner.other.clone()].concat()];
                let mut with = |changed: Loop| {
                    if changed != inner {
                        tries.push(vec![Self::Loop(changed)]);
                    }
                };
                with(Loop { count: Count::Up, ..inner.clone() });
                with(Loop { test: Test::Top, ..inner.clone() });
                if inner.trips != Trips::Constant(1) {
                    with(Loop { trips: Trips::Constant(1), ..inner.clone() });
                    if !matches!(inner.trips, Trips::Constant(_)) {
                        with(Loop { trips: Trips::Constant(2), ..inner.clone() });
                    }
                }
                tries
            }
            Self::Set { to, op, guard: Some(_) } => vec![vec![Self::Set { to, op, guard: None }]],
            Self::Swap { a, b, when: Some(_) } => vec![vec![Self::Swap { a, b, when: None }]],
            Self::Local { local, array, at, generic } => {
                let mut tries = Vec::new();
                if generic {
                    tries.push(vec![Self::Local { local, array, at, generic: false }]);
                }
                if !matches!(at, Index::Constant(_)) {
                    let at = Index::Constant(0);
                    tries.push(vec![Self::Local { local, array, at, generic }]);
                }
                if let Local::Update { by } = local {
                    let local = Local::Store { value: by };
                    tries.push(vec![Self::Local { local, array, at, generic }]);
                }
                tries
            }
            _ => Vec::new(),
        }
    }
}
