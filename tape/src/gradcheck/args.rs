//! The arguments of a launch, with copies in place of the memory that they lead to.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use cuda_safe::{
    Access, Allocation, DeviceBuffer, Error, KernelArg, Result, Stream,
    arg::{ArgType, ArgVisitor, InspectArgs, KernelArgs, UseVisitor},
};

use crate::record::{Chunk, Found, Recording, Use};
use crate::spec::{Effect, Op};

/// A range of the caller's memory, and its copy.
pub(super) struct Copied {
    /// The caller's memory, and the bytes of it that were copied.
    pub(super) original: Arc<Allocation>,
    pub(super) range: Range<usize>,
    /// The start of the copy: congruent to the original modulo 256.
    pub(super) offset: usize,
    pub(super) buffer: DeviceBuffer<u8>,
    /// The contents at the point that is checked.
    pub(super) image: Vec<u8>,
    /// Whether the device's contents differ from `image`.
    pub(super) stale: bool,
    /// Whether the kernel may write to it.
    pub(super) written: bool,
    /// Whether the kernel reads it, by the specification.
    pub(super) loaded: bool,
}

/// The alignment of allocations.
const GRAIN: u64 = 256;

impl Copied {
    /// Returns the range in the copy's buffer for some bytes of the original.
    pub(super) fn place(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.offset + (range.start - self.range.start);
        start..start + range.len()
    }

    /// Returns the range in the buffer for some bytes of the copy, counted from its start.
    pub(super) fn within(&self, range: Range<usize>) -> Range<usize> {
        self.offset + range.start..self.offset + range.end
    }

    fn holds(&self, allocation: &Arc<Allocation>, range: &Range<usize>) -> bool {
        Arc::ptr_eq(&self.original, allocation)
            && self.range.start <= range.start
            && range.end <= self.range.end
    }
}

/// Copies all memory that the pointers of the specification lead to. Waits.
pub(super) fn copies(stream: &Stream, recording: &Recording) -> Result<Vec<Copied>> {
    let mut ranges: Vec<(u32, Range<usize>, bool, bool)> = Vec::new();
    for found in recording.found.iter().filter(|found| found.known) {
        let is_loaded = |used: &Use| {
            used.memory == found.memory
                && found.start <= used.start
                && used.start < found.end
                && used.effect != Effect::Overwrites
        };
        let loaded = recording.uses.iter().any(is_loaded);
        ranges.push((found.memory, found.range(), found.writes, loaded));
    }
    // Views that overlap share one copy.
    ranges.sort_by_key(|(memory, range, ..)| (*memory, range.start));
    let mut merged: Vec<(u32, Range<usize>, bool, bool)> = Vec::new();
    for (memory, range, writes, loaded) in ranges {
        match merged.last_mut() {
            Some((same, known, written, read)) if *same == memory && range.start < known.end => {
                known.end = known.end.max(range.end);
                *written |= writes;
                *read |= loaded;
            }
            _ => merged.push((memory, range, writes, loaded)),
        }
    }
    let mut copies = Vec::new();
    for (memory, range, written, loaded) in merged {
        let Some(known) = recording.memories.get(memory) else { continue };
        let original = known.allocation.clone();
        let offset = ((original.device_ptr() + range.start as u64) % GRAIN) as usize;
        let buffer = DeviceBuffer::zeroed(stream, offset + range.len())?;
        let image = match loaded {
            // SAFETY: any bits are valid bytes, and the caller holds the arguments that borrow the memory.
            true => unsafe { original.view::<u8>(range.clone()) }?.to_vec(stream)?,
            // The memory may never have been written, so it is not read.
            false => vec![0; range.len()],
        };
        let stale = true;
        copies.push(Copied { original, range, offset, buffer, image, stale, written, loaded });
    }
    Ok(copies)
}

/// Fails if the kernel reaches memory by pointers that the specification does not list, which can't be replaced by
/// copies.
pub(super) fn no_other_memory(op: &Op, recording: &Recording) -> Result<()> {
    for found in recording.found.iter().filter(|found| !found.known) {
        let shares = |other: &&Found| {
            other.known
                && other.memory == found.memory
                && other.start < found.end
                && found.start < other.end
        };
        let why = if found.writes {
            "leads to memory that is written"
        } else if recording.found.iter().any(|other| shares(&other)) {
            "leads to memory of another argument"
        } else {
            continue;
        };
        let name = op.inner.param(found.param.into());
        return Err(Error::invalid(format!(
            "{name} {why}, by a pointer that the specification does not tell of, so the check can't work on a copy"
        )));
    }
    Ok(())
}

