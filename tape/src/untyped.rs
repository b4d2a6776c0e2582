//! Launches whose parameters are only known at run time: those of adjoints and primals.

use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use cuda_safe::{
    Access, Allocation, Result,
    arg::{ArgType, KernelArgs, UseVisitor},
};

/// Receives the memory that a launch uses.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(&Arc<Allocation>, Range<usize>, Access) -> Result<()>;

/// The parameters of a launch by their addresses, and the memory that it uses.
pub(crate) struct Untyped<'a, F> {
    pointers: Cell<&'a mut [*mut c_void]>,
    uses: F,
}

impl<'a, F: Fn(Tell<'_>) -> Result<()>> Untyped<'a, F> {
    /// # Safety
    /// There is one pointer for each parameter of the kernel, to a value of its size (padding may be uninitialised),
    /// which stays there until the launch was made; and `uses` reports all memory that the kernel reaches.
    pub(crate) unsafe fn new(pointers: &'a mut [*mut c_void], uses: F) -> Self {
        Self { pointers: Cell::new(pointers), uses }
    }
}

// SAFETY: the promise of `new`'s caller. The types are not known here: `OpSpec::register` has compared the sizes.
unsafe impl<F: Fn(Tell<'_>) -> Result<()>> KernelArgs for Untyped<'_, F> {
    const TYPES: &'static [ArgType] = &[];
    const TYPED: bool = false;

    #[inline]
    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        (self.uses)(&mut |allocation, range, access| visitor.visit(allocation, range, access))
    }

    #[inline]
    fn with_pointers<Out>(&self, f: impl FnOnce(&mut [*mut c_void]) -> Out) -> Out {
        let pointers = self.pointers.take();
        let out = f(pointers);
        self.pointers.set(pointers);
        out
    }
}
