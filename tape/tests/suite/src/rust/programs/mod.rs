//! Programs as users of Warp and PyTorch bring them, in the language of kernels: gradients by differences.

use std::ops::Range;

use bytemuck::Pod;
use cuda_safe::{DeviceBuffer, DeviceSlice, DeviceSliceMut, Error, Result};
use gpu_phases::kernel::CpuError;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure};

use tape::Tape;

use super::outputs::line_of;
use super::{Function, Indices, agrees, none, random};

/// The programs for a type of numbers.
macro_rules! numbers {
    ($($name:ident $f:ident)+) => {$(
        #[allow(dead_code, reason = "the functions of kernels that one of the types does not need")]
        pub(super) mod $name {
            use std::ops::{Add, Sub};

            use cuda_safe::kernel::{Device, PerThread, device, kernel};

            type F = $f;
            include!("elements.rs");
            include!("blocks.rs");
        }
    )+};
}

numbers!(narrow f32 wide f64);

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::rust",
        device(of_cloth),
        device(of_smoothed_particles),
        device(of_splats),
        device(of_a_cell_with_memory),
        device(of_splines),
        device(of_rays_through_a_field),
        device(of_implicit_steps),
        device(of_rigid_bodies),
        device(of_softmax),
        device(of_layer_norm),
        device(of_a_network_in_shared_memory),
        device(of_attention),
        device(of_tridiagonal_systems),
    ]
}

/// Numbers to read, on the host or a device.
trait View: Copy {
    type Part;
    type Threes;
    type Fours;
    type Error;
    fn part(self, at: Range<usize>) -> std::result::Result<Self::Part, Self::Error>;
    fn threes(self, at: Range<usize>) -> std::result::Result<Self::Threes, Self::Error>;
    fn fours(self, at: Range<usize>) -> std::result::Result<Self::Fours, Self::Error>;
}

impl<'a> View for &'a [f64] {
    type Part = &'a [f64];
    type Threes = &'a [[f64; 3]];
    type Fours = &'a [[f64; 4]];
    type Error = CpuError;

    fn part(self, at: Range<usize>) -> std::result::Result<Self::Part, CpuError> {
        Ok(&self[at])
    }

    fn threes(self, at: Range<usize>) -> std::result::Result<Self::Threes, CpuError> {
        Ok(self[at].as_chunks().0)
    }

    fn fours(self, at: Range<usize>) -> std::result::Result<Self::Fours, CpuError> {
        Ok(self[at].as_chunks().0)
    }
}

impl<'a, T: Pod> View for &'a DeviceBuffer<T> {
    type Part = DeviceSlice<'a, T>;
    type Threes = DeviceSlice<'a, [T; 3]>;
    type Fours = DeviceSlice<'a, [T; 4]>;
    type Error = Error;

    fn part(self, at: Range<usize>) -> Result<Self::Part> {
        self.slice(at)
    }

    fn threes(self, at: Range<usize>) -> Result<Self::Threes> {
        self.slice(at)?.cast()
    }

    fn fours(self, at: Range<usize>) -> Result<Self::Fours> {
        self.slice(at)?.cast()
    }
}

/// Numbers to write, on the host or a device.
trait Written {
    type Part<'a>
    where
        Self: 'a;
    type Threes<'a>
    where
        Self: 'a;
    type Fours<'a>
    where
        Self: 'a;
    type Error;
    fn halves(&mut self) -> std::result::Result<(Self::Part<'_>, Self::Part<'_>), Self::Error>;
    fn all_threes(&mut self) -> std::result::Result<Self::Threes<'_>, Self::Error>;
    fn all_fours(&mut self) -> std::result::Result<Self::Fours<'_>, Self::Error>;
}

impl Written for [f64] {
    type Part<'a> = &'a mut [f64];
    type Threes<'a> = &'a mut [[f64; 3]];
    type Fours<'a> = &'a mut [[f64; 4]];
    type Error = CpuError;

