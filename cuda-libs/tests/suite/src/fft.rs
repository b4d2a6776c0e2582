//! Transforms, against sums on the host and `rustfft`.

use std::f64::consts::TAU;

use cuda_libs::fft::{Config, Fft, Layout, Real, Shape};
use cuda_libs::{Complex, CufftLibrary};
use cuda_safe::DeviceBuffer;
use rustfft::{FftDirection, FftPlanner};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

use super::lab::{Number, Wide, library, library_with, numbers};
use super::refusals::refused;

pub(super) fn cases() -> Vec<Case> {
    let mut all = cases!["several::libs", several(transforms_in_other_contexts)];
    all.extend(cases![
        "libs::fft",
        device(complex_f32 = complex::<f32>),
        device(complex_f64 = complex::<f64>),
        device(real_f32 = real::<f32>),
        device(real_f64 = real::<f64>),
        device(lengths),
        device(interleaved),
        device(shapes),
        device(memory),
        device(missing_functions),
    ]);
    all
}

pub(crate) fn config(device: &TestDevice) -> Result<Config, Failure> {
    Ok(Config::new().library(library(device)?))
}

/// Transforms lines by the sum that defines it, if they are short, and by `rustfft`, which must agree.
pub(crate) fn oracle(x: &[Wide], dims: &[usize], forward: bool) -> Result<Vec<Wide>, Failure> {
    let (sign, direction) =
        if forward { (-1.0, FftDirection::Forward) } else { (1.0, FftDirection::Inverse) };
    let mut x = x.to_vec();
    let mut stride = 1;
    for &n in dims.iter().rev() {
        let plan = FftPlanner::new().plan_fft(n, direction);
        for start in (0..x.len()).filter(|at| at / stride % n == 0) {
            let mut line: Vec<Wide> = (0..n).map(|j| x[start + j * stride]).collect();
            let before = line.clone();
            plan.process(&mut line);
            for (k, got) in line.iter().enumerate().filter(|_| n < 300) {
                let root =
                    |j: usize| Wide::from_polar(1.0, sign * TAU * (j * k % n) as f64 / n as f64);
                let sum: Wide = before.iter().enumerate().map(|(j, x)| x * root(j)).sum();
                ensure!((sum - got).norm() < 1e-11 * n as f64, "rustfft {n}: {got} is not {sum}");
            }
            line.iter().enumerate().for_each(|(j, value)| x[start + j * stride] = *value);
        }
        stride *= n;
    }
    Ok(x)
}

/// Where the numbers of a batch of transforms lie.
struct Places {
    counts: Vec<usize>,
    memory: Vec<usize>,
    stride: usize,
    distance: usize,
    batch: usize,
}

impl Places {
    fn new(rng: &mut Rng, counts: &[usize], batch: usize) -> Self {
        let memory: Vec<usize> = counts.iter().map(|count| count + rng.below(3)).collect();
        let stride = 1 + rng.below(3);
        let distance = memory.iter().product::<usize>() * stride + rng.below(4);
        Self { counts: counts.to_vec(), memory, stride, distance, batch }
    }

    fn layout(&self) -> Layout {
        let layout = match self.memory[..] {
            [x] => Layout::new(x),
            [x, y] => Layout::new([x, y]),
            [x, y, z] => Layout::new([x, y, z]),
            _ => unreachable!("three dimensions at most"),
        };
        layout.stride(self.stride).distance(self.distance)
    }

    /// Returns the index of each number, transform by transform.
    fn indices(&self) -> Vec<usize> {
        let total: usize = self.counts.iter().product();
        let of = |batch: usize, mut at: usize| {
            let (mut index, mut step) = (batch * self.distance, self.stride);
            for (count, memory) in self.counts.iter().zip(&self.memory).rev() {
                index += at % count * step;
                (at, step) = (at / count, step * memory);
            }
            index
        };
        (0..self.batch)
            .flat_map(|batch| (0..total).map(move |at| (batch, at)))
            .map(|(b, at)| of(b, at))
            .collect()
    }

