//! The syntax and the meaning of `where` clauses.

use super::{fn_refused, function};
use crate::clause::{Clause, Comparison, Condition, Expr};
use crate::function::Function;
use crate::shape::{Axis, Shape};

/// As `refused`, for a clause over integers `i: i32, n: u64`, slices `x, y` and a float `a`. The
/// function is `unsafe`, so that no length must be checked.
#[track_caller]
fn clause_refused(clause: &str, wanted: &str) {
    let params = "i: i32, n: u64, x: &[f32], y: &mut [u8], a: f32";
    fn_refused(&format!("unsafe fn f({params}) where {clause};"), wanted);
}

fn clause(text: &str) -> (Function, Clause) {
    let params = "i: i32, n: u64, x: &[f32], y: &mut [u8]";
    let function = function(&format!("unsafe fn f({params}) where {text};"));
    let clause = function.clauses[0].clone();
    (function, clause)
}

/// Returns the only condition of a clause, which is a chain of comparisons.
fn chain(clause: &Clause) -> (&Expr, &[(Comparison, Expr)]) {
    match clause.alternatives.as_slice() {
        [Condition::Chain { first, rest }] => (first, rest),
        other => panic!("one chain expected: {other:?}"),
    }
}

/// Returns the value of an expression, with `i = -3`, `n = 10`, lengths 7 and 8: the meaning that the emitted code must
/// have.
fn value(expr: &Expr) -> Option<i128> {
    match expr {
        Expr::Int(value) => Some(*value),
        Expr::Param(0) => Some(-3),
        Expr::Param(_) => Some(10),
        Expr::Len(2) => Some(7),
        Expr::Len(_) => Some(8),
        Expr::Launch(_) | Expr::Const(_) | Expr::Field(..) => panic!("{expr:?} has no value here"),
        Expr::Paren(inner) => value(inner),
        Expr::Neg(inner) => value(inner)?.checked_neg(),
        Expr::Binary(left, op, right) => {
            let (left, right) = (value(left)?, value(right)?);
            match op.checked() {
                "checked_add" => left.checked_add(right),
                "checked_sub" => left.checked_sub(right),
                "checked_mul" => left.checked_mul(right),
                "checked_div" => left.checked_div(right),
                "checked_rem" => left.checked_rem(right),
                other => panic!("i128 has no {other}"),
            }
        }
    }
}

#[test]
fn a_safe_fn_checks_every_length_from_below() {
    fn_refused("safe fn f(»x: &[f32]);", "the length of `x` is not checked");
    fn_refused("safe fn f(x: &[f32], »y: &mut [f32], n: u64) where n < x.len();", "length of `y`");
    fn_refused("safe fn f(»x: &[f32], n: u64) where x.len() <= n;", "length of `x`");
    fn_refused("safe fn f(»x: &[f32], n: u64) where n > x.len();", "length of `x`");
    for sound in [
        "n <= x.len()",
        "x.len() > n",
        "x.len() == n",
        "n == x.len()",
        "0 <= n < 2 * x.len()",
        "x.len() >= n > 0",
    ] {
        assert_eq!(
            function(&format!("safe fn f(x: &[f32], n: u64) where {sound};")).clauses.len(),
            1
        );
    }
    assert!(function("unsafe fn f(x: &[f32]);").clauses.is_empty());
}

#[test]
fn clauses_hold_integers_and_lengths_only() {
    clause_refused("»m <= 1", "`m` is not a parameter");
    clause_refused("n < »N_n", "`N_n` is not a parameter");
    clause_refused("n < a::»b", "`b` is no constant");
    clause_refused("n < a::»3", "expected a name of the constant's path");
    clause_refused("n < ::»A()", "calls nothing but");
    clause_refused("n < »:A", "expected `<`");
    clause_refused("n <= »x", "compares its length, `x.len()`");
    clause_refused("n <= x.»is_empty()", "`.len()` alone");
    clause_refused("n <= x.»len", "`.len()` alone");
    clause_refused("»a <= 1", "`a: f32` is not an integer");
    clause_refused("»n.len() <= 1", "is an integer");
    clause_refused("»min(n, 1) <= 2", "calls nothing");
    clause_refused("n »as i32 <= 2", "no casts");
    clause_refused("n <= »1.5", "takes integers");
    clause_refused("n <= »1u64", "without a type");
    clause_refused("n <= »\"a\"", "takes integers");
    clause_refused("n <= »170141183460469231731687303715884105728", "up to 2^127 - 1");
    clause_refused("n < 1 »&& i < 1", "two clauses");
    clause_refused("n < 1 »| i < 1", "no `|`");
    clause_refused("n < 1 |»|", "ends where a value is expected");
    clause_refused("n »|| i < 1", "is missing");
    clause_refused("(n »< 1 || i < 1)", "expected `<`");
    clause_refused("n »= 1", "`==`");
    clause_refused("n »!= 1", "no `!`");
    clause_refused("n »<< 1 < 2", "no shifts");
    clause_refused("n < (1 »< 2)", "expected `<`");
    clause_refused("n < 1 »2", "expected `<`");
    clause_refused("0 < n »> i", "goes one way");
    clause_refused("»n", "is missing");
    clause_refused("n »<", "ends where a value is expected");
    clause_refused("»< n", "expected `<`");
    clause_refused("n < »()", "ends where a value is expected");
}

