//! Products against plain sums over matrices.

use ptx::ir::{Layout, Operand, Shape};

use super::*;
use crate::arith::tests::random::Random;

/// Returns an instruction with as many operands as its tiles have registers.
fn instruction(wmma: bool, shape: (u16, u16, u16), types: [Type; 4]) -> Mma {
    let shape = Shape { m: shape.0, n: shape.1, k: shape.2 };
    let [d_ty, a_ty, b_ty, c_ty] = types;
    let count = |role, ty| {
        let tile = if wmma { Tile::wmma(role, shape, ty) } else { Tile::mma(role, shape, ty) };
        tile.unwrap().registers
    };
    Mma {
        wmma,
        shape,
        a_layout: Layout::Row,
        b_layout: Layout::Col,
        d_ty,
        a_ty,
        b_ty,
        c_ty,
        rounding: None,
        satfinite: false,
        bit_op: (a_ty == Type::B1).then_some(MmaBitOp::XorPopc),
        d: vec![None; count(Role::C, d_ty)].into(),
        a: vec![Operand::Imm(0); count(Role::A, a_ty)].into(),
        b: vec![Operand::Imm(0); count(Role::B, b_ty)].into(),
        c: vec![Operand::Imm(0); count(Role::C, c_ty)].into(),
    }
}

/// Returns the bits of a small integer in a type.
fn encode(ty: Type, value: i64) -> u64 {
    match ty {
        Type::F16 => F16::from_f64::<RN>(value as f64).into(),
        Type::Bf16 => Bf16::from_f64::<RN>(value as f64).into(),
        Type::F32 | Type::Tf32 => (value as f32).to_bits().into(),
        Type::F64 => (value as f64).to_bits(),
        // 0, ±1, ±2
        Type::E4m3 => [0xc0, 0xb8, 0x00, 0x38, 0x40][(value + 2) as usize],
        Type::E5m2 => [0xc0, 0xbc, 0x00, 0x3c, 0x40][(value + 2) as usize],
        _ => value.cast_unsigned(),
    }
}

/// Computes a product of small integers, which is exact in every type, and compares it with sums.
fn check(mma: &Mma, bound: u64, signed: bool) {
    let product = Product::new(mma).unwrap();
    let mut random = Random::new(u64::from(mma.shape.k));
    let mut matrix = |tile: &Tile, signed: bool| -> Vec<i64> {
        let shift = if signed { bound.cast_signed() } else { 0 };
        let span = bound + shift.cast_unsigned() + 1;
        (0..tile.rows * tile.columns).map(|_| random.below(span).cast_signed() - shift).collect()
    };
    let unsigned = |ty| matches!(ty, Type::U8 | Type::U4 | Type::B1);
    let a = matrix(&product.a, signed && !unsigned(mma.a_ty));
    let b = matrix(&product.b, signed && !unsigned(mma.b_ty));
    let c = matrix(&product.c, true);
    let register = |tile: Tile, matrix: &[i64], ty: Type, number: usize, lane: usize| {
        (0..tile.per_register).fold(0, |word, element| {
            let (row, column) = tile.place(lane, number, element);
            let bits = encode(ty, matrix[row * tile.columns + column]);
            let mask = u64::MAX >> (64 - tile.bits);
            word | (bits & mask) << (element as u32 * tile.bits)
        })
    };
    let mut seen = 0;
    product.run(
        |number, lane| register(product.a, &a, mma.a_ty, number, lane),
        |number, lane| register(product.b, &b, mma.b_ty, number, lane),
        |number, lane| register(product.c, &c, mma.c_ty, number, lane),
        |number, lane, got| {
            let k = product.a.columns;
            for element in 0..product.d.per_register {
                let (row, column) = product.d.place(lane, number, element);
                let terms = (0..k).map(|i| {
                    let (x, y) = (a[row * k + i], b[i * product.b.columns + column]);
                    if mma.a_ty == Type::B1 { x ^ y } else { x * y }
                });
                let sum = terms.sum::<i64>() + c[row * product.c.columns + column];
                let mask = u64::MAX >> (64 - product.d.bits);
                let bits = got >> (element as u32 * product.d.bits) & mask;
                assert_eq!(bits, encode(mma.d_ty, sum) & mask, "{:?} {:?}", mma.shape, mma.a_ty);
                seen += 1;
            }
        },
    );
    assert!(seen >= product.d.rows * product.d.columns);
}

