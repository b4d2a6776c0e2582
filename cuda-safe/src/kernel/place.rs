//! A target that is chosen when the program runs: a stream or the CPU.

use bytemuck::{AnyBitPattern, NoUninit, Zeroable};
use gpu_phases::Cpu;
use gpu_phases::device::Device;
use gpu_phases::kernel::{CpuError, Extent, Kernel, Refused};
use gpu_phases::structure::Structure;
use gpu_phases::target::{Args, Elements, Queries, Reads, Shares, Target, Visit, Writes};
use gpu_phases::trust::Checked;

use super::args::{Params, Store};
use super::queried::DeviceStructure;
use super::stream::launch;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{DeviceBuffer, DeviceSlice, DeviceSliceMut};
use crate::stream::Stream;

/// A stream or the CPU, for programs that choose when they run. Launches take [`Memory`] of the same place.
///
/// ```no_run
/// use cuda_safe::kernel::{Memory, Place};
/// use cuda_safe::{Context, Result};
///
/// fn main() -> Result<()> {
///     // The GPU if there is one.
///     let stream = Context::new(0).and_then(|context| context.stream());
///     let place = stream.as_ref().map_or(Place::Cpu, Place::Gpu);
///     let x = Memory::from_slice(place, &[1.0f32, 2.0, 3.0])?;
///     let mut out = Memory::<f32>::zeroed(place, x.len())?;
///     // saxpy::launch(place, 2.5, &x, &mut out)?;
///     println!("{:?}", out.to_vec(place)?);
///     Ok(())
/// }
/// ```
///
/// A launch on the CPU returns when it has ended, with its fault if it failed: an error of the kind
/// [`KernelFault`](ErrorKind::KernelFault), once. A launch on a stream only enqueues it.
#[derive(Debug, Clone, Copy)]
pub enum Place<'s> {
    /// A stream of a device.
    Gpu(&'s Stream),
    /// All threads of rayon's pool.
    Cpu,
}

impl Place<'_> {
    /// Waits until the launches on the place have ended. On the CPU they have.
    ///
    /// # Errors
    /// As [`Stream::synchronize`].
    pub fn synchronize(self) -> Result<()> {
        match self {
            Self::Gpu(stream) => stream.synchronize(),
            Self::Cpu => Ok(()),
        }
    }
}

/// `len` elements on a device or on the host, for launches on a [`Place`].
#[derive(Debug)]
pub enum Memory<T> {
    /// On a device.
    Device(DeviceBuffer<T>),
    /// On the host.
    Host(Vec<T>),
}

