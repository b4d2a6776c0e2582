//! Attacks on the gradient tape.

pub(crate) mod checks;
pub(crate) mod customs;
pub(crate) mod graphs;
mod kit;
pub(crate) mod passes;
pub(crate) mod threads;
pub(crate) mod values;

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use cuda_safe::{DeviceBuffer, LaunchConfig, Result, kernels};
use geom_kernels::GeometryKernels;
use geom_kernels::isosurface::{Counts, DenseField, Map, MarchingCubes, Output};
use geom_kernels::volume::{DenseOptions, Interpolation, Samples, Volume, VolumeOptions};
use tape::{Adjoint, CustomOp, Handle, Primal, Recorder, Saved, Seeds, Tape};
use test_harness::{TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

struct Nothing;

impl CustomOp for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }
    fn backward(&mut self, _: &mut Adjoint<'_>) -> Result<()> {
        Ok(())
    }
}

/// Launches a graph of a pass over a recording whose own graph never ran: the pass samples a volume in memory
/// that nothing was written to.
///
/// - row: an adjoint does not follow what a recording in a graph has not written
/// - row: memory of the tape never holds what nobody wrote
/// - targets: `Tape::record`, `Tape::new`, `Tape::record_again`, `Tape::backward_with`, `Volume::from_fn`,
///   `Samples::index`, `Volume::variables`, `Recorder::custom`
fn pass_over_a_volume_that_never_ran(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = GeometryKernels::new(&context);
    let options = VolumeOptions::new(0.5f32).map(Map::uniform(1.0, [0.0; 3])?);
    let dense = DenseOptions::new(options);
    let volume = Volume::from_fn(&stream, &geometry, [16; 3], dense, |p| p[0] as f32)?;
    let points = DeviceBuffer::from_slice(&stream, &[[1.5f32, 2.5, 3.5]; 64])?;
    let samples = Samples::index(&points);
    let mut values = DeviceBuffer::<f32>::zeroed(&stream, 64)?;
    let seeds = DeviceBuffer::from_slice(&stream, &[1.0f32; 64])?;
    let record = |t: &mut Recorder<'_>, values: &mut DeviceBuffer<f32>| -> Result<()> {
        t.watch(&points)?;
        volume.record_sample(t, &samples, Interpolation::Trilinear, &mut *values)?;
        // Says that it writes to the volume: the tape keeps a copy of it for the sample's adjoint.
        let mut custom = t.custom();
        custom.overwrites_inactive(volume.variables::<f32>()?, Primal::None)?;
        custom.run(Nothing, |_| Ok(()))
    };
    // Loads the kernels, which a capture can't.
    let mut warm = Tape::record(&stream, |t| record(t, &mut values))?;
    warm.backward_with(&stream, &Seeds::new().with(&values, &seeds)?)?;
    drop(warm);
    // So that the copy lies in memory that was used before, and is not all zeros.
    let size = volume.size_bytes().next_multiple_of(256);
    for _ in 0..1200 {
        drop(DeviceBuffer::<u8>::zeroed(&stream, size)?);
    }
    stream.synchronize()?;

    let mut tape = Tape::new(&stream)?;
    let never =
        context.capture((), |stream, ()| tape.record_again(stream, |t| record(t, &mut values)))?;
    drop(never);
    let seeds = Seeds::new().with(&values, &seeds)?;
    // Refused, or harmless when it runs.
    if let Ok(mut back) = context.capture((), |stream, ()| tape.backward_with(stream, &seeds))
        && back.launch(&stream).is_ok()
    {
        stream.synchronize()?;
    }
    Ok(())
}

