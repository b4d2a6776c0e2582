//! Where the headers and libclang come from: wheels pinned by hash, never what the machine has.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::TempDir;
use xtask::wheels::{
    self, CCCL_13, CRT_13, CUBLAS, CUFFT, CURAND, LIBCLANG, NVRTC_13_5, RUNTIME_13_5,
};

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

/// The headers of the libraries, which are in large wheels, and the folders of the headers that they include.
pub(crate) struct LibraryHeaders {
    pub(crate) cublas: PathBuf,
    pub(crate) cublaslt: PathBuf,
    pub(crate) cufft: PathBuf,
    pub(crate) curand: PathBuf,
    pub(crate) included: Vec<PathBuf>,
}

impl LibraryHeaders {
    pub(crate) fn fetch() -> Result<Self, Failure> {
        let included = [&RUNTIME_13_5, &CRT_13, &CCCL_13]
            .map(|wheel| wheels::fetch(wheel).map(|folder| folder.join(wheel.content)));
        let cublas = wheels::fetch(&CUBLAS)?.join(CUBLAS.content);
        Ok(Self {
            cublas: cublas.join("cublas_api.h"),
            cublaslt: cublas.join("cublasLt.h"),
            cufft: wheels::fetch(&CUFFT)?.join(CUFFT.content).join("cufft.h"),
            curand: wheels::fetch(&CURAND)?.join(CURAND.content).join("curand.h"),
            included: included.into_iter().collect::<Result<_, _>>()?,
        })
    }
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
    let mut stdint = "#pragma once\n".to_owned();
    for bits in [8, 16, 32, 64] {
        writeln!(stdint, "typedef __INT{bits}_TYPE__ int{bits}_t;")?;
        writeln!(stdint, "typedef __UINT{bits}_TYPE__ uint{bits}_t;")?;
    }
    fs::write(folder.path().join("stdlib.h"), stdlib)?;
    fs::write(folder.path().join("stdint.h"), stdint)?;
    // Included by the headers of the libraries, for nothing that their types need.
    for name in ["limits.h", "stddef.h"] {
        fs::write(folder.path().join(name), "#include <stdlib.h>\n")?;
    }
    fs::write(folder.path().join("stdio.h"), "#pragma once\ntypedef struct _IO_FILE FILE;\n")?;
    let math =
        "#pragma once\nfloat fabsf(float), sqrtf(float);\ndouble fabs(double), sqrt(double);\n";
    fs::write(folder.path().join("math.h"), math)?;
    Ok(folder)
}

/// The hexadecimal SHA-256 of a file, for the first line of what is generated from it.
pub(crate) fn sha256(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}
