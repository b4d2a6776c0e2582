//! A small network whose weights all threads read: gradients by the weights, which are sums over all samples, and by
//! the samples.

use cuda_safe::vector::Float4;
use cuda_safe::{DeviceBuffer, LaunchConfig, Stream};
use rayon::prelude::*;
use tape::{Element, FloatType, Op, Param, Seeds, Tape};

use super::{BLOCK, spec};
use crate::data::random;
use crate::gpu::Gpu;
use crate::replay::{Replays, SETS};
use crate::report::{Row, Unit};
use crate::rows::Bench;
use crate::stop::Stop;

pub(super) const NAMES: [&str; 2] = ["tape_forward_network/262144", "tape_backward_network/262144"];

const N: usize = 262_144;
const INPUTS: usize = 8;
const HIDDEN: usize = 16;
const OUTPUTS: usize = 4;
const WEIGHTS: usize = HIDDEN * (INPUTS + 1) + OUTPUTS * (HIDDEN + 1);
/// Of each set, how many samples' gradients are compared.
const COMPARED: usize = 2500;

/// What a set is made from.
struct Host {
    weights: Vec<f32>,
    samples: Vec<f32>,
    g: Vec<f32>,
}

impl Host {
    /// Each sample with its cotangent.
    fn each(&self) -> impl IndexedParallelIterator<Item = (&[f32], &[f32])> {
        self.samples.par_chunks(INPUTS).zip(self.g.par_chunks(OUTPUTS))
    }
}

struct Set {
    host: Host,
    weights: DeviceBuffer<f32>,
    samples: DeviceBuffer<Float4>,
    out: DeviceBuffer<Float4>,
    g: DeviceBuffer<Float4>,
    tape: Tape,
}

fn fours(numbers: &[f32]) -> Vec<Float4> {
    numbers.chunks_exact(4).map(|v| Float4::new(v[0], v[1], v[2], v[3])).collect()
}

/// What a sample and its cotangent contribute to the gradients, in f64.
struct Contribution {
    out: [f64; OUTPUTS],
    by_sample: [f64; INPUTS],
    by_weights: Vec<f64>,
}

fn contribution(weights: &[f32], sample: &[f32], g: &[f32]) -> Contribution {
    let wide = |numbers: &[f32]| numbers.iter().copied().map(f64::from).collect::<Vec<_>>();
    let (weights, x, g) = (wide(weights), wide(sample), wide(g));
    let (first, rest) = weights.split_at(HIDDEN * INPUTS);
    let (biases, rest) = rest.split_at(HIDDEN);
    let (second, last) = rest.split_at(OUTPUTS * HIDDEN);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let sums: Vec<f64> =
        first.chunks(INPUTS).zip(biases).map(|(row, bias)| bias + dot(row, &x)).collect();
    let y: Vec<f64> = sums.iter().map(|s| s / (1.0 + s.abs())).collect();
    let out = std::array::from_fn(|j| last[j] + dot(&second[j * HIDDEN..][..HIDDEN], &y));
    // The derivative of s / (1 + |s|) is (1 + |s|)^-2.
    let by_sum: Vec<f64> = (0..HIDDEN)
        .map(|j| {
            let by_y: f64 = (0..OUTPUTS).map(|o| g[o] * second[o * HIDDEN + j]).sum();
            by_y / (1.0 + sums[j].abs()).powi(2)
        })
        .collect();
    let by_sample = std::array::from_fn(|k| {
        (0..HIDDEN).map(|j| by_sum[j] * first[j * INPUTS + k]).sum::<f64>()
    });
    let products = |a: &[f64], b: &[f64]| -> Vec<f64> {
        a.iter().flat_map(|a| b.iter().map(move |b| a * b)).collect()
    };
    let by_weights = [products(&by_sum, &x), by_sum.clone(), products(&g, &y), g].concat();
    Contribution { out, by_sample, by_weights }
}

impl Set {
    fn new(gpu: &Gpu, n: usize, seed: u64) -> Result<Self, Stop> {
        let stream = &gpu.stream;
        let host = Host {
            weights: random(WEIGHTS, 600 + seed),
            samples: random(INPUTS * n, 610 + seed),
            g: random(OUTPUTS * n, 620 + seed),
        };
        Ok(Self {
            weights: DeviceBuffer::from_slice(stream, &host.weights)?,
            samples: DeviceBuffer::from_slice(stream, &fours(&host.samples))?,
            out: DeviceBuffer::zeroed(stream, n)?,
            g: DeviceBuffer::from_slice(stream, &fours(&host.g))?,
            tape: Tape::new(stream)?,
            host,
        })
    }

    fn forward(&mut self, stream: &Stream, op: &Op) -> cuda_safe::Result<()> {
        let Self { weights, samples, out, tape, .. } = self;
        tape.record_again(stream, |t| {
            t.watch(&*weights)?;
            t.watch(&*samples)?;
            let n = out.len() as u32;
            t.launch(
                op,
                LaunchConfig::cover(out.len(), BLOCK),
                (&*weights, &*samples, &mut *out, n),
            )
        })
    }

    fn backward(&mut self, stream: &Stream) -> cuda_safe::Result<()> {
        let Self { out, g, tape, .. } = self;
        tape.backward_with(stream, &Seeds::new().with(&*out, &*g)?)
    }

