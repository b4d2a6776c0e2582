//! Hoists loads: in a run of instructions without branches, loads from global memory and their addresses come before
//! arithmetic.
//!
//! The reverse loads gradients after the replay's arithmetic. The driver's compiler expands exact roots and quotients
//! to branches and moves no load across one, so the gradients' loads would wait for the kernel's.

use ptx::ir::{BinaryOp, Function, Instr, LdKind, MulPart, Op, Order, RegId, Space, Type};

/// The most words to hoist: each holds a register until its use.
const MOST_WORDS: u32 = 32;

/// What an instruction depends on in the run.
#[derive(Debug, Clone, Default)]
struct Needs {
    /// Positions in the run, and whether the dependency is on a loaded value.
    before: Vec<(usize, bool)>,
    /// Whether the instruction and all its dependencies may move.
    moves: bool,
    /// The length of the longest chain of loads before it.
    level: u32,
}

/// The last writer of a register, and its readers since.
#[derive(Debug, Clone, Default)]
struct Last {
    writer: Option<usize>,
    readers: Vec<usize>,
}

/// Returns the function with its loads hoisted.
pub(crate) fn hoist_loads(mut function: Function) -> Function {
    let calls = function.instrs().iter().any(|instr| matches!(instr.op, Op::Call { .. }));
    let Some(code) = function.body.take().filter(|_| !calls) else { return function };
    let starts = starts(&function, &code);
    let mut last = vec![Last::default(); function.registers.len()];
    let mut moved = Vec::with_capacity(code.len());
    let mut run = Vec::new();
    for (instr, start) in code.into_iter().zip(starts) {
        if start {
            moved.extend(reorder(std::mem::take(&mut run), &mut last));
        }
        let ends = ends_run(&instr.op);
        run.push(instr);
        if ends {
            moved.extend(reorder(std::mem::take(&mut run), &mut last));
        }
    }
    moved.extend(reorder(run, &mut last));
    function.body = Some(moved);
    function
}

/// Returns whether each instruction is the target of a branch.
fn starts(function: &Function, code: &[Instr]) -> Vec<bool> {
    let mut starts = vec![false; code.len()];
    let mut mark = |at: u32| {
        if let Some(start) = starts.get_mut(at as usize) {
            *start = true;
        }
    };
    if function.tables.is_empty() {
        for instr in code {
            if let Op::Bra { target, .. } = instr.op {
                function.labels.get(target.index()).into_iter().for_each(|label| mark(label.at));
            }
        }
    } else {
        function.labels.iter().for_each(|label| mark(label.at));
    }
    starts
}

/// Returns whether an instruction ends a run.
fn ends_run(op: &Op) -> bool {
    match op {
        Op::Ld { access, .. } | Op::St { access, .. } => access.order != Order::Weak,
        Op::Unary { .. }
        | Op::Binary { .. }
        | Op::MinMax3 { .. }
        | Op::Mul { .. }
        | Op::Mad { .. }
        | Op::Fma { .. }
        | Op::Mul24 { .. }
        | Op::Mad24 { .. }
        | Op::Sad { .. }
        | Op::Bfind { .. }
        | Op::Bfe { .. }
        | Op::Bfi { .. }
        | Op::Lop3 { .. }
        | Op::Shf { .. }
        | Op::Prmt { .. }
        | Op::Testp { .. }
        | Op::Setp { .. }
        | Op::Set { .. }
        | Op::Selp { .. }
        | Op::Slct { .. }
        | Op::Mov { .. }
        | Op::Pack { .. }
        | Op::Unpack { .. }
        | Op::Cvta { .. }
        | Op::Cvt { .. }
        | Op::Atom { .. } => false,
        _ => true,
    }
}

/// Returns whether an instruction may move before arithmetic: a load, or integer code for an address or a predicate.
fn may_move(instr: &Instr) -> bool {
    let is_integer = |ty: Type| !ty.is_float();
    match &instr.op {
        Op::Ld { kind: LdKind::Plain | LdKind::NonCoherent, access, .. } => {
            matches!(access.space, Space::Global | Space::Param | Space::ParamEntry | Space::Const)
        }
        Op::Mov { .. } | Op::Cvta { .. } | Op::Pack { .. } | Op::Unpack { .. } => true,
        Op::Selp { .. } | Op::Bfe { .. } | Op::Lop3 { .. } | Op::Shf { .. } => true,
        Op::Binary { op, ty, .. } => {
            is_integer(*ty) && !matches!(op, BinaryOp::Div | BinaryOp::Rem)
        }
        Op::Unary { ty, .. } | Op::Setp { ty, .. } => is_integer(*ty),
        Op::Mul { part, .. } | Op::Mad { part, .. } => {
            matches!(part, Some(MulPart::Lo | MulPart::Wide))
        }
        Op::Cvt { to, from, .. } => is_integer(*to) && is_integer(*from),
        _ => false,
    }
}

