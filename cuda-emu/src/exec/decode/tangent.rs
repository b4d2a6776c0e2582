//! The rules of tangents, from the typed PTX; and the markers, which are moves.

use ptx::ir::{
    Address, BinaryOp, Dst, Instr, Mode, Op, Operand, Piece, PrmtMode, ReduxOp, Rounding, Type,
    UnaryOp,
};

use super::data::space_code;
use super::{Class, Decoder, Place as Variable, Refusal};
use crate::arith::atomics;
use crate::exec::inst::Inst;
use crate::exec::memory::{CLUSTER, SHARED};
use crate::exec::ops::moves::{Move32, Move64};
use crate::exec::tangent::derivative::{self, Function, layout};
use crate::exec::tangent::{Choice, Conversion, Place, Register, Rule, Source, Tangent, What};

/// A marker: an opcode that no GPU has, which the compiler passes through `asm`.
struct Marker<'o> {
    kind: &'o str,
    ty: Type,
    /// The destination, then the sources.
    operands: Vec<Operand>,
}

/// Returns the marker that an opcode names: what kind, and its type.
pub(in crate::exec) fn marker_type(opcode: &str) -> Option<(&str, Type)> {
    let mut words = opcode.strip_prefix("ad.")?.split('.');
    let (kind, ty, name, end) = (words.next()?, words.next()?, words.next(), words.next());
    // `ad.lost` may name a function.
    if end.is_some() || (name.is_some() && kind != "lost") {
        return None;
    }
    let ty = match ty {
        "f32" => Type::F32,
        "f64" => Type::F64,
        _ => return None,
    };
    matches!(kind, "rule" | "stop" | "lost").then_some((kind, ty))
}

/// Returns the bits of a constant as PTX writes it: hexadecimal, or a decimal number.
fn constant(text: &str, ty: Type) -> Option<u64> {
    let hex = |text: &str, digits| {
        (text.len() == digits).then(|| u64::from_str_radix(text, 16).ok()).flatten()
    };
    let value = match text.get(..2) {
        Some("0f" | "0F") => f64::from(f32::from_bits(hex(&text[2..], 8)? as u32)),
        Some("0d" | "0D") => f64::from_bits(hex(&text[2..], 16)?),
        _ => text.replace(' ', "").parse().ok()?,
    };
    Some(if ty == Type::F32 { (value as f32).to_bits().into() } else { value.to_bits() })
}

/// Takes a marker apart. `None` if the instruction is none.
fn marker(op: &Op) -> Option<Result<Marker<'_>, Refusal>> {
    let Op::Other { opcode, operands: pieces } = op else { return None };
    let (kind, ty) = marker_type(opcode)?;
    let wrong = || format!("{opcode} with such operands");
    let mut operands = Vec::new();
    // Registers are pieces, all between them is text.
    let mut open = true;
    for piece in pieces {
        match piece {
            Piece::Reg(register) if open => {
                operands.push(Operand::Reg(*register));
                open = false;
            }
            Piece::Text(text) => {
                for (at, word) in text.split(',').enumerate() {
                    if at > 0 {
                        if open {
                            return Some(Err(wrong()));
                        }
                        open = true;
                    }
                    let word = word.trim();
                    if !word.is_empty() {
                        let Some(bits) = constant(word, ty).filter(|_| open) else {
                            return Some(Err(wrong()));
                        };
                        operands.push(Operand::Imm(bits));
                        open = false;
                    }
                }
            }
            _ => return Some(Err(wrong())),
        }
    }
    let count = operands.len();
    let fits = match kind {
        "rule" => count >= 4 && count % 2 == 0,
        _ => count == 2,
    };
    if open || !fits || !matches!(operands.first(), Some(Operand::Reg(_))) {
        return Some(Err(wrong()));
    }
    Some(Ok(Marker { kind, ty, operands }))
}

impl Decoder<'_, '_> {
    /// Decodes a marker: a move of its first source. False if the instruction is none.
    pub(super) fn marker(&mut self, op: &Op) -> Result<bool, Refusal> {
        let Some(marker) = marker(op) else { return Ok(false) };
        let Marker { ty, operands, .. } = marker?;
        let class = Class::of(ty);
        let [Operand::Reg(d), a, ..] = operands[..] else { return Ok(false) };
        let a = self.src(&a, class)?;
        let d = self.dst(Some(d), class)?;
        let run =
            if class == Class::Wide { self.vector::<Move64>() } else { self.vector::<Move32>() };
        let inst = self.inst(run);
        self.emit(Inst { d, a, ..inst });
        Ok(true)
    }

