//! The compilers that the compile tier exercises.

use std::path::{Path, PathBuf};

use nvrtc::{Arch, Cache, Image, Nvrtc, NvrtcVersion, Options};

use super::Failure;
use crate::programs::Program;

/// The variable that lists, like `PATH`, every NVRTC that must be exercised.
const VARIABLE: &str = "TEST_NVRTC";

/// What is looked for without the variable, in the folder that `cargo xtask setup` fills.
const PACKAGES: [&str; 2] = ["nvidia-cuda-nvrtc-cu12-12.0.140", "nvidia-cuda-nvrtc-13.0.88"];

/// A compiler under test.
pub(crate) struct Compiler {
    pub(crate) library: Nvrtc,
    pub(crate) version: NvrtcVersion,
}

impl Compiler {
    /// Compiles without a cache.
    pub(crate) fn compile(
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

    /// The library's file.
    pub(crate) fn path(&self) -> Result<&Path, Failure> {
        self.library.path().ok_or_else(|| Failure::new("the library has no path"))
    }

    fn open(path: &Path) -> Result<Self, String> {
        let open = || {
            // SAFETY: NVIDIA's library: the user names it, or `cargo xtask setup` has fetched it by
            // its hash.
            let library = unsafe { Nvrtc::load_from(path) }?;
            let version = library.version()?;
            Ok(Self { library, version })
        };
        open().map_err(|error: nvrtc::Error| format!("{}: {error}", path.display()))
    }
}

/// All compilers under test. One that is listed and does not load is an error; with none listed,
/// those are taken that lie about.
pub(crate) fn compilers() -> Result<Vec<Compiler>, String> {
    let listed = std::env::var_os(VARIABLE).filter(|list| !list.is_empty());
    if let Some(listed) = listed {
        return std::env::split_paths(&listed).map(|path| Compiler::open(&path)).collect();
    }
    let packages: Vec<PathBuf> = PACKAGES.iter().filter_map(|package| unpacked(package)).collect();
    if !packages.is_empty() {
        return packages.iter().map(|path| Compiler::open(path)).collect();
    }
    let found = Nvrtc::find().map_err(|error| format!("no NVRTC: {error}"))?;
    match found.path() {
        Some(path) => Ok(vec![Compiler::open(path)?]),
        None => Err("no NVRTC with a path".to_owned()),
    }
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