/// Returns how many words an instruction loads from global memory.
fn loads(instr: &Instr) -> Option<u32> {
    match &instr.op {
        Op::Ld { access, ty, d, .. } if access.space == Space::Global => {
            let count = u32::try_from(d.iter().flatten().count()).unwrap_or(u32::MAX);
            Some(count.saturating_mul(ty.bits().div_ceil(32)))
        }
        _ => None,
    }
}

/// Returns the run with its loads first. Leaves `last` empty, as it was.
fn reorder(run: Vec<Instr>, last: &mut [Last]) -> Vec<Instr> {
    let count = run.iter().filter(|instr| loads(instr).is_some()).count();
    if count == 0 {
        return run;
    }
    let needs = needs(&run, last);
    for instr in &run {
        let mut clear = |reg: RegId| {
            if let Some(place) = last.get_mut(reg.index()) {
                *place = Last::default();
            }
        };
        instr.for_each_register(|_, reg| clear(reg));
    }
    let level = |at: usize| needs.get(at).map_or(0, |needs| needs.level);
    let mut wanted: Vec<(usize, u32)> = run
        .iter()
        .enumerate()
        .filter_map(|(at, instr)| Some((at, loads(instr)?)))
        .filter(|(at, _)| needs.get(*at).is_some_and(|needs| needs.moves))
        .collect();
    wanted.sort_by_key(|(at, _)| level(*at));
    let (mut first, mut words) = (vec![false; run.len()], 0u32);
    for (at, more) in wanted {
        words = words.saturating_add(more);
        if words > MOST_WORDS {
            break;
        }
        let mut open = vec![at];
        while let Some(at) = open.pop() {
            if let Some(place) = first.get_mut(at).filter(|place| !**place) {
                *place = true;
                let before = needs.get(at).map_or(&[][..], |needs| &needs.before);
                open.extend(before.iter().map(|(before, _)| *before));
            }
        }
    }
    let mut order: Vec<usize> = (0..run.len()).collect();
    let place = |at: usize| match first.get(at) {
        Some(true) => level(at),
        _ => u32::MAX,
    };
    order.sort_by_key(|at| place(*at));
    let mut run: Vec<Option<Instr>> = run.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| run.get_mut(at)?.take()).collect()
}

/// Returns the dependencies of each instruction of a run.
fn needs(run: &[Instr], last: &mut [Last]) -> Vec<Needs> {
    let mut all: Vec<Needs> = Vec::with_capacity(run.len());
    let mut stored = false;
    for (at, instr) in run.iter().enumerate() {
        let mut own = Needs { moves: may_move(instr), ..Needs::default() };
        instr.for_each_use(|reg| {
            let Some(last) = last.get(reg.index()) else { return };
            own.before.extend(last.writer.map(|writer| (writer, true)));
        });
        instr.for_each_def(|reg| {
            let Some(last) = last.get(reg.index()) else { return };
            own.before.extend(last.writer.map(|writer| (writer, false)));
            own.before.extend(last.readers.iter().map(|reader| (*reader, false)));
        });
        if loads(instr).is_some() {
            own.moves &= !stored;
        }
        let is_private =
            |space: Space| matches!(space, Space::Local | Space::Shared | Space::SharedCta);
        stored |= match &instr.op {
            Op::St { access, .. } | Op::Atom { access, .. } => !is_private(access.space),
            _ => false,
        };
        for &(before, reads) in &own.before {
            let Some(needed) = all.get(before) else { continue };
            let waits = reads && run.get(before).is_some_and(|instr| loads(instr).is_some());
            own.moves &= needed.moves;
            own.level = own.level.max(needed.level + u32::from(waits));
        }
        all.push(own);
        instr.for_each_use(|reg| {
            if let Some(last) = last.get_mut(reg.index()) {
                last.readers.push(at);
            }
        });
        instr.for_each_def(|reg| {
            // A guarded write depends on the writer before it, and so do its readers.
            if let Some(last) = last.get_mut(reg.index()) {
                *last = Last { writer: Some(at), readers: Vec::new() };
            }
        });
    }
    all
}
