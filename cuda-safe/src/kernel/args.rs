//! The arguments of a launch, collected on the stack.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use gpu_phases::device::Device;
use gpu_phases::kernel::Extent;
use gpu_phases::target::{Target, Visit};

use crate::error::{Error, Result};
use crate::launch::{ArgType, KernelArgs, UseVisitor};
use crate::memory::{Access, Allocation, DeviceSlice, DeviceSliceMut};
use crate::stream::Stream;

/// The most arguments of a kernel, and what they become: slices have two parameters, and the fault slot and the extent
/// are added.
const ARGUMENTS: usize = 20;
const PARAMETERS: usize = 1 + 2 * ARGUMENTS + 3;

/// The room on the stack, in words of 16 bytes: enough for all but kernels with large structures by value.
const WORDS: usize = 64;
const WORD: usize = 16;

/// Bytes of an allocation, and how the kernel uses them.
type Use<'a> = (&'a Arc<Allocation>, Range<usize>, Access);

/// The values of the parameters, and the memory that they reach.
pub(super) struct Params<'a> {
    words: UnsafeCell<[MaybeUninit<u128>; WORDS]>,
    /// The values, once they need more room.
    spilled: Box<[UnsafeCell<MaybeUninit<u128>>]>,
    /// The bytes that are used.
    used: usize,
    /// Where each parameter begins.
    starts: [MaybeUninit<u32>; PARAMETERS],
    parameters: usize,
    uses: [MaybeUninit<Use<'a>>; ARGUMENTS],
    arguments: usize,
    /// The largest length.
    most: u64,
}

impl<'a> Params<'a> {
    /// Returns the parameters of a launch without arguments; the first one is a fault slot to be [set](Self::set_fault).
    #[inline]
    pub(super) fn new() -> Self {
        let mut params = Self {
            words: UnsafeCell::new([MaybeUninit::uninit(); WORDS]),
            spilled: Box::default(),
            used: 0,
            starts: [MaybeUninit::uninit(); PARAMETERS],
            parameters: 0,
            uses: [const { MaybeUninit::uninit() }; ARGUMENTS],
            arguments: 0,
            most: 0,
        };
        // There is room for it.
        let _ = params.push(0_u64);
        params
    }

    /// Sets the address of the fault slot.
    #[inline]
    pub(super) fn set_fault(&mut self, address: u64) {
        // SAFETY: `new` has put a number of this type first.
        unsafe { self.start().cast::<u64>().write(address) };
    }

    /// Adds the extent, and returns whether lengths need 64 bits.
    #[inline]
    pub(super) fn finish(&mut self, extent: &Extent) -> Result<bool> {
        for size in extent.size {
            self.push(size)?;
        }
        // A product that 64 bits do not hold is refused by the limits of grids.
        let count = extent.count().unwrap_or(u64::MAX);
        Ok(self.most.max(count) > u64::from(u32::MAX))
    }

    #[inline]
    fn start(&self) -> *mut u8 {
        match self.spilled.is_empty() {
            true => self.words.get().cast(),
            false => self.spilled.as_ptr().cast_mut().cast(),
        }
    }

    /// Adds a parameter.
    #[inline]
    fn push<T: Copy>(&mut self, value: T) -> Result<()> {
        let align = if align_of::<T>() > 8 { WORD } else { 8 };
        let start = self.used.next_multiple_of(align);
        let end = start.saturating_add(size_of::<T>());
        let room = if self.spilled.is_empty() { WORDS } else { self.spilled.len() };
        if end > room * WORD {
            self.spill(end)?;
        }
        let (Some(place), Ok(at)) = (self.starts.get_mut(self.parameters), u32::try_from(start))
        else {
            return Err(too_many());
        };
        place.write(at);
        self.parameters += 1;
        self.used = end;
        // SAFETY: the words have room up to `end`. The alignment is at most that of a word, or the write does not need it.
        unsafe { self.start().add(start).cast::<T>().write_unaligned(value) };
        Ok(())
    }

