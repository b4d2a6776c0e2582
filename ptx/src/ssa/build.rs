//! Into the form.

use super::place::Joins;
use super::{BlockParam, Ssa, SsaError};
use crate::cfg::{Cfg, Dominators, Ranges, register};
use crate::ir::{Formal, Function, Instr, Module, Op, Place, RegId, Role, Type};
use crate::simplify::{branch_guards, remove_unreachable, split_critical_edges};

/// The blocks in which registers with several definitions live may be this many, counted for each register. Compiled
/// kernels of 10,000 instructions have a hundredth of it.
const MOST_SEARCHED: usize = 1 << 25;

pub(super) fn build(module: &Module, function: &Function) -> Result<Ssa, SsaError> {
    if function.body.is_none() {
        return Err(SsaError::Declaration { name: function.name.clone() });
    }
    check(function)?;
    let function = branch_guards(module, function);
    let function = remove_unreachable(module, &function);
    let mut function = split_critical_edges(module, &function);
    let cfg = Cfg::new(module, &function);
    let dominators = Dominators::new(&cfg);
    let into = cfg.predecessors();
    // The original registers that are parameters of each block.
    let mut joined: Vec<Vec<RegId>> = vec![Vec::new(); cfg.blocks.len()];
    let ranges = Ranges::new(&cfg, &function);
    let mut joins = Joins::new(&cfg, &dominators, &into);
    let mut searched = 0usize;
    for range in &ranges.list {
        searched += joins.of(range, |block| joined[block as usize].push(range.reg));
        if searched > MOST_SEARCHED {
            return Err(SsaError::TooLarge { name: function.name });
        }
    }
    let mut body = function.body.take().unwrap_or_default();
    let mut renaming = Renaming::new(&mut function, cfg.blocks.len());
    renaming.walk(&cfg, &dominators, &joined, &mut body);
    let Renaming { params, results, undefined, origin, .. } = renaming;
    function.body = Some(body);
    Ok(Ssa { function, cfg, dominators, params, results, undefined, origin })
}

/// Refuses instructions whose registers cannot be renamed.
fn check(function: &Function) -> Result<(), SsaError> {
    let count = function.registers.len();
    let known_label = |label: &crate::ir::LabelId| function.labels.get(label.index()).is_some();
    let formals = function.params.iter().chain(&function.returns).filter_map(register);
    let mut malformed = formals.into_iter().any(|reg| reg.index() >= count);
    let mut line = function.line;
    for instr in function.instrs() {
        let mut unknown = false;
        instr.for_each_place(|place| match place {
            Place::Register(role, reg) => {
                unknown |= role == Role::Unknown;
                malformed |= reg.index() >= count;
            }
            Place::Label(label) => malformed |= !known_label(label),
            Place::Table(table) => {
                let table = function.tables.get(table.index());
                malformed |= !table.is_some_and(|table| table.iter().all(known_label));
            }
            Place::Symbol(_) | Place::Function(_) | Place::Prototype(_) => {}
        });
        if malformed {
            line = instr.line;
            break;
        }
        if let (true, Op::Other { opcode, .. } | Op::CreatePolicy { opcode, .. }) =
            (unknown, &instr.op)
        {
            let (opcode, line) = (opcode.to_string(), instr.line);
            return Err(SsaError::UnknownRoles { opcode, line });
        }
    }
    if malformed {
        return Err(SsaError::Malformed { name: function.name.clone(), line });
    }
    Ok(())
}

/// New registers for old ones, block by block down the tree of dominators.
struct Renaming<'f> {
    function: &'f mut Function,
    /// The types of the old registers.
    types: Vec<Type>,
    /// The register that holds each old register's value.
    current: Vec<Option<RegId>>,
    /// The values to go back to, of the blocks from the entry to here.
    before: Vec<(RegId, Option<RegId>)>,
    /// The register that stands for each old register's value at the start.
    initial: Vec<Option<RegId>>,
    params: Vec<Vec<BlockParam>>,
    results: Vec<Vec<RegId>>,
    undefined: Vec<RegId>,
    origin: Vec<RegId>,
}

