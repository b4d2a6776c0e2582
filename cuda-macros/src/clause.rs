//! One clause of a `where`: comparisons of integer expressions over parameters, slice lengths and
//! the shape of the launch.
//!
//! Every value is an `i128`, so nothing of 64 bits wraps or changes its sign; larger results are
//! caught by checked arithmetic.

use crate::param::Param;
use crate::shape::Shape;
use std::fmt;

/// An integer expression. Parameters are indices into the function's list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Int(i128),
    Param(usize),
    Len(usize),
    Launch(Shape),
    Neg(Box<Expr>),
    Paren(Box<Expr>),
    Binary(Box<Expr>, Arithmetic, Box<Expr>),
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

/// `first op expr op expr …`
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Clause {
    pub(crate) first: Expr,
    pub(crate) rest: Vec<(Comparison, Expr)>,
}

impl Clause {
    /// Returns the parameters, lengths and numbers of the launch that the clause reads, each once, in order of appearance.
    pub(crate) fn leaves(&self) -> Vec<&Expr> {
        let mut out = Vec::new();
        self.first.collect_leaves(&mut out);
        self.rest.iter().for_each(|(_, expr)| expr.collect_leaves(&mut out));
        out
    }

    /// Returns whether `slice.len()` stands on the greater side of a comparison, or of an equality:
    /// `x.len() <= n` alone says nothing about how far the kernel may go into `x`.
    pub(crate) fn bounds_from_below(&self, slice: usize) -> bool {
        let mut left = &self.first;
        self.rest.iter().any(|(comparison, right)| {
            let in_left = !comparison.upward() && left.mentions_length(slice);
            let in_right = !comparison.downward() && right.mentions_length(slice);
            left = right;
            in_left || in_right
        })
    }

    /// Returns the clause as text, with the usual spaces.
    pub(crate) fn display(&self, params: &[Param]) -> String {
        let show = |expr| Show { expr, params }.to_string();
        self.rest.iter().fold(show(&self.first), |text, (comparison, expr)| {
            format!("{text} {} {}", comparison.symbol(), show(expr))
        })
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

    /// The parameters, lengths and numbers of the launch that it reads, each once.
    pub(crate) fn collect_leaves<'e>(&'e self, out: &mut Vec<&'e Expr>) {
        match self {
            Expr::Int(_) => {}
            Expr::Param(_) | Expr::Len(_) | Expr::Launch(_) => {
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
            Expr::Neg(inner) => write!(f, "-{}", show(inner)),
            Expr::Paren(inner) => write!(f, "({})", show(inner)),
            Expr::Binary(left, op, right) => {
                write!(f, "{} {} {}", show(left), op.symbol(), show(right))
            }
        }
    }
}
