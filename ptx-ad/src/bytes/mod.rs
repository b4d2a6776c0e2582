//! Numbers that are copied byte by byte, as `memcpy` of a structure compiles to: loads and stores of whole numbers
//! take the place of those of their bytes.

mod loops;
mod stores;

use std::collections::HashMap;

use ptx::ir::{
    Address, Base, BinaryOp, Dst, Instr, LdKind, Op, Operand, Order, RegId, Space, Type,
};

use crate::analysis::{Access, Forms, Origin, Pointers};
use crate::body::{Body, End};
use crate::spec::{Real, Reals, Spec};

/// The origin of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Byte {
    Constant(u8),
    /// The byte of this number in a register's definition.
    Of(RegId, u8),
}

/// The bytes of a register, the least significant first.
type Bytes = [Byte; 8];

/// A load of one or two bytes.
#[derive(Debug, Clone, Copy)]
struct Narrow {
    block: usize,
    at: usize,
    /// The number of stores, atomic operations and calls before it in its block.
    stores: usize,
    /// The root of its address, and the offset from the root.
    base: Base,
    offset: i64,
    bytes: u8,
}

/// Replaces loads and stores of bytes by those of the numbers that they are parts of.
pub(crate) fn join(body: &mut Body, spec: &Spec) {
    let is_narrow = |instr: &Instr| {
        matches!(instr.op, Op::Ld { .. } | Op::St { .. })
            && Access::of(instr).is_some_and(|access| access.ty.bits() < 32 && !access.is_param())
    };
    if !body.instrs().any(|(_, instr)| is_narrow(instr)) {
        return;
    }
    let (pointers, _) = Pointers::new(spec);
    let forms = Forms::new(body, &pointers);
    let places = Places { pointers: &pointers, forms: &forms };
    let copies = loops::widen(body, &places);
    let mut join = Join::new(body, &places);
    join.definitions();
    join.stores();
    let Join { replaced, inserted, .. } = join;
    if replaced.is_empty() && !copies {
        return;
    }
    for (block, code) in body.blocks.iter_mut().enumerate() {
        let old = std::mem::take(&mut code.code);
        for (at, instr) in old.into_iter().enumerate() {
            code.code.extend(inserted.get(&(block, at)).into_iter().flatten().cloned());
            match replaced.get(&(block, at)) {
                Some(new) => code.code.extend(new.iter().cloned()),
                None => code.code.push(instr),
            }
        }
    }
    while drop_unused(body) {}
    body.index();
}

/// Removes loads of bytes and moves of bits that are never read. Returns whether there were any.
fn drop_unused(body: &mut Body) -> bool {
    let mut used = vec![false; body.function.registers.len()];
    let mut mark = |reg: RegId| {
        if let Some(place) = used.get_mut(reg.index()) {
            *place = true;
        }
    };
    for block in &body.blocks {
        for (_, arg) in block.phis.iter().flat_map(|phi| &phi.args) {
            if let Some(Operand::Reg(reg)) = arg {
                mark(*reg);
            }
        }
        block.code.iter().for_each(|instr| instr.for_each_use(&mut mark));
        if let End::Branch { pred, .. } = block.end {
            mark(pred.reg);
        }
    }
    let mut any = false;
    for block in &mut body.blocks {
        block.code.retain(|instr| {
            let may_go = match &instr.op {
                Op::Ld { access, ty, .. } => ty.bits() < 32 && access.order == Order::Weak,
                Op::Binary { ty, .. } => !ty.is_float(),
                Op::Mov { .. }
                | Op::Cvt { .. }
                | Op::Prmt { .. }
                | Op::Bfi { .. }
                | Op::Pack { .. } => true,
                _ => false,
            };
            let (mut defines, mut is_used) = (false, false);
            instr.for_each_def(|reg| {
                defines = true;
                is_used |= used.get(reg.index()) == Some(&true);
            });
            let keep = !may_go || !defines || is_used;
            any |= !keep;
            keep
        });
    }
    any
}

