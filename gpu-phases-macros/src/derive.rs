//! `derive(Device)`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Data, DataEnum, DeriveInput, Field, Fields, GenericParam, Generics, Ident, Type};

use crate::exprs::field_name;
use crate::function::{bare, instance_names};
use crate::implementation::{
    OPERATORS, RIGHT_SIDES, SLOTS, methods_link, name_hash, operator_link,
};
use crate::refuse::{Result, refused};

/// Expands `derive(Device)`.
pub(crate) fn expand(item: TokenStream, library: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(item)?;
    let expanded = representation(&input).and_then(|representation| match &input.data {
        Data::Struct(data) => structure(&input, &data.fields, &representation, &library),
        Data::Enum(data) => enumeration(&input, data, &representation, &library),
        Data::Union(data) => refused(
            &data.union_token,
            "kernels have no unions",
            "use `to_bits` and `from_bits`, or two fields",
        ),
    });
    Ok(expanded.unwrap_or_else(|error| refused_type(&input, &error, &library)))
}

/// Returns the error, and an implementation of the trait: otherwise rustc reports a missing trait at each use of the
/// type.
fn refused_type(input: &DeriveInput, error: &syn::Error, library: &TokenStream) -> TokenStream {
    let error = error.to_compile_error();
    if input.generics.lifetimes().next().is_some() {
        // The trait can't be implemented for types with references.
        return error;
    }
    let ident = &input.ident;
    let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
    quote! {
        #error
        impl #impl_generics #library::blocks::Element for #ident #ty_generics #where_clause {}

        // SAFETY: the program does not compile, because of the error.
        unsafe impl #impl_generics #library::device::Device for #ident #ty_generics #where_clause {
            fn rust_name() -> ::std::string::String {
                ::std::string::String::new()
            }
            fn cpp_name() -> ::std::string::String {
                ::std::string::String::new()
            }
            fn write(_: &mut #library::text::Text) {}
            fn write_value(&self, _: &mut ::std::string::String) {}
            fn is_valid(_: &[u8]) -> bool {
                false
            }
        }
    }
}

