//! Bytes and halfwords in the place of numbers. Compilers give a flag the place of an array whose life has ended. Here
//! such flags become variables, so that they are no parts of numbers.

use std::ops::Range;

use ptx::ir::{Address, Base, Instr, Op, Order, Space, Symbol, Type, VarId, Variable};

use crate::analysis::{Access, Forms, Origin, Pointers};
use crate::body::Body;
use crate::spec::Spec;

/// Bytes of a variable.
type Slot = (VarId, Range<i64>);

/// What an instruction does with the function's variables of local memory.
struct Use {
    /// The position of the instruction in its block.
    at: usize,
    loads: bool,
    stores: bool,
    /// The bytes that it may load or store; `None` if they may be any.
    slot: Option<Slot>,
    /// Whether it loads or stores all of them.
    is_whole: bool,
    is_narrow: bool,
}

impl Use {
    fn overlaps(&self, slot: &Slot) -> bool {
        self.slot.as_ref().is_none_or(|(var, bytes)| {
            *var == slot.0 && bytes.start < slot.1.end && slot.1.start < bytes.end
        })
    }

    /// Returns whether nothing of a slot remains after it.
    fn overwrites(&self, slot: &Slot) -> bool {
        let covers = |(var, bytes): &Slot| {
            *var == slot.0 && bytes.start <= slot.1.start && slot.1.end <= bytes.end
        };
        self.stores && self.is_whole && self.slot.as_ref().is_some_and(covers)
    }

    /// Returns whether it loads or stores the flag of a slot.
    fn is_own(&self, slot: &Slot) -> bool {
        self.is_narrow && self.is_whole && self.slot.as_ref() == Some(slot)
    }
}

/// Moves flags to variables. An address that is not known may be that of any variable, and an offset that is not known
/// that of any byte.
pub(crate) fn split(body: &mut Body, spec: &Spec) {
    let is_narrow = |instr: &Instr| match &instr.op {
        Op::St { access, ty, .. } => {
            matches!(access.space, Space::Local | Space::Generic) && ty.bits() < 32
        }
        _ => false,
    };
    let has_local = body.function.variables.iter().any(|one| one.space == Space::Local);
    if !has_local || !body.instrs().any(|(_, instr)| is_narrow(instr)) {
        return;
    }
    let forms = Forms::new(body, &Pointers::new(spec).0);
    let list = |code: &[Instr]| -> Vec<Use> {
        let all = code.iter().enumerate();
        all.filter_map(|(at, instr)| use_of(body, &forms, at, instr)).collect()
    };
    let uses: Vec<_> = body.blocks.iter().map(|block| list(&block.code)).collect();
    let mut slots: Vec<&Slot> = Vec::new();
    for one in uses.iter().flatten().filter(|one| one.stores) {
        slots.extend(one.slot.as_ref().filter(|slot| one.is_own(slot) && !slots.contains(slot)));
    }
    slots.retain(|slot| is_apart(body, &uses, slot));
    for slot in slots {
        let size = u64::try_from(slot.1.end - slot.1.start).unwrap_or(1);
        let name = format!("{}_slot_{}", body.function.name, body.function.variables.len());
        let align = u32::try_from(size).unwrap_or(1);
        let variable = Variable::new(name, Space::Local, Type::B8, vec![size], align);
        let base = Base::Symbol(Symbol::Var(body.function.add_variable(variable)));
        for (block, uses) in body.blocks.iter_mut().zip(&uses) {
            for one in uses.iter().filter(|one| one.is_own(slot)) {
                let op = block.code.get_mut(one.at).map(|instr| &mut instr.op);
                if let Some(Op::Ld { access, addr, .. } | Op::St { access, addr, .. }) = op {
                    access.space = Space::Local;
                    *addr = Address { base, offset: 0 };
                }
            }
        }
    }
}

/// Returns what an instruction does with variables of local memory, if anything.
fn use_of(body: &Body, forms: &Forms, at: usize, instr: &Instr) -> Option<Use> {
    let any = Use { at, loads: true, stores: true, slot: None, is_whole: false, is_narrow: false };
    let Some(access) = Access::of(instr) else {
        // Printing reads its arguments from local memory.
        return matches!(instr.op, Op::Call { .. }).then_some(any);
    };
    if !matches!(access.space, Space::Local | Space::Generic) {
        return None;
    }
    let form = forms.address(body, access.address);
    let var = match form.origin {
        Origin::Local(var) if body.is_shared(var) => return None,
        Origin::Pointer(_) | Origin::Choice(_) | Origin::Param(_) => return None,
        Origin::Variable(Space::Global | Space::Const | Space::Shared) => return None,
        Origin::Local(var) if access.order == Order::Weak => var,
        _ => return Some(any),
    };
    let (loads, stores) = match instr.op {
        Op::Ld { .. } => (true, false),
        Op::St { .. } => (false, true),
        _ => return Some(any),
    };
    let count = i64::try_from(access.values.len()).unwrap_or(i64::MAX);
    let size = i64::from(access.ty.bytes()).saturating_mul(count);
    let (low, high) = form.range().unwrap_or((i64::MIN, i64::MAX));
    Some(Use {
        at,
        loads,
        stores,
        slot: Some((var, low..high.saturating_add(size))),
        is_whole: low == high && instr.guard.is_none(),
        is_narrow: access.ty.bits() < 32,
    })
}

/// Returns whether flags alone are loaded from a slot where flags are stored, and others where others are.
fn is_apart(body: &Body, uses: &[Vec<Use>], slot: &Slot) -> bool {
    let mut all = uses.iter().enumerate().flat_map(|(block, list)| {
        list.iter().enumerate().map(move |(place, one)| ((block, place + 1), one))
    });
    all.all(|(from, one)| {
        let stores = one.stores && one.overlaps(slot);
        !stores || !is_mixed(body, uses, from, slot, one.is_own(slot))
    })
}

/// Returns whether the content of a slot, after a use in a block, may be loaded as a flag though it is none, or as
/// another value though it is a flag.
fn is_mixed(
    body: &Body,
    uses: &[Vec<Use>],
    from: (usize, usize),
    slot: &Slot,
    is_flag: bool,
) -> bool {
    let mut seen = vec![false; uses.len()];
    let mut open = vec![from];
    'blocks: while let Some((block, place)) = open.pop() {
        for one in uses.get(block).and_then(|list| list.get(place..)).unwrap_or_default() {
            if one.loads && one.overlaps(slot) && one.is_own(slot) != is_flag {
                return true;
            }
            if one.overwrites(slot) {
                continue 'blocks;
            }
        }
        for to in body.blocks.get(block).into_iter().flat_map(|block| block.end.targets()) {
            if let Some(seen) = seen.get_mut(to).filter(|seen| !**seen) {
                *seen = true;
                open.push((to, 0));
            }
        }
    }
    false
}
