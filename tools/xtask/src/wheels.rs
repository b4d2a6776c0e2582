//! NVIDIA's files that the project needs, taken from PyPI: pinned by version and SHA-256,
//! downloaded by pip and unpacked into `target/cuda/<name>-<version>/`.
//!
//! pip only downloads (`pip download`), it never installs: the user's Python stays as it is.
//! pip's own settings apply, so `PIP_INDEX_URL`, `PIP_FIND_LINKS` or `PIP_NO_INDEX` choose a mirror
//! or a folder of files; the hashes hold all the same.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::Error;

mod cuda_bindings;
mod numpy;
mod nvcc;

pub use cuda_bindings::{CUDA_BINDINGS, CUDA_PATHFINDER, cuda_bindings};
pub use numpy::{CYTHON, NUMPY, numpy_beside};
pub use nvcc::{CRT_13_0, NVCC_13_0, NVVM_13_0, RUNTIME_13_0, toolkit};

/// A package on PyPI, pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wheel {
    /// The package's name on PyPI.
    pub name: &'static str,
    /// The exact version.
    pub version: &'static str,
    /// Its description, for people.
    pub title: &'static str,
    /// The CPython that it is for, as its files' names say it (`cp311`); empty if any will do.
    pub python: &'static str,
    /// The needed part: a file or folder, relative to the unpacked wheel.
    pub content: &'static str,
    /// The files that may be downloaded: one per architecture of Linux.
    pub files: &'static [WheelFile],
}

/// One downloadable file of a [`Wheel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WheelFile {
    /// The architecture, as in [`std::env::consts::ARCH`].
    pub arch: &'static str,
    /// The file's name.
    pub name: &'static str,
    /// The file's SHA-256, in hexadecimal.
    pub sha256: &'static str,
}

/// NVRTC 13.0, the default: every driver from 13.0 loads what it compiles.
pub const NVRTC_13_0: Wheel = Wheel {
    name: "nvidia-cuda-nvrtc",
    version: "13.0.88",
    title: "NVRTC 13.0",
    python: "",
    content: "nvidia/cu13/lib/libnvrtc.so.13",
    files: &[
        WheelFile {
            arch: "x86_64",
            name: "nvidia_cuda_nvrtc-13.0.88-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
            sha256: "ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575",
        },
        WheelFile {
            arch: "aarch64",
            name: "nvidia_cuda_nvrtc-13.0.88-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
            sha256: "d27f20a0ca67a4bb34268a5e951033496c5b74870b868bacd046b1b8e0c3267b",
        },
    ],
};

/// NVRTC 12.0, the oldest that is supported. NVIDIA published it for x86_64 alone.
pub const NVRTC_12_0: Wheel = Wheel {
    name: "nvidia-cuda-nvrtc-cu12",
    version: "12.0.140",
    title: "NVRTC 12.0",
    python: "",
    content: "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
    files: &[WheelFile {
        arch: "x86_64",
        name: "nvidia_cuda_nvrtc_cu12-12.0.140-py3-none-manylinux1_x86_64.whl",
        sha256: "8e94e991d85c422de4da87bdc7472fdc1364367bd4aace7000b559cd33122071",
    }],
};

/// NVRTC 12.9, for drivers 12.x: NVRTC's major version must not exceed the driver's.
pub const NVRTC_12_9: Wheel = Wheel {
    name: "nvidia-cuda-nvrtc-cu12",
    version: "12.9.86",
    title: "NVRTC 12.9",
    python: "",
    content: "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
    files: &[
        WheelFile {
            arch: "x86_64",
            name: "nvidia_cuda_nvrtc_cu12-12.9.86-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
            sha256: "210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4",
        },
        WheelFile {
            arch: "aarch64",
            name: "nvidia_cuda_nvrtc_cu12-12.9.86-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
            sha256: "096d4de6bda726415dfaf3198d4f5c522b8e70139c97feef5cd2ca6d4cd9cead",
        },
    ],
};

/// nvJitLink 13.0: the linker, for its tests.
pub const NVJITLINK_13_0: Wheel = Wheel {
    name: "nvidia-nvjitlink",
    version: "13.0.88",
    title: "nvJitLink 13.0",
    python: "",
    content: "nvidia/cu13/lib/libnvJitLink.so.13",
    files: &[
        WheelFile {
            arch: "x86_64",
            name: "nvidia_nvjitlink-13.0.88-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
            sha256: "13a74f429e23b921c1109976abefacc69835f2f433ebd323d3946e11d804e47b",
        },
        WheelFile {
            arch: "aarch64",
            name: "nvidia_nvjitlink-13.0.88-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
            sha256: "e931536ccc7d467a98ba1d8b89ff7fa7f1fa3b13f2b0069118cd7f47bff07d0c",
        },
    ],
};

