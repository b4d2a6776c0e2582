//! Plans what loops keep for their reverse, and which instructions are not repeated in it.

use std::collections::{HashMap, HashSet};

use ptx::ir::{BinaryOp, Instr, Op, Operand, RegId, Type, VarId};

use super::builder::Link;
use crate::analysis::{Access, Analysis, Barriers, Origin, Slot, is_block_barrier, is_reduction};
use crate::body::Body;
use crate::legal::Checked;

/// Memory that the replay stores to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Memory {
    Private(usize),
    Local(VarId),
}

impl Memory {
    pub(super) fn link(self) -> Link {
        match self {
            Self::Private(pointer) => Link::Private(pointer),
            Self::Local(var) => Link::Local(var),
        }
    }
}

/// A value that a loop carries and that changes by the same step in each iteration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steady {
    pub(super) first: Operand,
    pub(super) step: Operand,
    pub(super) negated: bool,
}

/// How the reverse of loops gets values.
#[derive(Debug)]
pub(super) struct Plan {
    /// Steady values, by the register that a loop carries.
    pub(super) steady: HashMap<RegId, Steady>,
    /// Instructions whose results are logged: block and position.
    pub(super) logged: HashSet<(usize, usize)>,
    /// Whether the adjoint stores to a private copy of the memory behind each pointer.
    pub(super) private: Vec<bool>,
    pub(super) barriers: Barriers,
    /// Links that the adjoint loads; `None` while that is unknown.
    needed: Option<HashSet<Link>>,
    /// Whether there are loops.
    loops: bool,
    /// Whether each loop is reversed. Others run once, in the copy of the kernel, and keep nothing.
    reversed: Vec<bool>,
}

impl Plan {
    pub(super) fn new(body: &Body, analysis: &Analysis, checked: &Checked) -> Self {
        let mut plan = Self {
            steady: HashMap::new(),
            logged: HashSet::new(),
            private: checked.private.clone(),
            barriers: checked.barriers,
            needed: None,
            loops: body.regions.len() > 1,
            reversed: (0..body.regions.len())
                .map(|region| {
                    // Threads that have left count the barriers of the others.
                    let counted = checked.barriers.kept && !checked.barriers.together;
                    has_gradients(body, analysis, region) || counted && has_barriers(body, region)
                })
                .collect(),
        };
        for region in 1..body.regions.len() {
            plan.find_steady(body, region);
        }
        plan.find_logged(body, analysis);
        plan
    }

    /// Returns whether a loop is reversed.
    pub(super) fn is_reversed(&self, region: usize) -> bool {
        self.reversed.get(region).copied().unwrap_or(true)
    }

    /// Limits what is kept to the links that are loaded.
    pub(super) fn needs(&mut self, read: HashSet<Link>) {
        self.needed = Some(read);
    }

    pub(super) fn is_needed(&self, link: Link) -> bool {
        self.needed.as_ref().is_none_or(|needed| needed.contains(&link))
    }

    /// Returns whether anything is kept in scratch memory.
    pub(super) fn has_stack(&self) -> bool {
        let keeps = |link: &Link| matches!(link, Link::Kept(..) | Link::Logged(..));
        self.loops && self.needed.as_ref().is_none_or(|needed| needed.iter().any(keeps))
    }

    /// Returns whether the copy of the kernel keeps its barriers: something of what threads exchange is needed.
    pub(super) fn keeps_barriers(&self, body: &Body) -> bool {
        let exchanged = |link: &Link| match link {
            Link::Local(var) => body.is_shared(*var),
            Link::Private(_) => true,
            Link::Kept(..) | Link::Logged(..) => false,
        };
        let needed = || self.needed.as_ref().is_none_or(|needed| needed.iter().any(exchanged));
        let reduces = || body.instrs().any(|(_, instr)| is_reduction(instr));
        self.barriers.kept && (!self.barriers.together || reduces() || needed())
    }

