//! cuBLAS and cuFFT, found where NVRTC is.
#![allow(unsafe_code, reason = "loads libraries")]

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cuda_sys::MissingLibrary;
use cuda_sys::cublas::Cublas;
use cuda_sys::cufft::Cufft;

use crate::error::{Error, LibraryError};
use crate::library_search::{Sought, find};

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
    let sought = Sought { most: cuda_major, ..*sought };
    let path = find(&sought, None).map_err(|tried| {
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
