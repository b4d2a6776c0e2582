//! Removes instructions whose results are not read: the adjoint needs only a part of the repeated kernel.

use std::collections::{HashMap, HashSet};

use ptx::ir::{Function, Instr, Op, RegId};

use super::builder::{Line, Link};

/// Gives a function the lines that have an effect or are needed for one. Returns the links that they load.
pub(super) fn remove(function: &mut Function, code: Vec<Line>) -> HashSet<Link> {
    let mut writers: HashMap<RegId, Vec<usize>> = HashMap::new();
    let mut stores: HashMap<Link, Vec<usize>> = HashMap::new();
    let mut needed = vec![false; code.len()];
    let mut open = Vec::new();
    for (at, line) in code.iter().enumerate() {
        let Line::Instr(instr, link) = line else { continue };
        instr.for_each_def(|reg| writers.entry(reg).or_default().push(at));
        match link.filter(|_| matches!(instr.op, Op::St { .. } | Op::Atom { .. })) {
            Some(link) => stores.entry(link).or_default().push(at),
            None if has_effect(instr) => {
                if let Some(place) = needed.get_mut(at) {
                    *place = true;
                }
                open.push(at);
            }
            None => {}
        }
    }
    let mut links = HashSet::new();
    while let Some(at) = open.pop() {
        let Some(Line::Instr(instr, link)) = code.get(at) else { continue };
        let mut need = |list: Option<Vec<usize>>| {
            for writer in list.into_iter().flatten() {
                if let Some(place) = needed.get_mut(writer).filter(|place| !**place) {
                    *place = true;
                    open.push(writer);
                }
            }
        };
        // `remove`, not `get`: all writers of a register are marked at once.
        instr.for_each_use(|reg| need(writers.remove(&reg)));
        if let Some(link) = link.filter(|_| matches!(instr.op, Op::Ld { .. })) {
            links.insert(link);
            need(stores.remove(&link));
        }
    }
    let mut body = Vec::new();
    for (line, needed) in code.into_iter().zip(&needed) {
        match line {
            Line::Label(label) => {
                let here = u32::try_from(body.len()).unwrap_or(u32::MAX);
                if let Some(label) = function.labels.get_mut(label.index()) {
                    label.at = here;
                }
            }
            Line::Instr(instr, _) if *needed => body.push(instr),
            Line::Instr(..) => {}
        }
    }
    function.body = Some(body);
    links
}

/// Returns whether an instruction does more than write registers.
fn has_effect(instr: &Instr) -> bool {
    match &instr.op {
        // The carry flag is an effect, since it is no register.
        Op::Carry { .. } => true,
        // The lanes of a warp wait for each other at these.
        Op::Shfl { .. }
        | Op::Vote { .. }
        | Op::Match { .. }
        | Op::Redux { .. }
        | Op::Elect { .. } => true,
        Op::Ld { access, .. } => access.order != ptx::ir::Order::Weak,
        _ => {
            let mut writes = false;
            instr.for_each_def(|_| writes = true);
            !writes || matches!(instr.op, Op::Atom { .. } | Op::Bar { .. } | Op::Call { .. })
        }
    }
}