/// NVRTC 13.5: the bindings' `nvrtc.h`.
pub const NVRTC_13_5: Wheel = Wheel {
    name: "nvidia-cuda-nvrtc",
    version: "13.5.37",
    title: "NVRTC 13.5",
    python: "",
    content: "nvidia/cu13/include",
    files: &[
        WheelFile {
            arch: "x86_64",
            name: "nvidia_cuda_nvrtc-13.5.37-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
            sha256: "86b4d68058807988b7d9af5b44917a0601e9c337f35ccd657bfb3c759ff8d8bc",
        },
        WheelFile {
            arch: "aarch64",
            name: "nvidia_cuda_nvrtc-13.5.37-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
            sha256: "36e4fa2a8ada293f5693d308e531c196ab6f91cf7a0ff479bf96a537d43a6096",
        },
    ],
};

/// The CUDA runtime 13.5: the bindings' `cuda.h` and `cudaTypedefs.h`, and the headers that
/// device code may include.
pub const RUNTIME_13_5: Wheel = Wheel {
    name: "nvidia-cuda-runtime",
    version: "13.5.37",
    title: "CUDA headers 13.5",
    python: "",
    content: "nvidia/cu13/include",
    files: &[
        WheelFile {
            arch: "x86_64",
            name: "nvidia_cuda_runtime-13.5.37-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
            sha256: "df2b79a8852f10d1fef8c848489c49eebb5754051bf870202a862831412b179d",
        },
        WheelFile {
            arch: "aarch64",
            name: "nvidia_cuda_runtime-13.5.37-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
            sha256: "de2dc5a7367974228b0a69588a9acc9340d3768bef1bf38bf0801eb08497cd2d",
        },
    ],
};

/// The CUDA runtime 12.9: the bindings' layout of `cudaDeviceProp` before CUDA 13.
pub const RUNTIME_12_9: Wheel = Wheel {
    name: "nvidia-cuda-runtime-cu12",
    version: "12.9.79",
    title: "CUDA headers 12.9",
    python: "",
    content: "nvidia/cuda_runtime/include",
    files: &[
        WheelFile {
            arch: "x86_64",
            name: "nvidia_cuda_runtime_cu12-12.9.79-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
            sha256: "25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3",
        },
        WheelFile {
            arch: "aarch64",
            name: "nvidia_cuda_runtime_cu12-12.9.79-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
            sha256: "83469a846206f2a733db0c42e223589ab62fd2fabac4432d2f8802de4bded0a4",
        },
    ],
};

/// The compiler's own headers (`crt/`), which those of the runtime include.
pub const CRT_13: Wheel = Wheel {
    name: "nvidia-cuda-crt",
    version: "13.5.37",
    title: "CUDA compiler headers 13.5",
    python: "",
    content: "nvidia/cu13/include",
    files: &[
        WheelFile {
            arch: "x86_64",
            name: "nvidia_cuda_crt-13.5.37-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
            sha256: "e898b7f73d3035fa89915a3f7bf3b54a73e90249746111aed295822c4729bb29",
        },
        WheelFile {
            arch: "aarch64",
            name: "nvidia_cuda_crt-13.5.37-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
            sha256: "9ed2c565fdf3244fa6719769a80a466b85bfd4b1467ea339353bc91c971d09e0",
        },
    ],
};

/// CCCL (Thrust, CUB, libcu++): headers that device code may include.
pub const CCCL_13: Wheel = Wheel {
    name: "nvidia-cuda-cccl",
    version: "13.3.5.0.6",
    title: "CCCL headers",
    python: "",
    content: "nvidia/cu13/include/cccl",
    files: &[
        WheelFile {
            arch: "x86_64",
            name: "nvidia_cuda_cccl-13.3.5.0.6-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
            sha256: "d5230098fa2df5021e1a00c0c4eee41797671a91119d31e892463e5ccf3ee326",
        },
        WheelFile {
            arch: "aarch64",
            name: "nvidia_cuda_cccl-13.3.5.0.6-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
            sha256: "6f30b8076b3e69951c459c94ae190bde51924b320076ebaec376d36848b4c76e",
        },
    ],
};

