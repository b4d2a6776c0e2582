//! The shared state of the ranks of a communicator: for each rank its context, the staging memory that others write for
//! it, and the flags that streams wait for.
//!
//! An edge leads from one rank to another. It has two slots of staging memory at its receiver, and two flags for each
//! slot: *empty*, for which the sender's stream waits, and *full*, for which the receiver's does. A flag is 1 or 0, so
//! a graph that is launched again finds the values that it needs. Each side has a flag that only its own stream waits
//! for. So an abort can release the streams of one rank and leave the others alone.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use core::{mem, ptr};
use std::sync::Arc;

use cuda_sys::{CUcontext, CUdevice};

use crate::cuda::Cuda;
use crate::error::{Error, Result};
use crate::kernels::Kernels;

/// Slots of an edge: one is filled while the other is emptied.
pub(crate) const SLOTS: usize = 2;
/// Counters of blocks, one for each stream that may launch kernels at a time.
pub(crate) const COUNTERS: usize = 1024;
/// Bytes between two flags, so that no two share a line of a cache.
const STRIDE: usize = 64;
/// The alignment of slots: that of the widest access.
const ALIGN: usize = 256;

/// The default size of an edge's staging memory, as NCCL's.
const DEFAULT_BUFFER: usize = 4 << 20;
/// The size that the program has set; 0 for none.
static BUFFER: AtomicUsize = AtomicUsize::new(0);

/// Sets the bytes of an edge's staging memory.
pub(crate) fn set_buffer_size(bytes: usize) {
    BUFFER.store(bytes, Ordering::Relaxed);
}

/// Returns the bytes of a slot.
pub(crate) fn slot_bytes() -> usize {
    let bytes = match BUFFER.load(Ordering::Relaxed) {
        0 => std::env::var("NCCL_BUFFSIZE").ok().and_then(|text| text.trim().parse().ok()),
        bytes => Some(bytes),
    };
    let bytes = bytes.unwrap_or(DEFAULT_BUFFER).clamp(SLOTS * ALIGN, 1 << 30);
    bytes / SLOTS / ALIGN * ALIGN
}

/// Returns whether `NCCL_P2P_DISABLE` keeps devices from each other's memory.
fn peers_disabled() -> bool {
    std::env::var("NCCL_P2P_DISABLE").is_ok_and(|value| value.trim() == "1")
}

/// The side whose stream waits for a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flag {
    /// The sender's: the slot is empty.
    Empty,
    /// The receiver's: the slot is full.
    Full,
}

/// The resources of one rank, which all ranks use.
#[derive(Debug)]
pub(crate) struct Rank {
    cuda: Cuda,
    pub(crate) device: CUdevice,
    /// Retained, unless it is null.
    pub(crate) context: CUcontext,
    /// The staging memory of edges whose senders reach this device, followed by the counters.
    memory: u64,
    /// The staging memory of the other edges, which is the host's.
    on_host: *mut c_void,
    /// The word that aborts, and the flags of the edges to this rank.
    words: *mut c_void,
    /// Where the slots of each edge to this rank begin.
    edges: Vec<u64>,
    pub(crate) counters: u64,
    pub(crate) slot_bytes: usize,
    pub(crate) aborted: AtomicBool,
    /// From the context's retain until it is released.
    kernels: Option<Arc<Kernels>>,
}

// SAFETY: the pointers name a context, which any thread may push, and memory that is only used through atomics and by
// devices.
unsafe impl Send for Rank {}
// SAFETY: as above.
unsafe impl Sync for Rank {}

impl Rank {
    /// Makes the resources of the rank with number `rank`, whose peers are on `devices`. If `expected` is not null, it
    /// is the context that must be the device's primary one.
    pub(crate) fn new(
        cuda: Cuda,
        rank: usize,
        devices: &[CUdevice],
        expected: CUcontext,
        slot_bytes: usize,
    ) -> Result<Self> {
        let device = *devices.get(rank).ok_or_else(|| Error::internal("no device of the rank"))?;
        let mut new = Self {
            cuda,
            device,
            context: ptr::null_mut(),
            memory: 0,
            on_host: ptr::null_mut(),
            words: ptr::null_mut(),
            edges: vec![0; devices.len()],
            counters: 0,
            slot_bytes,
            aborted: AtomicBool::new(false),
            kernels: None,
        };
        // `drop` frees what a failure leaves in `new`.
        new.context = cuda.retain_primary(device)?;
        if !expected.is_null() && expected != new.context {
            return Err(Error::usage(format!(
                "the current context is not the primary context of device {device}, which communicators use: make that \
                 one current"
            )));
        }
        // The kernels are released last: the holder of the last reference unloads them in the context.
        new.kernels = Some(Kernels::of(cuda, device));
        let relaxed = cuda.relaxed()?;
        let current = cuda.push(new.context)?;
        new.allocate(rank, devices)?;
        drop(current);
        drop(relaxed);
        Ok(new)
    }

