//! Operations in Rust: several launches, memory of several kinds, tapes inside of them.

use cuda_safe::{DeviceBuffer, Kernel, LaunchConfig};
use tape::{Adjoint, CustomOp, Handle, Op, Primal, Recorder, Seeds, Tape};

use super::awkward::refused;
use super::basics::{close, tolerance};
use super::ops::{Number, Ops, module, numbers, threads};
use test_harness::{Case, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::custom",
        device(kernels_of_its_own = own_kernels::<f32>),
        device(recomputed_by_an_inner_tape = checkpoint::<f64>),
    ]
}

const N: usize = 60;

/// out = x[index]: its adjoint launches a kernel with the frame, so that deterministic tapes take it.
struct Gather<T> {
    kernel: Kernel,
    x: Handle<T>,
    index: Handle<u32>,
    out: Handle<T>,
    log: Option<usize>,
}

impl<T: Number> CustomOp for Gather<T> {
    fn name(&self) -> &str {
        "gather"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> cuda_safe::Result<()> {
        let index = pass.value(self.index)?;
        let (gx, gout) = (pass.gradient(self.x)?, pass.gradient(self.out)?);
        let n = index.len() as u32;
        // The kernel's own parameters, which its adjoint does not look at, are null.
        let args = (0u64, index, 0u64, n, gx, gout, pass.frame());
        // SAFETY: thread i reads element i of the index and of the output's gradient, and adds to an element
        // of the input's that the index names, of which there are as many.
        unsafe { self.kernel.launch(pass.stream(), threads(n as usize), args) }
    }

    fn summands(&self) -> Option<usize> {
        self.log
    }
}

fn own_kernels<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let kernel = module(device)?.kernel(&format!("gather_{}_adjoint", T::SUFFIX))?;
    let forward = module(device)?.kernel(&format!("gather_{}", T::SUFFIX))?;
    let mut rng = device.rng(851);
    let host: Vec<T> = numbers(&mut rng, 10);
    let index: Vec<u32> = (0..N).map(|_| rng.below(10) as u32).collect();
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut index_device = DeviceBuffer::from_slice(&stream, &index)?;
    let mut out = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut loss = DeviceBuffer::<T>::zeroed(&stream, 1)?;
    let mut wanted = vec![0.0; 10];
    for i in &index {
        wanted[*i as usize] += 2.0 * host[*i as usize].to();
    }
    let mut record = |t: &mut Recorder<'_>, log, loss: &mut DeviceBuffer<T>| {
        t.watch(&x)?;
        let mut custom = t.custom();
        let op = Gather {
            kernel: kernel.clone(),
            x: custom.reads(&x, Primal::None)?,
            index: custom.reads_inactive(&index_device, Primal::Entry)?,
            out: custom.overwrites(&out, Primal::None)?,
            log,
        };
        custom.run(op, |stream| {
            let args = (&x, &index_device, &mut out, N as u32);
            // SAFETY: as many elements as threads below n; the index names elements that there are.
            unsafe { forward.launch(stream, threads(N), args) }
        })?;
        t.launch(&ops.energy, threads(N), (&out, loss, N as u32))
    };
    let mut bits: Vec<Vec<T>> = Vec::new();
    for (deterministic, log) in [(false, None), (true, Some(N)), (true, Some(N))] {
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(deterministic);
        tape.record_again(&stream, |t| record(t, log, &mut loss))?;
        tape.backward(&stream, &loss)?;
        let got = tape.gradient(&x)?.to_vec(&stream)?;
        close(&got, &wanted, tolerance::<T>())?;
        bits.push(got);
    }
    ensure!(bits[1] == bits[2]);
    let mut tape = Tape::new(&stream)?;
    tape.set_deterministic(true);
    let refusal = tape.record_again(&stream, |t| record(t, None, &mut loss));
    refused(refusal, "`gather` is not made for deterministic tapes")?;
    // The index is kept if something recorded overwrites it, and missed if something else does.
    let mut tape = Tape::record(&stream, |t| record(t, None, &mut loss))?;
    index_device.fill(&stream, 0)?;
    refused(tape.backward(&stream, &loss), "`gather`) was overwritten")
}

/// x is bent `times` times; nothing is kept of it but where it began: the adjoint does it again on a tape
/// of its own, and goes back through that.
struct Checkpoint<T> {
    bend: Op,
    times: usize,
    x: Handle<T>,
    out: Handle<T>,
}

impl<T: Number> CustomOp for Checkpoint<T> {
    fn name(&self) -> &str {
        "checkpoint"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> cuda_safe::Result<()> {
        let stream = pass.stream().clone();
        let mut y = DeviceBuffer::<T>::zeroed(&stream, N)?;
        pass.value(self.x)?.copy_to(&stream, &mut y)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&y)?;
            (0..self.times).try_for_each(|_| t.launch(&self.bend, threads(N), (&mut y, N as u32)))
        })?;
        let Some(given) = pass.gradient(self.out)?.as_slice()? else { return Ok(()) };
        tape.backward_with(&stream, &Seeds::new().with(&y, given)?)?;
        match pass.gradient_mut(self.x)? {
            // Nothing else has come to it in this test.
            Some(mut gx) => gx.copy_from(&stream, tape.gradient(&y)?),
            None => Ok(()),
        }
    }
}

fn checkpoint<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(852), N);
    let mut x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut out = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut loss = DeviceBuffer::<T>::zeroed(&stream, 1)?;
    let bend = ops.bend.kernel().clone();
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        let mut custom = t.custom();
        let op = Checkpoint {
            bend: ops.bend.clone(),
            times: 5,
            x: custom.reads(&x, Primal::Entry)?,
            out: custom.overwrites(&out, Primal::None)?,
        };
        custom.run(op, |stream| {
            out.copy_from(stream, &x)?;
            (0..5).try_for_each(|_| {
                // SAFETY: thread i updates element i, of as many as there are.
                unsafe { bend.launch(stream, LaunchConfig::cover(N, 32), (&mut out, N as u32)) }
            })
        })?;
        // What it has read is overwritten, so it was copied.
        t.fill(&mut x, T::of(0.0))?;
        t.launch(&ops.energy, threads(N), (&out, &mut loss, N as u32))
    })?;
    for _ in 0..2 {
        tape.backward(&stream, &loss)?;
        let wanted: Vec<f64> = host
            .iter()
            .map(|x| {
                let (mut x, mut slope) = (x.to(), 1.0);
                for _ in 0..5 {
                    (x, slope) = (x - x * x * x / 6.0, slope * (1.0 - x * x / 2.0));
                }
                2.0 * x * slope
            })
            .collect();
        close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted, tolerance::<T>())?;
    }
    ensure!(tape.memory().copies > 0);
    Ok(())
}
