//! Opening shared libraries and finding functions in them.

use core::error::Error as _;
use core::ffi::c_void;
use std::path::Path;

use libloading::Library;

use crate::error::{Attempt, MissingLibrary};

/// Opens the first of `names` that loads. The library stays loaded until the process ends.
///
/// # Safety
/// The initialisers of whichever library loads may run in this process.
pub(crate) unsafe fn open_first(
    title: &'static str,
    names: &[&Path],
) -> Result<(&'static Library, String), MissingLibrary> {
    let mut tried = Vec::new();
    for &name in names {
        if let Some(reason) = obstacle(name) {
            tried.push(Attempt { name: name.to_owned(), reason: reason.to_owned() });
            continue;
        }
        // SAFETY: the caller's promise.
        match unsafe { open(name) } {
            // Never unloaded: tables of its functions are `'static`, and a driver has threads.
            Ok(library) => return Ok((Box::leak(Box::new(library)), name.display().to_string())),
            Err(error) => {
                // libloading says which step failed, its source what the system said. glibc puts
                // the name in front, which the attempt has already.
                let reason = match error.source() {
                    Some(source) => source.to_string(),
                    None => error.to_string(),
                };
                let prefix = format!("{}: ", name.display());
                tried.push(Attempt {
                    name: name.to_owned(),
                    reason: reason.strip_prefix(&prefix).unwrap_or(&reason).to_owned(),
                });
            }
        }
    }
    Err(MissingLibrary { title, tried })
}

/// Returns why a path is not given to the system's loader, which would wait at a FIFO until a process writes to it.
///
/// A plain name is the loader's to look up.
fn obstacle(name: &Path) -> Option<&'static str> {
    let path = name.components().count() > 1;
    let found = path.then(|| std::fs::metadata(name).ok()).flatten();
    found.is_some_and(|metadata| !metadata.is_file()).then_some("not a regular file")
}

/// Opens one library.
///
/// # Safety
/// The library's initialisers may run in this process.
#[cfg(not(windows))]
unsafe fn open(name: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: the caller's promise.
    unsafe { Library::new(name) }
}

/// Opens one library.
///
/// # Safety
/// The library's initialisers may run in this process.
#[cfg(windows)]
unsafe fn open(name: &Path) -> Result<Library, libloading::Error> {
    use libloading::os::windows;
    // A plain name is NVIDIA's driver, which lives in the system's folder: no other is searched.
    // For a path the system wants it absolute, and then finds what stands beside the library.
    let (name, flags) = if name.components().count() == 1 {
        (name.to_owned(), windows::LOAD_LIBRARY_SEARCH_SYSTEM32)
    } else {
        let absolute = std::path::absolute(name).unwrap_or_else(|_| name.to_owned());
        (absolute, windows::LOAD_WITH_ALTERED_SEARCH_PATH)
    };
    // SAFETY: the caller's promise.
    unsafe { windows::Library::load_with_flags(&name, flags) }.map(Library::from)
}

/// Returns the address of an exported function; null if there is none.
pub(crate) fn address(library: &Library, name: &str) -> *const c_void {
    // SAFETY: any symbol's address may be read as a data pointer; it is not called here.
    match unsafe { library.get::<*const c_void>(name) } {
        Ok(symbol) => *symbol,
        Err(_) => core::ptr::null(),
    }
}
