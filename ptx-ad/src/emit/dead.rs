//! Removes instructions whose results nobody reads: of the kernel that is repeated, the adjoint needs a part.

use std::collections::{HashMap, HashSet};

use ptx::ir::{Function, Instr, Op, RegId};

use super::builder::{Line, Link};

/// Makes the body of a function of the lines that have an effect, and returns what they read of the adjoint's own memory.
pub(super) fn remove(function: &mut Function, code: Vec<Line>) -> HashSet<Link> {
    let mut writers: HashMap<RegId, Vec<usize>> = HashMap::new();
    let mut stores: HashMap<Link, Vec<usize>> = HashMap::new();
    let mut needed = vec![false; code.len()];
    let mut open = Vec::new();
    for (at, line) in code.iter().enumerate() {
        let Line::Instr(instr, link) = line else { continue };
        instr.for_each_def(|reg| writers.entry(reg).or_default().push(at));
        match link.filter(|_| matches!(instr.op, Op::St { .. })) {
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
        // Each register is looked up once: its writers are all needed then.
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

/// Returns whether an instruction does more than to write registers.
fn has_effect(instr: &Instr) -> bool {
    match &instr.op {
        // The carry flag is no register.
        Op::Carry { .. } => true,
        // Lanes wait for each other here.
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
