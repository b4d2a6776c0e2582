//! The faults of Rust kernels: one slot a context, in memory that the device writes and the host reads.
//!
//! A thread whose check fails takes the slot and writes there. So the host needs no copy to find a fault: after any wait
//! it reads one word. Contexts in which no Rust kernel was ever launched have no slot, and a wait reads one pointer.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use cuda_sys::{CUdevice_attribute, CUdeviceptr, CUmemAttach_flags};
use gpu_phases::kernel::{FaultSlot, Kernel};
use gpu_phases::{Fault, FaultKind};

use super::RustKernels;
use crate::context::{Context, ContextInner, Deferred};
use crate::error::{Error, Result};
use crate::memory::pages;
use crate::sync::Lock;
use crate::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The states of [`FaultSlot::state`].
const EMPTY: u32 = 0;
const COMPLETE: u32 = 2;

/// How long the host waits for a thread of the device that is writing a fault. It has a few words to write.
const WRITING: Duration = Duration::from_secs(1);

/// The fault slot of a context, and the kernels that may write it.
#[derive(Default)]
pub(crate) struct Faults {
    /// Null until the first launch of a Rust kernel.
    slot: AtomicPtr<FaultSlot>,
    known: Lock<Known>,
}

#[derive(Default)]
struct Known {
    memory: Option<Memory>,
    /// The kernels that were launched, by the numbers in their texts.
    kernels: BTreeMap<u32, KnownKernel>,
}

#[derive(Clone, Copy)]
struct Memory {
    host: NonNull<FaultSlot>,
    device: CUdeviceptr,
    managed: bool,
}

// SAFETY: the memory belongs to the context, which frees it alone; the driver ties it to no thread.
unsafe impl Send for Memory {}

struct KnownKernel {
    kernel: &'static Kernel,
    instance: String,
    files: Box<[&'static str]>,
}

impl Faults {
    /// Fails if a Rust kernel of the context has failed and the program has not taken the fault yet.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        // Acquire: pairs with the store of `slot`, which follows the writes of zero.
        let slot = self.slot.load(Ordering::Acquire);
        match NonNull::new(slot) {
            Some(slot) if state(slot).load(Ordering::Acquire) != EMPTY => self.failed(slot),
            _ => Ok(()),
        }
    }

    #[cold]
    fn failed(&self, slot: NonNull<FaultSlot>) -> Result<()> {
        match self.read(slot, &*self.known.lock()?) {
            Some(fault) => Err(Error::kernel_fault(fault)),
            None => Ok(()),
        }
    }

    /// Returns the recorded fault and empties the slot.
    pub(super) fn take(&self) -> Option<Fault> {
        let slot = NonNull::new(self.slot.load(Ordering::Acquire))?;
        // Held until the slot is empty: of two threads one gets the fault.
        let known = self.known.lock().ok()?;
        let fault = self.read(slot, &known)?;
        let empty = FaultSlot::default();
        // SAFETY: as in `read`; the device writes nothing while the state is not `EMPTY`.
        unsafe {
            (&raw mut (*slot.as_ptr()).kind).write_volatile(empty.kind);
            (&raw mut (*slot.as_ptr()).index).write_volatile(empty.index);
            (&raw mut (*slot.as_ptr()).len).write_volatile(empty.len);
        }
        state(slot).store(EMPTY, Ordering::Release);
        Some(fault)
    }

    fn read(&self, slot: NonNull<FaultSlot>, known: &Known) -> Option<Fault> {
        let since = Instant::now();
        loop {
            match state(slot).load(Ordering::Acquire) {
                EMPTY => return None,
                COMPLETE => break,
                // The launch that was waited for may not have got the slot: another one is writing it.
                _ if since.elapsed() < WRITING => std::hint::spin_loop(),
                // The thread was stopped, as by a debugger. The data written so far at least names the kernel.
                _ => break,
            }
        }
        // SAFETY: the slot lives as long as the context, whose field this is. The device writes nothing more: the state is
        // `COMPLETE`, or its thread is stopped, and then a volatile read has some bytes, of which any are a number.
        let found = unsafe { slot.as_ptr().read_volatile() };
        let kernel = known.kernels.get(&found.kernel);
        let file = |known: &KnownKernel| {
            let file = usize::try_from(found.file).ok().and_then(|file| known.files.get(file));
            file.copied().unwrap_or(known.kernel.file)
        };
        Some(Fault {
            kernel: kernel.map_or("?", |known| known.kernel.name),
            file: kernel.map_or("?", file),
            line: found.line,
            kind: FaultKind::from_number(found.kind).unwrap_or(FaultKind::Assert),
            index: found.index,
            len: found.len,
            element: found.element,
            block: found.block.checked_sub(1).map(u64::from),
        })
    }

