//! Puts what is wanted into the skeleton of a program.

use super::construct::Construct;
use super::draw::{CARRIES, Draw};
use super::operation::Op;
use super::statement::{
    Callee, Choice, Condition, Gather, Index, Leave, Local, Loop, Statement, Trips, VALUES,
};

/// Where a statement may stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Anywhere,
    /// Not in a loop.
    Outside,
    InLoop,
}

impl Draw {
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
    pub(super) fn fill(&mut self) {
        self.fill_carried();
        self.fill_states();
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
        if self.take(Construct::Switch) {
            let arms = [0; 4].map(|_| {
                let count = self.rng.below(3);
                self.operations(count)
            });
            let on = self.index(false);
            self.put(Where::Anywhere, vec![Statement::Switch { on, arms }]);
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

    /// What loops carry that is no number.
    fn fill_states(&mut self) {
        let (operation, when) = (self.operation(), self.condition());
        if self.take(Construct::CarriedInteger) {
            let (to, add) = (self.variable(), 1 + 2 * self.rng.below(4));
            let by = Gather::Changed(Index::State(self.rng.below(4)));
            let used = Statement::Gather { to, by };
            let used = if self.set.has(Construct::Gather) { used } else { operation.clone() };
            self.put(Where::InLoop, vec![used, Statement::State { add }]);
        }
        if self.take(Construct::CarriedPredicate) {
            let then = vec![operation];
            let used = Statement::If { when: Condition::Flag, then, otherwise: None };
            let used = Some(used).filter(|_| self.set.has(Construct::Branch));
            self.put(Where::InLoop, used.into_iter().chain([Statement::Flag { when }]).collect());
        }
        if self.take(Construct::CarriedBits) {
            let (value, to) = self.two();
            let pair = vec![Statement::Fetch { to }, self.operation(), Statement::Keep { value }];
            self.put(Where::InLoop, pair);
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
            if self.take(construct) && (wide || !self.double) {
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
                let by = match self.rng.below(4) {
                    0 => Gather::Loaded,
                    1 => Gather::Value(a),
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
            Statement::Switch { arms, .. } => {
                arms.iter_mut().for_each(|arm| each_list(arm, looped, place, visit));
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
            Statement::Switch { arms, .. } => {
                arms.iter_mut().for_each(|arm| exits(arm, operations));
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
        Statement::Switch { arms, .. } => arms.iter().any(|arm| leaves(arm)),
        Statement::If { then, otherwise, .. } => {
            leaves(then) || leaves(otherwise.as_deref().unwrap_or_default())
        }
        _ => false,
    })
}
