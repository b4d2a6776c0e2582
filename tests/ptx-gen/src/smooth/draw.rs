//! Draws the statements of a program: first loops in each other, then what is wanted in them, then operations between.

use test_support::Rng;

use super::construct::{Construct, Set};
use super::operation::Op;
use super::statement::{
    Callee, Carry, Choice, Condition, Count, Gather, Index, Leave, Local, Loop, Statement, Test,
    Trips, VALUES,
};

/// Of a hundred programs, those for which a construct is wanted. Some come by chance, too.
const WANTED: usize = 29;

/// Returns the statements of a program.
pub(super) fn body(mut rng: Rng, double: bool, set: Set) -> Vec<Statement> {
    let mut wanted = Set::NONE;
    for construct in set.iter() {
        let bar = match construct {
            // Those of `float` alone.
            Construct::Vector4 => 2 * WANTED,
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

struct Draw {
    rng: Rng,
    double: bool,
    set: Set,
    /// What is still to be drawn.
    wanted: Set,
    body: Vec<Statement>,
}

const TESTS: [(Construct, Test); 3] = [
    (Construct::TopTested, Test::Top),
    (Construct::BottomTested, Test::Bottom),
    (Construct::GuardedLoop, Test::Guarded),
];

/// Constructs of which a loop has one each.
const KINDS: [Construct; 10] = [
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
];

/// Where a statement may stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Anywhere,
    /// Not in a loop.
    Outside,
    InLoop,
}

impl Draw {
    fn variable(&mut self) -> usize {
        self.rng.below(VALUES)
    }

    /// Two different variables.
    fn two(&mut self) -> (usize, usize) {
        let a = self.variable();
        (a, (a + 1 + self.rng.below(VALUES - 1)) % VALUES)
    }

    /// Whether a construct was wanted; it is not any more.
    fn take(&mut self, construct: Construct) -> bool {
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

    fn condition(&mut self) -> Condition {
        let (a, b) = self.two();
        match self.rng.below(5) {
            0 => Condition::Greater(a, b),
            1 => Condition::Below(a),
            2 => Condition::Thread(1 << self.rng.below(4)),
            3 => Condition::Data(self.rng.below(4) as i32),
            _ => Condition::Turn(self.rng.below(3) as i32),
        }
    }

    /// A condition that is seldom true, so that most threads stay.
    fn seldom(&mut self) -> Condition {
        let (a, b) = self.two();
        match self.rng.below(4) {
            0 => Condition::Greater(a, b),
            1 => Condition::Below(a),
            2 => Condition::Thread(8),
            _ => Condition::Data(3),
        }
    }

    /// An index that is constant or not.
    fn index(&mut self, constant: bool) -> Index {
        let more = self.rng.below(8);
        match (constant, self.rng.below(3)) {
            (true, _) => Index::Constant(more),
            (false, 0) => Index::Data(more),
            (false, _) => Index::Turn(more),
        }
    }

    fn operation(&mut self) -> Statement {
        let variables = [self.variable(), self.variable(), self.variable()];
        let when = self.condition();
        let op = Op::new(&mut self.rng, self.double, variables, when);
        let guarded = self.set.has(Construct::Guard) && self.rng.below(8) == 0;
        let guard = guarded.then(|| (self.condition(), self.rng.below(2) == 0));
        Statement::Set { to: self.variable(), op, guard }
    }

    fn operations(&mut self, count: usize) -> Vec<Statement> {
        (0..count).map(|_| self.operation()).collect()
    }

    fn carry(&mut self, carry: Carry) -> Statement {
        let (to, by) = self.two();
        let add = (to + 1 + self.rng.below(VALUES - 1)) % VALUES;
        Statement::Carry { carry, to, by, add }
    }

    /// A kind of carried variable that the set has.
    fn any_carry(&mut self) -> Option<Statement> {
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
    fn use_of(&mut self, written: u32) -> Statement {
        let written: Vec<usize> = (0..VALUES).filter(|at| written & 1 << at != 0).collect();
        let a = if written.is_empty() { 0 } else { written[self.rng.below(written.len())] };
        let (to, b) = self.two();
        Statement::Set { to, op: Op::add(a, b), guard: None }
    }

    /// Puts statements at a random place, which is not in a loop of one turn or none. One alone may get a branch around it.
    fn put(&mut self, place: Where, mut statements: Vec<Statement>) {
        if statements.len() == 1 && self.set.has(Construct::Branch) && self.rng.below(7) == 0 {
            let when = self.condition();
            statements = vec![Statement::If { when, then: statements, otherwise: None }];
        }
        let mut count = 0;
        each_list(&mut self.body, false, place, &mut |_| count += 1);
        if count == 0 {
            return;
        }
        let (mut left, at) = (self.rng.below(count), self.rng.next() as usize);
        each_list(&mut self.body, false, place, &mut |list| {
            if left == 0 {
                let at = at % (list.len() + 1);
                list.splice(at..at, statements.drain(..));
            }
            left = left.wrapping_sub(1);
        });
    }

    /// Puts what is wanted into the loops.
    fn fill(&mut self) {
        self.fill_carried();
        self.fill_leaves();
        self.fill_local();
        self.fill_simple();
        for _ in 0..3 + self.rng.below(6) {
            let operation = self.operation();
            self.put(Where::Anywhere, vec![operation]);
        }
        for construct in [Construct::Branch, Construct::Else] {
            if self.take(construct) && self.set.has(Construct::Branch) {
                let count = 1 + self.rng.below(3);
                let mut then = self.operations(count);
                if self.rng.below(3) == 0 {
                    let (when, inner) = (self.condition(), self.operations(1));
                    then.push(Statement::If { when, then: inner, otherwise: None });
                }
                let otherwise = (construct == Construct::Else).then(|| self.operations(count));
                let when = self.condition();
                self.put(Where::Anywhere, vec![Statement::If { when, then, otherwise }]);
            }
        }
        if self.set.has(Construct::UsedAfter) && self.take(Construct::UsedAfter) {
            let (_, written) = self.turning().map_or((0, 0), |at| self.body[at].uses());
            let used = self.use_of(written);
            self.body.push(used);
        }
        let mut body = std::mem::take(&mut self.body);
        exits(&mut body, &mut || self.operations(2));
        self.body = body;
    }

    /// The position of a loop of several turns.
    fn turning(&mut self) -> Option<usize> {
        let of = |one: &Statement| matches!(one, Statement::Loop(inner) if turns(inner));
        let all: Vec<usize> = (0..self.body.len()).filter(|&at| of(&self.body[at])).collect();
        if all.is_empty() { None } else { Some(all[self.rng.below(all.len())]) }
    }

    fn fill_carried(&mut self) {
        if self.take(Construct::CarriedSeveral)
            && let (Some(one), Some(two)) = (self.any_carry(), self.any_carry())
            && let Statement::Carry { to: first, .. } = one
            && let Statement::Carry { carry, to, .. } = two
        {
            // The second depends on the first.
            let to = if to == first { (to + 1) % VALUES } else { to };
            let two = Statement::Carry { carry, to, by: first, add: first };
            self.put(Where::InLoop, vec![one, two]);
        }
        if self.take(Construct::CarriedExchange)
            && self.set.has(Construct::Exchange)
            && let Some(one) = self.any_carry()
            && let Statement::Carry { to, by, .. } = one
        {
            let when = (self.rng.below(3) == 0).then(|| self.condition());
            self.put(Where::InLoop, vec![one, Statement::Swap { a: to, b: by, when }]);
        }
        for (construct, carry) in CARRIES {
            if self.take(construct) {
                let one = self.carry(carry);
                self.put(Where::InLoop, vec![one]);
            }
        }
    }

    fn fill_leaves(&mut self) {
        let out = if self.rng.below(3) == 0 { Leave::BreakOuter } else { Leave::Break };
        let here = self.rng.below(2) == 0;
        for (construct, how) in [
            (Construct::Continue, Leave::Continue { own: false }),
            (Construct::SeveralLatches, Leave::Continue { own: true }),
            (Construct::Break, out),
            (Construct::SeveralExits, Leave::Other),
            (Construct::ReturnFromLoop, Leave::Return { here }),
        ] {
            if !self.take(construct) {
                continue;
            }
            let stays = !matches!(how, Leave::Continue { .. });
            let when = if stays { self.seldom() } else { self.condition() };
            // Something comes after it.
            let next = self.operation();
            self.put(Where::InLoop, vec![Statement::Leave { when, how }, next]);
        }
    }

    /// Puts an access to a local array.
    fn access(&mut self, place: Where, local: Local, array: usize, at: Index) {
        let generic = self.set.has(Construct::LocalGeneric)
            && (self.take(Construct::LocalGeneric) || self.rng.below(8) == 0);
        self.put(place, vec![Statement::Local { local, array, at, generic }]);
    }

    fn fill_local(&mut self) {
        let array = self.rng.below(2);
        let constant = self.set.has(Construct::LocalConstant);
        let dynamic = self.set.has(Construct::LocalDynamic);
        for (construct, is_constant) in
            [(Construct::LocalConstant, true), (Construct::LocalDynamic, false)]
        {
            if self.take(construct) {
                let (value, to) = self.two();
                let at = self.index(is_constant);
                self.access(Where::Outside, Local::Store { value }, array, at);
                self.access(Where::Anywhere, Local::Load { to }, array, at);
            }
        }
        if !constant && !dynamic {
            return;
        }
        if self.take(Construct::LocalFilled) && dynamic {
            let (value, more) = (self.variable(), self.rng.below(8));
            self.access(Where::InLoop, Local::Store { value }, array, Index::Turn(more));
        }
        if self.take(Construct::LocalOverwritten) {
            let (by, at) = (self.variable(), self.place(constant, dynamic));
            self.access(Where::InLoop, Local::Update { by }, array, at);
        }
        for (construct, wide) in [(Construct::LocalCopy64, true), (Construct::LocalCopy32, false)] {
            if self.take(construct) {
                let (to, at) = (self.variable(), self.place(constant, dynamic));
                self.access(Where::Anywhere, Local::Copy { wide }, array, at);
                // From the other array.
                self.access(Where::Anywhere, Local::Load { to }, 1 - array, at);
            }
        }
        if self.take(Construct::LocalReadAfter)
            && let Some(at) = self.turning()
        {
            let (by, to) = self.two();
            let place = self.place(constant, dynamic);
            let generic = self.take(Construct::LocalGeneric);
            let statement = |local: Local| Statement::Local { local, array, at: place, generic };
            if let Statement::Loop(inner) = &mut self.body[at] {
                inner.body.push(statement(Local::Update { by }));
            }
            self.body.push(statement(Local::Load { to }));
        }
        if self.take(Construct::LocalGeneric) {
            let (by, at) = (self.variable(), self.place(constant, dynamic));
            let local = Local::Update { by };
            self.put(Where::Outside, vec![Statement::Local { local, array, at, generic: true }]);
        }
    }

    /// An index, constant or not, of those that the set has.
    fn place(&mut self, constant: bool, dynamic: bool) -> Index {
        let constant = constant && (!dynamic || self.rng.below(2) == 0);
        self.index(constant)
    }

    /// Puts statements that may stand anywhere.
    fn fill_simple(&mut self) {
        let constructs = [
            Construct::Exchange,
            Construct::Gather,
            Construct::Scatter,
            Construct::Vector2,
            Construct::Vector4,
            Construct::Call,
            Construct::PointerSelp,
            Construct::PointerOfTwo,
            Construct::Atomic,
            Construct::ScatterAtomic,
            Construct::Guard,
            Construct::Return,
            Construct::InPlace,
            Construct::InPlaceLoop,
        ];
        for construct in constructs {
            if self.take(construct)
                && let Some(statement) = self.simple(construct)
            {
                let place = match construct {
                    Construct::Return => Where::Outside,
                    Construct::InPlaceLoop => Where::InLoop,
                    // In a loop it is another construct.
                    Construct::InPlace if !self.set.has(Construct::InPlaceLoop) => Where::Outside,
                    _ => Where::Anywhere,
                };
                self.put(place, vec![statement]);
            }
        }
    }

    fn simple(&mut self, construct: Construct) -> Option<Statement> {
        let ((a, b), to) = (self.two(), self.variable());
        let when = self.condition();
        Some(match construct {
            Construct::Exchange => {
                let when = (self.rng.below(3) == 0).then_some(when);
                Statement::Swap { a, b, when }
            }
            Construct::Gather => {
                let by = match self.rng.below(3) {
                    0 => Gather::Loaded,
                    _ => Gather::Changed(self.index(false)),
                };
                Statement::Gather { to, by }
            }
            Construct::Scatter => {
                let constant = self.rng.below(2) == 0;
                let pair = self.set.has(Construct::Vector2) && self.rng.below(3) == 0;
                Statement::Scatter { value: a, at: self.index(constant), pair }
            }
            Construct::Vector2 | Construct::Vector4 => {
                let four = construct == Construct::Vector4;
                if four && self.double {
                    return None;
                }
                let to = [a, a + 1, a + 2, a + 3].map(|to| to % VALUES);
                Statement::Vector { to, at: self.index(false), four }
            }
            Construct::Call => {
                let callees = [Callee::Mix, Callee::Either, Callee::Turns];
                // One has a loop.
                let count = if self.set.has(Construct::TopTested) { 3 } else { 2 };
                Statement::Call { callee: callees[self.rng.below(count)], to, a, b }
            }
            Construct::PointerSelp => {
                let choice = if self.rng.below(3) == 0 { Choice::Store } else { Choice::Load };
                Statement::Choose { when, to, choice }
            }
            Construct::PointerOfTwo => Statement::Choose { when, to, choice: Choice::LoadTwo },
            Construct::Atomic => Statement::Sum { value: a, cell: Index::Constant(0) },
            Construct::ScatterAtomic if !self.set.has(Construct::Atomic) => return None,
            Construct::ScatterAtomic => Statement::Sum { value: a, cell: self.index(false) },
            Construct::Guard => {
                let op = Op::new(&mut self.rng, self.double, [a, b, to], when);
                let negated = self.rng.below(2) == 0;
                Statement::Set { to, op, guard: Some((self.condition(), negated)) }
            }
            Construct::Return => {
                let here = self.rng.below(2) == 0;
                Statement::Leave { when: self.seldom(), how: Leave::Return { here } }
            }
            Construct::InPlaceLoop if !self.set.has(Construct::InPlace) => return None,
            Construct::InPlace | Construct::InPlaceLoop => {
                let constant = self.rng.below(2) == 0;
                Statement::InPlace { at: self.index(constant), by: a, to }
            }
            _ => return None,
        })
    }
}

const CARRIES: [(Construct, Carry); 3] = [
    (Construct::CarriedProduct, Carry::Product),
    (Construct::CarriedAffine, Carry::Affine),
    (Construct::CarriedFunction, Carry::Function),
];

/// Whether a loop may have several turns.
fn turns(inner: &Loop) -> bool {
    !matches!(inner.trips, Trips::Constant(0 | 1))
}

/// Visits the lists at which a statement may stand.
fn each_list(
    list: &mut Vec<Statement>,
    looped: bool,
    place: Where,
    visit: &mut impl FnMut(&mut Vec<Statement>),
) {
    for statement in list.iter_mut() {
        match statement {
            Statement::Loop(inner) if turns(inner) => {
                each_list(&mut inner.body, true, place, visit);
            }
            Statement::If { then, otherwise, .. } => {
                each_list(then, looped, place, visit);
                if let Some(otherwise) = otherwise {
                    each_list(otherwise, looped, place, visit);
                }
            }
            _ => {}
        }
    }
    let fits = match place {
        Where::Anywhere => true,
        Where::Outside => !looped,
        Where::InLoop => looped,
    };
    if fits {
        visit(list);
    }
}

/// Puts statements to the exits of loops that are left to one of their own.
fn exits(list: &mut [Statement], operations: &mut impl FnMut() -> Vec<Statement>) {
    for statement in list {
        match statement {
            Statement::Loop(inner) => {
                exits(&mut inner.body, operations);
                if leaves(&inner.body) {
                    inner.other = operations();
                }
            }
            Statement::If { then, otherwise, .. } => {
                exits(then, operations);
                exits(otherwise.as_deref_mut().unwrap_or_default(), operations);
            }
            _ => {}
        }
    }
}

/// Whether statements leave the loop around them to an exit of its own.
fn leaves(list: &[Statement]) -> bool {
    list.iter().any(|statement| match statement {
        Statement::Leave { how: Leave::Other, .. } => true,
        Statement::If { then, otherwise, .. } => {
            leaves(then) || leaves(otherwise.as_deref().unwrap_or_default())
        }
        _ => false,
    })
}
