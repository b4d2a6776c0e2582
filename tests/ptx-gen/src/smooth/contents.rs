//! The constructs that statements have.

use super::construct::Construct;
use super::statement::{
    Carry, Choice, Count, Gather, Index, Leave, Local, Loop, Mask, Statement, Test, Trips, uses,
};

/// Reports the constructs of a list of statements that stands inside of `depth` loops. Code that never runs has none.
pub(super) fn constructs(
    list: &[Statement],
    outer: &[&Loop],
    double: bool,
    has: &mut impl FnMut(Construct),
) {
    let looped = !outer.is_empty();
    for (at, statement) in list.iter().enumerate() {
        let after = &list[at + 1..];
        match statement {
            Statement::Set { guard, .. } => {
                if guard.is_some() {
                    has(Construct::Guard);
                }
            }
            Statement::Carry { carry, .. } if looped => has(match carry {
                Carry::Product => Construct::CarriedProduct,
                Carry::Affine => Construct::CarriedAffine,
                Carry::Function => Construct::CarriedFunction,
            }),
            Statement::Carry { .. } => {}
            Statement::Swap { a, b, .. } => {
                has(Construct::Exchange);
                let carried = |of: &&Loop| {
                    let (_, written) = uses(
                        &of.body
                            .iter()
                            .filter(|one| !matches!(one, Statement::Swap { .. }))
                            .cloned()
                            .collect::<Vec<_>>(),
                    );
                    written & (1 << a | 1 << b) != 0
                };
                if outer.last().is_some_and(carried) {
                    has(Construct::CarriedExchange);
                }
            }
            Statement::If { then, otherwise, .. } => {
                has(Construct::Branch);
                constructs(then, outer, double, has);
                if let Some(otherwise) = otherwise {
                    has(Construct::Else);
                    constructs(otherwise, outer, double, has);
                }
            }
            Statement::Switch { arms, .. } => {
                has(Construct::Switch);
                arms.iter().for_each(|arm| constructs(arm, outer, double, has));
            }
            Statement::State { .. } if looped => has(Construct::CarriedInteger),
            Statement::Flag { .. } if looped => has(Construct::CarriedPredicate),
            // What an earlier turn has kept.
            Statement::Fetch { .. }
                if looped && after.iter().any(|one| matches!(one, Statement::Keep { .. })) =>
            {
                has(Construct::CarriedBits);
            }
            Statement::State { .. }
            | Statement::Flag { .. }
            | Statement::Keep { .. }
            | Statement::Fetch { .. } => {}
            Statement::Loop(inner) => of_loop(inner, after, outer, double, has),
            Statement::Leave { how, .. } => match how {
                Leave::Return { .. } if looped => has(Construct::ReturnFromLoop),
                Leave::Return { .. } => has(Construct::Return),
                _ if !looped => {}
                Leave::Break | Leave::BreakOuter => has(Construct::Break),
                Leave::Other => has(Construct::SeveralExits),
                Leave::Continue { own: true } => has(Construct::SeveralLatches),
                Leave::Continue { own: false } => has(Construct::Continue),
            },
            Statement::Sum { cell, .. } => {
                has(Construct::Atomic);
                if !matches!(cell, Index::Constant(_)) {
                    has(Construct::ScatterAtomic);
                }
            }
            // That of a pointer belongs to the loop.
            Statement::Gather { by: Gather::Walk, .. } => {}
            Statement::Gather { .. } => has(Construct::Gather),
            Statement::Scatter { pair, .. } => {
                has(Construct::Scatter);
                if *pair {
                    has(Construct::Vector2);
                }
            }
            Statement::InPlace { .. } => {
                has(Construct::InPlace);
                if looped {
                    has(Construct::InPlaceLoop);
                }
            }
            Statement::Choose { choice: Choice::LoadTwo, .. } => has(Construct::PointerOfTwo),
            Statement::Choose { .. } => has(Construct::PointerSelp),
            Statement::Vector { four, .. } => {
                has(if *four && !double { Construct::Vector4 } else { Construct::Vector2 });
            }
            Statement::Local { local, at, generic, .. } => {
                if *generic {
                    has(Construct::LocalGeneric);
                }
                match local {
                    Local::Copy { wide: true } => has(Construct::LocalCopy64),
                    Local::Copy { wide: false } => has(Construct::LocalCopy32),
                    _ => has(match at {
                        Index::Constant(_) => Construct::LocalConstant,
                        _ => Construct::LocalDynamic,
                    }),
                }
                let filled = matches!(local, Local::Store { .. });
                if looped && filled && matches!(at, Index::Turn(_)) {
                    has(Construct::LocalFilled);
                }
                if looped && matches!(local, Local::Update { .. }) {
                    has(Construct::LocalOverwritten);
                }
            }
            Statement::Call { .. } => has(Construct::Call),
        }
    }
}

fn of_loop(
    inner: &Loop,
    after: &[Statement],
    outer: &[&Loop],
    double: bool,
    has: &mut impl FnMut(Construct),
) {
    has(match inner.test {
        Test::Top => Construct::TopTested,
        Test::Bottom => Construct::BottomTested,
        Test::Guarded => Construct::GuardedLoop,
    });
    has(match inner.trips {
        Trips::Constant(0) => Construct::TripsZero,
        Trips::Constant(1) => Construct::TripsOne,
        Trips::Constant(_) => Construct::TripsConstant,
        Trips::Parameter => Construct::TripsParameter,
        Trips::Outer if !outer.is_empty() => Construct::TripsOuter,
        Trips::Data | Trips::Value(_) | Trips::Outer => Construct::TripsData,
    });
    has(match inner.count {
        Count::Up => Construct::CountUp,
        Count::Down => Construct::CountDown,
        Count::Step(_) => Construct::CountStep,
        Count::Pointer => Construct::CountPointer,
        Count::Local => Construct::CountLocal,
    });
    if inner.is_empty() {
        return;
    }
    match outer.len() {
        0 => {}
        1 => has(Construct::NestedTwo),
        _ => has(Construct::NestedThree),
    }
    let (_, written) = uses(&inner.body);
    let (read, _) = uses(after);
    if written & read != 0 {
        has(if outer.is_empty() { Construct::UsedAfter } else { Construct::InnerOutside });
    }
    let mut carried = 0;
    let mut array: Mask = 0;
    for statement in &inner.body {
        match statement {
            Statement::Carry { to, .. } => carried |= 1u32 << to,
            Statement::Local {
                local: Local::Store { .. } | Local::Update { .. },
                array: of,
                ..
            } => {
                array |= 1 << of;
            }
            _ => {}
        }
    }
    if carried.count_ones() > 1 {
        has(Construct::CarriedSeveral);
    }
    let loads = |statement: &Statement| {
        statement.any(&|one| {
            matches!(one, Statement::Local { local: Local::Load { .. }, array: of, .. }
                if array & 1 << of != 0)
        })
    };
    if after.iter().any(loads) {
        has(Construct::LocalReadAfter);
    }
    let with: Vec<&Loop> = outer.iter().copied().chain([inner]).collect();
    constructs(&inner.body, &with, double, has);
    constructs(&inner.other, outer, double, has);
}
