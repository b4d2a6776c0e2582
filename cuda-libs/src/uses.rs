//! The memory of a call of a library, and what is checked before each call.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use cuda_safe::arg::{ArgType, KernelArgs, UseVisitor};
use cuda_safe::sys::CUresult;
use cuda_safe::{Access, Allocation, Context, DeviceBuffer, DeviceSlice, DeviceSliceMut, Stream};
use smallvec::SmallVec;

use crate::error::{Error, Result};

/// The memory of a call, with the names of the arguments.
pub(crate) struct Uses<'a> {
    all: SmallVec<[Use<'a>; 6]>,
}

struct Use<'a> {
    name: &'static str,
    allocation: &'a Arc<Allocation>,
    range: Range<usize>,
    access: Access,
    is_aligned: bool,
}

/// Returns whether the elements are aligned as in C, where a complex number is to its own size. In Rust it is to half of it.
#[inline]
pub(crate) fn is_aligned<T>(address: u64) -> bool {
    address.is_multiple_of(size_of::<T>().max(1) as u64)
}

impl<'a> Uses<'a> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { all: SmallVec::new() }
    }

    #[inline]
    pub(crate) fn reads<T: Copy + 'static>(
        &mut self,
        name: &'static str,
        data: &DeviceSlice<'a, T>,
    ) {
        let is_aligned = is_aligned::<T>(data.device_ptr());
        self.add(name, data.allocation(), data.byte_range(), Access::Read, is_aligned);
    }

    #[inline]
    pub(crate) fn writes<T: Copy + 'static>(
        &mut self,
        name: &'static str,
        data: &DeviceSliceMut<'a, T>,
    ) {
        let is_aligned = is_aligned::<T>(data.device_ptr());
        self.add(name, data.allocation(), data.byte_range(), Access::Write, is_aligned);
    }

    #[inline]
    pub(crate) fn add(
        &mut self,
        name: &'static str,
        allocation: &'a Arc<Allocation>,
        range: Range<usize>,
        access: Access,
        is_aligned: bool,
    ) {
        self.all.push(Use { name, allocation, range, access, is_aligned });
    }
}

/// The memory of a call with its workspace.
pub(crate) struct WithWorkspace<'u, 'a, 'w> {
    pub(crate) uses: &'u Uses<'a>,
    pub(crate) workspace: Option<&'w DeviceBuffer<MaybeUninit<u8>>>,
}

// SAFETY: there are no types, and no pointers are passed.
unsafe impl KernelArgs for WithWorkspace<'_, '_, '_> {
    const TYPES: &'static [ArgType] = &[];
    const TYPED: bool = false;

    #[inline]
    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> cuda_safe::Result<()> {
        for used in &self.uses.all {
            visitor.visit(used.allocation, used.range.clone(), used.access)?;
        }
        match self.workspace {
            Some(buffer) => {
                visitor.visit(buffer.allocation(), 0..buffer.size_bytes(), Access::Write)
            }
            None => Ok(()),
        }
    }

    fn with_pointers<Out>(&self, f: impl FnOnce(&mut [*mut c_void]) -> Out) -> Out {
        f(&mut [])
    }
}

/// Fails if a number is beyond the 64-bit interface, which is signed.
#[inline]
pub(crate) fn size(call: &'static str, argument: &'static str, value: usize) -> Result<i64> {
    i64::try_from(value)
        .map_err(|_| Error::invalid(call, argument, format!("has {value}, which is above 2^63")))
}

impl Uses<'_> {
    /// Fails for memory of another context than that of the `owner`, and at an address that no call takes.
    #[inline]
    pub(crate) fn check(&self, call: &'static str, context: &Context, owner: &str) -> Result<()> {
        for used in &self.all {
            let message = if !used.allocation.home_stream().is_of(context) {
                format!("lies in memory of another context than that of the `{owner}`")
            } else if !used.is_aligned {
                "lies at an address that is no multiple of its element's size".to_owned()
            } else {
                continue;
            };
            return Err(Error::invalid(call, used.name, message));
        }
        Ok(())
    }
}

/// Fails for a stream of another context than that of the `owner`.
#[inline]
pub(crate) fn is_own(
    call: &'static str,
    stream: &Stream,
    context: &Context,
    owner: &str,
) -> Result<()> {
    if stream.is_of(context) {
        return Ok(());
    }
    Err(Error::invalid(call, "stream", format!("belongs to another context than the `{owner}`")))
}

/// Names a context: the driver's table, and the number that the driver never gives to another context.
pub(crate) type Identity = (usize, u64);

/// Returns what names the context, if the driver can name it.
pub(crate) fn identity(context: &Context) -> Option<Identity> {
    let driver = context.driver().as_sys();
    let mut id = 0;
    // SAFETY: `id` is valid for the write, and the context is alive.
    let code = unsafe { driver.cuCtxGetId(context.as_raw(), &raw mut id) };
    matches!(code, Ok(CUresult::CUDA_SUCCESS)).then_some((std::ptr::from_ref(driver).addr(), id))
}