impl<T: Copy + 'static> Memory<T> {
    /// Allocates `len` elements of zero where the place can use them.
    ///
    /// # Errors
    /// As [`DeviceBuffer::zeroed`].
    pub fn zeroed(place: Place<'_>, len: usize) -> Result<Self>
    where
        T: Zeroable,
    {
        match place {
            Place::Gpu(stream) => DeviceBuffer::zeroed(stream, len).map(Self::Device),
            Place::Cpu => Ok(Self::Host(vec![T::zeroed(); len])),
        }
    }

    /// Copies the elements to where the place can use them.
    ///
    /// # Errors
    /// As [`DeviceBuffer::from_slice`].
    pub fn from_slice(place: Place<'_>, source: &[T]) -> Result<Self>
    where
        T: NoUninit,
    {
        match place {
            Place::Gpu(stream) => DeviceBuffer::from_slice(stream, source).map(Self::Device),
            Place::Cpu => Ok(Self::Host(source.to_vec())),
        }
    }

    /// Writes `value` to every element, after the work on them.
    ///
    /// # Errors
    /// As [`DeviceBuffer::fill`]; [`ErrorKind::Invalid`] if the memory is on a device and the place is the CPU.
    pub fn fill(&mut self, place: Place<'_>, value: T) -> Result<()>
    where
        T: NoUninit,
    {
        match (self, place) {
            (Self::Device(buffer), Place::Gpu(stream)) => buffer.fill(stream, value),
            (Self::Host(elements), _) => {
                elements.fill(value);
                Ok(())
            }
            (Self::Device(_), Place::Cpu) => Err(on_device()),
        }
    }

    /// Returns a copy of the elements, after the work on them.
    ///
    /// # Errors
    /// As [`DeviceBuffer::to_vec`]; [`ErrorKind::Invalid`] if the memory is on a device and the place is the CPU.
    pub fn to_vec(&self, place: Place<'_>) -> Result<Vec<T>>
    where
        T: AnyBitPattern,
    {
        match (self, place) {
            (Self::Device(buffer), Place::Gpu(stream)) => buffer.to_vec(stream),
            (Self::Host(elements), _) => Ok(elements.clone()),
            (Self::Device(_), Place::Cpu) => Err(on_device()),
        }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Device(buffer) => buffer.len(),
            Self::Host(elements) => elements.len(),
        }
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Elements on a device or on the host, for a kernel to read.
#[derive(Debug, Clone, Copy)]
pub enum ReadAt<'a, T: Copy + 'static> {
    /// On a device.
    Device(DeviceSlice<'a, T>),
    /// On the host.
    Host(&'a [T]),
}

/// Elements on a device or on the host, for a kernel to write.
#[derive(Debug)]
pub enum WriteAt<'a, T: Copy + 'static> {
    /// On a device.
    Device(DeviceSliceMut<'a, T>),
    /// On the host.
    Host(&'a mut [T]),
}

/// A structure on a device or on the host, for a kernel to query.
#[allow(missing_debug_implementations, reason = "structures on devices need none")]
pub enum StructureAt<'a, S: Structure> {
    /// On a device.
    Device(&'a dyn DeviceStructure<S>),
    /// On the host.
    Host(&'a S),
}

impl<'a, S: Structure> Queries<'a, S, StructureAt<'a, S>> for Place<'_> {
    fn query(self, structure: StructureAt<'a, S>) -> StructureAt<'a, S> {
        structure
    }
}

impl<T: Copy + 'static> Elements for ReadAt<'_, T> {
    fn len(&self) -> usize {
        match self {
            Self::Device(view) => view.len(),
            Self::Host(view) => view.len(),
        }
    }
}

impl<T: Copy + 'static> Elements for WriteAt<'_, T> {
    fn len(&self) -> usize {
        match self {
            Self::Device(view) => view.len(),
            Self::Host(view) => view.len(),
        }
    }
}

impl<'a, T: Device> Reads<'a, T, &'a Memory<T>> for Place<'_> {
    fn read(self, memory: &'a Memory<T>) -> ReadAt<'a, T> {
        match memory {
            Memory::Device(buffer) => ReadAt::Device(buffer.as_slice()),
            Memory::Host(elements) => ReadAt::Host(elements),
        }
    }
}

impl<'a, T: Device> Writes<'a, T, &'a mut Memory<T>> for Place<'_> {
    fn write(self, memory: &'a mut Memory<T>) -> WriteAt<'a, T> {
        match memory {
            Memory::Device(buffer) => WriteAt::Device(buffer.as_slice_mut()),
            Memory::Host(elements) => WriteAt::Host(elements),
        }
    }
}

impl<'a, T: Device> Shares<'a, T, &'a mut Memory<T>> for Place<'_> {
    fn share(self, memory: &'a mut Memory<T>) -> WriteAt<'a, T> {
        self.write(memory)
    }
}

// SAFETY: a stream, or the CPU, gets all that was given.
unsafe impl Target for Place<'_> {
    type Error = Error;
    type Read<'a, T: Device> = ReadAt<'a, T>;
    type Write<'a, T: Device> = WriteAt<'a, T>;
    type Shared<'a, T: Device> = WriteAt<'a, T>;
    type Structure<'a, S: Structure> = StructureAt<'a, S>;

    fn launch<'a, A: Args<'a, Self>>(
        self,
        kernel: &'static Kernel,
        extent: Extent,
        args: A,
        checked: Checked,
    ) -> Result<()> {
        match self {
            Self::Gpu(stream) => {
                let mut store = Store::new();
                let mut params = Params::new(&mut store);
                args.visit(&mut params)?;
                launch(stream, kernel, extent, &mut params, checked)
            }
            Self::Cpu => {
                let args = OnCpu { args, place: self, kernel: kernel.name };
                Ok(Cpu.launch(kernel, extent, args, checked)?)
            }
        }
    }
}

impl<'a> Visit<'a, Place<'_>> for Params<'a, '_> {
    fn value<T: Device>(&mut self, value: T) -> Result<()> {
        Visit::<&Stream>::value(self, value)
    }

    fn read<T: Device>(&mut self, view: ReadAt<'a, T>) -> Result<()> {
        match view {
            ReadAt::Device(view) => self.reads(view),
            ReadAt::Host(_) => Err(on_host()),
        }
    }

    fn write<T: Device>(&mut self, view: WriteAt<'a, T>) -> Result<()> {
        match view {
            WriteAt::Device(view) => self.writes(&view),
            WriteAt::Host(_) => Err(on_host()),
        }
    }

    fn shared<T: Device>(&mut self, view: WriteAt<'a, T>) -> Result<()> {
        Visit::<Place<'_>>::write(self, view)
    }

    fn structure<S: Structure>(&mut self, structure: StructureAt<'a, S>) -> Result<()> {
        match structure {
            StructureAt::Device(structure) => self.queries(structure),
            StructureAt::Host(_) => Err(elsewhere("the host", "a stream")),
        }
    }
}

/// Arguments of a launch on a place as those of one on the CPU.
struct OnCpu<'s, A> {
    args: A,
    #[expect(dead_code, reason = "names the lifetime of the arguments' target")]
    place: Place<'s>,
    kernel: &'static str,
}

impl<'a, 's, A: Args<'a, Place<'s>>> Args<'a, Cpu> for OnCpu<'s, A> {
    fn visit(self, visitor: &mut impl Visit<'a, Cpu>) -> Result<(), CpuError> {
        self.args.visit(&mut Forward(visitor)).map_err(|error| {
            CpuError::Refused(Refused { kernel: self.kernel, message: error.to_string() })
        })
    }
}

/// Passes arguments that lie on the host.
struct Forward<'v, V>(&'v mut V);

impl<'a, V: Visit<'a, Cpu>> Visit<'a, Place<'_>> for Forward<'_, V> {
    fn value<T: Device>(&mut self, value: T) -> Result<()> {
        Ok(self.0.value(value)?)
    }

    fn read<T: Device>(&mut self, view: ReadAt<'a, T>) -> Result<()> {
        match view {
            ReadAt::Host(view) => Ok(self.0.read(view)?),
            ReadAt::Device(_) => Err(on_device()),
        }
    }

    fn write<T: Device>(&mut self, view: WriteAt<'a, T>) -> Result<()> {
        match view {
            WriteAt::Host(view) => Ok(self.0.write(view)?),
            WriteAt::Device(_) => Err(on_device()),
        }
    }

    fn shared<T: Device>(&mut self, view: WriteAt<'a, T>) -> Result<()> {
        match view {
            WriteAt::Host(view) => Ok(self.0.shared(view)?),
            WriteAt::Device(_) => Err(on_device()),
        }
    }

    fn structure<S: Structure>(&mut self, structure: StructureAt<'a, S>) -> Result<()> {
        match structure {
            StructureAt::Host(structure) => Ok(self.0.structure(structure)?),
            StructureAt::Device(_) => Err(elsewhere("a device", "the CPU")),
        }
    }
}

#[cold]
fn on_host() -> Error {
    Error::invalid("the memory is on the host, and the place of the launch is a stream")
        .with_hint("copy it: `Memory::from_slice(place, &memory.to_vec(Place::Cpu)?)`")
}

#[cold]
fn on_device() -> Error {
    Error::invalid("the memory is on a device, and the place is the CPU")
        .with_hint("copy it: `Memory::from_slice(place, &memory.to_vec(Place::Gpu(&stream))?)`")
}

/// The error of a structure that is elsewhere than the launch.
#[cold]
fn elsewhere(there: &str, place: &str) -> Error {
    Error::invalid(format!("the structure is on {there}, and the place of the launch is {place}"))
        .with_hint("build it from its data at the place of the launch, too")
}

impl From<CpuError> for Error {
    fn from(error: CpuError) -> Self {
        match error {
            CpuError::Refused(refused) => refused.into(),
            CpuError::Fault(fault) => Self::new(ErrorKind::KernelFault(fault)),
            other => Self::invalid(other.to_string()),
        }
    }
}
