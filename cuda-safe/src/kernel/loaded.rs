//! The Rust kernels that a context has loaded, found by the address of their description.

use std::any::Any;
use std::ptr::NonNull;

use cuda_sys::CUdeviceptr;

use crate::context::{Census, Counted};
use crate::error::Result;
use crate::function::Kernel;
use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::sync::{Lock, Once};

/// A loaded kernel, for lengths of one width.
pub(super) struct Entry {
    pub(super) key: Key,
    content: Content,
    /// Whether this is the first entry with its module, and not one for another description of the same kernel.
    first: bool,
    pub(super) kernel: Kernel,
    /// The context's fault slot.
    pub(super) fault: CUdeviceptr,
    attached: Once<Attached>,
}

/// What another crate keeps with a kernel: a value, and the kernels that it holds.
struct Attached {
    value: Box<dyn Any + Send + Sync>,
    kernels: Vec<Kernel>,
}

/// The number of a kernel in the context, and the hash of what it was compiled from.
pub(super) type Content = (u32, [u8; 32]);

/// The address of a kernel's description, which is never freed, and the width of its lengths. Each crate that names the
/// description of a generic kernel may have a copy of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key(usize);

impl Entry {
    /// Takes a kernel whose module nothing holds but the entries of the same content; `first` if there are none. Neither
    /// counts as the program's, so that errors of [`Context::close`](crate::Context::close) do not name them.
    pub(super) fn new(
        key: Key,
        content: Content,
        first: bool,
        kernel: Kernel,
        fault: CUdeviceptr,
    ) -> Self {
        let entry = Self { key, content, first, kernel, fault, attached: Once::new() };
        entry.census(Census::remove);
        entry
    }

    fn census(&self, change: impl Fn(&Census, Counted)) {
        if self.first {
            census(&self.kernel, change);
        }
    }

    /// Returns how often it holds the context.
    fn holds(&self) -> usize {
        if self.first { holds(&self.kernel) } else { 0 }
    }

    /// Returns the value that another crate keeps with the kernel.
    pub(super) fn attached(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.attached.get().map(|attached| &*attached.value)
    }
}

fn census(kernel: &Kernel, change: impl Fn(&Census, Counted)) {
    let context = kernel.module().context();
    for kind in [Counted::Module, Counted::Kernel] {
        change(&context.inner().census, kind);
    }
    if has_variables(kernel) {
        for kind in [Counted::Stream, Counted::Buffer] {
            change(&context.inner().census, kind);
        }
    }
}

/// Returns whether the module has variables. Their memory is known since the kernel is loaded.
fn has_variables(kernel: &Kernel) -> bool {
    kernel.module().has_variable_memory()
}

/// Returns how often a kernel holds the context that is the only one of its module.
fn holds(kernel: &Kernel) -> usize {
    1 + usize::from(has_variables(kernel))
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.census(Census::add);
        let attached = self.attached.get().map_or(&[][..], |attached| &attached.kernels);
        attached.iter().for_each(|kernel| census(kernel, Census::add));
    }
}

impl Key {
    #[inline]
    pub(super) fn new(kernel: &'static gpu_phases::kernel::Kernel, len64: bool) -> Self {
        // A description holds pointers, so its address is even.
        Self(std::ptr::from_ref(kernel).addr() | usize::from(len64))
    }

    /// Returns where a search for the key begins.
    #[inline]
    fn start(self) -> usize {
        // The multiplier is that of Fibonacci hashing; descriptions have neighbouring addresses.
        (self.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) as usize
    }
}

/// A table that threads search without a lock. Entries stay until the whole is dropped or [cleared](Self::clear).
#[derive(Default)]
pub(crate) struct Loaded {
    /// The newest table; null while there is no entry.
    table: AtomicPtr<Table>,
    kept: Lock<Kept>,
    /// How often the entries hold the context.
    holds: AtomicUsize,
}

/// A hash table with open addressing. At least half of its places are null.
struct Table(Box<[AtomicPtr<Entry>]>);

/// All that was made, also tables that a thread may still search.
#[derive(Default)]
struct Kept {
    tables: Vec<NonNull<Table>>,
    entries: Vec<NonNull<Entry>>,
}

// SAFETY: the pointers own a `Table` and an `Entry`, which are Send + Sync.
unsafe impl Send for Kept {}

impl Table {
    fn new(places: usize) -> Self {
        Self((0..places.max(2)).map(|_| AtomicPtr::default()).collect())
    }

