//! Values that a module above keeps with a context or a stream.

use std::any::Any;

use super::ContextInner;
use crate::error::{Error, Result};
use crate::sync::Once;

/// A value of a type that is not known here, made at its first use.
#[derive(Default)]
pub(crate) struct Attached(Once<Box<dyn Attachment>>);

/// What a context calls of a value that it keeps.
pub(crate) trait Attachment: Any + Send + Sync {
    /// Fails if work of the context has failed in a way that only the value knows.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Returns how often the value holds the context.
    fn holds(&self) -> usize {
        0
    }

    /// Leaves all to the deferred-free list.
    ///
    /// # Safety
    /// No other thread uses the context, and none of its work runs.
    unsafe fn put_away(&self, _: &ContextInner) -> Result<()> {
        Ok(())
    }
}

impl Attached {
    /// Returns the value, if it was made.
    #[inline]
    pub(crate) fn get<T: Attachment>(&self) -> Option<&T> {
        let value: &dyn Any = self.any()?;
        value.downcast_ref()
    }

    /// Returns the value, which is made now if it was not yet.
    ///
    /// # Errors
    /// A value of another type was made, or the caller may make nothing now.
    pub(crate) fn get_or_make<T: Attachment + Default>(&self) -> Result<&T> {
        self.0.get_or_init(|| Box::new(T::default()))?;
        self.get().ok_or_else(|| Error::invalid("a value of another type is attached"))
    }

    /// Returns what the context calls, if the value was made.
    #[inline]
    pub(super) fn any(&self) -> Option<&dyn Attachment> {
        self.0.get().map(|value| &**value)
    }
}
