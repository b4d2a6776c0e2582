//! Other forms of a function that compute the same, each suited to some analysis.
//!
//! All functions here keep the place in the text and the source ([`Instr::line`], [`Instr::loc`]) of the instructions
//! that they move, and give those of a neighbour to the branches that they add. Time is nearly linear in the function's
//! size.

mod edit;

pub(crate) use edit::{Edit, Origin, copy};

use std::collections::HashMap;

use crate::cfg::Cfg;
use crate::ir::{
    Cmp, Function, FunctionKind, Instr, LabelId, Module, Op, Operand, Pred, TableId, Type,
};

/// Returns `function`, a function of `module`, with branches around instructions in place of guards.
///
/// Of its instructions only `bra`, `ret`, `exit` and `trap` have a guard then, so that every definition is
/// unconditional. Neighbours with one guard share a branch. A declaration stays as it is.
#[must_use]
pub fn branch_guards(module: &Module, function: &Function) -> Function {
    let guarded = |instr: &Instr| instr.guard.is_some() && !keeps_guard(&instr.op);
    if !function.instrs().iter().any(guarded) {
        return function.clone();
    }
    let cfg = Cfg::new(module, function);
    let (mut edit, old) = Edit::new(module, function);
    let mut run: Option<(Pred, LabelId)> = None;
    let mut block = 0;
    for (at, mut instr) in old.into_iter().enumerate() {
        let this = cfg.block_of.get(at).copied().unwrap_or(0);
        let guard = instr.guard.filter(|_| guarded(&instr));
        if let Some((_, end)) = run.take_if(|(pred, _)| this != block || guard != Some(*pred)) {
            edit.place(end);
        }
        block = this;
        edit.begin(at);
        if let Some(pred) = guard {
            if run.is_none() {
                let end = edit.label("else");
                let otherwise = Pred { negated: !pred.negated, ..pred };
                edit.branch(Some(otherwise), end, Origin::of(&instr));
                run = Some((pred, end));
            }
            instr.guard = None;
        }
        // Code after a definition of the guard needs another branch.
        let mut ends = false;
        instr.for_each_def(|reg| ends |= guard.is_some_and(|pred| pred.reg == reg));
        edit.push(instr);
        if let Some((_, end)) = run.take_if(|_| ends) {
            edit.place(end);
        }
    }
    if let Some((_, end)) = run {
        edit.place(end);
    }
    edit.begin(cfg.block_of.len());
    edit.finish()
}

/// Returns whether an instruction's guard is part of the flow of control, which can stay.
fn keeps_guard(op: &Op) -> bool {
    matches!(op, Op::Bra { .. } | Op::Ret { .. } | Op::Exit | Op::Trap)
}

/// Returns `function`, a function of `module`, with comparisons and branches in place of `brx.idx`.
///
/// The targets are compared in the order of the table, those that it names most often last. An index outside the table
/// is undefined behaviour in PTX; here it leads to the target of the last comparison. A `brx.idx` with a guard, and a
/// declaration, stay as they are; see [`branch_guards`].
#[must_use]
pub fn branch_tables(module: &Module, function: &Function) -> Function {
    let by_table = |instr: &Instr| matches!(instr.op, Op::BrxIdx { .. }) && instr.guard.is_none();
    if !function.instrs().iter().any(by_table) {
        return function.clone();
    }
    let (mut edit, old) = Edit::new(module, function);
    let end = old.len();
    for (at, instr) in old.into_iter().enumerate() {
        edit.begin(at);
        let origin = Origin::of(&instr);
        let (Op::BrxIdx { index, table, .. }, None) = (&instr.op, instr.guard) else {
            edit.push(instr);
            continue;
        };
        let targets = function.tables.get(table.index()).cloned().unwrap_or_default();
        let mut counts: HashMap<LabelId, usize> = HashMap::new();
        targets.iter().for_each(|&label| *counts.entry(label).or_default() += 1);
        // `max_by_key` chooses the last of the most frequent targets.
        let Some(rest) = targets.iter().copied().max_by_key(|label| counts.get(label)) else {
            edit.push(instr);
            continue;
        };
        for (number, &target) in (0u64..).zip(&targets) {
            if target == rest {
                continue;
            }
            let p = edit.function.fresh_register(Type::Pred);
            let (cmp, ty, b) = (Cmp::Eq, Type::U32, Operand::Imm(number));
            let (ftz, combine, q, a) = (false, None, None, *index);
            let op = Op::Setp { cmp, ty, ftz, combine, p: Some(p), q, a, b };
            edit.push(Instr { guard: None, op, line: origin.line, loc: origin.loc });
            edit.branch(Some(Pred { reg: p, negated: false }), target, origin);
        }
        edit.branch(None, rest, origin);
    }
    edit.begin(end);
    edit.finish()
}

