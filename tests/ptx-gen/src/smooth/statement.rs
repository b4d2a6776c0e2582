//! Statements of programs.

use super::operation::Op;

/// The variables of a program.
pub(super) const VALUES: usize = 8;
/// The numbers of a local array.
pub(super) const CELLS: usize = 8;

/// A predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// One variable is greater than another.
    Greater(usize, usize),
    /// A variable is below 1/8.
    Below(usize),
    /// The thread's index has a bit.
    Thread(u32),
    /// The integer member of the thread's element is greater.
    Data(i32),
    /// The turn of the innermost loop is another than this. Outside of loops, a bit of the thread's index.
    Turn(i32),
    /// The program's integer has a bit.
    State(u32),
    /// The program's predicate.
    Flag,
}

/// A statement. Those that belong into a loop do something else, or nothing, outside of one, so that parts of a program
/// can be taken away.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Statement {
    /// A variable gets a result.
    Set {
        to: usize,
        op: Op,
        guard: Option<(Condition, bool)>,
    },
    /// A variable is overwritten by a function of itself that neither grows nor vanishes over turns.
    Carry {
        carry: Carry,
        to: usize,
        by: usize,
        add: usize,
    },
    /// Two variables are exchanged, if a condition holds.
    Swap {
        a: usize,
        b: usize,
        when: Option<Condition>,
    },
    If {
        when: Condition,
        then: Vec<Statement>,
        otherwise: Option<Vec<Statement>>,
    },
    /// One of four lists runs.
    Switch {
        on: Index,
        arms: [Vec<Statement>; 4],
    },
    Loop(Loop),
    /// The program's integer changes.
    State {
        add: usize,
    },
    /// The program's predicate gets another value.
    Flag {
        when: Condition,
    },
    /// The bits of a variable are kept in a register without a type.
    Keep {
        value: usize,
    },
    /// A variable gets the bits that were kept.
    Fetch {
        to: usize,
    },
    Leave {
        when: Condition,
        how: Leave,
    },
    /// A variable is added to a sum by an atomic operation.
    Sum {
        value: usize,
        cell: Index,
    },
    /// A variable is loaded from `x`.
    Gather {
        to: usize,
        by: Gather,
    },
    /// A variable is stored to the thread's own places of `out`, one or two.
    Scatter {
        value: usize,
        at: Index,
        pair: bool,
    },
    /// A number of `y` is replaced by a function of itself and a variable, and loaded again.
    InPlace {
        at: Index,
        by: usize,
        to: usize,
    },
    /// A pointer is chosen by a condition.
    Choose {
        when: Condition,
        to: usize,
        choice: Choice,
    },
    /// Two or four numbers are loaded at once.
    Vector {
        to: [usize; 4],
        at: Index,
        four: bool,
    },
    Local {
        local: Local,
        array: usize,
        at: Index,
        generic: bool,
    },
    Call {
        callee: Callee,
        to: usize,
        a: usize,
        b: usize,
    },
}

/// How a carried variable changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carry {
    /// `s *= x`
    Product,
    /// `s = s * x + y`
    Affine,
    /// `s = sin(s) + y`; of `double`, another bounded function.
    Function,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Loop {
    pub(super) test: Test,
    pub(super) trips: Trips,
    pub(super) count: Count,
    pub(super) body: Vec<Statement>,
    /// What threads do that leave by [`Leave::Other`].
    pub(super) other: Vec<Statement>,
}

/// Where a loop tests whether it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    Top,
    /// The first turn always runs.
    Bottom,
    /// Once before the loop, then at the bottom.
    Guarded,
}

/// The number of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trips {
    Constant(u32),
    /// That of the parameter.
    Parameter,
    /// By the integer member of the thread's element.
    Data,
    /// By a variable.
    Value(usize),
    /// The counter of the outer loop.
    Outer,
}

/// What a loop counts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    Up,
    Down,
    Step(u32),
    /// A pointer runs over `x`.
    Pointer,
    /// A pointer runs over a local array.
    Local,
}

/// How control leaves a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// To where the loop ends.
    Break,
    /// To where the outer loop ends.
    BreakOuter,
    /// To an exit with statements of its own.
    Other,
    /// To the next turn: by the common latch, or by a latch of its own.
    Continue { own: bool },
    /// Out of the kernel: by a jump to its end, or by stores and a `ret` here.
    Return { here: bool },
}

