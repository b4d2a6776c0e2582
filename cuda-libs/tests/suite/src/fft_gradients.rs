//! Gradients of transforms, against the transforms of the host, one column of their matrix after the other.

use ::tape::{Recorder, Tape};
use cuda_libs::fft::{Fft, Layout, Shape};
use cuda_libs::{Complex, tape};
use cuda_safe::{DeviceBuffer, Stream};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure};

use super::fft::{config, oracle, shape};
use super::lab::{Wide, blas, numbers};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "libs::fft_gradients",
        device(of_complex),
        device(of_real),
        device(of_half_spectra),
        device(of_a_filter),
        device(what_is_refused),
    ]
}

const DIMS: [&[usize]; 6] = [&[1], &[2], &[5], &[6], &[3, 4], &[2, 3, 5]];

/// Pairs of numbers as complex ones, and back.
fn pairs(x: &[f64]) -> Vec<Wide> {
    x.chunks(2).map(|pair| Wide::new(pair[0], pair[1])).collect()
}

fn parts(x: &[Wide]) -> Vec<f64> {
    x.iter().flat_map(|x| [x.re, x.im]).collect()
}

/// Compares the gradient of the sum of weighted outputs with the columns of the matrix, to which `transform` maps the
/// unit vectors.
fn check(
    got: &[f64],
    before: &[f64],
    weights: &[f64],
    transform: impl Fn(&[f64]) -> Result<Vec<f64>, Failure>,
) -> TestResult {
    for (at, got) in got.iter().enumerate() {
        let mut unit = vec![0.0; before.len()];
        unit[at] = 1.0;
        let column = transform(&unit)?;
        ensure!(column.len() == weights.len());
        let wanted: f64 = column.iter().zip(weights).map(|(y, w)| y * w).sum();
        ensure!((got - wanted).abs() < 1e-11, "{at}: {got} is not {wanted}");
    }
    Ok(())
}

/// Records a transform of real numbers in memory to others, and returns the gradient of the sum of weighted outputs.
fn gradient(
    stream: &Stream,
    device: &TestDevice,
    [input, weights]: [&[f64]; 2],
    run: impl FnOnce(
        &mut Recorder<'_>,
        &DeviceBuffer<f64>,
        &mut DeviceBuffer<f64>,
    ) -> cuda_libs::Result<()>,
) -> Result<Vec<f64>, Failure> {
    let blas = blas(device)?;
    let x = DeviceBuffer::from_slice(stream, input)?;
    let w = DeviceBuffer::from_slice(stream, weights)?;
    let mut y = DeviceBuffer::<f64>::zeroed(stream, weights.len())?;
    let mut loss = DeviceBuffer::<f64>::zeroed(stream, 1)?;
    let mut tape = Tape::record(stream, |t| {
        t.watch(&x)?;
        run(t, &x, &mut y)?;
        Ok(tape::dot(t, &blas, &y, &w, &mut loss)?)
    })?;
    // Twice, as the second pass replaces the first one's gradients.
    tape.backward(stream, &loss)?;
    tape.backward(stream, &loss)?;
    ensure!(x.to_vec(stream)? == input, "the input has changed");
    Ok(tape.gradient(&x)?.to_vec(stream)?)
}

fn of_complex(device: &TestDevice) -> TestResult {
    let (stream, config, blas) = (device.stream()?, config(device)?, blas(device)?);
    let mut rng = device.rng(4281);
    for dims in DIMS {
        let n = dims.iter().product::<usize>();
        let fft = Fft::<Wide, Wide>::with(device.context(), shape(dims), &config)?;
        let (x, w) = (parts(&numbers(&mut rng, n)), parts(&numbers(&mut rng, n)));
        for forward in [true, false] {
            let got = gradient(&stream, device, [&x, &w], |t, x, y| {
                let (x, y) = (x.as_slice().cast::<Wide>()?, y.as_slice_mut().cast_mut::<Wide>()?);
                match forward {
                    true => tape::fft::forward(t, &blas, &fft, x, y),
                    false => tape::fft::inverse(t, &blas, &fft, x, y),
                }
            })?;
            check(&got, &x, &w, |x| Ok(parts(&oracle(&pairs(x), dims, forward)?)))?;
        }
    }
    // Two transforms at a distance, with unused numbers between, to two that lie between each other.
    let shape = Shape::new(3)
        .batch(2)
        .input(Layout::new(4).distance(5))
        .output(Layout::new(3).stride(2).distance(1));
    let fft = Fft::<Wide, Wide>::with(device.context(), shape, &config)?;
    let (x, w) = (parts(&numbers(&mut rng, 8)), parts(&numbers(&mut rng, 6)));
    let got = gradient(&stream, device, [&x, &w], |t, x, y| {
        let (x, y) = (x.as_slice().cast::<Wide>()?, y.as_slice_mut().cast_mut::<Wide>()?);
        tape::fft::forward(t, &blas, &fft, x, y)
    })?;
    check(&got, &x, &w, |x| {
        let x = pairs(x);
        let (a, b) = (oracle(&x[..3], &[3], true)?, oracle(&x[5..], &[3], true)?);
        Ok(parts(
            &(0..6).map(|at| if at % 2 == 0 { a[at / 2] } else { b[at / 2] }).collect::<Vec<_>>(),
        ))
    })
}