    /// Puts the rule of an instruction in front of it, if tangents are tracked.
    pub(super) fn tangent(&mut self, instr: &Instr) -> Result<(), Refusal> {
        if !self.cx.follows() {
            return Ok(());
        }
        for what in self.rules(&instr.op)? {
            let inside =
                matches!(what, What::Exchange { .. } | What::Reduce { .. } | What::Product);
            let opcode = match &instr.op {
                Op::Other { opcode, .. } => opcode.clone(),
                op => super::arith::describe(op).into(),
            };
            self.code.rules.push(Rule { opcode, what });
            if !inside {
                let inst = self.inst(self.pick::<Tangent>());
                let imm = self.code.rules.len() as u64 - 1;
                self.emit(Inst { imm, ..inst });
            }
        }
        Ok(())
    }

    /// Returns the number of the rule that was made for the instruction that is being decoded, for those that apply it
    /// themselves.
    pub(super) fn own_rule(&self) -> u64 {
        (self.code.rules.len() as u64).wrapping_sub(1)
    }

    pub(super) fn register(&self, d: Dst) -> Option<Register> {
        let (slot, class) = self.reg(d?).ok()?;
        (class != Class::Pred).then_some(Register { slot, class })
    }

    pub(super) fn source(&self, operand: &Operand) -> Source {
        match operand {
            Operand::Reg(register) => {
                self.register(Some(*register)).map_or(Source::Bits(0), Source::Register)
            }
            Operand::Imm(bits) => Source::Bits(*bits),
            Operand::Special(_) | Operand::Symbol(..) => Source::Bits(0),
        }
    }

    fn sources<const N: usize>(&self, operands: [&Operand; N]) -> [Source; 3] {
        let mut all = [Source::Bits(0); 3];
        for (source, operand) in all.iter_mut().zip(operands) {
            *source = self.source(operand);
        }
        all
    }

    /// An integer instruction.
    fn integer(&self, d: Dst, sources: &[&Operand]) -> Vec<What> {
        let sources = sources.iter().map(|operand| self.source(operand)).collect();
        self.register(d).map(|d| What::Integer { d: vec![d], sources }).into_iter().collect()
    }

    fn constants(&self, d: &[Dst]) -> Vec<What> {
        vec![What::Constant { d: d.iter().filter_map(|&d| self.register(d)).collect() }]
    }

    /// A float instruction; another one, if the type is none of floats.
    fn float(
        &self,
        function: Option<Function>,
        (ty, mode): (Type, &Mode),
        d: Dst,
        operands: &[&Operand],
    ) -> Vec<What> {
        let Some(register) = self.register(d) else { return Vec::new() };
        let (Some(function), true) = (function, layout(ty).is_some()) else {
            return self.integer(d, operands);
        };
        let mut sources = [Source::Bits(0); 3];
        for (source, operand) in sources.iter_mut().zip(operands) {
            *source = self.source(operand);
        }
        vec![What::Float { function, ty, mode: *mode, d: register, sources }]
    }

    fn logic(&self, lut: u8, ty: Type, d: Dst, sources: [Source; 3]) -> Vec<What> {
        if ty == Type::Pred {
            return Vec::new();
        }
        let width = (ty.bits() as usize / 16).clamp(1, 4);
        self.register(d).map(|d| What::Logic { lut, width, d, sources }).into_iter().collect()
    }

    /// Returns the rule that joins the units of sources, in order.
    fn gather(&self, d: Dst, parts: &[(Source, u8, u32)]) -> Vec<What> {
        let units = parts.iter().flat_map(|&(source, first, count)| {
            (0..count).map(move |at| (source, first + at as u8))
        });
        let units = units.collect();
        self.register(d).map(|d| What::Gather { d, units }).into_iter().collect()
    }

    /// Returns the rule of an instruction for tangents.
    fn rules(&mut self, op: &Op) -> Result<Vec<What>, Refusal> {
        if let Some(rules) = self.arithmetic(op) {
            return Ok(rules);
        }
        if let Some(rules) = self.moves(op) {
            return Ok(rules);
        }
        self.accesses(op)
    }

