//! cuda-bindings, NVIDIA's package of the driver API for Python, which the tests run on the software device. It has
//! a file for each CPython and architecture.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use super::{Wheel, WheelFile};
use crate::Error;

/// The wheels of one version: for each CPython the hashes of the files for x86_64 and aarch64.
macro_rules! bindings {
    ($($python:literal: $x86_64:literal, $aarch64:literal;)+) => {
        [$(Wheel {
            name: "cuda-bindings",
            version: "13.0.3",
            title: "cuda-bindings 13.0",
            python: $python,
            content: "cuda/bindings",
            files: &[
                bindings!(@file $python, "x86_64", $x86_64),
                bindings!(@file $python, "aarch64", $aarch64),
            ],
        }),+]
    };
    (@file $python:literal, $arch:literal, $sha256:literal) => {
        WheelFile {
            arch: $arch,
            name: concat!(
                "cuda_bindings-13.0.3-", $python, "-", $python,
                "-manylinux_2_24_", $arch, ".manylinux_2_28_", $arch, ".whl"
            ),
            sha256: $sha256,
        }
    };
}

/// cuda-bindings 13.0, for each CPython that there are files for.
pub const CUDA_BINDINGS: [Wheel; 6] = bindings! {
    "cp39": "547959c87185ce7d0a547afa1b728bb707c9f0db38994f8b89442f3bdc379d73", "abd8481400f959484e48008281b2ff034ac6973881906afee1d346e11f1e1aae";
    "cp310": "c5f797ce534a303525259be0ae7ee9cfcf4f7874b22f1f9b8e85555509dccb83", "d56e46a9e984bb754e56b9d060cf027fe99f08a97651ce6d8aa1c2032476d01e";
    "cp311": "9afede5937474864aa794eb57399dbdf5d2b05427aadcac275209b0857528a61", "dfd66c25a133365c4f93e3396c38c64b04400ccafd18c3a889ae251a1bfabaa1";
    "cp312": "cf41d9e69019939aa15296fa66ea7d3fdb8d2c6383f729f4b1156c8b37808a06", "b899e5a513c11eaa18648f9bf5265d8de2a93f76ef66a6bfca0a2887303965cd";
    "cp313": "512d0d803a5e47a8a42d5a34ce0932802bf72fe952fdb11ac798715a35c6e5cb", "fb16a7f769c9c67469add7a1d9f6c14dd44637f6921cb6b9eb82cb5015b35c3d";
    "cp314": "e93866465e7ff4b7ebdf711cf9cd680499cd875f992058c68be08d4775ac233d", "7c7e6e89cdfc9b34f16a065cc6ad6c4bab19ce5dcef8da3ace8ad10bda899fa0";
};

/// What cuda-bindings finds NVRTC with.
pub const CUDA_PATHFINDER: Wheel = Wheel {
    name: "cuda-pathfinder",
    version: "1.3.2",
    title: "cuda-pathfinder 1.3",
    python: "",
    content: "cuda/pathfinder",
    files: &[PATHFINDER_FOR[0], PATHFINDER_FOR[1]],
};

const PATHFINDER_FOR: [WheelFile; 2] = [pathfinder("x86_64"), pathfinder("aarch64")];

/// One file for every architecture.
const fn pathfinder(arch: &'static str) -> WheelFile {
    WheelFile {
        arch,
        name: "cuda_pathfinder-1.3.2-py3-none-any.whl",
        sha256: "7bd2774bc6be93aea226d579f415a63803b2b2c062207ed06c1d6dfc9cfacc3c",
    }
}

/// The wheel of cuda-bindings for a Python; if there is none, the reason.
///
/// # Errors
/// Python could not be run.
pub fn cuda_bindings(python: &OsStr) -> Result<Result<Wheel, String>, Error> {
    let shown = python.to_string_lossy();
    let answer = Command::new(python)
        .args(["-c", "import sys; sys.path = [p for p in sys.path if p]; import sysconfig; print(sysconfig.get_config_var('SOABI'))"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {shown}: {error}"))?;
    Ok(of_abi(String::from_utf8_lossy(&answer.stdout).trim()))
}

/// The wheel for a Python whose modules are called as `cpython-311-x86_64-linux-gnu` says.
fn of_abi(abi: &str) -> Result<Wheel, String> {
    let known = || {
        let (number, system) = abi.strip_prefix("cpython-")?.split_once('-')?;
        let tag = format!("cp{number}");
        system.ends_with("-linux-gnu").then_some(())?;
        CUDA_BINDINGS.into_iter().find(|wheel| wheel.python == tag)
    };
    known().ok_or_else(|| {
        let tags = CUDA_BINDINGS.map(|wheel| wheel.python).join(", ");
        format!(
            "cuda-bindings 13.0.3 is there for {tags} on Linux with glibc, and this Python is {abi}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_gets_its_own_wheel() {
        let python = |abi| of_abi(abi).map(|wheel| wheel.python);
        assert_eq!(python("cpython-311-x86_64-linux-gnu"), Ok("cp311"));
        assert_eq!(python("cpython-39-aarch64-linux-gnu"), Ok("cp39"));
        for other in [
            "cpython-38-x86_64-linux-gnu",
            "cpython-313t-x86_64-linux-gnu",
            "cpython-311-x86_64-linux-musl",
            "pypy310-pp73",
            "None",
        ] {
            assert!(python(other).is_err_and(|reason| reason.contains(other)), "{other}");
        }
    }

    #[test]
    fn files_are_for_one_python() {
        for wheel in CUDA_BINDINGS {
            for file in wheel.files {
                assert_eq!(file.name.matches(&format!("-{}-", wheel.python)).count(), 1);
            }
        }
    }
}