fn of_real(device: &TestDevice) -> TestResult {
    let (stream, config, blas) = (device.stream()?, config(device)?, blas(device)?);
    let mut rng = device.rng(4282);
    for dims in DIMS {
        let (total, n) = (dims.iter().product::<usize>(), dims[dims.len() - 1]);
        let (batch, half) = (2, n / 2 + 1);
        let fft = Fft::<f64, Wide>::with(device.context(), shape(dims).batch(batch), &config)?;
        let x: Vec<f64> = numbers(&mut rng, batch * total);
        let w = parts(&numbers(&mut rng, batch * total / n * half));
        let got = gradient(&stream, device, [&x, &w], |t, x, y| {
            tape::fft::forward_real(t, &blas, &fft, x, y.as_slice_mut().cast_mut::<Wide>()?)
        })?;
        check(&got, &x, &w, |x| {
            let x: Vec<Wide> = x.iter().map(|x| Wide::new(*x, 0.0)).collect();
            let all = x
                .chunks(total)
                .map(|x| oracle(x, dims, true))
                .collect::<Result<Vec<_>, _>>()?
                .concat();
            Ok(parts(&all.chunks(n).flat_map(|row| row[..half].to_vec()).collect::<Vec<_>>()))
        })?;
    }
    Ok(())
}

/// The numbers of half a spectrum are taken as they are, and count once or, if they stand for their conjugates, twice.
/// Only the gradient is compared: these are not spectra of real numbers, whose transforms are specified.
fn of_half_spectra(device: &TestDevice) -> TestResult {
    let (stream, config, blas) = (device.stream()?, config(device)?, blas(device)?);
    let mut rng = device.rng(4283);
    for dims in DIMS {
        let (total, n) = (dims.iter().product::<usize>(), dims[dims.len() - 1]);
        let (batch, half) = (2, n / 2 + 1);
        let fft = Fft::<Wide, f64>::with(device.context(), shape(dims).batch(batch), &config)?;
        let x = parts(&numbers(&mut rng, batch * total / n * half));
        let w: Vec<f64> = numbers(&mut rng, batch * total);
        let got = gradient(&stream, device, [&x, &w], |t, x, y| {
            tape::fft::inverse_real(t, &blas, &fft, x.as_slice().cast::<Wide>()?, y)
        })?;
        check(&got, &x, &w, |x| {
            let twice = |k: usize| if k == 0 || 2 * k == n { 1.0 } else { 2.0 };
            let row = |row: &[Wide]| -> Vec<Wide> {
                (0..n).map(|k| row.get(k).map_or(Wide::new(0.0, 0.0), |x| x * twice(k))).collect()
            };
            let all: Vec<Wide> = pairs(x).chunks(half).flat_map(row).collect();
            let all =
                all.chunks(total).map(|x| oracle(x, dims, false)).collect::<Result<Vec<_>, _>>()?;
            Ok(all.concat().iter().map(|x| x.re).collect())
        })?;
    }
    Ok(())
}

/// To a spectrum and back in one recording, in f32: x times n.
fn of_a_filter(device: &TestDevice) -> TestResult {
    let (stream, config, blas) = (device.stream()?, config(device)?, blas(device)?);
    let n = 12;
    let there = Fft::<f32, Complex<f32>>::with(device.context(), n, &config)?;
    let back = Fft::<Complex<f32>, f32>::with(device.context(), n, &config)?;
    let x = DeviceBuffer::from_slice(&stream, &vec![0.25f32; n])?;
    let weights: Vec<f32> = numbers(&mut device.rng(4284), n);
    let w = DeviceBuffer::from_slice(&stream, &weights)?;
    let mut spectrum = DeviceBuffer::<Complex<f32>>::zeroed(&stream, n / 2 + 1)?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        tape::fft::forward_real(t, &blas, &there, &x, &mut spectrum)?;
        tape::fft::inverse_real(t, &blas, &back, &spectrum, &mut y)?;
        Ok(tape::dot(t, &blas, &y, &w, &mut loss)?)
    })?;
    tape.backward(&stream, &loss)?;
    for (got, weight) in tape.gradient(&x)?.to_vec(&stream)?.iter().zip(&weights) {
        ensure!((got - n as f32 * weight).abs() < 1e-4, "{got} is not {n} times {weight}");
    }
    Ok(())
}

fn what_is_refused(device: &TestDevice) -> TestResult {
    let (stream, config, blas) = (device.stream()?, config(device)?, blas(device)?);
    let x = DeviceBuffer::from_slice(&stream, &[1.0f64; 32])?;
    let mut y = DeviceBuffer::<f64>::zeroed(&stream, 32)?;
    let mut text = |shape: Shape, real: bool| -> Result<String, Failure> {
        let complex = Fft::<Wide, Wide>::with(device.context(), shape, &config)?;
        let half = Fft::<f64, Wide>::with(device.context(), shape, &config)?;
        let refused = Tape::record(&stream, |t| {
            t.watch(&x)?;
            let to = y.as_slice_mut().cast_mut::<Wide>()?;
            match real {
                true => tape::fft::forward_real(t, &blas, &half, &x, to)?,
                false => tape::fft::forward(t, &blas, &complex, x.as_slice().cast::<Wide>()?, to)?,
            }
            Ok(())
        });
        Ok(refused.err().map(|error| error.to_string()).unwrap_or_default())
    };
    let gaps = text(Shape::new(4).output(Layout::new(4).stride(2)), false)?;
    ensure!(gaps.contains("fft: output has gaps"), "{gaps}");
    let shared = text(Shape::new(4).batch(2).input(Layout::new(4).distance(1)), false)?;
    ensure!(shared.contains("fft: input overlaps"), "{shared}");
    let layouts = text(Shape::new(4).batch(2).padded(), true)?;
    ensure!(layouts.contains("fft: shape has layouts or padded rows"), "{layouts}");
    Ok(())
}
