//! Loads, stores, atomics, fences.

use ptx::ir::{Access, Address, AtomOp, Base, Dst, Op, Operand, Order, Space, Symbol, Type};

use super::data::space_code;
use super::{Class, Decoder, Place, Refusal};
use crate::arith::atomics;
use crate::exec::check::watch::{self, Fenced, READ, STRONG, WRITE, Watch};
use crate::exec::control::branch::Nop;
use crate::exec::inst::{Inst, Isa, Lanes, NOT_LOADED, Run};
use crate::exec::memory::atomic::{Atomic, Fence, native};
use crate::exec::memory::element::{S8, S16, U8, U16, U32, U64};
use crate::exec::memory::load::{Load, LoadVector};
use crate::exec::memory::param::{LoadFrame, LoadKernel, StoreFrame};
use crate::exec::memory::store::{StoreOne, StoreVector};
use crate::exec::memory::{
    ACQUIRE, BLOCK, CLUSTER, GENERIC, GLOBAL, NARROW, OTHER, PLAIN, POLL, RELEASE, SHARED,
};
use crate::exec::ops::moves::WidenSigned;

/// How an element is moved: to and from a register of 64 bits if it has as many, else of 32.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    bytes: u32,
    signed: bool,
}

/// Returns how an access of a space is checked.
fn how(space: u8) -> u8 {
    match space {
        GENERIC | GLOBAL => PLAIN,
        SHARED => BLOCK,
        _ => OTHER,
    }
}

/// Chooses by the element, then by how it is checked.
macro_rules! choose {
    ($isa:expr, $kind:expr, $space:expr, $op:ident, $plain:ident) => {{
        macro_rules! space {
            ($m:ty, $d:ty, $hot:ident) => {
                match how($space) {
                    PLAIN => $isa.$hot::<$op<$m, $d, PLAIN>>(),
                    BLOCK => $isa.$hot::<$op<$m, $d, BLOCK>>(),
                    _ => $isa.$hot::<$op<$m, $d, OTHER>>(),
                }
            };
        }
        match ($kind.bytes, $kind.signed) {
            (1, false) => space!(U8, u32, once),
            (1, true) => space!(S8, u32, once),
            (2, false) => space!(U16, u32, once),
            (2, true) => space!(S16, u32, once),
            (4, _) => space!(U32, u32, $plain),
            (8, _) => space!(U64, u64, $plain),
            _ => return None,
        }
    }};
}

fn load(isa: Isa, kind: Kind, space: u8) -> Option<Run> {
    Some(choose!(isa, kind, space, Load, pick))
}

fn load_vector(isa: Isa, kind: Kind, space: u8) -> Option<Run> {
    Some(choose!(isa, kind, space, LoadVector, pick))
}

fn store(isa: Isa, kind: Kind, space: u8) -> Option<Run> {
    Some(match (kind.bytes, how(space)) {
        (1, PLAIN) => isa.once::<StoreOne<U8, u32, PLAIN>>(),
        (1, BLOCK) => isa.once::<StoreOne<U8, u32, BLOCK>>(),
        (1, _) => isa.once::<StoreOne<U8, u32, OTHER>>(),
        (2, PLAIN) => isa.once::<StoreOne<U16, u32, PLAIN>>(),
        (2, BLOCK) => isa.once::<StoreOne<U16, u32, BLOCK>>(),
        (2, _) => isa.once::<StoreOne<U16, u32, OTHER>>(),
        (4, PLAIN) => isa.pick::<StoreOne<U32, u32, PLAIN>>(),
        (4, BLOCK) => isa.pick::<StoreOne<U32, u32, BLOCK>>(),
        (4, _) => isa.pick::<StoreOne<U32, u32, OTHER>>(),
        (8, PLAIN) => isa.pick::<StoreOne<U64, u64, PLAIN>>(),
        (8, BLOCK) => isa.pick::<StoreOne<U64, u64, BLOCK>>(),
        (8, _) => isa.once::<StoreOne<U64, u64, OTHER>>(),
        _ => return None,
    })
}

fn store_vector(isa: Isa, kind: Kind, space: u8) -> Option<Run> {
    Some(match (kind.bytes, how(space)) {
        (1, PLAIN) => isa.once::<StoreVector<U8, u32, PLAIN>>(),
        (1, _) => isa.once::<StoreVector<U8, u32, OTHER>>(),
        (2, PLAIN) => isa.once::<StoreVector<U16, u32, PLAIN>>(),
        (2, _) => isa.once::<StoreVector<U16, u32, OTHER>>(),
        (4, PLAIN) => isa.pick::<StoreVector<U32, u32, PLAIN>>(),
        (4, _) => isa.once::<StoreVector<U32, u32, OTHER>>(),
        (8, PLAIN) => isa.pick::<StoreVector<U64, u64, PLAIN>>(),
        (8, _) => isa.once::<StoreVector<U64, u64, OTHER>>(),
        _ => return None,
    })
}

