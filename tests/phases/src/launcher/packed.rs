//! A program with a pack, in the steps of a user: built with an empty file, which its test fills, and built again.
//!
//! `rustc` is called directly, against the crates that cargo has built for this test program: a build takes seconds.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SOURCE: &str = include_str!("packed_program.rs");
const RESULTS: &str = "[11, 21, 31, 0, 1, 2, 0, 1, 2, 0, 0, 1, 2, 3, 4, 0, 1]\n";

#[test]
fn a_program_with_a_pack_needs_no_compiler() {
    let user = User::new(SOURCE);
    std::fs::remove_file(user.path("kernels.pack")).expect("the empty file");
    let refused = user.build(&[]);
    assert!(!refused.status.success(), "there is no file");
    assert!(text(&refused).contains("create it as an empty file"), "{}", text(&refused));

    std::fs::write(user.path("kernels.pack"), "").expect("an empty file");
    let built = user.build(&[]);
    assert!(built.status.success(), "{}", text(&built));
    let hint = "kernels.pack has it. It does not have it: add it in the test";
    user.fails_without_compiler(hint);
    assert_eq!(text(&user.run(&["write"])), "changed: true\n");
    assert_eq!(text(&user.run_without_compiler(&["write"])), "changed: false\n");
    // The program still embeds the empty file.
    user.fails_without_compiler(hint);

    // Its paths are others, as on another machine.
    let user = user.moved();
    assert!(user.build(&[]).status.success());
    assert_eq!(text(&user.run_without_compiler(&[])), RESULTS);

    // Another profile, and another source: NVRTC compiles where there is one.
    let other = "other checks: run the test that writes the pack in the profile";
    assert!(user.build(&["-Coverflow-checks=off"]).status.success());
    user.fails_without_compiler(other);
    assert_eq!(text(&user.run(&[])), RESULTS);
    let changed = SOURCE.replace("by * x[i] + 1", "by * x[i] + 2");
    assert_ne!(changed, SOURCE);
    std::fs::write(user.path("program.rs"), changed).expect("a source");
    assert!(user.build(&[]).status.success());
    user.fails_without_compiler(other);
    assert!(text(&user.run(&[])).starts_with("[12, 22, 32, 0"));
    // Only that kernel is compiled again; without a compiler, that fails.
    assert!(!user.run_without_compiler(&["write"]).status.success());
    assert_eq!(text(&user.run(&["write"])), "changed: true\n");
    assert_eq!(text(&user.run_without_compiler(&["write"])), "changed: false\n");
}

/// The folder of a package.
struct User(tempfile::TempDir);

impl User {
    fn new(source: &str) -> Self {
        let user = Self(tempfile::tempdir().expect("a folder"));
        std::fs::write(user.path("program.rs"), source).expect("a source");
        std::fs::write(user.path("kernels.pack"), "").expect("a pack");
        user
    }

    fn moved(self) -> Self {
        let user = Self(tempfile::tempdir().expect("a folder"));
        for file in ["program.rs", "kernels.pack"] {
            std::fs::copy(self.path(file), user.path(file)).expect("a copy");
        }
        user
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    /// Builds the program as cargo does.
    fn build(&self, flags: &[&str]) -> Output {
        let cargo =
            std::env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name("rustc"));
        let rustc = cargo.filter(|rustc| rustc.is_file()).unwrap_or_else(|| "rustc".into());
        let library = library();
        let mut command = Command::new(rustc);
        command.args(["--edition", "2024", "-Cdebug-assertions=on", "-Awarnings"]).args(flags);
        command.arg("--extern").arg(format!("phases_tests={}", library.display()));
        let folder = library.parent().expect("a folder");
        command.arg("-L").arg(format!("dependency={}", folder.display()));
        command.env("CARGO_MANIFEST_DIR", self.0.path());
        command.arg("-o").arg(self.path("program")).arg(self.path("program.rs"));
        command.output().expect("rustc")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.path("program"));
        // The folder in which cargo runs tests.
        command.current_dir(self.0.path()).args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program")
    }

    /// Runs the program where there is neither NVRTC nor a cache of what it has compiled.
    fn run_without_compiler(&self, args: &[&str]) -> Output {
        let mut command = self.command(args);
        command.env("CUDA_NVRTC", self.path("none"));
        for variable in ["HOME", "XDG_CACHE_HOME"] {
            command.env(variable, self.0.path());
        }
        command.output().expect("the program")
    }

    #[track_caller]
    fn fails_without_compiler(&self, hint: &str) {
        let output = self.run_without_compiler(&[]);
        assert!(!output.status.success(), "{}", text(&output));
        assert!(text(&output).contains(hint), "{}", text(&output));
    }
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].iter().map(|text| String::from_utf8_lossy(text)).collect()
}

/// Returns this package's library: of several, for other features, the newest that is older than this program.
fn library() -> PathBuf {
    let program = std::env::current_exe().expect("this program");
    let time = |path: &Path| path.metadata().and_then(|data| data.modified()).expect("a time");
    let linked = time(&program);
    let files = program.parent().expect("a folder").read_dir().expect("a folder");
    let libraries = files.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libphases_tests-") && name.ends_with(".rlib") && time(path) <= linked
    });
    libraries.max_by_key(|path| time(path)).expect("the library of this package")
}
