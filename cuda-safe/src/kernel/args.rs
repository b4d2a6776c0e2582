//! The arguments of a launch, collected on the stack.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use gpu_phases::device::Device;
use gpu_phases::kernel::Extent;
use gpu_phases::structure::Structure;
use gpu_phases::target::{Target, Visit};

use super::queried::{DeviceStructure, Reaches};
use crate::error::{Error, Result};
use crate::launch::{ArgType, KernelArgs};
use crate::memory::{Access, Allocation, DeviceSlice, DeviceSliceMut, UseVisitor};
use crate::stream::Stream;

/// The most arguments of a kernel, and what they become: slices have two parameters, and the fault slot, the extent and
/// the memory by which blocks pass values on are added.
const ARGUMENTS: usize = 20;
const PARAMETERS: usize = 1 + 2 * ARGUMENTS + 3 + 1;
const STRUCTURES: usize = 4;

/// The room on the stack, in words of 8 bytes: enough for all but kernels with large structures by value.
const WORDS: usize = 128;

/// Bytes of an allocation, how the kernel uses them, and the number of the parameter that leads there.
type Use<'a> = (&'a Arc<Allocation>, Range<usize>, Access, usize);

/// A structure, and the number of its parameter.
type Queried<'a> = (&'a dyn Reaches, usize);

/// The place of a launch's parameters on the stack. Nothing is written before the parameters are.
pub(super) struct Store<'a> {
    words: [MaybeUninit<u64>; WORDS],
    pointers: [MaybeUninit<*mut c_void>; PARAMETERS],
    uses: [MaybeUninit<Use<'a>>; ARGUMENTS],
    structures: [MaybeUninit<Queried<'a>>; STRUCTURES],
}

impl Store<'_> {
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self {
            words: [const { MaybeUninit::uninit() }; WORDS],
            pointers: [const { MaybeUninit::uninit() }; PARAMETERS],
            uses: [const { MaybeUninit::uninit() }; ARGUMENTS],
            structures: [const { MaybeUninit::uninit() }; STRUCTURES],
        }
    }
}

/// The values of the parameters, and the memory that they reach.
pub(super) struct Params<'a, 's> {
    // Bare pointers to the arrays of the store: `pointers` has addresses of `words`.
    words: *mut MaybeUninit<u64>,
    pointers: *mut MaybeUninit<*mut c_void>,
    uses: *mut MaybeUninit<Use<'a>>,
    structures: *mut MaybeUninit<Queried<'a>>,
    /// How many words, parameters, arguments with elements and structures there are.
    used: usize,
    parameters: usize,
    arguments: usize,
    queried: usize,
    /// The upper halves of all lengths and `usize`s, by `or`.
    upper: u64,
    /// Values for which the words have no room.
    spilled: Vec<Box<[MaybeUninit<u64>]>>,
    marker: PhantomData<&'s mut Store<'a>>,
}

impl<'a, 's> Params<'a, 's> {
    /// Returns the parameters of a launch without arguments; the first one is a fault slot to be [set](Self::set_fault).
    #[inline(always)]
    pub(super) fn new(store: &'s mut Store<'a>) -> Self {
        let mut params = Self {
            words: store.words.as_mut_ptr(),
            pointers: store.pointers.as_mut_ptr(),
            uses: store.uses.as_mut_ptr(),
            structures: store.structures.as_mut_ptr(),
            used: 0,
            parameters: 0,
            arguments: 0,
            queried: 0,
            upper: 0,
            spilled: Vec::new(),
            marker: PhantomData,
        };
        // `params` has capacity for one more.
        let _ = params.push(0_u64);
        params
    }

    /// Sets the address of the fault slot.
    #[inline(always)]
    pub(super) fn set_fault(&mut self, address: u64) {
        // SAFETY: the store has more than one word. `new` has made the first one the first parameter.
        unsafe { self.words.write(MaybeUninit::new(address)) };
    }

    /// Adds the extent, and returns whether lengths need 64 bits.
    #[inline(always)]
    pub(super) fn finish(&mut self, extent: &Extent) -> Result<bool> {
        let [x, y, z] = extent.size;
        for size in [x, y, z] {
            self.push(size)?;
        }
        // A product that 64 bits do not hold is refused by the limits of grids.
        let count = if extent.dimensions == 1 { x } else { x.saturating_mul(y).saturating_mul(z) };
        Ok((self.upper | count >> 32) != 0)
    }

