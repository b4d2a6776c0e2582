//! What an instruction means for derivatives: a copy, a choice, arithmetic on real numbers, or nothing.

use ptx::ir::{
    AtomOp, BinaryOp, Instr, Op, Operand, Piece, Precision, Pred, RegId, Rounding, Space, Type,
    UnaryOp,
};

use crate::Reason;
use crate::f16::{self, Marker};
use crate::spec::Real;

/// 32 bits of a register: where a `float`, or the lower half of a `double`, may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot(u32);

impl Slot {
    pub(crate) fn low(reg: RegId) -> Self {
        Self(reg.0.saturating_mul(2))
    }

    pub(crate) fn high(reg: RegId) -> Self {
        Self(reg.0.saturating_mul(2).saturating_add(1))
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn reg(self) -> RegId {
        RegId(self.0 / 2)
    }

    pub(crate) fn of(operand: &Operand) -> Option<Self> {
        match operand {
            Operand::Reg(reg) => Some(Self::low(*reg)),
            _ => None,
        }
    }
}

/// A copy of 32 bits; from `None` if they are a constant.
pub(crate) type Copy32 = (Slot, Option<Slot>);

/// A differentiable operation on real numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Smooth {
    Add,
    Sub,
    Mul,
    /// `a * b + c`
    Fma,
    Div,
    Rcp,
    Sqrt,
    Rsqrt,
    Ex2,
    Lg2,
    Sin,
    Cos,
    Tanh,
    Neg,
    Abs,
    Min,
    Max,
    /// The least or greatest of three numbers.
    Min3,
    Max3,
    /// The magnitude of the second number with the sign of the first.
    Copysign,
    /// A conversion from another type of numbers.
    Convert(Real),
}

/// The clamp of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clamped {
    No,
    /// A clamp to [0, 1].
    Unit,
    /// A clamp of negative numbers to 0.
    Positive,
}

/// A differentiable instruction: `d = op(a, b, c)`.
#[derive(Debug, Clone)]
pub(crate) struct Arithmetic {
    pub(crate) op: Smooth,
    pub(crate) real: Real,
    pub(crate) precision: Precision,
    pub(crate) clamped: Clamped,
    /// Whether the result is rounded to 16 bits.
    pub(crate) rounded: bool,
    pub(crate) d: RegId,
    pub(crate) args: Vec<Operand>,
}

/// What an instruction means for derivatives.
#[derive(Debug, Clone)]
pub(crate) enum Semantics {
    /// Copies of bits.
    Copy(Vec<Copy32>),
    /// Copies of bits from one of two sources, chosen by `by`.
    Choice {
        pairs: Vec<(Slot, [Option<Slot>; 2])>,
        by: Chooser,
    },
    Arithmetic(Arithmetic),
    /// `d = value`, whose derivative is the sum of products of pairs of operands: a derivative and what it is by.
    Rule {
        real: Real,
        d: RegId,
        value: Operand,
        terms: Vec<(Operand, Operand)>,
    },
    /// `d` is `a` of another thread of the warp.
    Exchange {
        d: RegId,
        a: Option<Slot>,
    },
    /// `d = value`, loaded through an argument's pointer: a constant if that pointer is not declared.
    Loaded {
        real: Real,
        d: RegId,
        value: Operand,
    },
    /// Bits without a derivative, whatever their operands: comparisons, conversions to integers.
    Constant,
    /// Bits computed from bits.
    Bits,
    /// Results that can't be differentiated if an operand could be.
    Opaque(Reason),
    Load,
    Store,
    /// An atomic addition without a result.
    Accumulate,
    /// No effect on derivatives: control, prefetches, fences.
    Nothing,
}

/// What chooses between two values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Chooser {
    Pred(Pred),
    /// The first if this number of this type is not negative.
    Sign(Operand, Type),
}

/// Returns the type that numbers of a PTX type have in registers. 16-bit floats are `float` there, see
/// [`f16`](crate::f16).
pub(crate) fn real(ty: Type) -> Option<Real> {
    real_in_memory(ty).map(Real::gradient)
}

/// Returns the type of real numbers of a PTX type.
pub(crate) fn real_in_memory(ty: Type) -> Option<Real> {
    match ty {
        Type::F32 => Some(Real::F32),
        Type::F64 => Some(Real::F64),
        Type::F16 => Some(Real::F16),
        Type::Bf16 => Some(Real::Bf16),
        _ => None,
    }
}

