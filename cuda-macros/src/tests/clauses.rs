//! The syntax and the meaning of `where` clauses.

use super::{fn_refused, function};
use crate::clause::{Clause, Expr};
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

/// Returns the value of an expression, with `i = -3`, `n = 10`, lengths 7 and 8: the meaning that the emitted code must
/// have.
fn value(expr: &Expr) -> Option<i128> {
    match expr {
        Expr::Int(value) => Some(*value),
        Expr::Param(0) => Some(-3),
        Expr::Param(_) => Some(10),
        Expr::Len(2) => Some(7),
        Expr::Len(_) => Some(8),
        Expr::Launch(shape) => panic!("{shape} has no value here"),
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
    clause_refused("n < »N", "`N` is not a parameter");
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
    clause_refused("n < 1 »|| i < 1", "every clause must hold");
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
    let first = |text: &str| clause(text).1.first;
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
    assert_eq!(function.clauses[0].first, Expr::Param(0));
    assert_eq!(function.clauses[0].rest[0].1, Expr::Len(1));
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
    let of = |text: &str| value(&clause(&format!("{text} < 0")).1.first);
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
