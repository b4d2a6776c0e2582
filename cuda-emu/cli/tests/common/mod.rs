//! Helpers for the tests of the command.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Returns the command, with no variable of the device set.
pub(crate) fn cuda_emu(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cuda-emu"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CUDA_EMU_") {
            command.env_remove(name);
        }
    }
    command.args(words);
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder for one test.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file.
    pub(crate) fn file(&self, name: &str, bytes: &[u8], mode: u32) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Compiles a C program.
    pub(crate) fn compiled(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let path = self.path().join(name);
        let mut cc = Command::new("cc");
        cc.args(["-x", "c", "-", "-x", "none", "-o"])
            .arg(&path)
            .args(options)
            .stdin(Stdio::piped());
        let mut cc = cc.spawn().unwrap();
        cc.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
        assert!(cc.wait().unwrap().success());
        path
    }
}
