//! The compilers that the compile tier exercises.

use std::path::{Path, PathBuf};

use nvrtc::{Arch, Cache, Image, Nvrtc, NvrtcVersion, Options};

use super::{Failure, deep};
use crate::programs::Program;

/// The variable that lists, like `PATH`, every NVRTC that must be exercised.
const VARIABLE: &str = "TEST_NVRTC";

/// What is looked for without the variable, in the folder that `cargo xtask setup` fills.
const PACKAGES: [&str; 2] = ["nvidia-cuda-nvrtc-cu12-12.0.140", "nvidia-cuda-nvrtc-13.0.88"];

/// A compiler under test.
pub struct Compiler {
    pub library: Nvrtc,
    pub version: NvrtcVersion,
    /// Its index among the compilers under test, and how many there are.
    place: (usize, usize),
}

impl Compiler {
    /// Compiles without a cache.
    pub fn compile(
        &self,
        program: &Program,
        arch: Arch,
        options: Options,
    ) -> Result<Image, Failure> {
        let compiled = program
            .to_nvrtc()
            .options(options)
            .library(&self.library)
            .cache(&Cache::off())
            .compile(arch);
        compiled.map_err(|error| Failure::new(format!("{} for {arch}: {error}", program.name)))
    }

    /// Returns the programs that this compiler compiles: all in a deep run. Otherwise the compilers take turns, so that each
    /// program is compiled once.
    pub fn share<T>(&self, programs: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
        let (place, of) = if deep() { (0, 1) } else { self.place };
        programs.into_iter().skip(place).step_by(of)
    }

    /// The library's file.
    pub fn path(&self) -> Result<&Path, Failure> {
        self.library.path().ok_or_else(|| Failure::new("the library has no path"))
    }

    fn open(path: &Path, place: (usize, usize)) -> Result<Self, String> {
        let open = || {
            // SAFETY: NVIDIA's library: the user names it, or `cargo xtask setup` has fetched it by
            // its hash.
            let library = unsafe { Nvrtc::load_from(path) }?;
            let version = library.version()?;
            Ok(Self { library, version, place })
        };
        open().map_err(|error: nvrtc::Error| format!("{}: {error}", path.display()))
    }
}

/// All compilers under test. One that is listed and does not load is an error; with none listed,
/// those are taken that lie about.
pub fn compilers() -> Result<Vec<Compiler>, String> {
    let listed = std::env::var_os(VARIABLE).filter(|list| !list.is_empty());
    let mut paths: Vec<PathBuf> = match listed {
        Some(listed) => std::env::split_paths(&listed).collect(),
        None => PACKAGES.iter().filter_map(|package| unpacked(package)).collect(),
    };
    if paths.is_empty() {
        let found = Nvrtc::find().map_err(|error| format!("no NVRTC: {error}"))?;
        paths.push(found.path().ok_or("no NVRTC with a path")?.to_owned());
    }
    let of = paths.len();
    paths.iter().enumerate().map(|(place, path)| Compiler::open(path, (place, of))).collect()
}

/// The folder of a package's libraries, below the folder that setup filled.
fn unpacked(package: &str) -> Option<PathBuf> {
    let setup = std::env::var_os("CUDA_SETUP_DIR").map(PathBuf::from);
    let program = std::env::current_exe().unwrap_or_default();
    let folders =
        setup.into_iter().chain(program.ancestors().map(|folder| folder.join("target/cuda")));
    folders
        .flat_map(|folder| {
            let package = folder.join(package).join("nvidia");
            [package.join("cu13/lib"), package.join("cuda_nvrtc/lib")]
        })
        .find(|folder| folder.is_dir())
}
