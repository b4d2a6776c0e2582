//! The runtime API: the types and signatures of CUDA 13, and the struct whose layout CUDA 12 had otherwise.

use std::path::PathBuf;

use syn::Item;
use xtask::wheels::{self, CRT_13, RUNTIME_12_9, RUNTIME_13_5};

use crate::Failure;
use crate::clang;
use crate::emit::{self, Library};
use crate::headers::{CUDA_RELEASE, Headers};

/// The files' names, relative to the driver's bindings, and their texts.
pub(crate) fn files(headers: &Headers) -> Result<Vec<(&'static str, String)>, Failure> {
    let newest = wheels::fetch(&RUNTIME_13_5)?.join(RUNTIME_13_5.content);
    let crt = wheels::fetch(&CRT_13)?.join(CRT_13.content);
    let header = newest.join("cuda_runtime_api.h");
    let parsed = clang::parse_runtime(&header, headers, &[newest.clone(), crt.clone()], None)?;
    let uses = "use core::mem::offset_of;\n\nuse cuda_sys::*;\n";
    let names = ["RuntimeFns", "Runtime", "RUNTIME_SYMBOLS"];
    let library =
        Library { header: &header, release: CUDA_RELEASE, uses, codes: Some("cudaError_t"), names };
    let runtime = emit::library(&parsed, &library)?;
    Ok(vec![
        ("../../../cudart/src/bindings/runtime.rs", runtime),
        ("../../../cudart/src/bindings/runtime_12.rs", properties_of_12(headers, crt)?),
    ])
}

/// The text of `runtime_12.rs`.
///
/// The wheel of 12.9 lacks the compiler's headers; those of 13 define the same macros.
fn properties_of_12(headers: &Headers, crt: PathBuf) -> Result<String, Failure> {
    let folder = wheels::fetch(&RUNTIME_12_9)?.join(RUNTIME_12_9.content);
    let header = folder.join("driver_types.h");
    let parsed = clang::parse_runtime(&header, headers, &[folder, crt], Some("cudaDeviceProp"))?;
    let of_the_struct = |item: &Item| match item {
        Item::Struct(item) => item.ident == "cudaDeviceProp",
        Item::Const(item) => item.ident == "_",
        _ => false,
    };
    let mut items: Vec<Item> = parsed.items.into_iter().filter(of_the_struct).collect();
    // The asserts of one type: bindgen writes them after it.
    let at = items.iter().position(|item| matches!(item, Item::Struct(_)));
    let at = at.ok_or("driver_types.h has no cudaDeviceProp")?;
    let items = items.drain(at..).take(2).collect();
    emit::types(
        &header,
        RUNTIME_12_9.version,
        "use core::mem::offset_of;\n\nuse super::runtime::cudaUUID_t;\n",
        items,
    )
}
