//! Where the headers and libclang come from: wheels pinned by hash, never what the machine has.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::TempDir;
use xtask::wheels::{self, LIBCLANG, NVRTC_13_5, RUNTIME_13_5};

use crate::Failure;

/// The toolkit release whose headers are read.
pub(crate) const CUDA_RELEASE: &str = "13.5";

/// The headers' paths and the folder of stubs that stands in for the C library's headers.
pub(crate) struct Headers {
    pub(crate) cuda: PathBuf,
    pub(crate) typedefs: PathBuf,
    pub(crate) nvrtc: PathBuf,
    /// Folder with the handful of standard types that the headers need.
    pub(crate) stubs: TempDir,
}

impl Headers {
    /// Fetches the pinned wheels and points bindgen at the pinned libclang.
    pub(crate) fn fetch() -> Result<Self, Failure> {
        let runtime = wheels::fetch(&RUNTIME_13_5)?.join(RUNTIME_13_5.content);
        let nvrtc = wheels::fetch(&NVRTC_13_5)?.join(NVRTC_13_5.content);
        let libclang = wheels::fetch(&LIBCLANG)?.join(LIBCLANG.content);
        // SAFETY: main calls this first, while the process has one thread.
        unsafe { std::env::set_var("LIBCLANG_PATH", &libclang) };
        Ok(Self {
            cuda: runtime.join("cuda.h"),
            typedefs: runtime.join("cudaTypedefs.h"),
            nvrtc: nvrtc.join("nvrtc.h"),
            stubs: write_stubs()?,
        })
    }
}

/// Writes stubs of the standard headers.
///
/// The wheel of libclang has no resource headers, and a C library's own would make the output
/// depend on the machine.
fn write_stubs() -> Result<TempDir, Failure> {
    let folder = tempfile::tempdir()?;
    let stdlib = "#pragma once\n#define NULL ((void*)0)\ntypedef __SIZE_TYPE__ size_t;\n";
    let stdint =
        "#pragma once\ntypedef __UINT32_TYPE__ uint32_t;\ntypedef __UINT64_TYPE__ uint64_t;\n";
    fs::write(folder.path().join("stdlib.h"), stdlib)?;
    fs::write(folder.path().join("stdint.h"), stdint)?;
    Ok(folder)
}

/// The hexadecimal SHA-256 of a file, for the first line of what is generated from it.
pub(crate) fn sha256(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}