    fn halves(&mut self) -> std::result::Result<(Self::Part<'_>, Self::Part<'_>), CpuError> {
        Ok(self.split_at_mut(self.len() / 2))
    }

    fn all_threes(&mut self) -> std::result::Result<Self::Threes<'_>, CpuError> {
        Ok(self.as_chunks_mut().0)
    }

    fn all_fours(&mut self) -> std::result::Result<Self::Fours<'_>, CpuError> {
        Ok(self.as_chunks_mut().0)
    }
}

impl<T: Pod> Written for DeviceBuffer<T> {
    type Part<'a> = DeviceSliceMut<'a, T>;
    type Threes<'a> = DeviceSliceMut<'a, [T; 3]>;
    type Fours<'a> = DeviceSliceMut<'a, [T; 4]>;
    type Error = Error;

    fn halves(&mut self) -> Result<(Self::Part<'_>, Self::Part<'_>)> {
        let middle = self.len() / 2;
        self.split_at_mut(middle)
    }

    fn all_threes(&mut self) -> Result<Self::Threes<'_>> {
        self.slice_mut(..)?.cast_mut()
    }

    fn all_fours(&mut self) -> Result<Self::Fours<'_>> {
        self.slice_mut(..)?.cast_mut()
    }
}

/// The function of `x` that a call of a program is. `of` converts a constant to the type of its numbers.
macro_rules! program {
    (|$x:ident, $out:ident, $at:ident, $of:ident| $kernel:ident($($arg:expr),* $(,)?) $(with $parts:pat = $from:expr)?) => {
        Function {
            name: stringify!($kernel),
            cpu: Box::new(move |$x, $out, $at| {
                let $of = |value: f64| value;
                let _ = ($at, $of);
                $(let $parts = $from;)?
                wide::$kernel::cpu($($arg),*)
            }),
            wide: Box::new(move |t, $x, $out, $at| {
                let $of = |value: f64| value;
                let _ = ($at, $of);
                $(let $parts = $from;)?
                wide::$kernel::record(t, $($arg),*)
            }),
            narrow: Box::new(move |t, $x, $out, $at| {
                let $of = |value: f64| value as f32;
                let _ = ($at, $of);
                $(let $parts = $from;)?
                narrow::$kernel::record(t, $($arg),*)
            }),
        }
    };
}

/// Returns numbers from `from` to `to`.
fn between(rng: &mut Rng, from: f64, to: f64, n: usize) -> Vec<f64> {
    (0..n).map(|_| from + (to - from) * f64::from(0.5 * rng.float() + 0.5)).collect()
}

/// Lists of all others of `n`, of which each fourth is left out, and itself.
fn lists(n: usize) -> Indices<Vec<u32>> {
    let (mut first, mut second) = (vec![0], Vec::new());
    for i in 0..n {
        second.extend((0..n).filter(|j| (i + 3 * j) % 4 != 1).map(|j| j as u32));
        first.push(second.len() as u32);
    }
    Indices { first, second }
}

fn of_cloth(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(331));
    let n = 7;
    let at = lists(n);
    let springs = at.second.len();
    let cloth = program!(|x, out, at, of| cloth(
        of(0.01),
        &at.first,
        &at.second,
        x.part(6 * n..6 * n + springs)?,
        x.threes(0..3 * n)?,
        x.threes(3 * n..6 * n)?,
        out.all_threes()?,
    ));
    for _ in 0..3 {
        let mut x = between(&mut rng, -1.2, 1.2, 3 * n);
        x.extend(between(&mut rng, -3.0, 3.0, 3 * n));
        x.extend(between(&mut rng, 0.3, 1.0, springs));
        agrees(&stream, &cloth, &x, 3 * n, &at)?;
    }
    Ok(())
}

