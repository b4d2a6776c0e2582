//! Random differentiable programs, of `float` or `double`, with bounded values.
//!
//! Each variable has a bound that its value keeps on every path, so that no result is infinite and no rounding large:
//! arguments of `div`, `rcp`, `rsqrt`, `lg2` and `sqrt` are at least 1/2, and results that may be too large are made
//! smaller. Variables that a loop carries change by functions that neither grow nor vanish over turns. All inputs reach
//! an output. Loops end, and threads write to places of their own or by atomic additions.
//!
//! A program is a tree of statements that keeps all of this when statements are removed, so that [`Smooth::reduce`]
//! needs no checker.

mod construct;
mod contents;
mod draw;
mod fill;
mod loops;
mod memory;
mod operation;
mod reduce;
mod render;
mod statement;

use std::collections::BTreeSet;

pub use construct::{Construct, Set};
use statement::{Count, Statement};
use test_support::Rng;

/// A kernel `smooth(x, y, z, out, sums, elements, index, scalars, trips, n)` in a module of its own. With T the type of
/// numbers: x has 4 n numbers, y (updated) and z 2 n, out (overwritten) 4 n, sums (added to) [`Smooth::SUMS`]. `elements`
/// has n structures `{ T a; int n; [4 bytes if T is double] T b; T c; }`, padded to 16 or 32 bytes. `index` has n
/// numbers below 4 n, `scalars` is a structure of 3 T, `trips` a number up to [`Smooth::TRIPS`], and n one from 4.
///
/// ```
/// use ptx_gen::{Construct, Set, Smooth};
///
/// let program = Smooth::with(7, Set::ACYCLIC.with(Construct::TopTested).with(Construct::TripsData));
/// assert!(!program.constructs.contains(&Construct::LocalDynamic));
/// let reduced = program.reduce(|smaller| smaller.text.contains(".entry"));
/// assert!(reduced.text.len() < program.text.len());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Smooth {
    /// The PTX.
    pub text: String,
    /// Whether the numbers are `double`.
    pub double: bool,
    /// The constructs that it has in code that may run.
    pub constructs: BTreeSet<Construct>,
    /// The operations that it has, by their names in PTX.
    pub operations: BTreeSet<&'static str>,
    program: Program,
}

/// What a text is made from.
#[derive(Debug, Clone, PartialEq)]
struct Program {
    double: bool,
    /// Which of several ways to load inputs and to store outputs.
    start: usize,
    finish: usize,
    body: Vec<Statement>,
}

impl Program {
    fn has_arrays(&self) -> bool {
        let local = |one: &Statement| match one {
            Statement::Local { .. } => true,
            Statement::Loop(inner) => inner.count == Count::Local,
            _ => false,
        };
        self.body.iter().any(|one| one.any(&local))
    }
}

