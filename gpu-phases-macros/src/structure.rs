//! `#[device(structure)]`: methods of a library's structure.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{FnArg, Ident, ImplItem, Item, ItemImpl};

use crate::function::bare;
use crate::names::defined_name;
use crate::options::Options;
use crate::refuse::{Result, refused};

/// Adds the names by which kernels call the methods of a structure.
pub(crate) fn methods(item: &Item, options: &Options) -> Result<TokenStream> {
    let (library, private) = (&options.library, options.private());
    let Item::Impl(ItemImpl { self_ty, items, trait_: None, generics, .. }) = item else {
        return refused(
            item,
            "`structure` is for the methods of a type that is a `Structure`",
            "write `#[device(structure)] impl Mesh { … }`",
        );
    };
    // Where the type is no structure, there are no such names.
    let mut generics = generics.clone();
    let clause = generics.make_where_clause();
    clause.predicates.push(syn::parse_quote!(#self_ty: #library::structure::Structure));
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let mut called = Vec::new();
    for item in items {
        let ImplItem::Fn(method) = item else { continue };
        let mut sig = method.sig.clone();
        let receiver = sig.receiver();
        if !receiver.is_some_and(|it| it.reference.is_some() && it.mutability.is_none()) {
            return refused(
                &method.sig,
                "kernels query a structure through a reference",
                "take `&self`, or move it to another `impl`",
            );
        }
        let name = std::mem::replace(&mut sig.ident, format_ident!("phases"));
        sig.ident = Ident::new(&defined_name(&bare(&name)), name.span());
        let (vis, mut args) = (&method.vis, Vec::new());
        for (at, arg) in sig.inputs.iter_mut().enumerate() {
            if let FnArg::Typed(typed) = arg {
                let arg = format_ident!("phases_{at}");
                *typed.pat = syn::parse_quote!(#arg);
                args.push(arg);
            }
        }
        sig.inputs.insert(1, syn::parse_quote!(_: #private::Probe<#private::InCpp>));
        called.push(quote! {
            #[doc(hidden)]
            #[inline(always)]
            #vis #sig {
                self.#name(#(#args),*)
            }
        });
    }
    Ok(quote! {
        #item

        #[allow(missing_docs, clippy::all, clippy::pedantic)]
        impl #impl_generics #self_ty #where_clause {
            #(#called)*
        }
    })
}
