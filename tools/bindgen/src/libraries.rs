//! cuBLAS, cuBLASLt, cuFFT and cuRAND: a file for each, and one for the types that they take from the runtime's headers.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::Path;

use syn::Item;
use xtask::wheels::{CUBLAS, CUFFT, CURAND};

use crate::clang::{self, Parsed};
use crate::emit::{self, Library};
use crate::headers::{Headers, LibraryHeaders};
use crate::{Failure, merge};

const SHARED: &str = "library_types.rs";
const FILES: [(&str, &str, &str); 5] = [
    (SHARED, "cublas_api.h", CUBLAS.version),
    ("cublas.rs", "cublas_api.h", CUBLAS.version),
    ("cublaslt.rs", "cublasLt.h", CUBLAS.version),
    ("cufft.rs", "cufft.h", CUFFT.version),
    ("curand.rs", "curand.h", CURAND.version),
];

/// The files' names and texts.
pub(crate) fn files(headers: &Headers) -> Result<Vec<(&'static str, String)>, Failure> {
    let library = LibraryHeaders::fetch()?;
    let cublas_in_c = headers.stubs.path().join("cublas_api.h");
    fs::write(&cublas_in_c, halves_in_c(&fs::read_to_string(&library.cublas)?)?)?;
    let curand_in_c = headers.stubs.path().join("curand.h");
    fs::write(&curand_in_c, runtime_in_c(&fs::read_to_string(&library.curand)?)?)?;
    let parse = |header: &Path| clang::parse_library(header, headers, &library.included);
    let mut all = [
        parse(&cublas_in_c)?,
        parse(&library.cublaslt)?,
        parse(&library.cufft)?,
        parse(&curand_in_c)?,
    ];
    let sources = [&library.cublas, &library.cublaslt, &library.cufft, &library.curand];
    let prefixes = ["cublas", "cublasLt", "cufft", "curand"];
    for ((header, parsed), prefix) in sources.iter().zip(&all).zip(prefixes) {
        complete(&fs::read_to_string(header)?, parsed, prefix)?;
    }
    let shared = take_shared(&mut all)?;
    let [cublas, cublaslt, cufft, curand] = &mut all;
    take_imported(cublaslt, cublas)?;
    let uses = "use super::library_types::*;\nuse super::{codes, table};\n";
    let layouts = "use core::mem::offset_of;\n\n";
    let of_cublas = "use super::cublas::{cublasComputeType_t, cublasStatus_t};\nuse super::library_types::*;\n\
                     use super::{table, zeroed};\n";
    let texts = [
        emit::types(
            &library.cublas,
            CUBLAS.version,
            "use core::mem::offset_of;\n\nuse super::zeroed;\n\npub use crate::CUstream as cudaStream_t;\n",
            shared,
        )?,
        emit::library(
            cublas,
            &Library {
                header: &library.cublas,
                release: CUBLAS.version,
                uses,
                codes: Some("cublasStatus_t"),
                names: ["CublasFns", "Cublas", "CUBLAS_SYMBOLS"],
            },
        )?,
        emit::library(
            cublaslt,
            &Library {
                header: &library.cublaslt,
                release: CUBLAS.version,
                uses: &format!("{layouts}{of_cublas}"),
                codes: None,
                names: ["CublasLtFns", "CublasLt", "CUBLASLT_SYMBOLS"],
            },
        )?,
        emit::library(
            cufft,
            &Library {
                header: &library.cufft,
                release: CUFFT.version,
                uses,
                codes: Some("cufftResult"),
                names: ["CufftFns", "Cufft", "CUFFT_SYMBOLS"],
            },
        )?,
        emit::library(
            curand,
            &Library {
                header: &library.curand,
                release: CURAND.version,
                uses,
                codes: Some("curandStatus_t"),
                names: ["CurandFns", "Curand", "CURAND_SYMBOLS"],
            },
        )?,
    ];
    Ok(FILES.iter().map(|(name, ..)| *name).zip(texts).collect())
}

/// Fails if a file that is checked in names another header than the pinned one. Its contents are not compared.
pub(crate) fn are_of_the_pinned_release(folder: &Path) -> Result<(), Failure> {
    for (name, header, release) in FILES {
        let path = folder.join(name);
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let wanted = format!("from {header} {release} (");
        if !text.lines().next().is_some_and(|line| line.contains(&wanted)) {
            return Err(format!(
                "{} is not of {release}; run `cargo xtask bindgen --libraries`",
                path.display()
            )
            .into());
        }
    }
    println!(
        "not compared: cublas.rs, cublaslt.rs, cufft.rs, curand.rs and {SHARED}, whose headers are in wheels of 667 MB; \
         `cargo xtask bindgen --libraries --check` compares them"
    );
    Ok(())
}

