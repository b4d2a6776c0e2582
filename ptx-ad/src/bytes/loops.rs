//! Loops that copy byte by byte, as `memcpy` of larger structures compiles to.

use ptx::ir::{Address, Base, BinaryOp, Cmp, Dst, Op, Operand, Order, RegId, Space, Type};

use super::{Places, is_plain};
use crate::body::{Block, Body, End, Phi};

/// A loop that copies.
struct Copying {
    /// Whether a number is a `double`.
    wide: bool,
    /// The positions of the load, the store, and the additions of one.
    load: usize,
    store: usize,
    steps: Vec<usize>,
}

/// Lets loops that copy bytes copy numbers. Returns whether there were any.
pub(super) fn widen(body: &mut Body, places: &Places<'_>) -> bool {
    let found: Vec<(usize, Copying)> =
        (1..body.regions.len()).filter_map(|region| copying(body, places, region)).collect();
    for (block, Copying { wide, load, store, steps }) in &found {
        let (ty, step) = if *wide { (Type::B64, 8) } else { (Type::B32, 4) };
        let whole = body.function.fresh_register(ty);
        let Some(code) = body.blocks.get_mut(*block).map(|block| &mut block.code) else { continue };
        if let Some(Op::Ld { ty: of, d, .. }) = code.get_mut(*load).map(|instr| &mut instr.op) {
            let one: Box<[Dst]> = Box::new([Some(whole)]);
            (*of, *d) = (ty, one);
        }
        if let Some(Op::St { ty: of, a, .. }) = code.get_mut(*store).map(|instr| &mut instr.op) {
            (*of, *a) = (ty, Box::new([Operand::Reg(whole)]));
        }
        for at in steps {
            if let Some(Op::Binary { b, .. }) = code.get_mut(*at).map(|instr| &mut instr.op) {
                *b = Operand::Imm(step);
            }
        }
    }
    !found.is_empty()
}

