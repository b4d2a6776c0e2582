//! cuBLAS, cuBLASLt, cuFFT and cuRAND, found where NVRTC is.
#![allow(unsafe_code, reason = "loads libraries")]

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cuda_sys::MissingLibrary;
use cuda_sys::cublas::Cublas;
use cuda_sys::cublaslt::CublasLt;
use cuda_sys::cufft::Cufft;
use cuda_sys::curand::Curand;

use crate::error::{Error, LibraryError};
use crate::find::library::{Sought, find};
use crate::find::variable;

/// Finds and loads cuBLAS: the library or folder that the variable `CUDA_CUBLAS` names, else the newest in the first place
/// of [`Nvrtc::find`](crate::Nvrtc::find) that has one. Each file is loaded once.
///
/// `cuda_major` is the driver's major version of CUDA: a newer library is not taken, because it would not run. Versions
/// 12 and 13 have the functions of [`cuda_sys::cublas`] with the same ABI; others are not searched.
///
/// # Errors
/// [`Error::Library`]: there is none, or it does not load.
pub fn cublas(cuda_major: Option<u32>) -> Result<&'static Cublas, Error> {
    static LOADED: Loaded<Cublas> = Mutex::new(Vec::new());
    // SAFETY: the system's loader runs the initialisers of a library that `load` vouches for.
    load(&LOADED, &CUBLAS, cuda_major, |path| unsafe { Cublas::load_from(path) })
}

/// Finds and loads cuBLASLt, as [`cublas`] does, with the variable `CUDA_CUBLASLT`. Without that variable, `CUDA_CUBLAS`
/// names its folder, too: the two libraries lie side by side.
///
/// # Errors
/// As [`cublas`].
pub fn cublaslt(cuda_major: Option<u32>) -> Result<&'static CublasLt, Error> {
    static LOADED: Loaded<CublasLt> = Mutex::new(Vec::new());
    let beside = match variable(CUBLASLT.variable) {
        Some(_) => None,
        None => variable(CUBLAS.variable).map(|path| match path.is_file() {
            true => path.parent().map(Path::to_owned).unwrap_or_default(),
            false => path,
        }),
    };
    // SAFETY: as in `cublas`.
    let open = |path: &Path| unsafe { CublasLt::load_from(path) };
    load_named(&LOADED, &CUBLASLT, cuda_major, beside.as_deref(), open)
}

/// Finds and loads cuRAND, as [`cublas`] does, with the variable `CUDA_CURAND`. Its version is 10 for CUDA 12 and 13.
///
/// # Errors
/// As [`cublas`].
pub fn curand(cuda_major: Option<u32>) -> Result<&'static Curand, Error> {
    static LOADED: Loaded<Curand> = Mutex::new(Vec::new());
    // SAFETY: as in `cublas`.
    load(&LOADED, &CURAND, cuda_major, |path| unsafe { Curand::load_from(path) })
}

/// Finds and loads cuFFT, as [`cublas`] does, with the variable `CUDA_CUFFT`. Its versions are 11 for CUDA 12, and 12 for
/// CUDA 13.
///
/// # Errors
/// As [`cublas`].
pub fn cufft(cuda_major: Option<u32>) -> Result<&'static Cufft, Error> {
    static LOADED: Loaded<Cufft> = Mutex::new(Vec::new());
    // SAFETY: as in `cublas`.
    load(&LOADED, &CUFFT, cuda_major, |path| unsafe { Cufft::load_from(path) })
}

const CUBLAS: Sought = Sought {
    name: "cuBLAS",
    variable: "CUDA_CUBLAS",
    package: "cublas",
    files: || files("cublas", 0),
    preferred: None,
    most: None,
};

const CUBLASLT: Sought = Sought {
    name: "cuBLASLt",
    variable: "CUDA_CUBLASLT",
    package: "cublas",
    files: || files("cublasLt", 0),
    preferred: None,
    most: None,
};

const CURAND: Sought = Sought {
    name: "cuRAND",
    variable: "CUDA_CURAND",
    package: "curand",
    // One name for both versions of CUDA, which says nothing of the driver that it needs.
    files: || match cfg!(windows) {
        true => vec![(0, "curand64_10.dll".to_owned())],
        false => vec![(0, "libcurand.so.10".to_owned())],
    },
    preferred: None,
    most: None,
};

const CUFFT: Sought = Sought {
    name: "cuFFT",
    variable: "CUDA_CUFFT",
    package: "cufft",
    files: || files("cufft", 1),
    preferred: None,
    most: None,
};

/// Returns the files' names, each with the major version of CUDA that it is for: `behind` larger than the library's own.
fn files(stem: &str, behind: u32) -> Vec<(u32, String)> {
    let name = |cuda: u32| match cfg!(windows) {
        true => format!("{stem}64_{}.dll", cuda - behind),
        false => format!("lib{stem}.so.{}", cuda - behind),
    };
    [13, 12].map(|cuda| (cuda, name(cuda))).into()
}

