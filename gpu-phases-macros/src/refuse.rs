//! Refusals: what a kernel cannot do, and what to write in its place.

use syn::Error;
use syn::spanned::Spanned;

/// The result of a translation.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Returns the error that a kernel cannot have this, and the way out.
pub(crate) fn refuse(at: &impl Spanned, what: &str, help: &str) -> Error {
    Error::new(at.span(), format!("{what}\nhelp: {help}"))
}

/// Refuses with [`refuse`].
pub(crate) fn refused<T>(at: &impl Spanned, what: &str, help: &str) -> Result<T> {
    Err(refuse(at, what, help))
}
