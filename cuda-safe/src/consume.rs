//! The error of methods that consume their object.

use std::fmt;

use crate::error::Error;

/// The error of a method that takes its object by value, such as `close`, `into_raw`, `into_vec` or
/// `cast`. It holds the object, unchanged by the call (of a graph, its state).
///
/// `?` converts it into [`Error`] and drops the object:
/// ```no_run
/// # use cuda_safe::{Context, Event, Result};
/// # fn run(context: &Context) -> Result<()> {
/// Event::new(context)?.close()?;
/// # Ok(()) }
/// ```
///
/// To use the object again, take it out:
/// ```no_run
/// # use cuda_safe::{Context, Result};
/// # fn run(context: Context) -> Option<Context> {
/// match context.close() {
///     Ok(()) => None,
///     Err(refused) => {
///         eprintln!("{refused}"); // such as: the context is still in use by 2 buffers and 1 stream
///         Some(refused.into_inner())
///     }
/// }
/// # }
/// ```
pub struct ConsumeError<T> {
    object: T,
    error: Error,
}

impl<T> ConsumeError<T> {
    pub(crate) fn new(object: T, error: Error) -> Self {
        Self { object, error }
    }

    /// Turns the object into another one, which holds it.
    pub(crate) fn map<U>(self, wrap: impl FnOnce(T) -> U) -> ConsumeError<U> {
        ConsumeError { object: wrap(self.object), error: self.error }
    }

    /// Returns the reason.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// Returns the object.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.object
    }

    /// Returns the reason and drops the object.
    #[must_use]
    pub fn into_error(self) -> Error {
        self.error
    }

    /// Returns the object and the reason.
    #[must_use]
    pub fn into_parts(self) -> (T, Error) {
        (self.object, self.error)
    }
}

impl<T> From<ConsumeError<T>> for Error {
    fn from(refused: ConsumeError<T>) -> Self {
        refused.error
    }
}

impl<T> fmt::Display for ConsumeError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl<T> fmt::Debug for ConsumeError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `Debug` prints this text for people, as that of `Error`: `main() -> Result` and `unwrap` show it.
        fmt::Display::fmt(&self.error, f)
    }
}

impl<T> std::error::Error for ConsumeError<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The text is that of the error, so the chain continues with the error's source.
        std::error::Error::source(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither `Debug` nor `Clone`.
    struct Object(u32);

    fn consume(object: Object) -> Result<(), ConsumeError<Object>> {
        Err(ConsumeError::new(object, Error::invalid("2 buffers are alive")))
    }

    #[test]
    fn question_marks_convert_it() {
        fn ours() -> crate::Result<()> {
            Ok(consume(Object(1))?)
        }
        fn anybodys() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            Ok(consume(Object(1))?)
        }
        for text in [
            ours().map_err(|error| error.to_string()),
            anybodys().map_err(|error| error.to_string()),
        ] {
            assert_eq!(text, Err("2 buffers are alive".to_owned()));
        }
    }

    #[test]
    fn it_gives_the_object_back() {
        let refused = consume(Object(7)).unwrap_err();
        assert_eq!(refused.error().to_string(), format!("{refused:?}"));
        let (object, error) = refused.into_parts();
        assert_eq!((object.0, error.to_string()), (7, "2 buffers are alive".to_owned()));
        assert_eq!(consume(Object(8)).unwrap_err().into_inner().0, 8);
    }
}
