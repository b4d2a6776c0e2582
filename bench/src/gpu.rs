//! The device under measurement, and the kernels that run on it.

use cuda_safe::{Context, Device, Driver, Kernel, LoadedFrom, Stream, kernels};

use crate::stop::Stop;

/// The text of the example: the article's kernel, and the one with float4.
pub(crate) const SAXPY_CU: &str = include_str!("../../examples/saxpy/src/saxpy.cu");

kernels! {
    pub(crate) struct Saxpy;
    // SAFETY: thread i touches element i of each array, and only if i < n.
    unsafe in SAXPY_CU {
        safe fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32], n: u64)
            where n <= x.len(), n <= y.len(), n <= out.len();
        safe fn saxpy4(
            a: f32,
            x: &[cuda_safe::vector::Float4],
            y: &[cuda_safe::vector::Float4],
            out: &mut [cuda_safe::vector::Float4],
            n: u64,
        ) where n <= x.len(), n <= y.len(), n <= out.len();
    }
}

kernels! {
    pub(crate) struct Own;
    // SAFETY: `empty` and `delay` touch no memory; thread i of `add` touches element i of each
    // array, and only if i < n.
    unsafe in include_str!("kernels.cu") {
        safe fn empty();
        safe fn add(a: &[f32], b: &[f32], c: &mut [f32], n: u32)
            where n <= a.len(), n <= b.len(), n <= c.len();
        safe fn delay(#[any] nanoseconds: u64);
    }
}

/// A device, its context, and the stream that everything is measured on.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) driver: Driver,
    pub(crate) device: Device,
    pub(crate) context: Context,
    pub(crate) stream: Stream,
    pub(crate) name: String,
}

impl Gpu {
    pub(crate) fn open(driver: Driver, ordinal: usize) -> Result<Self, Stop> {
        let device = driver.device(ordinal)?;
        let context = device.context()?;
        let stream = context.stream()?;
        Ok(Self { driver, device, context, stream, name: device.name()? })
    }

    /// The system's driver.
    pub(crate) fn system(ordinal: usize) -> Result<Self, Stop> {
        Self::open(Driver::load()?, ordinal)
    }

    /// The driver that does nothing.
    pub(crate) fn noop() -> Result<Self, Stop> {
        Self::open(Driver::from_sys(cuda_sys::noop::driver())?, 0)
    }

    /// The image that a kernel was loaded from, as the lines name it.
    pub(crate) fn image_of(&self, kernel: &Kernel) -> Result<String, Stop> {
        let (major, minor) = self.device.compute_capability()?;
        Ok(match kernel.module().loaded_from() {
            LoadedFrom::Ptx => "PTX".to_owned(),
            _ => format!("sm_{major}{minor}"),
        })
    }
}