fn of_smoothed_particles(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(332));
    let n = 9;
    let at = lists(n);
    let density = program!(|x, out, at, of| density(
        of(1.5),
        &at.first,
        &at.second,
        x.threes(0..3 * n)?,
        x.part(3 * n..4 * n)?,
        out,
    ));
    let pressure = program!(|x, out, at, of| pressure(
        of(1.5),
        &at.first,
        &at.second,
        x.threes(0..3 * n)?,
        x.part(3 * n..4 * n)?,
        out.all_threes()?,
    ));
    let mut x = between(&mut rng, -0.8, 0.8, 3 * n);
    x.extend(between(&mut rng, 1.2, 1.8, n));
    agrees(&stream, &density, &x, n, &at)?;
    agrees(&stream, &pressure, &x, 3 * n, &at)
}

fn of_splats(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(333));
    let (count, width, height) = (8, 6, 4);
    let mut x = Vec::new();
    for _ in 0..count {
        x.extend(between(&mut rng, 0.0, 6.0, 2));
        x.extend(between(&mut rng, 0.2, 0.6, 1));
        x.extend(between(&mut rng, -0.1, 0.1, 1));
        x.extend(between(&mut rng, 0.2, 0.6, 1));
        x.extend(between(&mut rng, 0.5, 1.2, 1));
        x.extend(between(&mut rng, 0.0, 1.0, 3));
    }
    let mut order: Vec<u32> = (0..count as u32).collect();
    order.reverse();
    let at = Indices { first: order, second: vec![0] };
    let splat = program!(|x, out, at, of| splat(width, &at.first, x, out.all_threes()?));
    agrees(&stream, &splat, &x, 3 * width * height, &at)
}

fn of_a_cell_with_memory(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(334));
    let (inputs, units, samples) = (3, 4, 2);
    let weights = 4 * units * (inputs + units + 1);
    let (hidden, cells) = (weights + samples * inputs, weights + samples * (inputs + units));
    let end = cells + samples * units;
    let lstm = program!(|x, out, at, of| lstm(
        inputs,
        units,
        x.part(0..weights)?,
        x.part(weights..hidden)?,
        x.part(hidden..cells)?,
        x.part(cells..end)?,
        next,
        cell,
    ) with (next, cell) = out.halves()?);
    agrees(&stream, &lstm, &random(&mut rng, end), 2 * samples * units, &none())
}

fn of_splines(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(335));
    for knots in [2, 3, 12] {
        let spline = program!(|x, out, at, of| spline(
            x.part(0..knots)?,
            x.part(knots..2 * knots)?,
            x.part(2 * knots..2 * knots + 20)?,
            out,
        ));
        let mut x: Vec<f64> = (0..knots).map(|k| k as f64 + 0.3 * f64::from(rng.float())).collect();
        x.extend(random(&mut rng, knots));
        x.extend(between(&mut rng, -0.5, knots as f64 - 0.5, 20));
        agrees(&stream, &spline, &x, 20, &none())?;
    }
    Ok(())
}

fn of_rays_through_a_field(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(336));
    let (size, rays) = (4, 6);
    let field = size * size * size;
    let march = program!(|x, out, at, of| march(
        size,
        x.part(0..field)?,
        x.part(field..field + 2 * rays)?,
        out,
    ));
    let mut x = between(&mut rng, -0.5, 2.0, field);
    x.extend(between(&mut rng, -0.4, 0.4, 2 * rays));
    agrees(&stream, &march, &x, rays, &none())
}

fn of_implicit_steps(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(337));
    let n = 6;
    let implicit = program!(|x, out, at, of| implicit(
        of(0.3),
        of(0.1),
        5,
        x.part(0..n)?,
        x.part(n..2 * n)?,
        out,
    ));
    agrees(&stream, &implicit, &random(&mut rng, 2 * n), n, &none())
}

