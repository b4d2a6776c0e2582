//! Opcodes that only this crate has: they convert between the bits of 16-bit floats and registers that hold them as
//! `float`, and mark roundings.

use ptx::ir::{Op, Operand, Piece, RegId, Type};

use crate::Reason;

/// 16 bits of a register that is composed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Narrowed {
    Float(Type, RegId),
    Bits(u16),
}

/// An instruction that only this crate has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Marker {
    /// `d` is the `float` with the value of the 16 bits at position `at` of a register, counted from the lowest.
    Widen { half: Type, d: RegId, a: RegId, at: u32 },
    /// `d` consists of the bits `a`, the lowest first, and `reason` says what needs them.
    Narrow { reason: Reason, d: RegId, a: Vec<Narrowed> },
    /// `d` is `a` rounded to an integral value.
    Rounded { d: RegId, a: RegId },
}

impl Marker {
    pub(crate) fn op(&self) -> Op {
        let (opcode, operands) = match self {
            Self::Rounded { d, a } => {
                ("ad.rounded".to_owned(), vec![Piece::Dst(*d), Piece::Src(*a)])
            }
            Self::Widen { half, d, a, at } => {
                let opcode = format!("ad.widen.{}.{at}", half.name());
                (opcode, vec![Piece::Dst(*d), Piece::Src(*a)])
            }
            Self::Narrow { reason, d, a } => {
                let parts = a.iter().flat_map(|part| match part {
                    Narrowed::Float(half, reg) => {
                        [Some(Piece::Text(half.name().into())), Some(Piece::Src(*reg))]
                    }
                    Narrowed::Bits(bits) => [Some(Piece::Text(bits.to_string().into())), None],
                });
                let opcode = format!("ad.narrow.{}", word(reason));
                (opcode, [Piece::Dst(*d)].into_iter().chain(parts.flatten()).collect())
            }
        };
        Op::Other { opcode: opcode.into(), operands: operands.into() }
    }
}

fn word(reason: &Reason) -> &'static str {
    match reason {
        Reason::Warp => "warp",
        Reason::Half => "half",
        _ => "bits",
    }
}

/// Returns the marker that [`Marker::op`] has encoded.
pub(crate) fn marker(op: &Op) -> Option<Marker> {
    let Op::Other { opcode, operands } = op else { return None };
    let mut words = opcode.strip_prefix("ad.")?.split('.');
    let half = |name: &str| [Type::F16, Type::Bf16].into_iter().find(|half| half.name() == name);
    match (words.next()?, &**operands) {
        ("widen", [Piece::Dst(d), Piece::Src(a)]) => {
            let (half, at) = (half(words.next()?)?, words.next()?.parse().ok()?);
            Some(Marker::Widen { half, d: *d, a: *a, at })
        }
        ("rounded", [Piece::Dst(d), Piece::Src(a)]) => Some(Marker::Rounded { d: *d, a: *a }),
        ("narrow", [Piece::Dst(d), rest @ ..]) => {
            let reason = match words.next()? {
                "warp" => Reason::Warp,
                "half" => Reason::Half,
                _ => Reason::Bits,
            };
            let (mut a, mut of) = (Vec::new(), None);
            for piece in rest {
                match piece {
                    Piece::Text(text) => match half(text) {
                        Some(half) => of = Some(half),
                        None => a.push(Narrowed::Bits(text.parse().ok()?)),
                    },
                    Piece::Src(reg) => a.push(Narrowed::Float(of?, *reg)),
                    _ => return None,
                }
            }
            Some(Marker::Narrow { reason, d: *d, a })
        }
        _ => None,
    }
}

/// Returns the `float` with the value of a constant of 16 bits.
pub(super) fn constant(half: Type, bits: u16) -> Operand {
    Operand::Imm(u64::from(super::widened(half, bits)))
}