/// Launches a graph of a pass over an isosurface that was never extracted: its adjoint follows indices in scratch
/// memory that nothing was written to.
///
/// - row: an adjoint does not follow what a recording in a graph has not written
/// - row: an index that a kernel reads from memory
/// - targets: `Tape::record`, `Tape::new`, `Tape::record_again`, `Tape::backward_with`, `MarchingCubes::new`,
///   `DenseField::new`, `Output::new`, `MarchingCubes::record_extract_into`
fn pass_over_an_isosurface_that_never_ran(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let marching = MarchingCubes::new(&GeometryKernels::new(&context));
    let values: Vec<f32> = (0..360).map(|i| if i % 7 < 3 { -1.0 } else { 1.0 }).collect();
    let values = DeviceBuffer::from_slice(&stream, &values)?;
    let field = DenseField::new(&values, [3, 3, 40], Map::default())?;
    let mut vertices = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 4096)?;
    let mut faces = DeviceBuffer::<[u32; 3]>::zeroed(&stream, 4096)?;
    let mut counts = DeviceBuffer::<Counts>::zeroed(&stream, 1)?;
    let seeds = DeviceBuffer::from_slice(&stream, &vec![[1.0f32; 3]; 4096])?;
    // Loads the kernels, which a capture can't.
    let mut warm = Tape::record(&stream, |t| {
        t.watch(&values)?;
        let output = Output::new(&mut vertices, &mut faces, &mut counts);
        marching.record_extract_into(t, &field, 0.0, output)
    })?;
    warm.backward_with(&stream, &Seeds::new().with(&vertices, &seeds)?)?;

    let mut tape = Tape::new(&stream)?;
    let never = context.capture((), |stream, ()| {
        tape.record_again(stream, |t| {
            t.watch(&values)?;
            let output = Output::new(&mut vertices, &mut faces, &mut counts);
            marching.record_extract_into(t, &field, 0.0, output)
        })
    })?;
    drop(never);
    let seeds = Seeds::new().with(&vertices, &seeds)?;
    if let Ok(mut back) = context.capture((), |stream, ()| tape.backward_with(stream, &seeds))
        && back.launch(&stream).is_ok()
    {
        stream.synchronize()?;
    }
    Ok(())
}

struct Reads {
    x: Handle<f32>,
    go: mpsc::Sender<()>,
    /// `None` where the upload goes on meanwhile.
    uploaded: Option<mpsc::Receiver<()>>,
    seen: mpsc::Sender<Vec<f32>>,
}

impl CustomOp for Reads {
    fn name(&self) -> &str {
        "reads"
    }
    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let value = pass.value(self.x)?;
        // The other thread may have ended.
        let _ = self.go.send(());
        match &self.uploaded {
            Some(uploaded) => drop(uploaded.recv()),
            None => std::thread::sleep(Duration::from_millis(3)),
        }
        let _ = self.seen.send(value.to_vec(pass.stream())?);
        Ok(())
    }
}

/// Uploads to a buffer in another thread, while a pass reads what the tape keeps of the buffer, or between the
/// moment when the pass names it and the moment when it reads it.
///
/// - row: a use of kept memory runs wholly before or wholly after
/// - row: a pass reads what was recorded, or is an error
/// - targets: `Tape::record`, `Adjoint::value`, `Adjoint::stream`, `CustomBuilder::reads`, `Recorder::custom`
fn upload_beside_a_pass(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    // The upload is in parts, one after the other.
    context.set_copy_threads(1);
    let (stream, other) = (context.stream()?, context.stream()?);
    let meanwhile = lab.variant() == "meanwhile";
    let (n, rounds) = if meanwhile { (4 << 20, 4) } else { (1 << 10, 1) };
    let ones = vec![1.0f32; n];
    for _ in 0..rounds {
        let mut x = DeviceBuffer::<f32>::zeroed(&stream, n)?;
        let mut y = DeviceBuffer::<f32>::zeroed(&stream, n)?;
        let ((go, start), (seen, read)) = (mpsc::channel(), mpsc::channel());
        let (done, uploaded) = mpsc::channel();
        let uploaded = (!meanwhile).then_some(uploaded);
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            let mut custom = t.custom();
            let x_kept = custom.reads(&x, Primal::Entry)?;
            custom.overwrites(&y, Primal::None)?;
            custom.run(Reads { x: x_kept, go, uploaded, seen }, |s| y.copy_from(s, &x))
        })?;
        let seed = DeviceBuffer::<f32>::zeroed(&stream, n)?;
        let seeds = Seeds::new().with(&y, &seed)?;
        stream.synchronize()?;
        let (uploading, passed) = std::thread::scope(|scope| {
            let (ones, other, x) = (&ones, &other, &mut x);
            let uploading = scope.spawn(move || -> Result<()> {
                // The pass has come so far, or has ended.
                let _ = start.recv();
                x.upload(other, ones)?;
                // The pass waits for it, or goes on.
                let _ = done.send(());
                Ok(())
            });
            let passed = tape.backward_with(&stream, &seeds);
            // With it goes what the other thread waits for, should the pass not have come so far.
            drop(tape);
            (uploading.join(), passed)
        });
        ensure!(matches!(uploading, Ok(Ok(()))), "the upload: {uploading:?}");
        // Refused, the pass is withstood; what it was given first must be right all the same.
        let read = read.recv();
        ensure!(passed.is_err() || read.is_ok(), "the pass has read nothing");
        if let Ok(read) = read {
            let new = read.iter().filter(|x| **x == 1.0).count();
            ensure!(new == 0, "{new} of {n} values are not those that were recorded");
        }
        ensure!(x.to_vec(&stream)? == ones, "the upload is lost");
    }
    Ok(())
}