/// Chooses by the element alone: parameters.
macro_rules! choose_param {
    ($isa:expr, $kind:expr, $op:ident) => {
        match ($kind.bytes, $kind.signed) {
            (1, false) => $isa.once::<$op<U8, u32>>(),
            (1, true) => $isa.once::<$op<S8, u32>>(),
            (2, false) => $isa.once::<$op<U16, u32>>(),
            (2, true) => $isa.once::<$op<S16, u32>>(),
            (4, _) => $isa.once::<$op<U32, u32>>(),
            (8, _) => $isa.once::<$op<U64, u64>>(),
            _ => return None,
        }
    };
}

fn load_kernel(isa: Isa, kind: Kind) -> Option<Run> {
    Some(choose_param!(isa, kind, LoadKernel))
}

fn load_frame(isa: Isa, kind: Kind) -> Option<Run> {
    Some(choose_param!(isa, kind, LoadFrame))
}

fn store_frame(isa: Isa, kind: Kind) -> Option<Run> {
    Some(match kind.bytes {
        1 => isa.once::<StoreFrame<U8, u32>>(),
        2 => isa.once::<StoreFrame<U16, u32>>(),
        4 => isa.once::<StoreFrame<U32, u32>>(),
        8 => isa.once::<StoreFrame<U64, u64>>(),
        _ => return None,
    })
}

/// Returns the space and the width of the address, as slot c has them.
pub(super) fn place_bits(space: u8, narrow: bool) -> u32 {
    u32::from(space) << 16 | if narrow { NARROW } else { 0 }
}

/// Returns the flags of an ordered access.
fn flags(access: &Access, store: bool) -> u32 {
    let order = match access.order {
        Order::Weak => 0,
        Order::Acquire => POLL | ACQUIRE,
        Order::Release => RELEASE,
        Order::AcqRel => POLL | ACQUIRE | RELEASE,
        _ if store => 0,
        _ => POLL,
    };
    let volatile = !store && access.cache == Some(ptx::ir::Cache::Cv);
    order | if volatile { POLL } else { 0 }
}

/// Returns the kind of an access for racecheck: whether others of the kind don't race with it, and which accesses it
/// orders.
fn order(access: &Access) -> u32 {
    match access.order {
        // `.cv` is for memory that others change meanwhile.
        Order::Weak if access.cache == Some(ptx::ir::Cache::Cv) => STRONG,
        Order::Weak => 0,
        Order::Acquire => STRONG | watch::ACQUIRE,
        Order::Release => STRONG | watch::RELEASE,
        Order::AcqRel => STRONG | watch::ACQUIRE | watch::RELEASE,
        _ => STRONG,
    }
}

impl Decoder<'_, '_> {
    /// Has an access watched, if anything is: its operands, its bytes, what it does, and the registers
    /// that it writes.
    pub(super) fn watch(
        &mut self,
        (a, c, imm): (u32, u32, u64),
        bytes: u32,
        what: u32,
        slots: &[u32],
    ) {
        if self.cx.watched {
            let b = if slots.is_empty() { u32::MAX } else { self.list(slots) };
            let f = bytes / slots.len().max(1) as u32;
            let inst = self.inst(self.cx.isa.once::<Watch>());
            self.emit(Inst { d: what, a, b, c, imm, e: bytes, f, ..inst });
        }
    }

    /// Emits an instruction of the checkers, if anything is watched.
    pub(super) fn watch_by<L: Lanes>(&mut self, operands: Inst) {
        if self.cx.watched {
            let inst = self.inst(self.cx.isa.once::<L>());
            let Inst { a, c, e, imm, .. } = operands;
            self.emit(Inst { a, c, e, imm, ..inst });
        }
    }

