//! Devices, communicators and memory for tests.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use cuda_emu::Config;
use cuda_sys::{CUcontext, CUgraph, CUgraphExec, CUresult, CUstream, CUstreamCaptureMode, Driver};
use nccl_emu::api::*;
use nccl_emu::types::*;

pub(crate) const SUCCESS: ncclResult_t = ncclResult_t::ncclSuccess;

/// Bytes that nothing may change.
const CANARY: u8 = 0xa5;

/// Calls a function of the driver, which must succeed.
macro_rules! cu {
    ($name:ident($($argument:expr),* $(,)?)) => {
        assert_eq!(
            // SAFETY: the tests pass their own places and handles.
            unsafe { $crate::lab::driver().$name($($argument),*) }.expect("the function is there"),
            cuda_sys::CUresult::CUDA_SUCCESS,
            stringify!($name)
        )
    };
}

/// Calls a function of NCCL, which must succeed.
macro_rules! nccl {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: as above.
        let code = unsafe { $name($($argument),*) };
        assert_eq!(code, $crate::lab::SUCCESS, "{}: {}", stringify!($name), $crate::lab::last());
    }};
}

/// Calls a function of NCCL, which must return this code.
macro_rules! fails {
    ($code:ident, $name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: as above.
        let code = unsafe { $name($($argument),*) };
        assert_eq!(code, nccl_emu::types::ncclResult_t::$code, "{}", $crate::lab::last());
    }};
}

pub(crate) use {cu, fails, nccl};

/// Whether a stream hangs. Then nothing more can be freed or tested: the driver would wait for it.
pub(crate) static HUNG: AtomicBool = AtomicBool::new(false);

/// Whether the tests run on the system's devices.
pub(crate) fn on_gpu() -> bool {
    std::env::var("NCCL_EMU_DRIVER").is_ok_and(|value| value == "system")
}

pub(crate) fn driver() -> &'static Driver {
    static DRIVER: OnceLock<&'static Driver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        if on_gpu() {
            return Driver::load().expect("a driver");
        }
        Config::from_env().devices(4).install();
        cuda_emu::driver()
    })
}

/// Returns the text of the last error.
pub(crate) fn last() -> String {
    // SAFETY: the text is valid until this thread asks again.
    let text = unsafe { CStr::from_ptr(ncclGetLastError(ptr::null_mut())) };
    text.to_string_lossy().into_owned()
}

/// A device with its primary context.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Device {
    pub(crate) number: c_int,
    pub(crate) context: CUcontext,
}

// SAFETY: a context may be made current on any thread.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    pub(crate) fn enter(&self) {
        cu!(cuCtxSetCurrent(self.context));
    }

    pub(crate) fn stream(&self) -> Stream {
        self.enter();
        let mut stream = ptr::null_mut();
        cu!(cuStreamCreate(&raw mut stream, 1));
        Stream(stream)
    }

    pub(crate) fn memory(&self, bytes: usize) -> Memory {
        self.enter();
        let mut address = 0;
        cu!(cuMemAlloc_v2(&raw mut address, bytes.max(1)));
        Memory { device: *self, address, bytes }
    }
}

/// A stream without order to the NULL stream.
#[derive(Debug)]
pub(crate) struct Stream(pub(crate) CUstream);