enum Step {
    Enter(u32),
    /// Goes back to this many values.
    Leave(usize),
}

impl<'f> Renaming<'f> {
    fn new(function: &'f mut Function, blocks: usize) -> Self {
        let types = std::mem::take(&mut function.registers);
        Self {
            current: vec![None; types.len()],
            initial: vec![None; types.len()],
            before: Vec::new(),
            params: vec![Vec::new(); blocks],
            results: vec![Vec::new(); blocks],
            undefined: Vec::new(),
            origin: Vec::new(),
            types,
            function,
        }
    }

    fn fresh(&mut self, old: RegId) -> RegId {
        self.origin.push(old);
        self.function.fresh_register(self.types[old.index()])
    }

    fn define(&mut self, old: RegId) -> RegId {
        let new = self.fresh(old);
        let before = self.current[old.index()].replace(new);
        self.before.push((old, before));
        new
    }

    fn value(&mut self, old: RegId) -> RegId {
        if let Some(reg) = self.current[old.index()].or(self.initial[old.index()]) {
            return reg;
        }
        let new = self.fresh(old);
        self.initial[old.index()] = Some(new);
        self.undefined.push(new);
        new
    }

    fn walk(
        &mut self,
        cfg: &Cfg,
        dominators: &Dominators,
        joined: &[Vec<RegId>],
        body: &mut [Instr],
    ) {
        for at in 0..self.function.params.len() {
            if let Formal::Reg(old) = self.function.params[at] {
                self.function.params[at] = Formal::Reg(self.define(old));
            }
        }
        let returns: Vec<RegId> = self.function.returns.iter().filter_map(register).collect();
        for at in 0..self.function.returns.len() {
            if let Formal::Reg(old) = self.function.returns[at] {
                self.function.returns[at] = Formal::Reg(self.fresh(old));
            }
        }
        let mut steps = if cfg.blocks.is_empty() { Vec::new() } else { vec![Step::Enter(0)] };
        while let Some(step) = steps.pop() {
            let block = match step {
                Step::Leave(count) => {
                    for (old, before) in self.before.drain(count..).rev() {
                        self.current[old.index()] = before;
                    }
                    continue;
                }
                Step::Enter(block) => block,
            };
            steps.push(Step::Leave(self.before.len()));
            self.block(cfg, block, joined, &returns, body);
            steps.extend(dominators.children(block).iter().rev().map(|&child| Step::Enter(child)));
        }
        // Predecessors were visited in the order of the tree.
        for param in self.params.iter_mut().flatten() {
            param.args.sort_unstable_by_key(|&(from, _)| from);
        }
    }

    fn block(
        &mut self,
        cfg: &Cfg,
        number: u32,
        joined: &[Vec<RegId>],
        returns: &[RegId],
        body: &mut [Instr],
    ) {
        self.prepare(number, joined);
        for (at, &old) in joined[number as usize].iter().enumerate() {
            let reg = self.define(old);
            self.params[number as usize][at].reg = reg;
        }
        let block = &cfg.blocks[number as usize];
        for instr in body.get_mut(block.start as usize..block.end as usize).unwrap_or_default() {
            instr.for_each_register_mut(|role, reg| {
                if role == Role::Use {
                    *reg = self.value(*reg);
                }
            });
            instr.for_each_register_mut(|role, reg| {
                if role != Role::Use {
                    *reg = self.define(*reg);
                }
            });
        }
        for &to in &block.successors {
            self.prepare(to, joined);
            for (at, &old) in joined[to as usize].iter().enumerate() {
                let value = self.value(old);
                self.params[to as usize][at].args.push((number, value));
            }
        }
        if block.returns {
            self.results[number as usize] = returns.iter().map(|&old| self.value(old)).collect();
        }
    }

    /// Makes room for a block's parameters.
    fn prepare(&mut self, block: u32, joined: &[Vec<RegId>]) {
        let joined = &joined[block as usize];
        let params = &mut self.params[block as usize];
        if params.len() < joined.len() {
            let none = BlockParam { reg: RegId(u32::MAX), args: Vec::new() };
            params.resize(joined.len(), none);
        }
    }
}
