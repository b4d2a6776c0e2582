//! Each kernel beside the same in C++: times, registers, results.

mod attention;
#[cfg(test)]
mod barriers;
mod block_twins;
mod blocks;
mod blocks_cpu;
mod bude;
mod cases;
mod cpu;
mod launches;
mod ntt;
mod raytrace;
mod stencils;
mod table;
mod timing;
mod twins;

use cuda_safe::kernel::attributes;
use cuda_safe::kernel::kernel::Kernel;
use cuda_safe::{Context, DeviceBuffer, KernelAttributes, Result, Stream};

use crate::Failure;
use crate::arguments::Arguments;
use block_twins::BlockTwins;
use table::{Measured, Row};
use twins::Twins;

/// What a time is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    /// The kernel in Rust. Products are contracted by syntax where the twin's are by the compiler.
    Rust,
    /// Without contraction.
    Plain,
    /// The kernel in Rust with overflow checks.
    Checked,
    /// The kernel in C++.
    Twin,
    /// With `--fmad=false`.
    TwinPlain,
    /// A copy from device to device of an array as large as the output.
    Copy,
}

/// What measurements share.
pub(crate) struct Bench<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) twins: Twins,
    pub(crate) twins_plain: Twins,
    /// Kernels over blocks in C++, by NVRTC's defaults and with `--fmad=false`.
    pub(crate) block_twins: [BlockTwins; 2],
    /// Whether the device is software.
    pub(crate) software: bool,
    pub(crate) rounds: usize,
    pub(crate) scale: f64,
}

impl Bench<'_> {
    /// Returns the size to use: `small` on a software device.
    pub(crate) fn size(&self, large: usize, small: usize) -> usize {
        let size = if self.software { small } else { large };
        ((size as f64 * self.scale) as usize).max(1)
    }
}

type Launch<'a, T> = Box<dyn FnMut(&mut DeviceBuffer<T>) -> Result<()> + 'a>;

/// One kernel and its variants.
pub(crate) struct Case<'a, T: Copy + 'static> {
    bench: &'a Bench<'a>,
    kernel: &'static str,
    /// The elements of the output.
    len: usize,
    /// Whether the kernel has nothing to contract.
    uncontracted: bool,
    /// The share of elements that may differ much from the twin's.
    loose: f64,
    variants: Vec<(Variant, Option<KernelAttributes>, Launch<'a, T>)>,
}

/// An element of a result.
pub(crate) trait Element: bytemuck::NoUninit + bytemuck::AnyBitPattern {
    /// Returns the largest absolute difference, and the largest absolute value.
    fn difference(&self, other: &Self) -> (f64, f64);
}

macro_rules! elements {
    ($($of:ty: $part:ident),*) => {$(
        impl Element for $of {
            fn difference(&self, other: &Self) -> (f64, f64) {
                let parts = |of| -> &[$part] { bytemuck::cast_slice(std::slice::from_ref(of)) };
                parts(self).iter().zip(parts(other)).fold((0.0, 0.0), |(most, size), (a, b)| {
                    let (a, b) = (f64::from(*a), f64::from(*b));
                    (f64::max(most, (a - b).abs()), size.max(a.abs()).max(b.abs()))
                })
            }
        }
    )*};
}

elements! {
    [u8; 4]: u8, f32: f32, f64: f64, u32: u32, [f32; 4]: f32,
    cuda_safe::kernel::vector::Vec3: f32, rust_kernels::integrate::Oscillator: f32
}

impl<'a, T: Element> Case<'a, T> {
    pub(crate) fn new(bench: &'a Bench<'a>, kernel: &'static str, len: usize) -> Self {
        Self { bench, kernel, len, uncontracted: false, loose: 0.05, variants: Vec::new() }
    }

    /// Says that the kernel has nothing to contract: no twin may have other bits.
    pub(crate) fn uncontracted(mut self) -> Self {
        self.uncontracted = true;
        self
    }

    /// Sets the share of elements that contraction may change much.
    pub(crate) fn loose(mut self, share: f64) -> Self {
        self.loose = share;
        self
    }

    /// Adds a kernel in Rust.
    pub(crate) fn rust(
        mut self,
        variant: Variant,
        kernel: &'static Kernel,
        launch: impl FnMut(&mut DeviceBuffer<T>) -> Result<()> + 'a,
    ) -> Result<Self> {
        let attributes = attributes(self.bench.stream, kernel)?;
        self.variants.push((variant, Some(attributes), Box::new(launch)));
        Ok(self)
    }

    /// Adds a kernel in C++, in both ways to compile it.
    pub(crate) fn twins(
        self,
        kernel: impl Fn(&Twins) -> &cuda_safe::Kernel,
        launch: impl Fn(&Twins, &mut DeviceBuffer<T>) -> Result<()> + Copy + 'a,
    ) -> Result<Self> {
        let bench = self.bench;
        self.both([&bench.twins, &bench.twins_plain], kernel, launch)
    }