// SAFETY: a stream may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// Waits until the stream has nothing to do. One that hangs fails its test, and all later ones.
    pub(crate) fn wait(&self) {
        let (done, ended) = std::sync::mpsc::channel();
        let stream = self.0.expose_provenance();
        let mut context = ptr::null_mut();
        cu!(cuCtxGetCurrent(&raw mut context));
        let context = context.expose_provenance();
        std::thread::spawn(move || {
            // The NULL stream is that of the current context.
            cu!(cuCtxSetCurrent(ptr::with_exposed_provenance_mut(context)));
            // SAFETY: the stream lives until the test has seen the end, or has left it behind.
            let code =
                unsafe { driver().cuStreamSynchronize(ptr::with_exposed_provenance_mut(stream)) };
            let _ = done.send(code.expect("the function is there"));
        });
        match ended.recv_timeout(Duration::from_secs(20)) {
            Ok(code) => assert_eq!(code, CUresult::CUDA_SUCCESS),
            Err(_) => {
                HUNG.store(true, Ordering::SeqCst);
                panic!("a stream hangs");
            }
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        // SAFETY: the stream is alive.
        match unsafe { driver().cuStreamQuery(self.0) }.expect("the function is there") {
            CUresult::CUDA_SUCCESS => true,
            code => {
                assert_eq!(code, CUresult::CUDA_ERROR_NOT_READY);
                false
            }
        }
    }

    /// Returns whether the stream has nothing to do within a time.
    pub(crate) fn is_done_within(&self, time: Duration) -> bool {
        let begin = Instant::now();
        while !self.is_done() {
            if begin.elapsed() > time {
                return false;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        true
    }

    /// Captures what the closure enqueues.
    pub(crate) fn capture(&self, act: impl FnOnce()) -> Graph {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        cu!(cuStreamBeginCapture_v2(self.0, mode));
        act();
        self.end()
    }

    pub(crate) fn end(&self) -> Graph {
        let mut graph = ptr::null_mut();
        cu!(cuStreamEndCapture(self.0, &raw mut graph));
        let mut exec = ptr::null_mut();
        cu!(cuGraphInstantiateWithFlags(&raw mut exec, graph, 0));
        Graph { graph, exec }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if HUNG.load(Ordering::SeqCst) {
            return;
        }
        // SAFETY: the stream is alive.
        let _ = unsafe { driver().cuStreamDestroy_v2(self.0) };
    }
}

#[derive(Debug)]
pub(crate) struct Graph {
    graph: CUgraph,
    exec: CUgraphExec,
}

// SAFETY: a graph may be used from any thread.
unsafe impl Send for Graph {}
// SAFETY: the tests launch a graph from one thread at a time.
unsafe impl Sync for Graph {}

impl Graph {
    pub(crate) fn launch(&self, stream: &Stream) {
        cu!(cuGraphLaunch(self.exec, stream.0));
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if HUNG.load(Ordering::SeqCst) {
            return;
        }
        // SAFETY: both are alive.
        unsafe {
            let _ = driver().cuGraphExecDestroy(self.exec);
            let _ = driver().cuGraphDestroy(self.graph);
        }
    }
}

/// Memory of a device.
#[derive(Debug)]
pub(crate) struct Memory {
    device: Device,
    address: u64,
    bytes: usize,
}

impl Memory {
    pub(crate) fn at(&self, offset: usize) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.address as usize + offset)
    }

    pub(crate) fn fill(&self, bytes: &[u8]) {
        self.device.enter();
        assert!(bytes.len() <= self.bytes);
        if !bytes.is_empty() {
            cu!(cuMemcpyHtoD_v2(self.address, bytes.as_ptr().cast(), bytes.len()));
            cu!(cuCtxSynchronize());
        }
    }

    pub(crate) fn read(&self, bytes: usize) -> Vec<u8> {
        self.device.enter();
        let mut read = vec![0; bytes];
        if bytes > 0 {
            cu!(cuMemcpyDtoH_v2(read.as_mut_ptr().cast(), self.address, bytes));
        }
        read
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if HUNG.load(Ordering::SeqCst) {
            return;
        }
        // SAFETY: the context and the memory are alive.
        unsafe {
            let _ = driver().cuCtxSetCurrent(self.device.context);
            let _ = driver().cuMemFree_v2(self.address);
        }
    }
}

/// The devices, for one test at a time.
pub(crate) struct Lab {
    pub(crate) devices: Vec<Device>,
    _turn: MutexGuard<'static, ()>,
}