    /// All outputs.
    fn check_outputs(&self, stream: &Stream) -> Result<usize, Stop> {
        let (found, host) = (self.out.to_vec(stream)?, &self.host);
        let wrong = host.each().zip(&found).position_any(|((x, g), found)| {
            let wanted = contribution(&host.weights, x, g).out;
            let found = [found.x, found.y, found.z, found.w].map(f64::from);
            // So written that a NaN is wrong.
            !found.iter().zip(&wanted).all(|(found, wanted)| (found - wanted).abs() <= 1e-5)
        });
        match wrong {
            None => Ok(found.len()),
            Some(sample) => Err(Stop::failed(format!("the output of sample {sample} is wrong"))),
        }
    }

    /// The gradients by all weights, and by some samples. Says of how many.
    fn check_gradients(&self, stream: &Stream) -> Result<usize, Stop> {
        let by_weights = self.tape.gradient(&self.weights)?.to_vec(stream)?;
        let zeros = || (vec![0.0f64; WEIGHTS], vec![0.0f64; WEIGHTS]);
        let host = &self.host;
        let (wanted, size) = host
            .each()
            .fold(zeros, |(mut sum, mut size), (x, g)| {
                let terms = contribution(&host.weights, x, g).by_weights;
                for (at, term) in terms.iter().enumerate() {
                    sum[at] += term;
                    size[at] += term.abs();
                }
                (sum, size)
            })
            .reduce(zeros, |a, b| {
                let add = |a: Vec<f64>, b: Vec<f64>| -> Vec<f64> {
                    a.iter().zip(&b).map(|(a, b)| a + b).collect()
                };
                (add(a.0, b.0), add(a.1, b.1))
            });
        for (at, found) in by_weights.iter().enumerate() {
            let (wanted, size) = (wanted[at], size[at]);
            let is_right = (f64::from(*found) - wanted).abs() <= 2e-6 * size;
            if !is_right {
                return Err(Stop::failed(format!("weight {at}: {found}, not {wanted} ({size})")));
            }
        }
        if by_weights.len() != WEIGHTS {
            return Err(Stop::failed(format!("{} gradients of weights", by_weights.len())));
        }
        let by_samples = self.tape.gradient(&self.samples)?.to_vec(stream)?;
        let by_samples: Vec<f32> = by_samples.iter().flat_map(|v| [v.x, v.y, v.z, v.w]).collect();
        let n = self.out.len();
        let mut compared = 0;
        for i in (0..n).step_by((n / COMPARED).max(1)) {
            let (x, g) = (&host.samples[INPUTS * i..], &host.g[OUTPUTS * i..]);
            let wanted = contribution(&host.weights, &x[..INPUTS], &g[..OUTPUTS]).by_sample;
            let found = by_samples.get(INPUTS * i..INPUTS * (i + 1)).unwrap_or_default();
            let largest = wanted.iter().fold(1.0f64, |most, g| most.max(g.abs()));
            let near = |(found, wanted): (&f32, &f64)| {
                (f64::from(*found) - wanted).abs() <= 2e-6 * largest
            };
            if found.len() != INPUTS || !found.iter().zip(&wanted).all(near) {
                return Err(Stop::failed(format!("sample {i}: {found:?}, not {wanted:?}")));
            }
            compared += 1;
        }
        Ok(compared)
    }
}

fn operation(gpu: &Gpu) -> Result<Op, Stop> {
    let source = nvrtc::Program::new(include_str!("../../network.cu")).name("network.cu");
    let each = |name| Param::buffer(name, Element::vector(FloatType::F32, 4)).active();
    let params = [
        Param::buffer("weights", Element::F32).len_fixed(WEIGHTS).active(),
        each("samples").len_times(2, "n"),
        each("out").len("n"),
        Param::value("n"),
    ];
    // SAFETY: thread i reads all weights, and samples 2 i and 2 i + 1, and writes output i, only if i < n.
    Ok(unsafe { spec("network", params).differentiate(&gpu.context, &source) }?)
}

pub(super) fn rows(bench: &Bench) -> Result<Vec<Row>, Stop> {
    measure(bench.gpu()?, bench.samples, N)
}

pub(super) fn measure(gpu: &Gpu, samples: usize, n: usize) -> Result<Vec<Row>, Stop> {
    let (stream, op, replays) = (&gpu.stream, operation(gpu)?, Replays::new(gpu, samples)?);
    let sets =
        (0..SETS as u64).map(|seed| Set::new(gpu, n, seed)).collect::<Result<Vec<_>, _>>()?;
    let row = |name, times: &[f64], check: String| {
        let times: Vec<f64> = times.iter().map(|ms| ms * 1e3).collect();
        Row::new(name, Unit::Us, &times).check(check).device(&gpu.name)
    };
    let (times, mut sets) = replays
        .run(sets, |stream, sets: &mut Vec<Set>, number| sets[number].forward(stream, &op))?;
    let right = sets.iter().map(|set| set.check_outputs(stream)).sum::<Result<usize, _>>()?;
    let check = format!("the outputs of {right} samples equal f64 to 1e-5, over {SETS} inputs");
    let forward = row(NAMES[0], &times, check);
    for set in &mut sets {
        set.forward(stream, &op)?;
    }
    let (times, sets) =
        replays.run(sets, |stream, sets: &mut Vec<Set>, number| sets[number].backward(stream))?;
    let right = sets.iter().map(|set| set.check_gradients(stream)).sum::<Result<usize, _>>()?;
    let check = format!(
        "gradients by all {WEIGHTS} weights, and by {right} samples, equal f64 to 2e-6 of the terms, over {SETS} inputs"
    );
    let backward = row(NAMES[1], &times, check);
    let time = backward.stats.median;
    let ratio = time / forward.stats.median;
    let backward = backward.figure("of_forward", ratio).at_most("us", time, 105.0);
    Ok(vec![forward, backward])
}
