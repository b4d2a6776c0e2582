//! The symbols that an input of a linker defines for all others.
//!
//! nvJitLink 13.0 writes an error to the process's standard error output where two inputs define a symbol, keeps the first
//! definition and reports success. So definitions are compared before it is called.

use ptx::ir::{FunctionKind, Linkage};

/// Returns the names that PTX defines, neither as its own nor as weak; none if it cannot be read.
pub(crate) fn of_ptx(text: &[u8]) -> Vec<String> {
    let Some(module) = std::str::from_utf8(text).ok().and_then(|text| ptx::parse(text).ok()) else {
        return Vec::new();
    };
    let functions = module.functions.iter().filter(|function| {
        let exported = function.linkage == Linkage::Visible || function.kind == FunctionKind::Entry;
        function.body.is_some() && exported && function.linkage != Linkage::Weak
    });
    let functions = functions.map(|function| function.name.clone());
    let variables = module.globals.iter().filter(|variable| variable.linkage == Linkage::Visible);
    functions.chain(variables.map(|variable| variable.name.clone())).collect()
}

const SECTION_HEADER: usize = 64;
const SYMBOL: usize = 24;
const SHT_SYMTAB: u32 = 2;
const STB_GLOBAL: u8 = 1;

/// Returns the names of the global symbols that a cubin defines; none if it cannot be read.
pub(crate) fn of_cubin(bytes: &[u8]) -> Vec<String> {
    symbols(bytes).unwrap_or_default()
}

fn symbols(bytes: &[u8]) -> Option<Vec<String>> {
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let at = usize::try_from(wide(bytes, 40)?).ok()?;
    let count = usize::from(u16::from_le_bytes(field(bytes, 60)?));
    let section = |index: usize| {
        let start = at.checked_add(index.checked_mul(SECTION_HEADER)?)?;
        bytes.get(start..start.checked_add(SECTION_HEADER)?)
    };
    let contents = |header: &[u8]| {
        let start = usize::try_from(wide(header, 24)?).ok()?;
        let size = usize::try_from(wide(header, 32)?).ok()?;
        bytes.get(start..start.checked_add(size)?)
    };
    let mut found = Vec::new();
    for index in 0..count {
        let header = section(index)?;
        if word(header, 4)? != SHT_SYMTAB {
            continue;
        }
        let names = contents(section(usize::try_from(word(header, 40)?).ok()?)?)?;
        for symbol in contents(header)?.chunks_exact(SYMBOL) {
            let [info] = field(symbol, 4)?;
            let defined = u16::from_le_bytes(field(symbol, 6)?) != 0;
            if info >> 4 != STB_GLOBAL || !defined {
                continue;
            }
            let name = names.get(usize::try_from(word(symbol, 0)?).ok()?..)?;
            let end = name.iter().position(|&byte| byte == 0)?;
            found.push(String::from_utf8_lossy(name.get(..end)?).into_owned());
        }
    }
    Some(found)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    field(bytes, at).map(u32::from_le_bytes)
}

fn wide(bytes: &[u8], at: usize) -> Option<u64> {
    field(bytes, at).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{of_cubin, of_ptx};

    #[test]
    fn names_that_ptx_exports_are_found() {
        let text = b".version 8.0\n.target sm_75\n.address_size 64\n\
            .extern .func other;\n.visible .func f { ret; }\n.func own { ret; }\n.weak .func w { ret; }\n\
            .entry k() { ret; }\n.weak .entry t() { ret; }\n.visible .global .u32 x;\n.global .u32 y;\n\
            .extern .global .u32 z;";
        assert_eq!(of_ptx(text), ["f", "k", "x"]);
        assert!(of_ptx(b"nonsense").is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), elf: bool) {
            let mut bytes = bytes;
            if elf {
                bytes.splice(0..0, *b"\x7fELF\x02\x01");
            }
            let _ = of_cubin(&bytes);
        }
    }
}
