//! The objects of handles.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::sync::{Arc, Weak};
use std::time::Instant;

use cuda_sys::{CUevent_flags, CUresult};

use super::bridge::{EntryId, Heap, Program};
use super::call::{self, Answer, Made};
use super::graph::memory::GraphMemory;
use super::graph::{Capture, Graph, GraphExec, Node};
use super::memory::advice::Advice;
use super::memory::ipc::Opened;
use super::memory::pool_location::Place;
use super::module::link::Link;
use crate::space::Kind;

/// Objects of one kind by handle: a number that is used once, and never an address of anything.
#[derive(Debug)]
pub(super) struct Handles<T> {
    next: u64,
    map: HashMap<u64, T>,
    /// The calls that made them, while leaks are looked for.
    made: HashMap<u64, Made>,
    unknown: CUresult,
}

impl<T> Handles<T> {
    /// Handles of a kind, whose number makes them differ from those of others.
    pub(super) fn new(kind: u64, unknown: CUresult) -> Self {
        Self { next: (0x5e0 + kind) << 32, map: HashMap::new(), made: HashMap::new(), unknown }
    }

    pub(super) fn insert(&mut self, object: T) -> u64 {
        self.next += 16;
        self.map.insert(self.next, object);
        if let Some(made) = call::made() {
            self.made.insert(self.next, made);
        }
        self.next
    }

    pub(super) fn get(&self, handle: u64) -> Answer<&T> {
        self.map.get(&handle).ok_or(self.unknown)
    }

    pub(super) fn get_mut(&mut self, handle: u64) -> Answer<&mut T> {
        self.map.get_mut(&handle).ok_or(self.unknown)
    }

    pub(super) fn remove(&mut self, handle: u64) -> Answer<T> {
        self.made.remove(&handle);
        self.map.remove(&handle).ok_or(self.unknown)
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(u64, &mut T) -> bool) {
        self.map.retain(|&handle, object| keep(handle, object));
        self.made.retain(|handle, _| self.map.contains_key(handle));
    }

    /// Returns the call that made one, while leaks are looked for.
    pub(super) fn made(&self, handle: u64) -> Option<Made> {
        self.made.get(&handle).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.map.iter().map(|(&handle, object)| (handle, object))
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.map.values_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }
}

/// Returns the number of a handle that the caller gives.
pub(super) fn number<T>(handle: *mut T) -> u64 {
    handle.addr() as u64
}

/// Returns the handle of a number.
pub(super) fn handle<T>(number: u64) -> *mut T {
    std::ptr::without_provenance_mut(number as usize)
}

/// Limits of a context that can be set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) stack: usize,
    pub(super) printf: usize,
    pub(super) heap: usize,
    pub(super) persisting_l2: usize,
    pub(super) fetch: usize,
}

/// A context.
pub(super) struct Context {
    pub(super) device: u32,
    pub(super) flags: u32,
    pub(super) id: u64,
    pub(super) version: u32,
    pub(super) primary: bool,
    /// Whether a primary context is retained. Created ones are removed instead.
    pub(super) active: bool,
    /// The stream for the handle NULL.
    pub(super) legacy: u64,
    pub(super) per_thread: HashMap<u64, u64>,
    /// Work of blocking streams that were destroyed before it was done.
    pub(super) orphans: Vec<u64>,
    /// Work that all later work of the context waits for.
    pub(super) barriers: Vec<u64>,
    pub(super) limits: Limits,
    pub(super) heap: Option<Arc<Heap>>,
    /// Contexts whose memory it may use.
    pub(super) peers: HashSet<u64>,
    pub(super) cache: u32,
}

/// A stream.
pub(super) struct Stream {
    pub(super) context: u64,
    pub(super) flags: u32,
    pub(super) priority: i32,
    pub(super) id: u64,
    /// Whether it waits for all blocking streams of its context, and they for it.
    pub(super) legacy: bool,
    /// Its youngest work; 0 before the first.
    pub(super) tail: u64,
    /// The capture that it takes part in, and the nodes that its next one depends on.
    pub(super) capture: Option<(u64, Vec<u64>)>,
    pub(super) policy: u32,
    /// The capture's dependencies as last returned to the caller.
    pub(super) told: Vec<usize>,
}

impl Stream {
    pub(super) fn blocking(&self) -> bool {
        self.flags & 1 == 0
    }
}

/// An event.
pub(super) struct Event {
    pub(super) context: u64,
    pub(super) flags: u32,
    /// The work that it marks; 0 before it is recorded.
    pub(super) record: u64,
    pub(super) time: Option<Instant>,
    /// Recorded in a capture: the capture, and the nodes that it follows.
    pub(super) captured: Option<(u64, Vec<u64>)>,
}

impl Event {
    /// Returns whether other processes may open it.
    pub(super) fn is_interprocess(&self) -> bool {
        self.flags & CUevent_flags::CU_EVENT_INTERPROCESS.0 != 0
    }
}

/// A loaded program in a context.
pub(super) struct Module {
    pub(super) context: u64,
    pub(super) program: Arc<Program>,
    pub(super) functions: HashMap<String, u64>,
}

/// Settings of a kernel that `cuFuncSetAttribute` changes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Settings {
    /// 0 means that it was not set.
    pub(super) dynamic_shared: u32,
    pub(super) carveout: i32,
    pub(super) non_portable_cluster: i32,
    pub(super) cluster_policy: i32,
    /// The clusters that the kernel requires at run time; zeros for none.
    pub(super) required_cluster: [u32; 3],
}

/// A kernel of a module.
pub(super) struct Function {
    pub(super) module: u64,
    pub(super) context: u64,
    pub(super) program: Arc<Program>,
    pub(super) entry: EntryId,
    pub(super) name: Arc<CString>,
    pub(super) settings: Settings,
    /// The library's kernel that it was made for.
    pub(super) kernel: Option<u64>,
}

