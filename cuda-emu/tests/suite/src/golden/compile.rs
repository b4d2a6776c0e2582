//! Compiling the golden kernels: each variant in a process of its own, so that the text is the same
//! in every run.

use std::collections::HashSet;

use nvrtc::{Arch, Cache, Nvrtc, Options, Program};
use test_support::gzip;

use super::{GROUPS, Group, HEAD, PACKED, PRELUDE, group};
use test_harness::{
    Compiler, Failure, Outcome, TestResult, compilers, ensure, limited, spawn_self,
};

/// The first argument of a child: the library, the group and the variant follow.
pub(super) const CHILD: &str = "--golden-compile";

/// The versions whose output is checked in, and the architecture that each compiles for.
const VERSIONS: [((u32, u32), &str); 2] = [((12, 0), "compute_75"), ((13, 0), "compute_90")];

/// Writes the PTX of one variant to the standard output.
pub(super) fn child(arguments: impl Iterator<Item = String>) -> TestResult {
    let arguments: Vec<_> = arguments.collect();
    let [library, name, variant] = arguments.as_slice() else {
        return Err(Failure::new(format!("{CHILD} needs a library, a group and a variant")));
    };
    let arch = if variant.ends_with("75") { Arch::compute(7, 5) } else { Arch::compute(9, 0) };
    // SAFETY: the parent names NVIDIA's library.
    let nvrtc = unsafe { Nvrtc::at(library) }?;
    let image = Program::new(group(name)?.source)
        .name("golden.cu")
        .header("prelude.cuh", PRELUDE)
        .options(Options::new().fmad(false).debug(variant.starts_with("debug")))
        .cuda_headers(false)
        .library(&nvrtc)
        .cache(&Cache::off())
        .compile(arch)?;
    print!("{}", image.ptx.ok_or_else(|| Failure::new("no PTX"))?);
    Ok(())
}

/// The PTX of one variant.
fn compiled(compiler: &Compiler, group: &Group, variant: &str) -> Result<String, Failure> {
    let library = compiler.path()?.canonicalize()?;
    let mut command = spawn_self(&[CHILD])?;
    command.arg(library).args([group.name, variant]).current_dir("/");
    let Outcome { status, stdout, stderr } = limited(command)?;
    if !status.success() {
        return Err(Failure::new(format!("{}: {status}\n{stderr}", group.file(variant))));
    }
    Ok(without_debug_information(&stdout))
}

/// The code alone. Debug information would be half of the text, and name folders of this machine.
fn without_debug_information(ptx: &str) -> String {
    let ptx = ptx.trim_end_matches('\0');
    let targets: HashSet<_> =
        ptx.split_whitespace().filter_map(|word| word.strip_suffix(';')).collect();
    let is_code = |line: &&str| match line.trim() {
        "" => false,
        line if line.starts_with(".loc\t") || line.starts_with(".loc ") => false,
        // Labels that no branch names are the debug information's.
        line if line.starts_with("$L__tmp") => targets.contains(line.trim_end_matches(':')),
        _ => true,
    };
    // Files and sections come after all functions.
    let code = ptx.lines().take_while(|line| !is_of_debug_information(line));
    let mut text = String::new();
    for line in code.filter(is_code) {
        text.push_str(if line.starts_with(".target") {
            line.trim_end_matches(", debug")
        } else {
            line
        });
        text.push('\n');
    }
    text
}

fn is_of_debug_information(line: &str) -> bool {
    [".file", ".section"].iter().any(|word| line.trim_start().starts_with(word))
}

/// The architecture that this compiler's checked-in output is for, if there is any.
fn architecture(compiler: &Compiler) -> Option<&'static str> {
    let version = (compiler.version.major, compiler.version.minor);
    VERSIONS.iter().find(|(known, _)| *known == version).map(|(_, arch)| *arch)
}

/// Writes all variants to the file that is named.
pub(super) fn all(mut arguments: impl Iterator<Item = String>) -> TestResult {
    let file = arguments.next().ok_or_else(|| Failure::new("--golden-ptx needs a file"))?;
    let compilers = compilers().map_err(Failure::new)?;
    let mut texts = String::new();
    for group in GROUPS {
        for variant in group.variants {
            let of =
                |one: &&Compiler| architecture(one).is_some_and(|it| variant.name.ends_with(it));
            let compiler = compilers.iter().find(of);
            let text = group.file(variant.name);
            let compiler = compiler.ok_or_else(|| Failure::new(format!("no NVRTC for {text}")))?;
            texts += &format!("{HEAD}{text}\n{}", compiled(compiler, group, variant.name)?);
        }
    }
    // Another version of the compressor may pack the same text otherwise.
    if gzip::unpack(PACKED).ok().as_ref() != Some(&texts) {
        std::fs::write(&file, gzip::pack(&texts)?)
            .map_err(|error| Failure::new(format!("{file}: {error}")))?;
    }
    Ok(())
}

/// The checked-in PTX is what the compiler makes of the checked-in sources.
pub(super) fn ptx_is_of_its_source(compiler: &Compiler) -> TestResult {
    let Some(arch) = architecture(compiler) else {
        // Nothing of this version is checked in, but it must take the sources.
        return GROUPS
            .iter()
            .try_for_each(|group| compiled(compiler, group, "opt.compute_90").map(drop));
    };
    for group in GROUPS {
        for variant in group.variants.iter().filter(|one| one.name.ends_with(arch)) {
            let same = compiled(compiler, group, variant.name)? == variant.ptx()?;
            ensure!(same, "{}: run suite --golden-ptx", group.file(variant.name));
        }
    }
    Ok(())
}

/// No debug information, which would name folders.
pub(super) fn no_path_of_a_machine() -> TestResult {
    for group in GROUPS {
        for variant in group.variants {
            let found = variant.ptx()?.lines().any(is_of_debug_information);
            ensure!(!found, "{}", group.file(variant.name));
        }
    }
    Ok(())
}