    /// Returns the place of the key: its entry's, or the empty one where it belongs.
    #[inline]
    fn place(&self, key: Key) -> &AtomicPtr<Entry> {
        // The number of places is a power of two.
        let mask = self.0.len() - 1;
        let mut at = key.start() & mask;
        loop {
            let place = &self.0[at];
            let entry = place.load(Ordering::Acquire);
            // SAFETY: entries in a table live as long as the table.
            if entry.is_null() || unsafe { &*entry }.key == key {
                return place;
            }
            at = (at + 1) & mask;
        }
    }
}

impl Loaded {
    /// Returns the entry of the key.
    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<&Entry> {
        let table = NonNull::new(self.table.load(Ordering::Acquire))?;
        // SAFETY: tables and entries live until this is dropped, or cleared, which nobody does meanwhile.
        unsafe { table.as_ref().place(key).load(Ordering::Acquire).as_ref() }
    }

    /// Returns the kernel that was compiled from this content.
    pub(super) fn same(&self, content: &Content) -> Result<Option<Kernel>> {
        let kept = self.kept.lock()?;
        // SAFETY: as in `get`.
        let mut entries = kept.entries.iter().map(|entry| unsafe { entry.as_ref() });
        Ok(entries.find(|entry| entry.content == *content).map(|entry| entry.kernel.clone()))
    }

    /// Returns how often the entries hold the context.
    pub(super) fn holds(&self) -> usize {
        self.holds.load(Ordering::Relaxed)
    }

    /// Adds an entry unless another thread has added its key; then that one is returned, and this one is dropped.
    pub(super) fn insert(&self, entry: Entry) -> Result<&Entry> {
        let mut kept = self.kept.lock()?;
        if let Some(known) = self.get(entry.key) {
            // The drop takes no lock that is held here.
            return Ok(known);
        }
        self.holds.fetch_add(entry.holds(), Ordering::Relaxed);
        let entry = NonNull::from(Box::leak(Box::new(entry)));
        kept.entries.push(entry);
        let places = (kept.entries.len() * 2).next_power_of_two();
        // SAFETY: as in `get`.
        let table = match unsafe { self.table.load(Ordering::Relaxed).as_ref() } {
            Some(table) if table.0.len() >= places => table,
            _ => {
                let table = Table::new(places);
                for entry in &kept.entries {
                    // SAFETY: the entry lives as long as the table.
                    let place = table.place(unsafe { entry.as_ref() }.key);
                    place.store(entry.as_ptr(), Ordering::Release);
                }
                let table = NonNull::from(Box::leak(Box::new(table)));
                kept.tables.push(table);
                self.table.store(table.as_ptr(), Ordering::Release);
                // SAFETY: as in `get`.
                unsafe { table.as_ref() }
            }
        };
        // SAFETY: as in `get`.
        let entry = unsafe { entry.as_ref() };
        table.place(entry.key).store(std::ptr::from_ref(entry).cast_mut(), Ordering::Release);
        Ok(entry)
    }

    /// Keeps a value with an entry, and the kernels that it holds, each the only one of its module. If another thread
    /// has done so, its value is returned and this one is dropped.
    pub(super) fn attach<'e>(
        &self,
        entry: &'e Entry,
        value: Box<dyn Any + Send + Sync>,
        kernels: Vec<Kernel>,
    ) -> Result<&'e (dyn Any + Send + Sync)> {
        let kept = entry.attached.get_or_init(|| {
            kernels.iter().for_each(|kernel| census(kernel, Census::remove));
            self.holds.fetch_add(kernels.iter().map(holds).sum(), Ordering::Relaxed);
            Attached { value, kernels }
        })?;
        Ok(&*kept.value)
    }

    /// Drops all entries.
    ///
    /// # Safety
    /// No other thread uses this during the call, and no entry of [`get`](Self::get) or [`insert`](Self::insert) is in use.
    pub(super) unsafe fn clear(&self) -> Result<()> {
        let kept = std::mem::take(&mut *self.kept.lock()?);
        self.table.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.holds.store(0, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { kept.free() };
        Ok(())
    }
}

impl Kept {
    /// # Safety
    /// Nobody uses the tables and entries any more.
    unsafe fn free(self) {
        for table in self.tables {
            // SAFETY: leaked from a box by `insert`; the caller's promise.
            drop(unsafe { Box::from_raw(table.as_ptr()) });
        }
        for entry in self.entries {
            // SAFETY: as above.
            drop(unsafe { Box::from_raw(entry.as_ptr()) });
        }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let kept = std::mem::take(self.kept.get_mut());
        // SAFETY: this is borrowed exclusively, and entries are borrowed from it.
        unsafe { kept.free() };
    }
}
