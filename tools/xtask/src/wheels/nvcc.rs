//! nvcc with what it needs, for tests of programs of the runtime API. The wheels have parts of a toolkit, which nvcc expects
//! in one folder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::{CCCL_13, RUNTIME_12_9, Wheel, WheelFile, failed, fetch, remove_tree, store};
use crate::Error;

/// nvcc 13.0, whose PTX the software device reads.
pub const NVCC_13_0: Wheel = Wheel {
    name: "nvidia-cuda-nvcc",
    version: "13.0.88",
    title: "nvcc 13.0",
    python: "",
    content: "nvidia/cu13/bin/nvcc",
    files: &[
        WheelFile {
            arch: "x86_64",
            name: "nvidia_cuda_nvcc-13.0.88-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
            sha256: "56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03",
        },
        WheelFile {
            arch: "aarch64",
            name: "nvidia_cuda_nvcc-13.0.88-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
            sha256: "c7ff28f86a24effdc6c034fa15230c549a273e4771b10a7fec14996f8cf3307f",
        },
    ],
};

/// The part of nvcc that writes PTX.
pub const NVVM_13_0: Wheel = Wheel {
    name: "nvidia-nvvm",
    version: "13.0.88",
    title: "NVVM 13.0",
    python: "",
    content: "nvidia/cu13/nvvm/bin/cicc",
    files: &[
        WheelFile {
            arch: "x86_64",
            name: "nvidia_nvvm-13.0.88-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
            sha256: "c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0",
        },
        WheelFile {
            arch: "aarch64",
            name: "nvidia_nvvm-13.0.88-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
            sha256: "c4376a291d72d22a315d9d2f69bdae8f8cd83a627f75bad395cee49a0fe65dc1",
        },
    ],
};

/// The compiler's headers of nvcc 13.0.
pub const CRT_13_0: Wheel = Wheel {
    name: "nvidia-cuda-crt",
    version: "13.0.88",
    title: "CUDA compiler headers 13.0",
    python: "",
    content: "nvidia/cu13/include/crt",
    files: &[
        WheelFile {
            arch: "x86_64",
            name: "nvidia_cuda_crt-13.0.88-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
            sha256: "2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4",
        },
        WheelFile {
            arch: "aarch64",
            name: "nvidia_cuda_crt-13.0.88-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
            sha256: "ee2ea2a97073e02ee62bb27841f437332be2c248e3eac013df07997ada39c003",
        },
    ],
};

/// The runtime 13.0: the headers of programs, and the library that they are linked to. No test loads it.
pub const RUNTIME_13_0: Wheel = Wheel {
    name: "nvidia-cuda-runtime",
    version: "13.0.96",
    title: "CUDA runtime 13.0",
    python: "",
    content: "nvidia/cu13/lib/libcudart.so.13",
    files: &[
        WheelFile {
            arch: "x86_64",
            name: "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
            sha256: "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
        },
        WheelFile {
            arch: "aarch64",
            name: "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
            sha256: "ef9bcbe90493a2b9d810e43d249adb3d02e98dd30200d86607d8d02687c43f55",
        },
    ],
};

/// The folders of a toolkit, in the wheels and in the result.
const PARTS: [(&str, &str); 4] =
    [("bin", "bin"), ("nvvm", "nvvm"), ("include", "include"), ("lib", "lib64")];
/// The folders of programs: unpacking forgets that files can be run.
const PROGRAMS: [&str; 2] = ["bin", "nvvm/bin"];

/// Fetches nvcc and what it needs, and returns the folder of the toolkit that they make.
///
/// # Errors
/// As for [`fetch`].
pub fn toolkit() -> Result<PathBuf, Error> {
    let folder = store().join(format!("toolkit-{}", NVCC_13_0.version));
    if folder.exists() {
        return Ok(folder);
    }
    let wheels = [NVCC_13_0, NVVM_13_0, CRT_13_0, RUNTIME_13_0, CCCL_13];
    let wheels = wheels.iter().map(fetch).collect::<Result<Vec<PathBuf>, Error>>()?;
    let lock_path = store().join(".toolkit.lock");
    let lock = File::create(&lock_path).map_err(|error| failed("create", &lock_path, error))?;
    lock.lock().map_err(|error| failed("lock", &lock_path, error))?;
    if folder.exists() {
        return Ok(folder);
    }
    // The lock makes us the only user of this name; what lies there is from a run that was cut off.
    let partial = store().join(".toolkit.partial");
    remove_tree(&partial)?;
    for wheel in wheels {
        for (from, to) in PARTS {
            let from = wheel.join("nvidia/cu13").join(from);
            if from.is_dir() {
                link_tree(&from, &partial.join(to))?;
            }
        }
    }
    for programs in PROGRAMS {
        for entry in fs::read_dir(partial.join(programs))? {
            make_executable(&entry?.path())?;
        }
    }
    // Programs of CUDA 12 are linked to its library.
    let older = fetch(&RUNTIME_12_9)?.join("nvidia/cuda_runtime");
    link_tree(&older, &partial.join("cuda-12"))?;
    // The name that linkers look for.
    let library = partial.join("lib64/libcudart.so");
    fs::hard_link(partial.join("lib64/libcudart.so.13"), &library)
        .map_err(|error| failed("create", &library, error))?;
    fs::rename(&partial, &folder).map_err(|error| failed("create", &folder, error))?;
    Ok(folder)
}

/// Makes a folder of the same files, without copying them.
fn link_tree(from: &Path, to: &Path) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(|error| failed("create", to, error))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            link_tree(&from, &to)?;
        } else if !to.exists() {
            fs::hard_link(&from, &to).map_err(|error| failed("create", &to, error))?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn make_executable(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    if path.is_file() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
            .map_err(|error| failed("change", path, error))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<(), Error> {
    Ok(())
}
