//! Small launches with inputs that suit most kernels.

use ptx::ir::Function;
use ptx_ad::{Adjoint, Real};
use test_support::Rng;

use crate::common::{Arg, Compared, Device, Failure, Layout, Shape};
use crate::signature::Guess;

/// How an adjoint compares with tangents.
pub(crate) enum Checked {
    /// The largest error, and the largest sum of magnitudes, of several inputs. `races`: only with one thread.
    Right {
        error: f64,
        magnitude: f64,
        races: Option<String>,
    },
    Wrong(String),
    /// With these inputs the kernel fails, or nothing depends on numbers.
    NotRun(String),
}

/// How many bytes each buffer has.
const BYTES: usize = 1 << 14;
/// Relative to what the kernel touches.
const MOST_F32: f64 = 2e-6;
const MOST_F64: f64 = 1e-13;

/// What is put where numbers are not.
#[derive(Debug, Clone, Copy)]
enum Fill {
    /// Zeros in memory, ones by value.
    Zeros,
    /// Small integers.
    Small,
    /// Counts of as many as there are threads, and small integers in memory.
    Count,
}

fn write(bytes: &mut [u8], at: usize, real: Real, value: f64) {
    if real == Real::F32 {
        bytes[at..at + 4].copy_from_slice(&(value as f32).to_le_bytes());
    } else {
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}

fn integers(bytes: &mut [u8], fill: Fill, rng: &mut Rng) {
    for word in bytes.chunks_exact_mut(4) {
        let value = if matches!(fill, Fill::Zeros) { 0 } else { rng.below(9) };
        word.copy_from_slice(&(value as u32).to_le_bytes());
    }
}

/// The arguments; `None` if a structure has pointers.
fn draw(guesses: &[Guess], fill: Fill, rng: &mut Rng) -> Option<Vec<Arg>> {
    guesses
        .iter()
        .map(|guess| {
            if let Some(memory) = guess.pointers.get(&0).filter(|_| !guess.structure) {
                let size = memory.size as usize;
                let mut bytes = vec![0; BYTES / size * size];
                let layout = match memory.real {
                    Some(_) if memory.unclear => return None,
                    Some(real) if memory.mixed => {
                        integers(&mut bytes, fill, rng);
                        for at in (0..bytes.len()).step_by(size) {
                            for member in &memory.numbers {
                                let value = f64::from(1.5 * rng.float());
                                write(&mut bytes, at + *member as usize, real, value);
                            }
                        }
                        Layout::Some(real, memory.numbers.iter().copied().collect())
                    }
                    Some(real) => {
                        for at in (0..bytes.len()).step_by(real.bytes() as usize) {
                            write(&mut bytes, at, real, f64::from(1.5 * rng.float()));
                        }
                        Layout::All(real)
                    }
                    None => {
                        integers(&mut bytes, fill, rng);
                        Layout::None
                    }
                };
                let (size, active) = (memory.size, memory.real.is_some() && !guess.passive);
                return Some(Arg::Buffer { bytes, size, layout, active, length: None });
            }
            if !guess.pointers.is_empty() {
                return None;
            }
            let mut bytes = vec![0; guess.bytes];
            for word in bytes.chunks_mut(4).step_by(if guess.bytes == 8 { 2 } else { 1 }) {
                let value: u32 = match fill {
                    Fill::Zeros => 1,
                    Fill::Small => 3,
                    Fill::Count => 37,
                };
                let value = value.to_le_bytes();
                let count = word.len().min(4);
                word.copy_from_slice(&value[..count]);
            }
            for (offset, real) in &guess.reals {
                write(&mut bytes, *offset as usize, *real, f64::from(1.5 * rng.float()));
            }
            let reals: Vec<_> = guess.reals.iter().map(|(at, real)| (*at, *real)).collect();
            let active = !reals.is_empty() && !guess.passive;
            Some(Arg::Value { bytes, reals, active })
        })
        .collect()
}

pub(crate) fn check(
    device: &Device,
    text: &str,
    function: &Function,
    guesses: &[Guess],
    adjoint: &Adjoint,
) -> Checked {
    if let Err(why) = device.load(&adjoint.text) {
        return Checked::Wrong(format!("the adjoint does not load: {why}"));
    }
    let wide = guesses.iter().flat_map(|guess| {
        guess
            .pointers
            .values()
            .filter_map(|memory| memory.real)
            .chain(guess.reals.values().copied())
    });
    let most = if wide.into_iter().all(|real| real == Real::F64) { MOST_F64 } else { MOST_F32 };
    let fixed = function.directives.reqntid;
    let threads =
        function.directives.maxntid.map_or(32, |most| most.iter().product::<u32>().min(32));
    // Of kernels that were written for one thread, several race.
    let shapes = [Shape { grid: [2, 1, 1], block: fixed.unwrap_or([threads, 1, 1]) }, ONE];
    let mut wrong = None;
    for shape in shapes {
        match check_with(device, text, function, guesses, adjoint, (shape, most)) {
            Checked::Right { error, magnitude, .. } => {
                return Checked::Right { error, magnitude, races: wrong };
            }
            Checked::Wrong(why) => wrong = Some(why),
            Checked::NotRun(why) => return wrong.map_or(Checked::NotRun(why), Checked::Wrong),
        }
    }
    wrong.map_or_else(|| Checked::NotRun(String::new()), Checked::Wrong)
}

/// The gradients of what the kernel reads or changes. All other memory has the gradient that it was given: compared with
/// that, an error of one thread would be small.
fn touched(compared: &Compared) -> f64 {
    let parts = compared.gradient.iter().zip(&compared.weights);
    let each = parts.flat_map(|(gradient, weights)| {
        let weights = weights.iter().copied().chain(std::iter::repeat(0.0));
        gradient.iter().zip(weights).map(|(g, w)| (g - w).abs())
    });
    each.sum()
}

/// One thread.
const ONE: Shape = Shape { grid: [1; 3], block: [1; 3] };

fn check_with(
    device: &Device,
    text: &str,
    function: &Function,
    guesses: &[Guess],
    adjoint: &Adjoint,
    (shape, most): (Shape, f64),
) -> Checked {
    let mut found: Option<(f64, f64)> = None;
    let mut why = "a structure holds pointers, or numbers and integers lie at one place".to_owned();
    let fills = [Fill::Count, Fill::Small, Fill::Zeros, Fill::Count];
    for (seed, fill) in fills.into_iter().enumerate() {
        let mut rng = Rng::new(900 + seed as u64);
        let Some(args) = draw(guesses, fill, &mut rng) else { break };
        match device.compare_with(text, &function.name, &args, shape, 17 + seed as u64, adjoint) {
            Ok(compared) if touched(&compared) == 0.0 => {
                why = "all derivatives are zero, or one".to_owned();
            }
            Ok(compared) if !compared.finite && compared.error.is_nan() => {
                why = "a value is not finite".to_owned();
            }
            Ok(compared) => {
                let here = touched(&compared);
                let error_here = compared.error * compared.magnitude / here;
                // So written that a NaN is wrong.
                let is_right = error_here <= most;
                if !is_right {
                    return Checked::Wrong(format!(
                        "the error is {error_here:.1e} of {here:.1e} with {fill:?}"
                    ));
                }
                let (error, magnitude) = found.unwrap_or((0.0, 0.0));
                found = Some((error.max(error_here), magnitude.max(here)));
            }
            Err(Failure::Undefined(reason)) => {
                why = reason.lines().next().unwrap_or_default().to_owned();
            }
            Err(Failure::Wrong(reason)) => {
                let first: Vec<&str> = reason.lines().take(2).collect();
                return Checked::Wrong(first.join(" "));
            }
            Err(Failure::Refused(_)) => {}
        }
    }
    match found {
        Some((error, magnitude)) => Checked::Right { error, magnitude, races: None },
        None => Checked::NotRun(why),
    }
}