    fn arithmetic(&self, op: &Op) -> Option<Vec<What>> {
        let choose = |greater, ty: Type, d: Dst, a, b| match self.register(d) {
            Some(register)
                if matches!(ty.bits(), 16..=64)
                    && !matches!(ty, Type::U16x2 | Type::S16x2 | Type::U8x4 | Type::S8x4) =>
            {
                let choice = Choice::Integer { greater, ty };
                vec![What::Choose { d: register, a: self.source(a), b: self.source(b), choice }]
            }
            _ => self.integer(d, &[a, b]),
        };
        Some(match op {
            Op::Unary { op: UnaryOp::Not, ty, d, a, .. } => {
                self.logic(0x0f, *ty, *d, self.sources([a]))
            }
            Op::Unary { op, ty, mode, d, a } => {
                self.float(derivative::unary(*op), (*ty, mode), *d, &[a])
            }
            Op::Binary { op: BinaryOp::And, ty, d, a, b, .. } => {
                self.logic(0xc0, *ty, *d, self.sources([a, b]))
            }
            Op::Binary { op: BinaryOp::Or, ty, d, a, b, .. } => {
                self.logic(0xfc, *ty, *d, self.sources([a, b]))
            }
            Op::Binary { op: BinaryOp::Xor, ty, d, a, b, .. } => {
                self.logic(0x3c, *ty, *d, self.sources([a, b]))
            }
            Op::Lop3 { lut, d, a, b, c } | Op::Lop3Bool { lut, d, a, b, c, .. } => {
                self.logic(*lut, Type::B32, *d, self.sources([a, b, c]))
            }
            Op::Binary { op: op @ (BinaryOp::Shl | BinaryOp::Shr), ty, d, a, b, .. } => {
                let (right, width) = (*op == BinaryOp::Shr, (ty.bits() as usize / 16).clamp(1, 4));
                let (a, amount) = (self.source(a), self.source(b));
                let shift = |d| What::Shift { right, width, d, a, amount };
                self.register(*d).map(shift).into_iter().collect()
            }
            Op::Binary { op: op @ (BinaryOp::Min | BinaryOp::Max), ty, d, a, b, .. }
                if layout(*ty).is_none() =>
            {
                choose(*op == BinaryOp::Max, *ty, *d, a, b)
            }
            Op::Binary { op, ty, mode, d, a, b } => {
                self.float(derivative::binary(*op), (*ty, mode), *d, &[a, b])
            }
            Op::MinMax3 { max, ty, mode, d, a, b, c } => {
                let function = if *max { Function::Max(3) } else { Function::Min(3) };
                self.float(Some(function), (*ty, mode), *d, &[a, b, c])
            }
            Op::Mul { ty, part: None, mode, d, a, b } => {
                self.float(Some(Function::Mul), (*ty, mode), *d, &[a, b])
            }
            Op::Mad { ty, part: None, mode, d, a, b, c } | Op::Fma { ty, mode, d, a, b, c } => {
                self.float(Some(Function::Fma), (*ty, mode), *d, &[a, b, c])
            }
            Op::Mul { d, a, b, .. } | Op::Mul24 { d, a, b, .. } => self.integer(*d, &[a, b]),
            Op::Mad { d, a, b, c, .. }
            | Op::Mad24 { d, a, b, c, .. }
            | Op::Sad { d, a, b, c, .. }
            | Op::Bfe { d, a, b, c, .. }
            | Op::Dot { d, a, b, c, .. }
            | Op::Video { d, a, b, c, .. }
            | Op::Fns { d, mask: a, base: b, offset: c } => self.integer(*d, &[a, b, c]),
            Op::Carry { d, a, b, c, .. } => {
                self.integer(*d, &[a, b, c.as_ref().unwrap_or(&Operand::Imm(0))])
            }
            Op::CvtPack { d, a, b, c, .. } => {
                self.integer(*d, &[a, b, c.as_ref().unwrap_or(&Operand::Imm(0))])
            }
            Op::Bfind { d, a, .. } | Op::Cvta { d, a, .. } => self.integer(*d, &[a]),
            Op::Bfi { d, a, b, c, e, .. } => self.integer(*d, &[a, b, c, e]),
            Op::Bmsk { d, a, b, .. } | Op::Szext { d, a, b, .. } | Op::Mapa { d, a, b, .. } => {
                self.integer(*d, &[a, b])
            }
            Op::Shf { right, mode, d, a, b, c } => {
                let sources = self.sources([a, b, c]);
                let (right, clamp) = (*right, *mode == ptx::ir::Clamp::Clamp);
                let funnel = |d| What::Funnel { right, clamp, d, sources };
                self.register(*d).map(funnel).into_iter().collect()
            }
            Op::Prmt { mode: None, d, a, b, c } => {
                let sources = self.sources([a, b, c]);
                self.register(*d).map(|d| What::Permute { d, sources }).into_iter().collect()
            }
            Op::Prmt { mode: Some(PrmtMode::Rc16), d, a, b, c } | Op::Prmt { d, a, b, c, .. } => {
                self.integer(*d, &[a, b, c])
            }
            _ => return None,
        })
    }

