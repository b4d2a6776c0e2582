//! Programs that nvcc compiles, on the software device with this project's runtime. They are linked to NVIDIA's library, by
//! its symbol versions, and load ours. Each checks what it computes, and is run again with a planted mistake.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use test_harness::{
    Case, Failure, Language, Outcome, TestResult, built, cc, deep, device_library, ensure, limited,
    sources, toolkit,
};

/// The line that begins a program with options of its own for nvcc.
const OPTIONS: &str = "// nvcc: ";
/// What the loader prints of a library without symbol versions.
const NO_VERSIONS: &str = "no version information";

/// What a checker of the device prints first.
const FINDINGS: [&str; 2] = ["cuda-emu: race: ", "that nothing has written"];

macro_rules! programs {
    ($($name:ident)*) => {
        &[$(Case::foreign(Language::Cuda, concat!("nvcc::", stringify!($name)), || {
            program(stringify!($name))
        })),*]
    };
}

/// One case for each file of `foreign/nvcc`.
const PROGRAMS: &[Case] = programs! {
    clusters cub thrust device_query errors fork graph_capture graph_nodes grid_sync host_functions launch_ex managed
    occupancy per_thread pitched pools printf_assert reduction reset sticky streams surface symbols templates texture threads vector_add
};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = PROGRAMS.to_vec();
    cases.extend([
        Case::foreign(Language::Cuda, "nvcc::plugins", plugins),
        Case::foreign(Language::Cuda, "nvcc::linked", linked),
        Case::foreign(Language::Cuda, "nvcc::of_cuda_12", of_cuda_12),
        Case::foreign(Language::Cuda, "nvcc::statically_linked", statically_linked),
        Case::foreign(Language::Cuda, "nvcc::codes", codes),
        Case::foreign(Language::Cuda, "nvcc::names", names),
        Case::foreign(Language::Cuda, "nvcc::texts", texts),
        Case::host("foreign::nvcc_programs_are_tested", all_are_cases),
    ]);
    cases
}

/// Where programs are built and run.
struct Folder {
    folder: tempfile::TempDir,
    toolkit: PathBuf,
}

impl Folder {
    fn new() -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let libraries = [
            ("libcuda.so.1", device_library()?),
            ("libcudart.so.13", runtime("libcudart_13.so")?),
            ("libcudart.so.12", runtime("libcudart_12.so")?),
        ];
        for (name, library) in libraries {
            std::os::unix::fs::symlink(library, folder.path().join(name))?;
        }
        Ok(Self { folder, toolkit: toolkit()? })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Compiles files to a program or a shared object.
    fn build(&self, files: &[&str], output: &str, more: &[&str]) -> Result<PathBuf, Failure> {
        let folder = sources()?.join("nvcc");
        let output = self.path().join(output);
        let mut nvcc = Command::new(self.toolkit.join("bin/nvcc"));
        nvcc.args(["-std=c++17", "-arch=compute_90", "-o"]).arg(&output).args(more);
        for (at, file) in files.iter().enumerate() {
            let path = folder.join(file);
            let text = std::fs::read_to_string(&path)?;
            if let Some(options) = text.lines().next().and_then(|line| line.strip_prefix(OPTIONS))
                && at == 0
            {
                nvcc.args(options.split_whitespace());
            }
            nvcc.arg(path);
        }
        built(nvcc)?;
        Ok(output)
    }

    fn run(
        &self,
        program: &Path,
        planted: &str,
        variables: &[(&str, &str)],
    ) -> Result<Outcome, Failure> {
        let mut command = Command::new(program);
        let inherited = std::env::vars_os().map(|(name, _)| name);
        for name in inherited.filter(|name| name.to_string_lossy().starts_with("CUDA_EMU_")) {
            command.env_remove(name);
        }
        command.env("LD_LIBRARY_PATH", self.path()).env("PLANTED", planted);
        command.env_remove("CUDA_DRIVER").envs(variables.iter().copied());
        limited(command)
    }

