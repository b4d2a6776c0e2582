//! `cargo xtask attributes`: the methods of `cuda_safe::Device` for a device's attributes, from a table.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use xtask::Error;

use crate::generated;

/// Below the workspace's root.
const TABLE: &str = "tools/xtask/attributes.txt";
const OUTPUT: &str = "cuda-safe/src/device/attributes/generated.rs";

/// The most columns of a generated line of documentation.
const WIDTH: usize = 100;

/// The types that need no import.
const PLAIN: [&str; 4] = ["bool", "u32", "usize", "Option<u32>"];

/// One attribute.
#[derive(Debug)]
struct Row<'a> {
    constant: String,
    method: String,
    of: &'a str,
    doc: &'a str,
}

/// Writes the generated file, or compares it.
///
/// # Errors
/// The table could not be read, or one of its lines is not a row.
pub(crate) fn attributes(check: bool) -> Result<bool, Error> {
    let table = generated::read(TABLE)?;
    let text = text(&table).map_err(|error| format!("{TABLE}:{error}"))?;
    generated::put(OUTPUT, &text, check, "cargo xtask attributes")
}

/// The generated file of a table. An error begins with the number of the line.
fn text(table: &str) -> Result<String, Error> {
    let mut body = String::new();
    let mut types = BTreeSet::new();
    for (index, line) in table.lines().enumerate() {
        if let Some(section) = line.strip_prefix("## ") {
            let gap = if body.is_empty() { "" } else { "\n" };
            writeln!(body, "{gap}    // {section}.")?;
        } else if !line.is_empty() && !line.starts_with('#') {
            let row = row(line).ok_or_else(|| {
                format!("{}: expected `CONSTANT | type | documentation`, found `{line}`", index + 1)
            })?;
            if !PLAIN.contains(&row.of) {
                types.insert(row.of);
            }
            write_row(&mut body, &row)?;
        }
    }
    let imports =
        types.into_iter().fold(String::new(), |all, name| all + "use super::" + name + ";\n");
    // In two parts, so that this file does not claim to be generated.
    Ok(format!(
        "//! {}rated by cargo xtask attributes from {TABLE}. Do not edit.\n\n\
         {imports}use super::attributes;\nuse crate::device::Device;\n\n\
         attributes! {{\n{body}}}\n",
        "@gene",
    ))
}

fn row(line: &str) -> Option<Row<'_>> {
    let mut columns = line.splitn(3, " | ");
    let (name, of, doc) = (columns.next()?, columns.next()?, columns.next()?);
    let (constant, method) = match name.split_once('=') {
        Some((constant, method)) => (constant, method.to_owned()),
        None => (name, name.to_lowercase()),
    };
    let is_name =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let complete = !constant.is_empty() && !method.is_empty() && doc.ends_with('.');
    (complete && is_name(constant) && is_name(&method)).then(|| Row {
        constant: format!("CU_DEVICE_ATTRIBUTE_{constant}"),
        method,
        of,
        doc,
    })
}

fn write_row(body: &mut String, row: &Row<'_>) -> Result<(), Error> {
    let start = "    ///";
    let mut line = start.to_owned();
    for word in row.doc.split(' ') {
        if line.len() + 1 + word.len() > WIDTH {
            writeln!(body, "{line}")?;
            start.clone_into(&mut line);
        }
        line.push(' ');
        line.push_str(word);
    }
    let Row { constant, method, of, .. } = row;
    writeln!(body, "{line}\n    #[doc(alias = \"{constant}\")]\n    {method}: {of} = {constant};")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_becomes_a_documented_entry() -> Result<(), Error> {
        let long = "word ".repeat(20);
        let table = format!(
            "# A table\n\n## First\nWARP_SIZE | u32 | The threads in a warp.\n\
             ## Second\nPCI_BUS_ID=pci_bus_number | PciId | {long}end.\n"
        );
        let text = text(&table)?;
        assert!(text.contains("use super::PciId;\nuse super::attributes;\n"), "{text}");
        assert!(text.contains(
            "    // First.\n    /// The threads in a warp.\n\
             \x20   #[doc(alias = \"CU_DEVICE_ATTRIBUTE_WARP_SIZE\")]\n\
             \x20   warp_size: u32 = CU_DEVICE_ATTRIBUTE_WARP_SIZE;\n\n    // Second.\n"
        ));
        assert!(text.contains("    pci_bus_number: PciId = CU_DEVICE_ATTRIBUTE_PCI_BUS_ID;"));
        assert!(text.contains("    /// word word end.\n"), "{text}");
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        Ok(())
    }

    #[test]
    fn a_line_that_is_no_row_is_an_error_with_its_number() {
        for line in ["WARP_SIZE | u32", "WARP_SIZE", "WARP SIZE | u32 | A.", "WARP_SIZE | u32 | A"]
        {
            let error = text(&format!("# A table\n{line}\n")).map_err(|error| error.to_string());
            assert!(error.is_err_and(|error| error.starts_with("2: ") && error.contains(line)));
        }
    }
}