/// Returns `function`, a function of `module`, without the instructions that cannot be reached, and with a `ret` at the
/// end if the end can be reached.
///
/// Labels keep their numbers; those of the removed instructions are at the end of the body. A declaration stays as it
/// is.
#[must_use]
pub fn remove_unreachable(module: &Module, function: &Function) -> Function {
    if function.body.is_none() {
        return function.clone();
    }
    let cfg = Cfg::new(module, function);
    let mut reached = vec![false; cfg.blocks.len()];
    for &block in &cfg.order {
        reached[block as usize] = true;
    }
    let reaches = |&block: &u32| reached.get(block as usize).copied().unwrap_or(false);
    let ends = cfg.blocks.is_empty() || reaches_end(&cfg, function, |at| reached[at]);
    if !ends && reached.iter().all(|&reached| reached) {
        return function.clone();
    }
    let (mut edit, old) = Edit::new(module, function);
    let end = old.len();
    for (at, instr) in old.into_iter().enumerate() {
        if cfg.block_of.get(at).is_some_and(reaches) {
            edit.begin(at);
            edit.push(instr);
        }
    }
    if ends {
        edit.begin(end);
        edit.push(ret(Origin::NONE));
    }
    edit.finish()
}

/// Returns whether control may come to the end of the body from a block that is `reached`.
fn reaches_end(cfg: &Cfg, function: &Function, reached: impl Fn(usize) -> bool) -> bool {
    let count = function.instrs().len();
    let is_end = |label: LabelId| function.target(label) >= count;
    cfg.blocks.iter().enumerate().any(|(at, block)| {
        let last = block.end.checked_sub(1).and_then(|at| function.instrs().get(at as usize));
        let Some(last) = last.filter(|_| block.returns && reached(at)) else { return false };
        let falls = block.end as usize == count;
        match &last.op {
            Op::Bra { target, .. } => is_end(*target) || falls && last.guard.is_some(),
            Op::BrxIdx { table, .. } => {
                let table = function.tables.get(table.index());
                table.is_some_and(|table| table.iter().any(|&label| is_end(label)))
                    || falls && last.guard.is_some()
            }
            Op::Ret { .. } => falls && last.guard.is_some(),
            _ => falls,
        }
    })
}

fn ret(like: Origin) -> Instr {
    Instr { guard: None, op: Op::Ret { uni: false }, line: like.line, loc: like.loc }
}

/// Returns `function`, a function of `module`, with one `ret`, which is its last instruction.
///
/// Every other `ret` is a branch there, as is every `exit` of a kernel, for which both mean the same. An `exit` of a
/// function that is called ends the thread, and stays; `trap` and calls that do not return stay everywhere. If no
/// thread returns, there is no `ret`. A declaration stays as it is.
#[must_use]
pub fn single_exit(module: &Module, function: &Function) -> Function {
    let function = remove_unreachable(module, function);
    let kernel = function.kind == FunctionKind::Entry;
    let leaves = |op: &Op| matches!(op, Op::Ret { .. }) || kernel && matches!(op, Op::Exit);
    let left = function.instrs().iter().filter(|instr| leaves(&instr.op)).count();
    let last = function.instrs().last().filter(|last| last.guard.is_none());
    let at_end = usize::from(last.is_some_and(|last| leaves(&last.op)));
    if left == 0 || left == 1 && last.is_some_and(|last| matches!(last.op, Op::Ret { .. })) {
        return function;
    }
    let (mut edit, old) = Edit::new(module, &function);
    let exit = (left > at_end).then(|| edit.label("exit"));
    let end = old.len();
    let mut origin = Origin::NONE;
    for (at, instr) in old.into_iter().enumerate() {
        edit.begin(at);
        match exit.filter(|_| at_end == 0 || at + 1 < end) {
            _ if !leaves(&instr.op) => edit.push(instr),
            Some(exit) => edit.branch(instr.guard, exit, Origin::of(&instr)),
            None => origin = Origin::of(&instr),
        }
    }
    if let Some(exit) = exit {
        edit.place(exit);
    }
    edit.push(ret(origin));
    edit.begin(end);
    edit.finish()
}

