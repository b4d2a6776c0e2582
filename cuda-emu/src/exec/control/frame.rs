//! The registers of one activation of a function.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use crate::exec::decode::{Code, Constant};
use crate::exec::inst::{FULL, LANES, SLOT_TRUE};

/// Memory aligned for vectors, zero at first: registers of a frame, or a warp's local memory.
#[derive(Debug)]
pub(crate) struct Registers {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its memory, like a Box.
unsafe impl Send for Registers {}

impl Registers {
    /// Makes registers of at least `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let rounded = bytes.max(64).next_multiple_of(64);
        let layout = Layout::from_size_align(rounded, 64).unwrap_or(Layout::new::<[u64; 8]>());
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, layout }
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// Makes the registers of a function, with its constants in place.
    pub(crate) fn of(code: &Code, shared: &[u32]) -> Self {
        let registers = Self::new(code.frame_bytes as usize);
        let start = registers.start();
        // SAFETY: every function's frame begins with the predicate that is true.
        unsafe { start.add(SLOT_TRUE as usize).cast::<u32>().write(FULL) };
        for constant in &code.constants {
            match *constant {
                Constant::Narrow { slot, bits } => {
                    // SAFETY: the slot was laid out within `frame_bytes`, 32 values of 4 bytes.
                    unsafe { start.add(slot as usize).cast::<[u32; LANES]>().write([bits; LANES]) };
                }
                Constant::Wide { slot, bits } => {
                    // SAFETY: as above, of 8 bytes.
                    unsafe { start.add(slot as usize).cast::<[u64; LANES]>().write([bits; LANES]) };
                }
                Constant::Pred { slot, bits } => {
                    // SAFETY: the slot was laid out within `frame_bytes`, 4 bytes.
                    unsafe { start.add(slot as usize).cast::<u32>().write(bits) };
                }
                Constant::Shared { .. } => {}
            }
        }
        registers.place_shared(code, shared, 0);
        registers
    }

    /// Writes the addresses of shared variables, in a block whose shared memory begins at the address `base`.
    ///
    /// Does nothing unless the registers have room for the function's frame.
    pub(crate) fn place_shared(&self, code: &Code, shared: &[u32], base: u64) {
        if code.frame_bytes as usize > self.bytes() {
            return;
        }
        for constant in &code.constants {
            let Constant::Shared { slot, variable, addend, wide, generic } = *constant else {
                continue;
            };
            let offset = shared.get(variable as usize).copied().unwrap_or(0);
            let mut value = (base + u64::from(offset)).wrapping_add_signed(addend);
            if generic {
                value = value.wrapping_add(crate::exec::memory::SHARED_WINDOW);
            }
            let at = self.start().wrapping_add(slot as usize);
            if wide {
                // SAFETY: the slot was laid out within `frame_bytes`, 32 values of 8 bytes, which the registers have.
                unsafe { at.cast::<[u64; LANES]>().write([value; LANES]) };
            } else {
                // SAFETY: as above, of 4 bytes.
                unsafe { at.cast::<[u32; LANES]>().write([value as u32; LANES]) };
            }
        }
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout in `new`.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// An activation of a function by some lanes of a warp.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The function.
    pub(crate) function: u32,
    pub(crate) registers: Registers,
    /// The caller's frame, and the instruction after the call.
    pub(crate) parent: u32,
    pub(crate) return_pc: u32,
    /// The call in the caller's code.
    pub(crate) call: u32,
    /// Where the function's local variables begin in the local memory of its lanes.
    pub(crate) local_base: u32,
    /// The lanes' stack tops before the call.
    pub(crate) saved_top: [u32; LANES],
    /// The join of the lanes that return.
    pub(crate) join: u32,
    /// Calls below this one.
    pub(crate) depth: u32,
}
