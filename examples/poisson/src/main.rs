//! Solves Poisson's equation -Δu = f on a periodic square by Fourier transforms: cuFFT to the spectrum and back, and a
//! kernel in Rust between them, in one graph. The solution is known, and compared. `poisson [n]`

use std::error::Error;
use std::f64::consts::TAU;
use std::path::Path;

use cuda_libs::Complex;
use cuda_libs::fft::{Config, Fft};
use cuda_safe::DeviceBuffer;
use cuda_safe::kernel::{attributes, kernel};
use example_common::{context, libraries, save, time};

/// The largest error of u, which is as large as 7.
const ERROR: f64 = 1e-11;

/// Divides each frequency of half a spectrum of n x n numbers by the square of its wave vector, and by the n² of the
/// unscaled transforms. The mean of u, which the equation leaves open, becomes 0.
#[kernel]
fn divide(n: usize, spectrum: &mut [[f64; 2]]) {
    assert!(n > 0 && spectrum.len() == n * (n / 2 + 1));
    each(spectrum, |i, value| {
        let half = n / 2 + 1;
        let (row, column) = (i / half, i % half);
        let y = if row < half { row } else { n - row } as f64;
        let x = column as f64;
        let square = (x * x + y * y) * (n * n) as f64;
        let factor = if square == 0.0 { 0.0 } else { 1.0 / square };
        *value = [value[0] * factor, value[1] * factor];
    });
}

/// u before its mean is taken away, and f.
fn known(x: f64, y: f64) -> [f64; 2] {
    let u = (x.sin() + (2.0 * y).sin()).exp();
    let first = x.cos().powi(2) + 4.0 * (2.0 * y).cos().powi(2);
    let second = -x.sin() - 4.0 * (2.0 * y).sin();
    [u, -(first + second) * u]
}

fn main() -> Result<(), Box<dyn Error>> {
    let context = context();
    let device = context.device().name()?;
    let software = device.contains("software");
    let given = std::env::args().nth(1).map(|text| text.parse::<usize>()).transpose()?;
    let n = given.unwrap_or(if software { 64 } else { 1024 }).max(32);
    let config = Config::new().library(libraries::library(&context)?);
    println!("{device}: {n} x {n} points");

    let at = |i: usize| [i % n, i / n].map(|i| TAU * i as f64 / n as f64);
    let (u, f): (Vec<_>, Vec<_>) = (0..n * n).map(|i| known(at(i)[0], at(i)[1]).into()).unzip();
    let mean = u.iter().sum::<f64>() / u.len() as f64;

    let stream = context.stream()?;
    let forward = Fft::<f64, Complex<f64>>::with(&context, [n, n], &config)?;
    let inverse = Fft::<Complex<f64>, f64>::with(&context, [n, n], &config)?;
    // A capture can't load kernels.
    attributes(&stream, divide::kernel())?;
    let spectrum = DeviceBuffer::<Complex<f64>>::zeroed(&stream, forward.output_len())?;
    let state =
        (DeviceBuffer::from_slice(&stream, &f)?, spectrum, DeviceBuffer::zeroed(&stream, n * n)?);
    let mut solve = context.capture(state, |stream, (f, spectrum, u)| {
        forward.forward(stream, &*f, &mut *spectrum)?;
        divide::launch(stream, n, spectrum.as_slice_mut().cast_mut::<[f64; 2]>()?)?;
        Ok(inverse.inverse(stream, spectrum, u)?)
    })?;
    let (milliseconds, ()) =
        time(&stream, if software { 1 } else { 20 }, || solve.launch(&stream))?;
    if !software {
        println!("{:.0} µs for a solution", 1e3 * milliseconds);
    }

    let found = solve.state().2.to_vec(&stream)?;
    let error =
        found.iter().zip(&u).map(|(found, u)| (found - (u - mean)).abs()).fold(0.0, f64::max);
    println!("the largest error is {error:.1e}");
    draw(n, [&f, &found])?;
    // NaN is refused.
    if error <= ERROR { Ok(()) } else { Err(format!("the error is above {ERROR:e}").into()) }
}

/// Draws f and u side by side: blue below 0, red above, white at 0.
fn draw(n: usize, fields: [&[f64]; 2]) -> Result<(), Box<dyn Error>> {
    const SIDE: usize = 480;
    let most = fields.map(|field| field.iter().fold(0.0f64, |most, x| most.max(x.abs())));
    let mut pixels = Vec::with_capacity(2 * SIDE * SIDE * 3);
    for (row, column) in (0..SIDE).flat_map(|row| (0..2 * SIDE).map(move |column| (row, column))) {
        let which = column / SIDE;
        let value = fields[which][row * n / SIDE * n + column % SIDE * n / SIDE] / most[which];
        let rest = (255.0 * (1.0 - value.abs())) as u8;
        pixels.extend(if value < 0.0 { [rest, rest, 255] } else { [255, rest, rest] });
    }
    save(Path::new("target/poisson/poisson.png"), [2 * SIDE as u32, SIDE as u32], &pixels)
}