/// The libraries that were loaded, by their paths: a table of functions is never freed.
type Loaded<L> = Mutex<Vec<(PathBuf, &'static L)>>;

/// Finds a library, and loads it by `open`.
///
/// The library was named by the user, or was found under its name in a place to which only the user and root can write:
/// it is NVIDIA's, which is what `open` needs to know.
fn load<L>(
    loaded: &Loaded<L>,
    sought: &Sought,
    cuda_major: Option<u32>,
    open: impl FnOnce(&Path) -> Result<&'static L, MissingLibrary>,
) -> Result<&'static L, Error> {
    load_named(loaded, sought, cuda_major, None, open)
}

/// As [`load`]; `named` is a library or a folder that the user has named.
fn load_named<L>(
    loaded: &Loaded<L>,
    sought: &Sought,
    cuda_major: Option<u32>,
    named: Option<&Path>,
    open: impl FnOnce(&Path) -> Result<&'static L, MissingLibrary>,
) -> Result<&'static L, Error> {
    let sought = Sought { most: cuda_major, ..*sought };
    let path = find(&sought, named).map_err(|tried| {
        let Sought { name, variable, package, .. } = sought;
        Error::Library(LibraryError::NotFound { name, variable, package, tried })
    })?;
    let mut loaded = loaded.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, library)) = loaded.iter().find(|(known, _)| *known == path) {
        return Ok(library);
    }
    let library = open(&path).map_err(|error| Error::Library(LibraryError::Load(error)))?;
    loaded.push((path, library));
    Ok(library)
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use super::*;
    use crate::error::Attempt;

    fn chosen(sought: &Sought, most: Option<u32>, files: &[&str]) -> Result<String, Vec<Attempt>> {
        let folder = tempfile::tempdir().map_err(|_| Vec::new())?;
        let lib = folder.path().join("lib64");
        fs::create_dir(&lib).map_err(|_| Vec::new())?;
        for file in files {
            fs::write(lib.join(file), "").map_err(|_| Vec::new())?;
        }
        let path = find(&Sought { most, ..*sought }, Some(folder.path()))?;
        Ok(path.file_name().unwrap_or_default().to_string_lossy().into_owned())
    }

    #[test]
    fn the_newest_that_suits_the_driver_is_taken() {
        let both = ["libcublas.so.12", "libcublas.so.13", "libcublas.so.14", "libcublas.so"];
        for (most, wanted) in [(None, "13"), (Some(14), "13"), (Some(13), "13"), (Some(12), "12")] {
            assert_eq!(chosen(&CUBLAS, most, &both), Ok(format!("libcublas.so.{wanted}")));
        }
        // cuFFT's versions lag: its version 12 belongs to CUDA 13.
        let both = ["libcufft.so.11", "libcufft.so.12"];
        assert_eq!(chosen(&CUFFT, Some(12), &both), Ok("libcufft.so.11".to_owned()));
        assert_eq!(chosen(&CUFFT, Some(13), &both), Ok("libcufft.so.12".to_owned()));
        let beside = ["libcublas.so.13", "libcublasLt.so.12", "libcublasLt.so.13"];
        assert_eq!(chosen(&CUBLASLT, Some(13), &beside), Ok("libcublasLt.so.13".to_owned()));
        assert_eq!(chosen(&CUBLASLT, Some(12), &beside), Ok("libcublasLt.so.12".to_owned()));
        for most in [12, 13] {
            let found = chosen(&CURAND, Some(most), &["libcurand.so.10"]);
            assert_eq!(found, Ok("libcurand.so.10".to_owned()));
        }
    }

    #[test]
    fn what_was_searched_is_listed() {
        let reasons = |found: Result<String, Vec<Attempt>>| -> Vec<String> {
            found.err().into_iter().flatten().map(|attempt| attempt.reason).collect()
        };
        let newer = reasons(chosen(&CUBLAS, Some(12), &["libcublas.so.13"]));
        assert!(newer.iter().any(|reason| reason == "newer than the driver"), "{newer:?}");
        let none = reasons(chosen(&CUFFT, None, &["libcublas.so.13", "libcufft.so.10"]));
        assert!(
            !none.is_empty() && none.iter().all(|reason| reason == "holds no cuFFT"),
            "{none:?}"
        );
        let error = Error::Library(LibraryError::NotFound {
            name: CUBLAS.name,
            variable: CUBLAS.variable,
            package: CUBLAS.package,
            tried: Vec::new(),
        });
        let text = error.to_string();
        assert!(text.contains("nvidia-cublas") && text.contains("CUDA_CUBLAS"), "{text}");
    }
}
