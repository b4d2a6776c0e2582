//! One clause of a `where`: conditions on integer expressions over parameters, their fields, slice lengths, constants
//! and the shape of the launch.
//!
//! Every value is an `i128`, so nothing of 64 bits wraps or changes its sign; larger results are
//! caught by checked arithmetic.

use crate::param::Param;
use crate::shape::Shape;
use crate::token::Token;
use std::fmt;

/// An integer expression. Parameters are indices into the function's list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Int(i128),
    Param(usize),
    Len(usize),
    Launch(Shape),
    /// A constant of Rust's.
    Const(Path),
    /// A field of a parameter that is a structure: `params.n`, `params.size.x`.
    Field(usize, Path),
    Neg(Box<Expr>),
    Paren(Box<Expr>),
    Binary(Box<Expr>, Arithmetic, Box<Expr>),
}

/// The path of a constant or of a field, which is as its text says.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) text: String,
    pub(crate) tokens: Vec<Token>,
}

impl PartialEq for Path {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Comparison {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
}

impl Arithmetic {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Sub => "-",
            Arithmetic::Mul => "*",
            Arithmetic::Div => "/",
            Arithmetic::Rem => "%",
        }
    }

    /// Returns the method of `i128` that returns `None` where the result does not exist.
    pub(crate) fn checked(self) -> &'static str {
        match self {
            Arithmetic::Add => "checked_add",
            Arithmetic::Sub => "checked_sub",
            Arithmetic::Mul => "checked_mul",
            Arithmetic::Div => "checked_div",
            Arithmetic::Rem => "checked_rem",
        }
    }
}

impl Comparison {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Comparison::Less => "<",
            Comparison::LessEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterEqual => ">=",
            Comparison::Equal => "==",
        }
    }

    pub(crate) fn upward(self) -> bool {
        matches!(self, Comparison::Less | Comparison::LessEqual)
    }

    pub(crate) fn downward(self) -> bool {
        matches!(self, Comparison::Greater | Comparison::GreaterEqual)
    }
}

/// `condition || condition …`: at least one, and one that holds is enough.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Clause {
    pub(crate) alternatives: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    /// `first op expr op expr …`
    Chain { first: Expr, rest: Vec<(Comparison, Expr)> },
    /// `expr.is_power_of_two()`
    PowerOfTwo(Expr),
}

impl Clause {
    /// Returns what the clause reads, each once, in order of appearance: parameters, fields, lengths, constants and
    /// numbers of the launch.
    pub(crate) fn leaves(&self) -> Vec<&Expr> {
        let mut out = Vec::new();
        for condition in &self.alternatives {
            match condition {
                Condition::Chain { first, rest } => {
                    first.collect_leaves(&mut out);
                    rest.iter().for_each(|(_, expr)| expr.collect_leaves(&mut out));
                }
                Condition::PowerOfTwo(expr) => expr.collect_leaves(&mut out),
            }
        }
        out
    }

    /// Returns whether `slice.len()` stands on the greater side of a comparison, or of an equality, in each
    /// alternative: `x.len() <= n` alone says nothing about how far the kernel may go into `x`, and of several
    /// alternatives any may be the one that holds.
    pub(crate) fn bounds_from_below(&self, slice: usize) -> bool {
        self.alternatives.iter().all(|condition| condition.bounds_from_below(slice))
    }

    /// Returns the clause as text, with the usual spaces.
    pub(crate) fn display(&self, params: &[Param]) -> String {
        let each: Vec<String> =
            self.alternatives.iter().map(|condition| condition.display(params)).collect();
        each.join(" || ")
    }
}

impl Condition {
    fn bounds_from_below(&self, slice: usize) -> bool {
        let Condition::Chain { first, rest } = self else { return false };
        let mut left = first;
        rest.iter().any(|(comparison, right)| {
            let in_left = !comparison.upward() && left.mentions_length(slice);
            let in_right = !comparison.downward() && right.mentions_length(slice);
            left = right;
            in_left || in_right
        })
    }

    fn display(&self, params: &[Param]) -> String {
        let show = |expr| Show { expr, params }.to_string();
        match self {
            Condition::Chain { first, rest } => {
                rest.iter().fold(show(first), |text, (comparison, expr)| {
                    format!("{text} {} {}", comparison.symbol(), show(expr))
                })
            }
            Condition::PowerOfTwo(expr) => format!("{}.is_power_of_two()", show(expr)),
        }
    }
}

impl Expr {
    /// Returns the expression without parentheses around it.
    pub(crate) fn bare(&self) -> &Expr {
        match self {
            Expr::Paren(inner) => inner.bare(),
            expr => expr,
        }
    }

    /// Adds what it reads, each once; see [`Clause::leaves`].
    pub(crate) fn collect_leaves<'e>(&'e self, out: &mut Vec<&'e Expr>) {
        match self {
            Expr::Int(_) => {}
            Expr::Param(_) | Expr::Len(_) | Expr::Launch(_) | Expr::Const(_) | Expr::Field(..) => {
                if !out.contains(&self) {
                    out.push(self);
                }
            }
            Expr::Neg(inner) | Expr::Paren(inner) => inner.collect_leaves(out),
            Expr::Binary(left, _, right) => {
                left.collect_leaves(out);
                right.collect_leaves(out);
            }
        }
    }

    fn mentions_length(&self, slice: usize) -> bool {
        let mut leaves = Vec::new();
        self.collect_leaves(&mut leaves);
        leaves.contains(&&Expr::Len(slice))
    }

    /// Returns the expression as text, with the usual spaces.
    pub(crate) fn display(&self, params: &[Param]) -> String {
        Show { expr: self, params }.to_string()
    }
}

/// An expression with the names of its parameters.
struct Show<'e> {
    expr: &'e Expr,
    params: &'e [Param],
}

impl fmt::Display for Show<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params = self.params;
        let show = |expr| Show { expr, params };
        match self.expr {
            Expr::Int(value) => write!(f, "{value}"),
            Expr::Param(i) => f.write_str(&params[*i].text),
            Expr::Len(i) => write!(f, "{}.len()", params[*i].text),
            Expr::Launch(shape) => write!(f, "{shape}"),
            Expr::Const(path) => f.write_str(&path.text),
            Expr::Field(i, path) => write!(f, "{}.{}", params[*i].text, path.text),
            Expr::Neg(inner) => write!(f, "-{}", show(inner)),
            Expr::Paren(inner) => write!(f, "({})", show(inner)),
            Expr::Binary(left, op, right) => {
                write!(f, "{} {} {}", show(left), op.symbol(), show(right))
            }
        }
    }
}