/// A place in an array, or a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Index {
    Constant(usize),
    /// The turn of the innermost loop plus a constant; outside of loops, the thread's index.
    Turn(usize),
    /// The integer member of the thread's element plus a constant.
    Data(usize),
    /// The program's integer plus a constant.
    State(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gather {
    /// At the loaded index, changed by the turn.
    Changed(Index),
    /// At an index that is loaded here.
    Loaded,
    /// At the loaded index, changed by the integral part of a variable.
    Value(usize),
    /// At the pointer of the nearest loop that counts with one; the thread's own number if there is none.
    Walk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// A load from one of two places of `x`.
    Load,
    /// A load from `x` or `z`.
    LoadTwo,
    /// A store to one of two places of `out`.
    Store,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Local {
    Load {
        to: usize,
    },
    Store {
        value: usize,
    },
    /// A number is replaced by a function of itself and a variable.
    Update {
        by: usize,
    },
    /// Numbers are copied to the other array, as integers of 64 or 32 bits.
    Copy {
        wide: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Callee {
    Mix,
    /// It has a branch and two returns.
    Either,
    /// It has a loop.
    Turns,
}

/// Variables, as bits.
pub(super) type Mask = u32;

impl Condition {
    fn reads(self) -> Mask {
        match self {
            Self::Greater(a, b) => 1 << a | 1 << b,
            Self::Below(a) => 1 << a,
            Self::Thread(_) | Self::Data(_) | Self::Turn(_) | Self::State(_) | Self::Flag => 0,
        }
    }
}

impl Loop {
    /// Whether the body never runs.
    pub(super) fn is_empty(&self) -> bool {
        self.trips == Trips::Constant(0) && self.test != Test::Bottom
    }
}

impl Statement {
    /// The lists of statements in a statement.
    pub(super) fn lists(&self) -> Vec<&Vec<Self>> {
        match self {
            Self::If { then, otherwise, .. } => [then].into_iter().chain(otherwise).collect(),
            Self::Switch { arms, .. } => arms.iter().collect(),
            Self::Loop(inner) => vec![&inner.body, &inner.other],
            _ => Vec::new(),
        }
    }

    /// The variables that are read and those that are written, here and inside.
    pub(super) fn uses(&self) -> (Mask, Mask) {
        let inside = self.lists().into_iter().map(|list| uses(list));
        let (inner, written) = inside.fold((0, 0), |all, next| (all.0 | next.0, all.1 | next.1));
        let (read, write): (Mask, Mask) = match self {
            Self::Set { to, op, guard } => {
                let guard = guard.map_or(0, |(when, _)| when.reads() | 1 << to);
                (op.reads() | guard, 1 << to)
            }
            Self::Carry { carry, to, by, add } => {
                let all = match carry {
                    Carry::Product => 1 << by,
                    Carry::Affine => 1 << by | 1 << add,
                    Carry::Function => 1 << add,
                };
                (all | 1 << to, 1 << to)
            }
            Self::Swap { a, b, when } => {
                let both = 1 << a | 1 << b;
                (both | when.map_or(0, Condition::reads), both)
            }
            Self::If { when, .. } | Self::Leave { when, .. } | Self::Flag { when } => {
                (when.reads(), 0)
            }
            Self::Switch { .. } | Self::State { .. } => (0, 0),
            Self::Keep { value } => (1 << value, 0),
            Self::Fetch { to } => (0, 1 << to),
            Self::Loop(inner) => match inner.trips {
                Trips::Value(of) => (1 << of, 0),
                _ => (0, 0),
            },
            Self::Sum { value, .. } | Self::Scatter { value, .. } => (1 << value, 0),
            // It is added to what was there.
            Self::Gather { to, by: Gather::Walk } => (1 << to, 1 << to),
            Self::Gather { to, by: Gather::Value(of) } => (1 << of, 1 << to),
            Self::Gather { to, .. } => (0, 1 << to),
            Self::InPlace { by, to, .. } => (1 << by, 1 << to),
            Self::Choose { when, to, choice } => match choice {
                Choice::Store => (when.reads() | 1 << to, 0),
                Choice::Load | Choice::LoadTwo => (when.reads(), 1 << to),
            },
            Self::Vector { to, four, .. } => {
                let count = if *four { 4 } else { 2 };
                (0, to[..count].iter().fold(0, |mask, to| mask | 1 << to))
            }
            Self::Local { local, .. } => match local {
                Local::Load { to } => (0, 1 << to),
                Local::Store { value } => (1 << value, 0),
                Local::Update { by } => (1 << by, 0),
                Local::Copy { .. } => (0, 0),
            },
            Self::Call { to, a, b, .. } => (1 << a | 1 << b, 1 << to),
        };
        (inner | read, written | write)
    }

    /// The number of statements, with those inside.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        1 + self.lists().into_iter().flatten().map(Self::count).sum::<usize>()
    }

    /// Whether it or a statement inside satisfies a condition.
    pub(super) fn any(&self, wanted: &impl Fn(&Self) -> bool) -> bool {
        wanted(self) || self.lists().into_iter().flatten().any(|inner| inner.any(wanted))
    }
}

/// The variables that statements read and write.
pub(super) fn uses(list: &[Statement]) -> (Mask, Mask) {
    list.iter().map(Statement::uses).fold((0, 0), |all, next| (all.0 | next.0, all.1 | next.1))
}
