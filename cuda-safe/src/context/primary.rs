//! The primary context of a device.

use std::sync::Arc;

use super::{Context, ContextInner, Owner};
use crate::device::Device;
use crate::error::Result;

impl Context {
    /// Returns the primary context of a device; retained at the first call and shared afterwards.
    fn primary(device: Device) -> Result<Self> {
        device.state().look_after_primary()?;
        let state = device.state();
        state.usable()?;
        let mut primary = state.primary.lock()?;
        if let Some(Ok(inner)) = primary.clone().map(Arc::downcast) {
            return Ok(Self { inner });
        }
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a valid place for a handle and the device comes from the driver.
        unsafe { call!(state, cuDevicePrimaryCtxRetain(&raw mut raw, state.raw)) }?;
        // SAFETY: the context was retained above.
        let id = unsafe { state.id_of(raw) };
        match id.and_then(|id| Ok((id, ContextInner::new(device, raw, Owner::Primary)?))) {
            Ok((id, inner)) => {
                let inner = Arc::new(inner);
                state.watch.begin(id)?;
                *primary = Some(inner.clone());
                Ok(Self { inner })
            }
            Err(error) => {
                if state.is_usable() {
                    // SAFETY: gives back the retain made above.
                    let _ = unsafe { state.sys.cuDevicePrimaryCtxRelease_v2(state.raw) };
                }
                Err(error)
            }
        }
    }
}

impl Device {
    /// Returns the device's primary context, retained at the first call and shared by all callers.
    ///
    /// # Errors
    /// The error that the driver returns, or the error by which the process lost the device.
    #[doc(alias = "cuDevicePrimaryCtxRetain")]
    pub fn context(&self) -> Result<Context> {
        Context::primary(*self)
    }

    /// Returns the range of stream priorities that the device distinguishes: least and most urgent. A lower number is
    /// more urgent; both are 0 on devices without priorities.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuCtxGetStreamPriorityRange")]
    pub fn stream_priorities(&self) -> Result<(i32, i32)> {
        let context = self.context()?;
        let (mut least, mut greatest) = (0, 0);
        context.inner().with_current(|| {
            // SAFETY: both are valid places for an int, and a context of the device is current.
            let result = unsafe {
                self.driver()
                    .as_sys()
                    .cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest)
            };
            self.state().answer("cuCtxGetStreamPriorityRange", result)
        })?;
        Ok((least, greatest))
    }
}
