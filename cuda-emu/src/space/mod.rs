//! Device memory: one address space per process, with gaps between allocations.
//!
//! A device address is the host address of the memory behind it, so that unified addressing needs
//! no translation. Whether an access is allowed is decided by the table of regions alone: the
//! memory in the gaps is committed, but belongs to nothing.

mod reserve;
mod shared;
mod table;
pub(crate) mod tangent;
#[cfg(test)]
mod tests;
pub(crate) mod written;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use reserve::{PAGE, Reserve};
pub(crate) use shared::{Label, Shared};
use table::Table;
use tangent::{Held, TangentStore};
use written::Written;

/// Bytes between two regions, at the least: an index that is off by one is off every region.
pub const GAP: u64 = PAGE;

/// The byte with which freed memory is filled.
pub const POISON: u8 = 0xfd;

/// Regions that are larger give their pages back when they are freed, instead of being poisoned.
const POISON_LIMIT: u64 = 64 << 20;

/// The kind of a region, which decides who may use it and how it is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `cuMemAlloc`.
    Device,
    /// Stream-ordered memory of a pool.
    Pool,
    /// `cuMemHostAlloc`.
    Pinned,
    /// Host memory that was registered: the caller's, adopted.
    Registered,
    /// `cuMemAllocManaged`.
    Managed,
    /// Memory of another process.
    Opened,
    /// A `.global` variable of a module.
    Module,
    /// A `.const` variable of a module: kernels don't write it.
    Constant,
    /// The heap of the kernels' `malloc`.
    Heap,
    /// The workspace of a cooperative launch.
    Workspace,
    /// An array: texels for textures and surfaces.
    Array,
}

impl Kind {
    /// Returns whether it takes memory of the device. The system's own memory is not counted.
    #[must_use]
    pub const fn on_device(self) -> bool {
        !matches!(self, Self::Pinned | Self::Registered | Self::Opened | Self::Workspace)
    }

    /// Returns whether the host may use the memory as its own.
    #[must_use]
    pub const fn on_host(self) -> bool {
        matches!(self, Self::Pinned | Self::Registered | Self::Managed)
    }

    /// Returns how a report calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device memory",
            Self::Pool => "stream-ordered memory",
            Self::Pinned => "pinned host memory",
            Self::Registered => "registered host memory",
            Self::Managed => "managed memory",
            Self::Opened => "memory of another process",
            Self::Module => "a module's variable",
            Self::Constant => "a module's constant",
            Self::Heap => "the device's heap",
            Self::Workspace => "the workspace of a cooperative launch",
            Self::Array => "an array",
        }
    }
}

/// A piece of memory that may be used: `start..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Region {
    /// The address of the first byte.
    pub start: u64,
    /// The address past the last byte.
    pub end: u64,
    /// A number that no other region of this space ever has.
    pub id: u64,
    /// Its kind.
    pub kind: Kind,
    /// The ordinal of the device it belongs to.
    pub device: u32,
    /// Whether kernels may write it.
    pub writable: bool,
}

impl Region {
    /// Its size in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.end - self.start
    }

    /// Returns whether all of `bytes` bytes from `address` on lie in it.
    #[must_use]
    #[inline]
    pub const fn holds(&self, address: u64, bytes: u64) -> bool {
        address >= self.start && address <= self.end && bytes <= self.end - address
    }
}

/// There is no room for an allocation.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("out of memory: {asked} bytes asked, {free} free")]
pub struct OutOfMemory {
    /// Bytes that were asked for.
    pub asked: u64,
    /// The free memory of the device, in bytes.
    pub free: u64,
}

impl std::fmt::Debug for OutOfMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Memory cannot be adopted: some of it belongs to the space already.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the memory overlaps a region that is known already")]
pub struct Overlap;

impl std::fmt::Debug for Overlap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The address space of the process's software devices.
#[derive(Debug)]
pub struct Space {
    table: RwLock<Table>,
    reserve: Mutex<Reserve>,
    /// Addresses that are set aside for regions that come and go.
    aside: RwLock<BTreeMap<u64, Region>>,
    epoch: AtomicU64,
    next_id: AtomicU64,
    /// Bytes of memory of each device.
    limit: AtomicU64,
    /// The bytes that were ever written, while that is checked.
    written: OnceLock<Written>,
    /// The tangents of memory, while they are tracked.
    tangents: OnceLock<TangentStore>,
    /// Textures and surfaces.
    objects: crate::texture::Objects,
}

