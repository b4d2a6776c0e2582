//! Where the manual is silent: the results of an H200 (driver 580, CUDA 13.0).

use ptx::ir::{Rounding, Type};

use crate::arith::convert::{Cvt, float_to_float};
use crate::arith::*;

const SIGNALLING: u64 = 0x7ff0_0000_0000_0001;
const QUIET: u64 = 0xfffb_060f_4007_0acf;
const OTHER: u64 = 0x7ffb_ba1a_264b_7760;
const ONE: u64 = 0x3ff0_0000_0000_0000;

#[test]
fn a_zero_divisor_gives_all_ones() {
    assert_eq!(S16::div(0x33de, 0), 0xffff);
    assert_eq!(U32::div(2, 0), u32::MAX);
    assert_eq!(S32::rem(0xc9ed, 0), u32::MAX);
    assert_eq!(U64::rem(0, 0), u64::MAX);
    assert_eq!(U16::rem(0x401, 0), 0xffff);
}

#[test]
fn bit_fields_of_64_bits_do_not_wrap_at_256() {
    assert_eq!(U64::bfe(0xffff_ffff_8617_0695, 0x10, 0x100), 0xffff_ffff_8617);
    assert_eq!(U32::bfe(0x8617_0695, 0x10, 0x100), 0);
    assert_eq!(U64::bfi(u64::MAX, 0x4fe1, 0x100, 9), 0x4fe1);
    assert_eq!(U32::bfi(u32::MAX, 0, 0x100, 4), 0xf);
}

#[test]
fn f64_nan_comes_from_the_second_source_then_the_third() {
    assert_eq!(F64::add::<RN, false, false>(QUIET, OTHER), OTHER);
    assert_eq!(F64::add::<RZ, false, false>(QUIET, ONE), QUIET);
    assert_eq!(F64::sub::<RN, false, false>(ONE, SIGNALLING), SIGNALLING | 1 << 51);
    assert_eq!(F64::mul::<RN, false, false>(SIGNALLING, OTHER), OTHER);
    assert_eq!(F64::fma::<RN, false, false>(QUIET, SIGNALLING, OTHER), SIGNALLING | 1 << 51);
    assert_eq!(F64::fma::<RP, false, false>(QUIET, ONE, OTHER), OTHER);
    assert_eq!(F64::fma::<RM, false, false>(QUIET, ONE, ONE), QUIET);
    assert_eq!(F64::div::<RN>(QUIET, OTHER), QUIET);
    let infinity = F64::INFINITY;
    assert_eq!(F64::sub::<RN, false, false>(infinity, infinity), 0xfff8_0000_0000_0000);
    assert_eq!(F64::min::<false, false, false>(QUIET, SIGNALLING), SIGNALLING | 1 << 51);
}

#[test]
fn signs_of_nan() {
    assert_eq!(F64::abs::<false>(QUIET), QUIET);
    assert_eq!(F64::neg::<false>(SIGNALLING), SIGNALLING | 1 << 51);
    assert_eq!(F32::abs::<false>(0xffc0_0001), 0x7fff_ffff);
    assert_eq!(F32::neg::<false>(0x7fc0_0001), 0x7fff_ffff);
    assert_eq!(F16::neg::<false>(0x7e8a), 0x7fff);
    assert_eq!(Bf16::abs::<false>(0xffc1), 0x7fff);
}

#[test]
fn zero_sums_and_saturation() {
    assert_eq!(F32::add::<RM, false, false>(0x3f80_0000, 0xbf80_0000), 0x8000_0000);
    assert_eq!(F32::fma::<RM, false, false>(0x3f80_0000, 0x3f80_0000, 0xbf80_0000), 0x8000_0000);
    assert_eq!(F64::add::<RM, false, false>(ONE, ONE | 1 << 63), 1 << 63);
    assert_eq!(F64::fma::<RM, false, false>(0, ONE, 1 << 63), 1 << 63);
    assert_eq!(F32::add::<RN, false, true>(0x8000_0000, 0x8000_0000), 0);
    assert_eq!(F32::mul::<RN, false, true>(0x7fc0_0000, 0x3f80_0000), 0);
}