/// cuBLAS: the bindings' `cublas_api.h` and `cublasLt.h`. 444 MB, so only `cargo xtask bindgen --libraries` fetches it.
pub const CUBLAS: Wheel = Wheel {
    name: "nvidia-cublas",
    version: "13.10.0.20",
    title: "cuBLAS 13.10",
    python: "",
    content: "nvidia/cu13/include",
    files: &[WheelFile {
        arch: "x86_64",
        name: "nvidia_cublas-13.10.0.20-py3-none-manylinux1_x86_64.manylinux_2_5_x86_64.whl",
        sha256: "dcc6d63884c53d07e267ce7e6feac17b2538cebaafec5db865736c3e28e4dc84",
    }],
};

/// cuFFT: the bindings' `cufft.h`. 162 MB, fetched as [`CUBLAS`].
pub const CUFFT: Wheel = Wheel {
    name: "nvidia-cufft",
    version: "12.4.0.43",
    title: "cuFFT 12.4",
    python: "",
    content: "nvidia/cu13/include",
    files: &[WheelFile {
        arch: "x86_64",
        name: "nvidia_cufft-12.4.0.43-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "0e8385013596b112d29c9ce8c63dc575b308d77636c7169104e18714f03961a8",
    }],
};

/// cuRAND: the bindings' `curand.h`. 61 MB, fetched as [`CUBLAS`].
pub const CURAND: Wheel = Wheel {
    name: "nvidia-curand",
    version: "10.4.4.72",
    title: "cuRAND 10.4",
    python: "",
    content: "nvidia/cu13/include",
    files: &[WheelFile {
        arch: "x86_64",
        name: "nvidia_curand-10.4.4.72-py3-none-manylinux_2_27_x86_64.whl",
        sha256: "25c3457ae7a224fdd484dab90b0fc5dc0e842fab5db3012afa4a5bd2af4eb7e5",
    }],
};

/// libclang, with which `xtask-bindgen` reads the headers.
pub const LIBCLANG: Wheel = Wheel {
    name: "libclang",
    version: "18.1.1",
    title: "libclang",
    python: "",
    content: "libclang-18.1.1.data/platlib/clang/native/libclang.so",
    files: &[
        WheelFile {
            arch: "x86_64",
            name: "libclang-18.1.1-py2.py3-none-manylinux2010_x86_64.whl",
            sha256: "c533091d8a3bbf7460a00cb6c1a71da93bffe148f172c7d03b1c31fbf8aa2a0b",
        },
        WheelFile {
            arch: "aarch64",
            name: "libclang-18.1.1-py2.py3-none-manylinux2014_aarch64.whl",
            sha256: "54dda940a4a0491a9d1532bf071ea3ef26e6dbaf03b5000ed94dd7174e8f9592",
        },
    ],
};

impl Wheel {
    /// The name of the folder that the wheel is unpacked into.
    #[must_use]
    pub fn folder_name(&self) -> String {
        match self.python {
            "" => format!("{}-{}", self.name, self.version),
            python => format!("{}-{}-{python}", self.name, self.version),
        }
    }

    /// The folder that [`fetch`] fills; it need not exist yet.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        store().join(self.folder_name())
    }

    /// The path of what is needed of the wheel; it need not exist yet.
    #[must_use]
    pub fn content_path(&self) -> PathBuf {
        self.folder().join(self.content)
    }

    /// The file for a system.
    ///
    /// # Errors
    /// When none is pinned for that system.
    pub fn file_for(&self, os: &str, arch: &str) -> Result<&'static WheelFile, Error> {
        let found = self.files.iter().find(|file| file.arch == arch);
        found.filter(|_| os == "linux").ok_or_else(|| {
            let known: Vec<&str> = self.files.iter().map(|file| file.arch).collect();
            format!(
                "{} {} is pinned for linux on {}, and this is {os} on {arch}",
                self.name,
                self.version,
                known.join(" and ")
            )
            .into()
        })
    }

    /// The requirements file that makes pip accept `file` and nothing else.
    #[must_use]
    pub fn requirement(&self, file: &WheelFile) -> String {
        format!("{}=={} --hash=sha256:{}\n", self.name, self.version, file.sha256)
    }
}

