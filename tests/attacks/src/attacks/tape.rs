//! Attacks on the gradient tape.

pub(crate) mod checks;
pub(crate) mod customs;
pub(crate) mod graphs;
mod kit;
pub(crate) mod passes;
pub(crate) mod threads;
pub(crate) mod values;

use std::sync::mpsc;
use std::time::Duration;

use cuda_safe::{DeviceBuffer, Result};
use geom_kernels::Geometry;
use geom_kernels::isosurface::{Counts, DenseField, IndexToWorld, MarchingCubes, Output};
use geom_kernels::volume::nanovdb::Map;
use geom_kernels::volume::{DenseOptions, Interpolation, Samples, Volume, VolumeOptions};
use tape::{Adjoint, CustomOp, Handle, Recorder, Seeds, Tape, Value};

use crate::harness::{Lab, TestResult, ensure, list};

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
/// - row: launching foreign code is unsafe
/// - targets: `Tape::record`, `Tape::new`, `Tape::record_again`, `Tape::backward_with`, `Volume::from_fn`,
///   `Samples::index`, `Volume::variables`, `Recorder::custom`
/// - must: right
fn pass_over_a_volume_that_never_ran(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = Geometry::new(&context);
    let options = VolumeOptions::new(0.5f32).map(Map::uniform(1.0, [0.0; 3])?);
    let dense = DenseOptions::new(options);
    let volume = Volume::from_fn(&stream, &geometry, [16; 3], &dense, |p| p[0] as f32)?;
    let points = DeviceBuffer::from_slice(&stream, &[[1.5f32, 2.5, 3.5]; 64])?;
    let samples = Samples::index(&points);
    let mut values = DeviceBuffer::<f32>::zeroed(&stream, 64)?;
    let seeds = DeviceBuffer::from_slice(&stream, &[1.0f32; 64])?;
    let record = |t: &mut Recorder<'_>, values: &mut DeviceBuffer<f32>| -> Result<()> {
        t.watch(&points)?;
        volume.record_sample(t, &samples, Interpolation::Trilinear, &mut *values)?;
        // Says that it writes to the volume: the tape keeps a copy of it for the sample's adjoint.
        let mut custom = t.custom();
        custom.writes(volume.variables::<f32>()?)?;
        custom.run(Nothing, |_| Ok(()))
    };
    // Loads the kernels, which a capture can't.
    let mut warm = Tape::record(&stream, |t| record(t, &mut values))?;
    warm.backward_with(&stream, &Seeds::new().with(&values, &seeds)?)?;
    drop(warm);
    // So that the copy lies in memory that was used before, and is not all zeros.
    let size = volume.bytes().next_multiple_of(256);
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
/// - row: launching foreign code is unsafe
/// - targets: `Tape::record`, `Tape::new`, `Tape::record_again`, `Tape::backward_with`, `MarchingCubes::new`,
///   `DenseField::new`, `Output::new`, `MarchingCubes::record_extract_into`
/// - must: right
fn pass_over_an_isosurface_that_never_ran(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let marching = MarchingCubes::new(&Geometry::new(&context));
    let values: Vec<f32> = (0..360).map(|i| if i % 7 < 3 { -1.0 } else { 1.0 }).collect();
    let values = DeviceBuffer::from_slice(&stream, &values)?;
    let field = DenseField::new(&values, [3, 3, 40], IndexToWorld::default())?;
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
        std::thread::sleep(Duration::from_millis(3));
        let _ = self.seen.send(value.to_vec(pass.stream())?);
        Ok(())
    }
}

/// Uploads to a buffer in another thread, while a pass reads what the tape keeps of the buffer.
///
/// - row: work that uses the same bytes
/// - row: nothing slips in between
/// - targets: `Tape::record`, `Adjoint::value`, `Adjoint::stream`, `CustomBuilder::reads`, `Recorder::custom`
/// - must: right
fn upload_beside_a_pass(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    // The upload is in parts, one after the other.
    context.set_copy_threads(1);
    let (stream, other) = (context.stream()?, context.stream()?);
    let n = 8 << 20;
    let ones = vec![1.0f32; n];
    for _ in 0..6 {
        let mut x = DeviceBuffer::<f32>::zeroed(&stream, n)?;
        let mut y = DeviceBuffer::<f32>::zeroed(&stream, n)?;
        let ((go, start), (seen, read)) = (mpsc::channel(), mpsc::channel());
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            let mut custom = t.custom();
            let handle = custom.reads(&x, Value::Entry)?;
            custom.overwrites(&y)?;
            custom.run(Reads { x: handle, go, seen }, |s| y.copy_from(s, &x))
        })?;
        let seed = DeviceBuffer::<f32>::zeroed(&stream, n)?;
        let seeds = Seeds::new().with(&y, &seed)?;
        stream.synchronize()?;
        // Refused, the pass is withstood.
        let _ = std::thread::scope(|scope| {
            let (ones, other, x) = (&ones, &other, &mut x);
            scope.spawn(move || start.recv().map(|()| x.upload(other, ones)));
            tape.backward_with(&stream, &seeds)
        });
        let Ok(read) = read.recv() else { continue };
        let new = read.iter().filter(|x| **x == 1.0).count();
        ensure!(new == 0 || new == n, "{new} of {n} values are new");
    }
    Ok(())
}

list![
    pass_over_a_volume_that_never_ran,
    pass_over_an_isosurface_that_never_ran,
    upload_beside_a_pass,
];
