//! `cargo xtask headers`: the list of the device headers that `geom_kernels::headers` returns.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use xtask::{Error, root};

use crate::checks::collect;
use crate::generated;

/// Below the workspace's root.
const FOLDER: &str = "geom-kernels/device";
const OUTPUT: &str = "geom-kernels/src/headers/generated.rs";

/// The line of a header that needs the feature `tape`.
const NEEDS_TAPE: &str = "#include <geom/tape.cuh>";

/// Writes the generated file, or compares it.
///
/// # Errors
/// A file could not be read or written.
pub(crate) fn headers(check: bool) -> Result<bool, Error> {
    let folder = root().join(FOLDER);
    let mut headers = Vec::new();
    collect(&folder.join("geom"), &mut headers)?;
    let headers = headers.iter().map(|path| header(&folder, path)).collect::<Result<_, _>>()?;
    generated::put(OUTPUT, &text(headers)?, check, "cargo xtask headers")
}

/// The name under which a header is included, and its text.
fn header(folder: &Path, path: &Path) -> Result<(String, String), Error> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok((path.strip_prefix(folder)?.to_string_lossy().replace('\\', "/"), text))
}

fn text(mut headers: Vec<(String, String)>) -> Result<String, Error> {
    headers.sort();
    // In two parts, so that this file does not claim to be generated.
    let mut text = format!(
        "//! {}rated by cargo xtask headers from {FOLDER}. Do not edit.\n\n\
         /// The headers, after those of the crates that this one depends on.\n\
         pub(super) const HEADERS: &[(&str, &str)] = &[\n    cuda_safe::arg::LAYOUT_HEADER,\n    \
         #[cfg(feature = \"tape\")]\n    tape::AD_HEADER,\n    #[cfg(feature = \"tape\")]\n    tape::HEADER,\n",
        "@gene"
    );
    for (name, header) in headers {
        if header.lines().any(|line| line == NEEDS_TAPE) {
            text.push_str("    #[cfg(feature = \"tape\")]\n");
        }
        writeln!(text, "    (\"{name}\", include_str!(\"../../device/{name}\")),")?;
    }
    text.push_str("];\n");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_listed_in_order_with_their_condition() -> Result<(), Error> {
        let header = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let text = text(vec![
            header("geom/mesh/adjoint.cuh", "#pragma once\n#include <geom/tape.cuh>\n"),
            header("geom/bvh.cuh", "// As #include <geom/tape.cuh> does.\n"),
        ])?;
        let listed = "    tape::HEADER,\n    \
            (\"geom/bvh.cuh\", include_str!(\"../../device/geom/bvh.cuh\")),\n    \
            #[cfg(feature = \"tape\")]\n    \
            (\"geom/mesh/adjoint.cuh\", include_str!(\"../../device/geom/mesh/adjoint.cuh\")),\n];\n";
        assert!(text.ends_with(listed), "{text}");
        Ok(())
    }
}