/// Returns the arguments of `#[repr(…)]`.
fn representation(input: &DeriveInput) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for attr in input.attrs.iter().filter(|attr| attr.path().is_ident("repr")) {
        attr.parse_nested_meta(|meta| {
            found.push(meta.path.get_ident().map(ToString::to_string).unwrap_or_default());
            if meta.input.peek(syn::token::Paren) {
                let content;
                syn::parenthesized!(content in meta.input);
                content.parse::<TokenStream>()?;
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// The common parts of both kinds of types.
struct Common {
    name: TokenStream,
    links: TokenStream,
    fallback: TokenStream,
}

fn common(input: &DeriveInput, library: &TokenStream) -> Common {
    let ident = &input.ident;
    let text = ident.to_string();
    let instance = instance_names(&input.generics, library);
    let name = quote! {
        fn rust_name() -> ::std::string::String {
            let names: &[::std::string::String] = &[#(#instance),*];
            let path = ::core::concat!(::core::module_path!(), "::", #text);
            if names.is_empty() { ::std::string::ToString::to_string(path) } else { ::std::format!("{path}<{}>", names.join(", ")) }
        }

        fn cpp_name() -> ::std::string::String {
            #library::__private::type_name(#text, &Self::rust_name())
        }
    };
    let slots: Vec<Ident> = (0..SLOTS).map(methods_link).collect();
    let operators: Vec<Ident> = OPERATORS
        .iter()
        .flat_map(|(operator, _)| RIGHT_SIDES.iter().map(|right| operator_link(operator, right)))
        .collect();
    let links = quote! {
        #(#library::__private::Link::write(<Self>::#slots, phases_text);)*
        #(#library::__private::Link::write(<Self>::#operators, phases_text);)*
    };
    let fallback = quote! {
        // The type's inherent constants, which `#[device]` defines, take precedence over these.
        #[allow(unused_imports)]
        use #library::__private::Links as _;
    };
    Common { name, links, fallback }
}

fn structure(
    input: &DeriveInput,
    fields: &Fields,
    representation: &[String],
    library: &TokenStream,
) -> Result<TokenStream> {
    if !representation.iter().any(|repr| repr == "C" || repr == "transparent") {
        return refused(
            &input.ident,
            "the layout of this type is not defined",
            "write `#[repr(C)]` before it",
        );
    }
    if representation.iter().any(|repr| repr == "packed") {
        return refused(&input.ident, "kernels have no packed types", "leave out `packed`");
    }
    if fields.is_empty() {
        return refused(&input.ident, "kernels have no empty types", "add a field, or use `()`");
    }
    let align = match representation.iter().any(|repr| repr == "align") {
        true => quote!(::core::option::Option::Some(::core::mem::align_of::<Self>())),
        false => quote!(::core::option::Option::None),
    };
    let names: Vec<String> =
        fields.iter().enumerate().map(|(at, field)| cpp_field(field, at)).collect();
    for field in fields {
        if let Type::Reference(reference) = &field.ty {
            return refused(
                reference,
                "types of kernels hold no references",
                "hold an index, or the value",
            );
        }
    }
    let members: Vec<syn::Member> = fields.members().collect();
    let types: Vec<&Type> = fields.iter().map(|field| &field.ty).collect();
    let field_names = (0..types.len())
        .map(|at| Ident::new(&format!("phases_{at}"), proc_macro2::Span::mixed_site()));
    let field_names: Vec<Ident> = field_names.collect();
    let mut generics = input.generics.clone();
    for param in &mut generics.params {
        match param {
            GenericParam::Type(ty) => ty.bounds.push(syn::parse_quote!(#library::device::Device)),
            GenericParam::Lifetime(lifetime) => {
                return refused(
                    &lifetime.lifetime,
                    "types of kernels hold no references",
                    "hold an index",
                );
            }
            GenericParam::Const(_) => {}
        }
    }
    // A bound of `T` is none of `T::Name`.
    for ty in types.iter().filter(|ty| is_associated(ty, &input.generics)) {
        let clause = generics.make_where_clause();
        clause.predicates.push(syn::parse_quote!(#ty: #library::device::Device));
    }
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let ident = &input.ident;
    let Common { name, links, fallback } = common(input, library);
    // Without this constant, rustc evaluates the check only when it generates code.
    let checked = generics
        .params
        .is_empty()
        .then(|| quote!(const _: bool = <#ident as #library::device::Device>::STORED;));
    Ok(quote! {
        const _: () = {
            #fallback
            impl #impl_generics #library::__private::TypesOfKernelsDoNotDeref for #ident #ty_generics #where_clause {}
            #checked

            // An attribute after the derive may have changed the fields.
            #[allow(dead_code)]
            fn phases_fields #impl_generics (of: &#ident #ty_generics) #where_clause {
                let #ident { #(#members: #field_names),* } = of;
                #(
                    let found = #library::__private::type_of(#field_names);
                    let _: ::core::marker::PhantomData<#types> = found;
                )*
            }

            #[diagnostic::do_not_recommend]
            impl #impl_generics #library::blocks::Element for #ident #ty_generics #where_clause {}

            // SAFETY: the C++ structure has the same fields in the same order, whose types are those of Rust, and the same
            // alignment. Neither has padding, and the C++ asserts the sizes.
            #[diagnostic::do_not_recommend]
            unsafe impl #impl_generics #library::device::Device for #ident #ty_generics #where_clause {
                const STORED: bool = {
                    ::core::assert!(
                        ::core::mem::size_of::<Self>() == 0 #(+ ::core::mem::size_of::<#types>())*,
                        "the type has padding: add fields, such as `_pad: u32`, that fill it"
                    );
                    ::core::assert!(
                        ::core::mem::align_of::<Self>() <= 16,
                        "kernels align types to at most 16 bytes: write `#[repr(C, align(16))]`"
                    );
                    let mut at = 0;
                    #(
                        ::core::assert!(
                            ::core::mem::offset_of!(Self, #members) == at,
                            "an attribute after `derive` has changed the layout: put it before"
                        );
                        at += ::core::mem::size_of::<#types>();
                    )*
                    true #(&& <#types as #library::device::Device>::STORED)*
                };
                const FLOATS: usize = 0 #(+ <#types as #library::device::Device>::FLOATS)*;

                fn floats(at: usize, visit: &mut dyn ::core::ops::FnMut(usize, #library::device::Float)) {
                    #(<#types as #library::device::Device>::floats(
                        at + ::core::mem::offset_of!(Self, #members),
                        visit,
                    );)*
                }

                #name

                fn write(phases_text: &mut #library::text::Text) {
                    const { ::core::assert!(
                        <Self as #library::device::Device>::STORED,
                        "fields of types of kernels are stored: no tuples, `Option`s, enums with values and empty types"
                    ) };
                    let phases_name = Self::cpp_name();
                    phases_text.define(&phases_name, |phases_text| {
                        let fields = [#((#names, phases_text.ty::<#types>(), ::core::mem::size_of::<#types>())),*];
                        #library::__private::structure(&phases_name, &fields, ::core::mem::size_of::<Self>(), #align)
                    });
                    #links
                }

                fn write_value(&self, text: &mut ::std::string::String) {
                    text.push_str(&Self::cpp_name());
                    text.push('{');
                    #(
                        #library::device::Device::write_value(&self.#members, text);
                        text.push(',');
                    )*
                    text.push('}');
                }

                fn is_valid(bytes: &[u8]) -> bool {
                    true #(&& bytes
                        .get(::core::mem::offset_of!(Self, #members)..)
                        .and_then(|bytes| bytes.get(..::core::mem::size_of::<#types>()))
                        .is_some_and(<#types as #library::device::Device>::is_valid))*
                }
            }
        };
    })
}

/// Returns whether a type is an associated type of a generic parameter: `T::Name`.
fn is_associated(ty: &Type, generics: &Generics) -> bool {
    let Type::Path(path) = ty else { return false };
    let first = path.path.segments.first().filter(|_| path.path.segments.len() > 1);
    first.is_some_and(|first| generics.type_params().any(|param| param.ident == first.ident))
}

fn cpp_field(field: &Field, at: usize) -> String {
    match &field.ident {
        Some(name) => field_name(&name.to_string()),
        None => format!("f{at}"),
    }
}

fn enumeration(
    input: &DeriveInput,
    data: &DataEnum,
    representation: &[String],
    library: &TokenStream,
) -> Result<TokenStream> {
    if !input.generics.params.is_empty() {
        return refused(
            &input.generics,
            "enums of kernels have no generic parameters",
            "leave them out",
        );
    }
    if data.variants.iter().any(|variant| !variant.fields.is_empty()) {
        return with_values(input, data, library);
    }
    const TAGS: [&str; 8] = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"];
    let Some(tag) = representation.iter().find(|repr| TAGS.contains(&repr.as_str())) else {
        return refused(
            &input.ident,
            "the numbers of this enum have no defined type",
            "write `#[repr(u8)]`, or another integer, before it",
        );
    };
    if data.variants.is_empty() {
        return refused(&input.ident, "kernels have no empty types", "add a variant");
    }
    let ident = &input.ident;
    let tag = format_ident!("{tag}");
    let variants: Vec<&Ident> = data.variants.iter().map(|variant| &variant.ident).collect();
    let Common { name, links, fallback } = common(input, library);
    Ok(quote! {
        const _: () = {
            #fallback
            impl #library::__private::TypesOfKernelsDoNotDeref for #ident {}

            const _: () = ::core::assert!(
                ::core::mem::size_of::<#ident>() == ::core::mem::size_of::<#tag>(),
                "an attribute after `derive` has changed the layout: put it before"
            );

            // C++ compares the numbers. A constant is a valid pattern only if `PartialEq` is derived, so that Rust
            // compares them, too.
            #(const _: () = {
                const VARIANT: #ident = #ident::#variants;
                match VARIANT {
                    VARIANT => {}
                    #[allow(unreachable_patterns)]
                    _ => {}
                }
            };)*

            #[diagnostic::do_not_recommend]
            impl #library::blocks::Element for #ident {}

            // SAFETY: the C++ structure holds the number of the variant, of the type in `repr`.
            #[diagnostic::do_not_recommend]
            unsafe impl #library::device::Device for #ident {
                #name

                fn write(phases_text: &mut #library::text::Text) {
                    let phases_name = Self::cpp_name();
                    phases_text.define(&phases_name, |phases_text| #library::__private::enumeration(&phases_name, &phases_text.ty::<#tag>()));
                    #links
                }

                fn write_value(&self, text: &mut ::std::string::String) {
                    text.push_str(&Self::cpp_name());
                    text.push('{');
                    #library::device::Device::write_value(&(*self as #tag), text);
                    text.push('}');
                }

                fn is_valid(bytes: &[u8]) -> bool {
                    #(bytes == &#tag::to_ne_bytes(#ident::#variants as #tag)[..])||*
                }
            }
        };
    })
}

/// Expands an enum whose variants hold values. Its layout is undefined, so it can't be in memory.
fn with_values(input: &DeriveInput, data: &DataEnum, library: &TokenStream) -> Result<TokenStream> {
    let ident = &input.ident;
    let Common { name, links, fallback } = common(input, library);
    let private = quote!(#library::__private);
    let count = data.variants.len();
    let (mut definitions, mut values) = (Vec::new(), Vec::new());
    for (number, variant) in data.variants.iter().enumerate() {
        for field in &variant.fields {
            if let Type::Reference(reference) = &field.ty {
                return refused(
                    reference,
                    "types of kernels hold no references",
                    "hold an index, or the value",
                );
            }
        }
        let variant_name = bare(&variant.ident);
        let hash = name_hash(&variant.ident.unraw().to_string());
        let fields = variant.fields.iter().enumerate().map(|(at, field)| cpp_field(field, at));
        let types: Vec<&Type> = variant.fields.iter().map(|field| &field.ty).collect();
        definitions
            .push(quote!((#variant_name, #hash, &[#((#fields, phases_text.ty::<#types>())),*])));
        let members: Vec<syn::Member> = variant.fields.members().collect();
        let names: Vec<Ident> =
            (0..members.len()).map(|at| format_ident!("phases_{}", at)).collect();
        let of = &variant.ident;
        values.push(quote! {
            Self::#of { #(#members: #names),* } => #private::variant_value(
                &Self::cpp_name(), #number, #count, &[#(#private::value_text::<#types>(#names)),*]
            ),
        });
    }
    Ok(quote! {
        const _: () = {
            #fallback
            impl #library::__private::TypesOfKernelsDoNotDeref for #ident {}

            // SAFETY: `STORED` is false, so no memory is shared.
            #[diagnostic::do_not_recommend]
            unsafe impl #library::device::Device for #ident {
                const STORED: bool = false;

                #name

                fn write(phases_text: &mut #library::text::Text) {
                    let phases_name = Self::cpp_name();
                    phases_text.define(&phases_name, |phases_text| #private::variants(&phases_name, &[#(#definitions),*]));
                    #links
                }

                fn write_value(&self, text: &mut ::std::string::String) {
                    let value = match self { #(#values)* };
                    text.push_str(&value);
                }

                fn is_valid(_: &[u8]) -> bool {
                    false
                }
            }
        };
    })
}