#[test]
fn mma_of_every_type_multiplies() {
    let f32_of = |ty| [Type::F32, ty, ty, Type::F32];
    let s32_of = |a, b| [Type::S32, a, b, Type::S32];
    for (shape, types, bound) in [
        ((16, 8, 8), f32_of(Type::F16), 8),
        ((16, 8, 16), f32_of(Type::F16), 8),
        ((16, 8, 16), [Type::F16; 4], 8),
        ((16, 8, 8), [Type::F16, Type::F16, Type::F16, Type::F32], 8),
        ((16, 8, 16), f32_of(Type::Bf16), 8),
        ((16, 8, 4), f32_of(Type::Tf32), 8),
        ((16, 8, 8), f32_of(Type::Tf32), 8),
        ((16, 8, 32), [Type::F32, Type::E4m3, Type::E5m2, Type::F32], 2),
        ((16, 8, 32), [Type::F16, Type::E5m2, Type::E4m3, Type::F16], 2),
        ((8, 8, 16), s32_of(Type::S8, Type::S8), 127),
        ((16, 8, 16), s32_of(Type::U8, Type::S8), 127),
        ((16, 8, 32), s32_of(Type::S8, Type::U8), 127),
        ((8, 8, 32), s32_of(Type::S4, Type::U4), 7),
        ((16, 8, 64), s32_of(Type::U4, Type::S4), 7),
        ((8, 8, 4), [Type::F64; 4], 1000),
        ((16, 8, 16), [Type::F64; 4], 1000),
        ((8, 8, 128), s32_of(Type::B1, Type::B1), 1),
        ((16, 8, 256), s32_of(Type::B1, Type::B1), 1),
    ] {
        check(&instruction(false, shape, types), bound, true);
    }
}

#[test]
fn wmma_of_every_shape_multiplies() {
    for shape in [(16, 16, 16), (32, 8, 16), (8, 32, 16)] {
        check(&instruction(true, shape, [Type::F32, Type::F16, Type::F16, Type::F32]), 8, true);
        check(&instruction(true, shape, [Type::F16; 4]), 4, true);
        check(&instruction(true, shape, [Type::F32, Type::Bf16, Type::Bf16, Type::F32]), 8, true);
        check(&instruction(true, shape, [Type::S32, Type::S8, Type::S8, Type::S32]), 127, true);
        check(&instruction(true, shape, [Type::S32, Type::U8, Type::U8, Type::S32]), 255, false);
    }
    check(&instruction(true, (16, 16, 8), [Type::F32, Type::Tf32, Type::Tf32, Type::F32]), 8, true);
    check(&instruction(true, (8, 8, 4), [Type::F64; 4]), 1000, true);
}

#[test]
fn integers_saturate_only_when_asked() {
    let mut mma = instruction(false, (8, 8, 16), [Type::S32, Type::S8, Type::S8, Type::S32]);
    for (satfinite, expected) in [(false, 0x8000_000f), (true, 0x7fff_ffff)] {
        mma.satfinite = satfinite;
        let product = Product::new(&mma).unwrap();
        let ones = |_, _| 0x0101_0101;
        product.run(ones, ones, |_, _| 0x7fff_ffff, |_, _, got| assert_eq!(got, expected));
    }
}

#[test]
fn one_bit_products_can_take_and() {
    let mut mma = instruction(false, (8, 8, 128), [Type::S32, Type::B1, Type::B1, Type::S32]);
    mma.bit_op = Some(MmaBitOp::AndPopc);
    let product = Product::new(&mma).unwrap();
    let (a, b) = (|_, _| 0xff00_ff00, |_, _| 0xffff_0000);
    product.run(a, b, |_, _| 1, |_, _, got| assert_eq!(got, 4 * 8 + 1));
}

#[test]
fn infinities_and_nan_pass_through() {
    let types = [Type::F32, Type::F16, Type::F16, Type::F32];
    let product = Product::new(&instruction(false, (16, 8, 8), types)).unwrap();
    let one = |_, _| 0x3c00_3c00;
    product.run(|_, _| 0x7c00_3c00, one, |_, _| 0, |_, _, got| assert_eq!(got, 0x7f80_0000));
    product.run(|_, _| 0x7c00_fc00, one, |_, _| 0, |_, _, got| assert_eq!(got, 0x7fff_ffff));
}

#[test]
fn what_is_not_known_is_refused() {
    let good = instruction(false, (16, 8, 16), [Type::F32, Type::F16, Type::F16, Type::F32]);
    assert!(Product::new(&good).is_some());
    let mut short = good.clone();
    short.a = vec![Operand::Imm(0)].into();
    assert_eq!(Product::new(&short), None);
    let mut mixed = good.clone();
    mixed.b_ty = Type::S8;
    assert_eq!(Product::new(&mixed), None);
    let mut rounded = good;
    rounded.rounding = Some(ptx::ir::Rounding::Rz);
    assert_eq!(Product::new(&rounded), None);
    let mut bits = instruction(false, (8, 8, 128), [Type::S32, Type::B1, Type::B1, Type::S32]);
    bits.bit_op = None;
    assert_eq!(Product::new(&bits), None);
}