    /// Returns the memory of an access that the replay stores to.
    pub(super) fn memory(
        &self,
        body: &Body,
        analysis: &Analysis,
        access: &Access<'_>,
    ) -> Option<Memory> {
        match analysis.forms.address(body, access.address).origin {
            Origin::Local(var) => Some(Memory::Local(var)),
            Origin::Pointer(pointer) if self.private.get(pointer) == Some(&true) => {
                Some(Memory::Private(pointer))
            }
            _ => None,
        }
    }

    /// Finds values that a loop carries by `i += step`, where the loop does not change the step.
    fn find_steady(&mut self, body: &Body, region: usize) {
        let header = body.range(region).start;
        let Some(block) = body.blocks.get(header) else { return };
        for phi in &block.phis {
            let inside =
                |reg: RegId| body.definition(reg).is_some_and(|at| body.contains(region, at));
            let (mut first, mut next) = (None, None);
            let mut single = true;
            for (from, arg) in &phi.args {
                let place = if body.contains(region, *from) { &mut next } else { &mut first };
                single &= place.is_none_or(|known| Some(known) == *arg);
                *place = *arg;
            }
            let (Some(first), Some(Operand::Reg(next)), true) = (first, next, single) else {
                continue;
            };
            let Some((a, b, negated)) = sum(body, next) else { continue };
            let own = Operand::Reg(phi.reg);
            let step = match (a == own, b == own) {
                (true, false) => b,
                (false, true) if !negated => a,
                _ => continue,
            };
            let stays = match step {
                Operand::Reg(step) => !inside(step),
                Operand::Imm(_) => true,
                _ => false,
            };
            let bits = body.function.registers.get(phi.reg.index()).map_or(0, |ty| ty.bits());
            if stays && (bits == 32 || bits == 64) {
                self.steady.insert(phi.reg, Steady { first, step, negated });
            }
        }
    }

    /// Finds instructions that must not be repeated: loads of memory that is stored to later, and instructions whose
    /// results depend on the other active threads.
    fn find_logged(&mut self, body: &Body, analysis: &Analysis) {
        let mut stores: HashMap<Memory, Vec<usize>> = HashMap::new();
        for (block, instr) in body.instrs() {
            if matches!(instr.op, Op::St { .. } | Op::Atom { .. })
                && let Some(access) = Access::of(instr)
                && let Some(memory) = self.memory(body, analysis, &access)
            {
                stores.entry(memory).or_default().push(block);
            }
        }
        let changes: HashMap<Memory, Vec<bool>> =
            stores.into_iter().map(|(memory, blocks)| (memory, come_to(body, &blocks))).collect();
        for (index, block) in body.blocks.iter().enumerate() {
            if block.region == 0 {
                continue;
            }
            for (at, instr) in block.code.iter().enumerate() {
                let changed = matches!(instr.op, Op::Ld { .. })
                    && Access::of(instr)
                        .and_then(|access| self.memory(body, analysis, &access))
                        .and_then(|memory| changes.get(&memory)?.get(index).copied())
                        .unwrap_or(false);
                if changed || is_shared(instr) {
                    self.logged.insert((index, at));
                }
            }
        }
    }

    /// Returns whether a needed instruction in a region is logged.
    pub(super) fn logs(&self, body: &Body, region: usize) -> bool {
        self.is_reversed(region)
            && self.logged.iter().any(|&(block, at)| {
                body.contains(region, block) && self.is_needed(Link::Logged(block, at))
            })
    }

    /// Returns the values that a loop keeps for each iteration: their positions and registers.
    pub(super) fn kept(&self, body: &Body, region: usize) -> Vec<(usize, RegId)> {
        let header = body.range(region).start;
        let phis = body.blocks.get(header).map_or(&[][..], |block| &block.phis);
        let kept = phis.iter().enumerate().map(|(at, phi)| (at, phi.reg));
        kept.filter(|(at, reg)| {
            self.is_reversed(region)
                && !self.steady.contains_key(reg)
                && self.is_needed(Link::Kept(region, *at))
        })
        .collect()
    }

