//! The globals of the structs that `kernels!` makes.

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;

use super::Module;
use super::declared::Invariant;
use super::global::{Global, Place};
use crate::error::{Error, Result};
use crate::launch::scalar_element;
use crate::stream::Stream;

/// The global number `I` that a declaration of [`kernels!`](crate::kernels) gives the struct `S`, as elements of `T`.
///
/// The declaration adds a name and a type: nothing rests on it. The size of the variable was compared with the declared
/// one when this was made.
pub struct DeclaredGlobal<S, const I: usize, T> {
    place: Place,
    of: Invariant<(S, T)>,
}

impl<S, const I: usize, T: Copy + 'static> DeclaredGlobal<S, I, T> {
    /// Finds the variable `name` of `module`, which is declared as `len` elements of `T`, as `declared` spells them.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the variable has another size or another scalar type;
    /// otherwise as [`Module::global`].
    #[doc(hidden)]
    pub fn find(module: &Module, name: &str, declared: &'static str, len: usize) -> Result<Self> {
        let inner = &module.inner;
        let (symbol, address, bytes) = inner.locate(name)?;
        let scalar = inner.declaration(symbol).and_then(|variable| variable.scalar);
        fits::<T>(name, declared, len, Some(bytes), scalar)?;
        let place = Place::at::<T>(inner, name, address, bytes)?;
        Ok(Self { place, of: PhantomData })
    }
}

/// Compares the variable `name`, which is declared as `len` elements of `T`, with the image's: `bytes` is its size and
/// `scalar` the type of a scalar, as far as they are known.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the size differs, or if one is a float and the other an integer.
pub(super) fn fits<T: 'static>(
    name: &str,
    declared: &str,
    len: usize,
    bytes: Option<usize>,
    scalar: Option<ptx::ir::Type>,
) -> Result<()> {
    let size = len.checked_mul(size_of::<T>());
    if let Some(bytes) = bytes.filter(|bytes| size != Some(*bytes)) {
        let size = size.map_or_else(|| "too many".to_owned(), |size| size.to_string());
        return Err(Error::invalid(format!(
            "the global `{name}` is declared as {declared}, which has {size} bytes, but the variable has {bytes}"
        )));
    }
    if let (Some(scalar), Some(is_float)) = (scalar, scalar_element(TypeId::of::<T>()))
        && is_float != scalar.is_float()
    {
        let kind = if is_float { "an integer or a pointer" } else { "a float" };
        return Err(Error::invalid(format!(
            "the global `{name}` is declared as {declared}, but the variable is {kind}"
        )));
    }
    Ok(())
}

impl<S, const I: usize, T> DeclaredGlobal<S, I, T> {
    /// Returns the variable; see [`Module::global`].
    ///
    /// # Errors
    /// As [`Module::global`].
    pub fn get(&self, stream: &Stream) -> Result<Global<T>> {
        self.place.open(stream)
    }
}

impl<S, const I: usize, T> Clone for DeclaredGlobal<S, I, T> {
    fn clone(&self) -> Self {
        Self { place: self.place.clone(), of: PhantomData }
    }
}

impl<S, const I: usize, T> fmt::Debug for DeclaredGlobal<S, I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}