/// The arrays and numbers that addresses lead to.
struct Places<'a> {
    pointers: &'a Pointers,
    forms: &'a Forms,
}

impl Places<'_> {
    /// Returns whether a number of so many bytes may lie at an address, aligned.
    fn is_number(&self, body: &Body, address: &Address, width: u8) -> bool {
        let form = self.forms.address(body, address);
        let width = u64::from(width);
        match form.origin {
            Origin::Pointer(index) => self.pointers.get(index).is_some_and(|pointer| {
                let real = match pointer.spec.reals {
                    Some(Reals::All(real) | Reals::Some(real)) if pointer.half.is_none() => real,
                    _ => return false,
                };
                let fits = width == u64::from(real.bytes())
                    || real == Real::F64 && matches!(pointer.spec.reals, Some(Reals::Some(_)));
                fits && form.within(width, 0) == Some(0)
            }),
            Origin::Local(var) => {
                let variable = body.function.variables.get(var.index());
                variable.is_some_and(|variable| {
                    variable.space == Space::Local && u64::from(variable.align) >= width
                }) && form.within(width, 0) == Some(0)
            }
            _ => false,
        }
    }

    /// Returns whether addresses lead to different arrays.
    fn are_apart(&self, body: &Body, a: &Address, b: &Address) -> bool {
        let [a, b] = [a, b].map(|address| self.forms.address(body, address).origin);
        let known = |origin: Origin| matches!(origin, Origin::Pointer(_) | Origin::Local(_));
        known(a) && known(b) && a != b
    }
}

struct Join<'a> {
    body: &'a mut Body,
    places: &'a Places<'a>,
    bytes: HashMap<RegId, Bytes>,
    loads: HashMap<RegId, Narrow>,
    /// Registers that are another one plus a constant.
    roots: HashMap<RegId, (RegId, i64)>,
    /// The wide loads that were made, by the load of the first byte and the width.
    made: HashMap<(RegId, u8), RegId>,
    /// Replacements of instructions, and instructions to be inserted before one.
    replaced: HashMap<(usize, usize), Vec<Instr>>,
    inserted: HashMap<(usize, usize), Vec<Instr>>,
}

impl<'a> Join<'a> {
    fn new(body: &'a mut Body, places: &'a Places<'a>) -> Self {
        let mut this = Self {
            body,
            places,
            bytes: HashMap::new(),
            loads: HashMap::new(),
            roots: HashMap::new(),
            made: HashMap::new(),
            replaced: HashMap::new(),
            inserted: HashMap::new(),
        };
        for block in 0..this.body.blocks.len() {
            let code = this.body.blocks.get(block).map(|block| block.code.clone());
            let mut stores = 0;
            for (at, instr) in code.unwrap_or_default().iter().enumerate() {
                this.follow(instr);
                match &instr.op {
                    Op::Ld { .. } => this.load(instr, (block, at), stores),
                    op if is_written(op) => stores += 1,
                    _ => {}
                }
            }
        }
        this
    }

    /// Records loads of one or two bytes.
    fn load(&mut self, instr: &Instr, (block, at): (usize, usize), stores: usize) {
        let (Op::Ld { kind, d, ty, .. }, Some(access)) = (&instr.op, Access::of(instr)) else {
            return;
        };
        if !is_plain(*kind)
            || access.order != Order::Weak
            || access.is_param()
            || ty.bits() >= 32
            || d.len() != 1
        {
            return;
        }
        let Some(Some(reg)) = d.first().copied() else { return };
        let (base, offset) = self.root(access.address);
        let bytes = u8::try_from(ty.bytes()).unwrap_or(u8::MAX);
        self.loads.insert(reg, Narrow { block, at, stores, base, offset, bytes });
        let mut all = own(reg);
        if !ty.is_signed() {
            for byte in all.iter_mut().skip(usize::from(bytes)) {
                *byte = Byte::Constant(0);
            }
        }
        self.bytes.insert(reg, all);
    }

