//! The reserved range of addresses: the parts that are free, committed, or in quarantine.

use std::collections::hash_map::{Entry, HashMap};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::{io, ptr};

use super::shared::{Label, share, unshare};
use super::{GAP, POISON, POISON_LIMIT, Region};

/// The unit in which memory is laid out: the system's page size, or a multiple.
pub(super) const PAGE: u64 = 4096;

/// How much to reserve, best first.
const SIZES: [u64; 5] = [256 << 30, 64 << 30, 16 << 30, 4 << 30, 1 << 30];

/// Committed at once, to keep the number of the system's mappings small.
const COMMIT: u64 = 16 << 20;

/// Freed memory is reused only after this much, or this many pieces, were freed after it.
const QUARANTINE_BYTES: u64 = 256 << 20;
const QUARANTINE_PIECES: usize = 1024;

/// A region's place: the region and the gaps around it, in whole pages.
#[derive(Debug, Clone, Copy)]
struct Slot {
    start: u64,
    end: u64,
    /// Bytes that count as waiting: 0 if the pages went back to the system.
    resident: u64,
}

/// A reserved range of addresses.
#[derive(Debug)]
pub(super) struct Reserve {
    base: u64,
    end: u64,
    /// `base..committed` may be read and written.
    committed: u64,
    /// `base..top` was given out at some time.
    top: u64,
    /// Free parts below `top`: start to end; no two touch.
    holes: BTreeMap<u64, u64>,
    /// The slot of each region in use, by the region's start.
    slots: HashMap<u64, Slot>,
    /// The files of the regions that lie in one.
    files: HashMap<u64, (File, Label)>,
    quarantine: VecDeque<Slot>,
    quarantined: u64,
    random: u64,
}

