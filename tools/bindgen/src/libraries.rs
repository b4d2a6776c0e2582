//! cuBLAS and cuFFT: a file for each, and one for the types that both take from the runtime's headers.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::Path;

use syn::Item;
use xtask::wheels::{CUBLAS, CUFFT};

use crate::clang::{self, Parsed};
use crate::emit::{self, Library};
use crate::headers::{Headers, LibraryHeaders};
use crate::{Failure, merge};

const SHARED: &str = "library_types.rs";
const FILES: [(&str, &str, &str); 3] = [
    (SHARED, "cublas_api.h", CUBLAS.version),
    ("cublas.rs", "cublas_api.h", CUBLAS.version),
    ("cufft.rs", "cufft.h", CUFFT.version),
];

/// The files' names and texts.
pub(crate) fn files(headers: &Headers) -> Result<Vec<(&'static str, String)>, Failure> {
    let library = LibraryHeaders::fetch()?;
    let in_c = headers.stubs.path().join("cublas_api.h");
    fs::write(&in_c, halves_in_c(&fs::read_to_string(&library.cublas)?)?)?;
    let mut cublas = clang::parse_library(&in_c, headers, &library.included)?;
    let mut cufft = clang::parse_library(&library.cufft, headers, &library.included)?;
    for (header, parsed, prefix) in
        [(&library.cublas, &cublas, "cublas"), (&library.cufft, &cufft, "cufft")]
    {
        complete(&fs::read_to_string(header)?, parsed, prefix)?;
    }
    let shared = take_shared(&mut cublas, &mut cufft)?;
    let uses = "use super::library_types::*;\nuse super::{codes, table};\n";
    let texts = [
        emit::types(
            &library.cublas,
            CUBLAS.version,
            "use core::mem::offset_of;\n\nuse super::zeroed;\n\npub use crate::CUstream as cudaStream_t;\n",
            shared,
        )?,
        emit::library(
            &cublas,
            &Library {
                header: &library.cublas,
                release: CUBLAS.version,
                uses,
                codes: "cublasStatus_t",
                names: ["CublasFns", "Cublas", "CUBLAS_SYMBOLS"],
            },
        )?,
        emit::library(
            &cufft,
            &Library {
                header: &library.cufft,
                release: CUFFT.version,
                uses,
                codes: "cufftResult",
                names: ["CufftFns", "Cufft", "CUFFT_SYMBOLS"],
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
        "not compared: cublas.rs, cufft.rs and {SHARED}, whose headers are in wheels of 606 MB; \
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

/// Takes out the items that are named for neither library. Both must have them alike, if both have them.
fn take_shared(cublas: &mut Parsed, cufft: &mut Parsed) -> Result<Vec<Item>, Failure> {
    let own = |item: &Item| {
        let named = name_of(item);
        let name = named.unwrap_or_default().to_ascii_lowercase();
        ["cublas", "cufft", "nvfft", "max_cufft", "max_shim"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    let mut shared: Vec<Item> = Vec::new();
    let mut names = HashSet::new();
    for parsed in [cublas, cufft] {
        let mut kept = Vec::new();
        for item in parsed.items.drain(..) {
            if own(&item) {
                kept.push(item);
            } else if !shared.contains(&item) {
                if let Some(name) = name_of(&item).filter(|_| !matches!(item, Item::Impl(_)))
                    && !names.insert((std::mem::discriminant(&item), name.clone()))
                {
                    return Err(
                        format!("{name} is one type for cuBLAS and another for cuFFT").into()
                    );
                }
                shared.push(item);
            }
        }
        parsed.items = kept;
    }
    Ok(shared)
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
    // Inline functions of C++, and a word of a comment.
    let known = [
        "cublasEx",
        "cublasMigrateComputeType",
        "cublasGemmEx",
        "cublasGemmBatchedEx",
        "cublasGemmStridedBatchedEx",
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
