//! One call of cuBLAS: its memory, its checks, its handle, and its enqueue.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use cuda_safe::arg::{ArgType, KernelArgs, UseVisitor};
use cuda_safe::sys::CUresult;
use cuda_safe::{Access, Allocation, Context, DeviceBuffer, DeviceSlice, DeviceSliceMut, Stream};
use cuda_sys::MissingSymbol;
use cuda_sys::cublas::{Cublas, cublasHandle_t, cublasPointerMode_t, cublasStatus_t};
use smallvec::SmallVec;

use super::Blas;
use super::scalar::sealed::Pointed;
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
pub(super) fn is_aligned<T>(address: u64) -> bool {
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
        let (allocation, range) = (data.allocation(), data.byte_range());
        let is_aligned = is_aligned::<T>(data.device_ptr());
        self.all.push(Use { name, allocation, range, access: Access::Read, is_aligned });
    }

    /// Adds the memory of a factor, if it is on the device.
    #[inline]
    pub(crate) fn factor<P: Pointed>(&mut self, name: &'static str, factor: &'a P) {
        if let Some((allocation, range)) = factor.memory() {
            // `DeviceScalar` has checked its address.
            self.all.push(Use { name, allocation, range, access: Access::Read, is_aligned: true });
        }
    }

    #[inline]
    pub(crate) fn writes<T: Copy + 'static>(
        &mut self,
        name: &'static str,
        data: &DeviceSliceMut<'a, T>,
    ) {
        let (allocation, range) = (data.allocation(), data.byte_range());
        let is_aligned = is_aligned::<T>(data.device_ptr());
        self.all.push(Use { name, allocation, range, access: Access::Write, is_aligned });
    }
}

/// The memory of a call with its workspace.
struct WithWorkspace<'a, 'w> {
    uses: Uses<'a>,
    workspace: Option<&'w DeviceBuffer<MaybeUninit<u8>>>,
}

// SAFETY: there are no types, and no pointers are passed.
unsafe impl KernelArgs for WithWorkspace<'_, '_> {
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

/// Where cuBLAS takes factors from, or writes results to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pointers {
    Host,
    Device,
}

impl Pointers {
    #[inline]
    pub(crate) fn of<P: Pointed>() -> Self {
        if P::ON_DEVICE { Self::Device } else { Self::Host }
    }

    pub(super) fn mode(self) -> cublasPointerMode_t {
        match self {
            Self::Host => cublasPointerMode_t::CUBLAS_POINTER_MODE_HOST,
            Self::Device => cublasPointerMode_t::CUBLAS_POINTER_MODE_DEVICE,
        }
    }
}

/// The result of a raw function.
pub(crate) type Status = Result<cublasStatus_t, MissingSymbol>;

impl Blas {
    /// Enqueues a call of cuBLAS that uses this memory.
    ///
    /// # Safety
    /// `function` calls cuBLAS with the handle, and nothing else; the work uses device memory as `uses` says, and
    /// pointers for the host are read before it returns.
    pub(crate) unsafe fn enqueue(
        &self,
        call: &'static str,
        stream: &Stream,
        pointers: Pointers,
        uses: Uses<'_>,
        function: impl FnOnce(&Cublas, cublasHandle_t) -> Status,
    ) -> Result<()> {
        let inner = &*self.inner;
        cuda_safe::check_caller()?;
        self.is_own(call, stream)?;
        self.may_use(call, &uses)?;
        let mut lease = inner.lease(call, stream)?;
        let functions = inner.library.as_sys();
        let Some((handle, workspace)) = lease.parts() else {
            return Err(Error::invalid(call, "blas", "has no handle"));
        };
        let space = workspace.map(|buffer| (buffer.device_ptr(), buffer.size_bytes()));
        let uses = WithWorkspace { uses, workspace };
        let id = stream.id();
        let run = || {
            // SAFETY: the handle belongs to the context, which is current, and to this call alone; the caller promises
            // the rest. The workspace is among the uses. The closure calls cuBLAS alone.
            unsafe {
                stream.enqueue(uses, |raw| {
                    match handle.bind(functions, id, raw, space, pointers)? {
                        cublasStatus_t::CUBLAS_STATUS_SUCCESS => function(functions, handle.raw()),
                        failed => Ok(failed),
                    }
                })
            }
        };
        let status = match inner.is_current()? {
            true => run(),
            false => inner.context.with_current(run),
        };
        match status? {
            Ok(cublasStatus_t::CUBLAS_STATUS_SUCCESS) => Ok(()),
            Ok(status) => Err(failed(&inner.context, call, status)),
            Err(missing) => Err(inner.library.lacks(call, missing.name)),
        }
    }
}

impl Blas {
    /// Fails for memory of another context, and at an address that no call takes.
    #[inline]
    pub(crate) fn may_use(&self, call: &'static str, uses: &Uses<'_>) -> Result<()> {
        for used in &uses.all {
            let message = if !used.allocation.home_stream().is_of(&self.inner.context) {
                "lies in memory of another context than that of the `Blas`"
            } else if !used.is_aligned {
                "lies at an address that is no multiple of its element's size"
            } else {
                continue;
            };
            return Err(Error::invalid(call, used.name, message));
        }
        Ok(())
    }

    /// Fails for a stream of another context.
    #[inline]
    pub(crate) fn is_own(&self, call: &'static str, stream: &Stream) -> Result<()> {
        if stream.is_of(&self.inner.context) {
            return Ok(());
        }
        Err(Error::invalid(call, "stream", "belongs to another context than the `Blas`"))
    }
}

/// Returns the error of a status: that of the context, if it has lost the device.
#[cold]
pub(super) fn failed(context: &Context, call: &'static str, status: cublasStatus_t) -> Error {
    match context.check_alive() {
        Err(error) => error.into(),
        Ok(()) => Error::Cublas { call, status },
    }
}

impl super::Inner {
    /// Returns whether the context is current on this thread: reading it costs less than a push and a pop.
    #[inline]
    fn is_current(&self) -> Result<bool> {
        let mut current = std::ptr::null_mut();
        // SAFETY: `current` is a valid place for a handle.
        let code = unsafe { self.driver.cuCtxGetCurrent(&raw mut current) };
        Ok(matches!(code, Ok(CUresult::CUDA_SUCCESS)) && current == self.context.as_raw())
    }
}

/// Fails if a number is beyond the 64-bit interface, which is signed.
#[inline]
pub(crate) fn size(call: &'static str, argument: &'static str, value: usize) -> Result<i64> {
    i64::try_from(value)
        .map_err(|_| Error::invalid(call, argument, format!("has {value}, which is above 2^63")))
}

/// Fails for a batch, where there is one matrix.
pub(crate) fn one(call: &'static str, argument: &'static str, batch: usize) -> Result<()> {
    if batch == 1 {
        return Ok(());
    }
    let message = format!("is a batch of {batch} matrices; the call takes one");
    Err(Error::invalid(call, argument, message))
}