    fn len(&self) -> usize {
        self.indices().iter().max().map_or(0, |last| last + 1)
    }
}

pub(crate) fn shape(dims: &[usize]) -> Shape {
    match *dims {
        [x] => Shape::new(x),
        [x, y] => Shape::new([x, y]),
        [x, y, z] => Shape::new([x, y, z]),
        _ => unreachable!("three dimensions at most"),
    }
}

/// Compares the numbers at some indices; all others must be as before.
fn check<T: Number>(
    got: &[T],
    before: &[T],
    indices: &[usize],
    wanted: &[Wide],
    what: &str,
) -> TestResult {
    ensure_eq!(indices.len(), wanted.len());
    let size = wanted.iter().map(|x| x.norm()).fold(1.0, f64::max);
    let tolerance = 30.0 * T::EPSILON * size;
    let mut others = before.to_vec();
    for (index, wanted) in indices.iter().zip(wanted) {
        let off = (got[*index].wide() - wanted).norm();
        ensure!(off <= tolerance, "{what}: {:?} at {index} is not {wanted}", got[*index]);
        others[*index] = got[*index];
    }
    ensure!(others == got, "{what}: other elements have changed");
    Ok(())
}

fn each<'a>(x: &'a [Wide], dims: &'a [usize], forward: bool) -> Result<Vec<Wide>, Failure> {
    let transforms = x.chunks(dims.iter().product());
    Ok(transforms.map(|x| oracle(x, dims, forward)).collect::<Result<Vec<_>, _>>()?.concat())
}

fn complex<R: Number + Real>(device: &TestDevice) -> TestResult
where
    Complex<R>: Number,
{
    let (stream, config) = (device.stream()?, config(device)?);
    let mut rng = device.rng(4261);
    let some = 2 + rng.below(60);
    let dims: [&[usize]; 10] =
        [&[1], &[2], &[31], &[32], &[33], &[some], &[3, 4], &[8, 5], &[2, 3, 4], &[3, 1, 7]];
    for (at, dims) in dims.into_iter().enumerate() {
        let batch = 1 + at % 3;
        let (from, to) = (Places::new(&mut rng, dims, batch), Places::new(&mut rng, dims, batch));
        let shape = shape(dims).batch(batch).input(from.layout());
        let fft = Fft::<Complex<R>, Complex<R>>::with(
            device.context(),
            shape.output(to.layout()),
            &config,
        )?;
        ensure_eq!((fft.input_len(), fft.output_len()), (from.len(), to.len()));
        let (hx, hy) =
            (numbers::<Complex<R>>(&mut rng, from.len()), numbers(&mut rng, to.len() + 2));
        let x = DeviceBuffer::from_slice(&stream, &hx)?;
        let own = Fft::<Complex<R>, Complex<R>>::with(
            device.context(),
            shape.output(from.layout()),
            &config,
        )?;
        let values: Vec<Wide> = from.indices().iter().map(|index| hx[*index].wide()).collect();
        for forward in [true, false] {
            let mut y = DeviceBuffer::from_slice(&stream, &hy)?;
            let mut z = DeviceBuffer::from_slice(&stream, &hx)?;
            if forward {
                fft.forward(&stream, &x, &mut y)?;
                own.forward_in_place(&stream, &mut z)?;
            } else {
                fft.inverse(&stream, &x, &mut y)?;
                own.inverse_in_place(&stream, &mut z)?;
            }
            let wanted = each(&values, dims, forward)?;
            check(
                &y.to_vec(&stream)?,
                &hy,
                &to.indices(),
                &wanted,
                &format!("{dims:?} {forward}"),
            )?;
            check(
                &z.to_vec(&stream)?,
                &hx,
                &from.indices(),
                &wanted,
                &format!("{dims:?} in place"),
            )?;
        }
        ensure!(x.to_vec(&stream)? == hx, "the input has changed");
    }
    Ok(())
}