/// Returns the block of a loop and how it copies, if it does nothing else.
fn copying(body: &Body, places: &Places<'_>, region: usize) -> Option<(usize, Copying)> {
    let range = body.range(region);
    let index = range.start;
    let block = body.blocks.get(index)?;
    // Blocks without code lead back to the first.
    let is_empty = |block: &Block| {
        block.code.is_empty() && block.phis.is_empty() && matches!(block.end, End::Jump(_))
    };
    if !body.blocks.get(index + 1..range.end)?.iter().all(is_empty) {
        return None;
    }
    let (mut load, mut store, mut compares) = (None, None, None);
    let mut steps: Vec<(RegId, RegId, usize)> = Vec::new();
    // Addresses of an iteration: an invariant base plus a counter.
    let mut sums: Vec<(RegId, RegId, RegId)> = Vec::new();
    let is_counter = |reg: RegId| block.phis.iter().any(|phi| phi.reg == reg);
    for (at, instr) in block.code.iter().enumerate() {
        match &instr.op {
            Op::Ld { kind, access, ty, d, addr }
                if load.is_none()
                    && is_plain(*kind)
                    && access.order == Order::Weak
                    && ty.bits() == 8 =>
            {
                let [Some(d)] = **d else { return None };
                load = Some((at, d, *addr, access.space));
            }
            Op::St { access, ty, addr, a }
                if store.is_none() && access.order == Order::Weak && ty.bits() == 8 =>
            {
                let [Operand::Reg(a)] = **a else { return None };
                store = Some((at, a, *addr, access.space));
            }
            Op::Binary { op: BinaryOp::Add, ty, d: Some(d), a: Operand::Reg(a), b, .. }
                if !ty.is_float() =>
            {
                match b {
                    Operand::Imm(1) if is_counter(*a) => steps.push((*d, *a, at)),
                    Operand::Reg(b) if is_counter(*b) && !is_counter(*a) => sums.push((*d, *a, *b)),
                    Operand::Reg(b) if is_counter(*a) && !is_counter(*b) => sums.push((*d, *b, *a)),
                    _ => return None,
                }
            }
            Op::Setp {
                cmp: Cmp::Lt | Cmp::Lo | Cmp::Ne,
                ty,
                combine: None,
                p: Some(p),
                q: None,
                a: Operand::Reg(a),
                b: Operand::Imm(count),
                ..
            } if compares.is_none() && !ty.is_float() => compares = Some((*p, *a, *count)),
            _ => return None,
        }
    }
    let (load_at, loaded, from, from_space) = load?;
    let (store_at, stored, to, to_space) = store?;
    let (p, compared, count) = compares?;
    let steps_on = |reg: RegId, of: RegId| steps.iter().any(|(d, a, _)| (*d, *a) == (reg, of));
    // The only carried values are counters of bytes.
    let counts = |phi: &Phi| {
        phi.args.iter().all(|(at, arg)| match arg {
            Some(Operand::Reg(reg)) if range.contains(at) => steps_on(*reg, phi.reg),
            Some(_) => !range.contains(at),
            None => false,
        })
    };
    let End::Branch { pred, then, .. } = block.end else { return None };
    let goes_on = pred.reg == p && range.contains(&then) != pred.negated;
    let next = steps.iter().find(|(d, ..)| *d == compared);
    let from_zero = |phi: &Phi| {
        let mut entries = phi.args.iter().filter(|(at, _)| !range.contains(at));
        entries.all(|(_, arg)| arg.is_some_and(|arg| is_zero(body, &arg)))
    };
    let counter = block.phis.iter().find(|phi| next.is_some_and(|(_, a, _)| phi.reg == *a));
    let stays = body.blocks.iter().enumerate().all(|(at, other)| {
        let mut inside = true;
        if at != index {
            other.code.iter().for_each(|instr| {
                instr.for_each_use(|reg| inside &= body.definition(reg) != Some(index));
            });
            let args = other.phis.iter().flat_map(|phi| &phi.args);
            inside &= args.into_iter().all(|(_, arg)| {
                !matches!(arg, Some(Operand::Reg(reg)) if body.definition(*reg) == Some(index))
            });
            inside &= !matches!(other.end, End::Branch { pred, .. } if body.definition(pred.reg) == Some(index));
        }
        inside
    });
    if loaded != stored
        || load_at > store_at
        || !goes_on
        || !stays
        || !block.phis.iter().all(counts)
        || !counter.is_some_and(from_zero)
    {
        return None;
    }
    let start = |address: Address| -> Option<Address> {
        let Base::Reg(reg) = address.base else { return None };
        let sum = sums.iter().find(|(d, ..)| *d == reg);
        let base = match sum {
            // The counter must start at zero.
            Some((_, same, by)) => {
                block.phis.iter().find(|phi| phi.reg == *by).filter(|phi| from_zero(phi))?;
                *same
            }
            None => {
                let phi = block.phis.iter().find(|phi| phi.reg == reg)?;
                let mut entries = phi.args.iter().filter(|(at, _)| !range.contains(at));
                match (entries.next(), entries.next()) {
                    (Some((_, Some(Operand::Reg(reg)))), None) => *reg,
                    _ => return None,
                }
            }
        };
        Some(Address { base: Base::Reg(base), offset: address.offset })
    };
    let (from, to) = (start(from)?, start(to)?);
    let is_wide =
        |space: Space| !matches!(space, Space::Shared | Space::SharedCta | Space::SharedCluster);
    // Within one array, an iteration may copy what the one before has stored.
    if !places.are_apart(body, &from, &to) || !is_wide(from_space) || !is_wide(to_space) {
        return None;
    }
    let fits = |width: u8| {
        count.is_multiple_of(u64::from(width))
            && places.is_number(body, &from, width)
            && places.is_number(body, &to, width)
    };
    let wide = fits(8);
    (count > 0 && (wide || fits(4))).then(|| {
        let steps = steps.iter().map(|(.., at)| *at).collect();
        (index, Copying { wide, load: load_at, store: store_at, steps })
    })
}

/// Returns whether an operand is zero.
fn is_zero(body: &Body, operand: &Operand) -> bool {
    match operand {
        Operand::Imm(value) => *value == 0,
        Operand::Reg(reg) => {
            let block = body.definition(*reg).and_then(|at| body.blocks.get(at));
            block.into_iter().flat_map(|block| &block.code).any(|instr| {
                matches!(&instr.op, Op::Mov { d: Some(d), a: Operand::Imm(0), .. } if d == reg)
            })
        }
        _ => false,
    }
}
