//! Reads the arguments of a launch: their bytes, and the memory that each pointer leads to.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use cuda_safe::{
    Access, Allocation, Error, KernelArg, LaunchConfig, Result, Stream,
    arg::{ArgKind, ArgVisitor, InspectArgs},
};

use super::call::is_not_saved;
use super::{Chunk, Recording, Target, Use};
use crate::spec::{Effect, Op, OpPointer};
use crate::store::Store;

/// Memory that an argument reaches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) memory: u32,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) writes: bool,
    pub(crate) param: u16,
    /// Whether a pointer of the specification leads there.
    pub(crate) known: bool,
}

impl Found {
    pub(crate) fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

/// The arguments of a launch that is recorded.
pub(crate) trait Launch {
    /// Passes on the bytes of each argument, and the memory that it leads to.
    fn collect(&self, to: &mut Collect<'_>) -> Result<()>;

    /// Returns whether an argument is a view of elements.
    fn is_view(&self, param: usize) -> bool;

    /// Enqueues the kernel.
    fn enqueue(self, stream: &Stream, op: &Op, launch: LaunchConfig) -> Result<()>;

    /// Runs the primal of an operation that has one. Returns the index of its tape memory among the copies.
    fn run_primal(
        &self,
        recording: &mut Recording,
        stream: &Stream,
        store: &mut Store,
        op: &Op,
        launch: &LaunchConfig,
    ) -> Result<u32>;
}

impl<A: InspectArgs> Launch for A {
    #[inline]
    fn collect(&self, to: &mut Collect<'_>) -> Result<()> {
        self.each(to)
    }

    fn is_view(&self, param: usize) -> bool {
        A::TYPES.get(param).is_some_and(|arg| matches!(arg.kind, ArgKind::Pointer { .. }))
    }

    #[inline]
    fn enqueue(self, stream: &Stream, op: &Op, launch: LaunchConfig) -> Result<()> {
        // SAFETY: the promise of `OpSpec::register`: the arguments have passed the checks, or no thread runs. The
        // kernel is only known at run time, so `kernels!` can't declare it.
        unsafe { op.inner.kernels.forward.launch(stream, launch, self) }
    }

    fn run_primal(
        &self,
        recording: &mut Recording,
        stream: &Stream,
        store: &mut Store,
        op: &Op,
        launch: &LaunchConfig,
    ) -> Result<u32> {
        recording.run_primal(stream, store, op, launch, self)
    }
}

/// Collects the arguments of a launch of `op` whose bytes begin with chunk `base`.
pub(crate) struct Collect<'a> {
    pub(super) recording: &'a mut Recording,
    pub(super) op: &'a Op,
    pub(super) base: usize,
}

impl ArgVisitor for Collect<'_> {
    #[inline]
    fn visit<A: KernelArg>(&mut self, index: usize, arg: &A) -> Result<()> {
        let abi = arg.abi();
        // SAFETY: the bytes of a value; some may be padding, which `MaybeUninit` allows.
        let bytes = unsafe {
            std::slice::from_raw_parts(
                (&raw const abi).cast::<MaybeUninit<u8>>(),
                size_of::<A::Abi>(),
            )
        };
        let first = self.recording.found.len();
        let unsaved = self.recording.call && is_not_saved::<A>();
        arg.uses(&mut |allocation: &Arc<Allocation>, range: Range<usize>, access| {
            self.found(index, allocation, range, access)
        })?;
        self.argument(index, bytes, first, A::IS_VARIABLE, unsaved)
    }
}

impl Collect<'_> {
    /// Notes memory that an argument leads to.
    #[inline]
    pub(crate) fn found(
        &mut self,
        param: usize,
        allocation: &Arc<Allocation>,
        range: Range<usize>,
        access: Access,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let Recording { memories, found, .. } = &mut *self.recording;
        let (memory, Range { start, end }) = (memories.number(allocation)?, range);
        let writes = access == Access::Write;
        // An operation has at most 24 arguments, or parameters of a Rust kernel.
        found.push(Found { memory, start, end, writes, param: param as u16, known: false });
        Ok(())
    }

    /// Notes the bytes of an argument whose memory was found, from `first` on, and its uses.
    #[inline]
    pub(crate) fn argument(
        &mut self,
        index: usize,
        bytes: &[MaybeUninit<u8>],
        first: usize,
        variable: bool,
        unsaved: bool,
    ) -> Result<()> {
        // The number of arguments was compared with that of the parameters.
        let Some(param) = self.op.inner.params.get(index) else { return Ok(()) };
        let at = self.base * 16 + param.at;
        write(&mut self.recording.bytes, at, bytes.get(..param.size).unwrap_or(bytes));
        if first == self.recording.found.len() && param.pointers.is_empty() {
            return Ok(());
        }
        for place in param.pointers.clone() {
            if let Some(pointer) = self.op.inner.pointers.get(place) {
                if unsaved {
                    self.not_saved(place, pointer, at + pointer.offset)?;
                    continue;
                }
                self.pointer(place, pointer, at + pointer.offset, first)?;
            }
        }
        if let Some(place) = param.scalar.filter(|_| variable) {
            self.scalar(place, param.size, first);
        }
        Ok(())
    }
}

