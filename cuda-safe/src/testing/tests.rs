//! Draws are compared with the conditions that they must meet, and all solutions of small problems are found.

use std::collections::BTreeSet;

use super::declared::{Arithmetic, Comparison as C, Condition, DeclaredKernel, Expr, LAUNCH};
use super::problem::{Bounds, Problem};
use super::random::Random;

const BOUNDS: Bounds = Bounds { elements: 4096, threads: 16_384 };

fn int(value: i128) -> Expr {
    Expr::Int(value)
}

fn chain(first: Expr, comparison: C, second: Expr) -> Vec<Condition> {
    vec![Condition::Chain(first, vec![(comparison, second)])]
}

fn times(left: Expr, right: Expr) -> Expr {
    Expr::binary(left, Arithmetic::Mul, right)
}

/// `k(c: &mut [f32], a: &[f32], b: &[f32], wa: i32, wb: i32)` in tiles, as the port of matrixMul has it.
fn matrix_mul() -> DeclaredKernel {
    let (c, a, b) = (Expr::Len(0), Expr::Len(1), Expr::Len(2));
    let (wa, wb) = (Expr::Param(3), Expr::Param(4));
    let whole = |expr: &Expr| Expr::binary(expr.clone(), Arithmetic::Rem, int(16));
    let rows = Expr::binary(c.clone(), Arithmetic::Div, wb.clone());
    let tiles = Expr::binary(c.clone(), Arithmetic::Rem, times(int(16), wb.clone()));
    DeclaredKernel::new("matrix_mul", "")
        .slice("c", true)
        .slice("a", false)
        .slice("b", false)
        .integer::<i32>("wa")
        .integer::<i32>("wb")
        .clause("wa > 0", chain(wa.clone(), C::Greater, int(0)))
        .clause("wb > 0", chain(wb.clone(), C::Greater, int(0)))
        .clause("wa % 16 == 0", chain(whole(&wa), C::Equal, int(0)))
        .clause("wb % 16 == 0", chain(whole(&wb), C::Equal, int(0)))
        .clause("c.len() % (16 * wb) == 0", chain(tiles, C::Equal, int(0)))
        .clause("a.len() == c.len() / wb * wa", chain(a, C::Equal, times(rows.clone(), wa.clone())))
        .clause("b.len() == wa * wb", chain(b, C::Equal, times(wa, wb.clone())))
        .over("over [wb, c.len() / wb]", vec![(wb, 16), (rows, 16)])
}

#[test]
fn draws_meet_all_conditions_and_differ() {
    for blocks in [false, true] {
        let problem = Problem::new(&matrix_mul(), BOUNDS, blocks);
        let mut all = BTreeSet::new();
        for seed in 0..200 {
            let values = problem.solve(4096, &mut Random::new(seed)).unwrap();
            let [c, a, b, wa, wb] = values[..] else { panic!("{values:?}") };
            assert!(wa > 0 && wb > 0 && wa % 16 == 0 && wb % 16 == 0 && c % (16 * wb) == 0);
            assert!(a == c / wb * wa && b == wa * wb && (c > 0 || !blocks), "{values:?}");
            all.insert(values);
        }
        assert!(all.len() > 10, "{all:?}");
        assert!(all.iter().any(|values| values[3] != values[4]), "some are not square: {all:?}");
    }
}

#[test]
fn slices_are_as_short_as_the_clauses_allow() {
    let n = || Expr::Param(1);
    let kernel = DeclaredKernel::new("k", "")
        .slice("x", false)
        .integer::<u32>("n")
        .clause("n < x.len()", chain(n(), C::Less, Expr::Len(0)));
    let problem = Problem::new(&kernel, BOUNDS, true);
    let mut shortest = 0;
    for seed in 0..400 {
        let values = problem.solve(4096, &mut Random::new(seed)).unwrap();
        assert!(values[1] < values[0]);
        shortest += u32::from(values[0] == values[1] + 1);
    }
    assert!((250..400).contains(&shortest), "{shortest} of 400 were as short as can be");
}

#[test]
fn edges_are_drawn() {
    let kernel = DeclaredKernel::new("k", "").slice("x", false).integer::<u64>("seed");
    let problem = Problem::new(&kernel, BOUNDS, true);
    let draws: Vec<Vec<i128>> =
        (0..2000).map(|seed| problem.solve(4096, &mut Random::new(seed)).unwrap()).collect();
    let drawn = |at: usize| -> BTreeSet<i128> { draws.iter().map(|values| values[at]).collect() };
    let has = |at: usize, wanted: &[i128]| {
        let all = drawn(at);
        for value in wanted {
            assert!(all.contains(value), "{} {value}", problem.variables[at].name);
        }
    };
    has(0, &[0, 1, 31, 32, 33, 255, 256, 257]);
    assert!(drawn(0).last().is_some_and(|most| *most > 1000));
    has(1, &[0, 1, u64::MAX.into()]);
    assert!(drawn(1).iter().any(|value| *value > i128::from(u64::MAX / 4)));
    let block = problem.variables.iter().position(|it| it.name == LAUNCH[0]).unwrap();
    has(block, &[1, 31, 32, 33, 100, 256, 1024]);
}