/// Returns the semantics of an instruction. Bit operations that negate or take an absolute value are among
/// [`Semantics::Bits`]; see [`sign_mask`].
pub(crate) fn semantics(instr: &Instr) -> Semantics {
    let arithmetic =
        |op: Smooth, ty: Type, mode: &ptx::ir::Mode, d: Option<RegId>, args: &[Operand]| {
            let Some(d) = d else { return Semantics::Nothing };
            let Some(real) = real(ty) else { return not_real(ty) };
            let clamped = match (mode.sat, mode.relu) {
                (true, _) => Clamped::Unit,
                (_, true) => Clamped::Positive,
                _ => Clamped::No,
            };
            let (args, precision) = (args.to_vec(), mode.precision);
            let rounded = real_in_memory(ty) != Some(real);
            use Smooth::{Copysign, Cos, Div, Lg2, Rcp, Rsqrt, Sin, Sqrt};
            if rounded && matches!(op, Div | Rcp | Sqrt | Rsqrt | Lg2 | Sin | Cos | Copysign) {
                return Semantics::Opaque(Reason::Unknown(format!("{op:?} of .{}", ty.name())));
            }
            Semantics::Arithmetic(Arithmetic { op, real, precision, clamped, rounded, d, args })
        };
    match &instr.op {
        Op::Unary { op, ty, mode, d, a } if ty.is_float() => match smooth_unary(*op) {
            Some(op) => arithmetic(op, *ty, mode, *d, &[*a]),
            None => Semantics::Bits,
        },
        Op::Binary { op, ty, mode, d, a, b } if ty.is_float() => match smooth_binary(*op) {
            Some(_) if mode.xorsign_abs => {
                Semantics::Opaque(Reason::Unknown(format!("{}.xorsign.abs", op.name())))
            }
            Some(op) => arithmetic(op, *ty, mode, *d, &[*a, *b]),
            None => Semantics::Bits,
        },
        Op::MinMax3 { max, ty, mode, d, a, b, c } if ty.is_float() => {
            if mode.xorsign_abs {
                return Semantics::Opaque(Reason::Unknown("xorsign.abs".to_owned()));
            }
            arithmetic(if *max { Smooth::Max3 } else { Smooth::Min3 }, *ty, mode, *d, &[*a, *b, *c])
        }
        Op::Mul { ty, part: None, mode, d, a, b } => {
            arithmetic(Smooth::Mul, *ty, mode, *d, &[*a, *b])
        }
        Op::Mad { ty, part: None, mode, d, a, b, c } | Op::Fma { ty, mode, d, a, b, c } => {
            arithmetic(Smooth::Fma, *ty, mode, *d, &[*a, *b, *c])
        }
        Op::Cvt { to, from, sat: false, d: Some(d), a, b: None, .. }
            if is_integer(*to) && is_integer(*from) && moves_halves(*to, *from) =>
        {
            let mut pairs = copies(Type::B32, *d, a);
            // The upper half is zero.
            pairs.extend((to.bits() == 64).then(|| (Slot::high(*d), None)));
            Semantics::Copy(pairs)
        }
        // Compilers extract the upper half of 64 bits this way.
        Op::Binary {
            op: BinaryOp::Shr,
            ty: Type::U64 | Type::B64,
            d: Some(d),
            a,
            b: Operand::Imm(32),
            ..
        } => {
            let high = Slot::of(a).map(|low| Slot::high(low.reg()));
            Semantics::Copy(vec![(Slot::low(*d), high), (Slot::high(*d), None)])
        }
        Op::Binary { op: BinaryOp::Shl, ty, d: Some(d), a, b: Operand::Imm(32), .. }
            if ty.bits() == 64 =>
        {
            Semantics::Copy(vec![(Slot::low(*d), None), (Slot::high(*d), Slot::of(a))])
        }
        Op::Cvt { to, from, rounding, sat, relu, d, a, b: None, .. } => {
            let integral = matches!(
                rounding,
                Some(Rounding::Rni | Rounding::Rzi | Rounding::Rmi | Rounding::Rpi)
            );
            match (real(*to), real(*from)) {
                _ if integral => Semantics::Constant,
                (Some(_), Some(from)) => {
                    let mode = ptx::ir::Mode { sat: *sat, relu: *relu, ..Default::default() };
                    arithmetic(Smooth::Convert(from), *to, &mode, *d, &[*a])
                }
                (_, Some(_)) if is_integer(*to) => Semantics::Constant,
                // The integer may be the bits of a number.
                _ if is_integer(*from) => Semantics::Bits,
                _ => Semantics::Opaque(Reason::Half),
            }
        }
        Op::Cvt { .. } => Semantics::Opaque(Reason::Half),
        Op::Mov { ty, d: Some(d), a } => Semantics::Copy(copies(*ty, *d, a)),
        Op::Selp { ty, d: Some(d), a, b, p } => choice(*ty, *d, a, b, Chooser::Pred(*p)),
        Op::Slct { ty, c_ty, d: Some(d), a, b, c, .. } => {
            choice(*ty, *d, a, b, Chooser::Sign(*c, *c_ty))
        }
        Op::Pack { ty: Type::B64 | Type::U64 | Type::S64 | Type::F64, d: Some(d), a }
            if a.len() == 2 =>
        {
            let halves = [Slot::low(*d), Slot::high(*d)];
            Semantics::Copy(halves.into_iter().zip(a.iter().map(Slot::of)).collect())
        }
        Op::Unpack { ty: Type::B64 | Type::U64 | Type::S64 | Type::F64, d, a } if d.len() == 2 => {
            let halves = match a {
                Operand::Reg(reg) => [Some(Slot::low(*reg)), Some(Slot::high(*reg))],
                _ => [None, None],
            };
            let pairs = d.iter().zip(halves);
            Semantics::Copy(pairs.filter_map(|(d, half)| d.map(|d| (Slot::low(d), half))).collect())
        }
        Op::Setp { .. } | Op::Set { .. } | Op::Testp { .. } | Op::Isspacep { .. } => {
            Semantics::Constant
        }
        Op::Ld { .. } => Semantics::Load,
        Op::St { .. } => Semantics::Store,
        Op::Atom { op, d, .. } => match (op, d.iter().all(Option::is_none)) {
            (AtomOp::Add, true) => Semantics::Accumulate,
            (_, true) => Semantics::Store,
            (_, false) => Semantics::Opaque(Reason::AtomicResult),
        },
        Op::Other { opcode, operands } => match f16::marker(&instr.op) {
            Some(Marker::Widen { .. }) => Semantics::Opaque(Reason::Bits),
            Some(Marker::Narrow { reason, .. }) => Semantics::Opaque(reason),
            Some(Marker::Rounded { .. }) => {
                Semantics::Opaque(Reason::Unknown("rounding by a large constant".to_owned()))
            }
            None => marker(opcode, operands),
        },
        Op::Shfl { d: Some(d), a, mask: Some(_), .. } => {
            Semantics::Exchange { d: *d, a: Slot::of(a) }
        }
        Op::Shfl { .. } | Op::Redux { .. } => Semantics::Opaque(Reason::Warp),
        // Comparisons of threads, as predicates or masks.
        Op::Vote { .. } | Op::Match { .. } | Op::Activemask { .. } | Op::Elect { .. } => {
            Semantics::Constant
        }
        Op::Mma(_) | Op::WmmaLoad { .. } | Op::WmmaStore { .. } => {
            Semantics::Opaque(Reason::Matrix)
        }
        Op::Ldmatrix { .. } | Op::Stmatrix { .. } | Op::Movmatrix { .. } => {
            Semantics::Opaque(Reason::Matrix)
        }
        Op::Call { .. } => Semantics::Opaque(Reason::Call),
        _ => {
            let mut defines = false;
            instr.for_each_def(&mut |_: RegId| defines = true);
            if defines { Semantics::Bits } else { Semantics::Nothing }
        }
    }
}

