//! `cargo xtask layouts`: the sizes and offsets of the types that host and device both declare.
//!
//! The table names each type in C++ and in Rust. The names of the fields are read from the Rust
//! declaration; the generated file leaves numbers to the compiler, and does not compile if a field is
//! missing in it. The test `geometry::layouts::are_those_of_the_device` compiles the list as assertions against the
//! headers, so a field that changes on one side fails there.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use xtask::{Error, root};

use crate::checks::collect;
use crate::generated;

/// Below the workspace's root.
const TABLE: &str = "tools/xtask/layouts.txt";
const SOURCES: &str = "geom-kernels/src";
const OUTPUT: &str = "geom-kernels/src/layout/generated.rs";

/// One type.
struct Row<'a> {
    header: &'a str,
    cpp: &'a str,
    rust: &'a str,
    /// Names of fields that differ: in C++ and in Rust. Of an array: names in C++ and indices.
    renamed: Vec<(&'a str, &'a str)>,
}

/// Writes the generated file, or compares it.
///
/// # Errors
/// A file could not be read, a line of the table is not a row, or a type is declared nowhere or twice.
pub(crate) fn layouts(check: bool) -> Result<bool, Error> {
    let table = generated::read(TABLE)?;
    let sources = sources(&root().join(SOURCES))?;
    let text = text(&table, &sources).map_err(|error| format!("{TABLE}:{error}"))?;
    generated::put(OUTPUT, &text, check, "cargo xtask layouts")
}

/// The Rust files below a folder: their paths in it, and their texts.
fn sources(folder: &Path) -> Result<Vec<(String, String)>, Error> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    files.sort();
    let mut sources = Vec::new();
    for path in files {
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.strip_prefix(folder)?.to_string_lossy().replace('\\', "/");
        sources.push((name, text));
    }
    Ok(sources)
}

/// The generated file. An error begins with the number of the table's line.
fn text(table: &str, sources: &[(String, String)]) -> Result<String, Error> {
    // In two parts, so that this file does not claim to be generated.
    let mut text = format!(
        "//! {}rated by cargo xtask layouts from {TABLE}. Do not edit.\n\n\
         use std::mem::offset_of;\n\nuse super::Layout;\n\npub(super) const LAYOUTS: &[Layout] = &[\n",
        "@gene"
    );
    let mut header = "";
    for (index, line) in table.lines().enumerate() {
        let at = |error: String| format!("{}: {error}", index + 1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some(row) = line.strip_prefix("    ") else {
            header = line;
            continue;
        };
        let row = row_of(header, row)
            .ok_or_else(|| at(format!("expected `C++ name = Rust type`, found `{row}`")))?;
        write_row(&mut text, &row, sources).map_err(|error| at(error.to_string()))?;
    }
    text.push_str("];\n");
    Ok(text)
}

/// `geom::Mesh = mesh::RawMesh`, and if names of fields differ, ` where cpp_name = rust_name, ...`.
fn row_of<'a>(header: &'a str, row: &'a str) -> Option<Row<'a>> {
    let (cpp, rest) = row.split_once(" = ")?;
    let (rust, names) = rest.split_once(" where ").unwrap_or((rest, ""));
    let renamed = names.split(", ").filter(|name| !name.is_empty());
    let renamed = renamed.map(|name| name.split_once(" = ")).collect::<Option<Vec<_>>>()?;
    (!header.is_empty()).then_some(Row { header, cpp, rust, renamed })
}

fn write_row(text: &mut String, row: &Row<'_>, sources: &[(String, String)]) -> Result<(), Error> {
    let Row { header, cpp, rust, renamed } = row;
    // Arrays and numbers have no fields.
    let is_struct =
        rust.rsplit("::").next().is_some_and(|name| name.starts_with(char::is_uppercase));
    let (path, fields) =
        if is_struct { ("crate::", fields(rust, sources)?) } else { ("", Vec::new()) };
    let elements = rust.strip_prefix('[').and_then(|rest| rest.rsplit_once("; "));
    for (_, name) in renamed {
        let exists =
            if elements.is_some() { name.parse::<u32>().is_ok() } else { fields.contains(name) };
        if !exists {
            return Err(format!("{rust} has no field `{name}`").into());
        }
    }
    writeln!(text, "    {{\n        type T = {path}{rust};")?;
    if is_struct {
        // A pattern must name all fields.
        writeln!(text, "        const _: fn(T) = |T {{ {}: _ }}| ();", fields.join(": _, "))?;
    }
    let offsets = fields.iter().map(|field| {
        let name = renamed.iter().find(|(_, rust)| rust == field).map_or(*field, |(cpp, _)| cpp);
        format!("(\"{name}\", offset_of!(T, {field}))")
    });
    let elements = elements.into_iter().flat_map(|(element, _)| {
        let offset = move |(name, index): &(&str, &str)| {
            format!("(\"{name}\", size_of::<[{element}; {index}]>())")
        };
        renamed.iter().map(offset)
    });
    let offsets = offsets.chain(elements).collect::<Vec<_>>().join(", ");
    writeln!(
        text,
        "        Layout {{ name: \"{cpp}\", header: \"{header}\", size: size_of::<T>(), \
         align: align_of::<T>(),\n            fields: &[{offsets}] }}\n    }},"
    )?;
    Ok(())
}

/// The fields of a structure: of the one with this name in the module that the path begins with.
fn fields<'a>(rust: &str, sources: &'a [(String, String)]) -> Result<Vec<&'a str>, Error> {
    let path = rust.split('<').next().unwrap_or(rust);
    let (module, name) = match path.split_once("::") {
        Some((module, rest)) => (module, rest.rsplit("::").next().unwrap_or(rest)),
        None => ("", path),
    };
    let in_module = |file: &str| {
        let below = file.strip_prefix(module).unwrap_or(" ");
        module.is_empty() || below.starts_with('/') || below == ".rs"
    };
    let bodies: Vec<&str> = sources
        .iter()
        .filter(|(file, _)| in_module(file))
        .flat_map(|(_, text)| bodies(text, name))
        .collect();
    let [body] = bodies.as_slice() else {
        return Err(format!("{} structures are called {rust}", bodies.len()).into());
    };
    Ok(body.lines().filter_map(field).collect())
}