/// Draws of small problems, against all of their solutions.
#[test]
fn every_solution_of_a_small_problem_is_found() {
    let [a, b] = [Expr::Param(0), Expr::Param(1)];
    let power = Condition::PowerOfTwo(Expr::binary(a.clone(), Arithmetic::Sub, b.clone()));
    let either = vec![
        power,
        Condition::Chain(int(-4), vec![(C::Equal, Expr::negated(times(a.clone(), b.clone())))]),
    ];
    let kernel = |clause: Vec<Condition>| {
        let range = |expr: &Expr| {
            vec![Condition::Chain(
                int(-8),
                vec![(C::LessEqual, expr.clone()), (C::LessEqual, int(8))],
            )]
        };
        DeclaredKernel::new("k", "")
            .integer::<i8>("a")
            .integer::<i8>("b")
            .clause("a", range(&a))
            .clause("b", range(&b))
            .clause("either", clause)
            .over("over 1", vec![(int(1), 32)])
    };
    let sum = Expr::binary(a.clone(), Arithmetic::Add, b.clone());
    for (clause, holds) in [
        (
            either,
            (|a, b| (a - b > 0 && i128::count_ones(a - b) == 1) || a * b == 4)
                as fn(i128, i128) -> bool,
        ),
        (chain(a.clone(), C::Equal, times(b.clone(), b.clone())), |a, b| a == b * b),
        (chain(Expr::binary(a.clone(), Arithmetic::Div, b.clone()), C::Equal, int(2)), |a, b| {
            b != 0 && a / b == 2
        }),
        (
            chain(Expr::binary(a.clone(), Arithmetic::Rem, b.clone()), C::GreaterEqual, int(3)),
            |a, b| b != 0 && a % b >= 3,
        ),
        (chain(sum, C::Less, int(-13)), |a, b| a + b < -13),
    ] {
        let problem = Problem::new(&kernel(clause), BOUNDS, true);
        let wanted: BTreeSet<Vec<i128>> = (-8..=8)
            .flat_map(|a| (-8..=8).map(move |b| vec![a, b]))
            .filter(|values| holds(values[0], values[1]))
            .collect();
        let found: BTreeSet<Vec<i128>> =
            (0..3000).map(|seed| problem.solve(16, &mut Random::new(seed)).unwrap()).collect();
        assert!(found.is_subset(&wanted), "{:?}", found.difference(&wanted));
        let missed = wanted.difference(&found).count();
        assert!(missed * 5 <= wanted.len(), "{missed} of {} were not found", wanted.len());
    }
}

#[test]
fn what_can_not_be_met_names_the_clause() {
    let n = || Expr::Param(0);
    let huge = || int(i128::MAX);
    for (text, clause) in [
        ("n > n", chain(n(), C::Greater, n())),
        ("overflow", chain(times(n(), huge()), C::Greater, times(huge(), huge()))),
        ("division", chain(Expr::binary(n(), Arithmetic::Div, int(0)), C::GreaterEqual, int(0))),
        ("negation", chain(Expr::negated(int(i128::MIN)), C::GreaterEqual, n())),
        ("range", chain(n(), C::Equal, int(300))),
    ] {
        let kernel = DeclaredKernel::new("k", "").integer::<u8>("n").clause(text, clause);
        let unmet = Problem::new(&kernel, BOUNDS, true).solve(64, &mut Random::new(1));
        assert!(unmet.is_err_and(|unmet| unmet.clause == text && unmet.draws > 0), "{text}");
    }
    let fits = DeclaredKernel::new("k", "").slice("x", true).filled::<u8>(
        "n",
        "n: u8 = x.len()",
        Expr::Len(0),
    );
    for seed in 0..200 {
        let problem = Problem::new(&fits, BOUNDS, true);
        assert!(problem.solve(4096, &mut Random::new(seed)).is_ok_and(|values| values[0] < 256));
    }
}

#[test]
fn a_seed_determines_the_draws() {
    let problem = Problem::new(&matrix_mul(), BOUNDS, true);
    let draw = |seed| problem.solve(4096, &mut Random::new(seed)).unwrap();
    assert_eq!(draw(3), draw(3));
    assert!((0..20).any(|seed| draw(seed) != draw(seed + 1)));
}
