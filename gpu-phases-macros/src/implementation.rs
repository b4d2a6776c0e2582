//! `#[device]` on an `impl`: methods, associated functions, operators.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::{FnArg, Generics, Ident, ImplItem, Item, ItemFn, ItemImpl, ReturnType, Signature, Type};

use crate::function::{Body, Head, Translated, argument_of, bare, instance_names, translate};
use crate::names::{DEFINED, defined_name, is_elementary, is_reserved};
use crate::options::Options;
use crate::refuse::{Result, macro_of, no_cfg, refused};

/// The operators that types in kernels have, with their names in C++.
pub(crate) const OPERATORS: [(&str, &str); 22] = [
    ("Add", "o_add"),
    ("Sub", "o_sub"),
    ("Mul", "o_mul"),
    ("Div", "o_div"),
    ("Rem", "o_rem"),
    ("BitAnd", "o_bitand"),
    ("BitOr", "o_bitor"),
    ("BitXor", "o_bitxor"),
    ("Shl", "o_shl"),
    ("Shr", "o_shr"),
    ("Neg", "o_neg"),
    ("Not", "o_not"),
    ("AddAssign", "o_add_assign"),
    ("SubAssign", "o_sub_assign"),
    ("MulAssign", "o_mul_assign"),
    ("DivAssign", "o_div_assign"),
    ("RemAssign", "o_rem_assign"),
    ("BitAndAssign", "o_bitand_assign"),
    ("BitOrAssign", "o_bitor_assign"),
    ("BitXorAssign", "o_bitxor_assign"),
    ("ShlAssign", "o_shl_assign"),
    ("ShrAssign", "o_shr_assign"),
];

/// The possible right sides of an operator, for the names of the constants that link sources to types.
pub(crate) const RIGHT_SIDES: [&str; 14] = [
    "SELF", "f32", "f64", "u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize",
    "OTHER",
];

/// Returns the name of the constant that links the source of an operator to its type.
pub(crate) fn operator_link(operator: &str, right: &str) -> Ident {
    let name = format!("PHASES_{}_{}", operator.to_uppercase(), right.to_uppercase());
    Ident::new(&name, proc_macro2::Span::call_site())
}

/// The number of `impl` blocks of methods that a type can have.
pub(crate) const SLOTS: u32 = 4;

/// Returns the name of the constant that links the source of methods to their type.
pub(crate) fn methods_link(slot: u32) -> Ident {
    Ident::new(&format!("PHASES_METHODS_{slot}"), proc_macro2::Span::call_site())
}