impl Collect<'_> {
    /// Finds the memory that a pointer leads to, among the memory that the argument has reported.
    pub(super) fn pointer(
        &mut self,
        place: usize,
        pointer: &OpPointer,
        patch: usize,
        first: usize,
    ) -> Result<()> {
        let address = read(&self.recording.bytes, patch, 8);
        if address == 0 {
            // `Recording::measure` fails for a null pointer if elements are used.
            return Ok(());
        }
        let recording = &mut *self.recording;
        let (found, memories) = (&mut recording.found, &recording.memories);
        let lies_in = |found: &&mut Found| {
            let start =
                memories.get(found.memory).map_or(0, |memory| memory.allocation.device_ptr());
            (start + found.start as u64..start + found.end as u64).contains(&address)
        };
        let Some(found) = found.iter_mut().skip(first).find(lies_in) else {
            // An empty view has an address and no bytes; `Recording::measure` checks this case, too.
            return Ok(());
        };
        found.known = true;
        if pointer.effect != Effect::Reads && !found.writes {
            return Err(self.written(pointer));
        }
        let start = memories.get(found.memory).map_or(0, |memory| memory.allocation.device_ptr());
        let detached = self.op.inner.detached.pointers >> place & 1 == 1;
        // The range ends where the reported memory ends.
        let range = (address - start) as usize..found.end;
        let target = Target::Pointer(place as u16);
        recording.uses.push(Use {
            value: pointer.value,
            covers: pointer.covers,
            active: pointer.slot.is_some() && !detached,
            slot: pointer.slot.unwrap_or(u8::MAX),
            alone: pointer.alone,
            drops: pointer.drops,
            patch,
            ..Use::new(target, found.memory, range, pointer.element, pointer.effect)
        });
        Ok(())
    }

    #[cold]
    fn written(&self, pointer: &OpPointer) -> Error {
        let param = self.op.inner.param(pointer.param);
        Error::invalid(format!("{param} is written, and its argument reports that it is read"))
    }

    /// Records the gradient of a number, if the argument is a variable: it reports the memory that identifies it.
    fn scalar(&mut self, place: usize, size: usize, first: usize) {
        let Some(scalar) = self.op.inner.scalars.get(place) else { return };
        let recording = &mut *self.recording;
        let Some(found) = recording.found.get_mut(first).filter(|found| !found.known) else {
            return;
        };
        found.known = true;
        let target = Target::Scalar(place as u16);
        recording.uses.push(Use {
            covers: scalar.covers,
            active: self.op.inner.detached.scalars >> place & 1 == 0,
            ..Use::new(target, found.memory, 0..size, scalar.element, Effect::Reads)
        });
    }
}

/// Writes bytes into those of launches; does nothing if they are out of range.
pub(crate) fn write(chunks: &mut [Chunk], at: usize, bytes: &[MaybeUninit<u8>]) {
    let room = chunks.len() * 16;
    if at.checked_add(bytes.len()).is_none_or(|end| end > room) {
        return;
    }
    // SAFETY: the target lies in the chunks, which are bytes without gaps, and does not overlap the source, which is
    // borrowed.
    unsafe {
        let to = chunks.as_mut_ptr().cast::<MaybeUninit<u8>>().add(at);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
    }
}

/// Writes an address into the bytes of launches.
pub(crate) fn write_address(chunks: &mut [Chunk], at: usize, address: u64) {
    write(chunks, at, &address.to_ne_bytes().map(MaybeUninit::new));
}

/// Returns an unsigned number of up to 8 bytes among those of launches; 0 if it is out of range, and an arbitrary
/// number if the bytes are padding.
pub(crate) fn read(chunks: &[Chunk], at: usize, size: usize) -> u64 {
    let mut number = [MaybeUninit::new(0u8); 8];
    for (i, byte) in number.iter_mut().enumerate().take(size) {
        let Some(chunk) = chunks.get((at + i) / 16) else { return 0 };
        let Some(found) = chunk.0.get((at + i) % 16) else { return 0 };
        *byte = *found;
    }
    freeze(&mut number);
    // SAFETY: `freeze` has made all bytes initialised.
    u64::from_le_bytes(number.map(|byte| unsafe { byte.assume_init() }))
}

/// Makes bytes that may be padding initialised, with unspecified values.
fn freeze(bytes: &mut [MaybeUninit<u8>; 8]) {
    let at = bytes.as_mut_ptr();
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: the assembly is empty. It takes the address of the bytes, so the compiler must assume that it writes
    // them.
    unsafe {
        std::arch::asm!("/* {0} */", in(reg) at, options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    for i in 0..bytes.len() {
        // SAFETY: a byte of the array is written back to its place.
        unsafe { at.add(i).write_volatile(at.add(i).read_volatile()) };
    }
}
