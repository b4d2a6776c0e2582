//! A network of two layers that learns on which of two spirals a point lies. Products by cuBLAS, kernels in Rust between
//! them, gradients by a tape; a step of training is one graph. `network [steps]`

use std::error::Error;
use std::ops::Range;
use std::path::Path;

use cuda_libs::{Blas, Mat, MatMut, tape::gemm};
use cuda_safe::kernel::{attributes, kernel, random::Random};
use cuda_safe::{Context, DeviceBuffer, Result, Stream};
use tape::{Recorder, Seeds, Tape};

/// The number of points, which lie on the spirals by turns, and of hidden units.
const POINTS: usize = 512;
const WIDTH: usize = 64;
const RATE: f32 = 1.0;
/// The largest mean loss after training.
const LOSS: f32 = 0.01;

/// The places of weights and biases in one buffer: 2 x `WIDTH` and `WIDTH`, `WIDTH` x 1 and 1.
const HIDDEN: Range<usize> = 0..2 * WIDTH;
const HIDDEN_BIAS: Range<usize> = HIDDEN.end..3 * WIDTH;
const LAST: Range<usize> = HIDDEN_BIAS.end..4 * WIDTH;
const LAST_BIAS: Range<usize> = LAST.end..4 * WIDTH + 1;

#[kernel(gradient)]
fn activate(bias: &[f32], sums: &[f32], units: &mut [f32]) {
    assert!(sums.len() == units.len());
    each(units, |i, unit| *unit = (sums[i] + bias[i % bias.len()]).tanh());
}

/// The logistic loss of each point, whose label is -1 or 1: minus the logarithm of the label's probability.
#[kernel(gradient)]
fn lose(bias: &[f32], scores: &[f32], #[inactive] labels: &[f32], losses: &mut [f32]) {
    assert!(scores.len() == losses.len() && labels.len() == losses.len());
    each(losses, |i, loss| {
        let score = -labels[i] * (scores[i] + bias[0]);
        *loss = score.max(0.0) + (-score.abs()).exp().ln_1p();
    });
}

/// Goes a step against the gradient, with momentum.
#[kernel]
fn descend(gradient: &[f32], velocities: &mut [f32], weights: &mut [f32]) {
    assert!(gradient.len() == weights.len());
    each((velocities, weights), |i, (velocity, weight)| {
        *velocity = 0.9 * *velocity - RATE * gradient[i];
        *weight += *velocity;
    });
}

/// Points with their labels, and what the layers make of them.
struct Batch {
    points: DeviceBuffer<f32>,
    labels: DeviceBuffer<f32>,
    sums: DeviceBuffer<f32>,
    units: DeviceBuffer<f32>,
    scores: DeviceBuffer<f32>,
    losses: DeviceBuffer<f32>,
}

impl Batch {
    fn new(stream: &Stream, points: &[[f32; 2]], labels: &[f32]) -> Result<Self> {
        let zeros = |width| DeviceBuffer::zeroed(stream, width * labels.len());
        Ok(Self {
            points: DeviceBuffer::from_slice(stream, points.as_flattened())?,
            labels: DeviceBuffer::from_slice(stream, labels)?,
            sums: zeros(WIDTH)?,
            units: zeros(WIDTH)?,
            scores: zeros(1)?,
            losses: zeros(1)?,
        })
    }

    /// Computes the losses, and records that.
    fn record(
        &mut self,
        t: &mut Recorder<'_>,
        blas: &Blas,
        weights: &DeviceBuffer<f32>,
    ) -> Result<()> {
        let Self { points, labels, sums, units, scores, losses } = self;
        let n = labels.len();
        let [hidden, last] = [weights.slice(HIDDEN)?, weights.slice(LAST)?];
        let (hidden, last) = (Mat::new(hidden, 2, WIDTH)?, Mat::new(last, WIDTH, 1)?);
        gemm(t, blas, 1.0, Mat::new(&*points, n, 2)?, hidden, MatMut::new(&mut *sums, n, WIDTH)?)?;
        activate::record(t, weights.slice(HIDDEN_BIAS)?, &*sums, &mut *units)?;
        gemm(t, blas, 1.0, Mat::new(&*units, n, WIDTH)?, last, MatMut::new(&mut *scores, n, 1)?)?;
        lose::record(t, weights.slice(LAST_BIAS)?, &*scores, &*labels, &mut *losses)
    }
}

/// The points of two spirals of one turn each, with some noise.
fn spirals() -> (Vec<[f32; 2]>, Vec<f32>) {
    let mut random = Random::new(42, 0);
    let point = |i: usize| {
        let (radius, label) = (random.uniform().sqrt(), 1.0 - 2.0 * (i % 2) as f32);
        let (sin, cos) = (std::f32::consts::TAU * radius).sin_cos();
        ([cos, sin].map(|x| label * radius * x + 0.01 * random.normal()), label)
    };
    (0..POINTS).map(point).unzip()
}