/// Expands `#[device]`.
pub(crate) fn expand(
    args: TokenStream,
    item: TokenStream,
    library: TokenStream,
) -> Result<TokenStream> {
    let options = Options::parse(args, library)?;
    let item: Item = syn::parse2(item)?;
    Ok(translated(&item, &options).unwrap_or_else(|error| {
        let (error, stubs) = (error.to_compile_error(), crate::stubs::stubs(&item, &options));
        quote!(#error #stubs)
    }))
}

fn translated(item: &Item, options: &Options) -> Result<TokenStream> {
    no_cfg(item)?;
    let device = of_item(item, options)?;
    let names = crate::hygiene::check(item)?;
    Ok(quote!(#device #names))
}

fn of_item(item: &Item, options: &Options) -> Result<TokenStream> {
    options.no_kernel()?;
    if !matches!(item, Item::Impl(block) if block.trait_.is_some()) {
        options.no_references(item)?;
    }
    if options.structure {
        return crate::structure::methods(item, options);
    }
    match item {
        Item::Fn(function) => crate::function::expand(function, options),
        Item::Impl(block) => match &block.trait_ {
            _ if macro_of(block).is_some() => refused(
                &macro_of(block),
                "an attribute after `#[device]` may change the Rust and not the C++",
                "put it before `#[device]`",
            ),
            None => methods(block.clone(), options),
            Some(_) => operator(block.clone(), options),
        },
        other => refused(
            other,
            "`#[device]` is for functions and `impl` blocks",
            "a type derives `Device`; a constant needs no attribute",
        ),
    }
}

fn methods(mut block: ItemImpl, options: &Options) -> Result<TokenStream> {
    if options.slot >= SLOTS {
        return refused(
            &block.self_ty,
            &format!("a type has at most {SLOTS} blocks of device methods"),
            "write the methods into one `impl`, or number the blocks from `slot = 0` on",
        );
    }
    crate::recursion::of_methods(&block)?;
    let mut writes = Vec::new();
    let mut sources = Vec::new();
    let mut bodies: Vec<ImplItem> = Vec::new();
    let (this, of_type) = (block.self_ty.clone(), block.generics.clone());
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else {
            if let ImplItem::Const(_) = item {
                continue;
            }
            return refused(
                item,
                "device `impl` blocks have functions and constants",
                "move it to another `impl`",
            );
        };
        let name = bare(&method.sig.ident);
        reserved(&method.sig, &name)?;
        let head =
            if method.sig.receiver().is_some() { format!("m_{name}") } else { format!("a_{name}") };
        let mut alias = method.clone();
        // A method is written at its calls: a type does not know the bounds of its `impl`s, and a kernel has only the
        // methods that it calls. Names that numbers have, too, are called without a probe, so the type writes those.
        let by_call = !DEFINED.contains(&name.as_str());
        let (body, write, generics) =
            function(&mut method.sig, &mut method.block, &head, by_call, None, options)?;
        let private = options.private();
        if !by_call && !generics.params.is_empty() {
            return refused(
                &method.sig.ident,
                &format!("`{name}` has no generic parameters in kernels"),
                &format!("give it another name, such as `{name}_of`"),
            );
        }
        bodies.push(body);
        // Kernels call methods by these names, which are reserved.
        alias.attrs = vec![
            syn::parse_quote!(#[doc(hidden)]),
            syn::parse_quote!(#[inline(always)]),
            syn::parse_quote!(#[allow(missing_docs, dead_code, clippy::all, clippy::pedantic)]),
        ];
        alias.block = method.block.clone();
        alias.sig = method.sig.clone();
        alias.sig.ident = Ident::new(&defined_name(&name), alias.sig.ident.span());
        if by_call {
            let (writer, source, named) =
                instance(&name, write, &generics, &of_type, &this, options);
            bodies.push(writer);
            sources.push(named);
            // The argument tells a caller's copy in rustc which method it calls.
            let at = usize::from(alias.sig.receiver().is_some());
            let probe = syn::parse_quote!(_: #private::Probe<#source>);
            alias.sig.inputs.insert(at, probe);
        } else {
            writes.push(write);
        }
        bodies.push(ImplItem::Fn(alias));
    }
    let link = methods_link(options.slot);
    block.items.extend(bodies);
    block.items.push(link_item(&link, &writes, options));
    if sources.is_empty() {
        return Ok(block.into_token_stream());
    }
    Ok(quote!(const _: () = { #(#sources)* #block };))
}

/// Returns the generic arguments of a type, as written.
fn type_arguments(ty: &Type) -> Vec<&syn::GenericArgument> {
    let Type::Path(path) = ty else { return Vec::new() };
    match path.path.segments.last().map(|last| &last.arguments) {
        Some(syn::PathArguments::AngleBracketed(list)) => list.args.iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns the function that writes an instance of a method, the type that stands for an instance, and the definition of
/// that type.
fn instance(
    name: &str,
    write: TokenStream,
    generics: &Generics,
    of_type: &Generics,
    this: &Type,
    options: &Options,
) -> (ImplItem, TokenStream, TokenStream) {
    let (library, private) = (&options.library, options.private());
    let writer = format_ident!("phases_write_{name}");
    let source = format_ident!("PhasesSource_{name}");
    let (own, own_arguments, own_where) = generics.split_for_impl();
    let mut all = of_type.clone();
    all.params.extend(generics.params.clone());
    if let Some(clause) = &generics.where_clause {
        all.make_where_clause().predicates.extend(clause.predicates.clone());
    }
    let (impl_generics, arguments, where_clause) = all.split_for_impl();
    let types = all.type_params().map(|param| &param.ident);
    let names = instance_names(&all, library);
    let own_arguments = own_arguments.as_turbofish();
    let function = ImplItem::Verbatim(quote! {
        #[doc(hidden)]
        #[allow(non_snake_case)]
        fn #writer #own (phases_text: &mut #library::text::Text, phases_name: &str) -> ::std::string::String #own_where { #write }
    });
    let definition = quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types, missing_debug_implementations)]
        pub struct #source #impl_generics (::core::marker::PhantomData<fn() -> (#this, #(#types,)*)>) #where_clause;

        // SAFETY: the macro has translated the C++ from the method, which rustc has checked.
        #[diagnostic::do_not_recommend]
        unsafe impl #impl_generics #private::Named for #source #arguments #where_clause {
            fn name(phases_text: &mut #library::text::Text) -> ::std::string::String {
                let names: &[::std::string::String] = &[#(#names),*];
                let this = <#this as #library::device::Device>::rust_name();
                let key = ::std::format!("{this}::{}<{}>", #name, names.join(", "));
                let phases_name = phases_text.function_of::<Self>(&key, #name, |phases_text, phases_name| <#this>::#writer #own_arguments (phases_text, phases_name));
                ::std::format!("_{phases_name}")
            }
        }
    };
    (function, quote!(#source #arguments), definition)
}

/// Returns a number for the name of a method or a variant.
pub(crate) fn name_hash(name: &str) -> u64 {
    // The hash is FNV-1a.
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Refuses a method whose name has one meaning for all types in kernels.
fn reserved(sig: &Signature, name: &str) -> Result<()> {
    let mutable = sig.inputs.iter().any(|arg| match arg {
        FnArg::Receiver(receiver) => receiver.reference.is_some() && receiver.mutability.is_some(),
        FnArg::Typed(typed) => {
            matches!(&*typed.ty, Type::Reference(reference) if reference.mutability.is_some())
        }
    });
    if is_reserved(name) {
        return refused(
            &sig.ident,
            &format!("`{name}` is a method of Rust's own types in kernels"),
            &format!("give it another name, such as `{name}_of`"),
        );
    }
    if (DEFINED.contains(&name) || is_elementary(name)) && mutable {
        return refused(
            &sig.ident,
            &format!("`{name}` changes nothing in kernels"),
            "take `self` and values, and return the result; or give it another name",
        );
    }
    let is_reference =
        |arg: &FnArg| matches!(arg, FnArg::Typed(typed) if matches!(*typed.ty, Type::Reference(_)));
    if is_elementary(name) && sig.inputs.iter().any(is_reference) {
        return refused(
            &sig.ident,
            &format!("`{name}` takes values in kernels"),
            "take the other number by value, or give the method another name",
        );
    }
    Ok(())
}

/// Returns the constant that links sources to the type.
fn link_item(link: &Ident, writes: &[TokenStream], options: &Options) -> ImplItem {
    let (library, private) = (&options.library, options.private());
    ImplItem::Verbatim(quote! {
        #[doc(hidden)]
        #[allow(missing_docs)]
        // SAFETY: the macro has translated the C++ from methods of this type that rustc has checked.
        pub const #link: #private::Link = unsafe { #private::Link::new(|phases_text| {
            let key = ::std::format!("{} {}", <Self as #library::device::Device>::cpp_name(), ::core::stringify!(#link));
            phases_text.define(&key, |phases_text| {
                let mut text = ::std::string::String::new();
                #(text.push_str(&{ #writes });)*
                text
            });
        }) };
    })
}

/// Translates a method: replaces its block, and returns rustc's copy of its body, the code that writes the C++, and the
/// generic parameters that decide the C++.
fn function(
    sig: &mut Signature,
    block: &mut syn::Block,
    head: &str,
    by_call: bool,
    output: Option<&Type>,
    options: &Options,
) -> Result<(ImplItem, TokenStream, Generics)> {
    let private = options.private();
    let mut function = ItemFn {
        attrs: Vec::new(),
        vis: syn::Visibility::Inherited,
        sig: sig.clone(),
        block: Box::new(block.clone()),
    };
    if let (Some(output), ReturnType::Type(_, ty)) = (output, &mut function.sig.output) {
        **ty = output.clone();
    }
    link_lifetimes(&mut function.sig);
    let name_in_cpp = if by_call { Head::Generic(head) } else { Head::Associated(head) };
    let Translated { body, write, generics, .. } = translate(&function, &name_in_cpp, options)?;
    let Body { function: mut copy, closures } = body;
    copy.sig.ident = Ident::new(&format!("phases_body_{head}"), copy.sig.ident.span());
    let name = &copy.sig.ident;
    let mut args = Vec::new();
    for (at, arg) in sig.inputs.iter_mut().enumerate() {
        match arg {
            FnArg::Receiver(receiver) => {
                if receiver.reference.is_none() {
                    receiver.mutability = None;
                }
                args.push(quote!(self));
            }
            FnArg::Typed(typed) => {
                let arg = Ident::new(&format!("phases_{at}"), proc_macro2::Span::mixed_site());
                *typed.pat = syn::parse_quote!(#arg);
                args.push(quote!(#arg));
            }
        }
    }
    let own: Vec<TokenStream> = generics.params.iter().filter_map(argument_of).collect();
    let inferred = closures.iter().map(|_| quote!(_));
    let with = |rest: Vec<TokenStream>| {
        let all: Vec<TokenStream> = own.iter().cloned().chain(rest).collect();
        (!all.is_empty()).then(|| quote!(::<#(#all),*>))
    };
    let (called, turbofish) = (with(inferred.collect()), with(closures.clone()));
    *block = syn::parse_quote!({
        match Self::#name #called (::core::option::Option::Some((#(#args,)*))) {
            ::core::option::Option::Some(value) => value,
            ::core::option::Option::None => #private::no_arguments(),
        }
    });
    let write = quote! {
        let phases_types = #private::Types::of(|| { Self::#name #turbofish (::core::option::Option::None); });
        #write
    };
    Ok((ImplItem::Verbatim(copy.to_token_stream()), write, generics))
}

/// Gives references in the result the lifetime of `&self`, as Rust's elision does in methods.
fn link_lifetimes(sig: &mut Signature) {
    let returns_reference = match &sig.output {
        ReturnType::Type(_, ty) => {
            matches!(&**ty, Type::Reference(reference) if reference.lifetime.is_none())
        }
        ReturnType::Default => false,
    };
    let Some(FnArg::Receiver(receiver)) = sig.inputs.first_mut() else { return };
    let Some((_, lifetime)) = &mut receiver.reference else { return };
    if !returns_reference {
        return;
    }
    let name = match lifetime {
        Some(name) => name.clone(),
        None => syn::Lifetime::new("'phases", proc_macro2::Span::mixed_site()),
    };
    if lifetime.is_none() {
        *lifetime = Some(name.clone());
        sig.generics.params.insert(0, syn::parse_quote!(#name));
    }
    if let Type::Reference(reference) = &mut *receiver.ty {
        reference.lifetime = Some(name.clone());
    }
    if let ReturnType::Type(_, ty) = &mut sig.output
        && let Type::Reference(reference) = &mut **ty
    {
        reference.lifetime = Some(name);
    }
}

/// Expands `#[device] impl Add for Vec3`.
fn operator(mut block: ItemImpl, options: &Options) -> Result<TokenStream> {
    let Some((_, path, _)) = &block.trait_ else { return Ok(block.into_token_stream()) };
    let Some(last) = path.segments.last() else { return Ok(block.into_token_stream()) };
    let trait_name = last.ident.to_string();
    let Some((_, cpp)) = OPERATORS.iter().find(|(name, _)| *name == trait_name) else {
        return refused(
            path,
            "kernels know only the traits of operators",
            "write the methods in an `impl` of the type: `#[device] impl Vec3 { … }`",
        );
    };
    if let Type::Reference(reference) = &*block.self_ty {
        return refused(
            reference,
            "operators of kernels are those of values",
            "implement it for the type itself: `#[device(references)]` adds those of references",
        );
    }
    let parameters: Vec<String> =
        block.generics.params.iter().filter_map(argument_of).map(|name| name.to_string()).collect();
    let of_one_instance = |argument: &&&syn::GenericArgument| {
        !parameters.contains(&argument.to_token_stream().to_string())
    };
    if let Some(argument) = type_arguments(&block.self_ty).iter().find(of_one_instance) {
        return refused(
            argument,
            "an operator of a generic type is one of all its instances",
            "write `impl<T: Real> Add for Pair<T>`, with the bounds of `struct Pair<T: Real>`",
        );
    }
    let right = match &last.arguments {
        syn::PathArguments::AngleBracketed(args) => match args.args.first() {
            Some(syn::GenericArgument::Type(Type::Reference(reference))) => {
                return refused(
                    reference,
                    "operators of kernels are those of values",
                    "take the value: `#[device(references)]` adds those of references",
                );
            }
            Some(syn::GenericArgument::Type(ty)) => right_side(ty, &block.self_ty),
            _ => "SELF".to_owned(),
        },
        _ => "SELF".to_owned(),
    };
    let right_type = match &last.arguments {
        syn::PathArguments::AngleBracketed(args) => {
            args.args.first().map(ToTokens::to_token_stream)
        }
        _ => None,
    };
    // Rust calls the traits of the language, and a trait of the program may have such a name.
    let (named, of_language) =
        (crate::kernel::without_arguments(path), syn::parse_quote!(::core::ops::#last));
    if let Some((_, path, _)) = &mut block.trait_ {
        *path = of_language;
    }
    let output = block.items.iter().find_map(|item| match item {
        ImplItem::Type(ty) if ty.ident == "Output" => Some(ty.ty.clone()),
        _ => None,
    });
    let mut writes = Vec::new();
    let mut bodies = Vec::new();
    for item in &mut block.items {
        if let ImplItem::Fn(method) = item {
            let (body, write, _) =
                function(&mut method.sig, &mut method.block, cpp, false, output.as_ref(), options)?;
            let ImplItem::Verbatim(tokens) = &body else { continue };
            // The name is unique, because a type can have several implementations of an operator.
            let mut copy: ItemFn = syn::parse2(tokens.clone())?;
            let old = copy.sig.ident.clone();
            copy.sig.ident = Ident::new(&format!("{old}_{}", right.to_lowercase()), old.span());
            let new = copy.sig.ident.clone();
            let rename = |tokens: TokenStream| replace_ident(tokens, &old, &new);
            method.attrs.push(syn::parse_quote!(#[inline(always)]));
            let block = rename(method.block.to_token_stream());
            method.block = syn::parse2(block)?;
            writes.push(rename(write));
            bodies.push(ImplItem::Verbatim(copy.to_token_stream()));
        }
    }
    let references = if options.references {
        let (write, implementations) = by_reference(&block, &trait_name, cpp, right_type, options);
        writes.push(write);
        implementations
    } else {
        TokenStream::new()
    };
    let link = operator_link(&trait_name, &right);
    let item = link_item(&link, &writes, options);
    let (impl_generics, _, where_clause) = block.generics.split_for_impl();
    let this = &block.self_ty;
    Ok(quote! {
        #block

        impl #impl_generics #this #where_clause {
            #(#bodies)*
            #item
        }

        #references

        const _: () = {
            #[allow(unused_imports)]
            use #named as _;
        };
    })
}

/// Returns the code that writes the overloads of an operator for references, and their implementations.
fn by_reference(
    block: &ItemImpl,
    trait_name: &str,
    cpp: &str,
    right: Option<TokenStream>,
    options: &Options,
) -> (TokenStream, TokenStream) {
    let private = options.private();
    let this = &block.self_ty;
    let (impl_generics, _, where_clause) = block.generics.split_for_impl();
    let right = right.filter(|ty| ty.to_string() != "Self").unwrap_or_else(|| quote!(#this));
    let unary = matches!(trait_name, "Neg" | "Not");
    let assigns = trait_name.ends_with("Assign");
    let name = Ident::new(trait_name, proc_macro2::Span::call_site());
    let method = block.items.iter().find_map(|item| match item {
        ImplItem::Fn(method) => Some(&method.sig.ident),
        _ => None,
    });
    let implement = |of: TokenStream, with: TokenStream, left: TokenStream, other: TokenStream| {
        if assigns {
            return quote! {
                impl #impl_generics ::core::ops::#name<#with> for #of #where_clause {
                    #[inline(always)]
                    fn #method(&mut self, other: #with) {
                        ::core::ops::#name::#method(self, #other);
                    }
                }
            };
        }
        let (argument, parameter, passed) = if unary {
            (None, None, None)
        } else {
            (Some(quote!(<#with>)), Some(quote!(, other: #with)), Some(quote!(, #other)))
        };
        let by_value = if unary { None } else { Some(quote!(<#right>)) };
        quote! {
            impl #impl_generics ::core::ops::#name #argument for #of #where_clause {
                type Output = <#this as ::core::ops::#name #by_value>::Output;

                #[inline(always)]
                fn #method(self #parameter) -> Self::Output {
                    ::core::ops::#name::#method(#left #passed)
                }
            }
        }
    };
    let value = || quote!(#this);
    let implementations = if unary {
        implement(quote!(&#this), quote!(), quote!(*self), quote!())
    } else if assigns {
        implement(value(), quote!(&#right), quote!(), quote!(*other))
    } else {
        let all = [
            implement(quote!(&#this), quote!(#right), quote!(*self), quote!(other)),
            implement(value(), quote!(&#right), quote!(self), quote!(*other)),
            implement(quote!(&#this), quote!(&#right), quote!(*self), quote!(*other)),
        ];
        quote!(#(#all)*)
    };
    let other = if unary {
        quote!(::core::option::Option::None::<::std::string::String>)
    } else {
        quote!(::core::option::Option::Some(phases_text.ty::<#right>()))
    };
    let write = quote!({ let (a, b) = (phases_text.ty::<Self>(), #other); #private::by_reference(#cpp, &a, ::core::option::Option::as_deref(&b)) });
    (write, implementations)
}

fn replace_ident(tokens: TokenStream, old: &Ident, new: &Ident) -> TokenStream {
    tokens
        .into_iter()
        .map(|token| match token {
            proc_macro2::TokenTree::Ident(name) if name == *old => {
                proc_macro2::TokenTree::Ident(new.clone())
            }
            proc_macro2::TokenTree::Group(group) => {
                let inner = replace_ident(group.stream(), old, new);
                proc_macro2::TokenTree::Group(proc_macro2::Group::new(group.delimiter(), inner))
            }
            other => other,
        })
        .collect()
}

/// Returns the one of [`RIGHT_SIDES`] that a type is.
fn right_side(ty: &Type, this: &Type) -> String {
    let text = ty.to_token_stream().to_string();
    if text == "Self" || text == this.to_token_stream().to_string() {
        return "SELF".to_owned();
    }
    if RIGHT_SIDES.contains(&text.as_str()) { text } else { "OTHER".to_owned() }
}
