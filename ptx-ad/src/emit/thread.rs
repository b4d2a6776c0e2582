//! Jump threading: a branch to a branch whose predicate is known jumps to its target.
//!
//! Threads that skip a block skip its reverse. If both paths shared a branch, the driver's compiler would not move the
//! kernel's loads across it to those of its reverse, so they would wait for each other.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ptx::cfg::Cfg;
use ptx::ir::{Function, Instr, Label, LabelId, Module, Op, Operand, Pred, RegId};
use ptx::simplify::remove_unreachable;

/// The most rounds; later ones change little.
const MOST_ROUNDS: u32 = 8;

/// The most facts at all blocks together; functions with more stay as they are.
const MOST_FACTS: usize = 1 << 20;

/// Known predicates, ordered so that the text is deterministic.
type Facts = BTreeMap<RegId, bool>;

/// Returns the function with threaded jumps.
pub(crate) fn shorten(module: &Module, mut function: Function) -> Function {
    for _ in 0..MOST_ROUNDS {
        let cfg = Cfg::new(module, &function);
        let wanted = guards(&function);
        if wanted.len().saturating_mul(cfg.blocks.len()) > MOST_FACTS {
            return function;
        }
        let facts = facts(&cfg, &function, &wanted);
        let changed = retarget(&cfg, &mut function, &facts, &wanted);
        function = remove_unreachable(module, &function);
        let dropped = drop_jumps(&mut function);
        if !changed && !dropped {
            break;
        }
    }
    function
}

/// Returns the predicates that guard several branches.
fn guards(function: &Function) -> BTreeSet<RegId> {
    let mut times: HashMap<RegId, u32> = HashMap::new();
    for instr in function.instrs() {
        if let (Op::Bra { .. }, Some(pred)) = (&instr.op, instr.guard) {
            *times.entry(pred.reg).or_default() += 1;
        }
    }
    times.into_iter().filter(|(_, times)| *times > 1).map(|(reg, _)| reg).collect()
}

/// Returns the facts at the end of each block; `None` for unreachable ones.
fn facts(cfg: &Cfg, function: &Function, wanted: &BTreeSet<RegId>) -> Vec<Option<Facts>> {
    let mut at_start: Vec<Option<Facts>> = vec![None; cfg.blocks.len()];
    let mut at_end: Vec<Option<Facts>> = vec![None; cfg.blocks.len()];
    if let Some(first) = at_start.first_mut() {
        *first = Some(Facts::new());
    }
    loop {
        let mut changed = false;
        for &number in &cfg.order {
            let Some(Some(start)) = at_start.get(number as usize).cloned() else { continue };
            let end = after_block(cfg, function, number, start, wanted);
            let targets =
                cfg.blocks.get(number as usize).map_or(&[][..], |block| &block.successors);
            for &to in targets {
                let here = along(cfg, function, (number, to), &end, wanted);
                let Some(place) = at_start.get_mut(to as usize) else { continue };
                let met = match place.as_ref() {
                    None => here,
                    Some(known) => {
                        let both = known.iter().filter(|(reg, is)| here.get(reg) == Some(is));
                        both.map(|(reg, is)| (*reg, *is)).collect()
                    }
                };
                if place.as_ref() != Some(&met) {
                    *place = Some(met);
                    changed = true;
                }
            }
            if let Some(place) = at_end.get_mut(number as usize) {
                *place = Some(end);
            }
        }
        if !changed {
            return at_end;
        }
    }
}

/// Returns the facts after the instructions of a block.
fn after_block(
    cfg: &Cfg,
    function: &Function,
    number: u32,
    mut facts: Facts,
    wanted: &BTreeSet<RegId>,
) -> Facts {
    let Some(block) = cfg.blocks.get(number as usize) else { return facts };
    let code = function.instrs().get(block.start as usize..block.end as usize);
    for instr in code.unwrap_or_default() {
        instr.for_each_def(|reg| {
            facts.remove(&reg);
        });
        if let (Op::Mov { d: Some(d), a: Operand::Imm(value), .. }, None) = (&instr.op, instr.guard)
            && wanted.contains(d)
        {
            facts.insert(*d, *value != 0);
        }
    }
    facts
}

/// Returns the facts on the edge from a block to another.
fn along(
    cfg: &Cfg,
    function: &Function,
    (from, to): (u32, u32),
    end: &Facts,
    wanted: &BTreeSet<RegId>,
) -> Facts {
    let mut facts = end.clone();
    let Some(block) = cfg.blocks.get(from as usize) else { return facts };
    let last = block.end.checked_sub(1).and_then(|at| function.instrs().get(at as usize));
    if let Some(Instr { op: Op::Bra { target, .. }, guard: Some(pred), .. }) = last {
        let taken = block_at(cfg, function, *target) == Some(to);
        let falls = to == from.wrapping_add(1);
        if taken != falls && wanted.contains(&pred.reg) {
            facts.insert(pred.reg, taken != pred.negated);
        }
    }
    facts
}

