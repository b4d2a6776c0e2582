//! The knobs of the software device: by this builder, or by environment variables.

mod env;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use cuda_sys::CUresult;

use crate::profile::Profile;

/// The n-th call of a function fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The function's name, with or without its version: `cuMemAlloc` or `cuMemAlloc_v2`.
    pub name: String,
    /// The number of the call, from 1; 0 is every call.
    pub nth: u64,
    /// The code that the call returns. The call has no effect.
    pub code: CUresult,
}

impl Failure {
    /// Returns whether this call of the function with this exported name is meant.
    pub(crate) fn fits(&self, name: &str, count: u64) -> bool {
        let named = self.name == name || self.name == base(name);
        named && (self.nth == 0 || self.nth == count)
    }
}

/// Returns a name without its version: `cuMemAlloc` for `cuMemAlloc_v2`.
fn base(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((base, version)) if version.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => name,
    }
}

/// Contraction: the treatment of a bare float `mul` whose result only a bare `add` or `sub` uses. The PTX manual leaves
/// it to ptxas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Contraction {
    /// Both are rounded.
    #[default]
    Never,
    /// They become one `fma`, where both are in one basic block under one guard. ptxas's choice of pairs is not
    /// documented: a GPU may still differ in the last bit.
    Always,
}

/// The optional checks of kernels and of the program; none unless set.
///
/// A checker writes its findings to standard error and keeps them for [`findings`](crate::findings). The calls of the
/// driver return the same values.
///
/// A race may be missed, but none is invented, and so with the other two. Not checked are:
/// - races between launches, and with the host;
/// - the scopes of fences and atomics: `.cta` orders between blocks, too;
/// - races in the shared memory that each block has for the system: `cooperative_groups.h` keeps its tiles there;
/// - local memory, parameters, and arrays that the host has registered, pinned or managed: its own writes
///   are not seen, so those count as written;
/// - of a word that many use without order, more than the last 16 accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checks {
    /// Two accesses of shared or device memory by one launch, of which one writes, and that no barrier, fence,
    /// atomic or wait orders. Relaxed, volatile and atomic accesses don't race with each other, nor do writes of
    /// one value. Launches then run on one worker.
    pub race: bool,
    /// Reads of device or shared memory that nothing has written: by kernels, and by copies to the host.
    pub init: bool,
    /// Leaks of a context when it is destroyed, and of the process when it ends: memory, streams, events, modules,
    /// graphs and contexts, with the calls that created them. When the process ends, primary contexts, libraries and
    /// pools are no leaks, nor is what takes no device memory and belongs to a primary context: a program may keep it
    /// for as long as it lives.
    pub leak: bool,
}

/// The properties and the behaviour of the software device.
///
/// The configuration counts from the process's first call of the driver on; what is set later has
/// no effect. [`Config::from_env`] is what counts if nothing is installed.
#[derive(Debug, Clone)]
pub struct Config {
    pub(crate) devices: u32,
    pub(crate) profile: Option<Profile>,
    pub(crate) ptx_isa: (u16, u16),
    pub(crate) compute_capability: (u32, u32),
    pub(crate) multiprocessors: u32,
    pub(crate) workers: usize,
    pub(crate) timeout: Option<Duration>,
    pub(crate) seed: Option<u64>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) log: Option<PathBuf>,
    pub(crate) memory: u64,
    pub(crate) heap: u64,
    pub(crate) stack: u32,
    pub(crate) contraction: Contraction,
    pub(crate) checks: Checks,
    pub(crate) tangents: bool,
    pub(crate) report: bool,
    pub(crate) report_folder: Option<PathBuf>,
    pub(crate) taint: bool,
}

static INSTALLED: Mutex<Option<Config>> = Mutex::new(None);
static ACTIVE: OnceLock<Config> = OnceLock::new();

impl Default for Config {
    fn default() -> Self {
        Self {
            devices: 1,
            profile: None,
            ptx_isa: (9, 0),
            compute_capability: (9, 0),
            multiprocessors: 132,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            timeout: None,
            seed: None,
            failures: Vec::new(),
            log: None,
            memory: default_memory(),
            heap: 8 << 20,
            stack: 16 << 10,
            contraction: Contraction::Never,
            checks: Checks::default(),
            tangents: false,
            report: false,
            report_folder: None,
            taint: false,
        }
    }
}

impl Config {
    /// Returns the defaults, ignoring the environment.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes this the process's configuration, before the first call of the driver. Returns `false`, without an effect,
    /// after that call.
    pub fn install(self) -> bool {
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        *installed = Some(self);
        ACTIVE.get().is_none()
    }

