//! Tangents: forward-mode derivatives in f64, an oracle of gradients that are found in another way.
//!
//! While tangents are tracked, the decoder inserts an instruction before each that moves or changes values
//! ([`Tangent`], by a [`Rule`]). It reads values before they are overwritten and changes none: results stay what they
//! are, to the bit. Exchanges between lanes carry tangents themselves, because their lanes meet inside of them.
//!
//! A register's tangents lie in its frame after the values, an f64 for each 16 bits ([`unit`](crate::space::tangent::unit)); those of memory in a
//! table by host address, for each 2 bytes.
//!
//! **Rules** ([`derivative`]) are those of the ideal functions: rounding, approximation and `.ftz` have no derivative.
//! Of equal operands `min` and `max` take the first, the slope of `sqrt` at zero is zero, that of `abs` is the sign
//! bit's, and outside of `.sat` and `.relu` it is zero. Predicates, comparisons, conversions to integers and rounding
//! to integers are constants.
//!
//! **Lost tangents.** An integer instruction that reads a number with a tangent other than zero marks its result. If
//! the result is used as a number, by a float instruction or a conversion from an integer, the integer instruction is
//! noted with its line ([`lost`](crate::space::tangent::lost)) and the tangent of the use is NaN. Moves of 16 bits and more in any form, `min` and
//! `max` of integers, and masks of the sign bit ([`bits`]) lose nothing. Addresses, predicates and control may depend
//! on marked bits.

mod access;
mod apply;
pub(crate) mod bits;
pub(crate) mod derivative;
mod exchange;

use ptx::ir::{AtomOp, Mode, Type};

use super::decode::{Class, Rmw};
use super::inst::{Flow, Inst, Lanes};
use super::machine::Machine;
pub(crate) use apply::pass;
use derivative::Function;

/// A register of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Register {
    pub(crate) slot: u32,
    pub(crate) class: Class,
}

/// A source.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    Register(Register),
    /// A constant's bits; addresses and special registers, whose values no rule needs, have zero.
    Bits(u64),
}

/// Where a load or store finds its elements.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// An element in a space, at the address in a slot plus an offset.
    Memory { slot: u32, narrow: bool, offset: u64, space: u8 },
    /// An element in the kernel's parameters.
    Kernel { offset: u32 },
    /// An element in a call's parameter, `stride` bytes from lane to lane.
    Frame { slot: u32, stride: u32, offset: u32 },
}

/// The choice between two sources.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Choice {
    /// The first where a predicate is true.
    Predicate { slot: u32, negated: bool },
    /// The first where a value is not negative.
    Sign { of: Source, float: bool, ftz: bool },
    /// The lesser or greater integer.
    Integer { greater: bool, ty: Type },
}

/// A conversion between floats.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conversion {
    pub(crate) to: Type,
    pub(crate) from: Type,
    pub(crate) sat: bool,
    pub(crate) satfinite: bool,
    pub(crate) relu: bool,
    /// The upper half of the result comes from the first source, the lower from the second.
    pub(crate) pair: bool,
}

/// The rule of an instruction for tangents.
#[derive(Debug)]
pub(crate) enum What {
    Float {
        function: Function,
        ty: Type,
        mode: Mode,
        d: Register,
        sources: [Source; 3],
    },
    Convert {
        how: Conversion,
        d: Register,
        sources: [Source; 2],
    },
    /// `ad.rule`: the sum of the products of derivatives and tangents.
    Sum {
        ty: Type,
        d: Register,
        terms: Vec<(Source, Source)>,
    },
    /// Units of sources, in order; the rest is zero.
    Gather {
        d: Register,
        units: Vec<(Source, u8)>,
    },
    Choose {
        d: Register,
        a: Source,
        b: Source,
        choice: Choice,
    },
    /// A function of bits.
    Logic {
        lut: u8,
        width: usize,
        d: Register,
        sources: [Source; 3],
    },
    Shift {
        right: bool,
        width: usize,
        d: Register,
        a: Source,
        amount: Source,
    },
    Funnel {
        right: bool,
        clamp: bool,
        d: Register,
        sources: [Source; 3],
    },
    Permute {
        d: Register,
        sources: [Source; 3],
    },
    /// Another integer instruction.
    Integer {
        d: Vec<Register>,
        sources: Vec<Source>,
    },
    /// A float made from something without a derivative here: an integer, or a float of 8 bits.
    Lose {
        ty: Type,
        d: Register,
        sources: Vec<Source>,
    },
    Constant {
        d: Vec<Register>,
    },
    Load {
        place: Place,
        bytes: u32,
        d: Vec<Option<Register>>,
    },
    Store {
        place: Place,
        bytes: u32,
        a: Vec<Source>,
    },
    Atomic {
        op: AtomOp,
        ty: Type,
        place: Place,
        rmw: Rmw,
        d: Option<Register>,
        a: Source,
        c: Source,
    },
    /// `shfl`
    Exchange {
        d: Register,
        a: Source,
    },
    /// `redux`: whether the result is one of the sources.
    Reduce {
        chooses: bool,
        d: Register,
        a: Source,
    },
    /// `mma`, which knows its registers.
    Product,
}

impl What {
    /// Visits the sources whose tangents decide those of the results. `None` for accesses and exchanges.
    fn each_source(&self, visit: &mut dyn FnMut(Source)) -> Option<()> {
        match self {
            Self::Float { sources, .. }
            | Self::Logic { sources, .. }
            | Self::Funnel { sources, .. }
            | Self::Permute { sources, .. } => sources.iter().copied().for_each(visit),
            Self::Convert { sources, .. } => sources.iter().copied().for_each(visit),
            Self::Sum { terms, .. } => terms.iter().for_each(|term| visit(term.0)),
            Self::Gather { units, .. } => units.iter().for_each(|unit| visit(unit.0)),
            Self::Choose { a, b, .. } => [*a, *b].into_iter().for_each(visit),
            Self::Shift { a, amount, .. } => [*a, *amount].into_iter().for_each(visit),
            Self::Integer { sources, .. } | Self::Lose { sources, .. } => {
                sources.iter().copied().for_each(visit);
            }
            Self::Constant { .. } => {}
            _ => return None,
        }
        Some(())
    }

    /// Returns the registers that are written, as far as [`What::each_source`] knows the sources.
    fn targets(&self) -> &[Register] {
        match self {
            Self::Float { d, .. }
            | Self::Logic { d, .. }
            | Self::Funnel { d, .. }
            | Self::Permute { d, .. }
            | Self::Convert { d, .. }
            | Self::Sum { d, .. }
            | Self::Gather { d, .. }
            | Self::Choose { d, .. }
            | Self::Shift { d, .. }
            | Self::Lose { d, .. } => std::slice::from_ref(d),
            Self::Integer { d, .. } | Self::Constant { d } => d,
            _ => &[],
        }
    }
}

/// The rule of an instruction.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) opcode: Box<str>,
    pub(crate) what: What,
}

/// Applies the rule whose number is imm.
pub(crate) struct Tangent;
impl Lanes for Tangent {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let (code, space) = (m.code, m.space);
        // Before there is a mark, there is nothing to move.
        if m.job.env.device.taint && !m.reached.live() {
            return Flow::Next;
        }
        if let (Some(rule), Some(store)) = (code.rules.get(i.imm as usize), space.tangent_store()) {
            // SAFETY: the decoder has made the rule of registers of this function.
            unsafe { m.apply(rule, &mut store.lock(), mask) };
        }
        Flow::Next
    }
}
