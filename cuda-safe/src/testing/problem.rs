//! The variables of a kernel's launches, and the conditions that they must meet.

use super::declared::{Arithmetic, Comparison, Condition, DeclaredKernel, Expr, LAUNCH, TakenKind};
use super::random::Random;

/// An expression over variables: what a method fills in or derives is replaced by its expression.
#[derive(Debug, Clone)]
pub(super) enum Term {
    Int(i128),
    Var(usize),
    Neg(Box<Term>),
    Binary(Box<Term>, Arithmetic, Box<Term>),
}

/// A comparison of two terms, or one of a term.
#[derive(Debug, Clone)]
pub(super) enum Link {
    Compare(Term, Comparison, Term),
    PowerOfTwo(Term),
}

/// A condition with a name: all links of one of the alternatives hold.
#[derive(Debug)]
pub(super) struct Clause {
    pub(super) text: String,
    pub(super) alternatives: Vec<Vec<Link>>,
}

/// What a variable is, which decides the values that are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Length,
    /// An integer that something reads.
    Integer,
    /// An integer that nothing reads: every value is allowed.
    Any,
    Block,
    Grid,
    Shared,
}

/// A number that a launch has, and that follows from no other.
#[derive(Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) what: What,
    pub(super) least: i128,
    pub(super) most: i128,
}

/// Limits of the launches that are tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) elements: u64,
    pub(super) threads: u64,
}

/// The launches of a kernel.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) variables: Vec<Variable>,
    pub(super) clauses: Vec<Clause>,
    /// The variable of each integer that is passed, and of each slice's length.
    pub(super) of_param: Vec<Option<usize>>,
    pub(super) of_field: Vec<usize>,
    /// Block, grid and shared memory, in the order of [`LAUNCH`].
    pub(super) launch: Vec<Term>,
    /// Whether a variable is a length with a lower bound that other variables give: it is drawn as short as possible.
    pub(super) bounded: Vec<bool>,
    /// Numbers in the clauses.
    pub(super) constants: Vec<i128>,
}

/// The limits of every device for a block, and the shared memory that every kernel may have.
const MOST: [i128; 7] = [1024, 1024, 64, 0, 0, 0, 48 << 10];
/// Blocks of a cooperative launch: so many are resident on any device, if a block is not exceptionally large.
const RESIDENT: i128 = 16;

impl Term {
    fn binary(left: Self, op: Arithmetic, right: Self) -> Self {
        Self::Binary(Box::new(left), op, Box::new(right))
    }

    /// Returns the value, or `None` if it is out of the range of 128 bits, or there is none.
    pub(super) fn value(&self, values: &[i128]) -> Option<i128> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Var(variable) => values.get(*variable).copied(),
            Self::Neg(inner) => inner.value(values)?.checked_neg(),
            Self::Binary(left, op, right) => {
                let (left, right) = (left.value(values)?, right.value(values)?);
                match op {
                    Arithmetic::Add => left.checked_add(right),
                    Arithmetic::Sub => left.checked_sub(right),
                    Arithmetic::Mul => left.checked_mul(right),
                    Arithmetic::Div => left.checked_div(right),
                    Arithmetic::Rem => left.checked_rem(right),
                }
            }
        }
    }

    /// Adds each occurrence of a variable.
    pub(super) fn collect(&self, out: &mut Vec<usize>) {
        match self {
            Self::Int(_) => {}
            Self::Var(variable) => out.push(*variable),
            Self::Neg(inner) => inner.collect(out),
            Self::Binary(left, _, right) => {
                left.collect(out);
                right.collect(out);
            }
        }
    }

    fn constants(&self, out: &mut Vec<i128>) {
        match self {
            Self::Int(value) => out.push(*value),
            Self::Var(_) => {}
            Self::Neg(inner) => inner.constants(out),
            Self::Binary(left, _, right) => {
                left.constants(out);
                right.constants(out);
            }
        }
    }
}

impl Link {
    pub(super) fn holds(&self, values: &[i128]) -> bool {
        match self {
            Self::Compare(left, comparison, right) => {
                let (Some(left), Some(right)) = (left.value(values), right.value(values)) else {
                    return false;
                };
                match comparison {
                    Comparison::Less => left < right,
                    Comparison::LessEqual => left <= right,
                    Comparison::Greater => left > right,
                    Comparison::GreaterEqual => left >= right,
                    Comparison::Equal => left == right,
                }
            }
            Self::PowerOfTwo(term) => {
                term.value(values).is_some_and(|value| value > 0 && value.count_ones() == 1)
            }
        }
    }

    pub(super) fn variables(&self) -> Vec<usize> {
        let mut out = Vec::new();
        match self {
            Self::Compare(left, _, right) => {
                left.collect(&mut out);
                right.collect(&mut out);
            }
            Self::PowerOfTwo(term) => term.collect(&mut out),
        }
        out
    }
}

impl Clause {
    fn one(text: impl Into<String>, left: Term, comparison: Comparison, right: i128) -> Self {
        let link = Link::Compare(left, comparison, Term::Int(right));
        Self { text: text.into(), alternatives: vec![vec![link]] }
    }