fn is_integer(ty: Type) -> bool {
    use Type::{B8, B16, B32, B64, S8, S16, S32, S64, U8, U16, U32, U64};
    matches!(ty, B8 | B16 | B32 | B64 | S8 | S16 | S32 | S64 | U8 | U16 | U32 | U64)
}

/// A bit operation that negates (`true`) or takes the absolute value of the number in its source.
pub(crate) fn sign_mask(instr: &Instr) -> Option<(Smooth, Real, RegId, Operand)> {
    let Op::Binary { op, ty, d: Some(d), a, b, .. } = &instr.op else { return None };
    let (value, mask) = match (a, b) {
        (Operand::Reg(_), Operand::Imm(mask)) => (*a, *mask),
        (Operand::Imm(mask), Operand::Reg(_)) => (*b, *mask),
        _ => return None,
    };
    let smooth = |op: Smooth, real: Real| Some((op, real, *d, value));
    match (op, ty.bits(), mask) {
        (BinaryOp::And, 32, 0x7fff_ffff) => smooth(Smooth::Abs, Real::F32),
        (BinaryOp::Xor, 32, 0x8000_0000) => smooth(Smooth::Neg, Real::F32),
        (BinaryOp::And, 64, 0x7fff_ffff_ffff_ffff) => smooth(Smooth::Abs, Real::F64),
        (BinaryOp::Xor, 64, 0x8000_0000_0000_0000) => smooth(Smooth::Neg, Real::F64),
        _ => None,
    }
}

