//! Where a library of CUDA may be, such as nvJitLink: the places of NVRTC, by the same rules.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::Attempt;
use crate::find::{Folder, Place, places, variable};

/// A library that is searched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sought {
    /// Its name in messages.
    pub(crate) name: &'static str,
    /// The variable that names it, or its folder.
    pub(crate) variable: &'static str,
    /// Its folder in pip's packages for CUDA 12: `nvidia/<package>/lib`.
    pub(crate) package: &'static str,
    /// Returns the names of its files with their major versions, the newest first; 0 for a name without a version.
    pub(crate) files: fn() -> Vec<(u32, String)>,
    /// The major version to prefer among several in one place; `None` for the newest.
    pub(crate) preferred: Option<u32>,
    /// No newer one is taken.
    pub(crate) most: Option<u32>,
}

/// Returns the path of a library, or every place that was searched.
pub(crate) fn find(sought: &Sought, named: Option<&Path>) -> Result<PathBuf, Vec<Attempt>> {
    let mut tried = Vec::new();
    let given = named.map(|path| (path.to_owned(), "given path"));
    let given = given.or_else(|| Some((variable(sought.variable)?, sought.variable)));
    if let Some((path, origin)) = given {
        // An explicit choice: no other library replaces it.
        if path.is_file() {
            return Ok(std::path::absolute(&path).unwrap_or(path));
        }
        let absolute = std::path::absolute(&path).unwrap_or(path);
        let folders = ["", "lib64", "lib", "bin"].map(|sub| Folder::named(absolute.join(sub)));
        return best(&folders, sought, origin, &mut tried).ok_or(tried);
    }
    // The last places start programs, so a library that was found is remembered, as NVRTC is.
    type Key = (&'static str, Option<u32>, Option<u32>);
    static FOUND: Mutex<Vec<(Key, PathBuf)>> = Mutex::new(Vec::new());
    let key = (sought.name, sought.preferred, sought.most);
    let mut known = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, path)) = known.iter().find(|(of, _)| *of == key) {
        return Ok(path.clone());
    }
    for place in places() {
        let Place { origin, folders, .. } = place();
        let with_own: Vec<Folder> = folders
            .iter()
            .flat_map(|folder| [Some(folder.clone()), beside(folder, sought.package)])
            .flatten()
            .collect();
        if let Some(found) = best(&with_own, sought, origin, &mut tried) {
            known.push((key, found.clone()));
            return Ok(found);
        }
    }
    Err(tried)
}

/// Pip's packages for CUDA 12 have a folder each: `nvidia/nvjitlink/lib` beside `nvidia/cuda_nvrtc/lib`.
fn beside(folder: &Folder, own: &str) -> Option<Folder> {
    let (lib, package) = (folder.path().file_name()?, folder.path().parent()?);
    (package.file_name()? == "cuda_nvrtc")
        .then(|| folder.with_path(package.with_file_name(own).join(lib)))
}

fn best(
    folders: &[Folder],
    sought: &Sought,
    origin: &str,
    tried: &mut Vec<Attempt>,
) -> Option<PathBuf> {
    let mut best: Option<((bool, u32), PathBuf)> = None;
    for folder in folders {
        let before = best.is_some();
        let mut found = false;
        for (major, name) in (sought.files)() {
            let Ok(path) = folder.file(&name) else { continue };
            found = true;
            if sought.most.is_some_and(|most| most < major) {
                let reason = "newer than the driver".to_owned();
                tried.push(Attempt { origin: origin.into(), path, reason });
                continue;
            }
            let rank = (sought.preferred == Some(major), major);
            if best.as_ref().is_none_or(|(known, _)| *known < rank) {
                best = Some((rank, path));
            }
        }
        if !found && !before {
            let reason = format!("holds no {}", sought.name);
            tried.push(Attempt { origin: origin.into(), path: folder.path().into(), reason });
        }
    }
    best.map(|(_, path)| path)
}
