//! A decoded instruction, and how it is run on the lanes of a warp.

use super::machine::Machine;

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;
/// The mask of a whole warp.
pub(crate) const FULL: u32 = u32::MAX;

/// Slot of the predicate that is true in every lane.
pub(crate) const SLOT_TRUE: u32 = 0;
/// Slot of the predicate that is never read: the sink `_`.
pub(crate) const SLOT_NO_PRED: u32 = 4;
/// Slot of the carry flag CC.CF.
pub(crate) const SLOT_CARRY: u32 = 8;
/// Slot that is never read, as wide as the widest register.
pub(crate) const SLOT_NONE: u32 = 64;
/// In the list of a vector load: the element is not loaded. (`_` takes one that is.)
pub(crate) const NOT_LOADED: u32 = u32::MAX;
/// Where the registers of a function begin.
pub(crate) const SLOT_FIRST: u32 = 64 + 512;

/// The continuation of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Flow {
    /// The next one.
    Next,
    /// The one at `Machine::pc`, in the same frame.
    Jump,
    /// The split that runs is another: `Machine::{pc, mask, frame}` have been set.
    Switch,
    /// The current split is gone or blocked: the warp chooses another.
    Leave,
    /// The time slice is over; `Machine::pc` is where the split goes on.
    Expired,
    /// `Machine::fault` says what happened.
    Fault,
}

/// Runs an instruction for the lanes of a mask, which is not empty.
///
/// # Safety
/// The instruction is of the function whose registers `Machine::regs` points to.
pub(crate) type Run = unsafe fn(&mut Machine<'_>, &Inst, u32) -> Flow;

/// An instruction: a function and its operands. Slots are byte offsets into the registers of
/// the frame, a multiple of 64 except for predicates.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Inst {
    pub(crate) run: Run,
    /// Slot of the guard.
    pub(crate) guard: u32,
    /// All ones if the guard is negated.
    pub(crate) flip: u32,
    pub(crate) d: u32,
    pub(crate) a: u32,
    pub(crate) b: u32,
    pub(crate) c: u32,
    /// Modifiers, an offset, a target: each instruction's own.
    pub(crate) imm: u64,
    /// A further slot, or an index into a table of the function.
    pub(crate) e: u32,
    /// A further slot, or the number of a memory access in the program.
    pub(crate) f: u32,
}

/// The function of an instruction.
pub(crate) trait Lanes {
    /// See [`Run`].
    ///
    /// # Safety
    /// As for [`Run`].
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow;

    /// The same in little code: lane by lane, where `go` is a loop made for vectors.
    ///
    /// # Safety
    /// As for [`Run`].
    unsafe fn small(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        // SAFETY: the caller's promise is the same.
        unsafe { Self::go(m, i, mask) }
    }
}

/// The vector instructions of the host that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isa {
    /// The instruction set of every host of this architecture.
    Base,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Wide,
}

impl Isa {
    /// Returns the best that this host has.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
        {
            return Self::Wide;
        }
        Self::Base
    }

    /// Returns an instruction that is rare, or that vectors do nothing for: it is compiled once.
    #[allow(clippy::unused_self, reason = "chosen like the others")]
    pub(crate) fn once<L: Lanes>(self) -> Run {
        small::<L>
    }

    /// Returns the instruction compiled for it. On x86-64 it is compiled as a loop for vectors only with AVX2, which
    /// nearly every host has: compiled without it as well, such loops are a sixth of the crate's code.
    pub(crate) fn pick<L: Lanes>(self) -> Run {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Base => small::<L>,
            #[cfg(not(target_arch = "x86_64"))]
            Self::Base => base::<L>,
            #[cfg(target_arch = "x86_64")]
            Self::Wide => wide::<L>,
        }
    }
}

/// # Safety
/// As for [`Run`].
unsafe fn small<L: Lanes>(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
    // SAFETY: the caller's promise is the same.
    unsafe { L::small(m, i, mask) }
}

/// # Safety
/// As for [`Run`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn base<L: Lanes>(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
    // SAFETY: the caller's promise is the same.
    unsafe { L::go(m, i, mask) }
}

/// # Safety
/// As for [`Run`], and the host has the features: [`Isa::detect`] has looked.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn wide<L: Lanes>(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
    // SAFETY: the caller's promise is the same.
    unsafe { L::go(m, i, mask) }
}

/// Returns the lanes of a mask, ascending.
#[inline(always)]
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        Some(lane)
    })
}