    /// Decodes memory instructions. False if the instruction is none.
    pub(super) fn memory(&mut self, op: &Op) -> Result<bool, Refusal> {
        match op {
            Op::Ld { access, ty, d, addr, .. } => self.load(access, *ty, d, addr)?,
            Op::St { access, ty, addr, a } => self.store(access, *ty, addr, a)?,
            Op::Atom { op, access, ty, d, addr, a, c, .. } => {
                self.atom(*op, access, *ty, d, addr, a, c.as_ref())?;
            }
            Op::Fence { .. } => {
                let inst = self.inst(self.pick::<Fence>());
                self.emit(inst);
                self.watch_by::<Fenced>(inst);
            }
            Op::Prefetch { .. } | Op::Pmevent { .. } | Op::GridDependency { .. } => {
                let inst = self.inst(self.pick::<Nop>());
                self.emit(inst);
            }
            Op::CreatePolicy { d, .. } => {
                self.mov_zero(*d)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn mov_zero(&mut self, d: Dst) -> Result<(), Refusal> {
        let a = self.constant(Class::Wide, 0);
        let d = self.dst(d, Class::Wide)?;
        let inst = self.inst(self.vector::<crate::exec::ops::moves::Move64>());
        self.emit(Inst { d, a, ..inst });
        Ok(())
    }

    fn load(
        &mut self,
        access: &Access,
        ty: Type,
        d: &[Dst],
        addr: &Address,
    ) -> Result<(), Refusal> {
        let refusal = || format!("ld.{}.{ty}", access.space);
        let (parts, bytes) = if ty.bytes() == 16 { (2, 8) } else { (1, ty.bytes()) };
        let class = if bytes == 8 { Class::Wide } else { Class::Narrow };
        let kind = Kind { bytes, signed: ty.is_signed() };
        let mut slots = Vec::with_capacity(d.len() * parts);
        for &dst in d {
            if parts == 2 {
                let slot = self.dst(dst, Class::Double)?;
                slots.extend([slot, slot + 256]);
            } else if kind.signed && dst.is_some_and(|r| self.reg(r).is_ok_and(|r| r.1 != class)) {
                // A register of 64 bits takes a narrower element, sign-extended.
                let (slot, a) = (self.dst(dst, Class::Wide)?, self.temp(class));
                let inst = self.inst(self.vector::<WidenSigned>());
                self.after.push(Inst { d: slot, a, ..inst });
                slots.push(a);
            } else {
                slots.push(self.dst(dst, class)?);
            }
        }
        let place = self.param_place(addr);
        if let Some(place) = place {
            for (at, &slot) in slots.iter().enumerate() {
                let offset = addr.offset + i64::from(bytes) * at as i64;
                let (run, a, e, imm) = match place {
                    Place::Kernel { offset: start, bytes: size } => {
                        inside(offset, bytes, size, start)?;
                        let imm = i64::from(start) + offset;
                        (load_kernel(self.cx.isa, kind), 0, 0, imm)
                    }
                    Place::Frame { slot, stride, bytes: size } => {
                        inside(offset, bytes, size, 0)?;
                        (load_frame(self.cx.isa, kind), slot, stride, offset)
                    }
                    _ => return Err(refusal()),
                };
                let inst = self.inst(run.ok_or_else(refusal)?);
                self.emit(Inst { d: slot, a, e, imm: imm as u64, ..inst });
            }
            return Ok(());
        }
        let (a, narrow, imm) = self.address(addr, access.space)?;
        let space = space_code(access.space)?;
        let f = self.site();
        let c = flags(access, false) | place_bits(space, narrow);
        // Elements that are not used may be those of other threads, or beyond the memory.
        let part =
            |at: usize| 1u64.checked_shl(bytes * at as u32).unwrap_or(0) * ((1 << bytes) - 1);
        let is_used = |at: usize| access.used.is_none_or(|used| u64::from(used) & part(at) != 0);
        let used = (0..slots.len()).filter(|at| is_used(*at)).count();
        if (1..slots.len()).contains(&used) {
            for at in (0..slots.len()).filter(|at| is_used(*at)) {
                let imm = imm.wrapping_add(u64::from(bytes) * at as u64);
                self.watch((a, c, imm), bytes, READ | order(access), &[]);
            }
            for (_, slot) in slots.iter_mut().enumerate().filter(|(at, _)| !is_used(*at)) {
                *slot = NOT_LOADED;
            }
        } else {
            self.watch((a, c, imm), bytes * slots.len() as u32, READ | order(access), &[]);
        }
        let isa = self.cx.isa;
        if let [slot] = slots[..] {
            let run = load(isa, kind, space).ok_or_else(refusal)?;
            let inst = self.inst(run);
            self.emit(Inst { d: slot, a, c, imm, f, ..inst });
        } else {
            let run = load_vector(isa, kind, space).ok_or_else(refusal)?;
            let e = self.list(&slots);
            let inst = self.inst(run);
            self.emit(Inst { a, c, e, imm, f, ..inst });
        }
        Ok(())
    }

    fn store(
        &mut self,
        access: &Access,
        ty: Type,
        addr: &Address,
        a: &[Operand],
    ) -> Result<(), Refusal> {
        let refusal = || format!("st.{}.{ty}", access.space);
        let (parts, bytes) = if ty.bytes() == 16 { (2, 8) } else { (1, ty.bytes()) };
        let class = if bytes == 8 { Class::Wide } else { Class::Narrow };
        let kind = Kind { bytes, signed: false };
        let mut slots = Vec::with_capacity(a.len() * parts);
        for operand in a {
            if parts == 2 {
                let slot = self.src(operand, Class::Double)?;
                slots.extend([slot, slot + 256]);
            } else {
                slots.push(self.src(operand, class)?);
            }
        }
        if let Some(place) = self.param_place(addr) {
            let Place::Frame { slot: base, stride, bytes: size } = place else {
                return Err("a store to a kernel's parameter".to_owned());
            };
            let run = store_frame(self.cx.isa, kind).ok_or_else(refusal)?;
            for (at, &slot) in slots.iter().enumerate() {
                let offset = addr.offset + i64::from(bytes) * at as i64;
                inside(offset, bytes, size, 0)?;
                let inst = self.inst(run);
                self.emit(Inst { d: slot, a: base, e: stride, imm: offset as u64, ..inst });
            }
            return Ok(());
        }
        if access.space == Space::Const {
            return Err("a store to constant memory".to_owned());
        }
        let (at, narrow, imm) = self.address(addr, access.space)?;
        let space = space_code(access.space)?;
        let f = self.site();
        let c = flags(access, true) | place_bits(space, narrow);
        self.watch((at, c, imm), bytes * slots.len() as u32, WRITE | order(access), &slots);
        let isa = self.cx.isa;
        if let [slot] = slots[..] {
            let run = store(isa, kind, space).ok_or_else(refusal)?;
            let inst = self.inst(run);
            self.emit(Inst { d: slot, a: at, c, imm, f, ..inst });
        } else {
            let run = store_vector(isa, kind, space).ok_or_else(refusal)?;
            let e = self.list(&slots);
            let inst = self.inst(run);
            self.emit(Inst { a: at, c, e, imm, f, ..inst });
        }
        Ok(())
    }

    /// Returns the parameter that an address names.
    pub(super) fn param_place(&self, addr: &Address) -> Option<Place> {
        let Base::Symbol(Symbol::Var(v)) = addr.base else { return None };
        match self.places.get(v.index()).copied() {
            place @ Some(Place::Kernel { .. } | Place::Frame { .. }) => place,
            _ => None,
        }
    }

    #[allow(clippy::too_many_arguments, reason = "they are the instruction's operands")]
    fn atom(
        &mut self,
        op: AtomOp,
        access: &Access,
        ty: Type,
        d: &[Dst],
        addr: &Address,
        a: &[Operand],
        c: Option<&Operand>,
    ) -> Result<(), Refusal> {
        let refusal = || format!("atom.{}.{op}.{ty}", access.space);
        let space = space_code(access.space)?;
        if !matches!(space, GENERIC | GLOBAL | SHARED | CLUSTER) {
            return Err(refusal());
        }
        let class = Class::of(ty);
        let bytes = ty.bytes();
        if !matches!(bytes, 2 | 4 | 8) {
            return Err(refusal());
        }
        let rmw = atomics::rmw(op, ty, matches!(space, SHARED | CLUSTER)).ok_or_else(refusal)?;
        let (base, narrow, imm) = self.address(addr, access.space)?;
        for (at, operand) in a.iter().enumerate() {
            let b = self.src(operand, class)?;
            let third = match c {
                Some(c) => self.src(c, class)?,
                None => b,
            };
            let d = self.dst(d.get(at).copied().flatten(), class)?;
            let function = self.code.rmws.len() as u32;
            self.code.rmws.push(rmw);
            let e = self.list(&[third, function]);
            let op = native(op, ty);
            let isa = self.cx.isa;
            let plain = how(space) == PLAIN;
            let run = match bytes {
                2 if plain => isa.once::<Atomic<U16, u32, PLAIN>>(),
                2 => isa.once::<Atomic<U16, u32, OTHER>>(),
                4 if plain => isa.once::<Atomic<U32, u32, PLAIN>>(),
                4 => isa.once::<Atomic<U32, u32, OTHER>>(),
                _ if plain => isa.once::<Atomic<U64, u64, PLAIN>>(),
                _ => isa.once::<Atomic<U64, u64, OTHER>>(),
            };
            let f = self.site();
            let imm = imm.wrapping_add(u64::from(bytes) * at as u64);
            let c = place_bits(space, narrow);
            self.watch((base, c, imm), bytes, READ | WRITE | STRONG | order(access), &[]);
            // The upper byte of e is the native operation.
            let inst = self.inst(run);
            self.emit(Inst { d, a: base, b, c, imm, f, e: e | u32::from(op) << 24, ..inst });
        }
        Ok(())
    }
}

/// Checks whether an element lies in a parameter, aligned.
fn inside(offset: i64, bytes: u32, size: u32, start: u32) -> Result<(), Refusal> {
    let end = offset.checked_add(i64::from(bytes));
    if offset < 0 || end.is_none_or(|end| end > i64::from(size)) {
        return Err("an access outside a parameter".to_owned());
    }
    if (i64::from(start) + offset) % i64::from(bytes) != 0 {
        return Err("a misaligned access of a parameter".to_owned());
    }
    Ok(())
}
