//! Instructions of a whole warp: they call these once their lanes have met.

use super::derivative::value;
use super::{Register, Rule, Source, What};
use crate::exec::decode::Class;
use crate::exec::inst::{LANES, lanes};
use crate::exec::machine::Machine;
use crate::matrix::{Product, ldmatrix, movmatrix};
use crate::space::tangent::Held;
use crate::space::tangent::unit::{self, Unit, WIDEST};

/// The registers of an operand of a matrix instruction.
fn register(slot: u32, wide: bool) -> Register {
    Register { slot, class: if wide { Class::Wide } else { Class::Narrow } }
}

/// A row of 8 elements for each address of `ldmatrix`, the element's number in each.
fn numbered() -> [[u8; 16]; 8] {
    std::array::from_fn(|row| {
        std::array::from_fn(|byte| if byte % 2 == 0 { (row * 8 + byte / 2) as u8 } else { 0 })
    })
}

impl<'a> Machine<'a> {
    /// Returns the rule of a number, if tangents are tracked.
    fn rule(&self, number: u64) -> Option<&'a Rule> {
        self.code.rules.get(usize::try_from(number).ok()?)
    }

    /// `shfl`: each lane takes the tangents of another.
    ///
    /// # Safety
    /// The rule is one of the current function.
    pub(crate) unsafe fn exchange_tangents(&mut self, rule: u64, there: u32, from: &[u8; LANES]) {
        let Some(Rule { what: What::Exchange { d, a }, .. }) = self.rule(rule) else { return };
        // SAFETY: the caller's promise.
        let all: [_; LANES] = std::array::from_fn(|lane| unsafe { self.units(*a, lane) });
        for lane in lanes(there) {
            // SAFETY: the caller's promise.
            unsafe { self.put_units(*d, lane, &all[usize::from(from[lane]) % LANES]) };
        }
    }

    /// `redux` of a group of lanes, with the result `out`.
    ///
    /// # Safety
    /// The rule is one of the current function.
    pub(crate) unsafe fn reduce_tangents(&mut self, rule: u64, group: u32, out: u32) {
        let (space, rule) = (self.space, self.rule(rule));
        let Some(rule @ Rule { what: What::Reduce { chooses, d, a }, .. }) = rule else { return };
        let Some(store) = space.tangent_store() else { return };
        // SAFETY: the caller's promise.
        let all: [_; LANES] = std::array::from_fn(|lane| unsafe { self.units(*a, lane) });
        // SAFETY: the caller's promise.
        let is_result = |lane: &usize| unsafe { self.source_bits(*a, *lane) } as u32 == out;
        let units = match lanes(group).find(|lane| all[*lane] != [0; WIDEST]) {
            None => [0; WIDEST],
            Some(first) => match lanes(group).find(is_result).filter(|_| *chooses) {
                Some(chosen) => all[chosen],
                None => self.mark(&mut store.lock(), rule, first, &all),
            },
        };
        // SAFETY: the caller's promise.
        lanes(group).for_each(|lane| unsafe { self.put_units(*d, lane, &units) });
    }

    /// `mma`: dD = dA B + A dB + dC, of the registers in the lists. Call it before D is written.
    ///
    /// # Safety
    /// The lists hold registers of the current frame, of 64 (`wide`) or 32 bits.
    pub(crate) unsafe fn product_tangents(
        &mut self,
        rule: u64,
        product: &Product,
        (d, a, b, c): (&[u32], &[u32], &[u32], &[u32]),
        wide: bool,
    ) {
        let (space, rule) = (self.space, self.rule(rule));
        let (Some(rule), Some(store)) = (rule, space.tangent_store()) else { return };
        let mut held = store.lock();
        if !product.is_smooth() {
            // SAFETY: the caller's promise.
            unsafe { self.mark_product(&mut held, rule, d, [a, b, c]) };
            return;
        }
        let mut out = Vec::new();
        {
            let (m, held) = (&*self, std::cell::RefCell::new(&mut *held));
            let tangent = |list: &[u32], at: usize, lane: usize, element: usize, len: usize| {
                let Some(&slot) = list.get(at) else { return 0.0 };
                let source = Source::Register(register(slot, wide));
                // SAFETY: the caller's promise.
                let units = unsafe { m.units(source, lane) };
                let start = element * len;
                let number = &units[start..start + len];
                m.number(&mut held.borrow_mut(), rule, lane, number)
            };
            let value_of = |list: &[u32], at: usize, lane: usize, element: usize, ty| {
                let Some(&slot) = list.get(at) else { return 0.0 };
                let source = Source::Register(register(slot, wide));
                // SAFETY: the caller's promise.
                value(ty, unsafe { m.source_bits(source, lane) }, element)
            };
            product.tangents(
                |at, lane, element, ty| value_of(a, at, lane, element, ty),
                |at, lane, element, ty| value_of(b, at, lane, element, ty),
                [
                    &|at, lane, element, len| tangent(a, at, lane, element, len),
                    &|at, lane, element, len| tangent(b, at, lane, element, len),
                    &|at, lane, element, len| tangent(c, at, lane, element, len),
                ],
                |at, lane, element, len, tangent| out.push((at, lane, element, len, tangent)),
            );
        }
        // Elements of a register come one after the other.
        let mut units = [0; WIDEST];
        for (at, lane, element, len, tangent) in out {
            let Some(&slot) = d.get(at) else { continue };
            if element == 0 {
                units = [0; WIDEST];
            }
            unit::write(&mut units[element * len..(element + 1) * len], tangent);
            // SAFETY: the caller's promise.
            unsafe { self.put_units(register(slot, wide), lane, &units) };
        }
    }

    /// A product of integers, or floats of 8 bits: D is made of bits of numbers if anything is.
    ///
    /// # Safety
    /// The lists hold 32-bit registers of the current frame.
    unsafe fn mark_product(
        &mut self,
        held: &mut Held,
        rule: &Rule,
        d: &[u32],
        sources: [&[u32]; 3],
    ) {
        let mut out = [0; WIDEST];
        for &slot in sources.into_iter().flatten() {
            for lane in 0..LANES {
                let source = Source::Register(register(slot, false));
                // SAFETY: the caller's promise.
                let units = unsafe { self.units(source, lane) };
                if units != [0; WIDEST] && out == [0; WIDEST] {
                    out = self.mark(held, rule, lane, &[units]);
                }
            }
        }
        for &slot in d {
            for lane in 0..LANES {
                // SAFETY: the caller's promise.
                unsafe { self.put_units(register(slot, false), lane, &out) };
            }
        }
    }

    /// An element of a fragment that is loaded from memory or stored to it.
    ///
    /// # Safety
    /// The slot is a register of the current frame, of 64 (`wide`) or 32 bits.
    pub(crate) unsafe fn fragment_tangents(
        &mut self,
        (slot, wide): (u32, bool),
        (lane, element): (usize, usize),
        (host, bytes): (u64, u64),
        store: bool,
    ) {
        let Some(table) = self.space.tangent_store() else { return };
        let held = &mut *table.lock();
        let register = register(slot, wide);
        // SAFETY: the caller's promise.
        let mut units = unsafe { self.units(Source::Register(register), lane) };
        if !store && element == 0 {
            units = [0; WIDEST];
        }
        let len = bytes as usize / 2;
        for (unit, offset) in units[element * len..].iter_mut().take(len).zip((0..).step_by(2)) {
            if store {
                held.put(host + offset, *unit);
            } else {
                *unit = held.get(host + offset);
            }
        }
        if !store {
            // SAFETY: the caller's promise.
            unsafe { self.put_units(register, lane, &units) };
        }
    }

    /// A matrix of `ldmatrix` or `stmatrix`, whose rows are at these addresses.
    ///
    /// # Safety
    /// The slot is a 32-bit register of the current frame.
    pub(crate) unsafe fn row_tangents(
        &mut self,
        slot: u32,
        rows: &[u64; 8],
        trans: bool,
        store: bool,
    ) {
        let Some(table) = self.space.tangent_store() else { return };
        let held = &mut *table.lock();
        let register = register(slot, false);
        for (lane, pair) in ldmatrix(&numbered(), trans).into_iter().enumerate() {
            let at = [pair & 63, pair >> 16 & 63]
                .map(|number| rows[number as usize / 8] + u64::from(2 * (number % 8)));
            if store {
                // SAFETY: the caller's promise.
                let units = unsafe { self.units(Source::Register(register), lane) };
                at.iter().zip(units).for_each(|(&at, unit)| held.put(at, unit));
            } else {
                // SAFETY: the caller's promise.
                unsafe { self.put_units(register, lane, &at.map(|at| held.get(at))) };
            }
        }
    }

    /// `movmatrix`: the fragment in a register is transposed into another.
    ///
    /// # Safety
    /// The slots are 32-bit registers of the current frame.
    pub(crate) unsafe fn transpose_tangents(&mut self, d: u32, a: u32) {
        let source = Source::Register(register(a, false));
        // SAFETY: the caller's promise.
        let all: [_; LANES] = std::array::from_fn(|lane| unsafe { self.units(source, lane) });
        let numbers = std::array::from_fn(|lane| (2 * lane + ((2 * lane + 1) << 16)) as u32);
        for (lane, pair) in movmatrix(&numbers).into_iter().enumerate() {
            let units: [Unit; 2] = [pair & 63, pair >> 16 & 63]
                .map(|number| all[number as usize / 2][number as usize % 2]);
            // SAFETY: the caller's promise.
            unsafe { self.put_units(register(d, false), lane, &units) };
        }
    }
}
