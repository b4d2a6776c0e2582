//! Numbers passed by value that have gradients.

use std::fmt;

use cuda_safe::{
    Access, DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, KernelArg, ReadView, Result,
    Stream, UnifiedBuffer,
    arg::{ArgType, UseVisitor},
};

use crate::element::Differentiable;

/// A number, or a structure of numbers, that kernels are given by value and that has a gradient.
///
/// Pass it where the kernel takes a `T` by value. It identifies its gradient, as a buffer does: `tape.watch(&a)`,
/// `tape.gradient(&a)`. Launches use its value at the time of recording.
///
/// For your own struct, implement [`DeviceRepr`] and [`Differentiable`].
pub struct Variable<T> {
    value: T,
    /// Identifies its gradient. The memory itself is never read.
    place: DeviceBuffer<u8>,
}

impl<T: Differentiable + DeviceRepr> Variable<T> {
    /// Creates a variable with this value. Its home stream is `stream`; uses on that stream cost least.
    ///
    /// # Errors
    /// If the driver returns an error.
    pub fn new(stream: &Stream, value: T) -> Result<Self> {
        Ok(Self { value, place: DeviceBuffer::zeroed(stream, size_of::<T>())? })
    }

    /// Returns the value.
    #[must_use]
    pub fn get(&self) -> T {
        self.value
    }

    /// Sets the value for later launches.
    pub fn set(&mut self, value: T) {
        self.value = value;
    }
}

impl<T: Differentiable> Variable<T> {
    pub(crate) fn view(&self) -> Result<DeviceSlice<'_, T>> {
        // SAFETY: no code reads elements through the view: it only identifies the gradient.
        unsafe { self.place.allocation().view(self.place.byte_range()) }
    }
}

/// Objects with a gradient on a tape: a buffer, a view of a buffer, a [`Variable`].
///
/// Only the tape uses the memory that represents the object: a variable's memory does not hold its value.
///
/// ```compile_fail,E0061
/// # fn copy(t: &mut cuda_tape::Recorder<'_>, a: &cuda_tape::Variable<f32>, y: &mut cuda_safe::DeviceBuffer<f32>) -> cuda_safe::Result<()> {
/// use cuda_tape::Watched;
/// t.copy(a.memory()?, y)
/// # }
/// ```
pub trait Watched<'a, T: Differentiable> {
    /// Returns the memory that represents the object.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if the memory can't hold a `T`.
    #[doc(hidden)]
    fn memory(self, key: sealed::Key) -> Result<DeviceSlice<'a, T>>;
}

mod sealed {
    /// Seals the methods that take it: other crates can't name the type.
    #[derive(Debug, Clone, Copy)]
    pub struct Key;
}

/// Returns the memory that represents an object with a gradient.
pub(crate) fn memory_of<'a, T: Differentiable>(
    what: impl Watched<'a, T>,
) -> Result<DeviceSlice<'a, T>> {
    what.memory(sealed::Key)
}

impl<'a, T: Differentiable> Watched<'a, T> for &'a Variable<T> {
    fn memory(self, _: sealed::Key) -> Result<DeviceSlice<'a, T>> {
        self.view()
    }
}

macro_rules! watched {
    ($($view:ty),+ $(,)?) => {$(
        impl<'a, T: Differentiable> Watched<'a, T> for $view {
            fn memory(self, _: sealed::Key) -> Result<DeviceSlice<'a, T>> {
                Ok(self.read_view())
            }
        }
    )+};
}

watched! {
    &'a DeviceBuffer<T>,
    &'a UnifiedBuffer<T>,
    &'a DeviceSliceMut<'_, T>,
    DeviceSlice<'a, T>,
    &'a DeviceSlice<'_, T>,
}

impl<T: fmt::Debug> fmt::Debug for Variable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Variable").field("value", &self.value).finish()
    }
}

// SAFETY: the kernel gets the value. The memory is reported only to identify the variable to a tape; no kernel can
// reach it.
unsafe impl<T: Differentiable + DeviceRepr> KernelArg for &Variable<T> {
    type Abi = T;
    const TYPE: ArgType = ArgType::value::<T>();
    const IS_VARIABLE: bool = true;

    fn abi(&self) -> T {
        self.value
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        visitor.visit(self.place.allocation(), self.place.byte_range(), Access::Read)
    }
}
