//! Values that a recorded operation has read, for adjoints: in memory that no borrow protects.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::AnyBitPattern;
use cuda_safe::{
    Access, Allocation, DeviceSlice, Error, KernelArg, Result, Stream, WriteView,
    arg::{ArgType, UseVisitor},
};

/// The memory of a value, and what shows that it still holds the value.
#[derive(Debug, Clone)]
pub(crate) struct Place<'a> {
    pub(crate) allocation: &'a Arc<Allocation>,
    pub(crate) range: Range<usize>,
    /// The memory's version that holds the value; none for a copy, which only the tape writes.
    pub(crate) version: Option<u64>,
}

impl Place<'_> {
    /// Fails if the memory was written since. The result holds until the end of a use that has reported the memory
    /// before.
    pub(crate) fn check(&self) -> Result<()> {
        match self.version {
            Some(version) if self.allocation.version(self.range.clone()) != version => {
                Err(overwritten())
            }
            _ => Ok(()),
        }
    }

    /// Reports the memory of a use, and fails if the value was overwritten.
    pub(crate) fn visit<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        visitor.visit(self.allocation, self.range.clone(), Access::Read)?;
        self.check()
    }
}

#[cold]
fn overwritten() -> Error {
    Error::invalid(
        "memory that an adjoint needs was overwritten while the pass went back through the recording",
    )
    .with_hint("what a recorded launch has read must stay until the backward pass has returned")
}

/// A value of a recorded operation: a kernel argument, and a source of copies.
///
/// The memory is the recorded one, or the tape's copy of it. No borrow protects it, so this is no [`DeviceSlice`]: a
/// launch in which another argument writes the same bytes is refused, and every use fails if the memory was written
/// since it was recorded.
///
/// In a captured pass, a launch of the graph can't compare versions: the kernel reads the current contents of the
/// memory, which are always a valid `T`.
///
/// ```compile_fail,E0308
/// # fn view<'a>(pass: &'a cuda_tape::Adjoint<'_>, x: cuda_tape::Handle<f32>) -> cuda_safe::Result<cuda_safe::DeviceSlice<'a, f32>> {
/// pass.value(x)
/// # }
/// ```
pub struct Saved<'a, T> {
    place: Place<'a>,
    marker: PhantomData<&'a [T]>,
}

impl<T> Clone for Saved<'_, T> {
    fn clone(&self) -> Self {
        Self { place: self.place.clone(), marker: PhantomData }
    }
}

impl<'a, T: Copy + 'static> Saved<'a, T> {
    /// Creates a value. The caller has checked that the bytes were recorded as a slice of `T`.
    pub(crate) fn new(place: Place<'a>) -> Self {
        Self { place, marker: PhantomData }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.place.range.len() / size_of::<T>().max(1)
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the device address of the first element.
    #[must_use]
    pub fn device_ptr(&self) -> u64 {
        self.place.allocation.device_ptr() + self.place.range.start as u64
    }

    /// Copies the elements to a new vector. Waits for the copy.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if the memory was written since it was recorded, or the
    /// stream records; otherwise if the driver returns an error.
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<T>>
    where
        T: AnyBitPattern,
    {
        self.place.check()?;
        let host = self.view()?.to_vec(stream)?;
        // The version has not changed since the copy, so all of `host` is the value.
        self.place.check().map(|()| host)
    }

    /// Copies the elements to other device memory, in the order of the stream.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if the lengths differ, the target overlaps the value, or
    /// the memory was written since it was recorded; otherwise if the driver returns an error.
    pub fn copy_to<'b>(&self, stream: &Stream, to: impl WriteView<'b, T>) -> Result<()> {
        let mut to = to.write_view();
        let (ours, theirs) = (&self.place.range, to.byte_range());
        let same = Arc::ptr_eq(self.place.allocation, to.allocation());
        if same && ours.start < theirs.end && theirs.start < ours.end {
            return Err(Error::invalid("a value can't be copied to the memory that it lies in"));
        }
        self.place.check()?;
        to.copy_from(stream, self.view()?)?;
        self.place.check()
    }

    /// Returns a view of the memory, for arguments that consist of views.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if the memory was written since it was recorded.
    ///
    /// # Safety
    /// No borrow protects the memory: the caller passes the view to no launch and no copy that writes the same bytes.
    pub unsafe fn as_slice(&self) -> Result<DeviceSlice<'a, T>> {
        self.place.check()?;
        self.view()
    }

    fn view(&self) -> Result<DeviceSlice<'a, T>> {
        // SAFETY: these are the bytes that were recorded as a slice of `T`, or a copy of them. No method of this type
        // writes such bytes, and the memory is kept: see `Recording::pend`.
        unsafe { self.place.allocation.view(self.place.range.clone()) }
    }
}

impl<T> fmt::Debug for Saved<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saved").field("place", &self.place).finish()
    }
}

/// Implements the argument for a value and for a reference to it.
macro_rules! saved_arg {
    ($($arg:ty),+) => {$(
        // SAFETY: the kernel reads the elements, which are reported; no kernel gets a value that was overwritten.
        unsafe impl<T: Copy + 'static> KernelArg for $arg {
            type Abi = u64;
            const TYPE: ArgType = ArgType::pointer::<Self, T>(false);
            const IS_UNBORROWED: bool = true;

            fn abi(&self) -> u64 {
                self.device_ptr()
            }

            fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
                self.place.visit(visitor)
            }
        }
    )+};
}

saved_arg!(Saved<'_, T>, &Saved<'_, T>);
