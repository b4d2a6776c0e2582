//! Control flow: basic blocks, where threads that went different ways meet again, dominators, loops, and the registers
//! that are live.

mod dominators;
mod liveness;
mod loops;

pub use dominators::Dominators;
pub use liveness::Liveness;
pub(crate) use liveness::{Range, Ranges, Search, register};
pub use loops::{Loop, Loops};

use crate::ir::{Callee, Function, Instr, Module, Op, PrototypeKind};

/// A run of instructions that is entered at its first and left after its last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The first instruction.
    pub start: u32,
    /// The instruction after the last.
    pub end: u32,
    /// The blocks that may come next: a branch's target before the instruction that follows it,
    /// a table's in its order, each block once.
    pub successors: Vec<u32>,
    /// Whether a thread may leave the function here: `ret`, `exit`, `trap`, a call that does not
    /// return, or the end of the body.
    pub exits: bool,
    /// Whether a thread may return to the caller here: `ret`, or the end of the body.
    pub returns: bool,
}

/// The control-flow graph of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cfg {
    /// The blocks in the order of the text; the first is the entry.
    pub blocks: Vec<Block>,
    /// The block of each instruction.
    pub block_of: Vec<u32>,
    /// The immediate post-dominator of each block: the first block that every thread comes through
    /// on its way out. `None` where there is none but the function's exit. A loop without a way out
    /// counts as if its blocks could be left.
    pub ipdom: Vec<Option<u32>>,
    /// The blocks that can be reached, in reverse post order.
    pub order: Vec<u32>,
}

/// The effect of an instruction on the flow of control.
enum Flow {
    /// No jump: the next instruction follows.
    Next,
    /// Goes to instructions; with a guard, or else.
    Jump(Vec<usize>),
    Leave,
}

impl Cfg {
    /// Returns the graph of `function`, a function of `module`. Time is nearly linear in its size.
    #[must_use]
    pub fn new(module: &Module, function: &Function) -> Self {
        let instrs = function.instrs();
        let starts = block_starts(module, function, instrs);
        let mut blocks = Vec::with_capacity(starts.len());
        let mut block_of = Vec::with_capacity(instrs.len());
        for (at, &start) in starts.iter().enumerate() {
            let end = starts.get(at + 1).copied().unwrap_or(instrs.len());
            block_of.resize(end, narrow(at));
            let (start, end) = (narrow(start), narrow(end));
            let successors = Vec::new();
            blocks.push(Block { start, end, successors, exits: false, returns: false });
        }
        // Marks the blocks already among the successors: a table may name one many times.
        let mut seen = vec![u32::MAX; blocks.len()];
        for (at, block) in blocks.iter_mut().enumerate() {
            let last = &instrs[block.end as usize - 1];
            let next = block.end as usize;
            let targets = match (flow(module, function, last), last.guard.is_some()) {
                (Flow::Next, _) => vec![next],
                (Flow::Jump(targets), false) => targets,
                (Flow::Jump(mut targets), true) => {
                    targets.push(next);
                    targets
                }
                (Flow::Leave, conditional) => {
                    block.exits = true;
                    block.returns = matches!(last.op, Op::Ret { .. });
                    if conditional { vec![next] } else { Vec::new() }
                }
            };
            for target in targets {
                match block_of.get(target) {
                    Some(&to) if seen[to as usize] == narrow(at) => {}
                    Some(&to) => {
                        seen[to as usize] = narrow(at);
                        block.successors.push(to);
                    }
                    None => (block.exits, block.returns) = (true, true),
                }
            }
        }
        let order = reverse_post_order(&blocks);
        let ipdom = dominators::post_dominators(&blocks, &order);
        Self { blocks, block_of, ipdom, order }
    }

    /// Returns the blocks from which control may come to each block, in ascending order.
    #[must_use]
    pub fn predecessors(&self) -> Vec<Vec<u32>> {
        predecessors(&self.blocks)
    }
}

fn predecessors(blocks: &[Block]) -> Vec<Vec<u32>> {
    let mut into = vec![Vec::new(); blocks.len()];
    for (from, block) in blocks.iter().enumerate() {
        for &to in &block.successors {
            if let Some(into) = into.get_mut(to as usize) {
                into.push(narrow(from));
            }
        }
    }
    into
}

/// Returns an index as the graph stores it; bodies are far shorter than u32 counts.
fn narrow(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn flow(module: &Module, function: &Function, instr: &Instr) -> Flow {
    match &instr.op {
        Op::Bra { target, .. } => Flow::Jump(vec![function.target(*target)]),
        Op::BrxIdx { table, .. } => {
            let table = function.tables.get(table.index()).map_or(&[][..], Vec::as_slice);
            Flow::Jump(table.iter().map(|&label| function.target(label)).collect())
        }
        Op::Ret { .. } | Op::Exit | Op::Trap => Flow::Leave,
        Op::Call { callee, .. } if !returns(module, function, callee) => Flow::Leave,
        _ => Flow::Next,
    }
}

fn returns(module: &Module, function: &Function, callee: &Callee) -> bool {
    match callee {
        Callee::Function(id) => {
            module.functions.get(id.index()).is_none_or(|f| !f.directives.noreturn)
        }
        Callee::Indirect(_, id) => !matches!(
            function.prototypes.get(id.index()).map(|p| &p.kind),
            Some(PrototypeKind::Signature { noreturn: true, .. })
        ),
    }
}

/// Returns where blocks begin: at the entry, at targets, after everything that may go elsewhere.
fn block_starts(module: &Module, function: &Function, instrs: &[Instr]) -> Vec<usize> {
    let mut starts = vec![false; instrs.len()];
    let mut mark = |at: usize| {
        if let Some(start) = starts.get_mut(at) {
            *start = true;
        }
    };
    mark(0);
    // Every label that code can name: branches go only to labels.
    for label in &function.labels {
        mark(label.at as usize);
    }
    for (at, instr) in instrs.iter().enumerate() {
        // A table's targets are labels, marked above: they need not be collected here.
        let ends = matches!(&instr.op, Op::Bra { .. } | Op::BrxIdx { .. })
            || matches!(flow(module, function, instr), Flow::Leave);
        if ends {
            mark(at + 1);
        }
    }
    (0..starts.len()).filter(|&at| starts[at]).collect()
}

/// Depth first, without recursion: bodies are as deep as they are long.
fn reverse_post_order(blocks: &[Block]) -> Vec<u32> {
    let mut order = Vec::with_capacity(blocks.len());
    if blocks.is_empty() {
        return order;
    }
    let mut seen = vec![false; blocks.len()];
    seen[0] = true;
    let mut stack = vec![(0u32, 0usize)];
    while let Some((block, next)) = stack.last_mut() {
        match blocks[*block as usize].successors.get(*next) {
            Some(&to) => {
                *next += 1;
                if !std::mem::replace(&mut seen[to as usize], true) {
                    stack.push((to, 0));
                }
            }
            None => {
                order.push(*block);
                stack.pop();
            }
        }
    }
    order.reverse();
    order
}