impl Reserve {
    pub(super) fn new() -> io::Result<Self> {
        let mut error = io::Error::from(io::ErrorKind::OutOfMemory);
        for size in SIZES {
            let Ok(length) = usize::try_from(size) else { continue };
            // SAFETY: an anonymous mapping at an address of the system's choice changes no memory
            // that exists.
            let start = unsafe {
                libc::mmap(
                    ptr::null_mut(),
                    length,
                    libc::PROT_NONE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if start != libc::MAP_FAILED {
                let base = start.expose_provenance() as u64;
                return Ok(Self {
                    base,
                    end: base + size,
                    committed: base,
                    top: base,
                    holes: BTreeMap::new(),
                    slots: HashMap::new(),
                    files: HashMap::new(),
                    quarantine: VecDeque::new(),
                    quarantined: 0,
                    random: 0x9e37_79b9_7f4a_7c15,
                });
            }
            error = io::Error::last_os_error();
        }
        Err(error)
    }

    /// Returns where it begins, and its bytes.
    pub(super) fn range(&self) -> (u64, u64) {
        (self.base, self.end - self.base)
    }

    pub(super) fn contains(&self, address: u64) -> bool {
        (self.base..self.end).contains(&address)
    }

    /// Returns the start of `bytes` committed bytes at a multiple of `align`, with gaps around them.
    pub(super) fn take(&mut self, bytes: u64, align: u64) -> Option<u64> {
        // The region's place in its first page varies, so that no code comes to depend on it.
        let lead = if align >= PAGE { 0 } else { self.next_random() % (PAGE / 256) * 256 };
        let slot = self.take_slot(bytes, align, lead);
        let (start, slot) = slot.or_else(|| {
            // Reusing freed memory early is better than having none.
            while self.release_oldest() {}
            self.take_slot(bytes, align, lead)
        })?;
        self.slots.insert(start, slot);
        Some(start)
    }

    fn take_slot(&mut self, bytes: u64, align: u64, lead: u64) -> Option<(u64, Slot)> {
        let fit = |from: u64| {
            let start = (from + lead).checked_next_multiple_of(align)?;
            let end = start.checked_add(bytes)?.checked_next_multiple_of(PAGE)?.checked_add(GAP)?;
            Some((start, end))
        };
        let hole = self.holes.iter().find_map(|(&from, &to)| {
            let (start, end) = fit(from)?;
            (end <= to).then_some((from, to, start, end))
        });
        if let Some((from, to, start, end)) = hole {
            self.holes.remove(&from);
            if end < to {
                self.holes.insert(end, to);
            }
            return Some((start, Slot { start: from, end, resident: 0 }));
        }
        let from = self.top;
        let (start, end) = fit(from)?;
        if end > self.end || !self.commit(end) {
            return None;
        }
        self.top = end;
        Some((start, Slot { start: from, end, resident: 0 }))
    }

    /// Makes everything below `end` usable.
    fn commit(&mut self, end: u64) -> bool {
        if end <= self.committed {
            return true;
        }
        let wanted = end.next_multiple_of(COMMIT).min(self.end);
        let (Ok(from), Ok(length)) =
            (usize::try_from(self.committed), usize::try_from(wanted - self.committed))
        else {
            return false;
        };
        // SAFETY: the range lies in our own mapping, and nothing refers to it yet.
        let result = unsafe {
            libc::mprotect(
                ptr::with_exposed_provenance_mut(from),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        if result == 0 {
            self.committed = wanted;
        }
        result == 0
    }

    /// Moves a region into a file, unless it is in one. Returns the file's number and label.
    pub(super) fn share(&mut self, region: &Region) -> io::Result<(u64, Label)> {
        // With larger pages, another region may be in the same one.
        if system_page() > PAGE || !self.slots.contains_key(&region.start) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (file, label) = match self.files.entry(region.start) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(share(region, PAGE)?),
        };
        Ok((u64::try_from(file.as_raw_fd()).unwrap_or(0), *label))
    }

    /// Fills a region that must not be used with poison, unless it is very large. Returns whether it did.
    pub(super) fn poison(region: &Region) -> bool {
        let small = region.bytes() <= POISON_LIMIT;
        if small {
            let start = ptr::with_exposed_provenance_mut::<u8>(region.start as usize);
            // SAFETY: the region is committed memory of ours, and is in no table; what still uses
            // it uses freed memory, which is what the poison is to show.
            unsafe { ptr::write_bytes(start, POISON, region.bytes() as usize) };
        }
        small
    }

    /// Fills a region that nothing uses yet with zeros.
    pub(super) fn zero(start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        let page = PAGE.max(system_page());
        let (from, to) = (start.next_multiple_of(page), end / page * page);
        let fill = |from: u64, to: u64| {
            let at = ptr::with_exposed_provenance_mut::<u8>(from as usize);
            // SAFETY: committed memory of a region that was just allocated.
            unsafe { ptr::write_bytes(at, 0, to.saturating_sub(from) as usize) };
        };
        if bytes <= COMMIT || from >= to {
            return fill(start, end);
        }
        discard(from, to);
        fill(start, from);
        fill(to, end);
    }

    /// Takes a freed region's memory back: poisoned, and not to be reused at once.
    pub(super) fn give_back(&mut self, region: &Region) {
        let Some(mut slot) = self.slots.remove(&region.start) else { return };
        if self.files.remove(&region.start).is_some() && !unshare(region, PAGE) {
            // Other processes may still have these pages.
            return;
        }
        if Self::poison(region) {
            slot.resident = region.bytes();
        } else {
            discard(slot.start, slot.end);
        }
        self.quarantined += slot.resident;
        self.quarantine.push_back(slot);
        while self.quarantined > QUARANTINE_BYTES || self.quarantine.len() > QUARANTINE_PIECES {
            self.release_oldest();
        }
    }

    /// Makes the slot that has waited longest free for reuse.
    fn release_oldest(&mut self) -> bool {
        let Some(slot) = self.quarantine.pop_front() else { return false };
        self.quarantined -= slot.resident;
        let (mut start, mut end) = (slot.start, slot.end);
        if let Some((&before, &touching)) = self.holes.range(..start).next_back()
            && touching == start
        {
            self.holes.remove(&before);
            start = before;
        }
        if let Some(after) = self.holes.remove(&end) {
            end = after;
        }
        // Large pieces go back to the system; small ones keep their poison.
        if slot.resident > COMMIT {
            discard(slot.start, slot.end);
        }
        self.holes.insert(start, end);
        true
    }

    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// Gives the pages of a slot back to the system; they are zero when they are next used.
fn discard(start: u64, end: u64) {
    let page = PAGE.max(system_page());
    let (start, end) = (start.next_multiple_of(page), end / page * page);
    if start < end {
        let from = ptr::with_exposed_provenance_mut(start as usize);
        // SAFETY: whole pages of a slot of ours that holds no region, or one that nothing uses yet.
        unsafe { libc::madvise(from, (end - start) as usize, libc::MADV_DONTNEED) };
    }
}

/// Returns the system's page size.
fn system_page() -> u64 {
    // SAFETY: sysconf only reads a setting.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(PAGE)
}

impl Drop for Reserve {
    fn drop(&mut self) {
        let start = ptr::with_exposed_provenance_mut(self.base as usize);
        // SAFETY: the mapping is ours; every user of its addresses kept the space alive.
        unsafe { libc::munmap(start, (self.end - self.base) as usize) };
    }
}
