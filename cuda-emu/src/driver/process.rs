//! The state of the driver: one per process.

use std::io::Write;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use cuda_sys::CUresult;

use super::bridge::{DeviceInfo, device_info};
use super::call::{Answer, watch_fork};
use super::objects::Objects;
use super::stream::engine::{self, Engine, NO_CONTEXT};
use crate::config::Config;
use crate::space::Space;

/// The driver's state.
pub(super) struct Process {
    pub(super) config: &'static Config,
    pub(super) space: Arc<Space>,
    pub(super) devices: Vec<DeviceInfo>,
    state: Mutex<State>,
    /// Told when there is work.
    pub(super) work: Condvar,
    /// Told when work is done.
    pub(super) done: Condvar,
    /// The code that every call returns after a fault; 0 before.
    lost: AtomicI32,
    /// Output that kernels have printed since the last synchronisation.
    printed: Mutex<Vec<u8>>,
    report: Mutex<Option<String>>,
    /// What graphs have had of each device's memory.
    pub(super) graph_bytes: Vec<GraphBytes>,
    /// Arrays, textures and surfaces.
    pub(super) images: super::texture::Images,
}

/// The bytes of a device's memory that graphs have had.
#[derive(Debug, Default)]
pub(super) struct GraphBytes {
    /// The most that were in use since this was reset.
    pub(super) used_high: AtomicU64,
    /// The most that were in use since the memory was trimmed: a driver keeps what a graph has freed.
    pub(super) reserved: AtomicU64,
    /// The most that were reserved since this was reset.
    pub(super) reserved_high: AtomicU64,
}

impl GraphBytes {
    /// Notes what is in use now.
    pub(super) fn note(&self, used: u64) {
        for bytes in [&self.used_high, &self.reserved, &self.reserved_high] {
            bytes.fetch_max(used, Ordering::Relaxed);
        }
    }
}

/// The state behind the lock.
#[derive(Default)]
pub(super) struct State {
    pub(super) objects: Objects,
    pub(super) engine: Engine,
}

/// The state, locked.
pub(super) type Locked<'a> = MutexGuard<'a, State>;

static PROCESS: OnceLock<Result<Process, CUresult>> = OnceLock::new();

/// Returns the state, if `cuInit` has succeeded.
pub(super) fn initialised() -> Option<&'static Process> {
    PROCESS.get()?.as_ref().ok()
}

/// Returns the memory of the devices, if `cuInit` has succeeded.
pub(crate) fn space() -> Option<&'static Space> {
    Some(&initialised()?.space)
}

/// Does the work of `cuInit`.
pub(super) fn initialise() -> Answer {
    match PROCESS.get_or_init(Process::new) {
        Ok(process) => {
            static STARTED: OnceLock<Answer> = OnceLock::new();
            *STARTED.get_or_init(|| {
                watch_fork();
                if process.config.checks.leak {
                    super::leaks::watch_exit();
                }
                engine::start(process)
            })
        }
        Err(code) => Err(*code),
    }
}

impl Process {
    fn new() -> Answer<Self> {
        let config = Config::active();
        let devices: Vec<DeviceInfo> = (0..)
            .zip(visible(config.devices))
            .map(|(ordinal, _)| device_info(config, ordinal))
            .collect();
        if devices.is_empty() {
            return Err(CUresult::CUDA_ERROR_NO_DEVICE);
        }
        let space = Space::new().map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        space.set_limit(config.memory);
        if config.checks.init {
            space.note_writes();
        }
        crate::run::note_process(config.taint && !config.tangents, config.checks);
        if config.tangents || config.taint {
            space.track_tangents();
        }
        let graph_bytes = devices.iter().map(|_| GraphBytes::default()).collect();
        let state = State { objects: Objects::new(devices.len()), engine: Engine::new(config) };
        Ok(Self {
            config,
            space,
            devices,
            state: Mutex::new(state),
            work: Condvar::new(),
            done: Condvar::new(),
            lost: AtomicI32::new(0),
            printed: Mutex::new(Vec::new()),
            report: Mutex::new(None),
            graph_bytes,
            images: super::texture::Images::default(),
        })
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state, unless another thread has it.
    pub(super) fn try_lock(&self) -> Option<Locked<'_>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Fails with the fault's code once there was one.
    pub(super) fn usable(&self) -> Answer {
        match self.lost.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(CUresult(code as _)),
        }
    }

    /// Takes note of a fault: the first one counts. Its report goes to standard error.
    pub(super) fn lose(&self, code: CUresult, report: String) {
        let mut first = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            self.flush();
            eprintln!("cuda-emu: {code}: {report}");
            crate::run::note_fault(&format!("{code}: {report}"));
            *first = Some(report);
            // Last, so that a thread that sees the code finds the report.
            self.lost.store(code.0 as _, Ordering::Release);
        }
    }

    /// Returns the report of the fault, if there was one.
    pub(super) fn report(&self) -> Option<String> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the device with this number.
    pub(super) fn device(&self, device: i32) -> Answer<(u32, &DeviceInfo)> {
        let ordinal = u32::try_from(device).map_err(|_| CUresult::CUDA_ERROR_INVALID_DEVICE)?;
        let info = self.devices.get(ordinal as usize);
        Ok((ordinal, info.ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?))
    }

    /// Keeps a kernel's output until the next synchronisation.
    pub(super) fn print(&self, bytes: &[u8]) {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
    }

    /// Writes what kernels have printed to file descriptor 1.
    pub(super) fn flush(&self) {
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        if printed.is_empty() {
            return;
        }
        // The report comes after the program's own output, and past its captures of Rust's stdout.
        let _ = std::io::stdout().flush();
        // SAFETY: flushes the C library's streams, which takes their locks.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        let mut rest = printed.as_slice();
        while !rest.is_empty() {
            // SAFETY: `rest` is valid for the read of its length.
            let count = unsafe { libc::write(1, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(count) {
                Ok(count) if count > 0 => rest = &rest[count.min(rest.len())..],
                _ if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
                // The error is ignored: output that cannot be written is lost, as with any closed stdout.
                _ => break,
            }
        }
        printed.clear();
    }
}

/// Begins anew with another seed, or as the eager engine: from here on the same calls give the
/// same order, as in a new process, and [`interleaving`](crate::interleaving) begins anew. See
/// [`Config::seed`]. Returns whether it did: only after `cuInit`, while no work is enqueued and no stream captures, and
/// before a fault. Waits for destructors of user objects, for which no call of the driver waits.
pub fn reseed(seed: Option<u64>) -> bool {
    let Some(process) = initialised() else { return false };
    let mut state = process.lock();
    let destructors = state.engine.pending(Some(NO_CONTEXT));
    if !destructors.is_empty() && destructors.len() == state.engine.pending(None).len() {
        let Ok(waited) = process.wait_for(state, &destructors) else { return false };
        state = waited;
    }
    process.usable().is_ok() && state.objects.captures.len() == 0 && state.engine.reseed(seed)
}

/// Returns the devices that `CUDA_VISIBLE_DEVICES` leaves: the list ends at the first that there is not.
fn visible(count: u32) -> Vec<u32> {
    let all = (0..count).collect();
    let Some(listed) = std::env::var_os("CUDA_VISIBLE_DEVICES") else { return all };
    let listed = listed.to_string_lossy();
    let ordinals = listed.split(',').map(|text| text.trim().parse().ok());
    ordinals.map_while(|ordinal| ordinal.filter(|ordinal| *ordinal < count)).collect()
}