/// The arguments of a launch whose bytes and memory are replaced. All numbers that have gradients are variables.
pub(super) struct Rebound<'a, A> {
    pub(super) args: &'a A,
    pub(super) op: &'a Op,
    /// The bytes of all parameters, with the addresses of copies and other numbers in them.
    pub(super) bytes: &'a [Chunk],
    pub(super) copies: &'a [Copied],
    /// The memory that identifies the numbers of each parameter.
    pub(super) places: &'a [Option<DeviceBuffer<u8>>],
}

impl<A> Clone for Rebound<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Rebound<'_, A> {}

impl<A> Rebound<'_, A> {
    /// Returns the address of a parameter's bytes.
    fn bytes_of(&self, param: usize) -> *const MaybeUninit<u8> {
        let at = self.op.inner.params.get(param).map_or(0, |param| param.at);
        let chunk = self.bytes.get(at / 16..).unwrap_or_default();
        chunk.as_ptr().cast()
    }
}

impl<A: InspectArgs> InspectArgs for Rebound<'_, A> {
    fn each<V: ArgVisitor>(&self, visitor: &mut V) -> Result<()> {
        self.args.each(&mut Each { visitor, rebound: self.untyped() })
    }
}

impl<'a, A> Rebound<'a, A> {
    fn untyped(&self) -> Rebound<'a, ()> {
        let Self { op, bytes, copies, places, .. } = *self;
        Rebound { args: &(), op, bytes, copies, places }
    }
}

// SAFETY: a pointer for each parameter of the operation, which `Op::check` has compared with `TYPES`, to bytes of a
// value of its type; see `Moved`.
unsafe impl<A: InspectArgs> KernelArgs for Rebound<'_, A> {
    const TYPES: &'static [ArgType] = A::TYPES;
    const TYPED: bool = A::TYPED;

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        self.each(&mut Uses(visitor))
    }

    fn with_pointers<Out>(&self, f: impl FnOnce(&mut [*mut c_void]) -> Out) -> Out {
        let params = 0..self.op.inner.params.len();
        let mut pointers: Vec<*mut c_void> =
            params.map(|param| self.bytes_of(param).cast_mut().cast()).collect();
        f(&mut pointers)
    }

    fn check_unborrowed(&self) -> Result<()> {
        self.args.check_unborrowed()
    }
}

/// Visits each argument with its replacement.
struct Each<'a, 'v, V> {
    visitor: &'v mut V,
    rebound: Rebound<'a, ()>,
}

impl<V: ArgVisitor> ArgVisitor for Each<'_, '_, V> {
    fn visit<A: KernelArg>(&mut self, index: usize, arg: &A) -> Result<()> {
        self.visitor.visit(index, &Moved { arg, index, rebound: self.rebound })
    }
}

/// Visits the memory of each argument.
struct Uses<'v, V>(&'v mut V);

impl<V: UseVisitor> ArgVisitor for Uses<'_, V> {
    fn visit<A: KernelArg>(&mut self, _: usize, arg: &A) -> Result<()> {
        arg.uses(self.0)
    }
}

/// An argument with replaced bytes.
struct Moved<'a, A> {
    arg: &'a A,
    index: usize,
    rebound: Rebound<'a, ()>,
}

// SAFETY: the value is the argument's, with addresses of copies instead of those of the memory that it reports, and
// with other real numbers where the specification says that there are such. The copies are reported.
unsafe impl<A: KernelArg> KernelArg for Moved<'_, A> {
    type Abi = A::Abi;
    const TYPE: ArgType = A::TYPE;
    // This only matters for parameters that have active numbers.
    const IS_VARIABLE: bool = true;
    const IS_UNBORROWED: bool = A::IS_UNBORROWED;

    fn abi(&self) -> A::Abi {
        let size = self.rebound.op.inner.params.get(self.index).map_or(0, |param| param.size);
        if size != size_of::<A::Abi>() {
            return self.arg.abi();
        }
        let from = self.rebound.bytes_of(self.index).cast::<A::Abi>();
        // SAFETY: the bytes of a value of this type, as the first comment says; `bytes` has room for each parameter.
        unsafe { from.read_unaligned() }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        let Rebound { copies, places, .. } = self.rebound;
        // This memory comes first: a tape takes the first memory of a variable for its identity.
        if let Some(Some(place)) = places.get(self.index) {
            visitor.visit(place.allocation(), place.byte_range(), Access::Read)?;
        }
        if A::IS_VARIABLE {
            return Ok(());
        }
        // Each copy is reported instead of its original.
        self.arg.uses(&mut |allocation: &Arc<Allocation>, range: Range<usize>, access| match copies
            .iter()
            .find(|copy| copy.holds(allocation, &range))
        {
            Some(copy) => visitor.visit(copy.buffer.allocation(), copy.place(&range), access),
            None => visitor.visit(allocation, range, access),
        })
    }
}
