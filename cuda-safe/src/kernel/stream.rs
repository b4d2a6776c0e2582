//! Launches of Rust kernels on a stream.

use gpu_phases::device::Device;
use gpu_phases::kernel::{Extent, Kernel, Refused};
use gpu_phases::structure::Structure;
use gpu_phases::target::{Args, Elements, Reads, Shares, Target, Writes};
use gpu_phases::trust::Checked;

use super::args::{Params, Store};
use super::carry;
use super::load::loaded;
use super::loaded::Entry;
use super::queried::DeviceStructure;
use crate::error::{Error, ErrorKind, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DeviceSlice, DeviceSliceMut, ReadView, WriteView};
use crate::stream::Stream;

/// The block of kernels over one dimension, and over two or three.
const LINE: u32 = 256;
const PLANE: [u32; 3] = [32, 8, 1];

impl<T> Elements for DeviceSlice<'_, T>
where
    T: Copy + 'static,
{
    #[inline]
    fn len(&self) -> usize {
        DeviceSlice::len(self)
    }
}

impl<T> Elements for DeviceSliceMut<'_, T>
where
    T: Copy + 'static,
{
    #[inline]
    fn len(&self) -> usize {
        DeviceSliceMut::len(self)
    }
}

// SAFETY: what was given is launched, once.
unsafe impl Target for &Stream {
    type Error = Error;
    type Read<'a, T: Device> = DeviceSlice<'a, T>;
    type Write<'a, T: Device> = DeviceSliceMut<'a, T>;
    type Shared<'a, T: Device> = DeviceSliceMut<'a, T>;
    type Structure<'a, S: Structure> = &'a dyn DeviceStructure<S>;

    #[inline]
    fn launch<'a, A: Args<'a, Self>>(
        self,
        kernel: &'static Kernel,
        extent: Extent,
        args: A,
        checked: Checked,
    ) -> Result<()> {
        let mut store = Store::new();
        let mut params = Params::new(&mut store);
        args.visit(&mut params)?;
        launch(self, kernel, extent, &mut params, checked)
    }
}

/// Launches a kernel with arguments that were collected.
#[inline]
pub(super) fn launch(
    stream: &Stream,
    kernel: &'static Kernel,
    extent: Extent,
    params: &mut Params<'_, '_>,
    _checked: Checked,
) -> Result<()> {
    let (entry, config, _) = prepare(stream, kernel, &extent, params)?;
    if kernel.carries > 0 {
        let bytes = kernel.carry_bytes(extent.count().unwrap_or(u64::MAX));
        // SAFETY: as in `enqueue`.
        return unsafe { carry::launch(stream, &entry.kernel, config, params, bytes) };
    }
    enqueue(stream, entry, config, params)
}

/// Completes the parameters. Returns the loaded kernel, the shape of the launch, and whether lengths need 64 bits.
#[inline]
pub(super) fn prepare<'q>(
    stream: &'q Stream,
    kernel: &'static Kernel,
    extent: &Extent,
    params: &mut Params<'_, '_>,
) -> Result<(&'q Entry, LaunchConfig, bool)> {
    let len64 = params.finish(extent)?;
    let entry = loaded(stream, kernel, len64)?;
    params.set_fault(entry.fault);
    let size = |axis: usize| usize::try_from(extent.size[axis]).unwrap_or(usize::MAX);
    // Each with constants to divide by: three divisions take longer than the rest of a launch.
    let mut config = match extent.dimensions {
        _ if extent.threads > 0 => {
            let blocks = |axis: usize| u32::try_from(extent.size[axis]).unwrap_or(u32::MAX);
            LaunchConfig::new((blocks(0), blocks(1)), extent.threads)
        }
        1 => LaunchConfig::cover(size(0), LINE),
        _ => LaunchConfig::cover_3d([size(0), size(1), size(2)], PLANE),
    };
    if extent.shared > 0 {
        entry.kernel.allow_dynamic_shared(extent.shared)?;
        config = config.dynamic_shared_bytes(extent.shared);
    }
    Ok((entry, config, len64))
}

/// Enqueues a launch that was prepared.
#[inline]
pub(super) fn enqueue(
    stream: &Stream,
    entry: &Entry,
    config: LaunchConfig,
    params: &Params<'_, '_>,
) -> Result<()> {
    // SAFETY: the description is trusted and the arguments are checked, as the tokens of the callers promise: the
    // kernel stays inside its arguments. `load` has compared the sizes of its parameters with the description.
    unsafe { entry.kernel.launch(stream, config, params) }
}

impl<'a, T: Device, V: ReadView<'a, T>> Reads<'a, T, V> for &Stream {
    #[inline]
    fn read(self, memory: V) -> DeviceSlice<'a, T> {
        memory.read_view()
    }
}

impl<'a, T: Device, V: WriteView<'a, T>> Writes<'a, T, V> for &Stream {
    #[inline]
    fn write(self, memory: V) -> DeviceSliceMut<'a, T> {
        memory.write_view()
    }
}

impl<'a, T: Device, V: WriteView<'a, T>> Shares<'a, T, V> for &Stream {
    #[inline]
    fn share(self, memory: V) -> DeviceSliceMut<'a, T> {
        memory.write_view()
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        let Refused { kernel, message } = refused;
        Self::new(ErrorKind::Argument {
            kernel: kernel.to_owned(),
            index: None,
            parameter: None,
            message,
        })
    }
}
