//! The expansion of a kernel.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ItemFn;

use super::signature::{Param, Signature};
use super::{Translated, host, overflow_checks};
use crate::options::Options;

/// Puts the expansion together.
pub(super) fn assemble(
    function: &ItemFn,
    signature: &Signature,
    options: &Options,
    host: &TokenStream,
    translated: &Translated,
) -> TokenStream {
    let private = options.private();
    let library = &options.library;
    let (name, vis) = (&function.sig.ident, &function.vis);
    let attrs = &function.attrs;
    let text_name = name.to_string();
    let Signature { params, generics, .. } = signature;
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let turbofish = ty_generics.as_turbofish();
    let instance = quote!(Instance #turbofish);
    let names: Vec<_> = params.iter().map(|param| &param.name).collect();
    let patterns: Vec<_> = params.iter().map(Param::pattern).collect();
    let types: Vec<_> = params.iter().map(|param| param.rust_type(library)).collect();
    let whole = host::whole(function, signature);
    let described = params.iter().map(|param| {
        let gradient = options.gradient.as_ref();
        param.description(library, gradient.map(|_| whole.contains(&param.name.to_string())))
    });
    let from_cpu = params.iter().map(|param| param.cpu_argument(&private));
    let views: Vec<_> = params.iter().map(|param| param.host_view(&private)).collect();
    let Translated { statements, write, probes, host: before, named, carries } = translated;
    let lengths: Vec<_> = params.iter().map(|param| param.before(&private)).collect();
    let line = u32::try_from(signature.line).unwrap_or(0);
    let mut launch = signature.launch(library, &private, false);
    if options.gradient.is_some() {
        launch.extend(signature.launch(library, &private, true));
    }
    let phantom = signature.phantom();
    let instance_names = signature.instance_names(library);
    let checks = overflow_checks(&private);
    let pack = match &options.pack {
        Some(pack) => quote!(::core::option::Option::Some(&#pack)),
        None => quote!(::core::option::Option::None),
    };
    quote! {
        #(#attrs)*
        #vis fn #name #impl_generics (#(#names: #types),*) #where_clause {
            #name::phases_bare #turbofish (#(#names),*)
        }

        #[doc = "The kernel's launches."]
        #[allow(non_camel_case_types, dead_code, missing_debug_implementations)]
        #vis enum #name {}

        // An import of a name by the user comes before this one, and is used below.
        #[allow(unused_imports)]
        use #private::loops::*;

        const _: () = {
            #(#[allow(unused_imports)] use #named as _;)*
            #[allow(unused_imports)]
            use #private::{DefinedFloat as _, DefinedInt as _, DefinedSigned as _, DefinedUnsigned as _, Elementary as _, Int as _, Length as _, Number as _, Real as _};

            struct Instance #impl_generics (#phantom) #where_clause;

            impl #impl_generics Instance #ty_generics #where_clause {
                const KERNEL: &'static #library::kernel::Kernel = &#library::kernel::Kernel {
                    name: #text_name,
                    module: ::core::module_path!(),
                    file: ::core::file!(),
                    line: #line,
                    params: &[#(#described),*],
                    instance: Self::phases_instance,
                    write: Self::phases_write,
                    overflow_checks: Self::phases_checks,
                    cpu: Self::phases_cpu,
                    carries: #carries,
                    pack: #pack,
                    // SAFETY: the macro has translated the C++ from the function that rustc has checked. It reads and
                    // writes only what that function does.
                    trusted: unsafe { #library::trust::Trusted::new() },
                };

                fn phases_checks() -> bool {
                    #checks
                    phases_checks
                }

                fn phases_instance() -> ::std::string::String {
                    let names: &[::std::string::String] = &[#(#instance_names),*];
                    names.join(", ")
                }

                #[inline]
                #[allow(unused_mut, unused_variables, unused_braces, unused_parens, clippy::all, clippy::pedantic)]
                fn phases_body(
                    // What the host knows before a launch: with it, the function returns the extent alone. It is evaluated
                    // here, so that its values have the types that the loop gives them.
                    phases_lens: ::core::option::Option<(#(#lengths,)*)>,
                    phases_args: ::core::option::Option<(#(#types,)*)>,
                    phases_types: ::core::option::Option<&mut #private::Types>,
                ) -> #library::kernel::Extent {
                    #(let #probes = #private::Probe::new();)*
                    if let ::core::option::Option::Some((#(#patterns,)*)) = phases_lens {
                        #before
                        return #host;
                    }
                    if let ::core::option::Option::Some((#(#patterns,)*)) = phases_args {
                        #(#statements)*
                    }
                    if let ::core::option::Option::Some(phases_types) = phases_types {
                        #(phases_types.push(&#probes);)*
                    }
                    #private::NO_EXTENT
                }

                #[inline]
                #[allow(clippy::too_many_arguments)]
                fn phases_host(#(#names: #lengths),*) -> #library::kernel::Extent {
                    Self::phases_body(
                        ::core::option::Option::Some((#(#names,)*)),
                        ::core::option::Option::None,
                        ::core::option::Option::None,
                    )
                }

                #[allow(unused_variables, unused_mut)]
                fn phases_write(phases_text: &mut #library::text::Text) {
                    let phases_checks = Self::phases_checks();
                    let mut phases_types = #private::Types::new();
                    Self::phases_body(
                        ::core::option::Option::None,
                        ::core::option::Option::None,
                        ::core::option::Option::Some(&mut phases_types),
                    );
                    let text: ::std::string::String = { #write };
                    phases_text.push(&text);
                }

                fn phases_cpu(
                    args: &mut [#library::kernel::CpuArg<'_>],
                ) -> ::core::result::Result<(), #library::kernel::CpuError> {
                    #private::run(Self::KERNEL, || {
                        let [#(#names),*] = #private::args(args);
                        #(let #names: #types = #from_cpu;)*
                        Self::phases_host(#(#views),*);
                        Self::phases_body(
                            ::core::option::Option::None,
                            ::core::option::Option::Some((#(#names,)*)),
                            ::core::option::Option::None,
                        );
                    })
                }
            }

            #[allow(clippy::too_many_arguments)]
            impl #name {
                #[doc(hidden)]
                pub fn phases_bare #impl_generics (#(#names: #types),*) #where_clause {
                    let result = #private::run(#instance::KERNEL, || {
                        #instance::phases_host(#(#views),*);
                        #instance::phases_body(
                            ::core::option::Option::None,
                            ::core::option::Option::Some((#(#names,)*)),
                            ::core::option::Option::None,
                        );
                    });
                    if let ::core::result::Result::Err(error) = result {
                        #private::bare_failed(&error);
                    }
                }

                #[doc = "Runs the kernel on the CPU, on all threads of rayon's pool."]
                #[doc = "# Errors"]
                #[doc = "The arguments do not fit, or a check failed."]
                pub fn cpu #impl_generics (
                    #(#names: #types),*
                ) -> ::core::result::Result<(), #library::kernel::CpuError> #where_clause {
                    #private::run(#instance::KERNEL, || {
                        #instance::phases_host(#(#views),*);
                        #instance::phases_body(
                            ::core::option::Option::None,
                            ::core::option::Option::Some((#(#names,)*)),
                            ::core::option::Option::None,
                        );
                    })
                }

                #[doc = "Returns the description of the kernel."]
                #[must_use]
                pub fn kernel #impl_generics () -> &'static #library::kernel::Kernel #where_clause {
                    #instance::KERNEL
                }

                #[doc = "Returns the C++ of the kernel."]
                #[must_use]
                pub fn source #impl_generics () -> ::std::string::String #where_clause {
                    let mut text = #library::text::Text::new(0);
                    (#instance::KERNEL.write)(&mut text);
                    text.finish()
                }

                #launch
            }
        };
    }
}
