//! A driver that logs its calls with their arguments, counts its handles, and fails on request.
//!
//! The functions are the no-op driver's. What they tell goes to the recorder that is installed on
//! the calling thread, so tests that run at the same time don't disturb each other; every driver
//! made here is a table of its own, so a device that one test loses is lost to that test alone.

mod functions;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cuda_sys::{
    CUdevice_attribute, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchConfig, CUresult, Driver,
    noop,
};

/// The most arguments that a driver function has, and one place more: see [`Call::args`].
const MOST_ARGUMENTS: usize = 12;

/// A call that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The exported name.
    pub name: &'static str,
    /// The arguments as numbers. A launch has the first kernel argument, taken as 8 bytes, in the
    /// last place; an extended one has its stream and its attributes behind them.
    pub args: [u64; MOST_ARGUMENTS],
    /// What a successful call that makes something has made.
    pub made: u64,
}

/// Functions that make something, what undoes them, and what they make. The first argument of the
/// first kind, of some the second, is where the handle goes; of the second kind, the handle.
const PAIRS: &[(&str, &str)] = &[
    ("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2"),
    ("cuStreamCreateWithPriority", "cuStreamDestroy_v2"),
    ("cuEventCreate", "cuEventDestroy_v2"),
    ("cuMemPoolCreate", "cuMemPoolDestroy"),
    ("cuMemAllocFromPoolAsync", "cuMemFreeAsync"),
    // Waits for the device where a stream-ordered free could not be ordered.
    ("cuMemAllocFromPoolAsync", "cuMemFree_v2"),
    ("cuMemAlloc_v2", "cuMemFree_v2"),
    ("cuMemHostRegister_v2", "cuMemHostUnregister"),
    ("cuModuleLoadDataEx", "cuModuleUnload"),
    ("cuStreamBeginCapture_v2", "cuStreamEndCapture"),
    ("cuStreamEndCapture", "cuGraphDestroy"),
    ("cuGraphClone", "cuGraphDestroy"),
    ("cuGraphInstantiateWithFlags", "cuGraphExecDestroy"),
];

/// Where a launch's arguments stand among those of the call.
const LAUNCH_ARGUMENTS: usize = 9;

/// The code that is returned from some call on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The number of the call that fails, from 0.
    pub call: usize,
    pub code: CUresult,
    /// Whether all calls of its name after it fail, too.
    pub repeated: bool,
}

/// What a recorder is asked to do besides logging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behaviour {
    /// Whether the device has memory pools.
    pub pools: bool,
    /// Whether the first argument of every launch is a `u64` that names it in the log.
    pub named_launches: bool,
    /// Whether calls give way to other threads at random.
    pub jitter: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self { pools: true, named_launches: false, jitter: false }
    }
}