    /// Returns how many words of 32 bits a loop keeps for each iteration.
    pub(super) fn words(&self, body: &Body, region: usize) -> u32 {
        let of = |reg: RegId| body.function.registers.get(reg.index()).map_or(1, |ty| words(*ty));
        let kept: u32 = self.kept(body, region).into_iter().map(|(_, reg)| of(reg)).sum();
        kept + u32::from(self.logs(body, region))
    }
}

/// Returns whether a loop has anything to reverse: a number with a gradient, or a store to memory with one.
fn has_gradients(body: &Body, analysis: &Analysis, region: usize) -> bool {
    let is_active = |reg: RegId| {
        let activity = &analysis.activity;
        activity.is_active(Slot::low(reg)) || activity.is_active(Slot::high(reg))
    };
    // Whether the accessed memory may have a gradient.
    let may_have_one =
        |access: &Access<'_>| match analysis.forms.address(body, access.address).origin {
            Origin::Pointer(at) => {
                analysis.pointers.get(at).is_none_or(|pointer| pointer.slot.is_some())
            }
            Origin::Local(var) => analysis.activity.is_local_active(var),
            _ => true,
        };
    let mut blocks = body.range(region).filter_map(|at| body.blocks.get(at));
    blocks.any(|block| {
        let mut found = block.phis.iter().any(|phi| is_active(phi.reg));
        for instr in &block.code {
            instr.for_each_def(|reg| found |= is_active(reg));
            found |= matches!(instr.op, Op::St { .. } | Op::Atom { .. })
                && Access::of(instr).is_none_or(|access| may_have_one(&access));
        }
        found
    })
}

fn has_barriers(body: &Body, region: usize) -> bool {
    let mut blocks = body.range(region).filter_map(|at| body.blocks.get(at));
    blocks.any(|block| block.code.iter().any(is_block_barrier))
}

/// Returns how many words of 32 bits a register takes.
pub(super) fn words(ty: Type) -> u32 {
    if ty.bits() > 32 { 2 } else { 1 }
}

/// Returns the operands of the sum or difference that a register is.
fn sum(body: &Body, reg: RegId) -> Option<(Operand, Operand, bool)> {
    let block = body.blocks.get(body.definition(reg)?)?;
    let defines = |instr: &&Instr| matches!(&instr.op, Op::Binary { d, .. } if *d == Some(reg));
    match &block.code.iter().find(defines)?.op {
        Op::Binary { op: BinaryOp::Add, ty, mode, a, b, .. } if !ty.is_float() && !mode.sat => {
            Some((*a, *b, false))
        }
        Op::Binary { op: BinaryOp::Sub, ty, mode, a, b, .. } if !ty.is_float() && !mode.sat => {
            Some((*a, *b, true))
        }
        _ => None,
    }
}

/// Returns for each block whether one of `blocks` is reachable from its start.
fn come_to(body: &Body, blocks: &[usize]) -> Vec<bool> {
    let mut found = vec![false; body.blocks.len()];
    let mut open = blocks.to_vec();
    while let Some(at) = open.pop() {
        if let Some(place) = found.get_mut(at).filter(|place| !**place) {
            *place = true;
            open.extend(body.blocks.get(at).into_iter().flat_map(|block| &block.preds));
        }
    }
    found
}

/// Returns whether the result depends on which threads execute an instruction together.
fn is_shared(instr: &Instr) -> bool {
    matches!(
        instr.op,
        Op::Vote { .. }
            | Op::Match { .. }
            | Op::Activemask { .. }
            | Op::Elect { .. }
            | Op::Shfl { .. }
            | Op::Redux { .. }
    ) || is_reduction(instr)
}