    /// Returns the number of a kernel for its text: that of [`number`], so that texts are the same in each process and the
    /// compiler's cache has them, unless the context has another kernel of this number.
    pub(super) fn number(&self, kernel: &'static Kernel, instance: &str) -> Result<u32> {
        let known = self.known.lock()?;
        let mut number = number(kernel, instance);
        let names = |kernel: &Kernel| (kernel.file, kernel.line, kernel.name);
        let same = |other: &KnownKernel| {
            names(other.kernel) == names(kernel) && other.instance.as_str() == instance
        };
        while known.kernels.get(&number).is_some_and(|other| !same(other)) {
            number = number.wrapping_add(1);
        }
        Ok(number)
    }

    /// Notes which kernel has the number.
    pub(super) fn note(
        &self,
        number: u32,
        kernel: &'static Kernel,
        instance: String,
        files: &[&'static str],
    ) -> Result<()> {
        let known = KnownKernel { kernel, instance, files: files.into() };
        self.known.lock()?.kernels.insert(number, known);
        Ok(())
    }

    /// Returns the address of the slot for the device. The first call allocates it.
    pub(super) fn device_address(&self, context: &ContextInner) -> Result<CUdeviceptr> {
        let mut known = self.known.lock()?;
        if let Some(memory) = known.memory {
            return Ok(memory.device);
        }
        let memory = Memory::new(context)?;
        known.memory = Some(memory);
        self.slot.store(memory.host.as_ptr(), Ordering::Release);
        Ok(memory.device)
    }

    /// Leaves the slot to the deferred-free list. Call it where no kernel and no other caller uses the context.
    pub(super) fn put_away(&self, context: &ContextInner) -> Result<()> {
        let mut known = self.known.lock()?;
        self.slot.store(std::ptr::null_mut(), Ordering::Release);
        known.kernels.clear();
        if let Some(memory) = known.memory.take() {
            context.deferred.put(match memory.managed {
                true => Deferred::Unordered { start: memory.device },
                false => {
                    Deferred::PinnedInFlight { start: memory.host.cast(), bytes: pages::ALIGN }
                }
            });
        }
        Ok(())
    }
}

/// Returns the word of the slot by which device and host take turns.
fn state<'a>(slot: NonNull<FaultSlot>) -> &'a AtomicU32 {
    // SAFETY: the slot lives as long as the context, which the caller uses; the word is aligned, and all accesses of it
    // are atomic on both sides.
    unsafe { AtomicU32::from_ptr(&raw mut (*slot.as_ptr()).state) }
}

impl Memory {
    /// Pinned memory, or managed memory where no memory can be pinned.
    fn new(context: &ContextInner) -> Result<Self> {
        let memory = match Self::pinned(context) {
            Ok(memory) => memory,
            Err(error) if error.is_fatal() || !context.state.is_usable() => return Err(error),
            Err(error) => Self::managed(context)?.ok_or(error)?,
        };
        // SAFETY: the memory was just allocated, with room for a slot and aligned to pages.
        unsafe { memory.host.write(FaultSlot::default()) };
        Ok(memory)
    }

    fn pinned(context: &ContextInner) -> Result<Self> {
        let host = pages::allocate(context, pages::ALIGN)?;
        match pages::device_address(context, host) {
            Ok(device) => Ok(Self { host: host.cast(), device, managed: false }),
            Err(error) => {
                context.deferred.put(Deferred::Pinned { start: host, bytes: pages::ALIGN });
                Err(error)
            }
        }
    }

    /// Returns `None` where the host may not read managed memory while a kernel runs.
    fn managed(context: &ContextInner) -> Result<Option<Self>> {
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
        if context.device.raw_attribute(attribute)? == 0 {
            return Ok(None);
        }
        let mut start = 0;
        context.with_current(|| {
            let flags = CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL.0;
            // SAFETY: `start` is a valid place for an address, and the context is current.
            unsafe { call!(context, cuMemAllocManaged(&raw mut start, pages::ALIGN, flags)) }
        })?;
        // The address is the same on the host and the device.
        let host = NonNull::new(std::ptr::with_exposed_provenance_mut(start as usize));
        Ok(host.map(|host| Self { host, device: start, managed: true }))
    }
}

impl Context {
    /// Returns the fault of a Rust kernel that failed in this context, and clears it: waits and downloads are `Ok` again.
    ///
    /// The context keeps the first fault since the last call. Wait for the other work of the context before the call, for
    /// example with [`synchronize`](Self::synchronize): launches that were enqueued before it and fail while the slot is
    /// full are not recorded.
    ///
    /// The contents of all memory that failed launches have written are unspecified. Returns `None` in a subscriber of
    /// `tracing` and in a forked child. The [module `kernel`](crate::kernel) lists the calls that return faults.
    #[must_use]
    pub fn take_fault(&self) -> Option<Fault> {
        self.inner().rust_kernels.get::<RustKernels>()?.faults.take()
    }
}

/// Returns the number of a kernel: FNV-1a of its names. Not of its file, whose path differs between machines: packs have
/// the number, too.
pub(super) fn number(kernel: &Kernel, instance: &str) -> u32 {
    let parts = [kernel.module, kernel.name, &kernel.line.to_string(), instance];
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
