//! One call of cuBLAS: its memory, its checks, its handle, and its enqueue.

use cuda_safe::sys::CUresult;
use cuda_safe::{Access, Context, Stream};
use cuda_sys::MissingSymbol;
use cuda_sys::cublas::{Cublas, cublasHandle_t, cublasPointerMode_t, cublasStatus_t};

use super::Blas;
use super::scalar::sealed::Pointed;
use crate::error::{Error, Result};
use crate::uses::{WithWorkspace, is_own};

pub(crate) use crate::uses::{Uses, is_aligned, size};

impl<'a> Uses<'a> {
    /// Adds the memory of a factor, if it is on the device.
    #[inline]
    pub(crate) fn factor<P: Pointed>(&mut self, name: &'static str, factor: &'a P) {
        if let Some((allocation, range)) = factor.memory() {
            // `DeviceScalar` has checked its address.
            self.add(name, allocation, range, Access::Read, true);
        }
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
        uses.check(call, &self.inner.context, "Blas")
    }

    /// Fails for a stream of another context.
    #[inline]
    pub(crate) fn is_own(&self, call: &'static str, stream: &Stream) -> Result<()> {
        is_own(call, stream, &self.inner.context, "Blas")
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

/// Fails for a batch, where there is one matrix.
pub(crate) fn one(call: &'static str, argument: &'static str, batch: usize) -> Result<()> {
    if batch == 1 {
        return Ok(());
    }
    let message = format!("is a batch of {batch} matrices; the call takes one");
    Err(Error::invalid(call, argument, message))
}
