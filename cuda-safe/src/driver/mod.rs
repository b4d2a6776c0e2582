//! A loaded and initialised driver, and the state that all its users share.

mod generation;

use std::any::Any;
use std::ffi::{CStr, c_void};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_sys::{CUdevice, CUresult, MissingSymbol};

use generation::Watch;
pub(crate) use generation::Watching;

use crate::caller;
use crate::device::Device;
use crate::error::{Error, LaunchRecord, Result, is_context_code, is_fatal_code};
use crate::sync::{Lock, Once};
use crate::trace::event;

/// A CUDA driver, loaded and initialised.
///
/// Copying it is free. Several drivers (the system's, a software device, a table made by a test)
/// can live in one process; none is ever unloaded.
#[derive(Clone, Copy)]
pub struct Driver {
    shared: &'static Shared,
}

struct Shared {
    sys: &'static cuda_sys::Driver,
    devices: Box<[DeviceState]>,
}

/// State that all contexts of one device share, for the life of the process unless other code destroys the primary
/// context.
pub(crate) struct DeviceState {
    pub(crate) sys: &'static cuda_sys::Driver,
    pub(crate) ordinal: usize,
    pub(crate) raw: CUdevice,
    /// Set once `fatal` is: one load on the hot path instead of a lock.
    lost: AtomicBool,
    fatal: Once<Error>,
    /// The primary context, retained once and kept: releasing it would wait for the device.
    pub(crate) primary: Lock<Option<AnyContext>>,
    /// The holders that need the primary context to stay; see `generation.rs`.
    pub(crate) watch: Watch,
    /// The state that replaced this one after other code destroyed the primary context.
    pub(crate) next: Once<&'static DeviceState>,
}

/// A `ContextInner`, of which nothing is known here.
pub(crate) type AnyContext = Arc<dyn Any + Send + Sync>;

/// Drivers made so far, so that asking twice for one table shares contexts and fatal errors.
static DRIVERS: Lock<Vec<&'static Shared>> = Lock::new(Vec::new());

impl Driver {
    /// Loads and initialises the default driver: the library that the environment variable
    /// `CUDA_DRIVER` names if it is set, else the system's.
    ///
    /// # Errors
    /// [`ErrorKind::MissingLibrary`](crate::ErrorKind::MissingLibrary) lists every name tried;
    /// otherwise the error that `cuInit` returns, such as `CUDA_ERROR_NO_DEVICE`.
    pub fn load() -> Result<Self> {
        // The table is made under a lock.
        caller::may_call()?;
        Self::from_sys(cuda_sys::Driver::load()?)
    }

    /// Loads and initialises the driver at `path`.
    ///
    /// [`Driver::load`] with the environment variable `CUDA_DRIVER` set to the path needs no `unsafe`.
    ///
    /// # Errors
    /// As [`Driver::load`].
    ///
    /// # Safety
    /// - The library's initialisers, and those of the libraries that it needs, may run in this process: they have no
    ///   preconditions, and they do not end or corrupt the process.
    /// - The library is a CUDA driver: each function that it exports under a name of `cuda.h` has the C ABI of the
    ///   header and does what the driver's function does.
    pub unsafe fn load_from(path: impl AsRef<Path>) -> Result<Self> {
        // SAFETY: the caller's promises include those of the raw function.
        let sys = unsafe { cuda_sys::Driver::load_from(path) };
        Self::from_sys(sys?)
    }

    /// Initialises a driver from its table of functions, such as a software device's.
    ///
    /// # Errors
    /// The error that `cuInit` or the enumeration of devices returns.
    #[doc(alias = "cuInit")]
    pub fn from_sys(sys: &'static cuda_sys::Driver) -> Result<Self> {
        caller::may_call()?;
        let mut drivers = DRIVERS.lock()?;
        if let Some(shared) = drivers.iter().find(|shared| std::ptr::eq(shared.sys, sys)) {
            return Ok(Self { shared });
        }
        caller::watch_fork();
        // SAFETY: cuInit has no precondition.
        answer("cuInit", unsafe { sys.cuInit(0) })?;
        let mut count = 0;
        // SAFETY: `count` is a valid place for an int.
        answer("cuDeviceGetCount", unsafe { sys.cuDeviceGetCount(&raw mut count) })?;
        let devices = (0..count)
            .map(|ordinal| {
                let mut raw = 0;
                // SAFETY: `raw` is a valid place for a CUdevice.
                answer("cuDeviceGet", unsafe { sys.cuDeviceGet(&raw mut raw, ordinal) })?;
                Ok(DeviceState::new(sys, usize::try_from(ordinal).unwrap_or(0), raw))
            })
            .collect::<Result<Box<[_]>>>()?;
        // Leaked on purpose: contexts, streams and buffers refer to it for the process's life.
        let shared: &'static Shared = Box::leak(Box::new(Shared { sys, devices }));
        drivers.push(shared);
        Ok(Self { shared })
    }

