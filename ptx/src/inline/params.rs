//! Arguments and results of inlined calls: they become registers or local memory.

use std::collections::HashMap;

use crate::ir::{
    Address, Base, Formal, Function, Instr, Module, Op, Operand, PlaceMut, RegId, Space, Symbol,
    Type, VarId,
};
use crate::simplify::Edit;

/// The instances of shared variables, and their originals.
type Shared = HashMap<VarId, (usize, VarId)>;

/// The replacement of a variable.
enum Fate {
    /// The variable stays.
    Keep,
    /// The variable becomes local memory.
    Local,
    /// Each part, by its offset, becomes a register.
    Registers(HashMap<u64, RegId>),
}

/// Replaces the variables in the space of parameters that are no formal parameters and that no call names. `shared`
/// is returned with the new numbers of variables.
pub(super) fn replace(
    module: &Module,
    mut function: Function,
    shared: Shared,
) -> (Function, Shared) {
    let fates = fates(&mut function);
    if fates.iter().all(|fate| matches!(fate, Fate::Keep)) {
        return (function, shared);
    }
    let (mut edit, old) = Edit::new(module, &function);
    let end = old.len();
    for (at, mut instr) in old.into_iter().enumerate() {
        edit.begin(at);
        match access(&mut instr.op).and_then(|(_, var, _)| fates.get(var.index())) {
            Some(Fate::Registers(parts)) => moves(&mut edit, parts, &instr),
            Some(Fate::Local) => {
                if let Op::Ld { access, .. } | Op::St { access, .. } = &mut instr.op {
                    access.space = Space::Local;
                }
                edit.push(instr);
            }
            Some(Fate::Keep) | None => edit.push(instr),
        }
    }
    edit.begin(end);
    let mut function = edit.finish();
    let numbers = renumber(&mut function, &fates);
    let moved = |at: VarId| numbers.get(at.index()).copied().flatten().unwrap_or(at);
    let shared = shared.into_iter().map(|(at, origin)| (moved(at), origin)).collect();
    (function, shared)
}

/// Returns a load or store of part of a parameter: the type, the variable and the offset.
fn access(op: &mut Op) -> Option<(Type, VarId, i64)> {
    let (Op::Ld { access, ty, addr, .. } | Op::St { access, ty, addr, .. }) = op else {
        return None;
    };
    let Address { base: Base::Symbol(Symbol::Var(var)), offset } = *addr else { return None };
    matches!(access.space, Space::Param | Space::ParamFunc).then_some((*ty, var, offset))
}

/// Decides about each variable, and adds the registers.
fn fates(function: &mut Function) -> Vec<Fate> {
    let count = function.variables.len();
    let param = |space| matches!(space, Space::Param | Space::ParamFunc);
    let mut keep: Vec<bool> = function.variables.iter().map(|var| !param(var.space)).collect();
    for formal in function.params.iter().chain(&function.returns) {
        if let Formal::Var(id) = formal
            && let Some(keep) = keep.get_mut(id.index())
        {
            *keep = true;
        }
    }
    let mut local = vec![false; count];
    let mut parts: Vec<(VarId, u64, u32)> = Vec::new();
    let mut body = function.body.take().unwrap_or_default();
    for instr in &mut body {
        if let Op::Call { returns, args, .. } = &instr.op {
            for operand in returns.iter().chain(args) {
                if let Operand::Symbol(Symbol::Var(id), _) = operand
                    && let Some(keep) = keep.get_mut(id.index())
                {
                    *keep = true;
                }
            }
            continue;
        }
        let Some((ty, var, offset)) = access(&mut instr.op) else {
            instr.for_each_place_mut(|place| {
                if let PlaceMut::Symbol(Symbol::Var(id)) = place
                    && let Some(local) = local.get_mut(id.index())
                {
                    *local = true;
                }
            });
            continue;
        };
        let size = function.variables.get(var.index()).map_or(0, crate::ir::Variable::size);
        let Some(local) = local.get_mut(var.index()) else { continue };
        *local |= !fits(&instr.op, &function.registers);
        let mut offset = u64::try_from(offset).unwrap_or(u64::MAX);
        let elements = match &instr.op {
            Op::Ld { d, .. } => d.len(),
            Op::St { a, .. } => a.len(),
            _ => 0,
        };
        for _ in 0..elements {
            let end = offset.saturating_add(ty.bytes().into());
            *local |= end > size;
            parts.push((var, offset, ty.bytes()));
            offset = end;
        }
    }
    function.body = Some(body);
    parts.sort_unstable();
    parts.dedup();
    for pair in parts.windows(2) {
        if let [(one, from, bytes), (other, next, _)] = *pair
            && one == other
            && from.saturating_add(bytes.into()) > next
            && let Some(local) = local.get_mut(one.index())
        {
            *local = true;
        }
    }
    let mut fates: Vec<Fate> = keep
        .iter()
        .zip(&local)
        .map(|(keep, local)| match (keep, local) {
            (true, _) => Fate::Keep,
            (false, true) => Fate::Local,
            (false, false) => Fate::Registers(HashMap::new()),
        })
        .collect();
    for (var, offset, bytes) in parts {
        if let Some(Fate::Registers(registers)) = fates.get_mut(var.index()) {
            let ty = match bytes {
                0..=2 => Type::B16,
                3..=4 => Type::B32,
                5..=8 => Type::B64,
                _ => Type::B128,
            };
            registers.insert(offset, function.fresh_register(ty));
        }
    }
    fates
}

