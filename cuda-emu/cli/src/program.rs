//! Finds a program as `execvp` does, and says before it runs why it cannot run on the device.

mod elf;

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;

/// Where programs are searched if `PATH` is not set, as in the C library.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// Scripts whose interpreters are scripts: as many as the kernel follows.
const MOST_INTERPRETERS: usize = 4;
/// Bytes of a file that say what it is: as many as the kernel reads.
const HEAD: u64 = 256;

/// A program that was found.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
    /// Whether it is a text that names no interpreter: the C library runs it by [`SHELL`].
    bare: bool,
}

/// The interpreter of texts that name none.
const SHELL: &str = "/bin/sh";

impl Program {
    /// Finds a program by its path, or by its name in `PATH`, and checks that it, or the interpreter of a script, will load
    /// the device.
    ///
    /// # Errors
    /// [`Error::Missing`], or [`Error::Unfit`] with the reason.
    pub(crate) fn find(name: &OsStr) -> Result<Self, Error> {
        let mut program = Self { path: Self::search(name)?, bare: false };
        program.bare = program.check()?;
        Ok(program)
    }

    fn search(name: &OsStr) -> Result<PathBuf, Error> {
        if name.is_empty() {
            return Err(Error::Missing(PathBuf::new()));
        }
        if name.as_bytes().contains(&b'/') {
            let path = PathBuf::from(name);
            executable(&path)?;
            return Ok(path);
        }
        let folders = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
        let mut unfit = None;
        for folder in env::split_paths(&folders) {
            // An empty path is the current folder.
            let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
            let path = folder.join(name);
            match executable(&path) {
                Ok(()) => return Ok(path),
                Err(Error::Missing(_)) => {}
                Err(error) => unfit = unfit.or(Some(error)),
            }
        }
        Err(unfit.unwrap_or_else(|| Error::Missing(name.into())))
    }

    /// Returns the program's file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the command that runs it.
    pub(crate) fn command<'a>(
        &self,
        name: &OsStr,
        arguments: impl Iterator<Item = &'a OsString>,
    ) -> Command {
        if self.bare {
            let mut command = Command::new(SHELL);
            command.arg(&self.path).args(arguments);
            return command;
        }
        let mut command = Command::new(&self.path);
        command.arg0(name).args(arguments);
        command
    }

    /// Checks that the program will load the device. Returns whether it is a text that names no interpreter.
    fn check(&self) -> Result<bool, Error> {
        let mut path = self.path.clone();
        for _ in 0..=MOST_INTERPRETERS {
            let no = |why: String| Error::unfit(&self.path, why);
            let mut head = Vec::new();
            let file = File::open(&path);
            let read = file.and_then(|file| {
                let metadata = file.metadata()?;
                (&file).take(HEAD).read_to_end(&mut head)?;
                Ok((file, metadata))
            });
            let (file, metadata) = match read {
                Ok(read) => read,
                // A program may be executable and not readable. It is run unchecked.
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    return Ok(false);
                }
                Err(error) => {
                    return Err(no(format!("{} cannot be read: {error}", path.display())));
                }
            };
            if head.starts_with(b"\x7fELF") {
                let what = if path == self.path {
                    "it".to_owned()
                } else {
                    format!("its interpreter {}", path.display())
                };
                if let Some(why) = elf::unfit(file, &head) {
                    return Err(no(format!("{what} {why}")));
                }
                return match privileged(&path, &metadata) {
                    Some(why) => Err(no(format!("{what} {why}"))),
                    None => Ok(false),
                };
            }
            match interpreter(&head) {
                Some(next) => path = next,
                // The kernel runs no interpreter that is such a text; the C library only runs the program so.
                None if path == self.path && !head.contains(&0) => return Ok(true),
                None => return Err(no("it is neither a program nor a script".to_owned())),
            }
            if let Err(error) = executable(&path) {
                return Err(no(format!("its interpreter cannot run: {error}")));
            }
        }
        Err(Error::unfit(&self.path, "too many scripts are interpreters of scripts"))
    }
}

/// Checks that a file may be executed.
fn executable(path: &Path) -> Result<(), Error> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(Error::unfit(path, error.to_string()));
        }
        Err(_) => return Err(Error::Missing(path.into())),
    };
    if metadata.is_dir() {
        return Err(Error::unfit(path, "it is a folder"));
    }
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else {
        return Err(Error::Missing(path.into()));
    };
    // SAFETY: the name ends with NUL.
    if unsafe { libc::access(name.as_ptr(), libc::X_OK) } != 0 {
        return Err(Error::unfit(path, "it is not executable: `chmod +x` makes it so"));
    }
    Ok(())
}

/// Returns the interpreter that a script names after `#!`.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    words.next().map(|word| PathBuf::from(OsStr::from_bytes(word)))
}

/// Returns why the loader ignores `LD_LIBRARY_PATH` for a program: it then runs with other rights than its caller's.
fn privileged(path: &Path, metadata: &Metadata) -> Option<String> {
    // SAFETY: these only return numbers.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let other =
        |bit: libc::mode_t, owner: u32, own: u32| metadata.mode() & bit != 0 && owner != own;
    let kind = if other(libc::S_ISUID, metadata.uid(), user) {
        "is setuid"
    } else if other(libc::S_ISGID, metadata.gid(), group) {
        "is setgid"
    } else if has_capabilities(path) && user != 0 {
        "has capabilities"
    } else {
        return None;
    };
    Some(format!(
        "{kind}: the loader ignores LD_LIBRARY_PATH then, so it does not find the device; run a copy of the file"
    ))
}

/// Returns whether a file gives capabilities to its process.
fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both texts end with NUL, and a place of no bytes is not written.
    let bytes = unsafe {
        libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0)
    };
    bytes > 0
}

#[cfg(test)]
mod tests {
    use super::interpreter;
    use std::path::PathBuf;

    #[test]
    fn interpreters_are_the_first_word() {
        for (head, wanted) in [
            ("#!/bin/sh\necho", Some("/bin/sh")),
            ("#! \t/usr/bin/env python3\n", Some("/usr/bin/env")),
            ("#!/bin/sh", Some("/bin/sh")),
            ("#!\n/bin/sh", None),
            ("#!", None),
            ("", None),
            ("# !/bin/sh", None),
        ] {
            assert_eq!(interpreter(head.as_bytes()), wanted.map(PathBuf::from), "{head}");
        }
    }
}