fn real<R: Number + Real>(device: &TestDevice) -> TestResult
where
    Complex<R>: Number,
{
    let (stream, config) = (device.stream()?, config(device)?);
    let mut rng = device.rng(4262);
    let dims: [&[usize]; 9] =
        [&[1], &[2], &[31], &[32], &[33], &[4, 6], &[5, 3], &[2, 3, 4], &[3, 2, 5]];
    for (at, dims) in dims.into_iter().enumerate() {
        let (batch, n) = (1 + at % 3, dims[dims.len() - 1]);
        let mut half = dims.to_vec();
        half[dims.len() - 1] = n / 2 + 1;
        let (from, to) = (Places::new(&mut rng, dims, batch), Places::new(&mut rng, &half, batch));
        let plain = shape(dims).batch(batch);
        let there = plain.input(from.layout()).output(to.layout());
        let back = plain.input(to.layout()).output(from.layout());
        let forward = Fft::<R, Complex<R>>::with(device.context(), there, &config)?;
        let inverse = Fft::<Complex<R>, R>::with(device.context(), back, &config)?;
        let (hx, hy) =
            (numbers::<R>(&mut rng, from.len()), numbers::<Complex<R>>(&mut rng, to.len()));
        let x = DeviceBuffer::from_slice(&stream, &hx)?;
        let mut y = DeviceBuffer::from_slice(&stream, &hy)?;
        let mut z = DeviceBuffer::from_slice(&stream, &hx)?;
        forward.forward(&stream, &x, &mut y)?;
        let values: Vec<Wide> = from.indices().iter().map(|index| hx[*index].wide()).collect();
        let all = each(&values, dims, true)?;
        let spectrum: Vec<Wide> = all.chunks(n).flat_map(|row| row[..n / 2 + 1].to_vec()).collect();
        check(&y.to_vec(&stream)?, &hy, &to.indices(), &spectrum, &format!("{dims:?} to half"))?;
        inverse.inverse(&stream, &mut y, &mut z)?;
        let factor = dims.iter().product::<usize>() as f64;
        let scaled: Vec<Wide> = values.iter().map(|x| x * factor).collect();
        check(&z.to_vec(&stream)?, &hx, &from.indices(), &scaled, &format!("{dims:?} to real"))?;
        ensure!(x.to_vec(&stream)? == hx, "the input has changed");

        // In place, each row of real numbers has the memory of its half spectrum.
        let width = n / 2 + 1;
        let forward = Fft::<R, Complex<R>>::with(device.context(), plain.padded(), &config)?;
        let inverse = Fft::<Complex<R>, R>::with(device.context(), plain.padded(), &config)?;
        // The last numbers belong to no row.
        let mut rows = numbers::<Complex<R>>(&mut rng, spectrum.len() + 2);
        for (at, x) in values.iter().enumerate() {
            let (row, col) = (at / n, at % n);
            let pair = &mut rows[row * width + col / 2];
            if col % 2 == 0 { pair.re = R::of(*x) } else { pair.im = R::of(*x) }
        }
        let mut data = DeviceBuffer::from_slice(&stream, &rows)?;
        forward.forward_in_place(&stream, &mut data)?;
        let every: Vec<usize> = (0..spectrum.len()).collect();
        check(&data.to_vec(&stream)?, &rows, &every, &spectrum, &format!("{dims:?} in place"))?;
        inverse.inverse_in_place(&stream, &mut data)?;
        let got = data.as_slice().cast::<R>()?.to_vec(&stream)?;
        let indices: Vec<usize> = (0..values.len()).map(|at| at / n * 2 * width + at % n).collect();
        // The padding has unspecified numbers.
        let mut before = got.clone();
        for (pair, x) in before.chunks_mut(2).zip(&rows).skip(spectrum.len()) {
            pair.copy_from_slice(&[x.re, x.im]);
        }
        check(&got, &before, &indices, &scaled, &format!("{dims:?} back in place"))?;
    }
    Ok(())
}

