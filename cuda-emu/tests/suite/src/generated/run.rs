//! Running programs on a device.

use cuda_safe::{DeviceBuffer, JitOptions, Module, ModuleImage, OptimizationLevel, Stream};
use ptx_gen::{BLOCK, Ending, Form, INPUTS, Pairs, Program, SCRATCH, THREADS};

use crate::golden::input_word;
use test_harness::{Failure, Rng, TestDevice};

/// Different inputs that there are; a program's seed chooses.
const SETS: u64 = 16;

/// The words that the threads of a program are given.
pub(super) fn inputs(seed: u64) -> Vec<u64> {
    let mut rng = Rng::new(0x6e4e_4a7e + seed % SETS);
    (0..THREADS * INPUTS).map(|_| input_word(&mut rng)).collect()
}

/// A device with the inputs on it.
pub(super) struct Runner<'d> {
    device: &'d TestDevice,
    stream: Stream,
    inputs: DeviceBuffer<u64>,
    /// For the device's compiler.
    options: JitOptions,
    /// What becomes of each text on its way to the device: for a bug that is planted.
    changed: fn(String) -> String,
}

impl<'d> Runner<'d> {
    pub(super) fn new(device: &'d TestDevice) -> Result<Self, Failure> {
        let stream = device.stream()?;
        let words: Vec<u64> = (0..SETS).flat_map(inputs).collect();
        let inputs = DeviceBuffer::from_slice(&stream, &words)?;
        Ok(Self { device, stream, inputs, options: JitOptions::new(), changed: |text| text })
    }

    /// The same device with a bug: it takes each text for another.
    pub(super) fn planted(self, changed: fn(String) -> String) -> Self {
        Self { changed, ..self }
    }

    /// The same device, whose compiler does not optimise: where that computes something else, the
    /// compiler has erred.
    pub(super) fn unoptimised(&self) -> Result<Self, Failure> {
        let options = JitOptions::new().optimization(OptimizationLevel::O0);
        Ok(Self { options, changed: self.changed, ..Self::new(self.device)? })
    }

    /// What the programs compute, each `words` words a thread: 1 for a hash.
    pub(super) fn run(
        &self,
        programs: &[Program],
        ending: Ending,
        words: usize,
    ) -> Result<Vec<Vec<u64>>, Failure> {
        let ptx = (self.changed)(ptx_gen::module(programs, ending));
        let kernels: Vec<_> =
            programs.iter().map(|one| (one.seed, ptx_gen::kernel_name(one))).collect();
        self.run_text(&ptx, &kernels, words)
    }

    /// What the pairs compute, [`Pairs::COUNT`] words a thread.
    pub(super) fn pairs(&self, programs: &[Pairs], form: Form) -> Result<Vec<Vec<u64>>, Failure> {
        let kernels: Vec<_> = programs.iter().map(|one| (one.seed, one.kernel_name())).collect();
        self.run_text(&Pairs::module(programs, form), &kernels, Pairs::COUNT)
    }

    /// The same of a module's text; kernels by seed and name.
    pub(super) fn run_text(
        &self,
        ptx: &str,
        kernels: &[(u64, String)],
        words: usize,
    ) -> Result<Vec<Vec<u64>>, Failure> {
        let stream = &self.stream;
        let context = self.device.context();
        let module = Module::load_with(context, ModuleImage::Ptx(ptx), &self.options)?;
        let mut results = DeviceBuffer::<u64>::zeroed(stream, kernels.len() * THREADS * words)?;
        let mut scratch = DeviceBuffer::<u64>::zeroed(stream, kernels.len() * SCRATCH / 8)?;
        for (place, (seed, name)) in kernels.iter().enumerate() {
            let set = (seed % SETS) as usize * THREADS * INPUTS;
            let inputs = self.inputs.slice(set..set + THREADS * INPUTS)?;
            let kernel = module.kernel(name)?;
            let launch = ((THREADS / BLOCK) as u32, BLOCK as u32);
            let arguments = (&inputs, &mut results, &mut scratch, place as u32, 3_u32);
            // SAFETY: generated kernels take these five, and each of their `THREADS` threads reads its
            // own inputs, writes its `words` results of the place, and stays inside its own bytes and
            // its block's cells of the place's scratch.
            unsafe { self.device.launch(&kernel, stream, launch, arguments)? };
        }
        let results = results.to_vec(stream)?;
        Ok(results.chunks(THREADS * words).map(<[u64]>::to_vec).collect())
    }
}