    /// Returns the raw table, for driver functions that this crate does not wrap.
    #[must_use]
    pub fn as_sys(&self) -> &'static cuda_sys::Driver {
        self.shared.sys
    }

    /// Returns whether this driver exports `name`, such as `"cuLaunchKernelEx"`.
    #[must_use]
    pub fn supports(&self, name: &str) -> bool {
        self.shared.sys.supports(name)
    }

    /// Returns the address of a function that this driver has beside those of `cuda.h`, such as one of a software device;
    /// null if it has none of this name. [`Error::driver`] makes errors of its return codes.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuGetProcAddress")]
    pub fn extension(&self, name: &CStr) -> Result<*const c_void> {
        let version = self.version()?;
        let (name, mut address) = (name.as_ptr(), std::ptr::null_mut());
        let (sys, place) = (self.shared.sys, &raw mut address);
        // SAFETY: the name ends in NUL, `address` is valid for the write, and no status is wanted.
        let newer =
            unsafe { sys.cuGetProcAddress_v2(name, place, version, 0, std::ptr::null_mut()) };
        let found = match newer {
            // SAFETY: as above.
            Err(_) => unsafe { sys.cuGetProcAddress(name, place, version, 0) },
            known => known,
        };
        match found {
            Ok(CUresult::CUDA_ERROR_NOT_FOUND) | Err(_) => Ok(std::ptr::null()),
            other => answer("cuGetProcAddress", other).map(|()| address.cast_const()),
        }
    }

    /// Returns whether this is a software device, such as that of the crate `cuda-emu`.
    pub(crate) fn is_software(&self) -> Result<bool> {
        Ok(!self.extension(c"cuEmuTangentsSet")?.is_null())
    }

    /// Returns the newest CUDA version that the driver supports, as 1000 × major + 10 × minor.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuDriverGetVersion")]
    pub fn version(&self) -> Result<i32> {
        caller::may_call()?;
        let mut version = 0;
        // SAFETY: `version` is a valid place for an int.
        let result = unsafe { self.shared.sys.cuDriverGetVersion(&raw mut version) };
        answer("cuDriverGetVersion", result)?;
        Ok(version)
    }

    /// Returns the number of devices that `CUDA_VISIBLE_DEVICES` leaves visible.
    #[must_use]
    pub fn device_count(&self) -> usize {
        self.shared.devices.len()
    }

    /// Returns the device with this ordinal, from 0.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if there is no such device.
    #[doc(alias = "cuDeviceGet")]
    pub fn device(&self, ordinal: usize) -> Result<Device> {
        match self.shared.devices.get(ordinal) {
            Some(state) => Ok(Device::new(*self, state)),
            None => Err(Error::invalid(format!(
                "there is no device {ordinal}: the driver shows {}",
                self.shared.devices.len()
            ))
            .with_hint("CUDA_VISIBLE_DEVICES may hide devices")),
        }
    }

    /// Returns all visible devices.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = Device> + use<> {
        let driver = *self;
        self.shared.devices.iter().map(move |state| Device::new(driver, state))
    }

    /// Turns the return code of a call whose device is not known yet into a result. A fatal one is
    /// remembered for all devices: it may be any of them.
    pub(crate) fn answer_for_any(
        &self,
        call: &'static str,
        result: Result<CUresult, MissingSymbol>,
    ) -> Result<()> {
        answer(call, result).inspect_err(|error| {
            if error.code().is_some_and(is_fatal_code) {
                for state in &self.shared.devices {
                    state.newest().lose(error.clone());
                }
            }
        })
    }

    pub(crate) fn find_raw(&self, raw: CUdevice) -> Option<Device> {
        self.devices().find(|device| device.as_raw() == raw)
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("source", &self.shared.sys.source().to_string())
            .field("devices", &self.shared.devices.len())
            .finish()
    }
}

impl PartialEq for Driver {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.shared, other.shared)
    }
}

impl Eq for Driver {}

impl DeviceState {
    pub(crate) fn new(sys: &'static cuda_sys::Driver, ordinal: usize, raw: CUdevice) -> Self {
        Self {
            sys,
            ordinal,
            raw,
            lost: AtomicBool::new(false),
            fatal: Once::new(),
            primary: Lock::new(None),
            watch: Watch::default(),
            next: Once::new(),
        }
    }