/// A large prime, and a length that takes many passes.
fn lengths(device: &TestDevice) -> TestResult {
    let (stream, config) = (device.stream()?, config(device)?);
    let mut rng = device.rng(4263);
    for n in [257, 1009, 1 << 14] {
        let host: Vec<Wide> = numbers(&mut rng, n);
        let mut data = DeviceBuffer::from_slice(&stream, &host)?;
        let fft = Fft::<Wide, Wide>::with(device.context(), n, &config)?;
        fft.forward_in_place(&stream, &mut data)?;
        let every: Vec<usize> = (0..n).collect();
        check(&data.to_vec(&stream)?, &host, &every, &oracle(&host, &[n], true)?, &format!("{n}"))?;
    }
    Ok(())
}

/// Transforms of a batch that lie between each other.
fn interleaved(device: &TestDevice) -> TestResult {
    let (stream, config) = (device.stream()?, config(device)?);
    let (n, batch) = (12, 5);
    let places = Places { counts: vec![n], memory: vec![n], stride: batch, distance: 1, batch };
    let host: Vec<Wide> = numbers(&mut device.rng(4264), n * batch);
    let values: Vec<Wide> = places.indices().iter().map(|index| host[*index]).collect();
    let shape = Shape::new(n).batch(batch).input(places.layout()).output(places.layout());
    let fft = Fft::<Wide, Wide>::with(device.context(), shape, &config)?;
    let mut data = DeviceBuffer::from_slice(&stream, &host)?;
    fft.inverse_in_place(&stream, &mut data)?;
    let wanted = each(&values, &[n], false)?;
    check(&data.to_vec(&stream)?, &host, &places.indices(), &wanted, "interleaved")
}

fn shapes(device: &TestDevice) -> TestResult {
    let config = config(device)?;
    let plan =
        |shape: Shape| Fft::<Complex<f32>, Complex<f32>>::with(device.context(), shape, &config);
    refused(plan(0.into()), "fft: shape has a length of 0 in dimension 0")?;
    refused(plan([3, 4, 0].into()), "fft: shape has a length of 0 in dimension 2")?;
    refused(plan(Shape::new(3).batch(0)), "fft: shape has a batch of 0 transforms")?;
    refused(
        plan(Shape::new(usize::MAX)),
        "fft: shape has a length of 18446744073709551615, which is above 2^63",
    )?;
    refused(plan(Shape::new([1 << 31, 1 << 31, 4])), "fft: input has more than 2^63 bytes")?;
    let longest = Shape::new(i64::MAX as usize).padded();
    let longest = Fft::<f32, Complex<f32>>::with(device.context(), longest, &config);
    refused(longest, "fft: input has more than 2^63 bytes")?;
    let layout = |layout: Layout| plan(Shape::new([3, 5]).batch(2).output(layout));
    refused(
        layout(Layout::new(15)),
        "fft: output has memory of 1 dimensions, but the transform has 2",
    )?;
    refused(
        layout(Layout::new([3, 4])),
        "fft: output has memory of 4 elements in dimension 1, fewer than the 5 of the transform",
    )?;
    refused(layout(Layout::new([3, 5]).stride(0)), "fft: output has a stride of 0")?;
    let overlap =
        "fft: output overlaps: elements at a distance of 14 lie within others, which reach 14";
    refused(layout(Layout::new([3, 5]).distance(14)), overlap)?;
    // Transforms that are read may overlap, unless they are half spectra, which are overwritten.
    let shared = Shape::new([3, 5]).batch(2).input(Layout::new([3, 5]).distance(1));
    ensure!(plan(shared).is_ok());
    let half = Fft::<Complex<f64>, f64>::with(device.context(), shared, &config);
    refused(
        half,
        "fft: input overlaps: elements at a distance of 1 lie within others, which reach 1",
    )?;
    // More memory than there is: cuFFT may make the plan, since it allocates nothing.
    let huge = Fft::<Wide, Wide>::with(device.context(), Shape::new(1 << 40).batch(16), &config);
    if let Err(error) = huge {
        let text = error.to_string();
        ensure!(text.starts_with("fft: ") && text.contains("CUFFT_"), "{text}");
        ensure!(text.ends_with("of 16 transforms of length 1099511627776"), "{text}");
    }
    Ok(())
}

