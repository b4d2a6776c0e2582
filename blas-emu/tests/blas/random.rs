//! Random numbers: published values of the generators, their order, and their distributions.

use std::ptr;

use blas_emu::cufft::*;
use blas_emu::curand::*;
use cuda_sys::cufft::*;
use cuda_sys::curand::*;

use crate::lab::*;

fn generator(kind: curandRngType_t, seed: u64, offset: u64) -> curandGenerator_t {
    enter();
    let mut raw = ptr::null_mut();
    ok!(curandCreateGenerator(&raw mut raw, kind));
    ok!(curandSetPseudoRandomGeneratorSeed(raw, seed));
    ok!(curandSetGeneratorOffset(raw, offset));
    raw
}

const XORWOW: curandRngType_t = curandRngType_t::CURAND_RNG_PSEUDO_XORWOW;
const PHILOX: curandRngType_t = curandRngType_t::CURAND_RNG_PSEUDO_PHILOX4_32_10;

fn bits(kind: curandRngType_t, seed: u64, offset: u64, parts: &[usize]) -> Vec<u32> {
    let raw = generator(kind, seed, offset);
    let memory = Memory::new(&vec![0u32; parts.iter().sum()]);
    let mut done = 0;
    for part in parts {
        ok!(curandGenerate(raw, memory.at().wrapping_add(done), *part));
        done += part;
    }
    let got = memory.get();
    ok!(curandDestroyGenerator(raw));
    got
}

