//! Writes a kernel's 16-bit floats as `float`.

use std::collections::{HashMap, HashSet};

use ptx::ir::{Instr, LocId, Op, Operand, RegId, Role, Space, Type};

use super::instr::{arithmetic, converts, is_of_halves};
use super::kinds::{Kinds, lanes, moves_halves};
use super::marker::{Marker, Narrowed, constant};
use super::parts::{Known, Part, Source, count};
use crate::Reason;
use crate::analysis::{Access, Forms, Origin, Pointers};
use crate::body::{Block, Body, Phi};
use crate::spec::Spec;

/// Gives each 16-bit float of a kernel a register of 32 bits.
pub(crate) fn widen(body: &mut Body, spec: &Spec) {
    let (pointers, _) = Pointers::new(spec);
    if !has_halves(body, &pointers) {
        return;
    }
    let forms = Forms::new(body, &pointers);
    let known = Known::new(body);
    let kinds = Kinds::new(body, &pointers, &forms, &known);
    let (wide, plain) = (HashSet::new(), HashSet::new());
    let (values, code) = (HashMap::new(), Vec::new());
    let mut this =
        Widen { body, pointers, forms, known, kinds, wide, plain, values, code, place: (0, None) };
    this.find_wide();
    let mut blocks = std::mem::take(&mut this.body.blocks);
    blocks.iter_mut().for_each(|block| this.block(block));
    this.arguments(&mut blocks);
    body.blocks = blocks;
    body.index();
}

/// Returns whether 16-bit floats occur in a kernel.
fn has_halves(body: &Body, pointers: &Pointers) -> bool {
    let in_memory = pointers.has_halves();
    let in_registers = body.function.registers.iter().any(|ty| lanes(*ty).is_some());
    in_memory || in_registers || body.instrs().any(|(_, instr)| is_of_halves(&instr.op))
}

/// The pass over a kernel.
pub(super) struct Widen<'b> {
    pub(super) body: &'b mut Body,
    pub(super) pointers: Pointers,
    pub(super) forms: Forms,
    pub(super) known: Known,
    kinds: Kinds,
    /// Registers that are replaced: their floats have registers, and other parts are constant.
    pub(super) wide: HashSet<RegId>,
    /// Replaced registers that are written too: each 32 bits are a `float` that was a bf16.
    plain: HashSet<RegId>,
    /// The register of each 16-bit float.
    values: HashMap<Part, RegId>,
    /// The new code of the block.
    pub(super) code: Vec<Instr>,
    /// The line and the source location of new code.
    pub(super) place: (u32, Option<LocId>),
}