/// A bit operation that keeps only the sign bit of its source: a constant of a number wherever that is smooth.
pub(crate) fn sign_bit(instr: &Instr) -> Option<(RegId, Operand, u32)> {
    let Op::Binary { op: BinaryOp::And, ty, d: Some(d), a, b, .. } = &instr.op else { return None };
    let (value, mask) = match (a, b) {
        (Operand::Reg(_), Operand::Imm(mask)) => (*a, *mask),
        (Operand::Imm(mask), Operand::Reg(_)) => (*b, *mask),
        _ => return None,
    };
    matches!((ty.bits(), mask), (32, 0x8000_0000) | (64, 0x8000_0000_0000_0000)).then_some((
        *d,
        value,
        ty.bits(),
    ))
}

/// The semantics of arithmetic on other types than `float` and `double`.
fn not_real(ty: Type) -> Semantics {
    match ty {
        Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 => Semantics::Opaque(Reason::Half),
        _ => Semantics::Opaque(Reason::Unknown(format!("arithmetic on .{}", ty.name()))),
    }
}

fn smooth_unary(op: UnaryOp) -> Option<Smooth> {
    Some(match op {
        UnaryOp::Abs => Smooth::Abs,
        UnaryOp::Neg => Smooth::Neg,
        UnaryOp::Rcp => Smooth::Rcp,
        UnaryOp::Sqrt => Smooth::Sqrt,
        UnaryOp::Rsqrt => Smooth::Rsqrt,
        UnaryOp::Sin => Smooth::Sin,
        UnaryOp::Cos => Smooth::Cos,
        UnaryOp::Lg2 => Smooth::Lg2,
        UnaryOp::Ex2 => Smooth::Ex2,
        UnaryOp::Tanh => Smooth::Tanh,
        _ => return None,
    })
}

fn smooth_binary(op: BinaryOp) -> Option<Smooth> {
    Some(match op {
        BinaryOp::Add => Smooth::Add,
        BinaryOp::Sub => Smooth::Sub,
        BinaryOp::Div => Smooth::Div,
        BinaryOp::Min => Smooth::Min,
        BinaryOp::Max => Smooth::Max,
        BinaryOp::Copysign => Smooth::Copysign,
        _ => return None,
    })
}

/// Returns whether a conversion of integers takes the lower half of 64 bits, or adds zeros above 32.
fn moves_halves(to: Type, from: Type) -> bool {
    match (to.bits(), from.bits()) {
        (32, 64 | 32) => true,
        (64, 32) => !matches!(from, Type::S32),
        _ => false,
    }
}

fn halves(ty: Type, d: RegId, a: &Operand) -> impl Iterator<Item = Copy32> {
    let source = |slot: fn(RegId) -> Slot| match a {
        Operand::Reg(reg) => Some(slot(*reg)),
        _ => None,
    };
    // Less than 32 bits are no number, but may be part of one.
    let low = (ty.bits() >= 8).then(|| (Slot::low(d), source(Slot::low)));
    let high = (ty.bits() == 64).then(|| (Slot::high(d), source(Slot::high)));
    low.into_iter().chain(high)
}

fn copies(ty: Type, d: RegId, a: &Operand) -> Vec<Copy32> {
    halves(ty, d, a).collect()
}