    fn moves(&self, op: &Op) -> Option<Vec<What>> {
        Some(match op {
            Op::Mov { d, a, ty } => self.gather(*d, &[(self.source(a), 0, units(*ty))]),
            Op::Pack { ty, d, a } => {
                let each = ty.bits().checked_div(a.len() as u32).unwrap_or(0) / 16;
                if each == 0 {
                    return Some(self.integer(*d, &a.iter().collect::<Vec<_>>()));
                }
                let parts: Vec<_> = a.iter().map(|a| (self.source(a), 0, each)).collect();
                self.gather(*d, &parts)
            }
            Op::Unpack { ty, d, a } => {
                let each = ty.bits().checked_div(d.len() as u32).unwrap_or(0) / 16;
                let part = |(at, &d): (u32, &Dst)| match each {
                    0 => self.integer(d, &[a]),
                    _ => self.gather(d, &[(self.source(a), (at * each) as u8, each)]),
                };
                (0..).zip(d).flat_map(part).collect()
            }
            Op::Selp { d, a, b, p, .. } => {
                let choice = self
                    .pred_slot(p.reg)
                    .ok()
                    .map(|slot| Choice::Predicate { slot, negated: p.negated });
                self.choose(*d, a, b, choice)
            }
            Op::Slct { d, a, b, c, c_ty, ftz, .. } => {
                let (of, float) = (self.source(c), *c_ty == Type::F32);
                self.choose(*d, a, b, Some(Choice::Sign { of, float, ftz: *ftz }))
            }
            Op::Set { d, .. }
            | Op::Vote { d, .. }
            | Op::Match { d, .. }
            | Op::Activemask { d }
            | Op::Elect { d, .. }
            | Op::Bar { d, .. }
            | Op::Alloca { d, .. }
            | Op::Stacksave { d, .. }
            | Op::CreatePolicy { d, .. }
            | Op::MbarrierArrive { d, .. }
            | Op::Getctarank { d, .. }
            | Op::MbarrierPending { d, .. } => self.constants(&[*d]),
            Op::Cvt { .. } => self.conversion(op),
            Op::Shfl { d, a, .. } => {
                let a = self.source(a);
                // A sink takes nothing, but the instruction still has a rule.
                let rule = |d| What::Exchange { d, a };
                vec![self.register(*d).map_or(What::Constant { d: Vec::new() }, rule)]
            }
            Op::Redux { op, d, a, .. } => {
                // Which lane is the least depends on all of them.
                let chooses = matches!(op, ReduxOp::Min | ReduxOp::Max) && !self.cx.taint;
                let a = self.source(a);
                let rule = |d| What::Reduce { chooses, d, a };
                vec![self.register(*d).map_or(What::Constant { d: Vec::new() }, rule)]
            }
            Op::Mma(_) => vec![What::Product],
            Op::Other { .. } => {
                let Marker { kind, ty, operands } = marker(op)?.ok()?;
                let [Operand::Reg(d), y, terms @ ..] = &operands[..] else { return None };
                let d = self.register(Some(*d))?;
                vec![match kind {
                    "rule" => {
                        let term = |pair: &[Operand]| match pair {
                            [x, factor] => Some((self.source(x), self.source(factor))),
                            _ => None,
                        };
                        What::Sum { ty, d, terms: terms.chunks(2).filter_map(term).collect() }
                    }
                    "lost" => What::Lose { ty, d, sources: vec![self.source(y)] },
                    _ => What::Constant { d: vec![d] },
                }]
            }
            _ => return None,
        })
    }