    /// Returns the root of an address, and its offset from that.
    fn root(&self, address: &Address) -> (Base, i64) {
        let Base::Reg(reg) = address.base else { return (address.base, address.offset) };
        let (root, more) = self.roots.get(&reg).copied().unwrap_or((reg, 0));
        (Base::Reg(root), address.offset.wrapping_add(more))
    }

    fn of(&self, operand: &Operand) -> Option<Bytes> {
        match operand {
            Operand::Reg(reg) => Some(self.bytes.get(reg).copied().unwrap_or_else(|| own(*reg))),
            Operand::Imm(value) => Some(value.to_le_bytes().map(Byte::Constant)),
            _ => None,
        }
    }

    /// Records the bytes of an instruction's result.
    fn follow(&mut self, instr: &Instr) {
        if let Op::Binary {
            op: BinaryOp::Add,
            ty,
            d: Some(d),
            a: Operand::Reg(a),
            b: Operand::Imm(by),
            ..
        } = &instr.op
            && ty.bits() == 64
        {
            let (root, more) = self.roots.get(a).copied().unwrap_or((*a, 0));
            self.roots.insert(*d, (root, more.wrapping_add(by.cast_signed())));
        }
        let Some((d, width, mut bytes)) = self.result(instr) else { return };
        let known = own(d);
        for (at, byte) in bytes.iter_mut().enumerate() {
            if at >= width as usize {
                *byte = Byte::Constant(0);
            } else if *byte == UNKNOWN {
                *byte = known.get(at).copied().unwrap_or(UNKNOWN);
            }
        }
        self.bytes.insert(d, bytes);
    }

    /// Returns the register that an instruction defines, its bytes, and how many there are.
    fn result(&self, instr: &Instr) -> Option<(RegId, u32, Bytes)> {
        let shifted = |bytes: Bytes, by: i64| {
            let from = |at: usize| {
                i64::try_from(at).ok()?.checked_sub(by).and_then(|at| usize::try_from(at).ok())
            };
            let mut all = [Byte::Constant(0); 8];
            for (at, byte) in all.iter_mut().enumerate() {
                *byte = from(at).and_then(|at| bytes.get(at).copied()).unwrap_or(Byte::Constant(0));
            }
            all
        };
        Some(match &instr.op {
            Op::Mov { ty, d: Some(d), a } if ty.bits() >= 16 => (*d, ty.bytes(), self.of(a)?),
            Op::Cvt { to, from, sat: false, d: Some(d), a, b: None, .. }
                if !to.is_float() && !from.is_float() =>
            {
                let mut bytes = self.of(a)?;
                // Registers may be wider than the types.
                for ty in [from, to] {
                    for byte in bytes.iter_mut().skip(ty.bytes() as usize) {
                        *byte = if ty.is_signed() { UNKNOWN } else { Byte::Constant(0) };
                    }
                }
                (*d, 8, bytes)
            }
            Op::Binary { op, ty, d: Some(d), a, b, .. } if !ty.is_float() && ty.bits() >= 16 => {
                let (x, y) = (self.of(a)?, self.of(b)?);
                let width = ty.bytes();
                let bytes = match (op, b) {
                    (BinaryOp::And, _) => both(x, y, |x, y| match (x, y) {
                        (other, Byte::Constant(0xff)) | (Byte::Constant(0xff), other) => other,
                        (zero @ Byte::Constant(0), _) | (_, zero @ Byte::Constant(0)) => zero,
                        _ => UNKNOWN,
                    }),
                    (BinaryOp::Or | BinaryOp::Xor, _) => both(x, y, either),
                    (BinaryOp::Add, _) => {
                        let sum = both(x, y, either);
                        // Overlapping bytes may produce a carry.
                        let known = sum.iter().take(width as usize).all(|byte| *byte != UNKNOWN);
                        if known { sum } else { [UNKNOWN; 8] }
                    }
                    (BinaryOp::Shl, Operand::Imm(by)) if by % 8 == 0 && *by < 64 => {
                        shifted(x, i64::try_from(by / 8).ok()?)
                    }
                    (BinaryOp::Shr, Operand::Imm(by))
                        if by % 8 == 0 && *by < 64 && !ty.is_signed() =>
                    {
                        let mut bytes = x;
                        bytes
                            .iter_mut()
                            .skip(width as usize)
                            .for_each(|byte| *byte = Byte::Constant(0));
                        shifted(bytes, -i64::try_from(by / 8).ok()?)
                    }
                    _ => return None,
                };
                (*d, width, bytes)
            }
            Op::Prmt { mode: None, d: Some(d), a, b, c: Operand::Imm(selector) } => {
                let (x, y) = (self.of(a)?, self.of(b)?);
                let mut bytes = [Byte::Constant(0); 8];
                for (at, byte) in bytes.iter_mut().take(4).enumerate() {
                    let which = (selector >> (4 * at)) as usize & 15;
                    let from = if which & 4 == 0 { &x } else { &y };
                    let replicates_sign = which & 8 != 0;
                    *byte = from
                        .get(which & 3)
                        .copied()
                        .filter(|_| !replicates_sign)
                        .unwrap_or(UNKNOWN);
                }
                (*d, 4, bytes)
            }
            Op::Bfi { ty, d: Some(d), a, b, c: Operand::Imm(start), e: Operand::Imm(count) }
                if start % 8 == 0 && count % 8 == 0 && *start < 64 && *count <= 64 =>
            {
                let (x, mut bytes) = (self.of(a)?, self.of(b)?);
                let places = bytes.iter_mut().skip(*start as usize / 8);
                places.zip(x).take(*count as usize / 8).for_each(|(place, byte)| *place = byte);
                (*d, ty.bytes(), bytes)
            }
            Op::Pack { ty, d: Some(d), a } if matches!(a.len(), 2 | 4) && ty.bits() <= 64 => {
                let each = ty.bytes() as usize / a.len();
                let mut bytes = [Byte::Constant(0); 8];
                for (place, part) in bytes.chunks_mut(each.max(1)).zip(a) {
                    for (byte, from) in place.iter_mut().zip(self.of(part)?) {
                        *byte = from;
                    }
                }
                (*d, ty.bytes(), bytes)
            }
            _ => return None,
        })
    }

