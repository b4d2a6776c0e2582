//! The parameters of kernels.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{
    Attribute, FnArg, GenericParam, Generics, Ident, ItemFn, Lifetime, Meta, Pat, ReturnType, Type,
};

use crate::options::Options;
use crate::refuse::{Result, refused};
use crate::types::is_named;

/// The kind of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Value,
    Read,
    Write,
    Shared,
    Structure,
}

/// A parameter.
pub(super) struct Param {
    pub(super) name: Ident,
    pub(super) mutable: bool,
    pub(super) kind: Kind,
    /// The type of the value, the elements or the structure.
    pub(super) element: Type,
    /// The path of `Atomic` as the program names it.
    pub(super) atomic: Option<syn::Path>,
    /// Whether it is marked with `#[active]` (`true`) or `#[inactive]`.
    pub(super) marked: Option<bool>,
}

/// A kernel's signature.
pub(super) struct Signature {
    pub(super) params: Vec<Param>,
    /// The generic parameters without lifetimes.
    pub(super) generics: Generics,
    pub(super) line: usize,
}

impl Signature {
    pub(super) fn parse(function: &ItemFn, options: &Options) -> Result<Self> {
        let sig = &function.sig;
        if let Some(token) = &sig.unsafety {
            return refused(token, "a kernel is a safe function", "leave out `unsafe`");
        }
        if let Some(token) = &sig.asyncness {
            return refused(
                token,
                "a kernel is no `async` function",
                "leave out `async`: launches do not wait anyway",
            );
        }
        if let Some(token) = &sig.constness {
            return refused(token, "a kernel is no `const` function", "leave out `const`");
        }
        if let Some(token) = &sig.abi {
            return refused(token, "a kernel has Rust's calling convention", "leave out `extern`");
        }
        if let Some(token) = &sig.variadic {
            return refused(token, "a kernel has a fixed number of parameters", "take a slice");
        }
        if let ReturnType::Type(_, ty) = &sig.output {
            return refused(ty, "a kernel returns nothing", "write to a parameter `out: &mut [T]`");
        }
        let mut generics = sig.generics.clone();
        for param in &generics.params {
            if let GenericParam::Lifetime(lifetime) = param {
                return refused(
                    lifetime,
                    "a kernel needs no lifetimes",
                    "write `&[T]` without a lifetime",
                );
            }
        }
        generics.params.iter_mut().for_each(|param| match param {
            GenericParam::Type(ty) => ty.default = None,
            GenericParam::Const(constant) => constant.default = None,
            GenericParam::Lifetime(_) => {}
        });
        let has_gradient = options.gradient.is_some();
        let params = sig.inputs.iter().map(|arg| Param::parse(arg, has_gradient));
        let params = params.collect::<Result<Vec<_>>>()?;
        if params.is_empty() {
            return refused(&sig.ident, "the kernel has no output", "take `out: &mut [T]`");
        }
        Ok(Self { params, generics, line: sig.fn_token.span().start().line })
    }

    /// Returns the parameter of this name if it has elements.
    pub(super) fn slice(&self, name: &str) -> Option<&Param> {
        let has_elements = |kind| !matches!(kind, Kind::Value | Kind::Structure);
        self.params.iter().find(|param| has_elements(param.kind) && param.name == name)
    }

