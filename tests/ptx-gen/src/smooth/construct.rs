//! Constructs of programs, and sets of them.

macro_rules! constructs {
    ($($(#[doc = $doc:literal])* $name:ident: $text:literal,)*) => {
        /// A construct of programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Construct {
            $($(#[doc = $doc])* $name,)*
        }

        impl Construct {
            /// All constructs.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the construct's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

constructs! {
    /// A branch.
    Branch: "branch",
    /// A branch with two arms.
    Else: "else",
    /// A branch by a table.
    Switch: "switch",
    /// A guarded instruction.
    Guard: "guard",
    /// A return before the end, outside of loops.
    Return: "return",
    /// An exchange of two variables.
    Exchange: "exchange",
    /// An atomic addition.
    Atomic: "atomic",
    /// An atomic addition to a place that depends on data.
    ScatterAtomic: "atomic scatter",
    /// A load from an index that was loaded.
    Gather: "gather",
    /// A store to one of the thread's own places.
    Scatter: "scatter",
    /// A pointer that is one of two places of a parameter.
    PointerSelp: "selp of pointers",
    /// A load or store of two numbers.
    Vector2: "vector of 2",
    /// A load of four floats: in programs of `float` alone.
    Vector4: "vector of 4",
    /// A call of a function.
    Call: "call",
    /// A number in memory that is replaced by a function of itself, and loaded again.
    InPlace: "in place",
    /// The same in a loop.
    InPlaceLoop: "in place in a loop",
    /// A pointer that is a place of one of two parameters.
    PointerOfTwo: "selp of two parameters",
    /// A local array with a constant index.
    LocalConstant: "local constant",
    /// A local array with an index that is not constant.
    LocalDynamic: "local dynamic",
    /// A local array whose elements a loop stores.
    LocalFilled: "local filled",
    /// A local array whose elements a loop changes.
    LocalOverwritten: "local overwritten",
    /// A local array that is loaded from after a loop has stored to it.
    LocalReadAfter: "local read after",
    /// A copy between local arrays by 64 bits.
    LocalCopy64: "local copy b64",
    /// A copy between local arrays by 32 bits: in programs of `float` alone, because halves of a `double` have no gradient.
    LocalCopy32: "local copy b32",
    /// An access of a local array by a generic address.
    LocalGeneric: "local generic",
    /// A loop that tests before each turn.
    TopTested: "top-tested",
    /// A loop that tests after each turn.
    BottomTested: "bottom-tested",
    /// A loop that tests after each turn, behind a branch that tests once.
    GuardedLoop: "guarded loop",
    /// A loop without turns.
    TripsZero: "trips 0",
    /// A loop of one turn.
    TripsOne: "trips 1",
    /// A loop of a constant number of turns.
    TripsConstant: "trips constant",
    /// A loop of as many turns as a parameter says.
    TripsParameter: "trips parameter",
    /// A loop whose number of turns depends on data of the thread.
    TripsData: "trips data",
    /// An inner loop whose number of turns is the counter of the outer one.
    TripsOuter: "trips outer",
    /// A counter that goes up by one.
    CountUp: "count up",
    /// A counter that goes down.
    CountDown: "count down",
    /// A counter that goes up by more than one.
    CountStep: "count by step",
    /// A pointer in place of a counter.
    CountPointer: "count pointer",
    /// A pointer into a local array in place of a counter.
    CountLocal: "count local pointer",
    /// A jump to the latch.
    Continue: "continue",
    /// A loop with several latches.
    SeveralLatches: "several latches",
    /// A jump out of a loop.
    Break: "break",
    /// A loop with several exits that lead to different places.
    SeveralExits: "several exits",
    /// A return out of a loop.
    ReturnFromLoop: "return from loop",
    /// `s *= x` in a loop.
    CarriedProduct: "carried product",
    /// `s = s * x + y` in a loop.
    CarriedAffine: "carried affine",
    /// `s = sin(s) + y` in a loop; of `double`, with another function.
    CarriedFunction: "carried function",
    /// Several carried variables in a loop.
    CarriedSeveral: "carried several",
    /// Carried variables that are exchanged in a loop.
    CarriedExchange: "carried exchange",
    /// An integer that a loop changes, and that can't be found from the counter.
    CarriedInteger: "carried integer",
    /// A predicate of a turn that later ones use.
    CarriedPredicate: "carried predicate",
    /// The bits of a number that are carried by an untyped register.
    CarriedBits: "carried bits",
    /// A variable that a loop writes is used after it.
    UsedAfter: "used after",
    /// A variable that an inner loop writes is used in the outer one.
    InnerOutside: "inner value outside",
    /// A loop in a loop.
    NestedTwo: "nested 2",
    /// A loop in a loop in a loop.
    NestedThree: "nested 3",
}

/// A set of constructs that programs may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set(u64);

impl Set {
    /// No construct: programs are straight lines.
    pub const NONE: Self = Self(0);
    /// All constructs.
    pub const ALL: Self = Self((1 << Construct::ALL.len()) - 1);
    /// Constructs without loops, local arrays and loads of what was stored, and with pointers of one parameter each.
    pub const ACYCLIC: Self = Self((1 << Construct::InPlace as u32) - 1);

    /// Returns whether the set has a construct.
    #[must_use]
    pub const fn has(self, construct: Construct) -> bool {
        self.0 & 1 << construct as u32 != 0
    }

    /// Returns the set with a construct.
    #[must_use]
    pub const fn with(self, construct: Construct) -> Self {
        Self(self.0 | 1 << construct as u32)
    }

    /// Returns the set without a construct.
    #[must_use]
    pub const fn without(self, construct: Construct) -> Self {
        Self(self.0 & !(1 << construct as u32))
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Construct> {
        Construct::ALL.iter().copied().filter(move |one| self.has(*one))
    }
}
