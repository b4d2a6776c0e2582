//! Errors for what a kernel cannot do, with a replacement.

use proc_macro2::{TokenStream, TokenTree};
use syn::Error;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Attribute, ImplItem, Item, ItemImpl};

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
    impl Parts {
        fn found(&mut self, at: &impl Spanned) {
            self.0.get_or_insert(refuse(
                at,
                "`cfg` would change the Rust and not the C++",
                "put it before the attribute of the whole item, or write `if ON` with `const ON: bool = cfg!(…);`",
            ));
        }

        /// Looks at arguments of macros, which are code, too.
        fn tokens(&mut self, tokens: &TokenStream) {
            let mut after_hash = false;
            for token in tokens.clone() {
                if let TokenTree::Group(group) = &token {
                    let first = group.stream().into_iter().next();
                    let is_cfg = |name: &proc_macro2::Ident| name == "cfg" || name == "cfg_attr";
                    if after_hash && matches!(&first, Some(TokenTree::Ident(name)) if is_cfg(name))
                    {
                        self.found(group);
                    }
                    self.tokens(&group.stream());
                }
                after_hash = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#');
            }
        }
    }
    impl<'a> Visit<'a> for Parts {
        fn visit_attribute(&mut self, attr: &'a Attribute) {
            let path = attr.path();
            if path.is_ident("cfg") || path.is_ident("cfg_attr") {
                self.found(attr);
            }
        }

        fn visit_macro(&mut self, mac: &'a syn::Macro) {
            self.tokens(&mac.tokens);
        }
    }
    let mut parts = Parts(None);
    parts.visit_item(item);
    parts.0.map_or(Ok(()), Err)
}

/// Returns an attribute of an `impl`, or of its items, that may be a macro.
pub(crate) fn macro_of(block: &ItemImpl) -> Option<&Attribute> {
    const KNOWN: [&str; 14] = [
        "doc",
        "inline",
        "allow",
        "warn",
        "deny",
        "expect",
        "forbid",
        "must_use",
        "cold",
        "track_caller",
        "deprecated",
        "rustfmt",
        "clippy",
        "diagnostic",
    ];
    let of_items = block.items.iter().flat_map(|item| match item {
        ImplItem::Fn(item) => &item.attrs[..],
        ImplItem::Const(item) => &item.attrs[..],
        ImplItem::Type(item) => &item.attrs[..],
        _ => &[],
    });
    block.attrs.iter().chain(of_items).find(|attr| {
        let first = attr.path().segments.first();
        !first.is_some_and(|first| KNOWN.iter().any(|known| first.ident == known))
    })
}
