//! Atomic operations and reductions.

use ptx::ir::{AtomOp, ReduxOp, Type};

use crate::arith::atomics::{redux, rmw};
use crate::arith::*;

/// Returns the new value.
fn apply(op: AtomOp, ty: Type, old: u64, a: u64) -> u64 {
    rmw(op, ty, false).unwrap()(old, a, 0)
}

#[test]
fn integers() {
    let minus_one = u64::from(u32::MAX);
    assert_eq!(apply(AtomOp::Add, Type::U32, minus_one, 2), 1);
    assert_eq!(apply(AtomOp::Add, Type::S32, 5, minus_one), 4);
    assert_eq!(apply(AtomOp::Add, Type::U64, u64::MAX, 2), 1);
    assert_eq!(apply(AtomOp::Min, Type::U32, 3, minus_one), 3);
    assert_eq!(apply(AtomOp::Min, Type::S32, 3, minus_one), minus_one);
    assert_eq!(apply(AtomOp::Max, Type::U32, 3, minus_one), minus_one);
    assert_eq!(apply(AtomOp::Max, Type::S32, 3, minus_one), 3);
    assert_eq!(apply(AtomOp::Min, Type::S64, 3, u64::MAX), u64::MAX);
    assert_eq!(apply(AtomOp::Max, Type::U64, 3, u64::MAX), u64::MAX);
    assert_eq!(apply(AtomOp::Max, Type::S64, 3, u64::MAX), 3);
    assert_eq!(apply(AtomOp::Min, Type::U64, 3, u64::MAX), 3);
    assert_eq!(apply(AtomOp::And, Type::B32, 0b1100, 0b1010), 0b1000);
    assert_eq!(apply(AtomOp::Or, Type::B64, 0b1100, 0b1010), 0b1110);
    assert_eq!(apply(AtomOp::Xor, Type::B32, 0b1100, 0b1010), 0b0110);
    assert_eq!(apply(AtomOp::Exch, Type::B64, 1, 2), 2);
}

#[test]
fn inc_and_dec_wrap_at_the_bound() {
    for (old, inc, dec) in [(0, 1, 5), (4, 5, 3), (5, 0, 4), (6, 0, 5), (u64::from(u32::MAX), 0, 5)]
    {
        assert_eq!(apply(AtomOp::Inc, Type::U32, old, 5), inc, "inc {old}");
        assert_eq!(apply(AtomOp::Dec, Type::U32, old, 5), dec, "dec {old}");
    }
}

#[test]
fn cas_stores_only_on_equality() {
    for ty in [Type::B16, Type::B32, Type::B64] {
        let cas = rmw(AtomOp::Cas, ty, false).unwrap();
        assert_eq!(cas(7, 7, 9), 9);
        assert_eq!(cas(7, 8, 9), 7);
    }
}

#[test]
fn floats_add_and_f32_flushes_only_in_global_memory() {
    let add = |shared| rmw(AtomOp::Add, Type::F32, shared).unwrap();
    assert_eq!(add(false)(0x3f80_0000, 0x4000_0000, 0), 0x4040_0000);
    assert_eq!(add(false)(1, 1, 0), 0);
    assert_eq!(add(true)(1, 1, 0), 2);
    assert_eq!(add(false)(0x7f80_0000, 0xff80_0000, 0), 0x7fff_ffff);
    assert_eq!(apply(AtomOp::Add, Type::F16, 0x3c00, 0x0001), 0x3c00);
    assert_eq!(apply(AtomOp::Add, Type::F16x2, 0x0001_3c00, 0x0001_3c00), 0x0002_4000);
    assert_eq!(apply(AtomOp::Add, Type::Bf16x2, 0x3f80_0000, 0x3f80_8000), 0x4000_0000);
    assert_eq!(apply(AtomOp::Add, Type::Bf16, 0x3f80, 0xbf80), 0);
    assert_eq!(apply(AtomOp::Add, Type::F64, 0x3ff0 << 48, 0x3ff0 << 48), 0x4000 << 48);
    let signalling = 0x7ff0_0000_0000_0001;
    assert_eq!(apply(AtomOp::Add, Type::F64, signalling, 0x3ff0 << 48), signalling);
    assert_eq!(rmw(AtomOp::Add, Type::F64, true).unwrap()(signalling, 0, 0), signalling | 1 << 51);
}