/// A program that is loaded into each context that uses it.
pub(super) struct Library {
    pub(super) text: Arc<str>,
    /// The limit that the caller set on registers; 0 for none.
    pub(super) registers: u32,
    pub(super) modules: HashMap<u64, u64>,
    pub(super) kernels: HashMap<String, u64>,
    /// Loaded to see whether it can be; knows the kernels.
    pub(super) program: Arc<Program>,
    /// Whether a context has taken that program.
    pub(super) used: bool,
}

/// A kernel of a library.
pub(super) struct Kernel {
    pub(super) library: u64,
    pub(super) name: Arc<CString>,
    pub(super) settings: Settings,
}

/// A memory pool.
pub(super) struct Pool {
    /// Where its memory lies, and the device that counts it.
    pub(super) place: Place,
    pub(super) device: u32,
    pub(super) default: bool,
    pub(super) threshold: u64,
    pub(super) used: u64,
    /// The bytes that it reserves, `used` included.
    pub(super) reserved: u64,
    pub(super) high: u64,
    pub(super) reserved_high: u64,
    pub(super) limit: u64,
    pub(super) reuse: [i32; 3],
    pub(super) access: HashMap<u32, u32>,
}

impl Pool {
    /// Returns a pool of nothing. A limit of 0 is none.
    pub(super) fn new(place: Place, device: u32, default: bool, limit: u64) -> Self {
        Self {
            place,
            device,
            default,
            threshold: 0,
            used: 0,
            reserved: 0,
            high: 0,
            reserved_high: 0,
            limit,
            reuse: [1; 3],
            access: HashMap::new(),
        }
    }
}

/// Memory that was allocated or registered through the driver.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allocation {
    pub(super) context: u64,
    pub(super) kind: Kind,
    pub(super) bytes: u64,
    pub(super) pool: u64,
    pub(super) flags: u32,
    /// Whether a stream-ordered free is under way.
    pub(super) freed: bool,
    pub(super) sync_memops: bool,
    /// The call that made it, while leaks are looked for.
    pub(super) made: Option<Made>,
}

/// A primary context and how often it is retained.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Primary {
    pub(super) context: u64,
    pub(super) count: usize,
    pub(super) flags: u32,
}

/// All objects.
pub(super) struct Objects {
    pub(super) contexts: Handles<Context>,
    pub(super) streams: Handles<Stream>,
    pub(super) events: Handles<Event>,
    pub(super) modules: Handles<Module>,
    pub(super) functions: Handles<Function>,
    pub(super) libraries: Handles<Library>,
    pub(super) links: Handles<Link>,
    pub(super) kernels: Handles<Kernel>,
    pub(super) pools: Handles<Pool>,
    pub(super) graphs: Handles<Graph>,
    pub(super) nodes: Handles<Node>,
    pub(super) execs: Handles<GraphExec>,
    pub(super) captures: Handles<Capture>,
    pub(super) users: Handles<super::graph::userobject::UserObject>,
    pub(super) allocations: HashMap<u64, Allocation>,
    /// What was said about managed memory, by its address and the region's number.
    pub(super) advice: HashMap<(u64, u64), Advice>,
    /// Memory of other processes.
    pub(super) opened: Vec<Opened>,
    /// The memory of graphs' allocation nodes, by address.
    pub(super) graph_memory: HashMap<u64, Weak<GraphMemory>>,
    /// Memory that enqueued launches of graphs allocate and that no enqueued work frees.
    pub(super) outstanding: HashMap<u64, Arc<GraphMemory>>,
    pub(super) primaries: Vec<Primary>,
    /// Each device's default pool and the one in use.
    pub(super) device_pools: Vec<(u64, u64)>,
    /// The same of other places.
    pub(super) place_pools: HashMap<Place, (u64, u64)>,
    next_id: u64,
}

impl Default for Objects {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Objects {
    pub(super) fn new(devices: usize) -> Self {
        let bad = CUresult::CUDA_ERROR_INVALID_HANDLE;
        let mut objects = Self {
            contexts: Handles::new(1, CUresult::CUDA_ERROR_INVALID_CONTEXT),
            streams: Handles::new(2, bad),
            events: Handles::new(3, bad),
            modules: Handles::new(4, bad),
            functions: Handles::new(5, bad),
            libraries: Handles::new(6, bad),
            kernels: Handles::new(7, bad),
            pools: Handles::new(8, CUresult::CUDA_ERROR_INVALID_VALUE),
            graphs: Handles::new(9, CUresult::CUDA_ERROR_INVALID_VALUE),
            nodes: Handles::new(10, CUresult::CUDA_ERROR_INVALID_VALUE),
            execs: Handles::new(11, CUresult::CUDA_ERROR_INVALID_VALUE),
            captures: Handles::new(12, bad),
            users: Handles::new(13, CUresult::CUDA_ERROR_INVALID_VALUE),
            links: Handles::new(14, bad),
            allocations: HashMap::new(),
            advice: HashMap::new(),
            opened: Vec::new(),
            graph_memory: HashMap::new(),
            outstanding: HashMap::new(),
            primaries: vec![Primary::default(); devices],
            device_pools: Vec::new(),
            place_pools: HashMap::new(),
            next_id: 0,
        };
        for device in 0..devices as u32 {
            let pool = Pool::new(Place::device(device), device, true, 0);
            let pool = objects.pools.insert(pool);
            objects.device_pools.push((pool, pool));
        }
        objects
    }

    /// Returns a number that no other object has: the ids of contexts, streams, buffers, captures.
    pub(super) fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}
