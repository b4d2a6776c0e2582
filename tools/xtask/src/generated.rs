//! Generated files that are checked in: writing them, and comparing them with what would be written.

use std::fs;

use xtask::{Error, root};

/// Reads a file below the workspace's root.
///
/// # Errors
/// The file could not be read.
pub(crate) fn read(path: &str) -> Result<String, Error> {
    fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}").into())
}

/// Writes `text` to a file below the workspace's root. With `check`, writes nothing and returns
/// whether the file has this text; `command` is the command that would write it.
///
/// # Errors
/// The file could not be written.
pub(crate) fn put(path: &str, text: &str, check: bool, command: &str) -> Result<bool, Error> {
    if fs::read(root().join(path)).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(true);
    }
    if check {
        println!("{path} differs from its source: run `{command}`");
        return Ok(false);
    }
    fs::write(root().join(path), text).map_err(|error| format!("{path}: {error}"))?;
    println!("wrote {path}");
    Ok(true)
}