#[test]
fn clauses_read_the_launch() {
    let first = |text: &str| chain(&clause(text).1).0.clone();
    for (text, shape) in [
        ("block.x", Shape::Block(Axis::X)),
        ("block.y", Shape::Block(Axis::Y)),
        ("grid.y", Shape::Grid(Axis::Y)),
        ("grid.z", Shape::Grid(Axis::Z)),
        ("shared", Shape::Shared),
    ] {
        assert_eq!(first(&format!("{text} == 1")), Expr::Launch(shape));
    }
    let (function, clause) = clause("block . x*grid.x >= 4 * n + (shared)");
    assert_eq!(clause.display(&function.params), "block.x * grid.x >= 4 * n + (shared)");
    let leaves: Vec<String> =
        clause.leaves().iter().map(|leaf| leaf.display(&function.params)).collect();
    assert_eq!(leaves, ["block.x", "grid.x", "n", "shared"]);

    clause_refused("»block == 1", "compares `block.x`, `block.y` and `block.z`");
    clause_refused("»grid.w == 1", "compares `grid.x`, `grid.y` and `grid.z`");
    clause_refused("block.x».y == 1", "expected `<`");
    clause_refused("shared».x == 1", "expected `<`");
    clause_refused("»threads == 1", "and the launch (`block.x`");
}

#[test]
fn a_parameter_hides_what_the_launch_has_under_its_name() {
    let function = function("safe fn f(shared: u32, grid: &[u8]) where shared < grid.len();");
    let (first, rest) = chain(&function.clauses[0]);
    assert_eq!((first, &rest[0].1), (&Expr::Param(0), &Expr::Len(1)));
    fn_refused("safe fn f(block: u32) where »block.x == 1;", "give it another name");
    fn_refused("safe fn f(grid: Grid) where »grid.y == 1;", "to compare `grid.y`");
}

#[test]
fn safe_kernels_keep_to_1_in_dimensions_that_no_clause_names() {
    let locked = |text: &str| function(text).locked();
    assert_eq!(locked("safe fn f();"), [true, true]);
    assert_eq!(locked("safe fn f() where block.x == 256, grid.x > 1, shared == 0;"), [true, true]);
    assert_eq!(locked("safe fn f() where block.y == 16;"), [false, true]);
    assert_eq!(locked("safe fn f() where grid.z <= 4;"), [true, false]);
    assert_eq!(locked("safe fn f() where 0 < 2 * (block.x + -block.y) <= grid.z;"), [false; 2]);
    assert_eq!(locked("unsafe fn f();"), [false, false]);
    assert_eq!(locked("unsafe fn f() where block.x == 256;"), [false, false]);
}

#[test]
fn operators_bind_as_in_rust() {
    let of = |text: &str| value(chain(&clause(&format!("{text} < 0")).1).0);
    assert_eq!(of("1 + 2 * 3 - 4"), Some(3));
    assert_eq!(of("20 / 2 / 5 % 3"), Some(2));
    assert_eq!(of("10 - 4 - 3"), Some(3));
    assert_eq!(of("(1 + 2) * -3"), Some(-9));
    assert_eq!(of("- - i * n"), Some(-30));
    assert_eq!(of("x.len() * y.len() + i"), Some(53));
    assert_eq!(of("0x1F + 0b11 + 0o17 + 1_000"), Some(31 + 3 + 15 + 1000));
    assert_eq!(of("-7 / 2"), Some(-3), "truncated, as in C++ and Rust");
    assert_eq!(of("1 / (n - 10)"), None);
    assert_eq!(of("n * 170141183460469231731687303715884105727"), None);
}

#[test]
fn a_clause_shows_itself_and_what_it_reads() {
    let (function, clause) = clause("0<=i*(n+ 0x10)<x . len()*-n");
    assert_eq!(clause.display(&function.params), "0 <= i * (n + 16) < x.len() * -n");
    let leaves: Vec<String> =
        clause.leaves().iter().map(|leaf| leaf.display(&function.params)).collect();
    assert_eq!(leaves, ["i", "n", "x.len()"], "each once, in order");
}

