//! Runs a kernel with tangents and its adjoint on the software device, and compares the two products
//! ⟨ȳ, J ẋ⟩ and ⟨Jᵀ ȳ, ẋ⟩.

use std::sync::Arc;
use std::time::Duration;

use cuda_emu::Tangents;
use cuda_emu::exec::{DeviceInfo, Env, ExecConfig, Heap, Launch, Program, run};
use cuda_emu::space::{Kind, Space};
use ptx_ad::{
    Access, Adjoint, Deterministic, Effect, NotDifferentiable, Real, Spec, abi, differentiate,
};
use test_support::Rng;

pub(crate) use crate::args::{
    Arg, Layout, doubles, floats, kernel, module, number, read, scalar, spec, word, words, write,
};

/// The dimensions of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
}

pub(crate) fn shape(grid: u32, block: u32) -> Shape {
    Shape { grid: [grid, 1, 1], block: [block, 1, 1] }
}

/// How an adjoint compares.
#[derive(Debug, Clone)]
pub(crate) struct Compared {
    /// The difference of the products, relative to the sum of their terms' magnitudes.
    pub(crate) error: f64,
    /// That sum.
    pub(crate) magnitude: f64,
    /// The gradient, by argument and number.
    pub(crate) gradient: Vec<Vec<f64>>,
    /// The gradient of the memory after the kernel.
    pub(crate) weights: Vec<Vec<f64>>,
    /// Whether no number in memory is infinite, or none, after the kernel.
    pub(crate) finite: bool,
}

/// Why there is nothing to compare.
#[derive(Debug)]
pub(crate) enum Failure {
    Refused(NotDifferentiable),
    /// The kernel itself fails, or its tangents are infinite.
    Undefined(String),
    /// The adjoint fails.
    Wrong(String),
}

/// A device that tracks tangents, without a driver.
pub(crate) struct Device {
    pub(crate) space: Arc<Space>,
    pub(crate) info: DeviceInfo,
    config: ExecConfig,
    heap: Heap,
    /// Every so many gradients of outputs are zero.
    pub(crate) zeros: usize,
    /// How many bytes of scratch memory adjoints get at first.
    pub(crate) scratch: usize,
    /// Whether frames say ASSIGN and DROP where they may.
    pub(crate) masks: bool,
    /// Whether the adjoint for deterministic tapes runs, if there is one.
    pub(crate) logs: bool,
    /// Whether frames say DROP of outputs that are not covered, too.
    pub(crate) drops: bool,
    /// The argument whose gradient is null.
    pub(crate) null: Option<usize>,
    /// The code of a status that was raised before the adjoint runs.
    pub(crate) raised: u32,
}

const PARTIALS: usize = 8;

impl Device {
    pub(crate) fn new() -> Self {
        let space = Space::new().expect("a range of addresses");
        space.track_tangents();
        let mut config = ExecConfig::default();
        config.workers = 1;
        config.timeout = Some(Duration::from_secs(20));
        let info = DeviceInfo { tangents: true, ..DeviceInfo::default() };
        Self {
            space,
            info,
            config,
            heap: Heap::new(0, 1 << 20),
            zeros: usize::MAX,
            scratch: 0,
            masks: false,
            logs: false,
            drops: false,
            null: None,
            raised: 0,
        }
    }

