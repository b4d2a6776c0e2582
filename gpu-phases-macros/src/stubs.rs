//! Stubs for items with an error: they have no bodies, so that rustc reports only the error and not each use.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{FnArg, Ident, ImplItem, Item, ItemFn, ItemImpl, Signature, Type};

use crate::function::bare;
use crate::names::{DEFINED, defined_name};
use crate::options::Options;

/// Returns the item without its bodies, with the names that kernels use.
pub(crate) fn stubs(item: &Item, options: &Options) -> TokenStream {
    match item {
        Item::Fn(item) if item.sig.receiver().is_some() => TokenStream::new(),
        Item::Fn(item) => function(item, options),
        Item::Impl(item) => implementation(item.clone(), options),
        other => quote!(#other),
    }
}

/// Returns the signature that callers see, with names for the parameters.
fn plain(sig: &Signature) -> Signature {
    let mut sig = sig.clone();
    (sig.unsafety, sig.asyncness, sig.abi, sig.variadic) = (None, None, None, None);
    for (at, arg) in sig.inputs.iter_mut().enumerate() {
        match arg {
            FnArg::Typed(typed) => {
                let name = format_ident!("phases_{at}");
                *typed.pat = syn::parse_quote!(#name);
                typed.attrs.clear();
            }
            FnArg::Receiver(receiver) if receiver.reference.is_none() => receiver.mutability = None,
            FnArg::Receiver(_) => {}
        }
    }
    sig
}

fn function(item: &ItemFn, options: &Options) -> TokenStream {
    let private = options.private();
    let (attrs, vis, name) = (&item.attrs, &item.vis, &item.sig.ident);
    let sig = plain(&item.sig);
    let mut call = sig.clone();
    call.ident = format_ident!("phases_call");
    call.constness = None;
    // A number replaces the type of the source, which nothing reads.
    call.inputs.insert(0, syn::parse_quote!(_: #private::Probe<u32>));
    quote! {
        #(#attrs)*
        #[allow(unused_variables, dead_code)]
        #vis #sig {
            ::core::unreachable!()
        }

        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #vis enum #name {}

        impl #name {
            pub const PHASES_DEPTH: u32 = 1;

            #[allow(unused_variables, private_interfaces)]
            pub #call {
                ::core::unreachable!()
            }
        }
    }
}

/// Returns a kernel with the right signature and no body: the function and its launches.
pub(crate) fn kernel(item: &ItemFn, options: &Options) -> TokenStream {
    let library = &options.library;
    let (vis, name) = (&item.vis, &item.sig.ident);
    let sig = plain(&item.sig);
    let (inputs, generics) = (&sig.inputs, &sig.generics.params);
    let (impl_generics, _, where_clause) = sig.generics.split_for_impl();
    let predicates = where_clause.map(|clause| &clause.predicates);
    let launch = |records: bool| {
        let (mut memories, mut args) = (Vec::new(), Vec::new());
        for (at, input) in item.sig.inputs.iter().enumerate() {
            match input {
                FnArg::Typed(typed)
                    if matches!(*typed.ty, Type::Reference(_))
                        || records
                            && typed.attrs.iter().any(|attr| attr.path().is_ident("active")) =>
                {
                    let memory = format_ident!("PhasesMemory{at}");
                    args.push(quote!(_: #memory));
                    memories.push(memory);
                }
                FnArg::Typed(typed) => {
                    let ty = &typed.ty;
                    args.push(quote!(_: #ty));
                }
                FnArg::Receiver(_) => {}
            }
        }
        let (name, first, bound, target) = match records {
            true => (
                quote!(record),
                quote!(&mut PhasesOn),
                quote!(#library::target::Record),
                quote!(<PhasesOn as #library::target::Record>::Target),
            ),
            false => (
                quote!(launch),
                quote!(PhasesOn),
                quote!(#library::target::Target),
                quote!(PhasesOn),
            ),
        };
        quote! {
            pub fn #name<PhasesOn: #bound, #(#memories,)* #generics>(
                _: #first, #(#args),*
            ) -> ::core::result::Result<(), <#target as #library::target::Target>::Error> where #predicates {
                ::core::unreachable!()
            }
        }
    };
    let (plain_launch, record) = (launch(false), options.gradient.is_some().then(|| launch(true)));
    quote! {
        #[allow(unused_variables, dead_code)]
        #vis #sig {}

        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #vis enum #name {}

        #[allow(unused_variables, dead_code, private_interfaces)]
        impl #name {
            #plain_launch

            #record

            pub fn cpu #impl_generics (
                #inputs
            ) -> ::core::result::Result<(), #library::kernel::CpuError> #where_clause {
                ::core::unreachable!()
            }

            pub fn kernel #impl_generics () -> &'static #library::kernel::Kernel #where_clause {
                ::core::unreachable!()
            }

            pub fn source #impl_generics () -> ::std::string::String #where_clause {
                ::core::unreachable!()
            }
        }
    }
}

fn implementation(mut item: ItemImpl, options: &Options) -> TokenStream {
    let private = options.private();
    let mut called = Vec::new();
    if item.trait_.is_none() {
        item.items.retain(|part| matches!(part, ImplItem::Fn(_) | ImplItem::Const(_)));
    }
    for part in &mut item.items {
        let ImplItem::Fn(method) = part else { continue };
        method.sig = plain(&method.sig);
        method.attrs.push(syn::parse_quote!(#[allow(unused_variables, dead_code)]));
        method.block = syn::parse_quote!({ ::core::unreachable!() });
        let name = bare(&method.sig.ident);
        let mut sig = method.sig.clone();
        sig.ident = Ident::new(&defined_name(&name), sig.ident.span());
        if !DEFINED.contains(&name.as_str()) {
            let at = usize::from(sig.receiver().is_some());
            sig.inputs.insert(at, syn::parse_quote!(_: #private::Probe<u32>));
        }
        called.push(sig);
    }
    // `Self::Output` exists only in the `impl` of a trait.
    if item.items.iter().any(|part| matches!(part, ImplItem::Type(_))) {
        return quote!(#item);
    }
    let (generics, this) = (&item.generics, &item.self_ty);
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    quote! {
        #item

        #[doc(hidden)]
        #[allow(unused_variables, dead_code, missing_docs, private_interfaces)]
        impl #impl_generics #this #where_clause {
            #(pub #called { ::core::unreachable!() })*
        }
    }
}
