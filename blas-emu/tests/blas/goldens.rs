//! cuRAND's results on a GPU, which `goldens/record.py` records in `goldens/curand.txt`.
//!
//! Words and uniform numbers have the same bits on every device. Normal numbers are those of a GPU only on a GPU.

use std::ffi::c_void;
use std::path::Path;
use std::ptr;

use blas_emu::curand::*;
use cuda_sys::curand::*;

use crate::lab::*;

fn fnv(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |value, byte| {
        (value ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Makes the results of a line, and returns their bytes.
fn made(kind: u32, seed: u64, offset: u64, order: u32, name: &str, counts: &[usize]) -> Vec<u8> {
    enter();
    let mut raw = ptr::null_mut();
    ok!(curandCreateGenerator(&raw mut raw, curandRngType_t(kind)));
    ok!(curandSetPseudoRandomGeneratorSeed(raw, seed));
    ok!(curandSetGeneratorOffset(raw, offset));
    ok!(curandSetGeneratorOrdering(raw, curandOrdering_t(order)));
    let width = if name.ends_with("Double") { 8 } else { 4 };
    let memory = Memory::new(&vec![0u8; counts.iter().sum::<usize>() * width]);
    let mut done = 0;
    for &count in counts {
        let at: *mut c_void = memory.at().wrapping_add(done * width).cast();
        match name {
            "Generate" => ok!(curandGenerate(raw, at.cast(), count)),
            "GenerateUniform" => ok!(curandGenerateUniform(raw, at.cast(), count)),
            "GenerateUniformDouble" => ok!(curandGenerateUniformDouble(raw, at.cast(), count)),
            "GenerateNormal" => ok!(curandGenerateNormal(raw, at.cast(), count, 1.0, 2.0)),
            "GenerateNormalDouble" => {
                ok!(curandGenerateNormalDouble(raw, at.cast(), count, 1.0, 2.0));
            }
            "GenerateLogNormal" => ok!(curandGenerateLogNormal(raw, at.cast(), count, 1.0, 0.5)),
            "GenerateLogNormalDouble" => {
                ok!(curandGenerateLogNormalDouble(raw, at.cast(), count, 1.0, 0.5));
            }
            other => panic!("no function {other}"),
        }
        done += count;
    }
    let bytes = memory.get();
    ok!(curandDestroyGenerator(raw));
    bytes
}

#[test]
fn results_are_those_of_a_gpu() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/curand.txt");
    let text = std::fs::read_to_string(path).expect("the recording of a GPU");
    let on_gpu = std::env::var("BLAS_EMU_DRIVER").is_ok_and(|value| value == "system");
    let mut wrong = Vec::new();
    for line in text.lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        let [kind, seed, offset, order, name, counts, hash, ..] = parts[..] else {
            panic!("{line}")
        };
        if name.contains("Normal") && !on_gpu {
            continue;
        }
        let seed = u64::from_str_radix(seed.trim_start_matches("0x"), 16).unwrap();
        let counts: Vec<usize> = counts.split(',').map(|count| count.parse().unwrap()).collect();
        let (kind, order) = (kind.parse().unwrap(), order.parse().unwrap());
        let bytes = made(kind, seed, offset.parse().unwrap(), order, name, &counts);
        if format!("{:016x}", fnv(&bytes)) != hash {
            wrong.push(format!("{line}\n  made {:02x?}", &bytes[..16]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
