//! Environment variables that name files.

use std::env;
use std::ffi::OsString;

/// Returns an environment variable that names a file or folder, unless it is not the user's word.
///
/// Returns `None` if the variable is not set or empty, and always in a process with raised rights: a program that
/// is set-user-ID or set-group-ID or has file capabilities gets its variables from the user who starts it, and
/// runs as another. The system's loader ignores `LD_LIBRARY_PATH` in such a process for the same reason.
///
/// `Driver::load` and the crates above read every variable that names something to load or to delete through this
/// function.
#[must_use]
pub fn environment(name: &str) -> Option<OsString> {
    if has_raised_rights() {
        return None;
    }
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns whether the process has more rights than the user who started it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn has_raised_rights() -> bool {
    // SAFETY: getauxval reads a table that the kernel made for this process; an unknown entry is 0.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Returns whether the process has more rights than the user who started it.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn has_raised_rights() -> bool {
    // SAFETY: the four functions have no preconditions and can't fail.
    unsafe { libc::getuid() != libc::geteuid() || libc::getgid() != libc::getegid() }
}

/// Other systems start no program as another user because of its file.
#[cfg(not(unix))]
fn has_raised_rights() -> bool {
    false
}
