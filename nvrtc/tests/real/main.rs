//! The crate on the real compilers, NVRTC 12.0 and 13.0, as `cargo xtask setup` installs them.
//!
//! Where a version is not installed its tests are reported as ignored, with the reason in their names:
//! they never count as passed.

mod caching;
mod child;
mod compiling;
mod faults;
mod hosted;
mod linkage;
mod refused;

use std::error::Error;
use std::path::PathBuf;

use cuda_safe_nvrtc::{Cache, Nvrtc, NvrtcVersion, Program};
use libtest_mimic::{Arguments, Failed, Trial};

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// The result of a test.
pub(crate) struct Compiler {
    pub(crate) library: Nvrtc,
    pub(crate) version: NvrtcVersion,
    /// Empty at the test's beginning, removed at its end.
    pub(crate) folder: tempfile::TempDir,
}

impl Compiler {
    /// A program for this compiler, without a cache.
    pub(crate) fn program(&self, source: &str) -> Program {
        Program::new(source).name("test.cu").library(&self.library).cache(&Cache::off())
    }

    /// A cache in the test's own folder.
    pub(crate) fn cache(&self) -> Cache {
        Cache::at(self.folder.path().join("cache"))
    }
}

type Test = (&'static str, fn(&Compiler) -> Outcome);

/// NvrtcVersion, the folder under `target/cuda`, and where the library lies in it.
const INSTALLED: [(NvrtcVersion, &str); 2] = [
    (NvrtcVersion { major: 12, minor: 0 }, "nvidia-cuda-nvrtc-cu12-12.0.140/nvidia/cuda_nvrtc/lib"),
    (NvrtcVersion { major: 13, minor: 0 }, "nvidia-cuda-nvrtc-13.0.88/nvidia/cu13/lib"),
];

fn main() {
    if child::is_child() {
        child::main();
        return;
    }
    let arguments = Arguments::from_args();
    let tests = [
        compiling::TESTS,
        linkage::TESTS,
        caching::TESTS,
        faults::TESTS,
        hosted::TESTS,
        refused::TESTS,
    ]
    .concat();
    let mut trials = Vec::new();
    for (version, folder) in INSTALLED {
        let library = installed(folder);
        for &(name, test) in &tests {
            trials.push(match library.clone() {
                Some(path) => {
                    Trial::test(format!("{version}/{name}"), move || run(version, &path, test))
                }
                None => Trial::test(
                    format!("{version}/{name} (not run: `cargo xtask setup` first)"),
                    || Err("run `cargo xtask setup` first".into()),
                )
                .with_ignored_flag(true),
            });
        }
        if let Some(path) = library {
            // Where the system has an NVRTC, none can be out of sight.
            let in_sight = child::finds_one_without_variables();
            let name = format!("{version}/a_cached_image_needs_no_library");
            trials.push(match in_sight {
                false => Trial::test(name, move || {
                    run(version, &path, caching::a_cached_image_needs_no_library)
                }),
                true => Trial::test(format!("{name} (not run: this system has an NVRTC)"), || {
                    Err("this system has an NVRTC".into())
                })
                .with_ignored_flag(true),
            });
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn installed(folder: &str) -> Option<PathBuf> {
    let roots = match std::env::var_os("CUDA_SETUP_DIR") {
        Some(root) => vec![PathBuf::from(root)],
        None => {
            let program = std::env::current_exe().ok()?;
            program.ancestors().map(|folder| folder.join("target/cuda")).collect()
        }
    };
    roots.into_iter().map(|root| root.join(folder)).find(|path| path.is_dir())
}

fn run(
    version: NvrtcVersion,
    path: &PathBuf,
    test: fn(&Compiler) -> Outcome,
) -> Result<(), Failed> {
    // SAFETY: NVIDIA's library, as `cargo xtask setup` fetched it by its hash.
    let library = unsafe { Nvrtc::at(path) }.map_err(|e| e.to_string())?;
    let folder = tempfile::tempdir()?;
    // Whatever the umask is: the cache is used only where nobody else may write.
    #[cfg(unix)]
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    test(&Compiler { library, version, folder }).map_err(|e| Failed::from(e.to_string()))
}
