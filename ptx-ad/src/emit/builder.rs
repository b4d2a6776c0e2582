//! Writes instructions into a function.

use ptx::ir::{
    Access, Address, AtomOp, Base, BinaryOp, BoolOp, Cmp, Dst, Function, Instr, Label, LabelId,
    LdKind, LocId, Mode, MulPart, Op, Operand, Order, Precision, Pred, RegId, Rounding, Scope,
    Space, Symbol, Type, UnaryOp, VarId,
};

use crate::spec::Real;

/// The type that a number has in registers.
pub(super) const fn type_of(real: Real) -> Type {
    match real {
        Real::F32 | Real::F16 | Real::Bf16 => Type::F32,
        Real::F64 => Type::F64,
    }
}

/// A number as an immediate operand.
pub(super) fn number(real: Real, value: f64) -> Operand {
    Operand::Imm(match real {
        #[allow(clippy::cast_possible_truncation, reason = "the nearest float is wanted")]
        Real::F32 | Real::F16 | Real::Bf16 => u64::from((value as f32).to_bits()),
        Real::F64 => value.to_bits(),
    })
}

/// Rounding to nearest, which keeps the driver's compiler from fusing.
pub(super) fn nearest() -> Mode {
    Mode { rounding: Some(Rounding::Rn), ..Mode::default() }
}

/// A plain access to global memory, or to another space.
pub(super) fn plain(space: Space) -> Access {
    Access {
        space,
        order: Order::Weak,
        scope: None,
        cache: None,
        hints: None,
        policy: None,
        used: None,
    }
}

/// A register and an offset in bytes.
pub(super) fn at(reg: RegId, offset: i64) -> Address {
    Address { base: Base::Reg(reg), offset }
}

/// An address in a parameter.
pub(super) fn param(var: VarId, offset: i64) -> Address {
    Address { base: Base::Symbol(Symbol::Var(var)), offset }
}

pub(super) fn holds(reg: RegId) -> Pred {
    Pred { reg, negated: false }
}

pub(super) fn fails(reg: RegId) -> Pred {
    Pred { reg, negated: true }
}

/// Memory that the adjoint itself writes and reads: a store to it is needed if there is a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Link {
    /// A value that a loop keeps for each iteration: the loop, and the position among its values.
    Kept(usize, usize),
    /// The logged results of an instruction: block and position.
    Logged(usize, usize),
    /// The adjoint's private copy of the memory behind a pointer.
    Private(usize),
    /// A variable of the kernel in local memory.
    Local(VarId),
}

/// A line of the adjoint's text.
#[derive(Debug, Clone)]
pub(super) enum Line {
    Instr(Instr, Option<Link>),
    Label(LabelId),
}

/// Instructions for a function, with its tables of registers and labels.
#[derive(Debug)]
pub(super) struct Builder {
    pub(super) function: Function,
    pub(super) code: Vec<Line>,
    /// The memory of the next load or store.
    pub(super) link: Option<Link>,
    /// The source location of the next instructions.
    pub(super) loc: Option<LocId>,
    labels: u32,
}

impl Builder {
    /// Writes into a function with these tables and without labels.
    pub(super) fn new(function: Function) -> Self {
        Self { function, code: Vec::new(), link: None, loc: None, labels: 0 }
    }

    pub(super) fn reg(&mut self, ty: Type) -> RegId {
        self.function.fresh_register(ty)
    }

    pub(super) fn push(&mut self, op: Op) {
        self.instr(Instr { guard: None, op, line: 0, loc: self.loc });
    }

    pub(super) fn push_if(&mut self, guard: Pred, op: Op) {
        self.instr(Instr { guard: Some(guard), op, line: 0, loc: self.loc });
    }

    pub(super) fn instr(&mut self, instr: Instr) {
        let memory = matches!(instr.op, Op::Ld { .. } | Op::St { .. } | Op::Atom { .. });
        let link = self.link.filter(|_| memory);
        self.code.push(Line::Instr(instr, link));
    }

    /// Makes a label. [`place`](Self::place) places it.
    pub(super) fn label(&mut self) -> LabelId {
        let id = LabelId(u32::try_from(self.function.labels.len()).unwrap_or(u32::MAX));
        let name = format!("$ad_{}", self.labels);
        self.labels += 1;
        self.function.labels.push(Label { name, at: u32::MAX });
        id
    }

    /// Places a label before the next instruction.
    pub(super) fn place(&mut self, label: LabelId) {
        self.code.push(Line::Label(label));
    }

    pub(super) fn jump(&mut self, target: LabelId) {
        self.push(Op::Bra { uni: false, target });
    }

    pub(super) fn jump_if(&mut self, guard: Pred, target: LabelId) {
        self.push_if(guard, Op::Bra { uni: false, target });
    }

    pub(super) fn copy(&mut self, ty: Type, d: RegId, a: Operand) {
        self.push(Op::Mov { ty, d: Some(d), a });
    }

    pub(super) fn moved(&mut self, ty: Type, a: Operand) -> RegId {
        let d = self.reg(ty);
        self.copy(ty, d, a);
        d
    }

    pub(super) fn binary_to(&mut self, op: BinaryOp, ty: Type, d: RegId, a: Operand, b: Operand) {
        let rounds = ty.is_float() && matches!(op, BinaryOp::Add | BinaryOp::Sub);
        let mode = if rounds { nearest() } else { Mode::default() };
        self.push(Op::Binary { op, ty, mode, d: Some(d), a, b });
    }

    pub(super) fn binary(&mut self, op: BinaryOp, ty: Type, a: Operand, b: Operand) -> RegId {
        let d = self.reg(ty);
        self.binary_to(op, ty, d, a, b);
        d
    }

