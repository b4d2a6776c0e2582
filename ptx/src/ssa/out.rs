//! Out of the form.
//!
//! Every register of the form keeps a register of its own, so that copies from the arguments to the parameters, at the end
//! of each predecessor, are all that is needed: the predecessor has no other successor, which could read what a
//! parameter held before (the problem of the lost copy). The copies of one edge are done as if at once: one that
//! overwrites another's source waits for that, and a cycle gets a register more (the problem of the swap).

use super::Ssa;
use crate::cfg::register;
use crate::ir::{Function, Instr, Op, RegId};
use crate::simplify::{Origin, copy};

pub(super) fn into_function(ssa: Ssa) -> Function {
    let Ssa { mut function, cfg, params, results, .. } = ssa;
    let mut copies: Vec<Vec<(RegId, RegId)>> = vec![Vec::new(); cfg.blocks.len()];
    for param in params.iter().flatten() {
        for &(from, arg) in &param.args {
            if let Some(copies) = copies.get_mut(from as usize) {
                copies.push((param.reg, arg));
            }
        }
    }
    let formals: Vec<RegId> = function.returns.iter().filter_map(register).collect();
    for (copies, results) in copies.iter_mut().zip(&results) {
        copies.extend(formals.iter().copied().zip(results.iter().copied()));
    }
    if copies.iter().all(Vec::is_empty) {
        return function;
    }
    let old = function.body.take().unwrap_or_default();
    let mut body = Vec::with_capacity(old.len() + copies.iter().map(Vec::len).sum::<usize>());
    let mut places = Vec::with_capacity(old.len());
    let mut order = Sequence::default();
    for (at, instr) in old.into_iter().enumerate() {
        let block = cfg.block_of.get(at).map_or(usize::MAX, |&block| block as usize);
        let last = cfg.blocks.get(block).is_some_and(|block| block.end as usize == at + 1);
        let list = copies.get_mut(block).filter(|_| last).map(std::mem::take).unwrap_or_default();
        let leaves = matches!(
            instr.op,
            Op::Bra { .. } | Op::BrxIdx { .. } | Op::Ret { .. } | Op::Exit | Op::Trap
        );
        let origin = Origin::of(&instr);
        places.push(u32::try_from(body.len()).unwrap_or(u32::MAX));
        let mut instr = Some(instr);
        if !leaves {
            body.extend(instr.take());
        }
        order.run(&mut function, list, |function, d, a| {
            let ty = function.registers.get(a.index()).copied().unwrap_or(crate::ir::Type::B32);
            let Origin { line, loc } = origin;
            body.push(Instr { guard: None, op: copy(ty, d, a), line, loc });
        });
        body.extend(instr);
    }
    let end = u32::try_from(body.len()).unwrap_or(u32::MAX);
    for label in &mut function.labels {
        label.at = places.get(label.at as usize).copied().unwrap_or(end);
    }
    function.body = Some(body);
    function
}

/// Puts copies that are done at once into an order.
#[derive(Default)]
struct Sequence {
    /// The source that each target still waits for.
    source: Vec<Option<RegId>>,
    /// How many waiting copies read each register.
    readers: Vec<u32>,
}

impl Sequence {
    /// Calls `emit` for each copy, target and source. The targets of `list` are different.
    fn run(
        &mut self,
        function: &mut Function,
        mut list: Vec<(RegId, RegId)>,
        mut emit: impl FnMut(&Function, RegId, RegId),
    ) {
        list.retain(|(d, a)| d != a);
        let most = list.iter().flat_map(|(d, a)| [d.index(), a.index()]).max();
        let count = most.map_or(0, |most| most + 1).min(function.registers.len());
        list.retain(|(d, a)| d.index() < count && a.index() < count);
        if self.source.len() < count {
            self.source.resize(count, None);
            self.readers.resize(count, 0);
        }
        for &(d, a) in &list {
            self.source[d.index()] = Some(a);
            self.readers[a.index()] += 1;
        }
        let free = list.iter().map(|&(d, _)| d).filter(|d| self.readers[d.index()] == 0);
        let mut ready: Vec<RegId> = free.collect();
        let mut next = list.iter().map(|&(d, _)| d);
        loop {
            while let Some(d) = ready.pop() {
                let Some(a) = self.source[d.index()].take() else { continue };
                emit(function, d, a);
                let readers = &mut self.readers[a.index()];
                *readers = readers.saturating_sub(1);
                if *readers == 0 && self.source[a.index()].is_some() {
                    ready.push(a);
                }
            }
            // The remaining copies form circles: each register of one is read once.
            let Some(first) = next.find(|d| self.source[d.index()].is_some()) else { return };
            let Some(ty) = function.registers.get(first.index()).copied() else { return };
            let saved = function.fresh_register(ty);
            emit(function, saved, first);
            let mut at = first;
            while let Some(a) = self.source[at.index()].take() {
                self.readers[a.index()] = 0;
                emit(function, at, if a == first { saved } else { a });
                at = a;
            }
        }
    }
}