    /// Replaces registers whose bytes were loaded as a number by that number.
    fn definitions(&mut self) {
        for block in 0..self.body.blocks.len() {
            let code = self.body.blocks.get(block).map(|block| block.code.clone());
            for (at, instr) in code.unwrap_or_default().iter().enumerate() {
                let mut defined = None;
                instr.for_each_def(|reg| defined = Some(reg));
                let Some(d) = defined.filter(|d| !self.loads.contains_key(d)) else { continue };
                let Some(bytes) = self.bytes.get(&d).copied() else { continue };
                let ty = self.body.function.registers.get(d.index()).copied().unwrap_or(Type::B8);
                let count = ty.bytes() as usize;
                if !matches!(count, 4 | 8) {
                    continue;
                }
                let Some(a) = bytes.get(..count).and_then(|bytes| self.loaded(bytes)) else {
                    continue;
                };
                let ty = if count == 4 { Type::B32 } else { Type::B64 };
                let op = Op::Mov { ty, d: Some(d), a: Operand::Reg(a) };
                self.replaced.insert((block, at), vec![Instr { op, ..instr.clone() }]);
            }
        }
    }

    /// Returns the register of one load of these bytes, if they are a number in memory.
    fn loaded(&mut self, bytes: &[Byte]) -> Option<RegId> {
        let mut parts: Vec<(RegId, Narrow)> = Vec::new();
        for (at, byte) in (0i64..).zip(bytes) {
            let Byte::Of(reg, part) = *byte else { return None };
            let load = *self.loads.get(&reg)?;
            let first = parts.first().map_or(load, |(_, first)| *first);
            let place = load.offset.checked_add(i64::from(part))?;
            let fits = part < load.bytes
                && (load.block, load.stores, load.base) == (first.block, first.stores, first.base)
                && place == first.offset.checked_add(at)?;
            if !fits {
                return None;
            }
            parts.push((reg, load));
        }
        let (first, load) = *parts.first()?;
        let width = u8::try_from(bytes.len()).ok()?;
        if let Some(known) = self.made.get(&(first, width)) {
            return Some(*known);
        }
        let instr = self.body.blocks.get(load.block)?.code.get(load.at)?.clone();
        let alike = parts.iter().all(|(_, part)| {
            let other = self.body.blocks.get(part.block).and_then(|block| block.code.get(part.at));
            match (other.map(|other| &other.op), &instr.op) {
                (
                    Some(Op::Ld { kind, access, .. }),
                    Op::Ld { kind: as_kind, access: as_access, .. },
                ) => (kind, access) == (as_kind, as_access),
                _ => false,
            }
        });
        let Op::Ld { kind, access, addr, .. } = instr.op else { return None };
        if !alike || !self.places.is_number(self.body, &addr, width) {
            return None;
        }
        // The loads may be in any order, since no store is between them.
        let earliest = parts.iter().map(|(_, part)| part.at).min()?;
        let Base::Reg(base) = load.base else { return None };
        let ty = if width == 4 { Type::B32 } else { Type::B64 };
        let whole = self.body.function.fresh_register(ty);
        let d: Box<[Dst]> = Box::new([Some(whole)]);
        let addr = Address { base: Base::Reg(base), offset: load.offset };
        let op = Op::Ld { kind, access, ty, d, addr };
        let made = Instr { guard: None, op, line: instr.line, loc: instr.loc };
        self.inserted.entry((load.block, earliest)).or_default().push(made);
        self.made.insert((first, width), whole);
        Some(whole)
    }

