//! Programs of what the grammar allows and NVRTC does not write: the generator says what they compute.

use cuda_safe::{DeviceBuffer, JitOptions, Module, ModuleImage};
use ptx_gen::Spelled;

use test_harness::{TestDevice, TestResult, ensure};

/// How many programs are run; a module has [`super::BATCH`].
const PROGRAMS: u64 = 256;

pub(super) fn programs(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let programs: Vec<_> = (0..PROGRAMS).map(Spelled::new).collect();
    for batch in programs.chunks(super::BATCH) {
        let text = Spelled::module(batch);
        let module =
            Module::load_with(device.context(), ModuleImage::Ptx(&text), &JitOptions::new())?;
        for program in batch {
            let kernel = module.kernel(&program.kernel_name())?;
            let mut out = DeviceBuffer::<u32>::zeroed(&stream, program.values.len())?;
            // SAFETY: the kernel takes the address of as many words as it has values.
            unsafe { device.launch(&kernel, &stream, (1, 1), (&mut out,))? };
            let got = out.to_vec(&stream)?;
            ensure!(
                got == program.values,
                "seed {}: {got:x?}, but {:x?}; `cargo run -p ptx-gen -- --spelled {0}` prints the program",
                program.seed,
                program.values
            );
        }
    }
    Ok(())
}