/// Returns `function`, a function of `module`, without critical edges, and with an entry to which no branch leads.
///
/// An edge is critical here if its target has other predecessors, and its source could also go elsewhere, leave the
/// function, or branch by a guard or a table. A block with a `bra` is put on it. Then code for an edge has a place: the
/// start of its target, or the end of its source, before an unguarded `bra` if there is one. A declaration stays as it
/// is.
#[must_use]
pub fn split_critical_edges(module: &Module, function: &Function) -> Function {
    let cfg = Cfg::new(module, function);
    let mut incoming = vec![0u32; cfg.blocks.len()];
    for &to in cfg.blocks.iter().flat_map(|block| &block.successors) {
        incoming[to as usize] = incoming[to as usize].saturating_add(1);
    }
    let loops_to_entry = incoming.first().is_some_and(|&count| count > 0);
    let instrs = function.instrs();
    let last = |block: &crate::cfg::Block| instrs.get((block.end as usize).checked_sub(1)?);
    let forks = |block: &crate::cfg::Block| {
        let table = |last: &Instr| last.guard.is_some() || matches!(last.op, Op::BrxIdx { .. });
        block.successors.len() > 1 || block.exits || last(block).is_some_and(table)
    };
    let joins = |to: u32| incoming.get(to as usize).is_some_and(|&count| count > 1);
    let critical: Vec<bool> = cfg
        .blocks
        .iter()
        .map(|block| forks(block) && block.successors.iter().any(|&to| joins(to) || to == 0))
        .collect();
    if !loops_to_entry && !critical.contains(&true) {
        return function.clone();
    }
    let joins = |to: u32| joins(to) || to == 0;
    let mut label_of = vec![None; cfg.blocks.len()];
    for (id, label) in (0u32..).zip(&function.labels) {
        if let Some(&block) = cfg.block_of.get(label.at as usize) {
            label_of[block as usize] = Some(LabelId(id));
        }
    }
    let target_block = |label: LabelId| {
        let block = cfg.block_of.get(function.target(label));
        block.copied().filter(|&block| joins(block))
    };
    let (mut edit, old) = Edit::new(module, function);
    // Blocks for branches, after all others: label, target, origin.
    let mut behind: Vec<(LabelId, LabelId, Origin)> = Vec::new();
    if let Some(&Some(entry)) = label_of.first().filter(|_| loops_to_entry) {
        edit.branch(None, entry, old.first().map_or(Origin::NONE, Origin::of));
    }
    let count = old.len();
    for (at, mut instr) in old.into_iter().enumerate() {
        edit.begin(at);
        let block = cfg.block_of.get(at).copied().unwrap_or(0) as usize;
        let ends = cfg.blocks.get(block).is_some_and(|block| block.end as usize == at + 1);
        if !ends || !critical.get(block).is_some_and(|&critical| critical) {
            edit.push(instr);
            continue;
        }
        let origin = Origin::of(&instr);
        let mut split: HashMap<u32, LabelId> = HashMap::new();
        let mut redirect = |edit: &mut Edit, label: &mut LabelId| {
            let Some(block) = target_block(*label) else { return };
            let target = *label;
            *label = *split.entry(block).or_insert_with(|| {
                let new = edit.label("edge");
                behind.push((new, target, origin));
                new
            });
        };
        match &mut instr.op {
            Op::Bra { target, .. } => redirect(&mut edit, target),
            Op::BrxIdx { table, .. } => {
                // Other branches may use the table.
                let mut new = edit.function.tables.get(table.index()).cloned().unwrap_or_default();
                for label in &mut new {
                    redirect(&mut edit, label);
                }
                *table = TableId(u32::try_from(edit.function.tables.len()).unwrap_or(u32::MAX));
                edit.function.tables.push(new);
            }
            _ => {}
        }
        let falls = instr.guard.is_some()
            || !matches!(instr.op, Op::Bra { .. } | Op::BrxIdx { .. } | Op::Ret { .. });
        edit.push(instr);
        let next = cfg.block_of.get(at + 1).filter(|_| falls && at + 1 < count);
        if let Some(&next) = next.filter(|&&next| joins(next))
            && let Some(label) = label_of.get(next as usize).copied().flatten()
            && cfg.blocks.get(block).is_some_and(|block| block.successors.contains(&next))
        {
            edit.branch(None, label, origin);
        }
    }
    edit.begin(count);
    if !behind.is_empty() && reaches_end(&cfg, function, |_| true) {
        edit.push(ret(Origin::NONE));
    }
    for (label, target, origin) in behind {
        edit.place(label);
        edit.branch(None, target, origin);
    }
    edit.finish()
}