/// Receives the calls of the threads where it is installed.
#[derive(Debug, Default)]
pub struct Recorder {
    behaviour: Behaviour,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    calls: Vec<Call>,
    /// What was made and is not undone, with the name of the function that made it.
    alive: BTreeMap<(&'static str, u64), usize>,
    /// What was undone without being alive.
    undone_twice: Vec<Call>,
    /// What a failed call should have undone: nobody knows whether it was.
    doubtful: BTreeSet<(&'static str, u64)>,
    fault: Option<Fault>,
    /// The name of the call that failed.
    failed: Option<&'static str>,
    /// Drives the jitter.
    random: u64,
}

/// Who made the streams and events that are alive: threads that the crate makes for itself have no
/// recorder, and what they do with a handle goes to its maker's.
static OWNERS: Mutex<BTreeMap<u64, Weak<Recorder>>> = Mutex::new(BTreeMap::new());

/// What makes and undoes the handles in [`OWNERS`].
const OWNED: &[(&str, &str)] =
    &[("cuStreamCreateWithPriority", "cuStreamDestroy_v2"), ("cuEventCreate", "cuEventDestroy_v2")];

/// The maker of the handle that is the last argument, as a stream or an event is where there is
/// one.
fn owner(args: &[u64]) -> Option<Arc<Recorder>> {
    let owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
    owners.get(args.last()?)?.upgrade()
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Recorder>>> = const { RefCell::new(None) };
}

/// Restores the recorder that was installed before.
pub struct Installed(Option<Arc<Recorder>>);

impl Drop for Installed {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

impl Recorder {
    pub fn new(behaviour: Behaviour) -> Arc<Self> {
        let log = Log { calls: Vec::with_capacity(1 << 12), ..Log::default() };
        Arc::new(Self { behaviour, log: Mutex::new(log) })
    }

    /// Sends this thread's calls to `self` until the answer is dropped.
    #[must_use]
    pub fn install(self: &Arc<Self>) -> Installed {
        Installed(CURRENT.replace(Some(self.clone())))
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calls since the last time, by name.
    pub fn names(&self) -> Vec<&'static str> {
        self.take().into_iter().map(|call| call.name).collect()
    }

    /// The calls since the last time.
    pub fn take(&self) -> Vec<Call> {
        // Room for more, so that logging does not allocate while a test counts allocations.
        std::mem::replace(&mut self.log().calls, Vec::with_capacity(1 << 12))
    }

    /// The number of calls since the last [`take`](Self::take).
    pub fn count(&self) -> usize {
        self.log().calls.len()
    }

    /// Makes a later call fail; its number counts from the last [`take`](Self::take).
    pub fn fail(&self, fault: Option<Fault>) {
        let mut log = self.log();
        log.fault = fault;
        log.failed = None;
    }

    /// The call that was made to fail.
    pub fn failed(&self) -> Option<&'static str> {
        self.log().failed
    }

    /// What was made and not undone, by the name of the function that made it.
    pub fn alive(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for ((name, _), count) in &self.log().alive {
            *counts.entry(*name).or_insert(0) += count;
        }
        counts
    }

    /// What was undone though it was not alive.
    pub fn undone_twice(&self) -> Vec<Call> {
        self.log().undone_twice.clone()
    }
}

/// Makes a driver that lacks the functions in `without`.
pub fn driver_without(without: &[&str]) -> &'static Driver {
    let resolve = |name: &CStr| -> *const c_void {
        let Ok(text) = name.to_str() else { return std::ptr::null() };
        if without.contains(&text) {
            return std::ptr::null();
        }
        let found = functions::find(text);
        if found.is_null() { noop::resolve(name) } else { found }
    };
    // SAFETY: the functions have been assigned to the slots of their names, in this program or in
    // the no-op driver, so the compiler has checked their types; they last as long as the program.
    unsafe { Driver::from_resolver(&resolve) }
}

/// What every function does: tells the recorder of this thread, and then performs the call or
/// fails as asked.
///
/// # Safety
/// `args` are the arguments of a call of `name` that is running.
unsafe fn through(
    name: &'static str,
    args: &[u64],
    perform: impl FnOnce() -> CUresult,
) -> CUresult {
    // While a thread ends it has no recorder any more; nobody asks then.
    let recorder = CURRENT.try_with(|current| current.borrow().clone()).ok().flatten();
    let recorder = recorder.or_else(|| owner(args));
    let Some(recorder) = recorder else { return perform() };
    let behaviour = recorder.behaviour;
    let mut call = Call { name, args: [0; MOST_ARGUMENTS], made: 0 };
    for (place, arg) in call.args.iter_mut().zip(args) {
        *place = *arg;
    }
    if behaviour.named_launches && name == "cuLaunchKernel" {
        let arguments = std::ptr::with_exposed_provenance::<*const u64>(
            usize::try_from(args[LAUNCH_ARGUMENTS]).unwrap_or(0),
        );
        // SAFETY: the launch's arguments are pointers to values, of which the first is a u64: that
        // is what asking for named launches means.
        call.args[MOST_ARGUMENTS - 1] = unsafe { **arguments };
    }
    if name == "cuLaunchKernelEx" {
        // SAFETY: the first argument of this function describes the launch.
        unsafe { describe(&mut call) };
    }
    if behaviour.jitter {
        recorder.give_way();
    }

    let number = {
        let mut log = recorder.log();
        let number = log.calls.len();
        log.calls.push(call);
        if let Some(fault) = log.fault {
            let again = fault.repeated && log.failed == Some(name) && number > fault.call;
            if number == fault.call || again {
                log.failed = Some(name);
                log.undo(&call, true);
                drop(log);
                // What was current before must be again, whatever the call says.
                if name == "cuCtxPopCurrent_v2" {
                    perform();
                }
                return fault.code;
            }
        }
        number
    };
    let code = perform();
    if behaviour.jitter {
        // The call is done, and its caller does not know yet.
        recorder.give_way();
    }
    if code != CUresult::CUDA_SUCCESS {
        return code;
    }
    if name == "cuDeviceGetAttribute" && !behaviour.pools {
        let pools = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        if args[1] == pools.0 as u64 {
            let value =
                std::ptr::with_exposed_provenance_mut::<i32>(usize::try_from(args[0]).unwrap_or(0));
            // SAFETY: the first argument is a valid place for an int; the call has written to it.
            unsafe { *value = 0 };
        }
    }
    let mut log = recorder.log();
    if PAIRS.iter().any(|(make, _)| *make == name) {
        let place = args[usize::from(name == "cuStreamEndCapture")];
        let place = std::ptr::with_exposed_provenance::<u64>(usize::try_from(place).unwrap_or(0));
        let made = match name {
            // Registering makes nothing: the memory is there. A capture goes by its stream.
            "cuMemHostRegister_v2" | "cuStreamBeginCapture_v2" => args[0],
            // SAFETY: the call has succeeded, so it has written a handle or an address, 8 bytes, to
            // the place that its argument names.
            _ => unsafe { *place },
        };
        // The log may have been taken meanwhile, by a host function that the call has run.
        if let Some(call) = log.calls.get_mut(number) {
            call.made = made;
        }
        *log.alive.entry((name, made)).or_insert(0) += 1;
        if OWNED.iter().any(|(make, _)| *make == name) {
            let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
            owners.insert(made, Arc::downgrade(&recorder));
        }
    }
    // The end of a capture does both.
    if OWNED.iter().any(|(_, undo)| *undo == name) {
        OWNERS.lock().unwrap_or_else(PoisonError::into_inner).remove(&args[0]);
    }
    log.undo(&call, false);
    code
}

/// Where the attributes of an extended launch begin among a call's arguments, with their number;
/// each is a place of its own.
pub const ATTRIBUTES: usize = 5;

/// The place that an attribute of an extended launch takes in the log: its number in the upper
/// half, and its value in the lower: 8 bits for each extent of a cluster, or the number itself.
pub fn attribute(id: CUlaunchAttributeID, value: u32) -> u64 {
    u64::from(id.0) << 32 | u64::from(value)
}

/// Puts the stream and the attributes of an extended launch behind its arguments.
///
/// # Safety
/// The first argument is the address of the launch's description.
unsafe fn describe(call: &mut Call) {
    use CUlaunchAttributeID as Id;
    let address = usize::try_from(call.args[0]).unwrap_or(0);
    let config = std::ptr::with_exposed_provenance::<CUlaunchConfig>(address);
    // SAFETY: the caller's promise.
    let config = unsafe { &*config };
    call.args[ATTRIBUTES - 1] = config.hStream.expose_provenance() as u64;
    call.args[ATTRIBUTES] = u64::from(config.numAttrs);
    for index in 0..config.numAttrs as usize {
        // SAFETY: the description names as many attributes as there are.
        let CUlaunchAttribute { id, value, .. } = unsafe { *config.attrs.add(index) };
        // SAFETY: the number says which part of the union is set.
        let value = unsafe {
            match id {
                Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
                    let cluster = value.clusterDim;
                    cluster.x << 16 | cluster.y << 8 | cluster.z
                }
                Id::CU_LAUNCH_ATTRIBUTE_PRIORITY => value.priority.cast_unsigned(),
                Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE => value.cooperative.cast_unsigned(),
                _ => value.programmaticStreamSerializationAllowed.cast_unsigned(),
            }
        };
        if let Some(place) = call.args.get_mut(ATTRIBUTES + 1 + index) {
            *place = attribute(id, value);
        }
    }
}

impl Log {
    /// Counts what a call gives back. After one that failed it may be given back again, or not.
    fn undo(&mut self, call: &Call, failed: bool) {
        if !PAIRS.iter().any(|(_, undo)| *undo == call.name) {
            return;
        }
        let is_it = |(name, handle): &(&str, u64)| {
            let primary = *name == "cuDevicePrimaryCtxRetain";
            PAIRS.contains(&(*name, call.name)) && (primary || *handle == call.args[0])
        };
        let Some(key) = self.alive.keys().find(|key| is_it(key)).copied() else {
            let before = self.doubtful.len();
            self.doubtful.retain(|key| !is_it(key));
            if self.doubtful.len() == before {
                self.undone_twice.push(*call);
            }
            return;
        };
        if let Some(count) = self.alive.get_mut(&key) {
            *count -= 1;
        }
        self.alive.retain(|_, count| *count > 0);
        if failed {
            self.doubtful.insert(key);
        }
    }
}

impl Recorder {
    fn give_way(&self) {
        let roll = {
            let mut log = self.log();
            log.random =
                log.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            log.random >> 60
        };
        for _ in 0..roll / 4 {
            std::thread::yield_now();
        }
    }
}