/// Returns the text between the braces of each `struct NAME` of a file that rustfmt has formatted.
fn bodies<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!("struct {name}");
    let found = text.match_indices(&start).filter_map(|(at, start)| {
        let rest = &text[at + start.len()..];
        let declares = rest.starts_with(" {\n") || rest.starts_with('<');
        let (head, body) = rest.split_once("{\n")?;
        // An item without braces ends before the next item's.
        (declares && !head.contains([';', '('])).then_some(body.split_once("\n}")?.0)
    });
    found.collect()
}

/// The name of the field that a line declares.
fn field(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if line.starts_with("//") || line.starts_with('#') {
        return None;
    }
    line.split_once(": ")?.0.rsplit(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> Vec<(String, String)> {
        let mesh = "/// A mesh: of `geom::Mesh`.\n#[repr(C)]\npub struct RawMesh {\n    /// Its points: \
                    addresses.\n    pub(crate) points: u64,\n    pub length: u32,\n    unused: u32,\n}\n\n\
                    struct RawMeshes(u32);\n";
        let grid = "#[repr(C)]\npub(crate) struct Header<T> {\n    origin: [T; 3],\n}\n";
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        vec![file("grid.rs", grid), file("mesh/layout.rs", mesh), file("tree/mod.rs", grid)]
    }

    #[test]
    fn fields_are_those_of_the_structure_in_its_module() -> Result<(), Error> {
        let sources = given();
        assert_eq!(fields("mesh::layout::RawMesh", &sources)?, ["points", "length", "unused"]);
        assert_eq!(fields("grid::Header<f32>", &sources)?, ["origin"]);
        for unknown in ["Header<f32>", "mesh::Header", "mesh::RawMeshes", "grids::Header"] {
            assert!(fields(unknown, &sources).is_err(), "{unknown}");
        }
        Ok(())
    }

    #[test]
    fn a_table_becomes_layouts() -> Result<(), Error> {
        let table = "# Types\ngeom/mesh.cuh\n    geom::Mesh = mesh::layout::RawMesh where n = length\n\
                     \n    geom::vec3<float> = [f32; 3] where y = 1\n";
        let text = text(table, &given())?;
        for line in [
            "        type T = crate::mesh::layout::RawMesh;",
            "        const _: fn(T) = |T { points: _, length: _, unused: _ }| ();",
            "            fields: &[(\"points\", offset_of!(T, points)), (\"n\", offset_of!(T, length)), \
             (\"unused\", offset_of!(T, unused))] }",
            "        type T = [f32; 3];",
            "        Layout { name: \"geom::vec3<float>\", header: \"geom/mesh.cuh\", size: size_of::<T>(), \
             align: align_of::<T>(),",
            "            fields: &[(\"y\", size_of::<[f32; 1]>())] }",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        Ok(())
    }

    #[test]
    fn a_wrong_line_is_an_error_with_its_number() {
        for row in
            ["geom::Mesh", "a = mesh::RawMesh where y = x", "a = mesh::RawMesh where x", "a = No"]
        {
            let error = text(&format!("geom/mesh.cuh\n    {row}\n"), &given());
            assert!(error.is_err_and(|error| error.to_string().starts_with("2: ")), "{row}");
        }
        assert!(text("    a = [f32; 3]\n", &[]).is_err(), "no header");
    }
}