/// Downloads and unpacks `wheel`, unless that is done already, and returns its folder.
///
/// Safe when several processes or threads do it at once: one of them downloads, the others wait.
/// The folder appears whole or not at all.
///
/// # Errors
/// No wheel is pinned for this system, no `python3` with pip is found, or the download, its hash
/// or the unpacking failed.
pub fn fetch(wheel: &Wheel) -> Result<PathBuf, Error> {
    let folder = wheel.folder();
    if wheel.content_path().exists() {
        return Ok(folder);
    }
    let file = wheel.file_for(env::consts::OS, env::consts::ARCH)?;
    let store = store();
    fs::create_dir_all(&store).map_err(|error| failed("create", &store, error))?;

    let lock_path = store.join(format!(".{}.lock", wheel.folder_name()));
    let lock = File::create(&lock_path).map_err(|error| failed("create", &lock_path, error))?;
    lock.lock().map_err(|error| failed("lock", &lock_path, error))?;
    // The previous holder of the lock may have done the work.
    if !wheel.content_path().exists() {
        // The lock makes us the only user of this name; what lies there is from a run that was cut off.
        let partial = store.join(format!(".{}.partial", wheel.folder_name()));
        let filled =
            remove_tree(&partial).and_then(|()| fill(wheel, file, &partial)).and_then(|unpacked| {
                // A folder without its content was damaged by hand.
                remove_tree(&folder)?;
                fs::rename(&unpacked, &folder).map_err(|error| failed("create", &folder, error))
            });
        // Report the first failure.
        let cleaned = remove_tree(&partial);
        filled.and(cleaned)?;
    }
    Ok(folder)
}

/// Downloads `file` into `partial`, unpacks it below, and returns the unpacked folder.
fn fill(wheel: &Wheel, file: &WheelFile, partial: &Path) -> Result<PathBuf, Error> {
    let download = partial.join("download");
    fs::create_dir_all(&download).map_err(|error| failed("create", &download, error))?;
    let requirements = partial.join("requirements.txt");
    fs::write(&requirements, wheel.requirement(file))
        .map_err(|error| failed("write", &requirements, error))?;

    let python = python()?;
    eprintln!("xtask: downloading {} {}", wheel.name, wheel.version);
    let mut pip = module(&python, "pip");
    pip.args(["download", "--quiet", "--no-input"])
        .args(["--disable-pip-version-check", "--no-deps"])
        .args(["--only-binary=:all:", "--require-hashes", "--requirement"])
        .arg(&requirements)
        .arg("--dest")
        .arg(&download);
    let what = format!("pip could not download {} {}", wheel.name, wheel.version);
    checked(&mut pip, &what)?;

    let archive = download.join(file.name);
    let unpacked = partial.join("unpacked");
    let mut zip = module(&python, "zipfile");
    zip.arg("--extract").arg(&archive).arg(&unpacked);
    checked(&mut zip, &format!("{} could not be unpacked", file.name))?;
    let content = unpacked.join(wheel.content);
    if !content.exists() {
        return Err(format!("{} does not hold {}", file.name, wheel.content).into());
    }
    Ok(unpacked)
}

/// Exits with 0 if this Python is new enough and has pip; imports nothing from the current folder.
const PROBE: &str = "import sys; sys.path = [p for p in sys.path if p]; import pip; \
                     sys.exit(sys.version_info < (3, 8))";

/// A Python 3 that has pip: the one named by the environment variable `PYTHON`, else `python3`,
/// else `python`.
///
/// # Errors
/// Names what was tried and which command installs what is missing.
pub fn python() -> Result<OsString, Error> {
    let candidates = match env::var_os("PYTHON") {
        Some(named) => vec![named],
        None => vec!["python3".into(), "python".into()],
    };
    let mut tried = Vec::new();
    for python in candidates {
        let shown = python.to_string_lossy().into_owned();
        let probe = Command::new(&python).args(["-c", PROBE]).stdin(Stdio::null()).output();
        match probe {
            Ok(answer) if answer.status.success() => return Ok(python),
            Ok(answer) => tried.push(format!("  {shown}: {}", last_line(&answer))),
            Err(error) => tried.push(format!("  {shown}: {error}")),
        }
    }
    Err(format!(
        "no Python 3.8 or newer with pip was found:\n{}\n\
         pip is needed to download NVIDIA's compiler and headers. Install it, for example with \
         `apt-get install python3-pip`, `dnf install python3-pip` or `python3 -m ensurepip --user`, \
         or name a Python that has it: PYTHON=/path/to/python3",
        tried.join("\n")
    )
    .into())
}

/// Runs the module that its first argument names, as `-m` does, but imports nothing from the current folder. (`-I`
/// would do that too, but it also ignores a pip that is installed for the user alone, and `-P` came with Python 3.11.)
const RUN_MODULE: &str = "import sys; sys.path = [p for p in sys.path if p]; del sys.argv[0]; import runpy; \
                          runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)";

/// A module of Python's, to be given its arguments.
fn module(python: &OsString, name: &str) -> Command {
    let mut command = Command::new(python);
    command.args(["-c", RUN_MODULE, name]);
    command
}

