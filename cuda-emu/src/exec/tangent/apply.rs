//! The rules, lane by lane.

use ptx::ir::Type;

use super::derivative::{clamped, derivative, greatest, layout, value};
use super::{Choice, Conversion, Register, Rule, Source, What, bits};
use crate::exec::decode::{Class, Spot};
use crate::exec::inst::{LANES, lanes};
use crate::exec::machine::Machine;
use crate::space::tangent::Held;
use crate::space::tangent::unit::{self, Number, Unit, WIDEST};

impl Class {
    /// Units of a register.
    pub(crate) fn units(self) -> usize {
        match self {
            Self::Pred => 0,
            Self::Narrow => 2,
            Self::Wide => 4,
            Self::Double => WIDEST,
        }
    }
}

impl Machine<'_> {
    /// Returns where the tangent lies of 2 bytes at a place of the current frame.
    pub(in crate::exec) fn shadow(&self, at: u32) -> *mut Unit {
        let offset = self.code.shadow as usize + 4 * at as usize;
        self.regs.wrapping_add(offset).cast()
    }

    /// Returns the place of the unit of a register in a lane.
    fn unit_place(register: Register, lane: usize, unit: usize) -> u32 {
        let (lane, unit) = (lane as u32, unit as u32);
        match register.class {
            Class::Pred | Class::Narrow => register.slot + 4 * lane + 2 * unit,
            Class::Wide => register.slot + 8 * lane + 2 * unit,
            Class::Double => register.slot + 256 * (unit / 4) + 8 * lane + 2 * (unit % 4),
        }
    }

    /// Returns the units of a source.
    ///
    /// # Safety
    /// A register is one of the current frame.
    pub(in crate::exec) unsafe fn units(&self, source: Source, lane: usize) -> [Unit; WIDEST] {
        let mut units = [0; WIDEST];
        if let Source::Register(register) = source {
            for (at, unit) in units.iter_mut().enumerate().take(register.class.units()) {
                // SAFETY: the frame has a unit for each 2 bytes of its registers, all initialised and aligned.
                *unit = unsafe { *self.shadow(Self::unit_place(register, lane, at)) };
            }
        }
        units
    }

    /// Sets the units of a register; those beyond `units` are zero.
    ///
    /// # Safety
    /// As for [`Machine::units`].
    pub(in crate::exec) unsafe fn put_units(
        &mut self,
        register: Register,
        lane: usize,
        units: &[Unit],
    ) {
        for at in 0..register.class.units() {
            let unit = units.get(at).copied().unwrap_or(0);
            // SAFETY: as in `units`.
            unsafe { *self.shadow(Self::unit_place(register, lane, at)) = unit };
        }
    }

    /// Returns the bits of a source of at most 64.
    ///
    /// # Safety
    /// As for [`Machine::units`].
    pub(super) unsafe fn source_bits(&self, source: Source, lane: usize) -> u64 {
        match source {
            Source::Bits(bits) => bits,
            // SAFETY: the register lies in the frame and is as wide as its class says.
            Source::Register(register) => unsafe {
                match register.class {
                    Class::Pred => 0,
                    Class::Narrow => self.lanes::<u32>(register.slot)[lane].into(),
                    Class::Wide | Class::Double => self.lanes::<u64>(register.slot)[lane],
                }
            },
        }
    }

    /// Returns the index of the instruction of a rule, at which this lane is.
    pub(super) fn origin(&self, held: &mut Held, rule: &Rule, lane: usize) -> u32 {
        let program = self.job.program;
        let entry = program.function_of(self.job.entry);
        let here = self.warp.frame(self.frame).map_or(entry, |frame| frame.function);
        let line = self.code.lines.get(self.pc as usize).map_or(0, |line| line.0);
        held.origins.index(&rule.opcode, (&program.code(entry).name, here, line), || {
            self.report(lane, format!("{} loses a tangent", rule.opcode))
        })
    }

    /// Returns a number's tangent; if it is lost, NaN, after a note.
    pub(super) fn number(&self, held: &mut Held, rule: &Rule, lane: usize, units: &[Unit]) -> f64 {
        let origin = match unit::read(units) {
            Number::Tangent(tangent) => return tangent,
            Number::Lost(origin) => origin,
            Number::Torn => self.origin(held, rule, lane),
        };
        held.origins.note(origin);
        f64::NAN
    }

    /// Returns the mark of bits that this instruction makes from sources of which one has a tangent.
    pub(super) fn mark(
        &self,
        held: &mut Held,
        rule: &Rule,
        lane: usize,
        sources: &[[Unit; WIDEST]],
    ) -> [Unit; WIDEST] {
        let mut all = sources.iter().flatten();
        let origin = match all.find_map(|&unit| unit::origin(unit)) {
            Some(origin) => origin,
            None => self.origin(held, rule, lane),
        };
        [unit::lost(origin); WIDEST]
    }

    /// Returns whether no lane has a tangent in a source.
    ///
    /// # Safety
    /// As for [`Machine::units`].
    unsafe fn is_constant(&self, source: Source) -> bool {
        let Source::Register(register) = source else { return true };
        let parts = if register.class == Class::Double { 2 } else { 1 };
        let units = register.class.units() / parts * LANES;
        (0..parts as u32).all(|part| {
            let start = self.shadow(register.slot + 256 * part);
            // SAFETY: a register is 32 values one after the other, and so are their units.
            unsafe { std::slice::from_raw_parts(start, units) }.iter().all(|&unit| unit == 0)
        })
    }

    /// Applies a rule to the lanes of a mask.
    ///
    /// # Safety
    /// The rule is one of the current function.
    pub(super) unsafe fn apply(&mut self, rule: &Rule, held: &mut Held, mask: u32) {
        let mut constant = true;
        let known = rule.what.each_source(&mut |source| {
            // SAFETY: the caller's promise.
            constant = constant && unsafe { self.is_constant(source) };
        });
        if known.is_some() && constant {
            for &d in rule.what.targets() {
                for lane in lanes(mask) {
                    // SAFETY: the caller's promise.
                    unsafe { self.put_units(d, lane, &[]) };
                }
            }
            return;
        }
        match &rule.what {
            What::Load { place, bytes, d } => {
                // SAFETY: the caller's promise.
                unsafe { self.load_tangents(held, rule, (*place, *bytes, d), mask) };
            }
            What::Store { place, bytes, a } => {
                // SAFETY: the caller's promise.
                unsafe { self.store_tangents(held, rule, (*place, *bytes, a), mask) };
            }
            // SAFETY: the caller's promise.
            What::Atomic { .. } => unsafe { self.atomic_tangents(held, rule, mask) },
            _ => {
                for lane in lanes(mask) {
                    // SAFETY: the caller's promise.
                    unsafe { self.apply_one(rule, held, lane) };
                }
            }
        }
    }

    /// Applies a rule of one lane.
    ///
    /// # Safety
    /// As for [`Machine::apply`].
    unsafe fn apply_one(&mut self, rule: &Rule, held: &mut Held, lane: usize) {
        // SAFETY: the caller's promise.
        let units = |m: &Self, source: Source| unsafe { m.units(source, lane) };
        // SAFETY: the caller's promise.
        let bits_of = |m: &Self, source: Source| unsafe { m.source_bits(source, lane) };
        let (d, out) = match &rule.what {
            What::Float { function, ty, mode, d, sources } => {
                let all = sources.map(|source| units(self, source));
                let values = sources.map(|source| bits_of(self, source));
                let (count, len) = layout(*ty).unwrap_or((0, 0));
                let mut out = [0; WIDEST];
                for index in 0..count {
                    let range = index * len..(index + 1) * len;
                    let tangents =
                        all.map(|all| self.number(held, rule, lane, &all[range.clone()]));
                    if tangents != [0.0; 3] {
                        let values = values.map(|bits| value(*ty, bits, index));
                        let tangent = derivative(*function, mode, values, tangents);
                        unit::write(&mut out[range], tangent);
                    }
                }
                (*d, out)
            }
            What::Convert { how, d, sources } => {
                let all = sources.map(|source| units(self, source));
                let values = sources.map(|source| bits_of(self, source));
                (*d, self.converted(held, rule, lane, how, (all, values)))
            }
            What::Sum { ty, d, terms } => {
                let len = layout(*ty).map_or(0, |layout| layout.1);
                let mut sum = 0.0;
                for &(x, factor) in terms {
                    let factor = value(*ty, bits_of(self, factor), 0);
                    let tangent = self.number(held, rule, lane, &units(self, x)[..len]);
                    sum += if tangent == 0.0 { 0.0 } else { tangent * factor };
                }
                let mut out = [0; WIDEST];
                unit::write(&mut out[..len], sum);
                (*d, out)
            }
            What::Gather { d, units: from } => {
                let mut out = [0; WIDEST];
                for (out, &(source, unit)) in out.iter_mut().zip(from) {
                    *out = units(self, source)[usize::from(unit) % WIDEST];
                }
                (*d, out)
            }
            What::Choose { d, a, b, choice } => {
                let first = match *choice {
                    Choice::Predicate { slot, negated } => {
                        // SAFETY: the slot is a predicate of the frame.
                        (unsafe { self.pred(slot) } >> lane & 1 != 0) != negated
                    }
                    Choice::Sign { of, float, ftz } => {
                        not_negative(bits_of(self, of) as u32, float, ftz)
                    }
                    Choice::Integer { greater, ty } => {
                        let (a, b) = (bits_of(self, *a), bits_of(self, *b));
                        let (a, b) = (integer(ty, a), integer(ty, b));
                        if greater { a >= b } else { a <= b }
                    }
                };
                (*d, units(self, if first { *a } else { *b }))
            }
            What::Logic { .. }
            | What::Shift { .. }
            | What::Funnel { .. }
            | What::Permute { .. } => {
                // SAFETY: the caller's promise.
                unsafe { self.apply_bits(rule, held, lane) };
                return;
            }
            What::Integer { d, sources } => {
                let all: Vec<_> = sources.iter().map(|&source| units(self, source)).collect();
                let constant = all.iter().flatten().all(|&unit| unit == 0);
                let out = if constant { [0; WIDEST] } else { self.mark(held, rule, lane, &all) };
                for &d in d {
                    // SAFETY: as above.
                    unsafe { self.put_units(d, lane, &out) };
                }
                return;
            }
            What::Lose { ty, d, sources } => {
                let all: Vec<_> = sources.iter().map(|&source| units(self, source)).collect();
                let mut out = [0; WIDEST];
                if all.iter().flatten().any(|&unit| unit != 0) {
                    let marked = self.mark(held, rule, lane, &all);
                    let tangent = self.number(held, rule, lane, &marked[..1]);
                    let (count, len) = layout(*ty).unwrap_or((d.class.units(), 1));
                    out[..count * len].chunks_mut(len).for_each(|out| unit::write(out, tangent));
                }
                (*d, out)
            }
            // These rules were applied before, or apply themselves.
            What::Constant { .. }
            | What::Load { .. }
            | What::Store { .. }
            | What::Atomic { .. }
            | What::Exchange { .. }
            | What::Reduce { .. }
            | What::Product => return,
        };
        // SAFETY: as above.
        unsafe { self.put_units(d, lane, &out) };
    }

    /// Functions of bits.
    ///
    /// # Safety
    /// As for [`Machine::apply`].
    unsafe fn apply_bits(&mut self, rule: &Rule, held: &mut Held, lane: usize) {
        let (d, sources) = match &rule.what {
            What::Logic { d, sources, .. }
            | What::Funnel { d, sources, .. }
            | What::Permute { d, sources } => (*d, *sources),
            What::Shift { d, a, amount, .. } => (*d, [*a, *amount, Source::Bits(0)]),
            _ => return,
        };
        // SAFETY: all registers of the rule are of the current frame.
        let all = sources.map(|source| unsafe { self.units(source, lane) });
        let out = if all.iter().flatten().all(|&unit| unit == 0) {
            Ok([0; WIDEST])
        } else {
            // SAFETY: as above.
            let values = sources.map(|source| unsafe { self.source_bits(source, lane) });
            // Operands that give a distance or an order must carry no tangent.
            let [a, b, c] = &all;
            let steady = |units: &[Unit; WIDEST]| {
                if *units == [0; WIDEST] { Ok(()) } else { Err(bits::Taken) }
            };
            match rule.what {
                What::Logic { lut, width, .. } => bits::logic(lut, width, values, &all),
                What::Shift { right, width, .. } => {
                    steady(b).and_then(|()| bits::shift(right, width, values[1] & 0xffff_ffff, a))
                }
                What::Funnel { right, clamp, .. } => {
                    let amount = values[2] & 0xffff_ffff;
                    let amount = if clamp { amount.min(32) } else { amount & 31 };
                    steady(c).and_then(|()| bits::funnel(right, amount, [a, b]))
                }
                _ => steady(c).and_then(|()| bits::permute(values[2], [a, b])),
            }
        };
        let out = out.unwrap_or_else(|_| self.mark(held, rule, lane, &all));
        // SAFETY: as above.
        unsafe { self.put_units(d, lane, &out) };
    }

    /// Conversions between floats.
    fn converted(
        &self,
        held: &mut Held,
        rule: &Rule,
        lane: usize,
        how: &Conversion,
        (all, values): ([[Unit; WIDEST]; 2], [u64; 2]),
    ) -> [Unit; WIDEST] {
        let mut out = [0; WIDEST];
        let (Some((count, to)), Some((_, from))) = (layout(how.to), layout(how.from)) else {
            return out;
        };
        for index in 0..count {
            // The upper half of a pair is the first source.
            let (source, part) = if how.pair { (1 - index % 2, 0) } else { (0, index) };
            let units = &all[source][part * from..(part + 1) * from];
            let mut tangent = self.number(held, rule, lane, units);
            if tangent != 0.0 {
                let value = value(how.from, values[source], part);
                let flat = how.satfinite && value.abs() > greatest(how.to);
                tangent = if flat { 0.0 } else { clamped(how.sat, how.relu, value, tangent) };
            }
            unit::write(&mut out[index * to..(index + 1) * to], tangent);
        }
        out
    }
}