impl Smooth {
    /// The cells of `sums`.
    pub const SUMS: usize = 5;
    /// The largest number of turns that a parameter asks for.
    pub const TRIPS: u32 = 6;
    /// The names of all operations. Of these, some are in programs of `float` alone.
    pub const OPERATIONS: &'static [&'static str] = operation::OPERATIONS;

    /// Returns the program of a seed, with all constructs: of `double` if the seed is odd.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with(seed, Set::ALL)
    }

    /// Returns the program of a seed, with constructs of a set.
    #[must_use]
    pub fn with(seed: u64, set: Set) -> Self {
        let mut rng = Rng::new(seed ^ 0x5300_7400);
        let double = seed % 2 == 1;
        let (start, finish) = (rng.below(4), rng.below(3));
        let mut body = Vec::new();
        // Some constructs come by chance: that a value is used after a loop, for instance.
        for _ in 0..32 {
            body = draw::body(Rng::new(rng.next()), double, set);
            let program = Self::of(Program { double, start, finish, body: body.clone() });
            if program.constructs.iter().all(|one| set.has(*one)) {
                return program;
            }
        }
        // All of those belong to loops.
        body.retain(|one| !one.any(&|one| matches!(one, Statement::Loop(_))));
        Self::of(Program { double, start, finish, body })
    }

    fn of(program: Program) -> Self {
        let (text, operations) = render::render(&program);
        let mut constructs = BTreeSet::new();
        contents::constructs(&program.body, &[], program.double, &mut |one| {
            constructs.insert(one);
        });
        Self { text, double: program.double, constructs, operations, program }
    }

    /// Returns the programs with one statement less.
    pub fn smaller(&self) -> impl Iterator<Item = Self> + '_ {
        crate::reduce::smaller(&self.program.body)
            .map(|body| Self::of(Program { body, ..self.program.clone() }))
    }

    /// Returns the smallest program found for which `fails` returns true, which it does for this one.
    #[must_use]
    pub fn reduce(&self, mut fails: impl FnMut(&Self) -> bool) -> Self {
        let of =
            |body: &[Statement]| Self::of(Program { body: body.to_vec(), ..self.program.clone() });
        let body = crate::reduce::smallest(&self.program.body, &mut |body| fails(&of(body)));
        of(&body)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn counts(set: Set) -> (BTreeMap<Construct, usize>, BTreeMap<&'static str, usize>) {
        let (mut constructs, mut operations) = (BTreeMap::new(), BTreeMap::new());
        for seed in 0..1000 {
            let program = Smooth::with(seed, set);
            for one in program.constructs {
                *constructs.entry(one).or_default() += 1;
            }
            for one in program.operations {
                *operations.entry(one).or_default() += 1;
            }
        }
        (constructs, operations)
    }

    #[test]
    fn each_construct_is_common() {
        let (constructs, operations) = counts(Set::ALL);
        for &construct in Construct::ALL {
            let count = constructs.get(&construct).copied().unwrap_or(0);
            println!("{}: {}.{}%", construct.name(), count / 10, count % 10);
        }
        println!("operations in 1000 programs: {operations:?}");
        for &construct in Construct::ALL {
            let count = constructs.get(&construct).copied().unwrap_or(0);
            let bar = match construct {
                Construct::NestedTwo | Construct::NestedThree => 300,
                _ => 200,
            };
            assert!(count >= bar, "{} in {count} of 1000 programs", construct.name());
        }
        for &name in Smooth::OPERATIONS {
            let count = operations.get(name).copied().unwrap_or(0);
            assert!(count >= 50, "{name} in {count} of 1000 programs");
        }
    }

    #[test]
    fn sets_are_kept() {
        let (constructs, _) = counts(Set::ACYCLIC);
        for &construct in Construct::ALL {
            let count = constructs.get(&construct).copied().unwrap_or(0);
            assert_eq!(count > 0, Set::ACYCLIC.has(construct), "{} in {count}", construct.name());
        }
        let (constructs, _) = counts(Set::NONE);
        assert!(constructs.is_empty(), "{constructs:?}");
        // Each can be left out.
        for &construct in Construct::ALL {
            let set = Set::ALL.without(construct);
            let has =
                (0..100).filter(|seed| Smooth::with(*seed, set).constructs.contains(&construct));
            assert_eq!(has.count(), 0, "{}", construct.name());
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_program() {
        for seed in 0..50 {
            assert_eq!(Smooth::new(seed), Smooth::new(seed));
            assert_ne!(Smooth::new(seed).text, Smooth::new(seed + 2).text);
        }
    }

    #[test]
    fn reduction_keeps_what_matters() {
        let mut tried = 0;
        for seed in 0..40 {
            let program = Smooth::new(seed);
            let wanted = [Construct::SeveralLatches, Construct::LocalDynamic];
            let fails = |one: &Smooth| wanted.iter().all(|wanted| one.constructs.contains(wanted));
            if !fails(&program) {
                continue;
            }
            let reduced = program.reduce(|one| {
                tried += 1;
                fails(one)
            });
            assert!(fails(&reduced));
            // A loop with a jump in it, and an access.
            let count = reduced.program.body.iter().map(Statement::count).sum::<usize>();
            assert_eq!(count, 3, "seed {seed}: {:?}", reduced.program.body);
        }
        assert!(tried > 100, "{tried}");
    }
}
