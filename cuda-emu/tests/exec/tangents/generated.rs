//! Random programs have the same results with tangents, to the bit.

use cuda_emu::Real;
use ptx_gen::{BLOCK, Ending, INPUTS, Program, SCRATCH, THREADS, kernel_name, module};
use test_support::Rng;

use super::Tracked;
use crate::device::{Device, shape};

/// All rows of the table are among them.
const PROGRAMS: u64 = ptx_gen::ROUND as u64;

#[test]
fn results_of_random_programs_stay_the_same() {
    let mut rng = Rng::new(77);
    let words: Vec<u64> = (0..THREADS * INPUTS).map(|_| rng.next()).collect();
    // Floats of moderate size among them, so that tangents live longer.
    let inputs: Vec<u64> = words
        .iter()
        .enumerate()
        .map(|(at, &word)| match at % 3 {
            0 => word,
            1 => (rng.float() * 8.0).to_bits().into(),
            _ => f64::from(rng.float() * 8.0).to_bits(),
        })
        .collect();
    let programs: Vec<Program> = (0..PROGRAMS).map(Program::new).collect();
    let text = module(&programs, Ending::Hash);
    let run = |device: &Device, set: &dyn Fn(u64)| -> Vec<(Vec<u64>, Vec<u64>)> {
        let program = device.load(&text).expect("programs of the table");
        let each = programs.iter().map(|one| {
            let at = device.upload(&inputs);
            set(at);
            let results = device.upload(&[0u64; THREADS]);
            let scratch = device.upload(&[0u64; SCRATCH.div_ceil(8)]);
            let args = [at, results, scratch, 0, 3];
            let blocks = (THREADS / BLOCK) as u32;
            device
                .launch(&program, &kernel_name(one), shape(blocks, BLOCK as u32), &args)
                .unwrap_or_else(|fault| panic!("{}: {fault}", kernel_name(one)));
            (device.download(results, THREADS), device.download(scratch, SCRATCH / 8))
        });
        each.collect()
    };
    let plain = run(&Device::new(1), &|_| {});
    let tracked = Tracked::new();
    let ones = vec![1.0; 2 * inputs.len()];
    let with = run(&tracked.device, &|at| {
        tracked.tangents().set(at, Real::F32, &ones).expect("memory");
    });
    for ((plain, with), program) in plain.iter().zip(&with).zip(&programs) {
        assert!(plain == with, "{} differs", kernel_name(program));
    }
    // The programs mix floats with bits.
    assert!(!tracked.lost().is_empty());
}