/// Does one dot product: row 0 of A by column 0 of B plus C, whose other elements are zeros.
fn dot(mma: &Mma, a: &[u64], b: &[u64], c: u64) -> u64 {
    let product = Product::new(mma).unwrap();
    let gather = |tile: Tile, value: &dyn Fn(usize, usize) -> u64, number: usize, lane: usize| {
        (0..tile.per_register).fold(0, |word, element| {
            let (row, column) = tile.place(lane, number, element);
            word | value(row, column) << (element as u32 * tile.bits)
        })
    };
    let row = |row, column| if row == 0 { a[column] } else { 0 };
    let column = |row, column| if column == 0 { b[row] } else { 0 };
    let corner = |row, column| if (row, column) == (0, 0) { c } else { 0 };
    let mut result = None;
    product.run(
        |number, lane| gather(product.a, &row, number, lane),
        |number, lane| gather(product.b, &column, number, lane),
        |number, lane| gather(product.c, &corner, number, lane),
        |number, lane, bits| {
            if (number, lane) == (0, 0) {
                result = Some(bits);
            }
        },
    );
    result.unwrap()
}

/// Inputs of all magnitudes where the H200 (driver 580) does not give the nearest f32.
#[test]
fn sums_are_the_tensor_cores() {
    let half = instruction(false, (16, 8, 16), [Type::F32, Type::F16, Type::F16, Type::F32]);
    let subnormals = dot(
        &half,
        &[
            0x80f4, 0x85ec, 0x826c, 0xbf9d, 0x85b3, 0x8667, 0x3d19, 0x8156, 0x45a, 0x844c, 0x8452,
            0x10d, 0x1c5, 0x8518, 0xbc35, 0x807b,
        ],
        &[
            0x3fe, 0x3c1, 0x9601, 0x808e, 0x3c71, 0x34b, 0x1789, 0xbefc, 0x8075, 0x179, 0xbf8d,
            0x3f47, 0x635, 0x364, 0x3d24, 0x879a,
        ],
        0x3416_ada1,
    );
    assert_eq!(subnormals, 0xbfac_b33c);
    let wide = dot(
        &half,
        &[
            0xd771, 0x67f8, 0x5d96, 0x353e, 0x3b97, 0x2138, 0xd13a, 0x74cd, 0x9b7f, 0x48f4, 0x58a5,
            0xef0f, 0xce61, 0x13b5, 0x3dc4, 0xa741,
        ],
        &[
            0x63f9, 0x80fe, 0x20c0, 0x371, 0xd2dc, 0xea58, 0x545f, 0xfab9, 0x4a89, 0x13aa, 0x9a8f,
            0xa904, 0xb234, 0xf231, 0xdfbe, 0x3f27,
        ],
        0xcfe2_e5ad,
    );
    assert_eq!(wide, 0xd001_9662);
    let brain = instruction(false, (16, 8, 8), [Type::F32, Type::Bf16, Type::Bf16, Type::F32]);
    let truncated = dot(
        &brain,
        &[0x3fea, 0x2177, 0x802f, 0x97, 0x3fba, 0x80d5, 0x2110, 0x2149],
        &[0x1ff2, 0xbf82, 0xf1, 0x9fb6, 0xa118, 0x9fbb, 0x3fee, 0x801f],
        0xae4d_ed41,
    );
    assert_eq!(truncated, 0xae4d_ed40);
    let greatest = [0x7f7f, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(dot(&brain, &greatest, &greatest, 0), 0x7f80_0000);
    let bytes = instruction(false, (16, 8, 32), [Type::F32, Type::E4m3, Type::E5m2, Type::F32]);
    let small = dot(
        &bytes,
        &[
            0xcd, 0x17, 0xbb, 0x65, 0x71, 0x41, 0xa, 0xaf, 0x4a, 0x34, 0xa5, 0xd6, 0x99, 0x63,
            0xec, 0x20, 0x1, 0x44, 0x6c, 0x9c, 0xe6, 0xbf, 0xea, 0xab, 0x67, 0x70, 0x1f, 0x86,
            0x6f, 0x87, 0x1a, 0xe2,
        ],
        &[
            0xe, 0x6c, 0xe7, 0x6a, 0xea, 0x33, 0xc9, 0x8d, 0xe5, 0x5a, 0x65, 0x17, 0x64, 0x9a,
            0x9c, 0x90, 0xd5, 0x91, 0xe3, 0x17, 0x4d, 0x60, 0x15, 0x56, 0x28, 0xbd, 0xf2, 0x12,
            0xad, 0x72, 0x45, 0xce,
        ],
        0x8079_c028,
    );
    assert_eq!(small, 0xc8b7_537a);
}