    /// Returns the configuration that counts, from now on for ever.
    pub(crate) fn active() -> &'static Self {
        ACTIVE.get_or_init(|| {
            let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
            installed.take().unwrap_or_else(Self::from_env)
        })
    }

    /// Returns the configuration that counts, if a call of the driver has fixed it.
    pub(crate) fn fixed() -> Option<&'static Self> {
        ACTIVE.get()
    }

    /// Sets the number of devices, at most 64; 1 unless set.
    #[must_use]
    pub fn devices(mut self, count: u32) -> Self {
        self.devices = count.min(MAX_DEVICES);
        self
    }

    /// Gives the devices the name, compute capability, limits, multiprocessors and clocks of a GPU. Their memory is the
    /// GPU's, but at most half of the machine's. Later calls of [`compute_capability`](Self::compute_capability),
    /// [`multiprocessors`](Self::multiprocessors) and [`memory`](Self::memory) replace these values. Unless this is called,
    /// a device has the limits of an H200, and half of the machine's memory.
    #[must_use]
    pub fn device(mut self, profile: Profile) -> Self {
        self.profile = Some(profile);
        self.compute_capability = profile.compute_capability();
        self.multiprocessors = profile.multiprocessors();
        self.memory = profile.memory().min(default_memory());
        self
    }

    /// Sets the newest version of the PTX ISA that the devices take; 9.0 unless set, as a driver of CUDA 13.0. Texts of a
    /// newer version load then, but the device knows no instruction that is newer than 9.0.
    #[must_use]
    pub fn ptx_isa(mut self, major: u16, minor: u16) -> Self {
        self.ptx_isa = (major, minor);
        self
    }

    /// Sets the number of multiprocessors that the devices report, from 1 to 1,024; 132 unless set. It changes how many
    /// blocks a cooperative launch may have, and so how long a kernel takes here that fills the device.
    #[must_use]
    pub fn multiprocessors(mut self, count: u32) -> Self {
        self.multiprocessors = count.clamp(1, MAX_MULTIPROCESSORS);
        self
    }

    /// Sets the compute capability that the devices report; 9.0 unless set.
    #[must_use]
    pub fn compute_capability(mut self, major: u32, minor: u32) -> Self {
        self.compute_capability = (major, minor);
        self
    }

    /// Sets the number of host threads that run a kernel's blocks; all cores unless set.
    #[must_use]
    pub fn workers(mut self, count: usize) -> Self {
        self.workers = count.max(1);
        self
    }

    /// Sets how long a kernel may run before it fails with `CUDA_ERROR_LAUNCH_TIMEOUT`; for ever unless
    /// set.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Makes the streams adversarial: work waits until the host waits for something, and then runs
    /// in an order that is legal and drawn from the seed. The same calls with the same seed give
    /// the same order.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Makes a call of a function fail.
    #[must_use]
    pub fn fail(mut self, name: &str, nth: u64, code: CUresult) -> Self {
        self.failures.push(Failure { name: name.to_owned(), nth, code });
        self
    }

    /// Writes a line per call to a file.
    #[must_use]
    pub fn log(mut self, path: impl Into<PathBuf>) -> Self {
        self.log = Some(path.into());
        self
    }

    /// Sets the memory of each device, in bytes; half of the machine's unless set.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes.max(1);
        self
    }

    /// Sets the size of the heap of the kernels' `malloc`, in bytes, until `cuCtxSetLimit` changes it.
    #[must_use]
    pub fn heap(mut self, bytes: u64) -> Self {
        self.heap = bytes;
        self
    }

    /// Sets the size of each thread's stack, in bytes, until `cuCtxSetLimit` changes it.
    #[must_use]
    pub fn stack(mut self, bytes: u32) -> Self {
        self.stack = bytes;
        self
    }

    /// Sets whether bare float multiplications and additions are fused; never unless set.
    #[must_use]
    pub fn contraction(mut self, contraction: Contraction) -> Self {
        self.contraction = contraction;
        self
    }

    /// Sets whether kernels propagate tangents ([`Tangents`](crate::Tangents)), which makes them some ten times slower; not
    /// unless set.
    #[must_use]
    pub fn tangents(mut self, track: bool) -> Self {
        self.tangents = track;
        self
    }

    /// Sets whether the process records what it does ([`run_report`](crate::run_report)): launches and their time,
    /// instructions by kind, findings, faults, and calls that fail; not unless set. Kernels are a little slower then.
    #[must_use]
    pub fn report(mut self, report: bool) -> Self {
        self.report = report;
        self
    }

    /// Records as [`report`](Self::report) does, and writes the report into a file of the folder, which must exist, as it
    /// comes: it is there however the process ends. [`RunReport::read`](crate::RunReport::read) reads the reports of all
    /// processes that wrote into the folder.
    #[must_use]
    pub fn report_to(mut self, folder: impl Into<PathBuf>) -> Self {
        self.report = true;
        self.report_folder = Some(folder.into());
        self
    }

    /// Sets whether kernels follow values that depend on approximate instructions: the report says where one decides a
    /// branch, an address or an integer; not unless set. It turns [`report`](Self::report) on, and is ignored if
    /// [`tangents`](Self::tangents) is set. One worker then runs each kernel, some thirty times slower if the kernel has
    /// approximate instructions. Values that pass through the host's arithmetic are not followed.
    #[must_use]
    pub fn taint(mut self, follow: bool) -> Self {
        self.taint = follow;
        self.report |= follow;
        self
    }

    /// Returns whether a report is asked for.
    pub(crate) fn reports(&self) -> bool {
        self.report
    }

    /// Returns the folder for the report.
    pub(crate) fn report_folder(&self) -> Option<&Path> {
        self.report_folder.as_deref()
    }

    /// Sets the checks; none unless set. [`findings`](crate::findings) returns what they find.
    #[must_use]
    pub fn check(mut self, checks: Checks) -> Self {
        self.checks = checks;
        self
    }
}

/// More would have no distinct PCI address.
const MAX_DEVICES: u32 = 64;

/// A device has at most as many multiprocessors.
const MAX_MULTIPROCESSORS: u32 = 1024;

/// Half of the machine's memory, in whole GiB, 1 at the least.
fn default_memory() -> u64 {
    // SAFETY: sysconf only reads a setting.
    let (pages, page) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let all = u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(page).unwrap_or(0));
    ((all / 2) >> 30).max(1) << 30
}

#[cfg(test)]
mod tests {
    use super::Config;

    #[test]
    fn the_builder_keeps_within_bounds() {
        let config = Config::new().devices(1000).workers(0).memory(0);
        assert_eq!((config.devices, config.workers, config.memory), (64, 1, 1));
    }
}
