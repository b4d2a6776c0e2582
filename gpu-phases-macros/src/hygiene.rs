//! Names that are one for the macro and two for rustc.
//!
//! Variables and labels of a `macro_rules!` macro differ from those of its arguments, although their names may be equal. The
//! C++ has one variable for each name in a scope, so an item in which a name has two origins is refused.

use std::collections::HashMap;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::visit::Visit;
use syn::{Expr, Item, Lifetime, Token};

use crate::refuse::{Result, refused};

/// Checks the names of an item. Returns code in which rustc checks those of which the macro cannot tell.
pub(crate) fn check(item: &Item) -> Result<TokenStream> {
    not_of_library(quote!(#item))?;
    let mut names = Names::default();
    names.visit_item(item);
    if let Some(error) = names.error {
        return Err(error);
    }
    let checks = names.checks;
    if checks.is_empty() {
        return Ok(TokenStream::new());
    }
    Ok(quote! {
        const _: () = {
            #[allow(dead_code, unused_labels, unreachable_code, non_snake_case, clippy::all, clippy::pedantic)]
            fn phases_names() {
                struct PhasesLocal;
                #checks
            }
        };
    })
}

/// Refuses names of the library, and names that are written in two ways.
fn not_of_library(tokens: TokenStream) -> Result<()> {
    for token in tokens {
        match &token {
            TokenTree::Group(group) => not_of_library(group.stream())?,
            TokenTree::Ident(name) if is_needlessly_raw(name) => {
                return refused(name, "this is also a name without `r#`", "leave out `r#`");
            }
            TokenTree::Ident(name) => {
                let text = name.to_string();
                if text.starts_with("phases_") || text.starts_with("PHASES_") {
                    return refused(
                        name,
                        "names that begin with `phases_` are the library's",
                        "give it another name",
                    );
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Variables and labels, with the places of their declarations of different origins. A use of another origin than that of
/// all declarations is an error of rustc.
#[derive(Default)]
struct Names {
    known: HashMap<String, Vec<(String, Span)>>,
    error: Option<syn::Error>,
    checks: TokenStream,
}

impl<'a> Visit<'a> for Names {
    fn visit_pat_ident(&mut self, pat: &'a syn::PatIdent) {
        self.declared(&pat.ident.to_string(), pat.ident.span());
        syn::visit::visit_pat_ident(self, pat);
    }

    fn visit_label(&mut self, label: &'a syn::Label) {
        self.declared(&label.name.to_string(), label.name.ident.span());
    }

    fn visit_macro(&mut self, mac: &'a syn::Macro) {
        let parsed = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(mac.tokens.clone());
        parsed.iter().flatten().for_each(|arg| self.visit_expr(arg));
    }
}

impl Names {
    fn declared(&mut self, name: &str, span: Span) {
        let origins = self.known.entry(name.to_owned()).or_default();
        let origin = origin_of(span);
        if origins.iter().any(|(known, _)| *known == origin) {
            return;
        }
        origins.push((origin, span));
        let [(first, at), .., (other, span)] = &origins[..] else { return };
        if is_known(first) && is_known(other) {
            self.error.get_or_insert(syn::Error::new(
                *span,
                format!(
                    "there are two `{name}`, one of a macro and one of its arguments, and C++ has one\n\
                     help: give the name in the macro another one"
                ),
            ));
            return;
        }
        self.checks.extend(match name.strip_prefix('\'') {
            Some(label) => {
                let [first, other] = [*at, *span]
                    .map(|at| Lifetime { apostrophe: at, ident: Ident::new(label, at) });
                quote!(#first: { break #other; })
            }
            None => {
                let [first, other] = [*at, *span].map(|at| Ident::new(name, at));
                quote!({ let #first @ _ = PhasesLocal; let PhasesLocal = #other; })
            }
        });
    }
}

/// Returns whether a name is no keyword, and raw. The macro compares names as they are written.
fn is_needlessly_raw(name: &Ident) -> bool {
    name.to_string().strip_prefix("r#").is_some_and(|plain| syn::parse_str::<Ident>(plain).is_ok())
}

/// Returns a text that is equal for places of one origin, and different for others: rustc writes a span as
/// `#origin bytes(from..to)`.
fn origin_of(span: Span) -> String {
    let text = format!("{span:?}");
    match text.split_once(" bytes(") {
        Some((origin, _)) if is_known(origin) => origin.to_owned(),
        _ => text,
    }
}

/// Returns whether this is an origin alone.
fn is_known(text: &str) -> bool {
    let number = text.strip_prefix('#').unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}