fn memory(device: &TestDevice) -> TestResult {
    let (stream, config, context) = (device.stream()?, config(device)?, device.context());
    let x = DeviceBuffer::from_slice(&stream, &[1.0f32; 12])?;
    let mut y = DeviceBuffer::<Complex<f32>>::zeroed(&stream, 5)?;
    let fft = Fft::<f32, Complex<f32>>::with(context, 8, &config)?;
    let short = "forward: input has 7 elements, but the plan needs 8";
    refused(fft.forward(&stream, x.slice(..7)?, &mut y), short)?;
    let short = "forward: output has 4 elements, but the plan needs 5";
    refused(fft.forward(&stream, &x, y.slice_mut(..4)?), short)?;
    let message = "lies at an address that is no multiple of a complex number's size";
    refused(fft.forward(&stream, x.slice(1..9)?, &mut y), &format!("forward: input {message}"))?;
    let short = "forward_in_place: data has 4 elements, but the plan needs 5";
    refused(fft.forward_in_place(&stream, y.slice_mut(..4)?), short)?;
    let many = Fft::<f32, Complex<f32>>::with(context, Shape::new(8).batch(2), &config)?;
    refused(
        many.forward_in_place(&stream, &mut y),
        "forward_in_place: input has rows of real numbers that do not lie where their half spectra do: use `Shape::padded`",
    )?;
    let apart = Shape::new(4).output(Layout::new(4).stride(2));
    let apart = Fft::<Complex<f32>, Complex<f32>>::with(context, apart, &config)?;
    let other = "inverse_in_place: input has another layout than the output";
    refused(apart.inverse_in_place(&stream, &mut y), other)?;
    // Nothing was enqueued, and everything works.
    ensure_eq!(y.to_vec(&stream)?, [Complex::default(); 5]);
    fft.forward(&stream, x.slice(2..10)?, &mut y)?;
    ensure_eq!(y.to_vec(&stream)?[0], Complex::new(8.0, 0.0));
    Ok(())
}

fn missing_functions(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let without = |missing: &std::ffi::CStr| -> cuda_libs::Result<CufftLibrary> {
        // SAFETY: there is no function.
        unsafe { library_with(device, missing, std::ptr::null()) }
    };
    let plan = |library| {
        Fft::<f32, Complex<f32>>::with(device.context(), 8, &Config::new().library(library))
    };
    refused(
        plan(without(c"cufftMakePlanMany64")?),
        "fft: this cuFFT 12.4.0 has no cufftMakePlanMany64, which came with an earlier cuFFT",
    )?;
    let x = DeviceBuffer::from_slice(&stream, &[1.0f32; 8])?;
    let mut y = DeviceBuffer::<Complex<f32>>::zeroed(&stream, 5)?;
    refused(
        plan(without(c"cufftExecR2C")?)?.forward(&stream, &x, &mut y),
        "forward: this cuFFT 12.4.0 has no cufftExecR2C, which came with an earlier cuFFT",
    )?;
    refused(
        without(c"cufftGetProperty"),
        "cuFFT in a resolver can't be used: it reports no version",
    )
}

fn transforms_in_other_contexts(device: &TestDevice) -> TestResult {
    let (stream, config) = (device.stream()?, config(device)?);
    let all = device.all_contexts()?;
    let other = all.get(1).ok_or_else(|| Failure::new("there is one device"))?;
    let fft = Fft::<Wide, Wide>::with(device.context(), 4, &config)?;
    let there = other.stream()?;
    let far = DeviceBuffer::<Wide>::zeroed(&there, 4)?;
    let mut near = DeviceBuffer::<Wide>::zeroed(&stream, 4)?;
    let message = "forward: stream belongs to another context than the `Fft`";
    refused(
        fft.forward_in_place(&there, &mut near),
        &message.replace("forward", "forward_in_place"),
    )?;
    refused(
        fft.forward(&stream, &far, &mut near),
        "forward: input lies in memory of another context than that of the `Fft`",
    )
}
