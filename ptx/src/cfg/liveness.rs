//! Which registers are live at the borders of blocks.

use super::{Block, Cfg};
use crate::ir::{Formal, Function, RegId, Role};

/// The registers that are live at each block's start and end: those whose value may be read later.
///
/// A conditional definition ([`Instr::is_conditional_def`](crate::ir::Instr::is_conditional_def)) does not end the life of
/// the old value. Results in registers (`.func (.reg …)`) are read where the function returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Liveness {
    live_in: Vec<Vec<RegId>>,
    live_out: Vec<Vec<RegId>>,
}

impl Liveness {
    /// Returns the live registers of `function`, whose graph is `cfg`. Time and memory are proportional to the size of
    /// the result and of the function. The result has 4 bytes for each register and block through which it lives: of `n`
    /// registers that are written first and read last, with `m` blocks between, 8·n·m bytes.
    #[must_use]
    pub fn new(cfg: &Cfg, function: &Function) -> Self {
        let into = cfg.predecessors();
        let ranges = Ranges::new(cfg, function);
        let mut search = Search::new(cfg.blocks.len());
        let mut liveness =
            Self { live_in: vec![Vec::new(); into.len()], live_out: vec![Vec::new(); into.len()] };
        let mut last = vec![u32::MAX; into.len()];
        for range in &ranges.list {
            let mut live_out = |block: u32| {
                if std::mem::replace(&mut last[block as usize], range.reg.0) != range.reg.0 {
                    liveness.live_out[block as usize].push(range.reg);
                }
            };
            for &block in search.live_in(range, &into) {
                liveness.live_in[block as usize].push(range.reg);
                into[block as usize].iter().for_each(|&from| live_out(from));
            }
            if range.result {
                returning(cfg).for_each(&mut live_out);
            }
        }
        liveness
    }

    /// Returns the registers that are live at the start of `block`, in ascending order.
    #[must_use]
    pub fn live_in(&self, block: u32) -> &[RegId] {
        self.live_in.get(block as usize).map_or(&[], Vec::as_slice)
    }

    /// Returns the registers that are live at the end of `block`, in ascending order.
    #[must_use]
    pub fn live_out(&self, block: u32) -> &[RegId] {
        self.live_out.get(block as usize).map_or(&[], Vec::as_slice)
    }
}

/// Returns the blocks at which the function returns.
fn returning(cfg: &Cfg) -> impl Iterator<Item = u32> + '_ {
    (0..).zip(&cfg.blocks).filter(|(_, block)| block.returns).map(|(at, _)| at)
}

/// A register that is read in a block in which it has not been defined before.
pub(crate) struct Range {
    pub(crate) reg: RegId,
    /// Whether it is a result of the function.
    pub(crate) result: bool,
    /// The blocks that read it before they define it, each once.
    pub(crate) exposed: Vec<u32>,
    /// The blocks that define it, each once.
    pub(crate) defined: Vec<u32>,
}

/// All registers that live across the border of a block, in ascending order.
pub(crate) struct Ranges {
    pub(crate) list: Vec<Range>,
}

impl Ranges {
    pub(crate) fn new(cfg: &Cfg, function: &Function) -> Self {
        let count = function.registers.len();
        // The last block in which each register was seen to be exposed, or defined.
        let (mut exposed, mut defined) = (vec![u32::MAX; count], vec![u32::MAX; count]);
        let mut at = vec![u32::MAX; count];
        let mut list: Vec<Range> = Vec::new();
        let mut range = |reg: RegId, list: &mut Vec<Range>| {
            if at[reg.index()] == u32::MAX {
                at[reg.index()] = super::narrow(list.len());
                list.push(Range { reg, result: false, exposed: Vec::new(), defined: Vec::new() });
            }
            at[reg.index()] as usize
        };
        let mut results: Vec<RegId> = function.returns.iter().filter_map(register).collect();
        results.retain(|reg| reg.index() < count);
        for &reg in &results {
            let at = range(reg, &mut list);
            list[at].result = true;
        }
        for (number, block) in (0u32..).zip(&cfg.blocks) {
            for instr in instrs(function, block) {
                let conditional = instr.is_conditional_def();
                instr.for_each_use(|reg| {
                    let Some(last) = exposed.get_mut(reg.index()) else { return };
                    if defined[reg.index()] != number && *last != number {
                        *last = number;
                        let at = range(reg, &mut list);
                        list[at].exposed.push(number);
                    }
                });
                instr.for_each_register(|role, reg| {
                    if let Some(defined) = defined.get_mut(reg.index())
                        && role == Role::Def
                        && !conditional
                    {
                        *defined = number;
                    }
                });
            }
            if block.returns {
                for reg in &results {
                    let last = &mut exposed[reg.index()];
                    if defined[reg.index()] != number && *last != number {
                        *last = number;
                        let at = range(*reg, &mut list);
                        list[at].exposed.push(number);
                    }
                }
            }
        }
        // The definitions of these only: most registers live in one block.
        let mut last = vec![u32::MAX; count];
        for (number, block) in (0u32..).zip(&cfg.blocks) {
            for instr in instrs(function, block) {
                if instr.is_conditional_def() {
                    continue;
                }
                instr.for_each_def(|reg| {
                    let Some(&at) = at.get(reg.index()) else { return };
                    if at != u32::MAX && last[reg.index()] != number {
                        last[reg.index()] = number;
                        list[at as usize].defined.push(number);
                    }
                });
            }
        }
        list.sort_unstable_by_key(|range| range.reg);
        Self { list }
    }
}

pub(crate) fn register(formal: &Formal) -> Option<RegId> {
    match formal {
        Formal::Reg(reg) => Some(*reg),
        Formal::Var(_) => None,
    }
}

fn instrs<'f>(function: &'f Function, block: &Block) -> &'f [crate::ir::Instr] {
    function.instrs().get(block.start as usize..block.end as usize).unwrap_or_default()
}

/// Finds the blocks at whose start a register is live.
pub(crate) struct Search {
    /// The last search that came to each block, and the last of a register that it defines.
    seen: Vec<u32>,
    kills: Vec<u32>,
    number: u32,
    found: Vec<u32>,
}

impl Search {
    pub(crate) fn new(blocks: usize) -> Self {
        Self { seen: vec![0; blocks], kills: vec![0; blocks], number: 0, found: Vec::new() }
    }

    /// Returns the blocks at whose start the register of `range` is live, in no order.
    pub(crate) fn live_in(&mut self, range: &Range, into: &[Vec<u32>]) -> &[u32] {
        self.number += 1;
        let number = self.number;
        for &block in &range.defined {
            self.kills[block as usize] = number;
        }
        self.found.clear();
        self.found.extend(&range.exposed);
        for &block in &range.exposed {
            self.seen[block as usize] = number;
        }
        let mut next = 0;
        while let Some(&block) = self.found.get(next) {
            next += 1;
            for &from in &into[block as usize] {
                let at = from as usize;
                if self.kills[at] != number && self.seen[at] != number {
                    self.seen[at] = number;
                    self.found.push(from);
                }
            }
        }
        &self.found
    }

    /// Returns whether the last search found the register live at the start of `block`.
    pub(crate) fn is_live(&self, block: u32) -> bool {
        self.seen[block as usize] == self.number
    }
}
