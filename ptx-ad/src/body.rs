//! The kernel as the passes see it: blocks in topological order, each register with one definition.
//!
//! A region is the whole kernel or a loop. The blocks of a loop are contiguous, its header first. In an iteration of a
//! loop each block that is in no inner loop runs at most once.

use std::collections::HashMap;
use std::ops::Range;

use ptx::ir::{Dim, Formal, Function, Instr, Op, Operand, Pred, RegId, Space, Special, VarId};

use crate::analysis::Origin;

/// A block. It runs at most once in an iteration of its region.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// The innermost loop around it, or the kernel: position in [`Body::regions`].
    pub(crate) region: usize,
    /// The phis, whose values depend on the block that control comes from.
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
    /// The predecessors, each with its value; `None` where the register was never written.
    pub(crate) args: Vec<(usize, Option<Operand>)>,
}

/// The kernel, or a loop.
#[derive(Debug, Clone)]
pub(crate) struct Region {
    /// The region around it; `None` for the kernel.
    pub(crate) parent: Option<usize>,
    /// Its blocks, including those of inner loops.
    pub(crate) blocks: Range<usize>,
    /// The number of loops around its blocks, itself included.
    pub(crate) depth: usize,
}

/// A part of a region: a block, or a loop in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Block(usize),
    Loop(usize),
}

/// Where control goes after a block. A target of a branch has one predecessor.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Branch {
        pred: Pred,
        then: usize,
        otherwise: usize,
    },
    Jump(usize),
    /// Only the last block exits.
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

/// A kernel. Control flows from lower to higher indices of blocks, from the first to the last, and from the blocks of
/// loops back to their headers. A register that is defined in a loop is read outside only by phis of one argument, in
/// the blocks after the loop's exits.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    /// Tables of registers, variables and source locations. Its body is empty.
    pub(crate) function: Function,
    pub(crate) blocks: Vec<Block>,
    /// The kernel, then its loops, each before those in it.
    pub(crate) regions: Vec<Region>,
    /// The space of each variable of the module.
    pub(crate) globals: Vec<Space>,
    /// The block in which each register is defined.
    pub(crate) defined: Vec<Option<usize>>,
    /// The origins of registers that are copies of an address with several origins, where control decides which.
    pub(crate) origins: HashMap<RegId, Origin>,
    /// The post-dominators: for each block, then for each region, the nearest later part of the same region that every
    /// thread reaches in the same iteration; `None` if the iteration may end before.
    after: Vec<Option<usize>>,
}

impl Body {
    pub(crate) fn new(
        function: Function,
        blocks: Vec<Block>,
        regions: Vec<Region>,
        globals: Vec<Space>,
    ) -> Self {
        let (defined, after) = (Vec::new(), Vec::new());
        let origins = HashMap::new();
        let mut body = Self { function, blocks, regions, globals, defined, origins, after };
        body.index();
        body
    }