kernels! {
    struct Kernels;
    // SAFETY: thread i writes element i of x if i < n, and nothing is read through y.
    unsafe in r#"
        extern "C" __global__ void overwrite(const float* y, float* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] = 2.0f;
        }
    "# {
        safe fn overwrite(y: Saved<'_, f32>, x: &mut [f32], n: u32) where n <= x.len();
    }
}

/// Writes the memory of a value that a tape has kept.
struct Overwrites {
    x: Handle<f32>,
    memory: Arc<Mutex<DeviceBuffer<f32>>>,
    /// `None`: by a copy.
    kernels: Option<Kernels>,
}

impl CustomOp for Overwrites {
    fn name(&self) -> &str {
        "overwrites"
    }
    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let value = pass.value(self.x)?;
        match &self.kernels {
            None => value.copy_to(pass.stream(), &mut *memory),
            Some(kernels) => {
                // Not all of it: a part is enough.
                let part = memory.slice_mut(63..)?;
                kernels.overwrite(pass.stream(), LaunchConfig::new(1, 1), value, part, 1)
            }
        }
    }
}

/// Gives a launch or a copy, in the adjoint of an operation, what the tape has kept of a buffer, and the same
/// buffer to be written.
///
/// - row: no safe code gets a view of memory that is not borrowed
/// - targets: `Adjoint::value`, `Saved::copy_to`, `Recorder::custom`, `CustomBuilder::reads`, `Tape::backward_with`
fn a_value_beside_its_own_memory(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let (kernels, refused) = match lab.variant() {
        "copy" => (None, "can't be copied to the memory that it lies in"),
        _ => (Some(Kernels::load(&context)?), "which nobody has borrowed"),
    };
    let x = Arc::new(Mutex::new(DeviceBuffer::from_slice(&stream, &[1.0f32; 64])?));
    let locked = || x.lock().unwrap_or_else(PoisonError::into_inner);
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, 64)?;
    let seed = DeviceBuffer::<f32>::zeroed(&stream, 64)?;
    let mut tape = Tape::record(&stream, |t| {
        let from = locked();
        t.watch(&*from)?;
        let mut custom = t.custom();
        let kept = custom.reads(&*from, Primal::Entry)?;
        custom.overwrites(&y, Primal::None)?;
        let op = Overwrites { x: kept, memory: x.clone(), kernels };
        custom.run(op, |s| y.copy_from(s, &*from))
    })?;
    let seeds = Seeds::new().with(&y, &seed)?;
    lab.refused(tape.backward_with(&stream, &seeds), refused)?;
    ensure_eq!(locked().to_vec(&stream)?, [1.0; 64]);
    Ok(())
}

attacks![
    "tape",
    right(pass_over_a_volume_that_never_ran),
    right(pass_over_an_isosurface_that_never_ran),
    right(upload_beside_a_pass).variants(&["before", "meanwhile"]),
    right(a_value_beside_its_own_memory).variants(&["copy", "launch"]),
];