    pub(super) fn holds(&self, values: &[i128]) -> bool {
        self.alternatives.iter().any(|links| links.iter().all(|link| link.holds(values)))
    }

    pub(super) fn links(&self) -> impl Iterator<Item = &Link> {
        self.alternatives.iter().flatten()
    }
}

impl Problem {
    /// Describes the launches of `kernel` within `bounds`; with `blocks`, those with at least one block.
    pub(super) fn new(kernel: &DeclaredKernel, bounds: Bounds, blocks: bool) -> Self {
        let mut problem = Self {
            variables: Vec::new(),
            clauses: Vec::new(),
            of_param: Vec::new(),
            of_field: Vec::new(),
            launch: Vec::new(),
            bounded: Vec::new(),
            constants: Vec::new(),
        };
        let elements = i128::from(bounds.elements);
        for param in &kernel.params {
            let variable = match &param.kind {
                TakenKind::Slice { .. } => {
                    let name = format!("{}.len()", param.name);
                    Some(problem.variable(name, What::Length, 0, elements))
                }
                TakenKind::Integer { range: (least, most), filled: None } => {
                    Some(problem.variable(param.name.to_owned(), What::Any, *least, *most))
                }
                TakenKind::Integer { .. } | TakenKind::Value => None,
            };
            problem.of_param.push(variable);
        }
        for (name, (least, most)) in &kernel.fields {
            let field = problem.variable((*name).to_owned(), What::Integer, *least, *most);
            problem.of_field.push(field);
        }
        problem.set_launch(kernel, bounds, blocks);
        for (text, alternatives) in &kernel.clauses {
            let links = |condition| problem.links(condition, kernel);
            let alternatives = alternatives.iter().map(links).collect();
            problem.clauses.push(Clause { text: text.clone(), alternatives });
        }
        problem.note();
        problem
    }

    fn variable(&mut self, name: String, what: What, least: i128, most: i128) -> usize {
        self.variables.push(Variable { name, what, least, most });
        self.variables.len() - 1
    }

    /// Adds the launch, and what every launch must meet.
    fn set_launch(&mut self, kernel: &DeclaredKernel, bounds: Bounds, blocks: bool) {
        let threads = i128::from(bounds.threads);
        let (mut block, mut grid) = (vec![Term::Int(1); 3], vec![Term::Int(1); 3]);
        let mut total = Term::Int(1);
        if let Some((text, extents)) = &kernel.over {
            for (axis, (extent, size)) in extents.iter().take(3).enumerate() {
                let (extent, size) = (self.term(extent, kernel), i128::from(*size));
                let least = i128::from(blocks);
                let clause = Clause::one(*text, extent.clone(), Comparison::GreaterEqual, least);
                self.clauses.push(clause);
                let up = Term::binary(extent, Arithmetic::Add, Term::Int(size - 1));
                block[axis] = Term::Int(size);
                grid[axis] = Term::binary(up, Arithmetic::Div, Term::Int(size));
            }
            self.launch = [block, grid, vec![Term::Int(0)]].concat();
        } else {
            let mut variables = Vec::new();
            for (i, name) in LAUNCH.iter().enumerate() {
                let (what, least, most) = match i {
                    0..3 => (What::Block, 1, MOST[i]),
                    3..6 => (What::Grid, 1, if kernel.cooperative { RESIDENT } else { threads }),
                    _ => (What::Shared, 0, MOST[6]),
                };
                let locked =
                    (i % 3 == 1 && kernel.locked[0] || i % 3 == 2 && kernel.locked[1]) && i < 6;
                variables.push(match locked {
                    true => Term::Int(1),
                    false => Term::Var(self.variable((*name).to_owned(), what, least, most)),
                });
            }
            self.launch = variables;
            let of_block = self.launch.get(..3).unwrap_or_default().iter().cloned();
            let in_block =
                of_block.fold(Term::Int(1), |all, term| Term::binary(all, Arithmetic::Mul, term));
            let text = "a block has at most 1024 threads";
            self.clauses.push(Clause::one(text, in_block, Comparison::LessEqual, 1024));
        }
        for term in self.launch.iter().take(6) {
            total = Term::binary(total, Arithmetic::Mul, term.clone());
        }
        let text =
            format!("a launch of the test has at most {threads} threads (Launches::most_threads)");
        // A launch over few elements may have one block beyond.
        self.clauses.push(Clause::one(text, total, Comparison::LessEqual, threads.max(1024)));
    }

    fn links(&self, condition: &Condition, kernel: &DeclaredKernel) -> Vec<Link> {
        match condition {
            Condition::PowerOfTwo(expr) => vec![Link::PowerOfTwo(self.term(expr, kernel))],
            Condition::Chain(first, rest) => {
                let mut left = self.term(first, kernel);
                let mut links = Vec::new();
                for (comparison, right) in rest {
                    let right = self.term(right, kernel);
                    links.push(Link::Compare(left, *comparison, right.clone()));
                    left = right;
                }
                links
            }
        }
    }

