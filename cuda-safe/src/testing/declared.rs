//! A declared kernel as data, built by the code that [`kernels!`](crate::kernels) generates.

use std::any::type_name;

use crate::launch::Number;

/// An integer expression of a clause.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A number, or the value of a constant.
    Int(i128),
    /// An integer parameter.
    Param(usize),
    /// The length of a slice parameter.
    Len(usize),
    /// A field of a structure, by its number in [`DeclaredKernel::field`]'s order.
    Field(usize),
    /// A number of the launch, by its number in [`LAUNCH`].
    Launch(usize),
    /// `-a`
    Neg(Box<Expr>),
    /// `a + b`, …
    Binary(Box<Expr>, Arithmetic, Box<Expr>),
}

/// The numbers of a launch, as clauses write them.
pub const LAUNCH: [&str; 7] =
    ["block.x", "block.y", "block.z", "grid.x", "grid.y", "grid.z", "shared"];

/// An operator of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
}

/// A comparison of a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `==`
    Equal,
}

/// One condition of a clause.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// `first op expr op expr …`
    Chain(Expr, Vec<(Comparison, Expr)>),
    /// `expr.is_power_of_two()`
    PowerOfTwo(Expr),
}

impl Expr {
    /// Returns `-inner`.
    #[must_use]
    pub fn negated(inner: Self) -> Self {
        Self::Neg(Box::new(inner))
    }

    /// Returns `left op right`.
    #[must_use]
    pub fn binary(left: Self, op: Arithmetic, right: Self) -> Self {
        Self::Binary(Box::new(left), op, Box::new(right))
    }
}

/// A parameter of a kernel.
#[derive(Debug)]
pub(super) struct TakenParam {
    pub(super) name: &'static str,
    pub(super) kind: TakenKind,
}

#[derive(Debug)]
pub(super) enum TakenKind {
    Slice { written: bool },
    Integer { range: (i128, i128), filled: Option<Expr> },
    Value,
}

/// A kernel, or one instance of it.
#[derive(Debug)]
pub struct DeclaredKernel {
    pub(super) name: &'static str,
    pub(super) instance: &'static str,
    pub(super) params: Vec<TakenParam>,
    /// The text, and the range of the type.
    pub(super) fields: Vec<(&'static str, (i128, i128))>,
    /// The text, and the alternatives.
    pub(super) clauses: Vec<(String, Vec<Condition>)>,
    /// The text, and extent and block in each dimension.
    pub(super) over: Option<(&'static str, Vec<(Expr, u32)>)>,
    /// Whether launches have extent 1 in y, and in z.
    pub(super) locked: [bool; 2],
    pub(super) cooperative: bool,
}

impl DeclaredKernel {
    /// Describes a kernel without parameters. `instance` says which types its type parameters are.
    #[must_use]
    pub fn new(name: &'static str, instance: &'static str) -> Self {
        let (params, fields, clauses) = Default::default();
        let (over, locked, cooperative) = (None, [false; 2], false);
        Self { name, instance, params, fields, clauses, over, locked, cooperative }
    }

    /// Adds a slice.
    #[must_use]
    pub fn slice(self, name: &'static str, written: bool) -> Self {
        self.param(name, TakenKind::Slice { written })
    }

    /// Adds an integer that the caller passes.
    #[must_use]
    pub fn integer<N: Number>(self, name: &'static str) -> Self {
        self.param(name, TakenKind::Integer { range: N::RANGE, filled: None })
    }

    /// Adds an integer that the method fills in.
    #[must_use]
    pub fn filled<N: Number>(mut self, name: &'static str, text: &str, value: Expr) -> Self {
        let (least, most) = N::RANGE;
        let fits =
            vec![(Comparison::LessEqual, value.clone()), (Comparison::LessEqual, Expr::Int(most))];
        let text = format!("{text} (fits {})", type_name::<N>());
        self.clauses.push((text, vec![Condition::Chain(Expr::Int(least), fits)]));
        self.param(name, TakenKind::Integer { range: N::RANGE, filled: Some(value) })
    }

    /// Adds a value of another type.
    #[must_use]
    pub fn value(self, name: &'static str) -> Self {
        self.param(name, TakenKind::Value)
    }

    fn param(mut self, name: &'static str, kind: TakenKind) -> Self {
        self.params.push(TakenParam { name, kind });
        self
    }

    /// Adds an integer field of a value; `_get` says which type it has.
    #[must_use]
    pub fn field<P, N: Number>(mut self, text: &'static str, _get: fn(&P) -> N) -> Self {
        self.fields.push((text, N::RANGE));
        self
    }

    /// Adds a clause.
    #[must_use]
    pub fn clause(mut self, text: &'static str, alternatives: Vec<Condition>) -> Self {
        self.clauses.push((text.to_owned(), alternatives));
        self
    }

    /// Sets the launch.
    #[must_use]
    pub fn over(mut self, text: &'static str, extents: Vec<(Expr, u32)>) -> Self {
        self.over = Some((text, extents));
        self
    }

    /// Sets whether launches have extent 1 in y, and in z.
    #[must_use]
    pub fn locked(mut self, y: bool, z: bool) -> Self {
        self.locked = [y, z];
        self
    }

    /// Makes each launch cooperative.
    #[must_use]
    pub fn cooperative(mut self) -> Self {
        self.cooperative = true;
        self
    }
}
