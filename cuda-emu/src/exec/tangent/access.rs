//! Loads, stores and atomics.

use ptx::ir::AtomOp;

use super::apply::integer;
use super::bits;
use super::derivative::layout;
use super::{Place, Register, Rule, Source, What};
use crate::exec::inst::lanes;
use crate::exec::machine::Machine;
use crate::exec::memory::element::{Mem, U8};
use crate::exec::memory::{GENERIC, GLOBAL, LOCAL, LOCAL_WINDOW, PARAM_WINDOW};
use crate::space::tangent::Held;
use crate::space::tangent::unit::{self, Unit, WIDEST};

/// An element: in memory, or in the current frame.
#[derive(Debug, Clone, Copy)]
pub(in crate::exec) enum At {
    Host(u64),
    Frame(u32),
}

impl At {
    /// The place some bytes on.
    pub(in crate::exec) fn plus(self, bytes: u32) -> Self {
        match self {
            Self::Host(at) => Self::Host(at.wrapping_add(bytes.into())),
            Self::Frame(at) => Self::Frame(at.saturating_add(bytes)),
        }
    }
}

impl Machine<'_> {
    /// Returns the host address behind an address of a space. Whether the access is allowed is for the access itself to
    /// say: tangents of addresses where nothing is do no harm.
    pub(super) fn tangent_address(&self, space: u8, lane: usize, address: u64) -> Option<u64> {
        if let Some(target) = self.target(space, address) {
            return self.locate_shared(target, 1).ok();
        }
        let (space, offset) = match (space, address >> 48) {
            (GENERIC, 2) => (LOCAL, address - LOCAL_WINDOW),
            (GENERIC, 3) => (u8::MAX, address - PARAM_WINDOW),
            (GENERIC, _) => (GLOBAL, address),
            _ => (space, address),
        };
        let (base, size) = match space {
            GLOBAL => return Some(address),
            LOCAL => {
                let bytes = u64::from(self.job.local_bytes);
                (self.local.expose_provenance() as u64 + lane as u64 * bytes, bytes)
            }
            _ => {
                let params = self.job.params.as_ptr().expose_provenance() as u64;
                (params, self.job.launch.params.len() as u64)
            }
        };
        (offset < size).then_some(base.wrapping_add(offset))
    }

    /// Returns where the first element of a lane is.
    ///
    /// # Safety
    /// The address is in a register of the current frame.
    pub(in crate::exec) unsafe fn at(&self, place: Place, lane: usize) -> Option<At> {
        Some(match place {
            Place::Memory { slot, narrow, offset, space } => {
                // SAFETY: the caller's promise.
                let address = unsafe {
                    if narrow {
                        self.lanes::<u32>(slot)[lane].wrapping_add(offset as u32).into()
                    } else {
                        self.lanes::<u64>(slot)[lane].wrapping_add(offset)
                    }
                };
                At::Host(self.tangent_address(space, lane, address)?)
            }
            Place::Kernel { offset } => {
                let params = self.job.params.as_ptr().expose_provenance() as u64;
                At::Host(params + u64::from(offset))
            }
            Place::Frame { slot, stride, offset } => {
                At::Frame(slot + stride * lane as u32 + offset)
            }
        })
    }

    pub(in crate::exec) fn memory_unit(&self, held: &Held, at: At) -> Unit {
        match at {
            At::Host(at) => held.get(at),
            // SAFETY: the decoder has checked that the element lies in a variable of the frame.
            At::Frame(at) => unsafe { *self.shadow(at & !1) },
        }
    }

    pub(in crate::exec) fn put_memory_unit(&mut self, held: &mut Held, at: At, unit: Unit) {
        match at {
            At::Host(at) => held.put(at, unit),
            // SAFETY: as in `memory_unit`.
            At::Frame(at) => unsafe { *self.shadow(at & !1) = unit },
        }
    }

    /// Tangents of a load.
    ///
    /// # Safety
    /// All registers are of the current frame.
    pub(super) unsafe fn load_tangents(
        &mut self,
        held: &mut Held,
        rule: &Rule,
        (place, bytes, d): (Place, u32, &[Option<Register>]),
        mask: u32,
    ) {
        for lane in lanes(mask) {
            // SAFETY: the caller's promise.
            let Some(start) = (unsafe { self.at(place, lane) }) else { continue };
            for (element, register) in (0..).zip(d) {
                let at = start.plus(bytes * element);
                let mut out = [0; WIDEST];
                if bytes == 1 {
                    let unit = self.memory_unit(held, at);
                    if unit != 0 {
                        out = self.mark(held, rule, lane, &[[unit; WIDEST]]);
                    }
                }
                for (out, offset) in out.iter_mut().zip((0..bytes & !1).step_by(2)) {
                    *out = self.memory_unit(held, at.plus(offset));
                }
                if let Some(register) = *register {
                    // SAFETY: the caller's promise.
                    unsafe { self.put_units(register, lane, &out) };
                }
            }
        }
    }

    /// Tangents of a store.
    ///
    /// # Safety
    /// All registers are of the current frame.
    pub(super) unsafe fn store_tangents(
        &mut self,
        held: &mut Held,
        rule: &Rule,
        (place, bytes, a): (Place, u32, &[Source]),
        mask: u32,
    ) {
        // The order is the store's: an element of all lanes, then the next.
        for (element, &source) in (0..).zip(a) {
            for lane in lanes(mask) {
                // SAFETY: the caller's promise.
                let Some(start) = (unsafe { self.at(place, lane) }) else { continue };
                // SAFETY: the caller's promise.
                let units = unsafe { self.units(source, lane) };
                let at = start.plus(bytes * element);
                if bytes == 1 {
                    let there = [self.memory_unit(held, at), units[0]];
                    if there != [0; 2] {
                        let mut all = [0; WIDEST];
                        all[..2].copy_from_slice(&there);
                        let marked = self.mark(held, rule, lane, &[all]);
                        self.put_memory_unit(held, at, marked[0]);
                    }
                }
                for (&unit, offset) in units.iter().zip((0..bytes & !1).step_by(2)) {
                    self.put_memory_unit(held, at.plus(offset), unit);
                }
            }
        }
    }

    /// Tangents of an atomic, lane by lane as the atomic does it.
    ///
    /// # Safety
    /// All registers are of the current frame.
    pub(super) unsafe fn atomic_tangents(&mut self, held: &mut Held, rule: &Rule, mask: u32) {
        let What::Atomic { op, ty, place, rmw, d, a, c } = rule.what else { return };
        let bytes = ty.bytes();
        let width = bytes as usize / 2;
        // The values that earlier lanes have stored.
        let mut left: Vec<(u64, u64)> = Vec::new();
        for lane in lanes(mask) {
            // SAFETY: the caller's promise.
            let Some(At::Host(at)) = (unsafe { self.at(place, lane) }) else { continue };
            // SAFETY: the caller's promise.
            let (new_units, third_units) = unsafe { (self.units(a, lane), self.units(c, lane)) };
            // SAFETY: the caller's promise.
            let (value, third) = unsafe { (self.source_bits(a, lane), self.source_bits(c, lane)) };
            let mut units = [0; WIDEST];
            for (unit, offset) in units.iter_mut().zip((0..bytes).step_by(2)) {
                *unit = held.get(at.wrapping_add(offset.into()));
            }
            if let Some(d) = d {
                // SAFETY: the caller's promise.
                unsafe { self.put_units(d, lane, &units[..width]) };
            }
            let known = left.iter().rev().find(|known| known.0 == at).map(|known| known.1);
            let old = known.unwrap_or_else(|| self.value_at(at, bytes));
            left.push((at, rmw(old, value, third)));
            let none = [0; WIDEST];
            let out = match op {
                AtomOp::Exch => new_units,
                AtomOp::Add if layout(ty).is_some() => {
                    let (count, len) = layout(ty).unwrap_or((0, 1));
                    let mut out = none;
                    for range in (0..count).map(|index| index * len..(index + 1) * len) {
                        let old = self.number(held, rule, lane, &units[range.clone()]);
                        let new = self.number(held, rule, lane, &new_units[range.clone()]);
                        unit::write(&mut out[range], old + new);
                    }
                    out
                }
                _ if units == none && new_units == none && third_units == none => none,
                // The first operand of `cas` is the compared one.
                AtomOp::Cas => {
                    let low = u64::MAX >> (64 - ty.bits().clamp(1, 64));
                    if old & low == value & low { third_units } else { units }
                }
                AtomOp::Min | AtomOp::Max if layout(ty).is_none() => {
                    let (old, value) = (integer(ty, old), integer(ty, value));
                    let keeps = if op == AtomOp::Min { old <= value } else { old >= value };
                    if keeps { units } else { new_units }
                }
                AtomOp::And | AtomOp::Or | AtomOp::Xor => {
                    let lut = match op {
                        AtomOp::And => 0xc0,
                        AtomOp::Or => 0xfc,
                        _ => 0x3c,
                    };
                    let all = [units, new_units, none];
                    bits::logic(lut, width.min(4), [old, value, 0], &all)
                        .unwrap_or_else(|_| self.mark(held, rule, lane, &all))
                }
                _ => self.mark(held, rule, lane, &[units, new_units, third_units]),
            };
            for (&unit, offset) in out.iter().zip((0..bytes).step_by(2)) {
                held.put(at.wrapping_add(offset.into()), unit);
            }
        }
    }

    /// Returns a value in memory, zero where no memory is.
    fn value_at(&self, at: u64, bytes: u32) -> u64 {
        let bytes = u64::from(bytes);
        let in_shared = self.cluster.holds(at, bytes, self.job.shared_bytes.into());
        if !in_shared && self.space.find_range(at, bytes).is_none() {
            return 0;
        }
        (0..bytes).fold(0, |all, offset| {
            // SAFETY: the byte lies in the shared memory of a block of the cluster, or in a region that was just found.
            all | unsafe { U8::load(at + offset) } << (8 * offset)
        })
    }
}
