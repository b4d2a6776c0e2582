//! Programs that must not compile, and libraries for attacks on the search for libraries.
//!
//! `rustc` is called directly, against the crates that cargo has built for this test program: a call takes
//! a fraction of a second. Each program must compile when its marked lines are taken out.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use super::{Failure, Must, Outcome, TestResult, ensure, limited_to};

/// How a line ends that must be refused.
const MARK: &str = "//~ refused";

/// Seconds that a call of the compiler may take.
const LIMIT: u64 = 60;

/// The crates that a program may name.
const CRATES: [&str; 7] =
    ["bytemuck", "cuda_nccl", "cuda_safe", "geom_kernels", "nanovdb", "nvrtc", "tape"];

/// Checks that a program does not compile, and that it does without its marked lines.
pub(crate) fn refused(file: &Path, must: &Must) -> TestResult {
    let Must::NotCompile { code, text } = must else {
        return Err(Failure::new("not a program that must not compile"));
    };
    let source = fs::read_to_string(file)?;
    let (mut marked, mut without) = (0, String::new());
    for line in source.lines() {
        let is_marked = line.trim_end().ends_with(MARK);
        marked += usize::from(is_marked);
        // An empty line, so that the numbers of the others stay.
        let _ = writeln!(without, "{}", if is_marked { "" } else { line });
    }
    ensure!(marked > 0, "{} marks no line with `{MARK}`", file.display());

    let errors = compile(&source)?;
    ensure!(!errors.is_empty(), "it compiles, and must not");
    let shown = || errors.iter().map(|error| error.shown.as_str()).collect::<String>();
    for error in &errors {
        ensure!(error.code == *code, "an error has another code than {code}\n{}", shown());
    }
    ensure!(errors.iter().any(|error| error.shown.contains(text)), "no `{text}` in\n{}", shown());
    let errors = compile(&without)?;
    let shown = errors.iter().map(|error| error.shown.as_str()).collect::<String>();
    ensure!(errors.is_empty(), "it must compile without the marked lines\n{shown}");
    Ok(())
}

struct CompileError {
    /// `none` for errors without a code, such as those of macros.
    code: String,
    /// As the compiler prints it.
    shown: String,
}

/// The errors of a program.
fn compile(source: &str) -> Result<Vec<CompileError>, Failure> {
    static FOUND: OnceLock<Result<Library, String>> = OnceLock::new();
    let library = FOUND.get_or_init(|| Library::find().map_err(|failure| failure.to_string()));
    let library = library.as_ref().map_err(|text| Failure::new(text.clone()))?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("program.rs");
    fs::write(&file, source)?;
    let mut command = rustc();
    command.args(["--crate-name", "program", "--crate-type", "lib", "--emit", "metadata"]);
    command.args(["--error-format", "json", "-Awarnings"]);
    library.name_to(&mut command);
    for name in CRATES {
        let mut external = std::ffi::OsString::from(format!("{name}="));
        external.push(library.folder.path().join(format!("lib{name}.rmeta")));
        command.arg("--extern").arg(external);
    }
    command.arg("--out-dir").arg(folder.path()).arg(&file);
    let Outcome { status, stderr, .. } = limited_to(command, LIMIT)?;
    let mut errors = Vec::new();
    for line in stderr.lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let shown = message["rendered"].as_str().unwrap_or_default().to_owned();
        // The last line only counts the others.
        if message["level"] != "error" || shown.contains("aborting due to") {
            continue;
        }
        let code = message["code"]["code"].as_str().unwrap_or("none").to_owned();
        errors.push(CompileError { code, shown });
    }
    ensure!(status.success() == errors.is_empty(), "rustc ended with {status}\n{stderr}");
    Ok(errors)
}

/// The compiler that cargo uses.
fn rustc() -> Command {
    let beside =
        std::env::var_os("CARGO").map(|cargo| PathBuf::from(cargo).with_file_name("rustc"));
    let program = beside.filter(|rustc| rustc.is_file()).unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(program);
    command.args(["--edition", "2024"]);
    command
}

/// The crates under attack, as they were built for this test program.
struct Library {
    /// The library of this package.
    file: PathBuf,
    /// Crates under their own names that re-export those of the library.
    folder: tempfile::TempDir,
}

impl Library {
    fn find() -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let folder = program.parent().ok_or_else(|| Failure::new("the program has no folder"))?;
        let linked = fs::metadata(&program)?.modified()?;
        let mut newest: Option<(SystemTime, PathBuf)> = None;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if !(name.starts_with("libattacks-") && name.ends_with(".rlib")) {
                continue;
            }
            // Of several, for other features: the newest that is older than the program is as new as what it
            // was linked with, or newer, and of the same sources.
            let built = entry.metadata()?.modified()?;
            if built <= linked && newest.as_ref().is_none_or(|(other, _)| *other < built) {
                newest = Some((built, entry.path()));
            }
        }
        let (_, file) = newest.ok_or_else(|| {
            Failure::new(format!("{} has no library of this package", folder.display()))
        })?;
        let library = Self { file, folder: tempfile::tempdir()? };
        for name in CRATES {
            library.re_export(name)?;
        }
        Ok(library)
    }

    /// Makes a crate of this name, which programs and macros can name as `::name`.
    fn re_export(&self, name: &str) -> TestResult {
        let source = self.folder.path().join(format!("{name}.rs"));
        fs::write(&source, format!("pub use attacks::{name}::*;\n"))?;
        let mut command = rustc();
        command.args(["--crate-name", name, "--crate-type", "rlib", "--emit", "metadata"]);
        // Not the crate that it re-exports.
        command.args(["-C", "metadata=re-export", "-Awarnings"]);
        self.name_to(&mut command);
        command.arg("--out-dir").arg(self.folder.path()).arg(source);
        let Outcome { status, stdout, stderr } = limited_to(command, LIMIT)?;
        ensure!(status.success(), "{name} could not be re-exported: {status}\n{stdout}{stderr}");
        Ok(())
    }

    fn name_to(&self, command: &mut Command) {
        let mut external = std::ffi::OsString::from("attacks=");
        external.push(&self.file);
        command.arg("--extern").arg(external);
        if let Some(folder) = self.file.parent() {
            let mut dependencies = std::ffi::OsString::from("dependency=");
            dependencies.push(folder);
            command.arg("-L").arg(dependencies);
        }
    }
}

/// Builds a library whose constructor makes the file `made`: what loads it runs code.
pub(crate) fn constructor_library(library: &Path, made: &Path) -> TestResult {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("constructor.rs");
    let text = format!(
        "extern \"C\" fn run() {{ let _ = std::fs::write({:?}, \"the constructor ran\"); }}\n\
         #[used]\n\
         #[unsafe(link_section = \".init_array\")]\n\
         static RUN: extern \"C\" fn() = run;\n",
        std::path::absolute(made)?
    );
    fs::write(&source, text)?;
    let mut command = rustc();
    command.args(["--crate-name", "constructor", "--crate-type", "cdylib", "-Cpanic=abort", "-o"]);
    command.arg(library).arg(&source);
    let Outcome { status, stdout, stderr } = limited_to(command, LIMIT)?;
    ensure!(status.success(), "the library could not be built: {status}\n{stdout}{stderr}");
    Ok(())
}
