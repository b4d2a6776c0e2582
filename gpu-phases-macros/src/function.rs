//! `#[device]` functions, and the translation of functions and methods.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{
    FnArg, GenericParam, Generics, Ident, ItemFn, ReturnType, Signature, Type, TypeParamBound,
};

use crate::blocks::barriers::Plan;
use crate::blocks::{Level, Role, loads, role_of};
use crate::options::Options;
use crate::patterns::single_name;
use crate::refuse::{Result, refused};
use crate::translate::Translator;
use crate::types::{is_closure_bound, is_named};

/// A translated function.
pub(crate) struct Translated {
    /// Rustc's copy of the body.
    pub(crate) body: Body,
    /// The code that writes the C++; `phases_name` is the C++ name, and `phases_text` the text.
    pub(crate) write: TokenStream,
    /// The generic parameters that determine the C++: all except lifetimes and closures.
    pub(crate) generics: Generics,
    /// The functions that it calls.
    pub(crate) calls: Vec<syn::Path>,
}

/// The beginning of a function's C++.
pub(crate) enum Head<'h> {
    /// A function whose name the text chooses.
    Function,
    /// A method or an associated function with this name. `Self` is the type.
    Associated(&'h str),
    /// The same with generic parameters: the text adds to the name.
    Generic(&'h str),
}

/// Refuses signatures that functions of kernels cannot have.
pub(crate) fn check_signature(sig: &Signature) -> Result<()> {
    if let Some(token) = &sig.unsafety {
        return refused(token, "a device function is safe", "leave out `unsafe`");
    }
    if let Some(token) = &sig.asyncness {
        return refused(token, "a device function is not `async`", "leave out `async`");
    }
    if let Some(token) = &sig.abi {
        return refused(
            token,
            "a device function has Rust's calling convention",
            "leave out `extern`",
        );
    }
    if let Some(token) = &sig.variadic {
        return refused(
            token,
            "a device function has a fixed number of parameters",
            "take a slice",
        );
    }
    Ok(())
}

/// Translates a function or a method.
pub(crate) fn translate(
    function: &ItemFn,
    head: &Head<'_>,
    options: &Options,
) -> Result<Translated> {
    check_signature(&function.sig)?;
    crate::recursion::of_function(function, matches!(head, Head::Function))?;
    let mut rust = function.clone();
    let mut s = Translator::new(options);
    let (generics, closures) = split_generics(&function.sig.generics)?;
    let mut template = vec!["class C".to_owned()];
    let mut params = Vec::new();
    let mut prelude = String::new();
    let mut names = Vec::new();
    let mut handles = Vec::new();
    let mut blocks = Vec::new();
    let has_block =
        |arg: &FnArg| matches!(arg, FnArg::Typed(typed) if role_of(&typed.ty) == Role::Block);
    let over_blocks = rust.sig.inputs.iter().any(has_block);
    for (at, arg) in rust.sig.inputs.iter_mut().enumerate() {
        match arg {
            FnArg::Receiver(receiver) => {
                if receiver.colon_token.is_some() {
                    return refused(
                        receiver,
                        "the type of `self` is written",
                        "write `self`, `&self` or `&mut self`",
                    );
                }
                let cpp = s.declare("self", true);
                let this = s.hole(quote!(phases_text.ty::<Self>()));
                match (&receiver.reference, &receiver.mutability) {
                    (None, _) => params.push(format!("{this} {cpp}")),
                    (Some(_), None) => {
                        params.push(format!("const {this}& {cpp}_r"));
                        prelude.push_str(&format!("auto {cpp} = borrow({cpp}_r);\n"));
                    }
                    (Some(_), Some(_)) => {
                        params.push(format!("{this}& {cpp}_r"));
                        prelude.push_str(&format!("auto {cpp} = borrow_mut({cpp}_r);\n"));
                        s.writable.push("self".to_owned());
                    }
                }
            }
            FnArg::Typed(typed) if role_of(&typed.ty) != Role::Value => {
                let role = role_of(&typed.ty);
                let Some((name, _)) = single_name(&typed.pat) else {
                    return refused(
                        &typed.pat,
                        "a parameter that is a block, or memory of one, has one name",
                        "take parts by `let` in the body",
                    );
                };
                let cpp = s.declare(&name, false);
                s.give_role(&typed.pat, role, &[]);
                template.push(format!("class H{at}"));
                params.push(format!("H{at}&& {cpp}"));
                if role == Role::Block {
                    blocks.push(typed.pat.clone());
                    prelude.push_str(&format!("using B = plain<H{at}>;\nB::meet();\n"));
                    s.level = Some(Level {
                        plan: Plan::new(),
                        scopes: 0,
                        phases: false,
                        reads: false,
                        returns: false,
                    });
                    s.of_block = true;
                }
                names.push(name);
                handles.push(typed.pat.clone());
            }
            FnArg::Typed(typed) => {
                let is_closure = closure_parameter(&typed.ty, &closures);
                let ty = match is_closure {
                    true => {
                        template.push(format!("class F{at}"));
                        // A reference to a closure is treated as a closure.
                        format!("F{at}")
                    }
                    false => s.ty(&typed.ty)?,
                };
                if let Type::Reference(reference) = &*typed.ty
                    && reference.mutability.is_some()
                    && let Some((name, _)) = single_name(&typed.pat)
                {
                    s.writable.push(name);
                }
                match single_name(&typed.pat) {
                    Some((name, mutable)) => {
                        let mut unused = crate::patterns::Matching::default();
                        s.pattern(&mut typed.pat, "", &mut unused)?;
                        let cpp = s.declare(&name, mutable || ty.starts_with("mut<"));
                        params.push(format!("{ty} {cpp}"));
                        if over_blocks && is_closure {
                            // It may have atomic operations, and another closure those of the same memory.
                            s.give_role(&typed.pat, Role::Part, &["functions".to_owned()]);
                        }
                        match &*typed.ty {
                            ty if is_slice(ty) => s.slices.push(cpp),
                            Type::Reference(to) if is_named(&to.elem) => s.referred.push(cpp),
                            _ => {}
                        }
                        names.push(name);
                    }
                    None => {
                        let name = s.name("p");
                        params.push(format!("{ty} {name}"));
                        let (emitted, ()) =
                            s.captured(|s| s.bind_pattern(&mut typed.pat, &name))?;
                        prelude.push_str(&emitted);
                    }
                }
            }
        }
    }
    let result = match &rust.sig.output {
        ReturnType::Default => "unit".to_owned(),
        ReturnType::Type(_, ty) => s.ty(&ty.clone())?,
    };
    s.wraps = true;
    let value = s.block_value(&mut rust.block)?;
    if !value.never {
        s.emit(&format!("return {};", value.code));
    }
    // The roles of parameters follow from the names of their types, which may be those of other types.
    let private = s.private();
    let checked = handles.iter().map(|name| syn::parse_quote!(#private::handle(&#name);));
    // Methods of other references to a block may be those of a trait.
    let exact = blocks.iter().map(|name| syn::parse_quote!(#private::the_block(&#name);));
    let checked: Vec<syn::Stmt> = checked.chain(exact).collect();
    rust.block.stmts.splice(0..0, checked);
    let mut body = std::mem::take(&mut s.out);
    if let Some(level) = s.level.take() {
        // A parameter may be memory of the block.
        let placed = level.plan.place(&body, loads::BARRIER);
        body = loads::gathered(&placed.replace(loads::EARLY, loads::ALL));
    }
    let name = match head {
        Head::Function => s.hole(quote!(::std::string::ToString::to_string(phases_name))),
        Head::Associated(name) => (*name).to_owned(),
        Head::Generic(name) => {
            format!("{name}_{}", s.hole(quote!(::std::string::ToString::to_string(phases_name))))
        }
    };
    if !matches!(head, Head::Function) {
        if function.sig.receiver().is_none() {
            let this = s.hole(quote!(phases_text.ty::<Self>()));
            params.insert(0, format!("ty<{this}>"));
        }
        params.insert(0, "line".to_owned());
    }
    let file =
        s.hole(quote!(::std::string::ToString::to_string(&phases_text.file(::core::file!()))));
    let source = s.hole(quote!(::std::format!("{:?}", ::core::file!())));
    let checks = s.overflow_hole();
    let line = function.sig.fn_token.span().start().line;
    let text = format!(
        "#line {line} {source}\ntemplate <{}> PHASES_FN {result} {name}(C c0{}) {{\n\
         const auto c = in<{checks}>(c0, {file});\n{prelude}{body}}}\n",
        template.join(", "),
        params.iter().map(|param| format!(", {param}")).collect::<String>()
    );
    let private = options.private();
    let checks = crate::kernel::overflow_checks(&private);
    let fill = s.writer(&text);
    let probes: Vec<Ident> = (0..s.probes).map(|number| s.probe_name(number)).collect();
    let calls = std::mem::take(&mut s.calls);
    Ok(Translated {
        body: copy(rust, &probes, &closures, &generics, &private),
        write: quote! { #checks #fill },
        generics,
        calls,
    })
}

/// Rustc's copy of a function's body.
pub(crate) struct Body {
    /// The function: it takes its arguments as an `Option`; for `None` it only reports the types of its probes.
    pub(crate) function: ItemFn,
    /// Its generic arguments in addition to the original's: a function pointer type for each closure.
    pub(crate) closures: Vec<TokenStream>,
}

fn copy(
    mut rust: ItemFn,
    probes: &[Ident],
    closures: &[Ident],
    generics: &Generics,
    private: &TokenStream,
) -> Body {
    let mut params = generics.clone();
    let lifetimes =
        rust.sig.generics.params.iter().filter(|param| matches!(param, GenericParam::Lifetime(_)));
    params.params = lifetimes.cloned().chain(std::mem::take(&mut params.params)).collect();
    params.where_clause = rust.sig.generics.where_clause.clone();
    let mut pointers = Vec::new();
    for param in rust.sig.generics.type_params().filter(|param| closures.contains(&param.ident)) {
        params.params.push(GenericParam::Type(param.clone()));
        let from_where =
            rust.sig.generics.where_clause.iter().flat_map(|clause| &clause.predicates);
        let bounds = from_where.filter_map(|predicate| match predicate {
            syn::WherePredicate::Type(ty) if matches!(&ty.bounded_ty, Type::Path(path) if path.path.is_ident(&param.ident)) => {
                Some(&ty.bounds)
            }
            _ => None,
        });
        let pointer = bounds.chain([&param.bounds]).flatten().find_map(pointer_of);
        pointers.push(pointer.unwrap_or_else(|| quote!(fn())));
    }
    let (mut patterns, mut types) = (Vec::new(), Vec::new());
    for (at, arg) in rust.sig.inputs.iter().enumerate() {
        match arg {
            FnArg::Receiver(receiver) => {
                let this = Ident::new("phases_self", proc_macro2::Span::mixed_site());
                let mutability =
                    if receiver.reference.is_none() { receiver.mutability } else { None };
                patterns.push(quote!(#mutability #this));
                let ty = &receiver.ty;
                types.push(quote!(#ty));
            }
            FnArg::Typed(typed) => {
                let pat = &typed.pat;
                patterns.push(quote!(#pat));
                let named = match &*typed.ty {
                    Type::ImplTrait(bounds) => Some((bounds, quote!())),
                    Type::Reference(reference) => match &*reference.elem {
                        Type::ImplTrait(bounds) => {
                            let mutability = reference.mutability;
                            Some((bounds, quote!(& #mutability)))
                        }
                        _ => None,
                    },
                    _ => None,
                };
                match named {
                    Some((bounds, by)) => {
                        let name = Ident::new(
                            &format!("PhasesClosure{at}"),
                            proc_macro2::Span::mixed_site(),
                        );
                        let bounds = &bounds.bounds;
                        pointers.push(
                            bounds.iter().find_map(pointer_of).unwrap_or_else(|| quote!(fn())),
                        );
                        params.params.push(syn::parse_quote!(#name: #bounds));
                        types.push(quote!(#by #name));
                    }
                    None => {
                        let ty = &typed.ty;
                        types.push(quote!(#ty));
                    }
                }
            }
        }
    }
    let output = match &rust.sig.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ty) => quote!(#ty),
    };
    let body = rename_self(rust.block.to_token_stream());
    let name = Ident::new(&format!("phases_body_{}", bare(&rust.sig.ident)), rust.sig.ident.span());
    let (impl_generics, _, where_clause) = params.split_for_impl();
    // The function is inlined, as in C++: `mul_add` is one instruction only if it is compiled into the loop for
    // processors with FMA.
    let function = syn::parse_quote! {
        #[inline(always)]
        #[doc(hidden)]
        #[allow(non_snake_case, unused_mut, unused_variables, unused_braces, unused_parens, unreachable_code, dead_code)]
        #[allow(clippy::all, clippy::pedantic)]
        fn #name #impl_generics (
            phases_args: ::core::option::Option<(#(#types,)*)>
        ) -> ::core::option::Option<#output> #where_clause {
            #[allow(unused_imports)]
            use #private::{DefinedFloat as _, DefinedInt as _, DefinedSigned as _, DefinedUnsigned as _, Elementary as _, Int as _, Length as _, Number as _, Real as _};
            #(let #probes = #private::Probe::new();)*
            if let ::core::option::Option::Some((#(#patterns,)*)) = phases_args {
                return ::core::option::Option::Some(#body);
            }
            #private::Types::report(|phases_types| { #(phases_types.push(&#probes);)* });
            ::core::option::Option::None
        }
    };
    rust = function;
    Body { function: rust, closures: pointers }
}

/// Returns the name in C++.
pub(crate) fn bare(name: &Ident) -> String {
    crate::exprs::ascii(&name.to_string())
}

/// Returns the function pointer type that a closure bound allows.
fn pointer_of(bound: &TypeParamBound) -> Option<TokenStream> {
    let TypeParamBound::Trait(bound) = bound else { return None };
    match &bound.path.segments.last()?.arguments {
        syn::PathArguments::Parenthesized(args) => {
            let (inputs, output) = (&args.inputs, &args.output);
            Some(quote!(fn(#inputs) #output))
        }
        _ => None,
    }
}

/// Renames `self`, which is an ordinary parameter in rustc's copy.
fn rename_self(tokens: TokenStream) -> TokenStream {
    let mut renamed = TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let next_is_path = matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == ':'
            && next.spacing() == proc_macro2::Spacing::Joint);
        renamed.extend([match token {
            TokenTree::Ident(name) if name == "self" && !next_is_path => TokenTree::Ident(
                Ident::new("phases_self", proc_macro2::Span::mixed_site().located_at(name.span())),
            ),
            TokenTree::Group(group) => {
                let mut inner =
                    proc_macro2::Group::new(group.delimiter(), rename_self(group.stream()));
                inner.set_span(group.span());
                TokenTree::Group(inner)
            }
            other => other,
        }]);
    }
    renamed
}

/// Splits generic parameters into those that determine the C++, and closures.
pub(crate) fn split_generics(generics: &Generics) -> Result<(Generics, Vec<Ident>)> {
    let mut kept = generics.clone();
    let mut closures = Vec::new();
    let in_where = |name: &Ident| {
        generics.where_clause.iter().flat_map(|clause| &clause.predicates).any(|predicate| {
            match predicate {
                syn::WherePredicate::Type(ty) => {
                    matches!(&ty.bounded_ty, Type::Path(path) if path.path.is_ident(name))
                        && ty.bounds.iter().any(is_closure_bound)
                }
                _ => false,
            }
        })
    };
    for param in &generics.params {
        if let GenericParam::Type(ty) = param
            && (ty.bounds.iter().any(is_closure_bound) || in_where(&ty.ident))
        {
            closures.push(ty.ident.clone());
        }
    }
    kept.params = kept
        .params
        .into_iter()
        .filter(|param| match param {
            GenericParam::Lifetime(_) => false,
            GenericParam::Type(ty) => !closures.contains(&ty.ident),
            GenericParam::Const(_) => true,
        })
        .collect();
    if let Some(clause) = &mut kept.where_clause {
        clause.predicates = std::mem::take(&mut clause.predicates)
            .into_iter()
            .filter(|predicate| match predicate {
                syn::WherePredicate::Type(ty) => !ty.bounds.iter().any(is_closure_bound),
                _ => false,
            })
            .collect();
    }
    Ok((kept, closures))
}

/// Returns whether the type of a parameter is that of a closure.
fn closure_parameter(ty: &Type, closures: &[Ident]) -> bool {
    match ty {
        Type::ImplTrait(bounds) => {
            bounds.bounds.iter().any(|bound: &TypeParamBound| is_closure_bound(bound))
        }
        Type::Reference(reference) => closure_parameter(&reference.elem, closures),
        Type::Path(path) => path.path.get_ident().is_some_and(|name| closures.contains(name)),
        _ => false,
    }
}

/// Expands `#[device]` on a function.
pub(crate) fn expand(function: &ItemFn, options: &Options) -> Result<TokenStream> {
    if function.sig.receiver().is_some() {
        return refused(&function.sig, "this is a method", "put `#[device]` on the whole `impl`");
    }
    let Translated { body, write, generics, calls } =
        translate(function, &Head::Function, options)?;
    let (private, library) = (options.private(), &options.library);
    let (sig, vis, attrs) = (&function.sig, &function.vis, &function.attrs);
    let name = &sig.ident;
    let stem = bare(name);
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let types = generics.type_params().map(|param| &param.ident);
    let own = generics.params.iter().filter_map(|param| match param {
        GenericParam::Type(ty) => Some(&ty.ident),
        GenericParam::Const(constant) => Some(&constant.ident),
        GenericParam::Lifetime(_) => None,
    });
    let Body { function: copy, closures } = body;
    let body_name = &copy.sig.ident;
    let all: Vec<TokenStream> = sig.generics.params.iter().filter_map(argument_of).collect();
    let own: Vec<TokenStream> = own.map(|name| quote!(#name)).collect();
    let inner: Vec<TokenStream> =
        own.iter().cloned().chain(closures.iter().map(|_| quote!(_))).collect();
    let arguments: Vec<TokenStream> = own.into_iter().chain(closures).collect();
    let instance = instance_names(&generics, library);
    let mut call = sig.clone();
    call.ident = Ident::new("phases_call", proc_macro2::Span::mixed_site().located_at(name.span()));
    let names: Vec<Ident> = (0..sig.inputs.len())
        .map(|at| Ident::new(&format!("phases_{at}"), proc_macro2::Span::mixed_site()))
        .collect();
    let rename = |sig: &mut Signature| {
        for (arg, name) in sig.inputs.iter_mut().zip(&names) {
            if let FnArg::Typed(typed) = arg {
                *typed.pat = syn::parse_quote!(#name);
            }
        }
    };
    let mut bare_sig = sig.clone();
    rename(&mut call);
    rename(&mut bare_sig);
    call.inputs.insert(0, syn::parse_quote!(_: #private::Probe<PhasesSource #ty_generics>));
    let depth = calls.iter().map(|path| quote!(#path::PHASES_DEPTH));
    Ok(quote! {
        #(#attrs)*
        #[inline]
        #vis #bare_sig {
            #name::phases_call::<#(#all),*>(#private::Probe::new(), #(#names),*)
        }

        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, missing_debug_implementations)]
        #vis enum #name {}

        const _: () = {
            #[doc(hidden)]
            #[allow(missing_debug_implementations)]
            pub struct PhasesSource #impl_generics (::core::marker::PhantomData<fn() -> (#(#types,)*)>) #where_clause;

            #copy

            impl #name {
                /// The constant's evaluation is a cycle if the function calls itself through others.
                #[doc(hidden)]
                pub const PHASES_DEPTH: u32 = 1 #(+ 0 * #depth)*;

                #[doc(hidden)]
                #[inline(always)]
                #[allow(private_interfaces, missing_docs)]
                pub #call {
                    match #body_name::<#(#inner),*>(::core::option::Option::Some((#(#names,)*))) {
                        ::core::option::Option::Some(value) => value,
                        ::core::option::Option::None => #private::no_arguments(),
                    }
                }
            }

            const _: u32 = #name::PHASES_DEPTH;

            // SAFETY: the macro has translated the C++ from the function, which rustc has checked.
            #[diagnostic::do_not_recommend]
            unsafe impl #impl_generics #private::Named for PhasesSource #ty_generics #where_clause {
                #[allow(unused_variables)]
                fn name(phases_text: &mut #library::text::Text) -> ::std::string::String {
                    let names: &[::std::string::String] = &[#(#instance),*];
                    let key = ::std::format!(
                        "{}:{}:{}:{}<{}>",
                        ::core::module_path!(), ::core::line!(), ::core::column!(), #stem, names.join(", ")
                    );
                    phases_text.function_of::<Self>(&key, #stem, |phases_text, phases_name| {
                        let phases_types = #private::Types::of(|| { #body_name::<#(#arguments),*>(::core::option::Option::None); });
                        #write
                    })
                }
            }
        };
    })
}

fn is_slice(ty: &Type) -> bool {
    match ty {
        Type::Reference(reference) => is_slice(&reference.elem),
        Type::Slice(_) | Type::Array(_) => true,
        _ => false,
    }
}

/// Returns a generic parameter as an argument.
pub(crate) fn argument_of(param: &GenericParam) -> Option<TokenStream> {
    match param {
        GenericParam::Type(ty) => Some(ty.ident.to_token_stream()),
        GenericParam::Const(constant) => Some(constant.ident.to_token_stream()),
        GenericParam::Lifetime(_) => None,
    }
}

/// Returns expressions of the names of generic arguments.
pub(crate) fn instance_names(generics: &Generics, library: &TokenStream) -> Vec<TokenStream> {
    let names = generics.params.iter().filter_map(|param| match param {
        GenericParam::Const(constant) => {
            let name = &constant.ident;
            Some(quote!(::std::string::ToString::to_string(&#name)))
        }
        GenericParam::Type(ty) => {
            let name = &ty.ident;
            Some(quote!(<#name as #library::device::Device>::rust_name()))
        }
        GenericParam::Lifetime(_) => None,
    });
    names.collect()
}