/// Trains a network. Returns its weights and the mean loss.
fn train(
    context: &Context,
    blas: &Blas,
    (points, labels): &(Vec<[f32; 2]>, Vec<f32>),
    steps: usize,
) -> Result<(DeviceBuffer<f32>, f32)> {
    let (stream, mut random) = (context.stream()?, Random::new(1, 0));
    let scale = |i: usize| if i < LAST.start { 6.0 } else { 0.125 };
    let start: Vec<f32> = (0..LAST_BIAS.end).map(|i| scale(i) * random.normal()).collect();
    let weights = DeviceBuffer::from_slice(&stream, &start)?;
    let velocities = DeviceBuffer::<f32>::zeroed(&stream, start.len())?;
    let (batch, tape) = (Batch::new(&stream, points, labels)?, Tape::new(&stream)?);
    // The gradients of the mean.
    let seeds = DeviceBuffer::from_slice(&stream, &[1.0 / POINTS as f32; POINTS])?;
    // A capture can't load kernels.
    tape::derivation(&stream, activate::kernel())?;
    tape::derivation(&stream, lose::kernel())?;
    attributes(&stream, descend::kernel())?;
    let state = (weights, velocities, batch, tape);
    let mut step = context.capture(state, |stream, (weights, velocities, batch, tape)| {
        tape.record_again(stream, |t| {
            t.watch(&*weights)?;
            batch.record(t, blas, weights)
        })?;
        tape.backward_with(stream, &Seeds::new().with(&batch.losses, &seeds)?)?;
        let gradient = tape.gradient(&*weights)?;
        descend::launch(stream, gradient, velocities, weights)
    })?;
    let mut mean = f32::NAN;
    for number in 0..steps {
        step.launch(&stream)?;
        if (number + 1) % (steps / 10).max(1) == 0 {
            let losses = step.state().2.losses.to_vec(&stream)?;
            mean = losses.iter().sum::<f32>() / POINTS as f32;
            println!("step {:5}: loss {mean:.6}", number + 1);
        }
    }
    Ok((step.state().0.try_clone(&stream)?, mean))
}

/// Draws how probable either spiral is at each place, and the points.
fn draw(
    context: &Context,
    blas: &Blas,
    weights: &DeviceBuffer<f32>,
    (points, labels): &(Vec<[f32; 2]>, Vec<f32>),
    size: usize,
) -> Result<Vec<u8>> {
    let stream = context.stream()?;
    let place = |i: usize| 2.4 * (i as f32 + 0.5) / size as f32 - 1.2;
    let places: Vec<_> = (0..size * size).map(|i| [place(i % size), -place(i / size)]).collect();
    let mut batch = Batch::new(&stream, &places, &vec![1.0; size * size])?;
    Tape::record(&stream, |t| batch.record(t, blas, weights))?;
    let losses = batch.losses.to_vec(&stream)?;
    let colours = [[214.0, 96.0, 77.0], [67.0, 147.0, 195.0]];
    let colour = |first: f32, strong: f32| {
        [0, 1, 2].map(|k| {
            let mixed = colours[0][k] + first * (colours[1][k] - colours[0][k]);
            (255.0 + strong * (mixed - 255.0)) as u8
        })
    };
    let mut picture: Vec<_> = losses.iter().map(|loss| colour((-loss).exp(), 0.6)).collect();
    for ([x, y], label) in points.iter().zip(labels) {
        let pixel = |x: f32| (((x + 1.2) / 2.4 * size as f32) as usize).clamp(1, size - 2);
        for (row, column) in (0..3).flat_map(|row| (0..3).map(move |column| (row, column))) {
            let at = (pixel(-y) + row - 1) * size + pixel(*x) + column - 1;
            picture[at] = colour(label.max(0.0), 1.3);
        }
    }
    Ok(picture.into_flattened())
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let context = example_common::context();
    let device = context.device().name()?;
    let software = device.contains("software");
    let steps = std::env::args()
        .nth(1)
        .map_or(Ok(if software { 60 } else { 2000 }), |text| text.parse())?;
    println!("{device}: {POINTS} points, {WIDTH} hidden units, {steps} steps");
    let (blas, data) = (example_common::libraries::blas(&context)?, spirals());
    let (weights, loss) = train(&context, &blas, &data, steps)?;
    let size = if software { 120 } else { 600 };
    let picture = draw(&context, &blas, &weights, &data, size)?;
    example_common::save(Path::new("target/network/network.png"), [size as u32; 2], &picture)?;
    // A NaN is not small.
    let is_small = loss <= LOSS;
    if !is_small {
        return Err(format!("the loss is {loss}, not {LOSS} or less").into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_falls() {
        let device = cuda_safe::Driver::from_sys(cuda_emu::driver()).unwrap().device(0).unwrap();
        let context = device.context().unwrap();
        let blas = example_common::libraries::blas(&context).unwrap();
        let losses = [1, 20].map(|steps| train(&context, &blas, &spirals(), steps).unwrap().1);
        assert!(losses[0] > 0.5 && losses[1] < 0.1, "{losses:?}");
    }
}