    fn term(&self, expr: &Expr, kernel: &DeclaredKernel) -> Term {
        let variable = |of: Option<&Option<usize>>| match of {
            Some(Some(variable)) => Term::Var(*variable),
            // The macro refuses such expressions.
            _ => Term::Int(0),
        };
        match expr {
            Expr::Int(value) => Term::Int(*value),
            // A filled-in parameter reads only those before it, so the recursion ends.
            Expr::Param(i) => match kernel.params.get(*i).map(|param| &param.kind) {
                Some(TakenKind::Integer { filled: Some(value), .. }) => self.term(value, kernel),
                _ => variable(self.of_param.get(*i)),
            },
            Expr::Len(i) => variable(self.of_param.get(*i)),
            Expr::Field(i) => self.of_field.get(*i).map_or(Term::Int(0), |at| Term::Var(*at)),
            Expr::Launch(i) => self.launch.get(*i).cloned().unwrap_or(Term::Int(0)),
            Expr::Neg(inner) => Term::Neg(Box::new(self.term(inner, kernel))),
            Expr::Binary(left, op, right) => {
                Term::binary(self.term(left, kernel), *op, self.term(right, kernel))
            }
        }
    }

    /// Notes which integers are read, which lengths have lower bounds, and which numbers the clauses have.
    fn note(&mut self) {
        self.bounded = vec![false; self.variables.len()];
        let mut constants = Vec::new();
        for link in self.clauses.iter().flat_map(Clause::links) {
            for variable in link.variables() {
                if let Some(variable) = self.variables.get_mut(variable)
                    && variable.what == What::Any
                {
                    variable.what = What::Integer;
                }
            }
            if let Link::Compare(left, comparison, right) = link {
                left.constants(&mut constants);
                right.constants(&mut constants);
                let (less, greater) = match comparison {
                    Comparison::Less | Comparison::LessEqual => (left, right),
                    Comparison::Greater | Comparison::GreaterEqual => (right, left),
                    Comparison::Equal => continue,
                };
                let (mut variables, mut others) = (Vec::new(), Vec::new());
                greater.collect(&mut variables);
                less.collect(&mut others);
                // A length above a number is free: others follow it.
                for variable in variables.into_iter().filter(|_| !others.is_empty()) {
                    if let Some(bounded) = self.bounded.get_mut(variable) {
                        *bounded = true;
                    }
                }
            }
        }
        for (bounded, variable) in self.bounded.iter_mut().zip(&self.variables) {
            *bounded &= variable.what == What::Length;
        }
        constants.sort_unstable();
        constants.dedup();
        self.constants = constants;
    }

    pub(super) fn holds(&self, values: &[i128]) -> bool {
        self.clauses.iter().all(|clause| clause.holds(values))
    }

    /// Returns a value of a variable that is worth trying; sizes are at most `scale`.
    pub(super) fn draw(&self, variable: usize, scale: u64, random: &mut Random) -> i128 {
        const SIZES: [i128; 18] =
            [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 64, 100, 127, 128, 255, 256, 257];
        const BLOCKS: [i128; 14] = [1, 2, 31, 32, 33, 48, 64, 96, 100, 128, 256, 512, 1000, 1024];
        let Some(variable) = self.variables.get(variable) else { return 0 };
        let limited = |value: i128| value.clamp(variable.least, variable.most);
        let sized = |random: &mut Random| {
            let scale = i128::from(scale);
            if random.once_in(2)
                && let Some(size) = random.choose(&SIZES).filter(|size| **size <= scale)
            {
                return *size;
            }
            i128::from(random.scaled(scale.try_into().unwrap_or(u64::MAX)))
        };
        let value = match variable.what {
            What::Length => sized(random),
            What::Integer => match random.below(16) {
                0 => variable.least,
                1 => variable.most,
                2 => -sized(random),
                3 | 4 => {
                    let near = random.choose(&self.constants).copied().unwrap_or(0);
                    near.saturating_add(i128::from(random.below(3)) - 1)
                }
                _ => sized(random),
            },
            What::Any => match random.below(4) {
                0 => *random.choose(&[variable.least, variable.most, -1, 0]).unwrap_or(&0),
                1 => sized(random),
                _ => {
                    let span = (variable.most - variable.least) as u128;
                    let offset = u128::from(random.bits()) % span.saturating_add(1).max(1);
                    variable.least.saturating_add(offset.try_into().unwrap_or(0))
                }
            },
            What::Block => {
                let most = i128::from(scale.max(1));
                let fits = |size: &&i128| **size <= most;
                match random.choose(&BLOCKS).filter(fits) {
                    Some(size) if !random.once_in(4) => *size,
                    _ => 1 + i128::from(random.scaled(scale.min(1023))),
                }
            }
            What::Grid => 1 + i128::from(random.scaled(scale.min(63))),
            What::Shared => match random.below(3) {
                0 => 0,
                _ => i128::from(random.scaled(48 << 10)),
            },
        };
        limited(value)
    }
}