impl Widen<'_> {
    /// Finds the registers to be replaced.
    fn find_wide(&mut self) {
        let (mut wide, mut plain) = (HashSet::new(), HashSet::new());
        for block in &self.body.blocks {
            for phi in &block.phis {
                if self.is_wide(phi.reg, |_| true) {
                    wide.insert(phi.reg);
                }
            }
            for instr in &block.code {
                let defined: HashSet<Part> = self.defines(instr).into_iter().collect();
                instr.for_each_def(|reg| {
                    if self.is_wide(reg, |part| defined.contains(&part)) {
                        wide.insert(reg);
                        if self.is_plain(reg) {
                            plain.insert(reg);
                        }
                    }
                });
            }
        }
        (self.wide, self.plain) = (wide, plain);
    }

    fn is_wide(&self, reg: RegId, defined: impl Fn(Part) -> bool) -> bool {
        let float = |part: Part| self.float(part).is_some();
        self.kinds.parts(reg).any(float)
            && self
                .kinds
                .parts(reg)
                .all(|part| self.known.get(part).is_some() || float(part) && defined(part))
    }

    /// Returns whether a register's bits are those of the `float`s that its upper halves are as bf16.
    fn is_plain(&self, reg: RegId) -> bool {
        let is_zero = |part: Part| part.at % 2 == 1 || self.known.get(part) == Some(0);
        let is_bf16 = |part: Part| {
            part.at.is_multiple_of(2)
                || self.known.get(part).is_some()
                || self.float(part) == Some(Type::Bf16)
        };
        self.kinds.parts(reg).count() >= 2
            && self.kinds.parts(reg).all(|part| is_zero(part) && is_bf16(part))
    }

    /// Returns the type of the float that a part holds, unless it is constant.
    pub(super) fn float(&self, part: Part) -> Option<Type> {
        self.kinds.half(part).filter(|_| self.known.get(part).is_none())
    }

    /// Returns the parts that an instruction defines as floats.
    fn defines(&self, instr: &Instr) -> Vec<Part> {
        let results = |d: &Option<RegId>, count: u32| {
            d.iter().flat_map(|d| (0..count).map(|at| Part::new(*d, at))).collect::<Vec<_>>()
        };
        if instr.guard.is_some() {
            return Vec::new();
        }
        match &instr.op {
            Op::Cvt { to, from, d, .. } if converts(*to, *from) => match lanes(*to) {
                Some(_) => results(d, count(*to)),
                None => Vec::new(),
            },
            Op::Ld { ty, d, .. } if self.is_load(instr) => {
                d.iter().flat_map(|d| results(d, count(*ty))).collect()
            }
            op => match arithmetic(op) {
                Some((ty, d, _)) => results(&d, count(ty)),
                None => self.known.moves(instr).into_iter().map(|(part, _)| part).collect(),
            },
        }
    }

    /// Returns whether an instruction is a load that may load floats.
    fn is_load(&self, instr: &Instr) -> bool {
        matches!(instr.op, Op::Ld { .. })
            && Access::of(instr)
                .is_some_and(|access| moves_halves(instr, &access) && self.is_outside(&access))
    }

    /// Returns whether an access goes neither to local nor to shared memory, nor to memory of other numbers.
    pub(super) fn is_outside(&self, access: &Access<'_>) -> bool {
        let origin = self.forms.address(self.body, access.address).origin;
        !matches!(
            access.space,
            Space::Local | Space::Shared | Space::SharedCta | Space::SharedCluster
        ) && !matches!(origin, Origin::Local(_) | Origin::Variable(Space::Shared))
            && !self.pointers.are_wide(&self.forms, origin)
    }

    fn fresh(&mut self) -> RegId {
        self.body.function.fresh_register(Type::F32)
    }

    /// Returns the register of a 16-bit float.
    pub(super) fn value(&mut self, part: Part) -> RegId {
        if let Some(&reg) = self.values.get(&part) {
            return reg;
        }
        let reg = self.fresh();
        self.values.insert(part, reg);
        reg
    }

    pub(super) fn push(&mut self, op: Op) {
        let (line, loc) = self.place;
        self.code.push(Instr { guard: None, op, line, loc });
    }

    fn block(&mut self, block: &mut Block) {
        let phis = std::mem::take(&mut block.phis);
        for phi in phis {
            if self.wide.contains(&phi.reg) {
                for part in self.kinds.parts(phi.reg) {
                    let made = self.phi(&phi, part);
                    block.phis.push(made);
                }
            } else {
                self.place = block.code.first().map_or((0, None), |instr| (instr.line, instr.loc));
                self.entries(phi.reg, 0);
                block.phis.push(phi);
            }
        }
        for instr in std::mem::take(&mut block.code) {
            self.place = (instr.line, instr.loc);
            self.instr(instr);
        }
        block.code = std::mem::take(&mut self.code);
    }

    fn phi(&mut self, phi: &Phi, part: Part) -> Phi {
        let half = self.kinds.half(part).unwrap_or(Type::F16);
        let args = phi.args.iter().map(|(from, arg)| {
            let source = arg.as_ref().and_then(|arg| self.known.source(arg, part.at));
            let arg = source.map(|source| match source {
                Source::Bits(bits) => constant(half, bits),
                Source::Part(part) => Operand::Reg(self.value(part)),
            });
            (*from, arg)
        });
        let args = args.collect();
        Phi { reg: self.value(part), args }
    }

    /// Replaces the arguments of phis: they get the bits of replaced registers at the ends of blocks.
    fn arguments(&mut self, blocks: &mut [Block]) {
        let mut ends: Vec<(usize, Vec<Instr>)> = Vec::new();
        for block in blocks.iter_mut() {
            for (from, arg) in block.phis.iter_mut().flat_map(|phi| &mut phi.args) {
                if let Some(Operand::Reg(reg)) = arg
                    && self.is_gone(*reg)
                {
                    *reg = self.bits(*reg, Reason::Bits);
                    ends.push((*from, std::mem::take(&mut self.code)));
                }
            }
        }
        for (at, code) in ends {
            let Some(block) = blocks.get_mut(at) else { continue };
            let last = block.code.last().map_or((0, None), |instr| (instr.line, instr.loc));
            let placed = code.into_iter().map(|instr| Instr { line: last.0, loc: last.1, ..instr });
            block.code.extend(placed);
        }
    }

    /// Returns whether a register is replaced and not written.
    pub(super) fn is_gone(&self, reg: RegId) -> bool {
        self.wide.contains(&reg) && !self.plain.contains(&reg)
    }

    /// Writes the bits of a replaced register to another.
    fn bits(&mut self, reg: RegId, reason: Reason) -> RegId {
        let mut a = Vec::new();
        for part in self.kinds.parts(reg) {
            a.push(match (self.known.get(part), self.kinds.half(part)) {
                (None, Some(half)) => Narrowed::Float(half, self.value(part)),
                (known, _) => Narrowed::Bits(known.unwrap_or(0)),
            });
        }
        let ty = self.body.function.registers.get(reg.index()).copied().unwrap_or(Type::B32);
        let integer = match ty.bits() {
            16 => Type::B16,
            64 => Type::B64,
            _ => Type::B32,
        };
        let d = self.body.function.fresh_register(integer);
        self.push(Marker::Narrow { reason, d, a }.op());
        d
    }

    /// Widens the floats in a written register, from the lane `first` on.
    pub(super) fn entries(&mut self, reg: RegId, first: u32) {
        for part in self.kinds.parts(reg).filter(|part| part.at >= first) {
            if let Some(half) = self.float(part) {
                let d = self.value(part);
                self.push(Marker::Widen { half, d, a: reg, at: part.at }.op());
            }
        }
    }

    /// Returns 16 bits of an operand as a `float`; `None` if they are neither of a register nor constant.
    pub(super) fn operand(&mut self, operand: &Operand, at: u32, half: Type) -> Option<Operand> {
        let part = match self.known.source(operand, at)? {
            Source::Bits(bits) => return Some(constant(half, bits)),
            Source::Part(part) => part,
        };
        if self.float(part) == Some(half) {
            return Some(Operand::Reg(self.value(part)));
        }
        // A part that holds floats of both types is widened for each use.
        let d = self.fresh();
        let a = if self.is_gone(part.reg) { self.bits(part.reg, Reason::Bits) } else { part.reg };
        self.push(Marker::Widen { half, d, a, at }.op());
        Some(Operand::Reg(d))
    }

    /// Returns the register for a lane of a result.
    pub(super) fn result(&mut self, d: RegId, at: u32) -> RegId {
        if self.wide.contains(&d) { self.value(Part::new(d, at)) } else { self.fresh() }
    }

    /// After the lanes of a result: writes the register itself where it is needed.
    pub(super) fn define(&mut self, d: RegId, half: Type, made: &[RegId]) {
        if self.wide.contains(&d) {
            self.define_plain(d);
            return;
        }
        let mut a: Vec<Narrowed> = made.iter().map(|reg| Narrowed::Float(half, *reg)).collect();
        a.resize(self.kinds.parts(d).count().max(a.len()), Narrowed::Bits(0));
        self.push(Marker::Narrow { reason: Reason::Half, d, a }.op());
        self.entries(d, 0);
    }

    /// Writes a register whose bits are those of `float`s.
    pub(super) fn define_plain(&mut self, d: RegId) {
        if !self.plain.contains(&d) {
            return;
        }
        let mut floats = Vec::new();
        for part in self.kinds.parts(d).filter(|part| part.at % 2 == 1) {
            floats.push(match self.known.get(part) {
                Some(bits) => constant(Type::Bf16, bits),
                None => Operand::Reg(self.value(part)),
            });
        }
        match *floats {
            [a] => self.push(Op::Mov { ty: Type::F32, d: Some(d), a }),
            _ => self.push(Op::Pack { ty: Type::B64, d: Some(d), a: floats.into() }),
        }
    }

    fn instr(&mut self, instr: Instr) {
        match &instr.op {
            _ if instr.guard.is_some() => self.other(instr),
            Op::Setp { .. } => self.setp(instr),
            Op::Cvt { to, from, .. } if converts(*to, *from) => self.convert(instr),
            Op::Ld { .. } if self.is_load(&instr) => self.load(instr),
            Op::St { .. } => self.store(instr),
            Op::Atom { .. } => self.add(instr),
            op if arithmetic(op).is_some() => self.arithmetic(instr),
            _ => self.moved(instr),
        }
    }

    /// Writes an unchanged instruction.
    pub(super) fn other(&mut self, mut instr: Instr) {
        self.with_bits(&mut instr);
        let mut written = Vec::new();
        instr.for_each_def(|reg| written.push(reg));
        self.code.push(instr);
        written.into_iter().for_each(|reg| self.entries(reg, 0));
    }

    /// Gives an instruction the bits of replaced registers.
    pub(super) fn with_bits(&mut self, instr: &mut Instr) {
        let mut gone = Vec::new();
        instr.for_each_use(|reg| {
            if self.is_gone(reg) && !gone.contains(&reg) {
                gone.push(reg);
            }
        });
        if gone.is_empty() {
            return;
        }
        let reason = match &instr.op {
            Op::Shfl { .. } | Op::Redux { .. } => Reason::Warp,
            Op::St { .. } | Op::Atom { .. } | Op::Cvt { .. } => Reason::Half,
            op if is_of_halves(op) => Reason::Half,
            _ => Reason::Bits,
        };
        let made: HashMap<RegId, RegId> =
            gone.into_iter().map(|reg| (reg, self.bits(reg, reason.clone()))).collect();
        instr.for_each_register_mut(|role, reg| {
            if role != Role::Def
                && let Some(bits) = made.get(reg)
            {
                *reg = *bits;
            }
        });
    }
}
