//! A retain of the primary context beside the library's: whatever a run leaves behind in the context
//! would vanish with the last one. With it the ledger shows streams, events, modules and memory that
//! nobody gave back, and a release too many.

use cuda_emu::{Ledger, ledger};
use cuda_sys::{CUdevice, CUresult, Driver};

use crate::{Failure, TestResult, ensure_eq};

pub(super) struct Keeper {
    sys: &'static Driver,
    device: CUdevice,
    /// What is alive when nothing of a run is.
    pub(super) empty: Ledger,
}

impl Keeper {
    pub(super) fn new() -> Result<Self, Failure> {
        let sys = cuda_emu::driver();
        let mut device = 0;
        // SAFETY: cuInit has no precondition.
        ensure_eq!(unsafe { sys.cuInit(0) }?, CUresult::CUDA_SUCCESS);
        // SAFETY: `device` is a valid place for a CUdevice.
        ensure_eq!(unsafe { sys.cuDeviceGet(&raw mut device, 0) }?, CUresult::CUDA_SUCCESS);
        let mut keeper = Self { sys, device, empty: Ledger::default() };
        keeper.retain()?;
        keeper.empty = ledger();
        Ok(keeper)
    }

    fn retain(&self) -> TestResult {
        let mut context = std::ptr::null_mut();
        // SAFETY: `context` is a valid place for a handle and the device is the driver's.
        let answer = unsafe { self.sys.cuDevicePrimaryCtxRetain(&raw mut context, self.device) };
        ensure_eq!(answer?, CUresult::CUDA_SUCCESS);
        Ok(())
    }

    /// Frees what was left in the context. Whether nothing is left then.
    pub(super) fn clear(&self) -> bool {
        // SAFETY: gives back the retain of this keeper; no run is under way.
        let answer = unsafe { self.sys.cuDevicePrimaryCtxRelease_v2(self.device) };
        answer == Ok(CUresult::CUDA_SUCCESS) && self.retain().is_ok() && ledger() == self.empty
    }
}
