//! Draws the statements of a program: first loops in each other, then what is wanted in them, then operations between.

use test_support::Rng;

use super::construct::{Construct, Set};
use super::operation::Op;
use super::statement::{
    Carry, Condition, Count, Gather, Index, Local, Loop, Statement, Test, Trips, VALUES,
};

/// Of a hundred programs, those for which a construct is wanted. Some come by chance, too.
const WANTED: usize = 29;

/// Returns the statements of a program.
pub(super) fn body(mut rng: Rng, double: bool, set: Set) -> Vec<Statement> {
    let mut wanted = Set::NONE;
    for construct in set.iter() {
        let bar = match construct {
            // Those of `float` alone.
            Construct::Vector4 | Construct::LocalCopy32 => 2 * WANTED,
            Construct::NestedThree => 38,
            // A loop's body is a part of a program, so what it has of these comes by chance as well.
            Construct::Atomic | Construct::Branch => WANTED / 2,
            _ => WANTED,
        };
        if rng.below(100) < bar {
            wanted = wanted.with(construct);
        }
    }
    let mut draw = Draw { rng, double, set, wanted, body: Vec::new() };
    draw.skeleton();
    draw.fill();
    draw.body
}

pub(super) struct Draw {
    pub(super) rng: Rng,
    pub(super) double: bool,
    pub(super) set: Set,
    /// What is still to be drawn.
    pub(super) wanted: Set,
    pub(super) body: Vec<Statement>,
}

const TESTS: [(Construct, Test); 3] = [
    (Construct::TopTested, Test::Top),
    (Construct::BottomTested, Test::Bottom),
    (Construct::GuardedLoop, Test::Guarded),
];

pub(super) const CARRIES: [(Construct, Carry); 3] = [
    (Construct::CarriedProduct, Carry::Product),
    (Construct::CarriedAffine, Carry::Affine),
    (Construct::CarriedFunction, Carry::Function),
];

/// Constructs of which a loop has one each.
const KINDS: [Construct; 11] = [
    Construct::TopTested,
    Construct::BottomTested,
    Construct::GuardedLoop,
    Construct::TripsConstant,
    Construct::TripsParameter,
    Construct::TripsData,
    Construct::CountUp,
    Construct::CountDown,
    Construct::CountStep,
    Construct::CountPointer,
    Construct::CountLocal,
];

impl Draw {
    pub(super) fn variable(&mut self) -> usize {
        self.rng.below(VALUES)
    }

    /// Two different variables.
    pub(super) fn two(&mut self) -> (usize, usize) {
        let a = self.variable();
        (a, (a + 1 + self.rng.below(VALUES - 1)) % VALUES)
    }

    /// Whether a construct was wanted; it is not any more.
    pub(super) fn take(&mut self, construct: Construct) -> bool {
        let wanted = self.wanted.has(construct);
        self.wanted = self.wanted.without(construct);
        wanted
    }

    /// One of several constructs: a wanted one if there is one, else any that the set has.
    fn choose<T: Copy>(&mut self, from: &[(Construct, T)]) -> Option<T> {
        let pick = |rng: &mut Rng, set: Set| {
            let has: Vec<_> = from.iter().filter(|(construct, _)| set.has(*construct)).collect();
            if has.is_empty() { None } else { Some(*has[rng.below(has.len())]) }
        };
        let (construct, one) =
            pick(&mut self.rng, self.wanted).or_else(|| pick(&mut self.rng, self.set))?;
        self.take(construct);
        Some(one)
    }

    pub(super) fn condition(&mut self) -> Condition {
        let (a, b) = self.two();
        match self.rng.below(7) {
            0 => Condition::Greater(a, b),
            1 => Condition::Below(a),
            2 => Condition::Thread(1 << self.rng.below(4)),
            3 => Condition::Data(self.rng.below(4) as i32),
            4 => Condition::State(1 << self.rng.below(4)),
            5 => Condition::Flag,
            _ => Condition::Turn(self.rng.below(3) as i32),
        }
    }

    /// A condition that is seldom true, so that most threads stay.
    pub(super) fn seldom(&mut self) -> Condition {
        let (a, b) = self.two();
        match self.rng.below(4) {
            0 => Condition::Greater(a, b),
            1 => Condition::Below(a),
            2 => Condition::Thread(8),
            _ => Condition::Data(3),
        }
    }

    /// An index that is constant or not.
    pub(super) fn index(&mut self, constant: bool) -> Index {
        let more = self.rng.below(8);
        match (constant, self.rng.below(4)) {
            (true, _) => Index::Constant(more),
            (false, 0) => Index::Data(more),
            (false, 1) => Index::State(more),
            (false, _) => Index::Turn(more),
        }
    }