/// Returns whether moves between registers can replace a load or store.
fn fits(op: &Op, registers: &[Type]) -> bool {
    let width = |reg: &RegId| registers.get(reg.index()).map_or(0, |ty| ty.bits());
    let whole = |ty: &Type| matches!(ty.bits(), 8 | 16 | 32 | 64 | 128);
    match op {
        Op::Ld { ty, d, .. } => {
            whole(ty)
                && d.iter().flatten().all(|reg| {
                    let width = width(reg);
                    width == ty.bits() || width > ty.bits() && width <= 64 && !ty.is_float()
                })
        }
        Op::St { ty, a, .. } => {
            whole(ty)
                && a.iter().all(|a| match a {
                    Operand::Reg(reg) => {
                        let width = width(reg);
                        width == ty.bits() || width > ty.bits() && width <= 64 && !ty.is_float()
                    }
                    Operand::Imm(_) => ty.bits() <= 64,
                    Operand::Special(_) | Operand::Symbol(..) => false,
                })
        }
        _ => false,
    }
}

/// Writes moves in the place of a load or store.
fn moves(edit: &mut Edit, parts: &HashMap<u64, RegId>, instr: &Instr) {
    let Instr { guard, op, line, loc } = instr;
    let part = |ty: &Type, offset: i64, at: usize| {
        let start = u64::try_from(offset).unwrap_or(u64::MAX);
        let skipped = u64::from(ty.bytes()).saturating_mul(at as u64);
        parts.get(&start.saturating_add(skipped)).copied()
    };
    let width = |reg: RegId| edit.function.registers.get(reg.index()).map_or(32, |ty| ty.bits());
    let moves: Vec<Op> = match op {
        Op::Ld { ty, d, addr, .. } => (0..)
            .zip(d)
            .filter_map(|(at, &d)| {
                let d = d?;
                Some(loaded(*ty, (d, width(d)), part(ty, addr.offset, at)?))
            })
            .collect(),
        Op::St { ty, a, addr, .. } => (0..)
            .zip(a)
            .filter_map(|(at, &a)| {
                let given = match a {
                    Operand::Reg(reg) => width(reg),
                    _ => ty.bits().max(16),
                };
                Some(stored(*ty, part(ty, addr.offset, at)?, (a, given)))
            })
            .collect(),
        _ => Vec::new(),
    };
    for op in moves {
        edit.push(Instr { guard: *guard, op, line: *line, loc: *loc });
    }
}

/// Returns what loads a part of type `ty` into a register of some width, which may be larger.
fn loaded(ty: Type, (d, width): (RegId, u32), part: RegId) -> Op {
    let from = ty.bits();
    if width == from && from > 8 {
        return mov(width, d, Operand::Reg(part));
    }
    let signed = ty.is_signed();
    // A byte is the lower half of its part.
    let from = if width == 8 { 16 } else { from };
    convert(integer(width, signed), integer(from, signed), d, Operand::Reg(part))
}

/// Returns the instruction that stores the lower bits of an operand to a part of type `ty`.
fn stored(ty: Type, part: RegId, (a, given): (Operand, u32)) -> Op {
    // The upper half of a byte's part is never read.
    let to = ty.bits().max(16);
    if given == to {
        return mov(to, part, a);
    }
    convert(integer(to, false), integer(given, false), part, a)
}

fn mov(bits: u32, d: RegId, a: Operand) -> Op {
    let ty = match bits {
        16 => Type::B16,
        32 => Type::B32,
        64 => Type::B64,
        _ => Type::B128,
    };
    Op::Mov { ty, d: Some(d), a }
}

fn convert(to: Type, from: Type, d: RegId, a: Operand) -> Op {
    let (rounding, b, d) = (None, None, Some(d));
    let (ftz, sat, satfinite, relu) = (false, false, false, false);
    Op::Cvt { to, from, rounding, ftz, sat, satfinite, relu, d, a, b }
}

fn integer(bits: u32, signed: bool) -> Type {
    match (bits, signed) {
        (8, false) => Type::U8,
        (8, true) => Type::S8,
        (16, false) => Type::U16,
        (16, true) => Type::S16,
        (32, false) => Type::U32,
        (32, true) => Type::S32,
        (_, false) => Type::U64,
        (_, true) => Type::S64,
    }
}

/// Takes away the variables that are registers, makes others local, and returns the new number of each variable.
fn renumber(function: &mut Function, fates: &[Fate]) -> Vec<Option<VarId>> {
    let mut numbers = Vec::with_capacity(fates.len());
    let mut kept = Vec::with_capacity(fates.len());
    for (mut variable, fate) in std::mem::take(&mut function.variables).into_iter().zip(fates) {
        if matches!(fate, Fate::Registers(_)) {
            numbers.push(None);
            continue;
        }
        if matches!(fate, Fate::Local) {
            variable.space = Space::Local;
        }
        numbers.push(Some(VarId(u32::try_from(kept.len()).unwrap_or(u32::MAX))));
        kept.push(variable);
    }
    function.variables = kept;
    let moved = |id: &mut VarId| {
        if let Some(&Some(new)) = numbers.get(id.index()) {
            *id = new;
        }
    };
    for instr in function.body.iter_mut().flatten() {
        instr.for_each_place_mut(|place| {
            if let PlaceMut::Symbol(Symbol::Var(id)) = place {
                moved(id);
            }
        });
    }
    for formal in function.params.iter_mut().chain(&mut function.returns) {
        if let Formal::Var(id) = formal {
            moved(id);
        }
    }
    for address in
        function.variables.iter_mut().filter_map(|v| v.init.as_mut()).flat_map(|i| &mut i.addresses)
    {
        if let Symbol::Var(id) = &mut address.symbol {
            moved(id);
        }
    }
    numbers
}
