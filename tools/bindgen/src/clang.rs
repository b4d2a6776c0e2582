//! Runs bindgen over one header and sorts its items: functions, type aliases, everything else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bindgen::{EnumVariation, Formatter, RustEdition, RustTarget};
use quote::ToTokens;
use syn::{ForeignItem, Item};

use crate::Failure;
use crate::headers::Headers;

/// How cuda.h is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As a user's program sees it: plain names are macros for the newest ABI.
    Current,
    /// With `__CUDA_API_VERSION_INTERNAL`: the older ABIs are declared under their own names.
    Internal,
}

/// The output of bindgen for a header.
pub(crate) struct Parsed {
    /// By exported name.
    pub(crate) functions: BTreeMap<String, syn::ForeignItemFn>,
    /// Types, constants and layout asserts, in the header's order.
    pub(crate) items: Vec<Item>,
}

/// Parses `header`.
pub(crate) fn parse(header: &Path, headers: &Headers, mode: Mode) -> Result<Parsed, Failure> {
    let mut builder = builder(header, headers)?;
    if mode == Mode::Internal {
        builder = builder
            .clang_arg("-D__CUDA_API_VERSION_INTERNAL")
            // Without this the enums of attributes differ from what users of the header see.
            .clang_arg("-D__CUDA_API_VERSION_INTERNAL_ODR");
    }
    generate(builder)
}

/// Parses the header of a library, which includes headers in other folders. Streams have the driver's type.
pub(crate) fn parse_library(
    header: &Path,
    headers: &Headers,
    included: &[PathBuf],
) -> Result<Parsed, Failure> {
    let mut builder = builder(header, headers)?
        .blocklist_type("CUstream_st|cudaStream_t")
        // clang compiles each header as a main file, and `cublasLt.h` has the pragma.
        .clang_arg("-Wno-pragma-once-outside-header");
    for folder in included {
        builder = builder.clang_arg(format!("-I{}", path(folder)?));
    }
    generate(builder)
}

/// The types of the driver that the runtime's header declares again, under the driver's names.
const OF_THE_DRIVER: &str = "CU(stream|event|graph|graphNode|graphExec|graphDeviceUpdatableNode|userObject|func|kern|lib|\
                             memPoolHandle|uuid|logIterator_?|devResourceDesc)_st";

/// Parses a header of the runtime, which includes headers in other folders. Handles have the driver's types. `only` limits
/// the result to one type.
pub(crate) fn parse_runtime(
    header: &Path,
    headers: &Headers,
    included: &[PathBuf],
    only: Option<&str>,
) -> Result<Parsed, Failure> {
    let mut builder = builder(header, headers)?.blocklist_type(OF_THE_DRIVER);
    for folder in included {
        builder = builder.clang_arg(format!("-I{}", path(folder)?));
    }
    if let Some(only) = only {
        builder = builder.allowlist_type(only);
    }
    generate(builder)
}

fn builder(header: &Path, headers: &Headers) -> Result<bindgen::Builder, Failure> {
    let file_name = header.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let folder = header.parent().unwrap_or(Path::new("."));
    Ok(bindgen::Builder::default()
        .header(path(header)?)
        .clang_args(["-x", "c", "-std=c11", "-nostdinc", "--target=x86_64-unknown-linux-gnu"])
        .clang_args(["-isystem".to_owned(), path(headers.stubs.path())?])
        .clang_arg(format!("-I{}", path(folder)?))
        // bindgen would otherwise ask the machine's clang, if there is one, for its folders.
        .detect_include_paths(false)
        .allowlist_file(format!(".*[/\\\\]{}", file_name.replace('.', "\\.")))
        .rust_target(RustTarget::stable(85, 0).map_err(|_| "bindgen knows no Rust 1.85")?)
        .rust_edition(RustEdition::Edition2024)
        .formatter(Formatter::None)
        .generate_comments(false)
        .use_core()
        .layout_tests(true)
        .derive_debug(true)
        .default_enum_style(EnumVariation::NewType { is_bitfield: false, is_global: false })
        .disable_header_comment())
}

fn generate(builder: bindgen::Builder) -> Result<Parsed, Failure> {
    let text = builder.generate()?.to_string();
    sort(syn::parse_file(&text)?)
}

/// Takes the functions out of their `extern` blocks.
fn sort(file: syn::File) -> Result<Parsed, Failure> {
    let mut functions = BTreeMap::new();
    let mut items = Vec::new();
    for item in file.items {
        let Item::ForeignMod(block) = item else {
            items.push(item);
            continue;
        };
        for foreign in block.items {
            match foreign {
                ForeignItem::Fn(function) => {
                    functions.insert(function.sig.ident.to_string(), function);
                }
                other => return Err(format!("not a function: {}", other.to_token_stream()).into()),
            }
        }
    }
    Ok(Parsed { functions, items })
}

fn path(path: &Path) -> Result<String, Failure> {
    Ok(path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()))?.to_owned())
}
