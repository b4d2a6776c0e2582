//! One call of cuBLAS: its memory, its checks, its handle, and its enqueue.

use cuda_safe::sys::{CUresult, CUstream};
use cuda_safe::{Access, Context, Stream};
use cuda_sys::MissingSymbol;
use cuda_sys::cublas::{Cublas, cublasHandle_t, cublasPointerMode_t, cublasStatus_t};

use super::Blas;
use super::pool::Handle;
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
    #[inline]
    pub(crate) unsafe fn enqueue(
        &self,
        call: &'static str,
        stream: &Stream,
        pointers: Pointers,
        uses: &Uses<'_>,
        function: impl FnOnce(&Cublas, cublasHandle_t) -> Status,
    ) -> Result<()> {
        let library = self.inner.library;
        let (functions, id) = (library.as_sys(), stream.id());
        // SAFETY: the closure calls cuBLAS alone, with a handle that belongs to the context, which is current, and to this
        // call; the workspace is among the uses. The caller promises the rest.
        let status = unsafe {
            self.submit(
                call,
                stream,
                Needs { handle: true, workspace: true },
                uses,
                |raw, handle, space| {
                    let Some(handle) = handle else {
                        return Ok(cublasStatus_t::CUBLAS_STATUS_NOT_INITIALIZED);
                    };
                    let status = match handle.bind(functions, id, raw, space, pointers) {
                        Ok(cublasStatus_t::CUBLAS_STATUS_SUCCESS) => {
                            function(functions, handle.raw())
                        }
                        failed => failed,
                    };
                    if !matches!(status, Ok(cublasStatus_t::CUBLAS_STATUS_SUCCESS)) {
                        handle.forget();
                    }
                    status
                },
            )
        }?;
        match status {
            Ok(cublasStatus_t::CUBLAS_STATUS_SUCCESS) => Ok(()),
            Ok(status) => Err(failed(&self.inner.context, call, status)),
            Err(missing) => Err(library.lacks(call, missing.name)),
        }
    }

    /// Enqueues what `function` calls, which uses this memory, and gets the stream, a handle and the address and bytes of a
    /// workspace.
    ///
    /// # Safety
    /// `function` calls the library alone, with the stream and the handle; the work uses the workspace, and device memory as
    /// `uses` says.
    #[inline]
    pub(crate) unsafe fn submit(
        &self,
        call: &'static str,
        stream: &Stream,
        needs: Needs,
        uses: &Uses<'_>,
        function: impl FnOnce(CUstream, Option<&mut Handle>, Option<(u64, usize)>) -> Status,
    ) -> Result<Status> {
        let inner = &*self.inner;
        cuda_safe::check_caller()?;
        self.is_own(call, stream)?;
        self.may_use(call, uses)?;
        let mut lease = inner.lease(stream, needs)?;
        let (handle, workspace) = lease.parts();
        let space = workspace.map(|buffer| (buffer.device_ptr(), buffer.size_bytes()));
        let uses = WithWorkspace { uses, workspace };
        let run = || {
            // SAFETY: the caller's promise. The workspace is among the uses.
            unsafe { stream.enqueue(uses, |raw| function(raw, handle, space)) }
        };
        let status = match inner.is_current()? {
            true => run(),
            false => inner.context.with_current(run),
        };
        Ok(status?)
    }
}

/// What a call takes from the pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    pub(crate) handle: bool,
    pub(crate) workspace: bool,
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
pub(crate) fn failed(context: &Context, call: &'static str, status: cublasStatus_t) -> Error {
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
