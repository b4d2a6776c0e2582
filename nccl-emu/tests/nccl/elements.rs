//! Types of elements, and what a reduction of them is: computed on the host, rank after rank.

use half::{bf16, f16};
use nccl_emu::types::{ncclDataType_t, ncclRedOp_t};

use crate::lab::Random;

/// A reduction. The scalar of each rank is its number plus 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Sum,
    Prod,
    Min,
    Max,
    Avg,
    PreMulSum,
}

impl Op {
    pub(crate) const ALL: [Self; 6] =
        [Self::Sum, Self::Prod, Self::Min, Self::Max, Self::Avg, Self::PreMulSum];

    /// Returns the built-in operation; `None` for the one that a program makes.
    pub(crate) fn raw(self) -> Option<ncclRedOp_t> {
        Some(match self {
            Self::Sum => ncclRedOp_t::ncclSum,
            Self::Prod => ncclRedOp_t::ncclProd,
            Self::Min => ncclRedOp_t::ncclMin,
            Self::Max => ncclRedOp_t::ncclMax,
            Self::Avg => ncclRedOp_t::ncclAvg,
            Self::PreMulSum => return None,
        })
    }
}

/// A type of elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Type {
    pub(crate) raw: ncclDataType_t,
    pub(crate) size: usize,
    draw: fn(&mut Random) -> Vec<u8>,
    /// Reduces the bytes of one element of each rank.
    reduce: fn(Op, &[&[u8]]) -> Vec<u8>,
    /// Returns the scalar of a rank.
    pub(crate) scalar: fn(usize) -> Vec<u8>,
}

impl Type {
    /// Returns random elements.
    pub(crate) fn draw(&self, random: &mut Random, count: usize) -> Vec<u8> {
        (0..count).flat_map(|_| (self.draw)(random)).collect()
    }

    /// Reduces arrays of the ranks.
    pub(crate) fn reduce(&self, op: Op, ranks: &[&[u8]]) -> Vec<u8> {
        let count = ranks[0].len() / self.size;
        let mut all = Vec::with_capacity(count * self.size);
        for index in 0..count {
            let elements: Vec<&[u8]> =
                ranks.iter().map(|rank| &rank[index * self.size..][..self.size]).collect();
            all.extend((self.reduce)(op, &elements));
        }
        all
    }
}

macro_rules! types {
    ($($raw:ident: $ty:ty, $draw:expr, $add:expr, $mul:expr, $div:expr, $from:expr;)*) => {
        /// All types that can be reduced.
        pub(crate) const TYPES: &[Type] = &[$(Type {
            raw: ncclDataType_t::$raw,
            size: size_of::<$ty>(),
            draw: |random| {
                let draw: fn(&mut Random) -> $ty = $draw;
                draw(random).to_le_bytes().to_vec()
            },
            scalar: |rank| {
                let from: fn(u8) -> $ty = $from;
                from(rank as u8 + 2).to_le_bytes().to_vec()
            },
            reduce: |op, ranks| {
                let (add, mul): (fn($ty, $ty) -> $ty, fn($ty, $ty) -> $ty) = ($add, $mul);
                let div: fn($ty, usize) -> $ty = $div;
                let from: fn(u8) -> $ty = $from;
                let read = |bytes: &[u8]| <$ty>::from_le_bytes(bytes.try_into().expect("an element"));
                let value = |rank: usize| match op {
                    Op::PreMulSum => mul(from(rank as u8 + 2), read(ranks[rank])),
                    _ => read(ranks[rank]),
                };
                let mut sum = value(0);
                for rank in 1..ranks.len() {
                    let next = value(rank);
                    sum = match op {
                        Op::Sum | Op::Avg | Op::PreMulSum => add(sum, next),
                        Op::Prod => mul(sum, next),
                        Op::Min => if next < sum { next } else { sum },
                        Op::Max => if next > sum { next } else { sum },
                    };
                }
                if op == Op::Avg && ranks.len() > 1 {
                    sum = div(sum, ranks.len());
                }
                sum.to_le_bytes().to_vec()
            },
        }),*];
    };
}

/// A number between -2 and 2 that is not 0.
fn number(random: &mut Random) -> f64 {
    let magnitude = (random.next() % 1_000_000 + 1) as f64 / 500_000.0;
    if random.next() & 1 == 0 { magnitude } else { -magnitude }
}

types! {
    ncclInt8: i8, |r| r.next() as i8, i8::wrapping_add, i8::wrapping_mul, |x, n| x / n as i8, |x| x as i8;
    ncclUint8: u8, |r| r.next() as u8, u8::wrapping_add, u8::wrapping_mul, |x, n| x / n as u8, |x| x;
    ncclInt32: i32, |r| r.next() as i32, i32::wrapping_add, i32::wrapping_mul, |x, n| x / n as i32, i32::from;
    ncclUint32: u32, |r| r.next() as u32, u32::wrapping_add, u32::wrapping_mul, |x, n| x / n as u32, u32::from;
    ncclInt64: i64, |r| (r.next() << 20 ^ r.next()) as i64, i64::wrapping_add, i64::wrapping_mul, |x, n| x / n as i64, i64::from;
    ncclUint64: u64, |r| r.next() << 20 ^ r.next(), u64::wrapping_add, u64::wrapping_mul, |x, n| x / n as u64, u64::from;
    ncclFloat16: f16, |r| f16::from_f64(number(r)), |x, y| x + y, |x, y| x * y, |x, n| x / f16::from_f64(n as f64), f16::from;
    ncclBfloat16: bf16, |r| bf16::from_f64(number(r)), |x, y| x + y, |x, y| x * y, |x, n| x / bf16::from_f64(n as f64), bf16::from;
    ncclFloat32: f32, |r| number(r) as f32, |x, y| x + y, |x, y| x * y, |x, n| x / n as f32, f32::from;
    ncclFloat64: f64, number, |x, y| x + y, |x, y| x * y, |x, n| x / n as f64, f64::from;
}

/// Returns a type by its number in NCCL.
pub(crate) fn type_of(raw: ncclDataType_t) -> Type {
    *TYPES.iter().find(|ty| ty.raw == raw).expect("a type that can be reduced")
}