#[test]
fn each_alternative_must_check_the_length() {
    let ok =
        |text: &str| function(&format!("safe fn f(x: &[f32], y: &[u8], n: u64) where {text};"));
    assert_eq!(ok("n <= x.len() || x.len() == 4 || 2 * n < x.len(), y.len() > n").clauses.len(), 2);
    for unchecked in [
        "n <= x.len() || n <= y.len()",
        "n == 0 || n <= x.len()",
        "n <= x.len() || x.len() <= n",
        "n <= x.len() || x.len().is_power_of_two()",
        "x.len().is_power_of_two()",
        "x.len() > 0 || y.len() > 0 || n > 0",
    ] {
        fn_refused(
            &format!("safe fn f(»x: &[f32], y: &[u8], n: u64) where {unchecked}, n <= y.len();"),
            "the length of `x` is not checked",
        );
    }
}

#[test]
fn alternatives_and_powers_of_two_are_conditions() {
    let (function, clause) = clause(
        "n==0||block . x.is_power_of_two()||(n+1).is_power_of_two()||x.len().is_power_of_two()||i<n<4",
    );
    assert_eq!(
        clause.display(&function.params),
        "n == 0 || block.x.is_power_of_two() || (n + 1).is_power_of_two() || x.len().is_power_of_two() || i < n < 4"
    );
    let leaves: Vec<String> =
        clause.leaves().iter().map(|leaf| leaf.display(&function.params)).collect();
    assert_eq!(leaves, ["n", "block.x", "x.len()", "i"]);
    assert_eq!(clause.alternatives.len(), 5);
    let named = super::function("safe fn f(n: u32) where n == 1 || block.y.is_power_of_two();");
    assert_eq!(named.locked(), [false, true], "a dimension that an alternative names is named");

    clause_refused("»n + 1.is_power_of_two() == 1", "put parentheses");
    clause_refused("»-n.is_power_of_two()", "put parentheses");
    clause_refused("n < i».is_power_of_two()", "is a condition alone");
    clause_refused("n.is_power_of_two() »== 1", "`==`");
    clause_refused("»n.is_power_of_two(1)", "has no length or field");
    clause_refused("x.»is_power_of_two()", "uses `.len()` alone");
    clause_refused("»a.is_power_of_two()", "is not an integer");
    fn_refused("safe fn f(n: u32, m: u32 = n».is_power_of_two());", "expected + - * / %");
}

#[test]
fn constants_are_paths_that_end_in_capitals() {
    let params = "n: u64, TILE: u32, block: u32";
    let shown = |text: &str| {
        let function = function(&format!("unsafe fn f({params}) where {text};"));
        let leaves = function.clauses[0].leaves().into_iter().cloned().collect::<Vec<_>>();
        (function.clauses[0].display(&function.params), leaves)
    };
    let (text, leaves) = shown("n<=BLOCK_2*crate :: consts::MAX+ ::a::B - u32::MAX");
    assert_eq!(text, "n <= BLOCK_2 * crate::consts::MAX + ::a::B - u32::MAX");
    assert_eq!(leaves.len(), 5, "{leaves:?}");
    assert!(leaves[1..].iter().all(|leaf| matches!(leaf, Expr::Const(_))));
    // A parameter hides a constant of its name, but no path.
    assert_eq!(shown("n < TILE").1[1], Expr::Param(1));
    assert!(matches!(shown("n < TILE::TILE").1[1], Expr::Const(_)));
    // In defaults and extents, too.
    let f = function("safe fn f(x: &[u8], n: u32 = x.len() / TILE) over [n, H] where x.len() > 0;");
    assert_eq!(
        f.params[1].default.as_ref().map(|d| d.display(&f.params)).as_deref(),
        Some("x.len() / TILE")
    );
    fn_refused("safe fn f(n: u32 = »m);", "constants in capitals");
}

#[test]
fn fields_of_structures_are_read() {
    let refused = |text: &str, wanted: &str| {
        let params = "p: Params, n: u32, pair: (u32, u8), t: [u32; 3], x: &[u8], a: f32";
        fn_refused(&format!("unsafe fn f({params}) where {text};"), wanted);
    };
    let f = function(
        "unsafe fn f(p: Params<u8>, q: &Prepared) where p.n <= p.size.x * p.0, q.m == (p.n), p.n.is_power_of_two();",
    );
    assert_eq!(f.clauses[0].display(&f.params), "p.n <= p.size.x * p.0");
    assert_eq!(f.clauses[1].display(&f.params), "q.m == (p.n)");
    assert_eq!(f.clauses[2].display(&f.params), "p.n.is_power_of_two()");
    assert_eq!(f.clauses[0].leaves().len(), 3);
    refused("»p <= 1", "is not an integer");
    refused("p.»n() <= 1", "calls nothing but");
    refused("p.n.»len() <= 1", "calls nothing but");
    refused("p. »<= 1", "the name of a field");
    refused("p.»1.5 <= 1", "the name of a field");
    refused("»n.x <= 1", "has no length or field");
    refused("»a.x <= 1", "is not an integer");
    refused("x.»n <= 1", "uses `.len()` alone");
}