/// Makes the functions of cuBLAS that take 16-bit floats visible in C. They are exported under their plain names, and the
/// header shows them to C++ alone, which has the types.
fn halves_in_c(header: &str) -> Result<String, Failure> {
    const INCLUDE: &str = "#include <library_types.h>\n";
    const ONLY: &str = "#if defined(__cplusplus)\n";
    let types = "typedef __half_raw __half;\ntypedef __nv_bfloat16_raw __nv_bfloat16;\n";
    let (before, after) = header.split_once(INCLUDE).ok_or("cublas_api.h has other includes")?;
    let mut text = format!("{before}{INCLUDE}{types}");
    let mut blocks = after.split(ONLY);
    text.push_str(blocks.next().unwrap_or_default());
    let mut shown = 0;
    for block in blocks {
        let inside = block.split("#endif").next().unwrap_or_default();
        let functions =
            inside.contains("cublasStatus_t CUBLASWINAPI") && !inside.contains("static");
        text.push_str(if functions { "#if 1\n" } else { ONLY });
        text.push_str(block);
        shown += usize::from(functions);
    }
    if shown == 0 {
        return Err("cublas_api.h shows functions of 16-bit floats in another way".into());
    }
    Ok(text)
}

/// Takes the runtime's types without its header for C++, which needs the standard headers of a host compiler.
fn runtime_in_c(header: &str) -> Result<String, Failure> {
    const INCLUDE: &str = "#include <cuda_runtime.h>\n";
    let (before, after) = header.split_once(INCLUDE).ok_or("curand.h has other includes")?;
    let types = "#include <cuda_runtime_api.h>\n#include <library_types.h>\n";
    Ok(format!("{before}{types}{after}"))
}

/// Takes out the items that are named for no library. All that have an item must have it alike.
fn take_shared(all: &mut [Parsed]) -> Result<Vec<Item>, Failure> {
    let own = |item: &Item| {
        let named = name_of(item);
        let name = named.unwrap_or_default().to_ascii_lowercase();
        ["cublas", "cufft", "curand", "nvfft", "max_cufft", "max_shim"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    let mut shared: Vec<Item> = Vec::new();
    let mut names = HashSet::new();
    for parsed in all {
        let mut kept = Vec::new();
        for item in parsed.items.drain(..) {
            if own(&item) {
                kept.push(item);
            } else if !shared.contains(&item) {
                if let Some(name) = name_of(&item).filter(|_| !matches!(item, Item::Impl(_)))
                    && !names.insert((std::mem::discriminant(&item), name.clone()))
                {
                    return Err(format!(
                        "{name} is one type for a library and another for the next"
                    )
                    .into());
                }
                shared.push(item);
            }
        }
        parsed.items = kept;
    }
    Ok(shared)
}

/// Takes out the items of cuBLASLt that are cuBLAS's, which its file imports.
fn take_imported(cublaslt: &mut Parsed, cublas: &Parsed) -> Result<(), Failure> {
    let own = |name: &str| name.to_ascii_lowercase().starts_with("cublaslt");
    for item in &cublaslt.items {
        let name = name_of(item).unwrap_or_default();
        if !own(&name) && !cublas.items.contains(item) {
            return Err(format!("{name} is one type for cuBLASLt and another for cuBLAS").into());
        }
    }
    cublaslt.items.retain(|item| name_of(item).is_some_and(|name| own(&name)));
    Ok(())
}

/// The name of an item: the name that it defines, or the type that it is about.
fn name_of(item: &Item) -> Option<String> {
    match item {
        Item::Const(constant) if constant.ident != "_" => Some(constant.ident.to_string()),
        Item::Use(alias) => emit::renamed(alias).map(|(_, alias)| alias.to_string()),
        other => merge::subject(other),
    }
}

/// Fails unless each function whose declaration stands in the header's text was found: bindgen passes over what it
/// cannot express.
fn complete(header: &str, parsed: &Parsed, prefix: &str) -> Result<(), Failure> {
    let words = header.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '(');
    let called: BTreeSet<&str> = words
        .filter_map(|word| word.split_once('(').map(|(name, _)| name))
        .filter(|name| name.starts_with(prefix))
        .collect();
    // Inline functions, and words of comments.
    let known = [
        "cublasEx",
        "cublasMigrateComputeType",
        "cublasGemmEx",
        "cublasGemmBatchedEx",
        "cublasGemmStridedBatchedEx",
        "cublasLtMatrixLayoutInit",
        "cublasLtGroupedMatrixLayoutInit",
        "cublasLtMatmulDescInit",
        "cublasLtMatrixTransformDescInit",
        "cublasLtEmulationDescInit",
        "cublasLtMatmulPreferenceInit",
        "cublasLtMatmulPreference",
    ];
    let missing: Vec<_> = called
        .iter()
        .filter(|name| !parsed.functions.contains_key(**name) && !known.contains(name))
        .collect();
    if parsed.functions.is_empty() || !missing.is_empty() {
        return Err(format!("declared, and not found: {missing:?}").into());
    }
    Ok(())
}
