//! One file of kernels, from CUDA C++ to the text that is checked in.

use std::fs;

use nvrtc::{Arch, Cache, Nvrtc, Program};

use crate::Failure;

/// The target of compiles: every GPU from Turing on.
const ARCH: Arch = Arch::compute(7, 5);

/// The directives that a text must begin with: the driver of CUDA 12.0 reads PTX up to 8.0.
const VERSION: &str = ".version 8.0";

/// Variables by which NVRTC takes options that would make the text another.
pub(crate) const VARIABLES: [&str; 2] = ["NVRTC_APPEND_FLAGS", "NVRTC_PREPEND_FLAGS"];

/// The head of every text. In two parts, so that this file does not claim to be generated.
const MARK: &str = concat!("// @gene", "rated by `cargo xtask ptx` from device/kernels/");

/// Before the name of a module in a file that has several.
const DEFINED: &str = "MODULE_";

/// The modules of a file's text: those whose definitions it tests, or else one with the file's name.
pub(crate) fn modules(file: &str, source: &str) -> Vec<String> {
    let tested =
        source.lines().filter(|line| line.starts_with("#if ") || line.starts_with("#elif "));
    let names =
        tested.filter_map(|line| line.split_once(&format!("defined({DEFINED}"))?.1.split_once(')'));
    let names: Vec<String> = names.map(|(name, _)| name.to_owned()).collect();
    if names.is_empty() { vec![file.to_owned()] } else { names }
}

/// The text for module `name` of `kernels/<file>.cu` below the current folder, a relative path: so no path of a
/// machine comes into it.
pub(crate) fn one(
    library: &str,
    file: &str,
    name: &str,
    headers: &[&str],
) -> Result<String, Failure> {
    let path = format!("kernels/{file}.cu");
    // Names of internal linkage have the program's name in them.
    let module = format!("kernels/{name}.cu");
    let mut source = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    if name != file {
        source.insert_str(0, &format!("#define {DEFINED}{name}\n"));
    }
    // SAFETY: the caller names NVIDIA's library, which xtask has fetched by its hash.
    let nvrtc = unsafe { Nvrtc::at(library) }?;
    let program = headers
        .iter()
        .fold(Program::new(source).name(module), |program, folder| program.include_path(folder));
    let image = program.cuda_headers(false).library(&nvrtc).cache(&Cache::off()).compile(ARCH)?;
    let log = image.log.trim_end_matches('\0').trim();
    if !log.is_empty() {
        return Err(log.into());
    }
    finished(file, &image.ptx.ok_or("the compiler gave no PTX")?)
}

/// The compiler's text with our mark at its head, one line end at its foot, and without the constants
/// of `<nv/target>`, which NVRTC puts into every program: they are half of a small text, and where a
/// program has no kernel, their names have the process's number in them. Nothing here uses them; if
/// something did, reading the text again would find a name that is not declared.
fn finished(file: &str, ptx: &str) -> Result<String, Failure> {
    if !ptx.lines().any(|line| line == VERSION) {
        return Err(format!("the compiler did not write PTX of {VERSION}").into());
    }
    let mut text = format!("{MARK}{file}.cu. Do not edit.\n");
    let unused = |line: &&str| line.starts_with(".global") && line.contains("2nv6target");
    for line in ptx.trim_end_matches(['\0', '\n']).lines().filter(|line| !unused(line)) {
        text.push_str(line);
        text.push('\n');
    }
    // Blank lines that stood before what was left out.
    text.truncate(text.trim_end().len() + 1);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "//\n// by NVRTC\n//\n\n.version 8.0\n.target sm_75\n.address_size 64\n\n\
        .global .align 8 .u64 _ZN9_INTERNAL2nv6target5sm_90E = 90;\n\0";

    #[test]
    fn a_text_is_marked_and_still_ptx() -> Result<(), Failure> {
        let text = finished("sort", EMPTY)?;
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("// @") && first.contains("device/kernels/sort.cu"), "{first}");
        assert!(text.ends_with(".address_size 64\n"), "{text:?}");
        assert_eq!(ptx::parse(&text)?.version, (8, 0));
        Ok(())
    }

    #[test]
    fn a_file_has_one_module_or_those_that_it_names() {
        assert_eq!(modules("scan", "// defined(MODULE_x)\nGEOM_SCAN()\n"), ["scan"]);
        let source = "#if defined(MODULE_a_f32) // one\nA()\n#elif defined(MODULE_a_f64)\nB()\n#else\n#endif\n";
        assert_eq!(modules("a", source), ["a_f32", "a_f64"]);
    }

    #[test]
    fn a_text_for_newer_drivers_is_refused() {
        assert!(finished("sort", &EMPTY.replace("8.0", "9.0")).is_err());
    }
}
