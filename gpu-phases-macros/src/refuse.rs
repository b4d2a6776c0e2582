//! Errors for what a kernel cannot do, with a replacement.

use syn::Error;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Attribute, Item};

/// The result of a translation.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Returns the error that a kernel cannot have `what`, with a replacement in `help`.
pub(crate) fn refuse(at: &impl Spanned, what: &str, help: &str) -> Error {
    Error::new(at.span(), format!("{what}\nhelp: {help}"))
}

/// Refuses with [`refuse`].
pub(crate) fn refused<T>(at: &impl Spanned, what: &str, help: &str) -> Result<T> {
    Err(refuse(at, what, help))
}

/// Refuses `cfg` inside an item, or after the attribute: the macro cannot know whether rustc keeps the part.
pub(crate) fn no_cfg(item: &Item) -> Result<()> {
    struct Parts(Option<Error>);
    impl<'a> Visit<'a> for Parts {
        fn visit_attribute(&mut self, attr: &'a Attribute) {
            let path = attr.path();
            if self.0.is_none() && (path.is_ident("cfg") || path.is_ident("cfg_attr")) {
                self.0 = Some(refuse(
                    attr,
                    "`cfg` would change the Rust and not the C++",
                    "put it before the attribute of the whole item, or write `if ON` with `const ON: bool = cfg!(…);`",
                ));
            }
        }
    }
    let mut parts = Parts(None);
    parts.visit_item(item);
    parts.0.map_or(Ok(()), Err)
}