    /// The program finds nothing wrong, and notices the planted mistake.
    fn tested(&self, program: &Path) -> TestResult {
        let told =
            |outcome: &Outcome| format!("{}\n{}{}", outcome.status, outcome.stdout, outcome.stderr);
        let right = self.run(program, "0", &[])?;
        ensure!(
            right.status.success() && right.stdout.ends_with("all right\n"),
            "{}",
            told(&right)
        );
        ensure!(!right.stderr.contains(NO_VERSIONS), "{}", told(&right));
        let wrong = self.run(program, "1", &[])?;
        let noticed = wrong.status.code() == Some(1) && wrong.stdout.contains("not");
        ensure!(noticed, "the mistake was not noticed: {}", told(&wrong));
        // Other orders of work, under checkers.
        for seed in 0..if deep() { 50 } else { 5 } {
            let seed = format!("{seed}");
            let variables = [("CUDA_EMU_SEED", &*seed), ("CUDA_EMU_CHECK", "race,init")];
            let drawn = self.run(program, "0", &variables)?;
            let found = FINDINGS.iter().any(|finding| drawn.stderr.contains(finding));
            let passed = drawn.status.success() && drawn.stdout.ends_with("all right\n");
            ensure!(passed && !found, "seed {seed}: {}", told(&drawn));
        }
        Ok(())
    }
}

/// Returns a library that cargo builds beside this program.
fn runtime(name: &str) -> Result<PathBuf, Failure> {
    let path = std::env::current_exe()?.with_file_name(name);
    match path.exists() {
        true => Ok(path),
        false => Err(Failure::new(format!("there is no {}", path.display()))),
    }
}

fn program(name: &str) -> TestResult {
    let folder = Folder::new()?;
    let program = folder.build(&[&format!("{name}.cu")], name, &["-cudart", "shared"])?;
    folder.tested(&program)
}

/// Two shared objects with kernels of one name, which are loaded and unloaded.
fn plugins() -> TestResult {
    let folder = Folder::new()?;
    for which in ["1", "2"] {
        let more = ["-cudart", "shared", &format!("-DWHICH={which}")];
        folder.build(&["plugins/plugin.cu"], &format!("plugin{which}.so"), &more)?;
    }
    let program = folder.build(&["plugins/main.cu"], "main", &["-cudart", "shared", "-ldl"])?;
    folder.tested(&program)
}

/// Device code in two objects.
fn linked() -> TestResult {
    let folder = Folder::new()?;
    let files = ["linked/main.cu", "linked/other.cu"];
    let program = folder.build(&files, "linked", &["-cudart", "shared"])?;
    folder.tested(&program)
}

/// A program in C with the headers of CUDA 12, linked to its library.
fn of_cuda_12() -> TestResult {
    let folder = Folder::new()?;
    let program = folder.path().join("properties_12");
    let older = folder.toolkit.join("cuda-12");
    let mut compiler = cc();
    compiler.args(["-std=c11", "-Wall", "-o"]).arg(&program);
    compiler.arg(sources()?.join("nvcc/properties_12.c"));
    // The compiler's own headers are in no wheel of CUDA 12 without the compiler.
    for include in [older.join("include"), folder.toolkit.join("include")] {
        compiler.arg("-isystem").arg(include);
    }
    compiler.arg(older.join("lib/libcudart.so.12"));
    built(compiler)?;
    folder.tested(&program)
}

/// NVIDIA's own runtime needs private tables of the driver. The device says what to do.
fn statically_linked() -> TestResult {
    let folder = Folder::new()?;
    let program = folder.build(&["vector_add.cu"], "static", &["-cudart", "static"])?;
    let Outcome { status, stdout, stderr } = folder.run(&program, "0", &[])?;
    ensure!(!status.success(), "{stdout}{stderr}");
    let said = stderr.lines().filter(|line| line.contains("-cudart shared")).count();
    ensure!(said == 1, "{stdout}{stderr}");
    Ok(())
}