    /// Adds a kernel over blocks in C++, in both ways to compile it.
    pub(crate) fn block_twins(
        self,
        kernel: impl Fn(&BlockTwins) -> &cuda_safe::Kernel,
        launch: impl Fn(&BlockTwins, &mut DeviceBuffer<T>) -> Result<()> + Copy + 'a,
    ) -> Result<Self> {
        let bench = self.bench;
        self.both(bench.block_twins.each_ref(), kernel, launch)
    }

    fn both<K>(
        mut self,
        twins: [&'a K; 2],
        kernel: impl Fn(&K) -> &cuda_safe::Kernel,
        launch: impl Fn(&K, &mut DeviceBuffer<T>) -> Result<()> + Copy + 'a,
    ) -> Result<Self> {
        for (variant, twins) in [Variant::Twin, Variant::TwinPlain].into_iter().zip(twins) {
            let attributes = kernel(twins).attributes()?;
            let launch = move |out: &mut DeviceBuffer<T>| launch(twins, out);
            self.variants.push((variant, Some(attributes), Box::new(launch)));
        }
        Ok(self)
    }

    /// Adds a kernel in C++, compiled in one way.
    pub(crate) fn other(
        mut self,
        variant: Variant,
        kernel: &cuda_safe::Kernel,
        launch: impl FnMut(&mut DeviceBuffer<T>) -> Result<()> + 'a,
    ) -> Result<Self> {
        self.variants.push((variant, Some(kernel.attributes()?), Box::new(launch)));
        Ok(self)
    }

    /// Adds a copy of this array.
    pub(crate) fn copy(mut self, from: &'a DeviceBuffer<T>) -> Self {
        let stream = self.bench.stream;
        let launch = move |out: &mut DeviceBuffer<T>| out.copy_from(stream, from);
        self.variants.push((Variant::Copy, None, Box::new(launch)));
        self
    }

    /// Measures all, and compares their results.
    pub(crate) fn measure(self) -> Result<Row> {
        let stream = self.bench.stream;
        let mut buffers = Vec::new();
        for _ in &self.variants {
            buffers.push(DeviceBuffer::<T>::zeroed(stream, self.len)?);
        }
        let (mut kinds, mut runs) = (Vec::new(), Vec::<timing::Run<'_>>::new());
        for ((variant, attributes, mut launch), out) in self.variants.into_iter().zip(&mut buffers)
        {
            kinds.push((variant, attributes));
            runs.push(Box::new(move || launch(out)));
        }
        let samples = timing::device(stream, self.bench.rounds, &mut runs)?;
        drop(runs);
        let mut results = Vec::new();
        for out in &buffers {
            results.push(out.to_vec(stream)?);
        }
        let result = |wanted: Variant| {
            let index = kinds.iter().position(|(variant, _)| *variant == wanted)?;
            Some(&results[index])
        };
        let compare = |a, b| Some(table::compare(result(a)?, result(b)?));
        let plain = if self.uncontracted { Variant::Rust } else { Variant::Plain };
        Ok(Row {
            kernel: self.kernel,
            len: self.len,
            plain,
            loose: self.loose,
            measured: kinds
                .iter()
                .zip(samples)
                .map(|((variant, attributes), samples)| Measured {
                    variant: *variant,
                    attributes: *attributes,
                    samples,
                })
                .collect(),
            twin: compare(Variant::Rust, Variant::Twin),
            twin_plain: compare(plain, Variant::TwinPlain),
            checked: compare(Variant::Rust, Variant::Checked),
        })
    }
}

/// Runs the comparison and prints it.
pub(crate) fn run(
    context: &Context,
    arguments: &Arguments,
    software: bool,
) -> std::result::Result<(), Failure> {
    let stream = context.stream()?;
    let bench = Bench {
        stream: &stream,
        twins: Twins::load(context)?,
        twins_plain: Twins::without_contraction(context)?,
        block_twins: [BlockTwins::load(context)?, BlockTwins::without_contraction(context)?],
        software,
        rounds: arguments.rounds.unwrap_or(if software { 3 } else { 31 }),
        scale: arguments.scale,
    };
    let rows = cases::all(&bench, arguments)?;
    let device = context.device().name()?;
    let mut lines = table::lines(&rows, &device);
    if arguments.wants("launch") {
        lines.extend(launches::run(&bench, &device)?);
    }
    if arguments.wants("cpu") {
        lines.extend(cpu::run(&bench)?);
    }
    println!();
    lines.iter().for_each(|line| println!("{line}"));
    let wrong = rows.iter().filter(|row| !row.is_right()).map(|row| row.kernel);
    match wrong.collect::<Vec<_>>()[..] {
        [] => Ok(()),
        ref wrong => Err(format!("results differ: {}", wrong.join(", ")).into()),
    }
}
