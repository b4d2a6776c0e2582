//! The fields of the structs that `kernels!` makes.

use std::fmt;
use std::marker::PhantomData;

use super::Module;
use crate::error::Result;
use crate::kernel::Kernel;

/// The kernel of declaration number `I` of the struct `S` that [`kernels!`](crate::kernels) has made.
///
/// Safe code of the module that calls the macro can name and assign the struct's fields, but makes no
/// value of this type: whatever it assigns was found for the same declaration, under the same promise.
pub struct Declared<S, const I: usize> {
    kernel: Kernel,
    of: PhantomData<fn() -> S>,
}

impl<S, const I: usize> Declared<S, I> {
    /// Takes the kernel `symbol` from `module`.
    ///
    /// # Errors
    /// As [`Module::kernel`].
    ///
    /// # Safety
    /// In `module`, `symbol` is the kernel that the declaration makes its promise for.
    #[doc(hidden)]
    pub unsafe fn find(module: &Module, symbol: &str) -> Result<Self> {
        Ok(Self { kernel: module.kernel(symbol)?, of: PhantomData })
    }

    /// Returns the kernel.
    #[inline]
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }
}

impl<S, const I: usize> Clone for Declared<S, I> {
    fn clone(&self) -> Self {
        Self { kernel: self.kernel.clone(), of: PhantomData }
    }
}

impl<S, const I: usize> fmt::Debug for Declared<S, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kernel.fmt(f)
    }
}

/// The module that the kernels of a struct are in; see [`Declared`].
pub struct DeclaredIn<S> {
    module: Module,
    of: PhantomData<fn() -> S>,
}

impl<S> DeclaredIn<S> {
    /// Keeps `module`.
    ///
    /// # Safety
    /// `module` has the kernels of the declaration.
    #[doc(hidden)]
    #[must_use]
    pub unsafe fn new(module: &Module) -> Self {
        Self { module: module.clone(), of: PhantomData }
    }

    /// Returns the module.
    #[must_use]
    pub fn module(&self) -> Module {
        self.module.clone()
    }
}

impl<S> Clone for DeclaredIn<S> {
    fn clone(&self) -> Self {
        Self { module: self.module.clone(), of: PhantomData }
    }
}

impl<S> fmt::Debug for DeclaredIn<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.module.fmt(f)
    }
}
