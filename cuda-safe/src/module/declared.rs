//! The fields of the structs that `kernels!` makes.

use std::any::{TypeId, type_name};
use std::fmt;
use std::marker::PhantomData;

use super::Module;
use crate::error::{Error, Result};
use crate::function::Kernel;

/// The marker of a type that is invariant in `T`.
pub(super) type Invariant<T> = PhantomData<fn(T) -> T>;

/// A struct that [`kernels!`](crate::kernels) has made: the kernels of one source.
///
/// Crates that keep loaded modules use it to make any of their structs from them:
///
/// ```
/// use cuda_safe::{DeclaredKernels, Module, Result};
///
/// struct Cache {
///     module: Module,
/// }
///
/// impl Cache {
///     /// # Safety
///     /// The module was made from the source of `K`.
///     unsafe fn kernels<K: DeclaredKernels>(&self) -> Result<K> {
///         // SAFETY: the caller's promise.
///         unsafe { K::from_module(&self.module) }
///     }
/// }
/// ```
pub trait DeclaredKernels: Sized + Clone + Send + Sync + 'static {
    /// Takes the kernels from a module that is loaded already.
    ///
    /// # Safety
    /// `module` was made from the source that the declaration names after `unsafe in`, or its kernels
    /// keep the same promises: the safe methods launch them without further checks.
    ///
    /// # Errors
    /// A kernel is not in `module`, or the declaration has no instance for the struct's types.
    unsafe fn from_module(module: &Module) -> Result<Self>;
}

/// The kernel of declaration number `I` of the struct `S` that [`kernels!`](crate::kernels) has made.
///
/// Safe code of the module that calls the macro can name and assign the struct's fields, but makes no
/// value of this type: whatever it assigns was found for the same declaration, under the same promise.
///
/// It is invariant in `S`: instances of a struct are told apart by [`TypeId`], which differs between a type and its
/// subtypes. So no subtype takes the place of another instance.
pub struct Declared<S, const I: usize> {
    kernel: Kernel,
    of: PhantomData<fn(S) -> S>,
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

/// The kernels of declaration number `I` of the struct `S`, one for each of `N` lists of types; see
/// [`Declared`].
pub struct DeclaredInstances<S, const I: usize, const N: usize> {
    kernels: [Kernel; N],
    of: PhantomData<fn(S) -> S>,
}

impl<S, const I: usize, const N: usize> DeclaredInstances<S, I, N> {
    /// Takes the kernels `symbols` from `module`.
    ///
    /// # Errors
    /// As [`Module::kernel`].
    ///
    /// # Safety
    /// In `module`, each of `symbols` is the kernel that the declaration makes its promise for with the
    /// types of this index.
    #[doc(hidden)]
    pub unsafe fn find(module: &Module, symbols: [&str; N]) -> Result<Self> {
        let kernels =
            symbols.iter().map(|symbol| module.kernel(symbol)).collect::<Result<Vec<_>>>()?;
        let kernels = kernels.try_into().map_err(|_| Error::invalid("a kernel is missing"))?;
        Ok(Self { kernels, of: PhantomData })
    }

    /// Returns the kernel for the types of this index.
    ///
    /// # Errors
    /// There is none.
    #[inline]
    pub fn kernel(&self, index: usize) -> Result<&Kernel> {
        self.kernels.get(index).ok_or_else(|| Error::invalid("no instance of the kernel"))
    }
}

impl<S, const I: usize, const N: usize> Clone for DeclaredInstances<S, I, N> {
    fn clone(&self) -> Self {
        Self { kernels: self.kernels.clone(), of: PhantomData }
    }
}

impl<S, const I: usize, const N: usize> fmt::Debug for DeclaredInstances<S, I, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kernels.fmt(f)
    }
}

/// A type that a type parameter may be, and its text in symbols.
pub struct Instance {
    id: TypeId,
    name: fn() -> &'static str,
    symbol: &'static str,
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?}", (self.name)(), self.symbol)
    }
}

impl Instance {
    /// Returns the instance for `T`.
    #[inline]
    #[must_use]
    pub fn of<T: 'static>(symbol: &'static str) -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>, symbol }
    }
}

/// Returns the index of `T` in `instances`, and its text in symbols. `owner` is what has the instances.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) lists the instances if `T` is none of them.
#[inline]
pub fn instance<T: 'static>(
    owner: &'static str,
    instances: &[Instance],
) -> Result<(usize, &'static str)> {
    let mut found = instances.iter().enumerate().filter(|(_, it)| it.id == TypeId::of::<T>());
    match found.next() {
        Some((index, instance)) => Ok((index, instance.symbol)),
        None => Err(no_instance(owner, instances, type_name::<T>())),
    }
}

#[cold]
fn no_instance(owner: &str, instances: &[Instance], ty: &str) -> Error {
    let names: Vec<&str> = instances.iter().map(|instance| (instance.name)()).collect();
    let list = match names.as_slice() {
        [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
        _ => names.concat(),
    };
    Error::invalid(format!("{owner} has instances for {list}, not for {ty}"))
}

/// Puts a symbol together.
#[must_use]
pub fn symbol(parts: &[&str]) -> String {
    parts.concat()
}

/// The program that the kernels of a struct `S` were compiled from, if it is known; see [`Declared`].
pub struct DeclaredSource<S> {
    program: Option<nvrtc::Program>,
    of: Invariant<S>,
}

impl<S> DeclaredSource<S> {
    /// Keeps the program.
    ///
    /// # Safety
    /// The kernels of the struct that keeps this were compiled from it.
    #[doc(hidden)]
    #[must_use]
    pub unsafe fn new(program: Option<nvrtc::Program>) -> Self {
        Self { program, of: PhantomData }
    }

    /// Returns the program, which has the kernel `symbol`.
    #[must_use]
    pub fn program(&self, symbol: &str) -> Option<nvrtc::Program> {
        self.program.clone().map(|program| super::source::with_names(program, &[symbol]))
    }
}

impl<S> Default for DeclaredSource<S> {
    fn default() -> Self {
        Self { program: None, of: PhantomData }
    }
}

impl<S> Clone for DeclaredSource<S> {
    fn clone(&self) -> Self {
        Self { program: self.program.clone(), of: PhantomData }
    }
}

impl<S> fmt::Debug for DeclaredSource<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeclaredSource").finish_non_exhaustive()
    }
}

/// The module that the kernels of a struct are in; see [`Declared`]. `T` are the struct's type
/// parameters, which it has to use.
pub struct DeclaredIn<S, T = ()> {
    module: Module,
    of: Invariant<(S, T)>,
}

impl<S, T> DeclaredIn<S, T> {
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

impl<S, T> Clone for DeclaredIn<S, T> {
    fn clone(&self) -> Self {
        Self { module: self.module.clone(), of: PhantomData }
    }
}

impl<S, T> fmt::Debug for DeclaredIn<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.module.fmt(f)
    }
}