    #[inline]
    pub(crate) fn sys(&self) -> &'static cuda_sys::Driver {
        self.sys
    }

    /// Returns the first fatal error.
    pub(crate) fn fatal(&self) -> Option<&Error> {
        self.fatal.get()
    }

    /// Fails if the device may not be asked: it was lost to a fatal error or forked away, or the caller is a
    /// subscriber of `tracing` or a host function.
    #[inline]
    pub(crate) fn usable(&self) -> Result<()> {
        if !self.is_usable() { Err(self.why_unusable()) } else { Ok(()) }
    }

    /// Fails if the other device is shown by another driver, which knows none of our handles.
    pub(crate) fn same_driver(&self, other: &Self) -> Result<()> {
        if std::ptr::eq(self.sys, other.sys) {
            return Ok(());
        }
        Err(Error::invalid("the two belong to different drivers"))
    }

    #[inline]
    pub(crate) fn is_usable(&self) -> bool {
        !self.lost.load(Ordering::Relaxed) && caller::is_free()
    }

    #[cold]
    fn why_unusable(&self) -> Error {
        if !caller::is_free() {
            return caller::refused();
        }
        match self.fatal.get() {
            Some(error) => error.clone(),
            // `lost` is raised after `fatal` is set; a thread that sees one before the other
            // still gets an error that is true.
            None => Error::driver("(an earlier call)", CUresult::CUDA_ERROR_UNKNOWN),
        }
    }

    /// Returns whether what is dropped now may be left to a deferred-free list: the device is not lost, and the caller is
    /// the program or a host function.
    pub(crate) fn may_defer(&self) -> bool {
        !self.lost.load(Ordering::Relaxed) && caller::may_drop().is_ok()
    }

    /// Turns the driver's return code into a result, remembering the first fatal one for all.
    #[inline]
    pub(crate) fn answer(
        &self,
        call: &'static str,
        result: Result<CUresult, MissingSymbol>,
    ) -> Result<()> {
        match result {
            Ok(CUresult::CUDA_SUCCESS) => Ok(()),
            other => Err(self.failed(call, other, Vec::new)),
        }
    }

    /// Returns the error for a result that is not success; `launches` says what may have caused it.
    #[cold]
    pub(crate) fn failed(
        &self,
        call: &'static str,
        result: Result<CUresult, MissingSymbol>,
        launches: impl FnOnce() -> Vec<LaunchRecord>,
    ) -> Error {
        match result {
            Ok(code) if is_fatal_code(code) => {
                let mut error = Error::driver(call, code).with_launches(launches());
                // The usual hint recommends the software device, which this is.
                let addresses =
                    [CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, CUresult::CUDA_ERROR_MISALIGNED_ADDRESS];
                if addresses.contains(&code) && self.is_software() {
                    error = error.with_hint(
                        "the report of the software device on standard error names the thread, the address and the line",
                    );
                }
                // Only the first fatal error counts; later ones repeat it.
                let first = self.fatal.get().is_none();
                self.lose(if first { reported(error) } else { error })
            }
            Ok(code) if is_context_code(code) => {
                if self.is_sound() {
                    return reported(Error::driver(call, code).with_hint(
                        "the device's primary context is unharmed: the call met another one, such \
                         as a destroyed one that is current on this thread, or an adopted one that \
                         its owner destroyed",
                    ));
                }
                self.lose(reported(Error::gone(call, code)))
            }
            Ok(code @ CUresult::CUDA_ERROR_DEINITIALIZED) => {
                self.lose(reported(Error::driver(call, code)))
            }
            Ok(code) if self.is_stale(code) => {
                let gone = Error::gone(call, CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
                self.lose(reported(gone))
            }
            Ok(code) => reported(Error::driver(call, code)),
            Err(missing) => reported(missing.into()),
        }
    }

    /// Returns whether this is a device of the crate `cuda-emu`, by its name.
    fn is_software(&self) -> bool {
        let mut name = [0_u8; 64];
        // SAFETY: the place has the bytes that the call is told, and the device is one of this driver.
        let asked = unsafe { self.sys.cuDeviceGetName(name.as_mut_ptr().cast(), 64, self.raw) };
        matches!(asked, Ok(CUresult::CUDA_SUCCESS)) && name.starts_with(b"CUDA emulator (software)")
    }

    /// Marks the device as lost. Every later call returns the first error.
    #[cold]
    pub(crate) fn lose(&self, error: Error) -> Error {
        // `get_or_init` refuses only callers that have not called the driver.
        let Ok(first) = self.fatal.get_or_init(|| error.clone()) else { return error };
        self.lost.store(true, Ordering::Release);
        first.clone()
    }
}

impl fmt::Debug for DeviceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceState").field("ordinal", &self.ordinal).finish_non_exhaustive()
    }
}

/// Emits an event for an error that the driver returned.
#[cold]
fn reported(error: Error) -> Error {
    event!(ERROR, %error, "the driver returned an error");
    error
}

/// Turns the return code of a call that belongs to no device into a result.
pub(crate) fn answer(call: &'static str, result: Result<CUresult, MissingSymbol>) -> Result<()> {
    match result {
        Ok(CUresult::CUDA_SUCCESS) => Ok(()),
        Ok(code) => Err(reported(Error::driver(call, code))),
        Err(missing) => Err(reported(missing.into())),
    }
}