    /// `a * b + c`, where the product has 64 bits.
    pub(super) fn mad_wide(&mut self, a: RegId, b: Operand, c: RegId) -> RegId {
        let d = self.reg(Type::U64);
        let (ty, part, mode) = (Type::U32, Some(MulPart::Wide), Mode::default());
        let (a, c) = (Operand::Reg(a), Operand::Reg(c));
        self.push(Op::Mad { ty, part, mode, d: Some(d), a, b, c });
        d
    }

    pub(super) fn unary(&mut self, op: UnaryOp, ty: Type, mode: Mode, a: Operand) -> RegId {
        let d = self.reg(ty);
        self.push(Op::Unary { op, ty, mode, d: Some(d), a });
        d
    }

    pub(super) fn neg(&mut self, ty: Type, a: Operand) -> RegId {
        self.unary(UnaryOp::Neg, ty, Mode::default(), a)
    }

    pub(super) fn neg_to(&mut self, ty: Type, d: RegId, a: Operand) {
        self.push(Op::Unary { op: UnaryOp::Neg, ty, mode: Mode::default(), d: Some(d), a });
    }

    /// The address in global memory of a generic address.
    pub(super) fn global_address(&mut self, a: RegId) -> RegId {
        let d = self.reg(Type::U64);
        let (space, ty) = (Space::Global, Type::U64);
        self.push(Op::Cvta { to: true, space, ty, d: Some(d), a: Operand::Reg(a) });
        d
    }

    pub(super) fn not(&mut self, a: RegId) -> RegId {
        self.unary(UnaryOp::Not, Type::Pred, Mode::default(), Operand::Reg(a))
    }

    pub(super) fn mul(&mut self, ty: Type, a: Operand, b: Operand) -> RegId {
        let d = self.reg(ty);
        self.mul_to(ty, d, a, b);
        d
    }

    pub(super) fn mul_to(&mut self, ty: Type, d: RegId, a: Operand, b: Operand) {
        self.push(Op::Mul { ty, part: None, mode: nearest(), d: Some(d), a, b });
    }

    pub(super) fn fma(&mut self, ty: Type, d: RegId, a: Operand, b: Operand, c: Operand) {
        self.push(Op::Fma { ty, mode: nearest(), d: Some(d), a, b, c });
    }

    /// A quotient of this precision.
    pub(super) fn div(
        &mut self,
        real: Real,
        precision: Precision,
        a: Operand,
        b: Operand,
    ) -> RegId {
        let ty = type_of(real);
        let mode = match (real, precision) {
            (Real::F64, _) | (_, Precision::Exact) => nearest(),
            (_, precision) => Mode { precision, ..Mode::default() },
        };
        let d = self.reg(ty);
        self.push(Op::Binary { op: BinaryOp::Div, ty, mode, d: Some(d), a, b });
        d
    }

    pub(super) fn convert(&mut self, to: Type, from: Type, d: RegId, a: RegId) {
        let narrows = from.is_float() && to.bits() < from.bits();
        let rounding = narrows.then_some(Rounding::Rn);
        let (ftz, sat, satfinite, relu) = (false, false, false, false);
        let (d, a, b) = (Some(d), Operand::Reg(a), None);
        self.push(Op::Cvt { to, from, rounding, ftz, sat, satfinite, relu, d, a, b });
    }

    pub(super) fn setp(&mut self, cmp: Cmp, ty: Type, a: Operand, b: Operand) -> RegId {
        let p = self.reg(Type::Pred);
        self.push(Op::Setp { cmp, ty, ftz: false, combine: None, p: Some(p), q: None, a, b });
        p
    }

    /// `(a cmp b) op with`
    pub(super) fn setp_with(
        &mut self,
        cmp: Cmp,
        ty: Type,
        a: Operand,
        b: Operand,
        with: (BoolOp, Pred),
    ) -> RegId {
        let p = self.reg(Type::Pred);
        self.push(Op::Setp { cmp, ty, ftz: false, combine: Some(with), p: Some(p), q: None, a, b });
        p
    }

    pub(super) fn selp(&mut self, ty: Type, a: Operand, b: Operand, p: Pred) -> RegId {
        let d = self.reg(ty);
        self.push(Op::Selp { ty, d: Some(d), a, b, p });
        d
    }

    pub(super) fn load(&mut self, space: Space, ty: Type, addr: Address) -> RegId {
        let d = self.reg(ty);
        self.load_to(None, space, ty, &[Some(d)], addr);
        d
    }

    pub(super) fn load_to(
        &mut self,
        guard: Option<Pred>,
        space: Space,
        ty: Type,
        d: &[Dst],
        addr: Address,
    ) {
        let op = Op::Ld { kind: LdKind::Plain, access: plain(space), ty, d: d.into(), addr };
        self.instr(Instr { guard, op, line: 0, loc: self.loc });
    }

    pub(super) fn store(
        &mut self,
        guard: Option<Pred>,
        space: Space,
        ty: Type,
        addr: Address,
        a: &[Operand],
    ) {
        let op = Op::St { access: plain(space), ty, addr, a: a.into() };
        self.instr(Instr { guard, op, line: 0, loc: self.loc });
    }

    /// `red.add`
    pub(super) fn add_to(
        &mut self,
        guard: Pred,
        space: Space,
        ty: Type,
        addr: Address,
        a: Operand,
    ) {
        let access = Access { order: Order::Relaxed, scope: Some(Scope::Gpu), ..plain(space) };
        let (op, d, a, c) = (AtomOp::Add, Box::default(), Box::from([a]), None);
        self.push_if(guard, Op::Atom { op, access, ty, noftz: false, d, addr, a, c });
    }
}