    /// Moves the values to where there is room for `bytes` bytes.
    #[cold]
    fn spill(&mut self, bytes: usize) -> Result<()> {
        // No driver takes so many; the limit keeps the sizes of the places small.
        if bytes > 1 << 20 {
            return Err(too_many());
        }
        let words = (2 * bytes).div_ceil(WORD);
        let new: Box<[_]> = (0..words).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
        let to: *mut u8 = new.as_ptr().cast_mut().cast();
        // SAFETY: both have room for the bytes that are used, and do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(self.start().cast_const(), to, self.used) };
        self.spilled = new;
        Ok(())
    }

    /// Adds the two parameters of elements, and the use of their memory.
    #[inline]
    fn elements(&mut self, address: u64, len: usize, memory: Use<'a>) -> Result<()> {
        let len = len as u64;
        self.push(address)?;
        // The kernel's parameter has the lower half of it unless it has 64 bits: devices and their hosts are
        // little-endian.
        self.push(len)?;
        self.most = self.most.max(len);
        let place = self.uses.get_mut(self.arguments).ok_or_else(too_many)?;
        place.write(memory);
        self.arguments += 1;
        Ok(())
    }

    #[inline]
    pub(super) fn reads<T: Copy + 'static>(&mut self, view: DeviceSlice<'a, T>) -> Result<()> {
        let memory = (view.allocation(), view.byte_range(), Access::Read);
        self.elements(view.device_ptr(), view.len(), memory)
    }

    #[inline]
    pub(super) fn writes<T: Copy + 'static>(&mut self, view: &DeviceSliceMut<'a, T>) -> Result<()> {
        let memory = (view.allocation(), view.byte_range(), Access::Write);
        self.elements(view.device_ptr(), view.len(), memory)
    }
}

#[cold]
fn too_many() -> Error {
    Error::invalid("the arguments of the kernel are more than a launch can have")
}

// SAFETY: there is one pointer for each parameter, to its value, which lies in `self`. The kernel reaches the elements of
// the arguments, which are all among the uses, and the fault slot, which lives as long as the context.
unsafe impl KernelArgs for &Params<'_> {
    const TYPES: &'static [ArgType] = &[];
    const TYPED: bool = false;

    #[inline]
    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        for memory in &self.uses[..self.arguments] {
            // SAFETY: as many were written as there are arguments.
            let (allocation, range, access) = unsafe { memory.assume_init_ref() };
            visitor.visit(allocation, range.clone(), *access)?;
        }
        Ok(())
    }

    #[inline]
    fn with_pointers<Out>(&self, f: impl FnOnce(&mut [*mut c_void]) -> Out) -> Out {
        let start = self.start();
        let mut pointers = [MaybeUninit::<*mut c_void>::uninit(); PARAMETERS];
        for (pointer, at) in pointers.iter_mut().zip(&self.starts[..self.parameters]) {
            // SAFETY: as many were written as there are parameters, and each lies within the words.
            pointer.write(unsafe { start.add(at.assume_init() as usize).cast() });
        }
        // SAFETY: so many were written.
        f(unsafe { std::slice::from_raw_parts_mut(pointers.as_mut_ptr().cast(), self.parameters) })
    }
}

impl<'a> Visit<'a, &Stream> for Params<'a> {
    #[inline]
    fn value<T: Device>(&mut self, value: T) -> Result<()> {
        self.push(value)
    }

    #[inline]
    fn read<T: Device>(&mut self, view: <&Stream as Target>::Read<'a, T>) -> Result<()> {
        self.reads(view)
    }

    #[inline]
    fn write<T: Device>(&mut self, view: <&Stream as Target>::Write<'a, T>) -> Result<()> {
        self.writes(&view)
    }

    #[inline]
    fn shared<T: Device>(&mut self, view: <&Stream as Target>::Shared<'a, T>) -> Result<()> {
        self.writes(&view)
    }
}