fn of_rigid_bodies(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(338));
    let n = 3;
    let tumble = program!(|x, out, at, of| tumble(
        of(0.05),
        6,
        x.threes(0..3 * n)?,
        x.threes(3 * n..6 * n)?,
        out.all_fours()?,
    ));
    let mut x = between(&mut rng, 0.5, 2.0, 3 * n);
    x.extend(random(&mut rng, 3 * n));
    agrees(&stream, &tumble, &x, 4 * n, &none())
}

fn of_softmax(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(339));
    for (rows, columns) in [(1, 1), (2, 7), (1, 70)] {
        let n = rows * columns;
        let softmax = program!(|x, out, at, of| softmax(columns, x, out));
        agrees(&stream, &softmax, &random(&mut rng, n), n, &none())?;
        let by_warps = program!(|x, out, at, of| softmax_by_warps(columns, x, out));
        agrees(&stream, &by_warps, &random(&mut rng, n), n, &none())?;
    }
    // A length of shared memory that comes with the launch.
    let x = DeviceBuffer::from_slice(&stream, &[1.0f32, 2.0])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 2)?;
    let recorded = Tape::record(&stream, |t| {
        t.watch(&x)?;
        narrow::softmax_in_slices::record(t, 2, &x, &mut out)
    });
    let place = line_of(include_str!("blocks.rs"), "programs/blocks.rs", "softmax_in_slices");
    let Err(error) = recorded else { return Err(Failure::new("`softmax_in_slices` is recorded")) };
    let message = error.to_string();
    let mut lines: Vec<&str> = message.lines().skip(1).collect();
    let only = lines.iter().all(|line| line.contains("comes with the launch"));
    ensure!(only && message.contains(&place) && message.contains("`block.shared`"), "{message}");
    let all = lines.len();
    lines.dedup();
    ensure!(lines.len() == all, "a line is twice in {message}");
    Ok(())
}

fn of_layer_norm(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(340));
    for (rows, columns) in [(2, 5), (1, 100)] {
        let n = rows * columns;
        let end = n + columns;
        let layer_norm = program!(|x, out, at, of| layer_norm(
            columns,
            x.part(0..n)?,
            x.part(n..end)?,
            x.part(end..end + columns)?,
            out,
        ));
        let x = random(&mut rng, end + columns);
        agrees(&stream, &layer_norm, &x, n, &none())?;
        let by_warps = program!(|x, out, at, of| layer_norm_by_warps(
            columns,
            x.part(0..n)?,
            x.part(n..end)?,
            x.part(end..end + columns)?,
            out,
        ));
        agrees(&stream, &by_warps, &x, n, &none())?;
    }
    Ok(())
}

fn of_a_network_in_shared_memory(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(341));
    let samples = 35;
    let network = program!(|x, out, at, of| perceptron(
        x.part(0..161)?,
        x.part(161..161 + 8 * samples)?,
        out,
    ));
    agrees(&stream, &network, &random(&mut rng, 161 + 8 * samples), samples, &none())
}

fn of_attention(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(342));
    for n in [1, 20] {
        let attention = program!(|x, out, at, of| attention(
            n,
            x.part(0..4 * n)?,
            x.part(4 * n..8 * n)?,
            x.part(8 * n..12 * n)?,
            out,
        ));
        agrees(&stream, &attention, &random(&mut rng, 12 * n), 4 * n, &none())?;
    }
    Ok(())
}

fn of_tridiagonal_systems(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(343));
    let n = 36;
    let tridiagonal = program!(|x, out, at, of| tridiagonal(x.fours(0..4 * n)?, out));
    let mut x = random(&mut rng, 4 * n);
    for row in x.chunks_mut(4) {
        row[1] += 6.0;
    }
    for first in [0, 4 * 32] {
        x[first] = 0.0;
    }
    for last in [4 * 31 + 2, 4 * 35 + 2] {
        x[last] = 0.0;
    }
    agrees(&stream, &tridiagonal, &x, n, &none())
}
