//! The arguments of the attributes.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Ident, Path, Token};

use crate::refuse::refused;

/// The options of `#[kernel(…)]` and `#[device(…)]`.
#[derive(Clone)]
pub(crate) struct Options {
    /// The path of the library.
    pub(crate) library: TokenStream,
    /// Whether `a * b + c` is one operation.
    pub(crate) contract: bool,
    /// Whether operators take references, too.
    pub(crate) references: bool,
    /// Whether the methods are a structure's, whose C++ a library has written.
    pub(crate) structure: bool,
    /// The number of an `impl` block of a type that has several.
    pub(crate) slot: u32,
    /// The static that embeds images of the kernel.
    pub(crate) pack: Option<Path>,
    /// Where `gradient` stands, if the kernel has gradients.
    pub(crate) gradient: Option<Ident>,
}

impl Options {
    pub(crate) fn parse(args: TokenStream, library: TokenStream) -> syn::Result<Self> {
        let mut options = Self {
            library,
            contract: false,
            references: false,
            structure: false,
            slot: 0,
            pack: None,
            gradient: None,
        };
        options.take(syn::parse2::<Args>(args)?)?;
        Ok(options)
    }

    /// Refuses `references` on anything but an operator.
    pub(crate) fn no_references(&self, item: &syn::Item) -> syn::Result<()> {
        if self.references {
            return refused(
                item,
                "`references` is for operators",
                "write `#[device(references)]` before `impl Add for Vec3`",
            );
        }
        Ok(())
    }

    /// Refuses `gradient` on what is no kernel.
    pub(crate) fn no_gradient(&self) -> syn::Result<()> {
        match &self.gradient {
            Some(gradient) => refused(
                gradient,
                "`gradient` is for kernels",
                "leave it out: device functions are differentiated with the kernels that call them",
            ),
            None => Ok(()),
        }
    }

    fn take(&mut self, args: Args) -> syn::Result<()> {
        for arg in args.0 {
            match arg {
                Arg::Contract => self.contract = true,
                Arg::References => self.references = true,
                Arg::Structure => self.structure = true,
                Arg::Slot(slot) => self.slot = slot,
                Arg::Gradient(name) => self.gradient = Some(name),
                Arg::Pack(path) => self.pack = Some(path),
                Arg::Crate(path) => self.library = quote!(#path),
            }
        }
        Ok(())
    }

    /// Returns the path of the items that expansions use.
    pub(crate) fn private(&self) -> TokenStream {
        let library = &self.library;
        quote!(#library::__private)
    }
}

struct Args(Vec<Arg>);

enum Arg {
    Contract,
    References,
    Structure,
    Gradient(Ident),
    Slot(u32),
    Pack(Path),
    Crate(Path),
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut args = Vec::new();
        while !input.is_empty() {
            if input.peek(Token![crate]) {
                input.parse::<Token![crate]>()?;
                input.parse::<Token![=]>()?;
                args.push(Arg::Crate(input.call(Path::parse_mod_style)?));
            } else {
                let name: Ident = input.parse()?;
                match name.to_string().as_str() {
                    "contract" => args.push(Arg::Contract),
                    "gradient" => args.push(Arg::Gradient(name)),
                    "references" => args.push(Arg::References),
                    "structure" => args.push(Arg::Structure),
                    "slot" => {
                        input.parse::<Token![=]>()?;
                        args.push(Arg::Slot(input.parse::<syn::LitInt>()?.base10_parse()?));
                    }
                    "pack" => {
                        input.parse::<Token![=]>()?;
                        if let Ok(path) = input.parse::<syn::LitStr>() {
                            return refused(
                                &path,
                                "the pack is a static, which kernels share",
                                "write `static PACK: EmbeddedPack = embed_pack!(…);` and `pack = PACK`",
                            );
                        }
                        args.push(Arg::Pack(input.call(Path::parse_mod_style)?));
                    }
                    _ => {
                        return refused(
                            &name,
                            "this attribute has no such argument",
                            "the arguments are `contract`, `gradient`, `references`, `pack = STATIC`, `slot = NUMBER` and `crate = PATH`",
                        );
                    }
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(Self(args))
    }
}