    pub(crate) fn tangents(&self) -> Tangents<'_> {
        Tangents::of(&self.space).expect("they are tracked")
    }

    pub(crate) fn load(&self, text: &str) -> Result<Program, String> {
        Program::load(text, &self.space, &self.info).map_err(|error| format!("{error}\n{text}"))
    }

    pub(crate) fn upload(&self, bytes: &[u8]) -> u64 {
        let count = bytes.len().max(1) as u64;
        let start = self.space.allocate(count, 256, Kind::Device, 0).expect("memory");
        // SAFETY: the allocation has room for the bytes, and no kernel runs.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start as *mut u8, bytes.len()) };
        start
    }

    fn overwrite(&self, start: u64, bytes: &[u8]) {
        // SAFETY: so many bytes were uploaded there, and no kernel runs.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start as *mut u8, bytes.len()) };
    }

    pub(crate) fn download(&self, start: u64, count: usize) -> Vec<u8> {
        // SAFETY: so many bytes were uploaded there, and no kernel runs.
        unsafe { std::slice::from_raw_parts(start as *const u8, count) }.to_vec()
    }

    pub(crate) fn launch(
        &self,
        program: &Program,
        name: &str,
        shape: Shape,
        values: &[Vec<u8>],
    ) -> Result<(), String> {
        let entry = program.entry(name).ok_or("no such kernel")?;
        let mut params = vec![0; program.param_bytes(entry)];
        let places = program.params(entry);
        assert_eq!(places.len(), values.len(), "arguments of {name}");
        for (&(offset, bytes), value) in places.iter().zip(values) {
            params[offset..offset + bytes].copy_from_slice(&value[..bytes]);
        }
        let Shape { grid, block } = shape;
        let launch =
            Launch { entry, grid, block, shared: 0, params, cooperative: false, cluster: None };
        let env = Env {
            space: &self.space,
            device: &self.info,
            config: &self.config,
            heap: &self.heap,
            printf: &|_| {},
        };
        run(program, &launch, &env).map(|_| ()).map_err(|fault| fault.to_string())
    }

    /// Runs an adjoint, and again with more scratch memory as long as it has too little.
    #[allow(clippy::too_many_arguments, reason = "all of a launch")]
    fn reverse(
        &self,
        program: &Program,
        adjoint: &Adjoint,
        shape: Shape,
        arguments: &mut Vec<Vec<u8>>,
        copies: &[(u64, &[u8])],
        (assign, drop): (u64, u64),
        log: Option<(u64, u64)>,
        used: &mut Vec<u64>,
    ) -> Result<(), String> {
        let threads: u32 = shape.grid.iter().chain(&shape.block).product();
        let marks = (abi::SCRATCH_HEADER as usize + threads as usize).next_multiple_of(16);
        let mut frame = vec![0; abi::FRAME_BYTES];
        let mut put = |at: usize, bytes: &[u8]| frame[at..at + bytes.len()].copy_from_slice(bytes);
        put(abi::PARTIALS_LOG2, &PARTIALS.ilog2().to_le_bytes());
        put(abi::ASSIGN, &assign.to_le_bytes());
        put(abi::DROP, &drop.to_le_bytes());
        if let Some((log, bytes)) = log {
            put(abi::LOG, &log.to_le_bytes());
            put(abi::LOG_BYTES, &bytes.to_le_bytes());
        }
        let status = self.upload(&u64::from(self.raised).to_le_bytes());
        used.push(status);
        let mut bytes = marks + self.scratch;
        let mut scratch = self.upload(&vec![0; bytes]);
        used.push(scratch);
        if adjoint.scratch || self.raised > 0 {
            put(abi::STATUS, &status.to_le_bytes());
        }
        if adjoint.scratch {
            put(abi::SCRATCH, &scratch.to_le_bytes());
            put(abi::SCRATCH_BYTES, &(bytes as u64).to_le_bytes());
        }
        arguments.push(frame);
        loop {
            self.launch(program, &adjoint.name, shape, arguments)?;
            let raised = self.download(status, 8);
            let [code, need] = [0, 4].map(|at: usize| {
                u32::from_le_bytes(raised[at..at + 4].try_into().expect("4 bytes"))
            });
            if code == 0 || self.raised > 0 {
                return Ok(());
            }
            assert_eq!(code, abi::SCRATCH_OVERFLOW);
            let needed = need as usize * 1024;
            if needed <= bytes {
                return Err(format!("{needed} bytes were asked for, there are {bytes}"));
            }
            let marked = self.download(scratch, marks);
            bytes = needed;
            scratch = self.upload(&[marked, vec![0xa5; bytes - marks]].concat());
            used.push(scratch);
            for (start, image) in copies {
                self.overwrite(*start, image);
            }
            self.overwrite(status, &[0; 8]);
            let frame = arguments.last_mut().expect("a frame");
            let mut put =
                |at: usize, bytes: &[u8]| frame[at..at + bytes.len()].copy_from_slice(bytes);
            put(abi::FLAGS, &abi::RESUME.to_le_bytes());
            put(abi::SCRATCH, &scratch.to_le_bytes());
            put(abi::SCRATCH_BYTES, &(bytes as u64).to_le_bytes());
        }
    }

    /// Adds what lies in a log to the gradients, and returns how many numbers that were.
    fn apply(&self, log: u64) -> u64 {
        let word = |at: u64| {
            let bytes = self.download(log + at, 8);
            u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
        };
        let count = word(0);
        for entry in 0..count {
            let at = abi::LOG_HEADER as u64 + entry * abi::LOG_ENTRY as u64;
            let (address, value) = (word(at), f64::from_bits(word(at + 8)));
            let real = if address % 2 == 1 { Real::F64 } else { Real::F32 };
            let place = address & !1;
            let mut image = self.download(place, real.bytes() as usize);
            let sum = read(&image, 0, real) + value;
            write(&mut image, 0, real, sum);
            self.overwrite(place, &image);
        }
        count
    }

    /// Differentiates, runs and compares.
    pub(crate) fn compare(
        &self,
        text: &str,
        kernel: &str,
        args: &[Arg],
        shape: Shape,
        seed: u64,
    ) -> Result<(Compared, Adjoint), Failure> {
        self.compare_spec(text, &spec(kernel, args), args, shape, seed)
    }

    /// The same, with what is said of the arguments.
    pub(crate) fn compare_spec(
        &self,
        text: &str,
        spec: &Spec,
        args: &[Arg],
        shape: Shape,
        seed: u64,
    ) -> Result<(Compared, Adjoint), Failure> {
        let module = ptx_ad::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let adjoint = differentiate(&module, spec).map_err(Failure::Refused)?;
        let compared = self.compare_with(text, &spec.kernel, args, shape, seed, &adjoint)?;
        Ok((compared, adjoint))
    }

    pub(crate) fn compare_with(
        &self,
        text: &str,
        kernel: &str,
        args: &[Arg],
        shape: Shape,
        seed: u64,
        adjoint: &Adjoint,
    ) -> Result<Compared, Failure> {
        ptx_ad::parse(&adjoint.text).unwrap_or_else(|error| panic!("{error}\n{}", adjoint.text));
        let mut rng = Rng::new(seed);
        let mut used = Vec::new();
        let tangents = self.tangents();
        tangents.clear_arguments();
        let program = self.load(text).map_err(Failure::Undefined)?;
        let deterministic = adjoint.deterministic.as_ref().filter(|_| self.logs);
        let text = deterministic.map_or(&adjoint.text, |made| &made.text);
        let reverse = self.load(text).map_err(Failure::Wrong)?;

        // Forward, with tangents.
        let entry = program.entry(kernel).expect("it was differentiated");
        let places = program.params(entry).to_vec();
        let mut directions: Vec<Vec<f64>> = Vec::new();
        let (mut values, mut memory) = (Vec::new(), Vec::new());
        for (index, (arg, &(place, _))) in args.iter().zip(&places).enumerate() {
            let numbers = arg.numbers();
            let mut direction: Vec<f64> = numbers.iter().map(|_| f64::from(rng.float())).collect();
            if self.null == Some(index) {
                direction.fill(0.0);
            }
            match arg {
                Arg::Buffer { bytes, .. } => {
                    let start = self.upload(bytes);
                    used.push(start);
                    for ((at, real), tangent) in numbers.iter().zip(&direction) {
                        let at = start + *at as u64;
                        tangents.set(at, number(*real), &[*tangent]).expect("memory");
                    }
                    values.push(start.to_le_bytes().to_vec());
                    memory.push(Some(start));
                }
                Arg::Value { bytes, .. } => {
                    for ((at, real), tangent) in numbers.iter().zip(&direction) {
                        let at = place + at;
                        tangents
                            .set_argument(kernel, at, number(*real), *tangent)
                            .expect("an offset");
                    }
                    values.push(bytes.clone());
                    memory.push(None);
                }
            }
            directions.push(direction);
        }
        let result = self.launch(&program, kernel, shape, &values);
        let mut outputs = Vec::new();
        // Whether each number is finite after the kernel.
        let mut finite: Vec<Vec<bool>> = Vec::new();
        for (arg, start) in args.iter().zip(&memory) {
            let Some(start) = *start else {
                outputs.push(Vec::new());
                finite.push(Vec::new());
                continue;
            };
            let got = arg.numbers().into_iter().map(|(at, real)| {
                tangents.get(start + at as u64, number(real), 1).expect("memory")[0]
            });
            outputs.push(got.collect::<Vec<f64>>());
            let Arg::Buffer { bytes, .. } = arg else { unreachable!("it has memory") };
            let image = self.download(start, bytes.len());
            let is_finite = |(at, real)| read(&image, at, real).is_finite();
            finite.push(arg.numbers().into_iter().map(is_finite).collect());
        }
        // What the kernel has stored for its adjoint.
        let replayed: Vec<Option<Vec<u8>>> = args
            .iter()
            .zip(&memory)
            .enumerate()
            .map(|(at, (arg, start))| {
                let of = |access: &&Access| access.param == at && access.replayed;
                adjoint.accesses.iter().find(of)?;
                let Arg::Buffer { bytes, .. } = arg else { return None };
                start.map(|start| self.download(start, bytes.len()))
            })
            .collect();
        let lost = tangents.lost();
        tangents.clear_arguments();
        tangents.clear();
        let free = |used: Vec<u64>| {
            for start in used {
                self.space.free(start);
            }
        };
        if let Err(fault) = result {
            free(used);
            return Err(Failure::Undefined(fault));
        }
        if outputs.iter().flatten().any(|tangent| !tangent.is_finite()) {
            // A tangent may be infinite where a value is. Where the value is finite and the device has lost the
            // tangent, the generator should have refused.
            let finite = args.iter().zip(&memory).zip(&outputs).any(|((arg, start), tangents)| {
                let Some(start) = *start else { return false };
                let Arg::Buffer { bytes, .. } = arg else { return false };
                let image = self.download(start, bytes.len());
                let numbers = arg.numbers();
                let mut each = numbers.iter().zip(tangents);
                each.any(|((at, real), tangent)| {
                    tangent.is_nan() && read(&image, *at, *real).is_finite()
                })
            });
            free(used);
            return Err(match lost.first().filter(|_| finite) {
                Some(lost) => Failure::Wrong(format!("the tangent was lost: {lost:?}")),
                None => Failure::Undefined("a tangent is infinite".to_owned()),
            });
        }

        // Reverse, from random gradients, on the memory as it was. What is not read, by the derivation, is not there: its
        // address leads nowhere.
        let mut arguments = Vec::new();
        let mut before = Vec::new();
        for (at, (arg, replayed)) in args.iter().zip(&replayed).enumerate() {
            let mut of = adjoint.accesses.iter().filter(|access| access.param == at).peekable();
            let read = of.peek().is_none() || of.any(|access| access.loaded || access.private);
            match arg {
                Arg::Buffer { .. } if !read => {
                    arguments.push((256 * (at as u64 + 1)).to_le_bytes().to_vec());
                }
                Arg::Buffer { bytes, .. } => {
                    let bytes = replayed.as_ref().unwrap_or(bytes);
                    let start = self.upload(bytes);
                    used.push(start);
                    before.push((start, bytes));
                    arguments.push(start.to_le_bytes().to_vec());
                }
                Arg::Value { bytes, .. } => arguments.push(bytes.clone()),
            }
        }
        let mut gradients = Vec::new();
        let mut weights: Vec<Vec<f64>> = Vec::new();
        let [assigns, drops] = [Effect::Reads, Effect::Overwrites].map(|effect| {
            let may = |access: &&Access| self.masks && access.covers && access.effect == effect;
            adjoint.accesses.iter().filter(may).map(|access| access.param).collect::<Vec<_>>()
        });
        let (mut assign, mut drop, mut slot) = (0, 0, 1u64);
        let mut kept: Vec<(u64, Vec<u8>)> = Vec::new();
        for (at, (arg, finite)) in args.iter().zip(&finite).enumerate() {
            let numbers = arg.numbers();
            let active = arg.is_active();
            let bit = if active { slot } else { 0 };
            slot <<= u32::from(active);
            let stored =
                |access: &Access| access.param == at && access.effect == Effect::Overwrites;
            let all = self.drops && adjoint.accesses.iter().any(stored);
            drop |= if all || drops.contains(&at) { bit } else { 0 };
            if self.null == Some(at) {
                gradients.push(0);
                arguments.push(vec![0; 8]);
                weights.push(vec![0.0; numbers.len()]);
                continue;
            }
            match arg {
                Arg::Buffer { bytes, active: true, .. } if assigns.contains(&at) => {
                    // Nothing is there yet. What comes after draws as it would otherwise.
                    assign |= bit;
                    for _ in &numbers {
                        let _: f32 = rng.float();
                    }
                    let scale = numbers.first().map_or(1, |(_, real)| real.scale() as usize);
                    let mut image = vec![0; bytes.len() * scale];
                    for (at, real) in &numbers {
                        write(&mut image, at * scale, real.gradient(), f64::NAN);
                    }
                    let start = self.upload(&image);
                    used.push(start);
                    gradients.push(start);
                    arguments.push(start.to_le_bytes().to_vec());
                    weights.push(vec![0.0; numbers.len()]);
                }
                Arg::Buffer { bytes, active: true, .. } => {
                    // What is not finite has no derivative.
                    let wanted =
                        |at: usize, finite: bool| finite && !(at + 1).is_multiple_of(self.zeros);
                    let chosen: Vec<f64> = finite
                        .iter()
                        .enumerate()
                        .map(|(at, finite)| {
                            f64::from(rng.float()) * f64::from(u8::from(wanted(at, *finite)))
                        })
                        .collect();
                    let scale = numbers.first().map_or(1, |(_, real)| real.scale() as usize);
                    let mut image = vec![0; bytes.len() * scale];
                    for ((at, real), weight) in numbers.iter().zip(&chosen) {
                        write(&mut image, at * scale, real.gradient(), *weight);
                    }
                    let start = self.upload(&image);
                    let mut of = adjoint.accesses.iter().filter(|access| access.param == at);
                    if drop & bit != 0 && of.all(|access| access.drops) {
                        kept.push((start, image));
                    }
                    used.push(start);
                    gradients.push(start);
                    arguments.push(start.to_le_bytes().to_vec());
                    weights.push(chosen);
                }
                Arg::Value { active: true, .. } => {
                    let start = self.upload(&[0; PARTIALS * 128]);
                    used.push(start);
                    gradients.push(start);
                    arguments.push(start.to_le_bytes().to_vec());
                    weights.push(Vec::new());
                }
                _ => {
                    gradients.push(0);
                    weights.push(Vec::new());
                }
            }
        }
        let private: Vec<bool> = (0..args.len())
            .map(|at| adjoint.accesses.iter().any(|access| access.param == at && access.private))
            .collect();
        let copies: Vec<(u64, &[u8])> = args
            .iter()
            .zip(&arguments)
            .zip(&private)
            .filter(|(_, private)| **private)
            .filter_map(|((arg, start), _)| match arg {
                Arg::Buffer { bytes, .. } => {
                    let start = u64::from_le_bytes(start[..].try_into().expect("an address"));
                    Some((start, &bytes[..]))
                }
                Arg::Value { .. } => None,
            })
            .collect();
        let masks = (assign, drop);
        let log = deterministic.map(|_| {
            let bytes = 1 << 22;
            let start = self.upload(&vec![0; bytes]);
            used.push(start);
            (start, bytes as u64)
        });
        let result =
            self.reverse(&reverse, adjoint, shape, &mut arguments, &copies, masks, log, &mut used);
        let is_kept =
            |(start, image): &(u64, Vec<u8>)| self.download(*start, image.len()) == *image;
        assert!(
            kept.iter().all(is_kept),
            "a gradient that is dropped was changed\n{}",
            adjoint.text
        );
        if let (Some((start, _)), Some(made)) = (log, deterministic) {
            let most = most_entries(adjoint, made, shape, args);
            let count = self.apply(start);
            assert!(most.is_none_or(|most| count <= most), "{count} entries\n{}", made.text);
        }
        let mut gradient: Vec<Vec<f64>> = Vec::new();
        for (at, (arg, start)) in args.iter().zip(&gradients).enumerate() {
            let numbers = arg.numbers();
            let got: Vec<f64> = match arg {
                _ if *start == 0 => vec![0.0; numbers.len()],
                // Nobody reads it.
                _ if drop != 0 && drops.contains(&at) => vec![0.0; numbers.len()],
                Arg::Buffer { bytes, .. } => {
                    let scale = numbers.first().map_or(1, |(_, real)| real.scale() as usize);
                    let image = self.download(*start, bytes.len() * scale);
                    let gradient =
                        |(at, real): &(usize, Real)| read(&image, at * scale, real.gradient());
                    numbers.iter().map(gradient).collect()
                }
                Arg::Value { .. } => {
                    let image = self.download(*start, PARTIALS * 128);
                    let sum = |(at, real): &(usize, Real)| {
                        let at = at * real.scale() as usize;
                        let part = |part| read(&image, part * 128 + at, real.gradient());
                        (0..PARTIALS).map(part).sum()
                    };
                    numbers.iter().map(sum).collect()
                }
            };
            gradient.push(got);
        }
        let untouched = before.iter().all(|(start, bytes)| {
            copies.iter().any(|(copy, _)| copy == start)
                || self.download(*start, bytes.len()) == **bytes
        });
        free(used);
        result.map_err(|fault| Failure::Wrong(format!("{fault}\n{}", adjoint.text)))?;
        if !untouched {
            return Err(Failure::Wrong("the adjoint has changed the kernel's memory".to_owned()));
        }
        let terms = |a: &[Vec<f64>], b: &[Vec<f64>]| -> Vec<f64> {
            a.iter().zip(b).flat_map(|(a, b)| a.iter().zip(b).map(|(a, b)| a * b)).collect()
        };
        let forward = terms(&weights, &outputs);
        let backward = terms(&gradient, &directions);
        let sum = |terms: &[f64]| terms.iter().sum::<f64>();
        let size = |terms: &[f64]| terms.iter().map(|term| term.abs()).sum::<f64>();
        let magnitude = size(&forward) + size(&backward);
        if !magnitude.is_finite() && size(&forward) > 1e30 {
            return Err(Failure::Undefined("a product is infinite".to_owned()));
        }
        let difference = (sum(&forward) - sum(&backward)).abs();
        // Not a number counts as wrong.
        let error = if difference == 0.0 { 0.0 } else { difference / magnitude };
        let finite = finite.iter().flatten().all(|finite| *finite);
        Ok(Compared { error, magnitude, gradient, weights, finite })
    }
}

/// Returns how many entries the log may have at most; `None` with loops.
fn most_entries(
    adjoint: &Adjoint,
    made: &Deterministic,
    shape: Shape,
    args: &[Arg],
) -> Option<u64> {
    let product = |dims: [u32; 3]| dims.iter().map(|dim| u64::from(*dim)).product::<u64>();
    let (blocks, threads) = (product(shape.grid), product(shape.grid) * product(shape.block));
    let numbers = args.iter().filter(|arg| matches!(arg, Arg::Value { active: true, .. }));
    let numbers: usize = numbers.map(|arg| arg.numbers().len()).sum();
    let partial = numbers as u64 * if adjoint.scratch { threads } else { blocks };
    let (outside, inside) = made.added.split_first()?;
    inside.iter().all(|count| *count == 0).then_some(outside * threads + partial)
}