    /// Adds the address of the memory by which blocks pass values on, after the extent.
    pub(super) fn carry(&mut self, address: u64) -> Result<()> {
        self.push(address)
    }

    /// Adds a parameter.
    #[inline(always)]
    fn push<T: Copy>(&mut self, value: T) -> Result<()> {
        let words = const { size_of::<T>().div_ceil(8) };
        if self.parameters == PARAMETERS {
            return Err(too_many());
        }
        let place = self.place(words);
        // SAFETY: the place has room for the value, and the write needs no alignment: nor does the driver, which copies
        // bytes. The store has one pointer more.
        unsafe {
            place.cast::<T>().write_unaligned(value);
            self.pointers.add(self.parameters).write(MaybeUninit::new(place.cast()));
        }
        self.parameters += 1;
        Ok(())
    }

    /// Returns a place for so many words.
    #[inline(always)]
    fn place(&mut self, words: usize) -> *mut MaybeUninit<u64> {
        if words <= WORDS - self.used {
            // SAFETY: the store has these words.
            let place = unsafe { self.words.add(self.used) };
            self.used += words;
            place
        } else {
            self.spill(words)
        }
    }

    /// Returns a place for so many words on the heap.
    #[cold]
    fn spill(&mut self, words: usize) -> *mut MaybeUninit<u64> {
        self.spilled.push(Box::new_uninit_slice(words));
        self.spilled.last_mut().map_or(std::ptr::null_mut(), |place| place.as_mut_ptr())
    }

    /// Adds the two parameters of elements, and the use of their memory.
    #[inline(always)]
    fn elements(
        &mut self,
        address: u64,
        len: usize,
        memory: (&'a Arc<Allocation>, Range<usize>, Access),
    ) -> Result<()> {
        self.memory(memory)?;
        let len = len as u64;
        self.push(address)?;
        // The kernel's parameter has the lower half of it unless it has 64 bits: devices and their hosts are
        // little-endian.
        self.push(len)?;
        self.upper |= len >> 32;
        Ok(())
    }

    /// Notes the memory that the next parameter leads to.
    #[inline(always)]
    fn memory(
        &mut self,
        (allocation, range, access): (&'a Arc<Allocation>, Range<usize>, Access),
    ) -> Result<()> {
        if self.arguments == ARGUMENTS {
            return Err(too_many());
        }
        let memory = (allocation, range, access, self.parameters);
        // SAFETY: the store has one more.
        unsafe { self.uses.add(self.arguments).write(MaybeUninit::new(memory)) };
        self.arguments += 1;
        Ok(())
    }

    /// Adds the parameter of a structure, and what it reaches.
    #[inline(always)]
    pub(super) fn queries<S: Structure>(
        &mut self,
        structure: &'a dyn DeviceStructure<S>,
    ) -> Result<()> {
        if self.queried == STRUCTURES || self.parameters == PARAMETERS {
            return Err(too_many());
        }
        let words = const { S::SIZE.div_ceil(8) };
        let place = self.place(words);
        // SAFETY: the place has these words. They are written here before they are bytes.
        let bytes = unsafe {
            place.write_bytes(0, words);
            std::slice::from_raw_parts_mut(place.cast::<u8>(), S::SIZE)
        };
        structure.write(bytes);
        // SAFETY: the store has one pointer more, and one structure.
        unsafe {
            self.pointers.add(self.parameters).write(MaybeUninit::new(place.cast()));
            self.structures.add(self.queried).write(MaybeUninit::new((structure, self.parameters)));
        }
        self.parameters += 1;
        self.queried += 1;
        Ok(())
    }

    /// Returns the memory that the parameters lead to, in their order.
    pub(super) fn memories(&self) -> impl Iterator<Item = &Use<'a>> {
        // SAFETY: as many were written as there are arguments, and nothing else refers to them.
        (0..self.arguments).map(|at| unsafe { (*self.uses.add(at)).assume_init_ref() })
    }

    /// Returns the structures, in the order of the parameters.
    pub(super) fn structures(&self) -> impl Iterator<Item = &Queried<'a>> {
        // SAFETY: as many were written as there are structures, and nothing else refers to them.
        (0..self.queried).map(|at| unsafe { (*self.structures.add(at)).assume_init_ref() })
    }

