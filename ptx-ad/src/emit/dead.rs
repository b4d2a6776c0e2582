//! Removes instructions whose results nobody reads: of the kernel that is repeated, the adjoint needs a part.

use std::collections::HashMap;

use ptx::ir::{Function, Instr, Op, RegId};

/// Removes what has no effect, and returns for each register whether it is still written.
pub(super) fn remove(function: &mut Function) -> Vec<bool> {
    let code = function.body.take().unwrap_or_default();
    let mut writers: HashMap<RegId, Vec<usize>> = HashMap::new();
    for (at, instr) in code.iter().enumerate() {
        instr.for_each_def(|reg| writers.entry(reg).or_default().push(at));
    }
    let mut needed: Vec<bool> = code.iter().map(has_effect).collect();
    let mut open: Vec<usize> =
        (0..code.len()).filter(|&at| needed.get(at) == Some(&true)).collect();
    while let Some(at) = open.pop() {
        let Some(instr) = code.get(at) else { continue };
        instr.for_each_use(|reg| {
            // Each register is looked up once: its writers are all needed then.
            for writer in writers.remove(&reg).into_iter().flatten() {
                if let Some(place) = needed.get_mut(writer).filter(|place| !**place) {
                    *place = true;
                    open.push(writer);
                }
            }
        });
    }
    let mut places = Vec::with_capacity(code.len() + 1);
    let mut body = Vec::new();
    let mut written = vec![false; function.registers.len()];
    for (instr, needed) in code.into_iter().zip(&needed) {
        places.push(u32::try_from(body.len()).unwrap_or(u32::MAX));
        if *needed {
            instr.for_each_def(|reg| {
                if let Some(place) = written.get_mut(reg.index()) {
                    *place = true;
                }
            });
            body.push(instr);
        }
    }
    let end = u32::try_from(body.len()).unwrap_or(u32::MAX);
    for label in &mut function.labels {
        label.at = places.get(label.at as usize).copied().unwrap_or(end);
    }
    function.body = Some(body);
    written
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