fn choice(ty: Type, d: RegId, a: &Operand, b: &Operand, by: Chooser) -> Semantics {
    let pairs =
        halves(ty, d, a).zip(halves(ty, d, b)).map(|((d, a), (_, b))| (d, [a, b])).collect();
    Semantics::Choice { pairs, by }
}

/// The markers of `geom/ad.cuh`: opcodes that no machine has, and that the compiler passes on.
fn marker(opcode: &str, operands: &[Piece]) -> Semantics {
    let mut words = opcode.split('.');
    let (family, name, ty) = (words.next(), words.next(), words.next());
    let real = match ty {
        Some("f32") => Real::F32,
        Some("f64") => Real::F64,
        _ => return Semantics::Opaque(Reason::Unknown(opcode.to_owned())),
    };
    let Some(registers) = registers(operands) else {
        return Semantics::Opaque(Reason::Unknown(opcode.to_owned()));
    };
    match (family, name, &*registers) {
        (Some("ad"), Some("rule"), [d, value, terms @ ..])
            if !terms.is_empty() && terms.len() % 2 == 0 =>
        {
            let of = |pair: &[RegId]| match pair {
                [by, derivative] => Some((Operand::Reg(*by), Operand::Reg(*derivative))),
                _ => None,
            };
            let terms = terms.chunks(2).filter_map(of).collect();
            Semantics::Rule { real, d: *d, value: Operand::Reg(*value), terms }
        }
        (Some("ad"), Some("stop"), [d, value]) => {
            Semantics::Rule { real, d: *d, value: Operand::Reg(*value), terms: Vec::new() }
        }
        (Some("ad"), Some("loaded"), [d, value]) => {
            Semantics::Loaded { real, d: *d, value: Operand::Reg(*value) }
        }
        (Some("ad"), Some("lost"), [_, _]) => Semantics::Opaque(Reason::Lost),
        _ => Semantics::Opaque(Reason::Unknown(opcode.to_owned())),
    }
}

/// Returns the operands of a marker, all registers: the compiler passes constants in registers.
fn registers(operands: &[Piece]) -> Option<Vec<RegId>> {
    let mut registers = Vec::new();
    for piece in operands {
        match piece {
            Piece::Reg(reg) | Piece::Dst(reg) | Piece::Src(reg) => registers.push(*reg),
            Piece::Text(text) if text.trim() == "," => {}
            _ => return None,
        }
    }
    Some(registers)
}

/// Returns the function that a marker `ad.lost.TYPE.NAME` names, unless that names where a value comes from.
pub(crate) fn lost_function(instr: &Instr) -> Option<&str> {
    let Op::Other { opcode, .. } = &instr.op else { return None };
    let name = opcode.strip_prefix("ad.lost.")?.split_once('.')?.1;
    (!matches!(name, "grid" | "result" | "normals")).then_some(name)
}

/// Returns what a marker copies: the type of the number, the register that it goes to, and the value.
pub(crate) fn marked(instr: &Instr) -> Option<(Real, RegId, Operand)> {
    match semantics(instr) {
        Semantics::Rule { real, d, value, .. } | Semantics::Loaded { real, d, value } => {
            Some((real, d, value))
        }
        Semantics::Opaque(Reason::Lost) => {
            // Comparisons may depend on a lost value.
            let Op::Other { opcode, operands } = &instr.op else { return None };
            match marker(&opcode.replacen("lost", "stop", 1), operands) {
                Semantics::Rule { real, d, value, .. } => Some((real, d, value)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns whether an access goes to memory that other threads see.
pub(crate) fn is_global(space: Space) -> bool {
    matches!(space, Space::Global | Space::Generic)
}

/// Returns the slots of an operand: a `double` lies in two.
pub(super) fn slots(operand: &Operand, real: Real) -> impl Iterator<Item = Slot> {
    let reg = match operand {
        Operand::Reg(reg) => Some(*reg),
        _ => None,
    };
    let high = reg.filter(|_| real == Real::F64).map(Slot::high);
    reg.map(Slot::low).into_iter().chain(high)
}

/// Returns the slots of the operands of arithmetic.
pub(super) fn operands(arithmetic: &Arithmetic) -> Vec<Slot> {
    let of = match arithmetic.op {
        Smooth::Convert(from) => from,
        _ => arithmetic.real,
    };
    arithmetic.args.iter().flat_map(|arg| slots(arg, of)).collect()
}