fn block_at(cfg: &Cfg, function: &Function, label: LabelId) -> Option<u32> {
    cfg.block_of.get(function.labels.get(label.index())?.at as usize).copied()
}

/// Retargets branches. Returns whether one has changed.
fn retarget(
    cfg: &Cfg,
    function: &mut Function,
    facts: &[Option<Facts>],
    wanted: &BTreeSet<RegId>,
) -> bool {
    let mut changed = false;
    for (number, block) in (0u32..).zip(&cfg.blocks) {
        let Some(Some(end)) = facts.get(number as usize) else { continue };
        let Some(at) = block.end.checked_sub(1).map(|at| at as usize) else { continue };
        let Some(Instr { op: Op::Bra { uni, target }, guard, .. }) = function.instrs().get(at)
        else {
            continue;
        };
        let (uni, target, guard) = (*uni, *target, *guard);
        // `known` branches are always taken, or never.
        let known = guard.and_then(|pred| Some(*end.get(&pred.reg)? != pred.negated));
        if known == Some(false) {
            // A branch to the next instruction: `drop_jumps` removes it.
            let next = label_at(function, block.end);
            set(function, at, Op::Bra { uni, target: next }, None);
            changed = true;
            continue;
        }
        let Some(to) = block_at(cfg, function, target) else { continue };
        let here = along(cfg, function, (number, to), end, wanted);
        let shorter = beyond(cfg, function, to, &here);
        if shorter.is_some() || known == Some(true) {
            let target = shorter.map_or(target, |place| match place {
                Place::Label(label) => label,
                Place::Start(at) => label_at(function, at),
            });
            let guard = guard.filter(|_| known.is_none());
            set(function, at, Op::Bra { uni, target }, guard);
            changed = true;
        }
    }
    changed
}

/// Where a branch leads.
enum Place {
    Label(LabelId),
    Start(u32),
}

/// Returns where a block that only branches leads to, if the facts decide it.
fn beyond(cfg: &Cfg, function: &Function, to: u32, facts: &Facts) -> Option<Place> {
    let block = cfg.blocks.get(to as usize)?;
    if block.end != block.start.checked_add(1)? {
        return None;
    }
    let Instr { op: Op::Bra { target, .. }, guard, .. } =
        function.instrs().get(block.start as usize)?
    else {
        return None;
    };
    let Some(Pred { reg, negated }) = *guard else { return Some(Place::Label(*target)) };
    let taken = *facts.get(&reg)? != negated;
    Some(if taken { Place::Label(*target) } else { Place::Start(block.end) })
}

/// Returns a label before an instruction.
fn label_at(function: &mut Function, at: u32) -> LabelId {
    let known = function.labels.iter().position(|label| label.at == at);
    let index = known.unwrap_or_else(|| {
        let name = format!("$ad_{}", function.labels.len());
        function.labels.push(Label { name, at });
        function.labels.len() - 1
    });
    LabelId(u32::try_from(index).unwrap_or(u32::MAX))
}

fn set(function: &mut Function, at: usize, op: Op, guard: Option<Pred>) {
    if let Some(instr) = function.body.as_mut().and_then(|body| body.get_mut(at)) {
        (instr.op, instr.guard) = (op, guard);
    }
}

/// Removes branches to the next instruction. Returns whether there were any.
fn drop_jumps(function: &mut Function) -> bool {
    let Some(code) = function.body.take() else { return false };
    let is_next = |at: usize, instr: &Instr| match instr.op {
        Op::Bra { target, .. } => {
            let to = function.labels.get(target.index()).map(|label| label.at as usize);
            to == at.checked_add(1)
        }
        _ => false,
    };
    let mut places = Vec::with_capacity(code.len() + 1);
    let mut left = Vec::with_capacity(code.len());
    let before = code.len();
    for (at, instr) in code.into_iter().enumerate() {
        places.push(u32::try_from(left.len()).unwrap_or(u32::MAX));
        if !is_next(at, &instr) {
            left.push(instr);
        }
    }
    let end = u32::try_from(left.len()).unwrap_or(u32::MAX);
    let dropped = left.len() < before;
    for label in &mut function.labels {
        label.at = places.get(label.at as usize).copied().unwrap_or(end);
    }
    function.body = Some(left);
    dropped
}
