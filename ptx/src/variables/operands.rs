//! The use of each instruction's operands, as far as addresses are concerned.

use crate::ir::{Address, Callee, Dst, Mma, Op, Operand, Piece, Space};

/// The effect of an instruction.
pub(super) enum Effect<'o> {
    /// Results are computed from sources.
    Compute { to: Vec<&'o Dst>, from: Vec<&'o Operand> },
    /// Results are loaded.
    Load { space: Space, from: &'o Address, to: &'o [Dst] },
    /// Values are stored.
    Store { space: Space, to: &'o Address, values: &'o [Operand] },
    /// Values are combined with memory, whose old value the results get.
    Update { at: &'o Address, values: Vec<&'o Operand>, old: &'o [Dst] },
    /// Bytes are copied within memory.
    Copy { from: &'o Address, to: &'o Address },
    /// A function is called.
    Call { callee: &'o Callee, returns: &'o [Operand], args: &'o [Operand] },
    /// An instruction that may do anything with its operands.
    Unknown(&'o [Piece]),
    /// An instruction that does nothing with addresses.
    Nothing,
}

/// Results that are computed from sources.
fn compute<'o, const D: usize, const S: usize>(
    to: [&'o Dst; D],
    from: [&'o Operand; S],
) -> Effect<'o> {
    Effect::Compute { to: to.to_vec(), from: from.to_vec() }
}

/// A barrier in memory.
fn update<'o>(at: &'o Address) -> Effect<'o> {
    Effect::Update { at, values: Vec::new(), old: &[] }
}

impl<'o> Effect<'o> {
    /// Returns the effect of `op`. Predicates are no sources.
    pub(super) fn of(op: &'o Op) -> Self {
        match op {
            Op::Unary { d, a, .. }
            | Op::Mov { d, a, .. }
            | Op::Cvta { d, a, .. }
            | Op::Movmatrix { d, a }
            | Op::Redux { d, a, .. }
            | Op::Shfl { d, a, .. } => compute([d], [a]),
            Op::Binary { d, a, b, .. }
            | Op::Mul { d, a, b, .. }
            | Op::Mul24 { d, a, b, .. }
            | Op::Szext { d, a, b, .. }
            | Op::Mapa { d, a, b, .. }
            | Op::Selp { d, a, b, .. } => compute([d], [a, b]),
            Op::MinMax3 { d, a, b, c, .. }
            | Op::Mad { d, a, b, c, .. }
            | Op::Fma { d, a, b, c, .. }
            | Op::Mad24 { d, a, b, c, .. }
            | Op::Sad { d, a, b, c, .. }
            | Op::Bfe { d, a, b, c, .. }
            | Op::Dot { d, a, b, c, .. }
            | Op::Lop3 { d, a, b, c, .. }
            | Op::Lop3Bool { d, a, b, c, .. }
            | Op::Shf { d, a, b, c, .. }
            | Op::Prmt { d, a, b, c, .. }
            | Op::Video { d, a, b, c, .. }
            | Op::Slct { d, a, b, c, .. } => compute([d], [a, b, c]),
            Op::Bfi { d, a, b, c, e, .. } => compute([d], [a, b, c, e]),
            Op::Carry { d, a, b, c, .. } | Op::CvtPack { d, a, b, c, .. } => {
                Self::Compute { to: vec![d], from: [a, b].into_iter().chain(c).collect() }
            }
            Op::Cvt { d, a, b, .. } => {
                Self::Compute { to: vec![d], from: [a].into_iter().chain(b).collect() }
            }
            Op::Pack { d, a, .. } => Self::Compute { to: vec![d], from: a.iter().collect() },
            Op::Unpack { d, a, .. } => Self::Compute { to: d.iter().collect(), from: vec![a] },
            Op::Mma(mma) => {
                let Mma { d, a, b, c, .. } = &**mma;
                let from = a.iter().chain(b).chain(c).collect();
                Self::Compute { to: d.iter().collect(), from }
            }
            Op::Ld { access, d, addr, .. } => Self::Load { space: access.space, from: addr, to: d },
            Op::WmmaLoad { space, d, addr, .. } | Op::Ldmatrix { space, d, addr, .. } => {
                Self::Load { space: *space, from: addr, to: d }
            }
            Op::St { access, addr, a, .. } => {
                Self::Store { space: access.space, to: addr, values: a }
            }
            Op::WmmaStore { space, addr, a, .. } | Op::Stmatrix { space, addr, a, .. } => {
                Self::Store { space: *space, to: addr, values: a }
            }
            Op::Atom { d, addr, a, c, .. } => {
                Self::Update { at: addr, values: a.iter().chain(c).collect(), old: d }
            }
            Op::CpAsync { dst, src, .. } => Self::Copy { from: src, to: dst },
            Op::StAsync { space, addr, a, .. } => Self::Store { space: *space, to: addr, values: a },
            Op::RedAsync { addr, a, .. } => Self::Update { at: addr, values: vec![a], old: &[] },
            Op::CpAsyncArrive { addr, .. }
            | Op::MbarrierInval { addr, .. }
            | Op::MbarrierInit { addr, .. }
            | Op::MbarrierTx { addr, .. }
            | Op::MbarrierArrive { addr, .. }
            | Op::MbarrierWait { addr, .. } => update(addr),
            Op::Call { callee, returns, args, .. } => Self::Call { callee, returns, args },
            Op::CreatePolicy { operands, .. } | Op::Other { operands, .. } => {
                Self::Unknown(operands)
            }
            // Tests, counts of bits and masks of lanes are no addresses.
            Op::Bfind { .. }
            | Op::Fns { .. }
            | Op::Bmsk { .. }
            | Op::Testp { .. }
            | Op::Setp { .. }
            | Op::Set { .. }
            | Op::Isspacep { .. }
            | Op::Bar { .. }
            | Op::BarWarp { .. }
            | Op::ClusterBarrier { .. }
            | Op::Getctarank { .. }
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Activemask { .. }
            | Op::Elect { .. }
            | Op::MbarrierPending { .. }
            // The stack is not a variable of the module.
            | Op::Alloca { .. }
            | Op::Stacksave { .. }
            | Op::Stackrestore { .. }
            // A prefetch changes nothing that a thread can see.
            | Op::Prefetch { .. }
            | Op::Fence { .. }
            | Op::Bra { .. }
            | Op::BrxIdx { .. }
            | Op::Ret { .. }
            | Op::Exit
            | Op::Trap
            | Op::Brkpt
            | Op::Pmevent { .. }
            | Op::Nanosleep { .. }
            | Op::CpAsyncCommit
            | Op::CpAsyncWait { .. }
            | Op::GridDependency { .. } => Self::Nothing,
        }
    }
}
