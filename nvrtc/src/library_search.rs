//! Where an nvJitLink may be: the places of NVRTC, by the same rules.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::NvrtcVersion;
use crate::error::{Attempt, LinkError};
use crate::search::{Folder, Place, places, variable};

/// Returns the library for code of a compiler of this version.
///
/// Of several in one place it takes the one of the compiler's major version, else the newest.
pub(crate) fn find(
    named: Option<&Path>,
    compiler: Option<NvrtcVersion>,
) -> Result<PathBuf, LinkError> {
    let mut tried = Vec::new();
    let given = named.map(|path| (path.to_owned(), "given path"));
    let given = given.or_else(|| Some((variable("CUDA_NVJITLINK")?, "CUDA_NVJITLINK")));
    if let Some((path, origin)) = given {
        // An explicit wish: nothing else is taken in its place.
        if path.is_file() {
            return Ok(std::path::absolute(&path).unwrap_or(path));
        }
        let absolute = std::path::absolute(&path).unwrap_or(path);
        let folders = ["", "lib64", "lib", "bin"].map(|sub| Folder::named(absolute.join(sub)));
        return best(&folders, compiler, origin, &mut tried).ok_or(LinkError::NotFound { tried });
    }
    // The last places start programs, so a library that was found is remembered, as NVRTC is.
    static FOUND: Mutex<Vec<(Option<u32>, PathBuf)>> = Mutex::new(Vec::new());
    let major = compiler.map(|compiler| compiler.major);
    let mut known = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, path)) = known.iter().find(|(of, _)| *of == major) {
        return Ok(path.clone());
    }
    for place in places() {
        let Place { origin, folders, .. } = place();
        let with_own: Vec<Folder> = folders
            .iter()
            .flat_map(|folder| [Some(folder.clone()), beside(folder)])
            .flatten()
            .collect();
        if let Some(found) = best(&with_own, compiler, origin, &mut tried) {
            known.push((major, found.clone()));
            return Ok(found);
        }
    }
    Err(LinkError::NotFound { tried })
}

/// Pip's packages for CUDA 12 have a folder each: `nvidia/nvjitlink/lib` beside `nvidia/cuda_nvrtc/lib`.
fn beside(folder: &Folder) -> Option<Folder> {
    let (lib, package) = (folder.path().file_name()?, folder.path().parent()?);
    (package.file_name()? == "cuda_nvrtc")
        .then(|| folder.with_path(package.with_file_name("nvjitlink").join(lib)))
}

fn best(
    folders: &[Folder],
    compiler: Option<NvrtcVersion>,
    origin: &str,
    tried: &mut Vec<Attempt>,
) -> Option<PathBuf> {
    let mut best: Option<((bool, u32), PathBuf)> = None;
    for folder in folders {
        let before = best.is_some();
        let mut found = false;
        for (major, name) in names() {
            let Ok(path) = folder.file(&name) else { continue };
            let rank = (compiler.is_some_and(|compiler| compiler.major == major), major);
            found = true;
            if best.as_ref().is_none_or(|(known, _)| *known < rank) {
                best = Some((rank, path));
            }
        }
        if !found && !before {
            let reason = "holds no nvJitLink".to_owned();
            tried.push(Attempt { origin: origin.into(), path: folder.path().into(), reason });
        }
    }
    best.map(|(_, path)| path)
}

/// Returns the names that the library has, the newest first; 0 for the name without a version.
fn names() -> impl Iterator<Item = (u32, String)> {
    let versioned = (12..=20).rev().map(|major: u32| {
        let windows = format!("nvJitLink_{major}0_0.dll");
        (major, if cfg!(windows) { windows } else { format!("libnvJitLink.so.{major}") })
    });
    versioned.chain((!cfg!(windows)).then(|| (0, "libnvJitLink.so".to_owned())))
}