    fn allocate(&mut self, rank: usize, devices: &[CUdevice]) -> Result {
        let cuda = self.cuda;
        let edge = SLOTS * self.slot_bytes;
        let (mut near, mut far) = (Vec::new(), Vec::new());
        let disabled = peers_disabled();
        for (peer, &device) in devices.iter().enumerate().filter(|(peer, _)| *peer != rank) {
            let reaches = !disabled && cuda.can_access_peer(device, self.device)?;
            if reaches { &mut near } else { &mut far }.push(peer);
        }
        self.memory = cuda.alloc(near.len() * edge + COUNTERS * size_of::<u32>())?;
        self.counters = self.memory + (near.len() * edge) as u64;
        for (index, peer) in near.into_iter().enumerate() {
            self.edges[peer] = self.memory + (index * edge) as u64;
        }
        if !far.is_empty() {
            self.on_host = cuda.alloc_host(far.len() * edge)?;
            for (index, peer) in far.into_iter().enumerate() {
                self.edges[peer] = self.on_host as u64 + (index * edge) as u64;
            }
        }
        let words = 1 + devices.len() * SLOTS * 2;
        self.words = cuda.alloc_host(words * STRIDE)?;
        self.word(0).store(0, Ordering::Relaxed);
        for peer in 0..devices.len() {
            for slot in 0..SLOTS {
                self.word(Self::index(peer, slot, Flag::Empty)).store(1, Ordering::Relaxed);
                self.word(Self::index(peer, slot, Flag::Full)).store(0, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Returns whether the sender of an edge to this rank writes to this device's memory.
    pub(crate) fn is_near(&self, peer: usize) -> bool {
        let host = self.on_host as u64;
        let edge = self.edges.get(peer).copied().unwrap_or(0);
        let bytes = (self.edges.len() * SLOTS * self.slot_bytes) as u64;
        host == 0 || !(host..host + bytes).contains(&edge)
    }

    /// The number of the word of a flag of the edge from `peer`.
    const fn index(peer: usize, slot: usize, flag: Flag) -> usize {
        1 + (peer * SLOTS + slot) * 2 + flag as usize
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the memory was allocated for all words, each aligned, and lives as long as this. Host and devices
        // change a word by atomic operations alone.
        unsafe { AtomicU32::from_ptr(self.words.byte_add(index * STRIDE).cast()) }
    }

    /// Returns the loaded kernels of the device.
    pub(crate) fn kernels(&self) -> Result<&Kernels> {
        self.kernels.as_deref().ok_or_else(|| Error::internal("the rank was freed"))
    }

    /// Returns the address of the word that aborts.
    pub(crate) fn abort_word(&self) -> u64 {
        self.words as u64
    }

    /// Returns the address of a flag of the edge from `peer` to this rank.
    pub(crate) fn flag(&self, peer: usize, slot: usize, flag: Flag) -> u64 {
        self.words as u64 + (Self::index(peer, slot, flag) * STRIDE) as u64
    }

    /// Returns the address of a slot of the edge from `peer` to this rank.
    pub(crate) fn slot(&self, peer: usize, slot: usize) -> u64 {
        self.edges.get(peer).map_or(0, |edge| edge + (slot * self.slot_bytes) as u64)
    }

    /// Frees everything. Returns the first error; later calls still run.
    fn free(&mut self) -> Result {
        if self.context.is_null() {
            return Ok(());
        }
        let cuda = self.cuda;
        let mut first = Ok(());
        let mut note = |result: Result| {
            if first.is_ok() {
                first = result;
            }
        };
        let relaxed = cuda.relaxed();
        note(relaxed.as_ref().map(drop).map_err(Clone::clone));
        let mut current = cuda.push(self.context);
        if let Err(error) = &current {
            // Nothing can be freed without the context. The second try is for a failure that passes.
            note(Err(error.clone()));
            current = cuda.push(self.context);
        }
        if let Ok(current) = current {
            if let Some(kernels) = self.kernels.take() {
                note(Kernels::release(kernels));
            }
            if self.memory != 0 {
                note(cuda.free(mem::take(&mut self.memory)));
            }
            for memory in [&mut self.on_host, &mut self.words] {
                let memory = mem::replace(memory, ptr::null_mut());
                if !memory.is_null() {
                    note(cuda.free_host(memory));
                }
            }
            drop(current);
        }
        self.context = ptr::null_mut();
        note(cuda.release_primary(self.device));
        first
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        // `free` has work only after a failure: otherwise `release` has freed everything.
        let _ = self.free();
    }
}

/// Drops references to ranks, and frees those that nothing else refers to. Returns the first error.
pub(crate) fn release(ranks: Vec<Arc<Rank>>) -> Result {
    let mut first = Ok(());
    for rank in ranks {
        if let Some(mut rank) = Arc::into_inner(rank) {
            let freed = rank.free();
            if first.is_ok() {
                first = freed;
            }
        }
    }
    first
}

/// A rank's view of its communicator.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) ranks: Vec<Arc<Rank>>,
    pub(crate) rank: usize,
    /// The number of the communicator, the same for all its ranks.
    pub(crate) clique: u64,
}

impl Link {
    pub(crate) fn own(&self) -> &Rank {
        &self.ranks[self.rank]
    }

    /// Releases all streams of this rank: the kernels of the communicator do nothing from now on, and no stream waits.
    pub(crate) fn abort(&self) {
        let own = self.own();
        own.aborted.store(true, Ordering::Release);
        // The word is stored first: see `kernel::kernel`.
        own.word(0).store(1, Ordering::SeqCst);
        for (number, peer) in self.ranks.iter().enumerate().filter(|(peer, _)| *peer != self.rank) {
            for slot in 0..SLOTS {
                own.word(Rank::index(number, slot, Flag::Full)).store(1, Ordering::SeqCst);
                peer.word(Rank::index(self.rank, slot, Flag::Empty)).store(1, Ordering::SeqCst);
            }
        }
    }

    /// Returns the first rank that has aborted.
    pub(crate) fn aborted(&self) -> Option<usize> {
        self.ranks.iter().position(|rank| rank.aborted.load(Ordering::Acquire))
    }

    /// Lets this device write to the memory of the others.
    pub(crate) fn connect(&self, cuda: Cuda) -> Result {
        for (number, peer) in self.ranks.iter().enumerate() {
            if number != self.rank && peer.is_near(self.rank) {
                cuda.enable_peer(peer.context)?;
            }
        }
        Ok(())
    }
}
