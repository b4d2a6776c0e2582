//! The arguments of the attributes.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Ident, LitInt, Path, Token};

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
    /// How many blocks a multiprocessor has room for: the compiler keeps to the registers that this leaves.
    pub(crate) min_blocks: Option<LitInt>,
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
            min_blocks: None,
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

    /// Refuses `gradient` and `min_blocks` on what is no kernel.
    pub(crate) fn no_kernel(&self) -> syn::Result<()> {
        match (&self.gradient, &self.min_blocks) {
            (Some(gradient), _) => refused(
                gradient,
                "`gradient` is for kernels",
                "leave it out: device functions are differentiated with the kernels that call them",
            ),
            (_, Some(blocks)) => refused(
                blocks,
                "`min_blocks` is for kernels",
                "leave it out: device functions are compiled into the kernels that call them",
            ),
            _ => Ok(()),
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
                Arg::MinBlocks(number) => self.min_blocks = Some(number),
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
    MinBlocks(LitInt),
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
                    "min_blocks" => {
                        input.parse::<Token![=]>()?;
                        let number: LitInt = input.parse()?;
                        if !(1..=32).contains(&number.base10_parse::<u32>()?) {
                            return refused(
                                &number,
                                "a multiprocessor has at most 32 blocks",
                                "write a number from 1 to 32: `min_blocks = 4`",
                            );
                        }
                        args.push(Arg::MinBlocks(number));
                    }
                    "slot" => {
                        input.parse::<Token![=]>()?;
                        args.push(Arg::Slot(input.parse::<LitInt>()?.base10_parse()?));
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
                            "the arguments are `contract`, `gradient`, `min_blocks = NUMBER`, `references`, `pack = STATIC`, `slot = NUMBER` and `crate = PATH`",
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