    /// Returns a type that uses the generic parameters.
    pub(super) fn phantom(&self) -> TokenStream {
        let types = self.generics.type_params().map(|param| &param.ident);
        quote!(::core::marker::PhantomData<fn() -> (#(#types,)*)>)
    }

    /// Returns expressions of the names of generic arguments.
    pub(super) fn instance_names(&self, library: &TokenStream) -> Vec<TokenStream> {
        self.generics
            .params
            .iter()
            .map(|param| match param {
                GenericParam::Const(constant) => {
                    let name = &constant.ident;
                    quote!(::std::string::ToString::to_string(&#name))
                }
                GenericParam::Type(ty) => {
                    let name = &ty.ident;
                    quote!(<#name as #library::device::Device>::rust_name())
                }
                GenericParam::Lifetime(_) => quote!(::std::string::String::new()),
            })
            .collect()
    }

    /// Returns the function `launch`, or `record`.
    pub(super) fn launch(
        &self,
        library: &TokenStream,
        private: &TokenStream,
        records: bool,
    ) -> TokenStream {
        let (_, ty_generics, where_clause) = self.generics.split_for_impl();
        let turbofish = ty_generics.as_turbofish();
        let own = &self.generics.params;
        let lifetime = Lifetime::new("'phases", Span::mixed_site());
        let on = format_ident!("PhasesOn", span = Span::mixed_site());
        // A parameter of the kernel may have one of these names.
        let own_name = |name: &str| Ident::new(name, Span::mixed_site());
        let (to, kernel, extent, checked) =
            (own_name("target"), own_name("kernel"), own_name("extent"), own_name("checked"));
        let recorder = own_name("recorder");
        let target = match records {
            true => quote!(<#on as #library::target::Record>::Target),
            false => quote!(#on),
        };
        let mut memories = Vec::new();
        let (mut bounds, mut activates) = (Vec::new(), Vec::new());
        let (mut args, mut given, mut views, mut passed) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (at, param) in self.params.iter().enumerate() {
            let Param { name, kind, element, .. } = param;
            let memory = format_ident!("PhasesMemory{}", at, span = Span::mixed_site());
            if records && param.is_active_value() {
                let trait_ = quote!(#library::target::Activates<#lifetime, #element, #memory>);
                args.push(quote!(#name: #memory));
                given.push(quote!(let #name = <#on as #trait_>::activate(#name)?;));
                views.push(quote!(#name.value));
                passed.push(quote!(#name));
                activates.push(trait_);
                memories.push(memory);
                continue;
            }
            if *kind == Kind::Value {
                args.push(quote!(#name: #element));
                views.push(quote!(#name));
                passed.push(quote!(#library::target::Value(#name)));
                continue;
            }
            let (bound, function, wrapper) = match kind {
                Kind::Read => ("Reads", "read", "Read"),
                Kind::Write => ("Writes", "write", "Write"),
                Kind::Structure => ("Queries", "query", "Queried"),
                _ => ("Shares", "share", "Shared"),
            };
            let (bound, function, wrapper) =
                (format_ident!("{bound}"), format_ident!("{function}"), format_ident!("{wrapper}"));
            bounds.push(quote!(#library::target::#bound<#lifetime, #element, #memory>));
            args.push(quote!(#name: #memory));
            given.push(quote!(
                let #name = <#target as #library::target::#bound<#lifetime, #element, #memory>>::#function(#to, #name);
            ));
            views.push(match kind {
                Kind::Structure => quote!(()),
                _ => quote!(#private::Len::new(#library::target::Elements::len(&#name))),
            });
            passed.push(quote!(#library::target::#wrapper::<#target, #element>(#name)));
            memories.push(memory);
        }
        let predicates = where_clause.map(|clause| &clause.predicates);
        let (doc, function, first, targets, call) = match records {
            true => (
                quote! {
                    #[doc = "Launches the kernel and records the launch, for gradients."]
                    #[doc = "# Errors"]
                    #[doc = "The arguments do not fit the kernel's conditions, the launch fails, or the kernel has no correct"]
                    #[doc = "adjoint: then the error names the lines."]
                },
                quote!(record),
                quote!(#recorder: &mut #on),
                quote!(#on: #library::target::Record #(+ #activates)*, #target: #library::target::Target #(+ #bounds)*,),
                quote!(<#on as #library::target::Record>::record(#recorder, #kernel, #extent, (#(#passed,)*), #checked)),
            ),
            false => (
                quote! {
                    #[doc = "Launches the kernel on a target: a stream of a GPU, or the CPU."]
                    #[doc = "# Errors"]
                    #[doc = "The arguments do not fit the kernel's conditions, or the launch fails."]
                },
                quote!(launch),
                quote!(#to: #target),
                quote!(#on: #library::target::Target #(+ #bounds)*,),
                quote!(<#target as #library::target::Target>::launch(#to, #kernel, #extent, (#(#passed,)*), #checked)),
            ),
        };
        let target_of =
            records.then(|| quote!(let #to = #library::target::Record::target(#recorder);));
        quote! {
            #doc
            pub fn #function<#lifetime, #on, #(#memories,)* #own>(
                #first,
                #(#args),*
            ) -> ::core::result::Result<(), <#target as #library::target::Target>::Error>
            where
                #targets
                #predicates
            {
                #target_of
                #(#given)*
                let #kernel = Instance #turbofish ::KERNEL;
                let #extent = #private::host(#kernel, || Instance #turbofish ::phases_host(#(#views),*))?;
                if #library::kernel::Extent::count(&#extent) == ::core::option::Option::Some(0) {
                    return ::core::result::Result::Ok(());
                }
                // SAFETY: the types of the arguments are those of the parameters, and the conditions are checked.
                let #checked = unsafe { #library::trust::Checked::new() };
                #call
            }
        }
    }
}

impl Param {
    fn parse(arg: &FnArg, has_gradient: bool) -> Result<Self> {
        let FnArg::Typed(arg) = arg else {
            return refused(
                arg,
                "a kernel is no method",
                "write a function that takes the values that it uses",
            );
        };
        let Pat::Ident(pat) = &*arg.pat else {
            return refused(
                &arg.pat,
                "parameters of kernels are names",
                "take it apart by `let` in the body",
            );
        };
        crate::patterns::not_of_constants(&pat.ident, &pat.ident.to_string())?;
        let mut atomic = None;
        let (kind, element) = match &*arg.ty {
            Type::Reference(reference) => {
                let mutable = reference.mutability.is_some();
                if let Some(lifetime) = &reference.lifetime {
                    return refused(
                        lifetime,
                        "a kernel needs no lifetimes",
                        "write `&[T]` without a lifetime",
                    );
                }
                match (&*reference.elem, mutable) {
                    (Type::Slice(slice), false) => (Kind::Read, (*slice.elem).clone()),
                    (Type::Slice(slice), true) => (Kind::Write, (*slice.elem).clone()),
                    (ty, false) => match atomic_element(ty) {
                        Some((path, element)) => {
                            atomic = Some(path);
                            (Kind::Shared, element)
                        }
                        None if is_named(ty) => (Kind::Structure, ty.clone()),
                        None => {
                            return refused(
                                &arg.ty,
                                "a kernel takes no reference to one value",
                                "take the value itself, or a slice: `x: T` or `x: &[T]`",
                            );
                        }
                    },
                    _ => {
                        return refused(
                            &arg.ty,
                            "a kernel takes no `&mut` to one value",
                            "take `out: &mut [T]`, or `&Atomic<[T]>` for what all threads change",
                        );
                    }
                }
            }
            Type::Slice(_) => {
                return refused(
                    &arg.ty,
                    "a kernel takes slices by reference",
                    "write `&[T]` or `&mut [T]`",
                );
            }
            Type::ImplTrait(_) | Type::BareFn(_) | Type::TraitObject(_) => {
                return refused(
                    &arg.ty,
                    "a kernel takes no closures",
                    "call a `#[device]` function, or take a number and `match` on it",
                );
            }
            ty => (Kind::Value, ty.clone()),
        };
        let (name, mutable) = (pat.ident.clone(), pat.mutability.is_some());
        let marked = marker(&arg.attrs, kind, has_gradient)?;
        Ok(Self { name, mutable, kind, element, atomic, marked })
    }

    /// Returns whether it is a value that may have a gradient.
    fn is_active_value(&self) -> bool {
        self.kind == Kind::Value && self.marked == Some(true)
    }

    /// Returns the pattern of the parameter in rustc's copy.
    pub(super) fn pattern(&self) -> TokenStream {
        let name = &self.name;
        if self.mutable { quote!(mut #name) } else { quote!(#name) }
    }

    pub(super) fn rust_type(&self, library: &TokenStream) -> TokenStream {
        let element = &self.element;
        match self.kind {
            Kind::Value => quote!(#element),
            Kind::Read => quote!(&[#element]),
            Kind::Write => quote!(&mut [#element]),
            Kind::Shared => quote!(&#library::Atomic<[#element]>),
            Kind::Structure => quote!(&#element),
        }
    }

    /// Returns the description. `gradient`: of a kernel with gradients, and whether the length is the extent.
    pub(super) fn description(&self, library: &TokenStream, gradient: Option<bool>) -> TokenStream {
        let (name, element) = (self.name.to_string(), &self.element);
        if self.kind == Kind::Structure {
            let plain = quote!(#library::kernel::Param::structure::<#element>(#name));
            return match (gradient, self.marked) {
                (None, _) | (Some(_), Some(false)) => plain,
                (Some(_), marked) => {
                    let marked = marked.is_some();
                    quote!(#plain.active_sources(#marked))
                }
            };
        }
        let kind = format_ident!("{}", format!("{:?}", self.kind));
        let plain = quote!(#library::kernel::Param::new::<#element>(#name, #library::kernel::ParamKind::#kind));
        let active = match (gradient, self.marked) {
            (Some(_), Some(true)) => quote!(.active::<#element>(true)),
            (Some(_), None) if self.kind != Kind::Value => quote!(.active::<#element>(false)),
            _ => quote!(),
        };
        let whole = if gradient == Some(true) { quote!(.whole()) } else { quote!() };
        quote!(#plain #active #whole)
    }

    /// Returns the type of the argument in the code before the loop.
    pub(super) fn before(&self, private: &TokenStream) -> TokenStream {
        let element = &self.element;
        match self.kind {
            Kind::Value => quote!(#element),
            Kind::Structure => quote!(()),
            _ => quote!(#private::Len),
        }
    }

    /// Returns the argument as the code before the loop gets it.
    pub(super) fn host_view(&self, private: &TokenStream) -> TokenStream {
        let name = &self.name;
        match self.kind {
            Kind::Structure => quote!(()),
            _ => quote!(#private::HostView::view(&#name)),
        }
    }

    /// Returns the argument for this parameter from those of a type-erased call.
    pub(super) fn cpu_argument(&self, private: &TokenStream) -> TokenStream {
        let name = &self.name;
        match self.kind {
            Kind::Value => quote!(#private::value(#name)),
            Kind::Read => quote!(#private::read(#name)),
            Kind::Write => quote!(#private::write(#name)),
            Kind::Shared => quote!(#private::shared(#name)),
            Kind::Structure => quote!(#private::queried(#name)),
        }
    }
}

/// Returns whether a parameter is marked with `#[active]` (`true`) or `#[inactive]`.
fn marker(attrs: &[Attribute], kind: Kind, has_gradient: bool) -> Result<Option<bool>> {
    let mut marked = None;
    for attr in attrs {
        let active = attr.path().is_ident("active");
        if !active && !attr.path().is_ident("inactive") || !matches!(attr.meta, Meta::Path(_)) {
            return refused(
                &attr.path(),
                "parameters of kernels have no such attribute",
                "`#[active]` and `#[inactive]` say whether a parameter has a gradient",
            );
        }
        if !has_gradient {
            return refused(
                &attr.path(),
                "the kernel has no gradients",
                "write `#[kernel(gradient)]`, or leave the marker out",
            );
        }
        if marked.is_some() {
            return refused(&attr.path(), "the parameter is marked twice", "leave one marker");
        }
        if !active && kind == Kind::Value {
            return refused(
                &attr.path(),
                "a value has no gradient unless it is marked with `#[active]`",
                "leave out `#[inactive]`, which is for slices of floats",
            );
        }
        marked = Some(active);
    }
    Ok(marked)
}

/// Returns the path and the element of `Atomic<[T]>`.
fn atomic_element(ty: &Type) -> Option<(syn::Path, Type)> {
    let Type::Path(path) = ty else { return None };
    let mut name = path.path.clone();
    let last = name.segments.last_mut()?;
    if last.ident != "Atomic" {
        return None;
    }
    let arguments = std::mem::take(&mut last.arguments);
    let syn::PathArguments::AngleBracketed(args) = arguments else { return None };
    match args.args.first()? {
        syn::GenericArgument::Type(Type::Slice(slice)) => Some((name, (*slice.elem).clone())),
        _ => None,
    }
}