impl Space {
    /// Reserves a range of addresses; memory is committed as it is allocated.
    ///
    /// # Errors
    /// If the system gives no such range.
    pub fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            table: RwLock::new(Table::default()),
            reserve: Mutex::new(Reserve::new()?),
            aside: RwLock::default(),
            epoch: AtomicU64::new(0),
            next_id: AtomicU64::new(1),
            limit: AtomicU64::new(u64::MAX),
            written: OnceLock::new(),
            tangents: OnceLock::new(),
            objects: crate::texture::Objects::default(),
        }))
    }

    /// Returns the textures and surfaces.
    pub(crate) fn objects(&self) -> &crate::texture::Objects {
        &self.objects
    }

    /// Sets how much memory each device has, in bytes. Allocations stay.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Tracks written bytes from now on. Existing memory counts as written.
    pub fn note_writes(&self) {
        let table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let reserve = self.reserve.lock().unwrap_or_else(PoisonError::into_inner);
        let written = self.written.get_or_init(|| {
            let (start, bytes) = reserve.range();
            Written::new(start, bytes)
        });
        for region in table.all() {
            written.mark(region.start, region.bytes());
        }
    }

    /// Returns the bytes that were written, while that is checked.
    #[inline]
    pub(crate) fn written(&self) -> Option<&Written> {
        self.written.get()
    }

    /// Tracks tangents from now on. Existing memory is constant.
    pub fn track_tangents(&self) {
        self.tangents.get_or_init(TangentStore::default);
    }

    /// Returns the tangents, while they are tracked.
    #[inline]
    pub(crate) fn tangent_store(&self) -> Option<&TangentStore> {
        self.tangents.get()
    }

    /// Locks the tangents, while they are tracked. Before the table: kernels look regions up while they hold them.
    fn lock_tangents(&self) -> Option<MutexGuard<'_, Held>> {
        self.tangent_store().map(TangentStore::lock)
    }

    /// Bytes were written by other means than a kernel.
    pub fn wrote(&self, start: u64, bytes: u64) {
        if let Some(store) = self.tangent_store() {
            store.lock().clear(start, bytes);
        }
        if let Some(written) = self.written() {
            written.mark(start, bytes);
        }
    }

    /// A region is new. The host writes its own memory unseen, and PTX gives variables a value.
    fn begin(&self, region: &Region, tangents: Option<MutexGuard<'_, Held>>) {
        if let Some(mut tangents) = tangents {
            tangents.clear(region.start, region.bytes());
        }
        let Some(written) = self.written() else { return };
        match region.kind {
            Kind::Device | Kind::Pool | Kind::Heap | Kind::Array => {
                written.clear(region.start, region.bytes());
            }
            _ => written.mark(region.start, region.bytes()),
        }
    }

    /// Allocates `bytes` (at least 1) bytes at a multiple of `align`, a power of two.
    ///
    /// # Errors
    /// If the device or the range of addresses has no room.
    pub fn allocate(
        &self,
        bytes: u64,
        align: u64,
        kind: Kind,
        device: u32,
    ) -> Result<u64, OutOfMemory> {
        let bytes = bytes.max(1);
        let limit = self.limit.load(Ordering::Relaxed);
        let tangents = self.lock_tangents();
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let free = limit.saturating_sub(table.used(device));
        let full = OutOfMemory { asked: bytes, free };
        if kind.on_device() && bytes > free {
            return Err(full);
        }
        let align = align.max(1).checked_next_power_of_two().ok_or(full)?;
        let mut reserve = self.reserve.lock().unwrap_or_else(PoisonError::into_inner);
        let start = reserve.take(bytes, align).ok_or(full)?;
        drop(reserve);
        let region = self.region(start, bytes, kind, device);
        self.begin(&region, tangents);
        table.insert(region);
        Ok(start)
    }

    /// Takes the region that begins at `start` away. Its memory is poisoned and not given out
    /// again for a while; every cached [`Region`] is stale.
    pub fn free(&self, start: u64) -> Option<Region> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let region = table.remove(start)?;
        self.epoch.fetch_add(1, Ordering::Release);
        drop(table);
        if !matches!(region.kind, Kind::Registered | Kind::Opened) {
            let mut reserve = self.reserve.lock().unwrap_or_else(PoisonError::into_inner);
            reserve.give_back(&region);
        }
        Some(region)
    }

    /// Moves a region into a file for other processes, unless it is in one. Returns the file's number and
    /// label. What other processes write is not seen, so all of it counts as written.
    ///
    /// # Errors
    /// If the region is gone, or the system gives no file.
    pub(crate) fn share(&self, region: &Region) -> io::Result<(u64, Label)> {
        let mut reserve = self.reserve.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = reserve.share(region)?;
        drop(reserve);
        if let Some(written) = self.written() {
            written.mark(region.start, region.bytes());
        }
        Ok(shared)
    }

    /// Fills a region that nothing uses yet with zeros. Large ones take no memory by that.
    pub(crate) fn zero(&self, start: u64, bytes: u64) {
        Reserve::zero(start, bytes);
    }

    /// Sets addresses aside for a region that comes and goes: nothing is there before [`Space::map`], and no other
    /// region gets the addresses before [`Space::give_up`].
    ///
    /// # Errors
    /// If the range of addresses has no room.
    pub fn set_aside(
        &self,
        bytes: u64,
        align: u64,
        kind: Kind,
        device: u32,
    ) -> Result<Region, OutOfMemory> {
        let bytes = bytes.max(1);
        let full = OutOfMemory { asked: bytes, free: 0 };
        let align = align.max(1).checked_next_power_of_two().ok_or(full)?;
        let mut reserve = self.reserve.lock().unwrap_or_else(PoisonError::into_inner);
        let start = reserve.take(bytes, align).ok_or(full)?;
        drop(reserve);
        let region = self.region(start, bytes, kind, device);
        self.aside.write().unwrap_or_else(PoisonError::into_inner).insert(start, region);
        Ok(region)
    }

    /// Maps a region that was set aside, filled with poison. Returns whether it was not mapped.
    pub fn map(&self, region: &Region) -> bool {
        let tangents = self.lock_tangents();
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let away = !table.overlaps(region.start, region.end);
        if away {
            Reserve::poison(region);
            self.begin(region, tangents);
            table.insert(*region);
        }
        away
    }

    /// Unmaps a region that was set aside. Returns whether it was mapped.
    pub fn unmap(&self, region: &Region) -> bool {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let there = table.find(region.start).is_some_and(|found| found.id == region.id)
            && table.remove(region.start).is_some();
        if there {
            self.epoch.fetch_add(1, Ordering::Release);
        }
        there
    }

    /// Lets go of addresses that were set aside.
    pub fn give_up(&self, region: &Region) {
        self.unmap(region);
        let mut aside = self.aside.write().unwrap_or_else(PoisonError::into_inner);
        if aside.remove(&region.start).is_some() {
            let mut reserve = self.reserve.lock().unwrap_or_else(PoisonError::into_inner);
            reserve.give_back(region);
        }
    }

    /// Returns the region that contains the address, or that is set aside there.
    #[must_use]
    pub fn find_known(&self, address: u64) -> Option<Region> {
        self.find(address).or_else(|| {
            let aside = self.aside.read().unwrap_or_else(PoisonError::into_inner);
            let (_, region) = aside.range(..=address).next_back()?;
            (address < region.end).then_some(*region)
        })
    }

    /// Makes the caller's memory a region: registered host memory. `free` lets it go, untouched.
    ///
    /// # Errors
    /// If some of it belongs to the space already.
    pub fn adopt(
        &self,
        start: u64,
        bytes: u64,
        kind: Kind,
        device: u32,
    ) -> Result<Region, Overlap> {
        if bytes == 0 || start.checked_add(bytes).is_none() {
            return Err(Overlap);
        }
        let tangents = self.lock_tangents();
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let region = self.region(start, bytes, kind, device);
        if table.overlaps(region.start, region.end) {
            return Err(Overlap);
        }
        if let Some(mut tangents) = tangents {
            tangents.clear(region.start, region.bytes());
        }
        table.insert(region);
        Ok(region)
    }

    fn region(&self, start: u64, bytes: u64, kind: Kind, device: u32) -> Region {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let writable = kind != Kind::Constant;
        Region { start, end: start + bytes, id, kind, device, writable }
    }

    /// Returns the region that contains the address.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<Region> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).find(address)
    }

    /// Returns the region that contains all of `bytes` bytes from `address` on.
    #[must_use]
    pub fn find_range(&self, address: u64, bytes: u64) -> Option<Region> {
        self.find(address).filter(|region| region.holds(address, bytes))
    }

    /// Returns whether only this space gives out the address, with or without a region there.
    #[must_use]
    pub fn is_reserved(&self, address: u64) -> bool {
        self.reserve.lock().unwrap_or_else(PoisonError::into_inner).contains(address)
    }

    /// Returns a number that changes whenever a region goes away: a [`Region`] found before is then stale.
    #[must_use]
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Bytes of the device's memory that are allocated.
    #[must_use]
    pub fn used(&self, device: u32) -> u64 {
        self.table.read().unwrap_or_else(PoisonError::into_inner).used(device)
    }

    /// Every region there is, by address.
    #[must_use]
    pub fn regions(&self) -> Vec<Region> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).all().to_vec()
    }

    /// Returns where an address lies, for a report: in which region, or how far from the nearest one, and
    /// whether that was freed.
    #[must_use]
    pub fn describe(&self, address: u64) -> String {
        self.table.read().unwrap_or_else(PoisonError::into_inner).describe(address)
    }
}