    /// Indexes definitions and post-dominators.
    pub(crate) fn index(&mut self) {
        let mut defined = vec![None; self.function.registers.len()];
        for (index, block) in self.blocks.iter().enumerate() {
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
        self.defined = defined;
        self.after = after(self);
    }

    /// Returns the region of a block.
    pub(crate) fn region_of(&self, block: usize) -> usize {
        self.blocks.get(block).map_or(0, |block| block.region)
    }

    /// Returns the block in which a register is defined.
    pub(crate) fn definition(&self, reg: RegId) -> Option<usize> {
        self.defined.get(reg.index()).copied().flatten()
    }

    /// Returns in how many loops a region's blocks are.
    pub(crate) fn depth(&self, region: usize) -> usize {
        self.regions.get(region).map_or(0, |region| region.depth)
    }

    /// Returns a region's blocks, with those of the loops in it.
    pub(crate) fn range(&self, region: usize) -> Range<usize> {
        self.regions.get(region).map_or(0..0, |region| region.blocks.clone())
    }

    /// Returns whether a block is in a region or a loop in it.
    pub(crate) fn contains(&self, region: usize, block: usize) -> bool {
        self.range(region).contains(&block)
    }

    /// Returns the loop that a block is the header of.
    pub(crate) fn loop_at(&self, header: usize) -> Option<usize> {
        let region = self.region_of(header);
        (region > 0 && self.range(region).start == header).then_some(region)
    }

    /// Returns the loop around a block that is directly in a region; `None` if the block itself is directly in the
    /// region, or not in it at all.
    pub(crate) fn loop_in(&self, region: usize, block: usize) -> Option<usize> {
        let mut at = self.region_of(block);
        while at > 0 {
            let parent = self.regions.get(at)?.parent?;
            if parent == region {
                return Some(at);
            }
            at = parent;
        }
        None
    }

    /// Returns the edges that leave a region: the block inside and the block outside.
    pub(crate) fn exits(&self, region: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let range = self.range(region);
        let edges = range.clone().flat_map(|from| {
            let targets = self.blocks.get(from).map(|block| block.end.targets());
            targets.into_iter().flatten().map(move |to| (from, to))
        });
        edges.filter(move |(_, to)| !range.contains(to))
    }

    /// Returns the parts of a region, in order.
    pub(crate) fn parts(&self, region: usize) -> Vec<Part> {
        let range = self.range(region);
        let mut parts = Vec::new();
        let mut at = range.start;
        while at < range.end {
            match self.loop_in(region, at) {
                Some(inner) => {
                    parts.push(Part::Loop(inner));
                    at = self.range(inner).end.max(at + 1);
                }
                None => {
                    parts.push(Part::Block(at));
                    at += 1;
                }
            }
        }
        parts
    }

    /// Returns whether each thread that executes block `from` executes block `to` in the same iteration: the same block
    /// or a later one of the same region.
    pub(crate) fn always_reaches(&self, from: usize, to: usize) -> bool {
        if self.region_of(from) != self.region_of(to) {
            return false;
        }
        let count = self.blocks.len();
        let mut at = from;
        loop {
            if at == to {
                return true;
            }
            let place = if at < count { at } else { self.range(at - count).start };
            if place > to {
                return false;
            }
            match self.after.get(at).copied().flatten() {
                Some(next) => at = next,
                None => return false,
            }
        }
    }

    /// Returns whether each thread executes a block, once.
    pub(crate) fn unconditional(&self, block: usize) -> bool {
        self.always_reaches(0, block)
    }

    /// Returns whether each iteration of a block's region executes it.
    pub(crate) fn in_each_turn(&self, block: usize) -> bool {
        self.always_reaches(self.range(self.region_of(block)).start, block)
    }

    /// Returns the variables of the parameters, in order.
    pub(crate) fn params(&self) -> impl Iterator<Item = VarId> {
        self.function.params.iter().filter_map(|formal| match formal {
            Formal::Var(var) => Some(*var),
            // Kernels take no registers.
            Formal::Reg(_) => None,
        })
    }

    /// Returns whether a variable of the function lies in shared memory.
    pub(crate) fn is_shared(&self, var: VarId) -> bool {
        self.function.variables.get(var.index()).is_some_and(|known| known.space == Space::Shared)
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

/// Returns the special registers that an instruction reads. PTX reads them by `mov`, but ptxas accepts them as other
/// operands.
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

/// Returns the immediate post-dominators of all blocks, then of all regions, among the parts of their regions. Blocks
/// have their indices; regions have theirs plus the number of blocks.
fn after(body: &Body) -> Vec<Option<usize>> {
    let count = body.blocks.len();
    let mut after = vec![None; count + body.regions.len()];
    // The parts of a region are ordered by their first blocks.
    let start = |part: usize| if part < count { part } else { body.range(part - count).start };
    for region in 0..body.regions.len() {
        let range = body.range(region);
        // The part of this region that an edge leads to; `None` if it ends the iteration.
        let part = |to: usize| {
            if !range.contains(&to) || (region > 0 && to == range.start) {
                return None;
            }
            Some(body.loop_in(region, to).map_or(to, |inner| count + inner))
        };
        for of in body.parts(region).into_iter().rev() {
            let (own, targets): (usize, Vec<usize>) = match of {
                Part::Block(at) => {
                    (at, body.blocks.get(at).into_iter().flat_map(|b| b.end.targets()).collect())
                }
                Part::Loop(inner) => (count + inner, body.exits(inner).map(|(_, to)| to).collect()),
            };
            let meet = |a: Option<usize>, b: Option<usize>| {
                let (mut a, mut b) = (a?, b?);
                while a != b {
                    let earlier = if start(a) < start(b) { &mut a } else { &mut b };
                    *earlier = after.get(*earlier).copied().flatten()?;
                }
                Some(a)
            };
            let met = targets.into_iter().map(part).reduce(meet).flatten();
            if let Some(place) = after.get_mut(own) {
                *place = met;
            }
        }
    }
    after
}