    fn choose(&self, d: Dst, a: &Operand, b: &Operand, choice: Option<Choice>) -> Vec<What> {
        let (a, b) = (self.source(a), self.source(b));
        let choose = |(d, choice)| What::Choose { d, a, b, choice };
        self.register(d).zip(choice).map(choose).into_iter().collect()
    }

    fn conversion(&self, op: &Op) -> Vec<What> {
        let Op::Cvt { to, from, rounding, sat, satfinite, relu, d, a, b, .. } = op else {
            return Vec::new();
        };
        let Some(register) = self.register(*d) else { return Vec::new() };
        let (to, from, source) = (*to, *from, self.source(a));
        let mut sources = vec![source];
        sources.extend(b.as_ref().map(|b| self.source(b)));
        let int = |ty| crate::exec::ops::convert::is_int(ty);
        let integral =
            matches!(rounding, Some(Rounding::Rni | Rounding::Rzi | Rounding::Rmi | Rounding::Rpi));
        if int(to) && int(from) {
            let least = to.bits().min(from.bits());
            if *sat || least < 16 {
                return self.integer(*d, &[a]);
            }
            return self.gather(*d, &[(source, 0, least / 16)]);
        }
        if int(to) || integral {
            return self.constants(&[*d]);
        }
        if layout(to).is_none() || layout(from).is_none() {
            return vec![What::Lose { ty: to, d: register, sources }];
        }
        let how = Conversion {
            to,
            from,
            sat: *sat,
            satfinite: *satfinite,
            relu: *relu,
            pair: b.is_some(),
        };
        let second = sources.get(1).copied().unwrap_or(Source::Bits(0));
        vec![What::Convert { how, d: register, sources: [source, second] }]
    }

    fn accesses(&mut self, op: &Op) -> Result<Vec<What>, Refusal> {
        Ok(match op {
            Op::Ld { access, ty, d, addr, .. } => {
                let place = self.place_of(addr, access.space)?;
                let d = d.iter().map(|&d| self.register(d)).collect();
                vec![What::Load { place, bytes: ty.bytes(), d }]
            }
            Op::St { access, ty, addr, a } => {
                let place = self.place_of(addr, access.space)?;
                let a = a.iter().map(|a| self.source(a)).collect();
                vec![What::Store { place, bytes: ty.bytes(), a }]
            }
            Op::Atom { op, access, ty, d, addr, a, c, .. } => {
                let shared = matches!(space_code(access.space)?, SHARED | CLUSTER);
                let rmw = atomics::rmw(*op, *ty, shared);
                let rmw = rmw.ok_or_else(|| format!("atom.{}.{op}.{ty}", access.space))?;
                let mut rules = Vec::new();
                for (at, operand) in (0..).zip(a) {
                    let addr = Address {
                        offset: addr.offset.wrapping_add(i64::from(ty.bytes()) * at),
                        ..*addr
                    };
                    let place = self.place_of(&addr, access.space)?;
                    let a = self.source(operand);
                    let c = c.as_ref().map_or(Source::Bits(0), |c| self.source(c));
                    let d = self.register(d.get(at as usize).copied().flatten());
                    rules.push(What::Atomic { op: *op, ty: *ty, place, rmw, d, a, c });
                }
                rules
            }
            // Texels have no tangents.
            Op::Other { opcode, .. }
                if !self.cx.taint
                    && ["tex.", "tld4.", "suld.", "sust.", "sured."]
                        .iter()
                        .any(|name| opcode.starts_with(name)) =>
            {
                return Err(opcode.to_string());
            }
            _ => Vec::new(),
        })
    }

    /// Returns where an access finds its elements.
    pub(super) fn place_of(
        &mut self,
        addr: &Address,
        space: ptx::ir::Space,
    ) -> Result<Place, Refusal> {
        let outside = || "an access outside a parameter".to_owned();
        let offset = || u32::try_from(addr.offset).map_err(|_| outside());
        Ok(match self.param_place(addr) {
            Some(Variable::Kernel { offset: start, .. }) => {
                Place::Kernel { offset: start.checked_add(offset()?).ok_or_else(outside)? }
            }
            Some(Variable::Frame { slot, stride, .. }) => {
                Place::Frame { slot, stride, offset: offset()? }
            }
            _ => {
                let (slot, narrow, offset) = self.address(addr, space)?;
                Place::Memory { slot, narrow, offset, space: space_code(space)? }
            }
        })
    }
}

/// Units of a value of a type.
fn units(ty: Type) -> u32 {
    ty.bits() / 16
}
