//! Which barriers and exchanges of a kernel are reached by all threads of a block, or of a warp.

use ptx::ir::{BarOp, Instr, Op};

use super::uniform::Scope;
use super::{Access, Analysis, Origin};
use crate::body::{Body, End};

/// What the launch must be like for warps to be whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    /// Any.
    #[default]
    Any,
    /// One-dimensional blocks, or a width that is a multiple of 32.
    Rows,
    /// A width that is a multiple of 32.
    Warps,
}

/// How an adjoint keeps the barriers of its kernel.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Barriers {
    /// Whether it keeps them at all: threads exchange values by memory.
    pub(crate) kept: bool,
    /// Whether the threads of a block stop together: they need each other at barriers or for exchanges.
    pub(crate) agreed: bool,
    /// Whether all threads of a block reach each barrier. If not, some may leave before.
    pub(crate) together: bool,
    pub(crate) shape: Shape,
}

impl Barriers {
    /// Returns how the barriers of a kernel are kept, and the blocks of code in which whole warps are needed and may
    /// not be.
    pub(crate) fn new(body: &Body, analysis: &Analysis, kept: bool) -> (Self, Vec<usize>) {
        let holds = |is: &dyn Fn(&Instr) -> bool| -> Vec<usize> {
            let has =
                |(at, block): (usize, &crate::body::Block)| block.code.iter().any(is).then_some(at);
            body.blocks.iter().enumerate().filter_map(has).collect()
        };
        let exchanged = body.instrs().any(|(_, instr)| analysis.activity.exchanges(instr));
        if !kept && !exchanged {
            return (Self::default(), Vec::new());
        }
        let barriers = if kept { holds(&is_block_barrier) } else { Vec::new() };
        let reach = Reach::new(body);
        let whole = reach.whole(body, &|reg| analysis.is_uniform(reg));
        let together = barriers.iter().all(|at| whole.get(*at) == Some(&true));
        let exchanges = holds(&|instr| {
            // Threads that have left wait for the others, so they are missing in exchanges.
            let waits = kept
                && (!together && is_warp_wide(instr) || matches!(instr.op, Op::BarWarp { .. }));
            waits || analysis.activity.exchanges(instr)
        });
        let missing = |whole: &[bool]| -> Vec<usize> {
            exchanges.iter().copied().filter(|at| whole.get(*at) != Some(&true)).collect()
        };
        let agreed = kept || exchanged;
        let mut this = Self { kept, agreed, together, shape: Shape::Any };
        let mut partial = missing(&whole);
        for (shape, scope) in [(Shape::Rows, Scope::Rows), (Shape::Warps, Scope::Warps)] {
            if partial.is_empty() {
                break;
            }
            let uniform = super::uniform::uniform(body, &analysis.forms, &analysis.effects, scope);
            let known = |reg: ptx::ir::RegId| uniform.get(reg.index()) == Some(&true);
            partial = missing(&reach.whole(body, &known));
            this.shape = shape;
        }
        (this, partial)
    }
}

/// Returns whether a kernel accesses shared memory.
pub(crate) fn uses_shared(body: &Body, analysis: &Analysis) -> bool {
    body.instrs().any(|(_, instr)| {
        Access::of(instr).is_some_and(|access| {
            let origin = analysis.forms.address(body, access.address).origin;
            matches!(origin, Origin::Local(var) if body.is_shared(var))
        })
    })
}

/// Returns whether an instruction is a barrier of the block's threads.
pub(crate) fn is_block_barrier(instr: &Instr) -> bool {
    matches!(instr.op, Op::Bar { .. })
}

/// Returns whether an instruction is a barrier with a result.
pub(crate) fn is_reduction(instr: &Instr) -> bool {
    matches!(instr.op, Op::Bar { op: BarOp::Red(_), .. })
}

/// Returns whether the threads of a warp wait for each other at an instruction.
fn is_warp_wide(instr: &Instr) -> bool {
    matches!(
        instr.op,
        Op::Shfl { .. }
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Redux { .. }
            | Op::Elect { .. }
            | Op::BarWarp { .. }
    )
}

/// The blocks of code that can be reached from each: a bit for each.
struct Reach {
    words: usize,
    bits: Vec<u64>,
}

impl Reach {
    fn new(body: &Body) -> Self {
        let count = body.blocks.len();
        let words = count.div_ceil(64);
        let mut this = Self { words, bits: vec![0; words * count] };
        for at in 0..count {
            if let Some(word) = this.bits.get_mut(at * words + at / 64) {
                *word |= 1 << (at % 64);
            }
        }
        loop {
            let mut changed = false;
            for (at, block) in body.blocks.iter().enumerate().rev() {
                for to in block.end.targets() {
                    for word in 0..words {
                        let more = this.bits.get(to * words + word).copied().unwrap_or(0);
                        if let Some(known) = this.bits.get_mut(at * words + word) {
                            changed |= more & !*known != 0;
                            *known |= more;
                        }
                    }
                }
            }
            if !changed {
                return this;
            }
        }
    }

    fn reaches(&self, from: usize, to: usize) -> bool {
        self.bits.get(from * self.words + to / 64).is_some_and(|word| word >> (to % 64) & 1 == 1)
    }

    /// Returns for each block whether the threads with the same values in `uniform` registers all execute it, equally
    /// often: each branch that decides whether it is reached depends on such registers alone, and is itself reached by
    /// all.
    fn whole(&self, body: &Body, uniform: &dyn Fn(ptx::ir::RegId) -> bool) -> Vec<bool> {
        let branches: Vec<(usize, usize, usize, bool)> = body
            .blocks
            .iter()
            .enumerate()
            .filter_map(|(at, block)| match block.end {
                End::Branch { pred, then, otherwise } => {
                    Some((at, then, otherwise, uniform(pred.reg)))
                }
                _ => None,
            })
            .collect();
        let mut whole = vec![true; body.blocks.len()];
        loop {
            let mut changed = false;
            for at in 0..whole.len() {
                let holds = branches.iter().all(|&(branch, then, otherwise, uniform)| {
                    self.reaches(then, at) == self.reaches(otherwise, at)
                        || uniform && whole.get(branch) == Some(&true)
                });
                if let Some(place) = whole.get_mut(at).filter(|place| **place && !holds) {
                    *place = false;
                    changed = true;
                }
            }
            if !changed {
                return whole;
            }
        }
    }
}