#[test]
fn flushing_is_decided_after_rounding_without_a_least_exponent() {
    // (1 - 2^-24) * 2^-126 has 24 bits: subnormal, although its subnormal rounding is 2^-126.
    assert_eq!(F32::mul::<RN, true, false>(0xa07f_ffff, 0x9f80_0000), 0);
    assert_eq!(F32::mul::<RN, false, false>(0xa07f_ffff, 0x9f80_0000), 0x0080_0000);
    assert_eq!(F32::rcp::<RP, true>(0x7e80_0001), 0);
    assert_eq!(F32::div::<RN, true>(0x1f7f_ffff, 0xde80_0000), 0x8000_0000);
    assert_eq!(F16::fma::<RN, true, false>(0xa006, 0x1ff5, 0x0800), 0);
    assert_eq!(F16::mul::<RN, true, false>(0x87ff, 0xb800), 0);
    assert_eq!(float_to_float::<F64, F32, RN, true, false>(0x380f_ffff_ed9c_f4d4), 0);
}

#[test]
fn conversions_of_nan() {
    let plain = |to, from| Cvt::new(to, from, None, false, false, false, false).unwrap();
    let rn = |to, from| Cvt::new(to, from, Some(Rounding::Rn), false, false, false, false).unwrap();
    assert_eq!(plain(Type::F64, Type::F16).apply(0xfc01), 0xfff8_0400_0000_0000);
    assert_eq!(plain(Type::F64, Type::Bf16).apply(0xff96), 0xfffa_c000_0000_0000);
    assert_eq!(plain(Type::F64, Type::F32).apply(0xffa5_24ad), 0xfffc_a495_a000_0000);
    assert_eq!(plain(Type::F32, Type::F32).apply(0xffa5_24ad), 0xffa5_24ad);
    assert_eq!(plain(Type::F64, Type::F64).apply(SIGNALLING), SIGNALLING);
    assert_eq!(plain(Type::F32, Type::F16).apply(0xfc01), 0x7fff_ffff);
    assert_eq!(plain(Type::F32, Type::Bf16).apply(0xff96), 0xff96_0000);
    assert_eq!(plain(Type::F16, Type::F16).apply(0xfc01), 0x7fff);
    assert_eq!(rn(Type::F32, Type::F64).apply(0xfff0_0000_0000_0001), 0xffc0_0000);
    assert_eq!(rn(Type::F16, Type::F64).apply(SIGNALLING), 0x7e00);
    assert_eq!(rn(Type::F16, Type::F32).apply(0xffa5_24ad), 0x7fff);
    assert_eq!(rn(Type::Tf32, Type::F32).apply(0xffa5_24ad), 0x7fff_e000);
    let rna = Cvt::new(Type::Tf32, Type::F32, Some(Rounding::Rna), false, false, false, false);
    assert_eq!(rna.unwrap().apply(0xffa5_24ad), 0xffa5_2000);
    let flushing = |to, from| Cvt::new(to, from, None, true, false, false, false).unwrap();
    assert_eq!(flushing(Type::F64, Type::F32).apply(0xffa5_24ad), 0x7fff_ffff_e000_0000);
    assert_eq!(flushing(Type::F32, Type::Bf16).apply(0xff96), 0x7fff_ffff);
}

#[test]
fn ftz_of_a_conversion_to_f16_flushes_nothing() {
    assert_eq!(float_to_float::<F32, F16, RP, true, false>(1), 1);
    let cvt = Cvt::new(Type::F16, Type::F32, Some(Rounding::Rm), true, false, false, false);
    assert_eq!(cvt.unwrap().apply(0x8000_0001), 0x8001);
}

/// The manual's `cvt`: `.ftz` "applies only to single-precision (.f32) inputs and results". Programs of
/// `ptx-gen` have asked the H200 about each rounding: unlike to f16, it does as the manual says.
#[test]
fn ftz_of_a_conversion_to_bf16_flushes_the_source() {
    let cvt = |rounding, ftz| {
        Cvt::new(Type::Bf16, Type::F32, Some(rounding), ftz, false, false, false).unwrap()
    };
    for (rounding, a, kept) in [
        (Rounding::Rn, 0x8030_2000, 0x8030),
        (Rounding::Rz, 0x007c_76f3, 0x007c),
        (Rounding::Rm, 0x8000_0001, 0x8001),
        (Rounding::Rp, 0x0000_0001, 0x0001),
        (Rounding::Rn, 0x007f_ffff, 0x0080),
    ] {
        assert_eq!(cvt(rounding, true).apply(a), a >> 31 << 15, "{rounding:?} {a:#x}");
        assert_eq!(cvt(rounding, false).apply(a), kept, "{rounding:?} {a:#x}");
        // The least normal number stays.
        assert_eq!(cvt(rounding, true).apply(0x8080_0000), 0x8080, "{rounding:?}");
    }
    assert_eq!(float_to_float::<F32, Bf16, RM, true, false>(0x8000_0001), 0x8000);
    assert_eq!(float_to_float::<F32, Bf16, RM, false, false>(0x8000_0001), 0x8001);
}