/// Runs a command to its end; its output is shown only if it fails.
fn checked(command: &mut Command, what: &str) -> Result<(), Error> {
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{what}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{what} ({}):\n{}", output.status, said.trim()).into())
}

/// The last line that a command wrote to its error output, which is where Python says the cause.
fn last_line(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    match said.lines().rfind(|line| !line.trim().is_empty()) {
        Some(line) => line.trim().to_owned(),
        None => "older than 3.8".to_owned(),
    }
}

/// The folder that all wheels are unpacked into: always below the workspace, wherever cargo builds.
#[must_use]
pub fn store() -> PathBuf {
    crate::root().join("target").join("cuda")
}

fn remove_tree(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path, error)),
        _ => Ok(()),
    }
}

fn failed(verb: &str, path: &Path, error: io::Error) -> Error {
    format!("cannot {verb} {}: {error}", path.display()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn all() -> Vec<Wheel> {
        let mut all =
            vec![NVRTC_13_0, NVRTC_12_0, NVRTC_12_9, NVRTC_13_5, RUNTIME_13_5, RUNTIME_12_9];
        all.extend([CRT_13, NVCC_13_0, NVVM_13_0, CRT_13_0, RUNTIME_13_0]);
        all.extend([CCCL_13, LIBCLANG, CUDA_PATHFINDER, NVJITLINK_13_0, CUBLAS, CUFFT, CURAND]);
        all.push(CYTHON);
        all.extend(CUDA_BINDINGS);
        all.extend(NUMPY);
        all
    }

    #[test]
    fn requirement_pins_version_and_hash() -> Result<(), Error> {
        let file = NVRTC_13_0.file_for("linux", "x86_64")?;
        assert_eq!(
            NVRTC_13_0.requirement(file),
            "nvidia-cuda-nvrtc==13.0.88 \
             --hash=sha256:ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575\n"
        );
        Ok(())
    }

    #[test]
    fn every_file_belongs_to_its_wheel() {
        let mut hashes = HashSet::new();
        for wheel in all() {
            let stem = format!("{}-{}-", wheel.name.replace('-', "_"), wheel.version);
            for file in wheel.files {
                assert!(file.name.starts_with(&stem), "{}", file.name);
                assert!(file.name.contains(wheel.python), "{}", file.name);
                let any = file.name.ends_with("-none-any.whl");
                assert!(any || file.name.ends_with(&format!("_{}.whl", file.arch)));
                let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
                assert!(file.sha256.len() == 64 && file.sha256.chars().all(hex));
                assert!(hashes.insert(file.sha256) || any, "{} has another's hash", file.name);
            }
        }
    }

    #[test]
    fn every_wheel_has_a_folder_of_its_own() {
        let folders: HashSet<PathBuf> = all().iter().map(Wheel::folder).collect();
        assert_eq!(folders.len(), all().len());
        let expected = Path::new("target/cuda/nvidia-cuda-nvrtc-cu12-12.0.140");
        assert!(NVRTC_12_0.folder().ends_with(expected));
    }

    /// Needs a Python, as setup does.
    #[test]
    fn python_imports_nothing_from_the_current_folder() -> Result<(), Error> {
        let python = python()?;
        let folder = env::temp_dir().join(format!("xtask-python-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        for module in ["pip", "runpy", "sysconfig", "zipfile", "typing"] {
            fs::write(folder.join(format!("{module}.py")), "open('ran', 'w')\n")?;
        }
        let mut probe = Command::new(&python);
        probe.args(["-c", PROBE]);
        let mut zip = module(&python, "zipfile");
        zip.args(["--list", "none"]);
        let mut pip = module(&python, "pip");
        pip.arg("--version");
        let ran = folder.join("ran");
        for command in [&mut probe, &mut zip, &mut pip] {
            let output = command.current_dir(&folder).stdin(Stdio::null()).output()?;
            assert!(!ran.exists(), "{command:?}: {output:?}");
        }
        let said = String::from_utf8_lossy(&pip.output()?.stdout).into_owned();
        remove_tree(&folder)?;
        assert!(said.starts_with("pip "), "{said}");
        Ok(())
    }

    #[test]
    fn a_system_without_a_wheel_is_named() {
        for (os, arch) in [("linux", "aarch64"), ("macos", "x86_64")] {
            let Err(error) = NVRTC_12_0.file_for(os, arch) else {
                panic!("there is no NVRTC 12.0 for {os} on {arch}");
            };
            assert_eq!(
                error.to_string(),
                format!(
                    "nvidia-cuda-nvrtc-cu12 12.0.140 is pinned for linux on x86_64, \
                     and this is {os} on {arch}"
                )
            );
        }
    }
}