/// Philox by its definition, with 128-bit arithmetic.
fn philox(seed: u64, low: u64, high: u64) -> [u32; 4] {
    let mut x = [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32];
    let mut key = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let (a, b) = (0xd251_1f53u64 * u64::from(x[0]), 0xcd9e_8d57u64 * u64::from(x[2]));
        x = [
            (b >> 32) as u32 ^ x[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ x[3] ^ key[1],
            a as u32,
        ];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    x
}

#[test]
fn philox_is_that_of_its_authors_in_the_documented_order() {
    // The known answer of Random123 for a key and counter of 0.
    assert_eq!(bits(PHILOX, 0, 0, &[4]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    let seed = 0x1234_5678_9abc_def0;
    let got = bits(PHILOX, seed, 3, &[5, 1, 262_144]);
    for at in [0usize, 1, 4, 5, 6, 100, 262_140, 262_141, 262_149] {
        let place = at as u64 + 3;
        let block = philox(seed, place / 4 / 65536, place / 4 % 65536);
        assert_eq!(got[at], block[(place % 4) as usize], "{at}");
    }
}

#[test]
fn xorwow_takes_turns_of_4096_sequences() {
    let all = bits(XORWOW, 1234, 0, &[3 * 4096]);
    assert_eq!(bits(XORWOW, 1234, 0, &[1, 4095, 4097, 4095]), all);
    assert_eq!(bits(XORWOW, 1234, 5000, &[7000]), all[5000..12000]);
    assert_ne!(bits(XORWOW, 1235, 0, &[64]), all[..64]);
    // The first sequence, step by step.
    let (low, high) = (
        (1234u32 ^ 0xaad2_6b49).wrapping_mul(1_099_087_573),
        0xf7dc_efddu32.wrapping_mul(2_591_861_531),
    );
    let mut v = [
        123_456_789u32.wrapping_add(low),
        362_436_069 ^ low,
        521_288_629u32.wrapping_add(high),
        88_675_123 ^ high,
        5_783_321u32.wrapping_add(low),
    ];
    let mut counter = 6_615_241u32.wrapping_add(low).wrapping_add(high);
    for turn in 0..3 {
        let t = v[0] ^ (v[0] >> 2);
        v = [v[1], v[2], v[3], v[4], v[4] ^ (v[4] << 4) ^ t ^ (t << 1)];
        counter = counter.wrapping_add(362_437);
        assert_eq!(all[turn * 4096], v[4].wrapping_add(counter));
    }
}

#[test]
fn distributions_follow_from_the_bits() {
    for kind in [XORWOW, PHILOX] {
        let n = 20_000;
        let raw = bits(kind, 99, 0, &[n]);
        let generator = generator(kind, 99, 0);
        let floats = Memory::new(&vec![0.0f32; n]);
        ok!(curandGenerateUniform(generator, floats.at(), n));
        for (float, bits) in floats.get().iter().zip(&raw) {
            assert_eq!(
                *float,
                ((f64::from(*bits as f32)) * 2f64.powi(-32) + 2f64.powi(-33)) as f32
            );
        }
        let doubles = Memory::new(&vec![0.0f64; n]);
        ok!(curandSetGeneratorOffset(generator, 0));
        ok!(curandGenerateUniformDouble(generator, doubles.at(), n));
        let all = doubles.get();
        assert!(all.iter().all(|x| *x > 0.0 && *x <= 1.0));
        assert!((all.iter().sum::<f64>() / n as f64 - 0.5).abs() < 0.01);
        ok!(curandGenerateNormal(generator, floats.at(), n, 3.0, 2.0));
        let normal: Vec<f64> = floats.get().into_iter().map(f64::from).collect();
        ok!(curandGenerateNormalDouble(generator, doubles.at(), n, 3.0, 2.0));
        for values in [normal, doubles.get()] {
            let mean = values.iter().sum::<f64>() / n as f64;
            let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64;
            assert!((mean - 3.0).abs() < 0.06 && (variance - 4.0).abs() < 0.2, "{mean} {variance}");
        }
        ok!(curandGenerateLogNormal(generator, floats.at(), n, 0.0, 1.0));
        assert!(floats.get().iter().all(|x| *x > 0.0));
        ok!(curandGenerateLogNormalDouble(generator, doubles.at(), n, 0.0, 1.0));
        assert!(doubles.get().iter().all(|x| *x > 0.0));
        let status = curandStatus_t::CURAND_STATUS_LENGTH_NOT_MULTIPLE;
        fails!(status, "n 3", curandGenerateNormal(generator, floats.at(), 3, 0.0, 1.0));
        ok!(curandDestroyGenerator(generator));
        fails!(
            curandStatus_t::CURAND_STATUS_NOT_INITIALIZED,
            "generator",
            curandDestroyGenerator(generator)
        );
    }
}

#[test]
fn other_generators_are_refused_by_name() {
    enter();
    for kind in [121, 141, 142, 200, 201, 204, 7] {
        let mut raw = ptr::null_mut();
        let status = curandStatus_t::CURAND_STATUS_TYPE_ERROR;
        fails!(status, "MRG32K3A", curandCreateGenerator(&raw mut raw, curandRngType_t(kind)));
    }
}

#[test]
fn xorwow_keeps_its_order() {
    let blas = Blas::new();
    let raw = generator(XORWOW, 5, 0);
    let memory = Memory::new(&[0u32; 5000]);
    ok!(curandGenerate(raw, memory.at(), 4500));
    // What follows on another stream comes after, and a graph would repeat it.
    ok!(curandSetStream(raw, blas.stream));
    let failure = curandStatus_t::CURAND_STATUS_LAUNCH_FAILURE;
    blas.capture(|| fails!(failure, "captured", curandGenerate(raw, memory.at(), 10)));
    ok!(curandGenerate(raw, memory.at().wrapping_add(4500), 500));
    assert_eq!(memory.get(), bits(XORWOW, 5, 0, &[5000]));
    ok!(curandDestroyGenerator(raw));
}

#[test]
fn a_length_beyond_the_memory_is_an_error() {
    enter();
    let mut plan = 0;
    let failed = cufftResult::CUFFT_ALLOC_FAILED;
    let kind = cufftType::CUFFT_Z2Z;
    fails!(failed, "", cufftPlan1d(&raw mut plan, i32::MAX, kind, 4000));
}