    pub(super) fn operation(&mut self) -> Statement {
        let variables = [self.variable(), self.variable(), self.variable()];
        let when = self.condition();
        let op = Op::new(&mut self.rng, self.double, variables, when);
        let guarded = self.set.has(Construct::Guard) && self.rng.below(8) == 0;
        let guard = guarded.then(|| (self.condition(), self.rng.below(2) == 0));
        Statement::Set { to: self.variable(), op, guard }
    }

    pub(super) fn operations(&mut self, count: usize) -> Vec<Statement> {
        (0..count).map(|_| self.operation()).collect()
    }

    pub(super) fn carry(&mut self, carry: Carry) -> Statement {
        let (to, by) = self.two();
        let add = (to + 1 + self.rng.below(VALUES - 1)) % VALUES;
        Statement::Carry { carry, to, by, add }
    }

    /// A kind of carried variable that the set has.
    pub(super) fn any_carry(&mut self) -> Option<Statement> {
        let carry = self.choose(&CARRIES)?;
        Some(self.carry(carry))
    }

    /// Loops in each other, whose bodies have little.
    fn skeleton(&mut self) {
        self.body = self.operations(2);
        if !TESTS.iter().any(|(construct, _)| self.set.has(*construct)) {
            return;
        }
        let nested = self.set.has(Construct::NestedTwo);
        let three = nested && self.take(Construct::NestedThree);
        let two = nested
            && (self.take(Construct::NestedTwo)
                || self.wanted.has(Construct::TripsOuter)
                || self.wanted.has(Construct::InnerOutside));
        let depth = if three { 3 } else { 1 + usize::from(two) };
        let first = self.nest(depth, 0);
        self.body.push(first);
        // Others, until what is wanted of loops is there.
        let mut more = 0;
        while more < 3 && KINDS.iter().any(|&one| self.wanted.has(one)) {
            let another = self.nest(1, 0);
            self.body.push(another);
            more += 1;
        }
        for (construct, count) in [(Construct::TripsZero, 0), (Construct::TripsOne, 1)] {
            if !self.take(construct) {
                continue;
            }
            // A test at the bottom comes after a turn.
            let tests = if count == 0 { vec![TESTS[0], TESTS[2]] } else { TESTS.to_vec() };
            let (Some(test), Some(counter)) = (self.choose(&tests), self.counter()) else {
                continue;
            };
            let trips = Trips::Constant(count);
            let body = self.operations(2);
            let inner = Loop { test, trips, count: counter, body, other: Vec::new() };
            let at = self.rng.below(self.body.len() + 1);
            self.body.insert(at, Statement::Loop(inner));
        }
    }

    fn counter(&mut self) -> Option<Count> {
        let step = 2 + self.rng.below(3) as u32;
        self.choose(&[
            (Construct::CountUp, Count::Up),
            (Construct::CountDown, Count::Down),
            (Construct::CountStep, Count::Step(step)),
            (Construct::CountPointer, Count::Pointer),
            (Construct::CountLocal, Count::Local),
        ])
    }

    /// A loop with loops in it.
    fn nest(&mut self, depth: usize, outside: usize) -> Statement {
        let test = self.choose(&TESTS).unwrap_or(Test::Top);
        let trips = [
            (Construct::TripsConstant, Trips::Constant(2 + self.rng.below(4) as u32)),
            (Construct::TripsParameter, Trips::Parameter),
            (Construct::TripsData, Trips::Data),
            (Construct::TripsData, Trips::Value(self.rng.below(VALUES))),
        ];
        let outer = outside > 0
            && self.set.has(Construct::TripsOuter)
            && (self.take(Construct::TripsOuter) || self.rng.below(4) == 0);
        let trips = if outer { Some(Trips::Outer) } else { self.choose(&trips) };
        let (trips, count) =
            (trips.unwrap_or(Trips::Constant(2)), self.counter().unwrap_or(Count::Up));
        let mut body = self.operations(1);
        if count == Count::Pointer {
            let to = self.variable();
            body.push(Statement::Gather { to, by: Gather::Walk });
        }
        if count == Count::Local {
            let local = Local::Update { by: self.variable() };
            let at = Index::Turn(self.rng.below(8));
            body.push(Statement::Local { local, array: 0, at, generic: false });
        }
        body.extend(self.any_carry());
        if depth > 1 {
            let inner = self.nest(depth - 1, outside + 1);
            let (_, written) = inner.uses();
            body.push(inner);
            if self.take(Construct::InnerOutside) {
                body.push(self.use_of(written));
            }
        }
        Statement::Loop(Loop { test, trips, count, body, other: Vec::new() })
    }

    /// A use of one of the variables that are written.
    pub(super) fn use_of(&mut self, written: u32) -> Statement {
        let written: Vec<usize> = (0..VALUES).filter(|at| written & 1 << at != 0).collect();
        let a = if written.is_empty() { 0 } else { written[self.rng.below(written.len())] };
        let (to, b) = self.two();
        Statement::Set { to, op: Op::add(a, b), guard: None }
    }
}