    /// Returns what all bytes of a register or a constant are.
    fn whole(&self, bytes: &[Byte]) -> Option<Operand> {
        match *bytes.first()? {
            Byte::Constant(_) => {
                let mut value = [0; 8];
                for (place, byte) in value.iter_mut().zip(bytes) {
                    let Byte::Constant(byte) = *byte else { return None };
                    *place = byte;
                }
                Some(Operand::Imm(u64::from_le_bytes(value)))
            }
            Byte::Of(reg, 0) => {
                let ty = self.body.function.registers.get(reg.index()).copied()?;
                let same = (0..).zip(bytes).all(|(at, byte)| *byte == Byte::Of(reg, at));
                (same && ty.bytes() as usize == bytes.len()).then_some(Operand::Reg(reg))
            }
            Byte::Of(..) => None,
        }
    }
}

fn is_plain(kind: LdKind) -> bool {
    matches!(kind, LdKind::Plain | LdKind::NonCoherent)
}

/// Marks a byte that the instruction itself computes.
const UNKNOWN: Byte = Byte::Of(RegId(u32::MAX), 0);

fn own(reg: RegId) -> Bytes {
    [0, 1, 2, 3, 4, 5, 6, 7].map(|at| Byte::Of(reg, at))
}

fn both(a: Bytes, b: Bytes, of: impl Fn(Byte, Byte) -> Byte) -> Bytes {
    let mut all = [UNKNOWN; 8];
    for ((place, a), b) in all.iter_mut().zip(a).zip(b) {
        *place = of(a, b);
    }
    all
}

/// One byte, if the other is zero.
fn either(a: Byte, b: Byte) -> Byte {
    match (a, b) {
        (other, Byte::Constant(0)) | (Byte::Constant(0), other) => other,
        _ => UNKNOWN,
    }
}

/// Returns whether an instruction may write memory, or wait for others that do.
fn is_written(op: &Op) -> bool {
    matches!(
        op,
        Op::St { .. }
            | Op::Atom { .. }
            | Op::Call { .. }
            | Op::Bar { .. }
            | Op::BarWarp { .. }
            | Op::Fence { .. }
            | Op::ClusterBarrier { .. }
            | Op::StAsync { .. }
            | Op::RedAsync { .. }
            | Op::Other { .. }
    )
}