    /// Returns the first `size` bytes of a parameter's value.
    ///
    /// # Safety
    /// There is such a parameter, and its value has so many bytes.
    #[inline(always)]
    pub(super) unsafe fn bytes_of(&self, parameter: usize, size: usize) -> &[MaybeUninit<u8>] {
        // SAFETY: `push` has written the pointer of each parameter, says the caller.
        let value = unsafe { (*self.pointers.add(parameter)).assume_init() };
        // SAFETY: the value lies there, and nothing writes it while it is borrowed.
        unsafe { std::slice::from_raw_parts(value.cast(), size) }
    }

    #[inline(always)]
    pub(super) fn reads<T: Copy + 'static>(&mut self, view: DeviceSlice<'a, T>) -> Result<()> {
        let memory = (view.allocation(), view.byte_range(), Access::Read);
        self.elements(view.device_ptr(), view.len(), memory)
    }

    #[inline(always)]
    pub(super) fn writes<T: Copy + 'static>(&mut self, view: &DeviceSliceMut<'a, T>) -> Result<()> {
        let memory = (view.allocation(), view.byte_range(), Access::Write);
        self.elements(view.device_ptr(), view.len(), memory)
    }
}

/// A program can implement [`Activates`](gpu_phases::target::Activates), and adjoints write the gradient of a whole value.
#[cold]
fn no_place() -> Error {
    Error::invalid("the memory of an active argument does not begin with exactly its value")
}

#[cold]
fn too_many() -> Error {
    Error::invalid("the arguments of the kernel are more than a launch can have")
}

// SAFETY: there is one pointer for each parameter, to its value, which lies in the store or in `spilled`. The kernel
// reaches the elements of the arguments, which are all among the uses, and the fault slot, which lives as long as the
// context. The memory by which blocks pass values on is that of the stream, or among the uses of `carry::WithMemory`.
unsafe impl KernelArgs for &Params<'_, '_> {
    const TYPES: &'static [ArgType] = &[];
    const TYPED: bool = false;

    #[inline]
    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        self.memories().try_for_each(|(allocation, range, access, _)| {
            visitor.visit(allocation, range.clone(), *access)
        })?;
        self.structures().try_for_each(|(structure, _)| {
            structure.reaches(&mut |memory, range, access| visitor.visit(memory, range, access))
        })
    }

    #[inline]
    fn with_pointers<Out>(&self, f: impl FnOnce(&mut [*mut c_void]) -> Out) -> Out {
        // SAFETY: as many were written as there are parameters. `f` has them for itself: it has no way to come here again.
        f(unsafe { std::slice::from_raw_parts_mut(self.pointers.cast(), self.parameters) })
    }
}

impl<'a> Visit<'a, &Stream> for Params<'a, '_> {
    #[inline(always)]
    fn value<T: Device>(&mut self, value: T) -> Result<()> {
        if let Some(length) = T::LENGTH {
            self.upper |= length(value) as u64 >> 32;
        }
        self.push(value)
    }

    #[inline(always)]
    fn active<T: Device>(
        &mut self,
        value: T,
        place: <&Stream as Target>::Read<'a, T>,
    ) -> Result<()> {
        let range = place.byte_range();
        if range != (0..size_of::<T>()) {
            return Err(no_place());
        }
        self.memory((place.allocation(), range, Access::Read))?;
        self.push(value)
    }

    #[inline(always)]
    fn read<T: Device>(&mut self, view: <&Stream as Target>::Read<'a, T>) -> Result<()> {
        self.reads(view)
    }

    #[inline(always)]
    fn write<T: Device>(&mut self, view: <&Stream as Target>::Write<'a, T>) -> Result<()> {
        self.writes(&view)
    }

    #[inline(always)]
    fn shared<T: Device>(&mut self, view: <&Stream as Target>::Shared<'a, T>) -> Result<()> {
        self.writes(&view)
    }

    #[inline(always)]
    fn structure<S: Structure>(&mut self, structure: &'a dyn DeviceStructure<S>) -> Result<()> {
        self.queries(structure)
    }
}