/// Whether `slct` takes its first source.
fn not_negative(bits: u32, float: bool, ftz: bool) -> bool {
    if !float {
        return bits.cast_signed() >= 0;
    }
    let value = f32::from_bits(bits);
    value >= 0.0 || ftz && value.is_subnormal()
}

/// The value of an integer.
pub(super) fn integer(ty: Type, bits: u64) -> i128 {
    let unused = 64 - ty.bits().clamp(1, 64);
    if ty.is_signed() {
        ((bits << unused).cast_signed() >> unused).into()
    } else {
        (bits << unused >> unused).into()
    }
}

/// Copies tangents of arguments or results from one frame to another.
///
/// # Safety
/// The spots lie in the frames that the pointers point to, whose tangents begin at the offsets.
pub(crate) unsafe fn pass(
    (from, from_shadow): (*mut u8, u32),
    source: &Spot,
    (to, to_shadow): (*mut u8, u32),
    target: &Spot,
    mask: u32,
) {
    let place = |spot: &Spot, lane: usize, unit: usize| -> Option<u32> {
        match *spot {
            Spot::Reg { slot, class } if unit < class.units() => {
                Some(Machine::unit_place(Register { slot, class }, lane, unit))
            }
            Spot::Var { slot, stride, bytes } if 2 * (unit as u32) < bytes => {
                Some(slot + stride * lane as u32 + 2 * unit as u32)
            }
            _ => None,
        }
    };
    let unit = |base: *mut u8, shadow: u32, place: u32| -> *mut Unit {
        base.wrapping_add(shadow as usize + 4 * place as usize).cast()
    };
    for lane in lanes(mask) {
        let mut at = 0;
        while let Some(target) = place(target, lane, at) {
            let value = match place(source, lane, at) {
                // SAFETY: each frame has a unit for each 2 bytes of its registers and variables.
                Some(source) => unsafe { *unit(from, from_shadow, source) },
                None => 0,
            };
            // SAFETY: as above.
            unsafe { *unit(to, to_shadow, target) = value };
            at += 1;
        }
    }
}