#[test]
fn floats_have_extrema() {
    assert_eq!(apply(AtomOp::Min, Type::F16, 0x3c00, 0xbc00), 0xbc00);
    assert_eq!(apply(AtomOp::Max, Type::Bf16, 0x3f80, 0x7fff), 0x3f80);
    assert_eq!(apply(AtomOp::Min, Type::F16x2, 0x3c00_0000, 0xbc00_8000), 0xbc00_8000);
    assert_eq!(apply(AtomOp::Max, Type::F16x2, 0x3c00_0000, 0xbc00_8000), 0x3c00_0000);
    assert_eq!(apply(AtomOp::Min, Type::Bf16x2, 0x3f80_0000, 0xbf80_3f80), 0xbf80_0000);
    assert_eq!(apply(AtomOp::Max, Type::Bf16x2, 0x3f80_0000, 0xbf80_3f80), 0x3f80_3f80);
    assert_eq!(apply(AtomOp::Max, Type::F16, 0x3c00, 0x4000), 0x4000);
    assert_eq!(apply(AtomOp::Min, Type::Bf16, 0x3f80, 0x4000), 0x3f80);
}

#[test]
fn what_ptx_lacks_is_refused() {
    assert!(rmw(AtomOp::Inc, Type::U64, false).is_none());
    assert!(rmw(AtomOp::Add, Type::U16, false).is_none());
    assert!(rmw(AtomOp::Min, Type::F64, false).is_none());
    assert!(redux(ReduxOp::Add, Type::F32, false, false).is_none());
    assert!(redux(ReduxOp::And, Type::U64, false, false).is_none());
}

#[test]
fn reductions_combine_pairs() {
    let minus_one = u64::from(u32::MAX);
    let pair = |op, ty, a, b| redux(op, ty, false, false).unwrap()(a, b);
    assert_eq!(pair(ReduxOp::Add, Type::S32, minus_one, 3), 2);
    assert_eq!(pair(ReduxOp::Add, Type::U32, minus_one, 3), 2);
    assert_eq!(pair(ReduxOp::Min, Type::S32, minus_one, 3), minus_one);
    assert_eq!(pair(ReduxOp::Min, Type::U32, minus_one, 3), 3);
    assert_eq!(pair(ReduxOp::Max, Type::S32, minus_one, 3), 3);
    assert_eq!(pair(ReduxOp::Max, Type::U32, minus_one, 3), minus_one);
    assert_eq!(pair(ReduxOp::And, Type::B32, 6, 3), 2);
    assert_eq!(pair(ReduxOp::Or, Type::B32, 6, 3), 7);
    assert_eq!(pair(ReduxOp::Xor, Type::B32, 6, 3), 5);
    let [one, minus_two, nan] =
        [1.0, -2.0, f32::NAN].map(|x: f32| u64::from(F32::canonical(x.to_bits())));
    let two = u64::from(2f32.to_bits());
    for (op, abs, keep_nan, a, b, result) in [
        (ReduxOp::Min, false, false, one, minus_two, minus_two),
        (ReduxOp::Max, false, false, one, minus_two, one),
        (ReduxOp::Min, true, false, one, minus_two, one),
        (ReduxOp::Max, true, false, one, minus_two, two),
        (ReduxOp::Max, true, false, nan, minus_two, two),
        (ReduxOp::Min, false, true, one, nan, nan),
        (ReduxOp::Max, false, true, one, nan, nan),
        (ReduxOp::Min, true, true, nan, one, nan),
        (ReduxOp::Max, true, true, one, nan, nan),
    ] {
        assert_eq!(redux(op, Type::F32, abs, keep_nan).unwrap()(a, b), result);
    }
}
