//! The kernel as the passes see it: blocks in topological order, each register with one definition.

use ptx::ir::{Dim, Formal, Function, Instr, Op, Operand, Pred, RegId, Space, Special, VarId};

/// A block. It runs at most once in a thread.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// Values that depend on the block that control comes from.
    pub(crate) phis: Vec<Phi>,
    /// Instructions without branches.
    pub(crate) code: Vec<Instr>,
    pub(crate) end: End,
    /// Indices of the blocks that control comes from.
    pub(crate) preds: Vec<usize>,
}

/// A value that depends on the block that control comes from.
#[derive(Debug, Clone)]
pub(crate) struct Phi {
    pub(crate) reg: RegId,
    /// The block and the value that comes from it; `None` where the register was never written.
    pub(crate) args: Vec<(usize, Option<Operand>)>,
}

/// Where control goes after a block. Blocks behind a branch have one predecessor.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Branch {
        pred: Pred,
        then: usize,
        otherwise: usize,
    },
    Jump(usize),
    /// The last block alone ends so.
    Exit,
}

impl End {
    pub(crate) fn targets(self) -> impl Iterator<Item = usize> {
        let targets = match self {
            Self::Branch { then, otherwise, .. } => [Some(then), Some(otherwise)],
            Self::Jump(to) => [Some(to), None],
            Self::Exit => [None, None],
        };
        targets.into_iter().flatten()
    }
}

/// A kernel without loops. Control flows from lower to higher indices of blocks, from the first to the last.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    /// Tables of registers, variables and source places. Its body is empty.
    pub(crate) function: Function,
    pub(crate) blocks: Vec<Block>,
    /// The space of each variable of the module.
    pub(crate) globals: Vec<Space>,
    /// The block in which each register is defined.
    pub(crate) defined: Vec<Option<usize>>,
    /// The nearest block after each that every thread comes to.
    after: Vec<usize>,
}

impl Body {
    pub(crate) fn new(function: Function, blocks: Vec<Block>, globals: Vec<Space>) -> Self {
        let mut defined = vec![None; function.registers.len()];
        for (index, block) in blocks.iter().enumerate() {
            let mut define = |reg: RegId| {
                if let Some(place) = defined.get_mut(reg.index()) {
                    *place = Some(index);
                }
            };
            block.phis.iter().for_each(|phi| define(phi.reg));
            for instr in &block.code {
                instr.for_each_def(&mut define);
            }
        }
        let after = after(&blocks);
        Self { function, blocks, globals, defined, after }
    }

    /// Returns whether each thread that comes to block `from` comes to block `to`, which is the same or a later one.
    pub(crate) fn always_reaches(&self, from: usize, to: usize) -> bool {
        let mut at = from;
        while at < to {
            match self.after.get(at) {
                Some(&next) if next > at => at = next,
                _ => return false,
            }
        }
        at == to
    }

    /// Returns whether each thread comes to a block.
    pub(crate) fn unconditional(&self, block: usize) -> bool {
        self.always_reaches(0, block)
    }

    /// Returns the variables of the parameters, in order.
    pub(crate) fn params(&self) -> impl Iterator<Item = VarId> {
        self.function.params.iter().filter_map(|formal| match formal {
            Formal::Var(var) => Some(*var),
            // Kernels have none.
            Formal::Reg(_) => None,
        })
    }

    /// Returns the number of dimensions of a launch that indices depend on.
    pub(crate) fn dimensions(&self) -> u32 {
        let mut most = 1;
        for special in self.instrs().flat_map(|(_, instr)| specials(&instr.op)) {
            let (Special::Tid(dim) | Special::Ctaid(dim)) = special else { continue };
            most = most.max(match dim {
                Dim::X | Dim::W => 1,
                Dim::Y => 2,
                Dim::Z => 3,
            });
        }
        most
    }

    /// Returns every instruction with the index of its block.
    pub(crate) fn instrs(&self) -> impl Iterator<Item = (usize, &Instr)> {
        let blocks = self.blocks.iter().enumerate();
        blocks.flat_map(|(index, block)| block.code.iter().map(move |instr| (index, instr)))
    }
}

/// Returns the special registers that an instruction reads. PTX reads them by `mov`; ptxas takes them elsewhere too.
pub(crate) fn specials(op: &Op) -> Vec<Special> {
    let operands: &[Operand] = match op {
        Op::Mov { a, .. } | Op::Cvt { a, .. } | Op::Cvta { a, .. } | Op::Unary { a, .. } => &[*a],
        Op::Binary { a, b, .. }
        | Op::Mul { a, b, .. }
        | Op::Setp { a, b, .. }
        | Op::Set { a, b, .. }
        | Op::Selp { a, b, .. }
        | Op::Mul24 { a, b, .. } => &[*a, *b],
        Op::Mad { a, b, c, .. }
        | Op::Mad24 { a, b, c, .. }
        | Op::Bfe { a, b, c, .. }
        | Op::Shf { a, b, c, .. }
        | Op::Lop3 { a, b, c, .. } => &[*a, *b, *c],
        Op::St { a, .. } | Op::Atom { a, .. } | Op::Pack { a, .. } => a,
        _ => &[],
    };
    let of = |operand: &Operand| match operand {
        Operand::Special(special) => Some(*special),
        _ => None,
    };
    operands.iter().filter_map(of).collect()
}

/// Returns the immediate post-dominator of each block; of the last, itself.
fn after(blocks: &[Block]) -> Vec<usize> {
    let last = blocks.len().saturating_sub(1);
    let mut after = vec![last; blocks.len()];
    // Targets have higher indices, so theirs are known.
    for (index, block) in blocks.iter().enumerate().rev() {
        let meet = |a: usize, b: usize| {
            let (mut a, mut b) = (a, b);
            while a != b {
                if a < b {
                    a = after.get(a).copied().filter(|&next| next > a).unwrap_or(last);
                } else {
                    b = after.get(b).copied().filter(|&next| next > b).unwrap_or(last);
                }
            }
            a
        };
        let met = block.end.targets().reduce(meet);
        if let (Some(place), Some(met)) = (after.get_mut(index), met) {
            *place = met;
        }
    }
    after
}