impl Lab {
    pub(crate) fn new() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!HUNG.load(Ordering::SeqCst), "a stream of an earlier test hangs");
        assert!(nccl_emu::use_driver(driver()));
        nccl_emu::set_buffer_size(0);
        cu!(cuInit(0));
        let mut count = 0;
        cu!(cuDeviceGetCount(&raw mut count));
        let devices = (0..count.min(4)).map(|number| {
            let mut context = ptr::null_mut();
            cu!(cuDevicePrimaryCtxRetain(&raw mut context, number));
            Device { number, context }
        });
        Self { devices: devices.collect(), _turn: turn }
    }

    /// Returns the numbers of ranks that there are devices for.
    pub(crate) fn sizes(&self) -> std::ops::RangeInclusive<usize> {
        1..=self.devices.len()
    }

    /// Returns the communicators of so many ranks, with a stream and memory each.
    pub(crate) fn ranks(&self, size: usize, bytes: usize) -> Ranks {
        let mut comms = vec![ptr::null_mut(); size];
        nccl!(ncclCommInitAll(comms.as_mut_ptr(), size as c_int, ptr::null()));
        let ranks = comms.into_iter().zip(&self.devices).map(|(comm, device)| Rank {
            comm,
            device: *device,
            stream: device.stream(),
            memory: device.memory(bytes),
        });
        Ranks { all: ranks.collect() }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for device in self.devices.iter().filter(|_| !HUNG.load(Ordering::SeqCst)) {
            // SAFETY: it was retained.
            let _ = unsafe { driver().cuDevicePrimaryCtxRelease_v2(device.number) };
        }
    }
}

/// A rank, with a stream and memory.
#[derive(Debug)]
pub(crate) struct Rank {
    pub(crate) comm: ncclComm_t,
    pub(crate) device: Device,
    pub(crate) stream: Stream,
    pub(crate) memory: Memory,
}

// SAFETY: the handle of a communicator may be used from any thread.
unsafe impl Send for Rank {}
// SAFETY: as above.
unsafe impl Sync for Rank {}

/// How the ranks make their calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// One thread, in one group.
    Group,
    /// One thread, one call after the other: none waits.
    InTurn,
    /// Each in a thread.
    Threads,
}

/// Where a rank's input and output lie in its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) send: usize,
    pub(crate) recv: usize,
    pub(crate) input: Vec<u8>,
    /// What is at `recv` afterwards.
    pub(crate) output: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Ranks {
    pub(crate) all: Vec<Rank>,
}

impl Ranks {
    /// Makes calls for all ranks.
    pub(crate) fn call(&self, way: Way, call: impl Fn(usize, &Rank) + Sync) {
        let call = |number: usize, rank: &Rank| {
            rank.device.enter();
            call(number, rank);
        };
        match way {
            Way::Group => {
                nccl!(ncclGroupStart());
                self.all.iter().enumerate().for_each(|(number, rank)| call(number, rank));
                nccl!(ncclGroupEnd());
            }
            Way::InTurn => {
                self.all.iter().enumerate().for_each(|(number, rank)| call(number, rank));
            }
            Way::Threads => std::thread::scope(|scope| {
                for (number, rank) in self.all.iter().enumerate() {
                    let call = &call;
                    scope.spawn(move || call(number, rank));
                }
            }),
        }
    }

    /// Writes inputs, makes calls `times` times, and compares all memory with what must be there then.
    pub(crate) fn check(&self, what: &str, layouts: &[Layout], run: impl Fn()) {
        let mut expected = Vec::new();
        for (rank, layout) in self.all.iter().zip(layouts) {
            let end = (layout.send + layout.input.len()).max(layout.recv + layout.output.len());
            let mut arena = vec![CANARY; end + 64];
            arena[layout.send..][..layout.input.len()].copy_from_slice(&layout.input);
            rank.memory.fill(&arena);
            arena[layout.recv..][..layout.output.len()].copy_from_slice(&layout.output);
            expected.push(arena);
        }
        run();
        for (number, (rank, expected)) in self.all.iter().zip(&expected).enumerate() {
            rank.stream.wait();
            let found = rank.memory.read(expected.len());
            if let Some(at) = (0..found.len()).find(|&at| found[at] != expected[at]) {
                let layout = &layouts[number];
                panic!(
                    "{what}: rank {number} of {}: byte {at} is {:#x} and not {:#x} (send {} +{}, recv {} +{})",
                    self.all.len(),
                    found[at],
                    expected[at],
                    layout.send,
                    layout.input.len(),
                    layout.recv,
                    layout.output.len()
                );
            }
        }
    }

    /// Destroys the communicators.
    pub(crate) fn destroy(self) {
        for rank in &self.all {
            rank.device.enter();
            nccl!(ncclCommDestroy(rank.comm));
        }
    }
}

/// Random numbers: the same in every run.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}