/// Calls return the codes that NVIDIA's runtime returned on an H200, but for those of which the list says so.
fn codes() -> TestResult {
    let folder = Folder::new()?;
    let program = folder.build(&["codes.cu"], "codes", &["-cudart", "shared"])?;
    let listed = std::fs::read_to_string(sources()?.join("nvcc/codes.txt"))?;
    let ours = |line: &str| line.split("  (NVIDIA: ").next().unwrap_or_default().to_owned();
    let wanted: Vec<String> = listed.lines().map(ours).collect();
    // The planted mistake is a launch of one block where there were none.
    for (planted, differences) in [("0", 0), ("1", 1)] {
        let Outcome { stdout, .. } = folder.run(&program, planted, &[])?;
        let got: Vec<&str> = stdout.lines().collect();
        let other: Vec<_> = wanted.iter().zip(&got).filter(|(wanted, got)| wanted != got).collect();
        let same = other.len() == differences && wanted.len() == got.len();
        ensure!(same, "mistake {planted}: wanted, got: {other:#?}");
    }
    Ok(())
}

/// The libraries export what NVIDIA's export, under the same versions.
fn names() -> TestResult {
    let toolkit = toolkit()?;
    for (ours, theirs) in [
        ("libcudart_13.so", toolkit.join("lib64/libcudart.so.13")),
        ("libcudart_12.so", toolkit.join("cuda-12/lib/libcudart.so.12")),
    ] {
        let (ours, theirs) = (exported(&runtime(ours)?)?, exported(&theirs)?);
        ensure!(theirs.len() > 400, "only {} names", theirs.len());
        let missing: Vec<_> = theirs.difference(&ours).collect();
        ensure!(missing.is_empty(), "missing: {missing:?}");
        let more: Vec<_> = ours.difference(&theirs).collect();
        ensure!(more.is_empty(), "not NVIDIA's: {more:?}");
    }
    Ok(())
}

/// The names and texts of codes are those of NVIDIA's library, which needs no driver for them.
fn texts() -> TestResult {
    let folder = Folder::new()?;
    let program = folder.path().join("texts");
    let library = folder.toolkit.join("lib64");
    let mut compiler = cc();
    compiler.args(["-std=c11", "-Wall", "-o"]).arg(&program);
    compiler.arg(sources()?.join("nvcc/texts.c")).arg("-isystem");
    compiler.arg(folder.toolkit.join("include")).arg(library.join("libcudart.so.13"));
    built(compiler)?;
    let ours = folder.run(&program, "0", &[])?;
    let mut theirs = Command::new(&program);
    theirs.env("LD_LIBRARY_PATH", &library);
    let theirs = limited(theirs)?;
    ensure!(ours.status.success() && theirs.status.success(), "{}{}", ours.stderr, theirs.stderr);
    // Ours also knows codes that are newer than NVIDIA's library.
    let known = theirs.stdout.lines().filter(|line| !line.contains("unrecognized error code"));
    let ours: BTreeSet<&str> = ours.stdout.lines().collect();
    let known: Vec<_> = known.collect();
    ensure!(known.len() > 100, "only {} codes", known.len());
    let other: Vec<_> = known.iter().filter(|line| !ours.contains(*line)).collect();
    ensure!(other.is_empty(), "NVIDIA's library has other texts: {other:?}");
    Ok(())
}

/// Returns the functions that a library exports, with their versions.
fn exported(library: &Path) -> Result<BTreeSet<String>, Failure> {
    let mut nm = Command::new("nm");
    nm.args(["--dynamic", "--defined-only"]).arg(library);
    let text = String::from_utf8_lossy(&built(nm)?.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.split_once(" T ").map(|(_, name)| name));
    Ok(names.map(str::to_owned).collect())
}

/// Each file of the folder is a case.
fn all_are_cases() -> TestResult {
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(sources()?.join("nvcc"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "cu") {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            files.insert(format!("nvcc::{stem}"));
        }
    }
    let mut cases: BTreeSet<String> = PROGRAMS.iter().map(|case| case.name.to_owned()).collect();
    cases.insert("nvcc::codes".to_owned());
    ensure!(files == cases, "files {files:?}, cases {cases:?}");
    Ok(())
}
