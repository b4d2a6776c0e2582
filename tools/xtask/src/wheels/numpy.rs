//! Packages for tests that call this project's libraries from Python: NumPy, which has a file for each CPython and
//! architecture, and Cython, which has one for all.

use super::{Wheel, WheelFile};

/// The wheel of a version for one CPython: the names of the platforms' tags, then the hashes for x86_64 and aarch64.
macro_rules! numpy {
    ($python:literal, $version:literal, $first:literal, $second:literal, $x86_64:literal, $aarch64:literal) => {
        Wheel {
            name: "numpy",
            version: $version,
            title: concat!("NumPy ", $version),
            python: $python,
            content: "numpy",
            files: &[
                numpy!(@file $python, $version, $first, $second, "x86_64", $x86_64),
                numpy!(@file $python, $version, $first, $second, "aarch64", $aarch64),
            ],
        }
    };
    (@file $python:literal, $version:literal, $first:literal, $second:literal, $arch:literal, $sha256:literal) => {
        WheelFile {
            arch: $arch,
            name: concat!(
                "numpy-", $version, "-", $python, "-", $python, "-", $first, "_", $arch, ".", $second, "_", $arch, ".whl"
            ),
            sha256: $sha256,
        }
    };
}

/// NumPy, the newest for each CPython that cuda-bindings has files for.
pub const NUMPY: [Wheel; 6] = [
    numpy!(
        "cp39",
        "2.0.2",
        "manylinux_2_17",
        "manylinux2014",
        "f26b258c385842546006213344c50655ff1555a9338e2e5e02a0756dc3e803dd",
        "1e795a8be3ddbac43274f18588329c72939870a16cae810c2b73461c40718ab1"
    ),
    numpy!(
        "cp310",
        "2.2.6",
        "manylinux_2_17",
        "manylinux2014",
        "fc7b73d02efb0e18c000e9ad8b83480dfcd5dfd11065997ed4c6747470ae8915",
        "efd28d4e9cd7d7a8d39074a4d44c63eda73401580c5c76acda2ce969e0a38e83"
    ),
    numpy!(
        "cp311",
        "2.3.5",
        "manylinux_2_27",
        "manylinux_2_28",
        "8cba086a43d54ca804ce711b2a940b16e452807acebe7852ff327f1ecd49b0d4",
        "3095bdb8dd297e5920b010e96134ed91d852d81d490e787beca7e35ae1d89cf7"
    ),
    numpy!(
        "cp312",
        "2.3.5",
        "manylinux_2_27",
        "manylinux_2_28",
        "0d8163f43acde9a73c2a33605353a4f1bc4798745a8b1d73183b28e5b435ae28",
        "8b973c57ff8e184109db042c842423ff4f60446239bd585a5131cc47f06f789d"
    ),
    numpy!(
        "cp313",
        "2.3.5",
        "manylinux_2_27",
        "manylinux_2_28",
        "11e06aa0af8c0f05104d56450d6093ee639e15f24ecf62d417329d06e522e017",
        "9c75442b2209b8470d6d5d8b1c25714270686f14c749028d2199c54e29f20b4d"
    ),
    numpy!(
        "cp314",
        "2.3.5",
        "manylinux_2_27",
        "manylinux_2_28",
        "fffe29a1ef00883599d1dc2c51aa2e5d80afe49523c261a74933df395c15c520",
        "727fd05b57df37dc0bcf1a27767a3d9a78cbbc92822445f32cc3436ba797337b"
    ),
];

/// Cython, without compiled parts.
pub const CYTHON: Wheel = Wheel {
    name: "cython",
    version: "3.1.6",
    title: "Cython 3.1",
    python: "",
    content: "Cython",
    files: &[cython("x86_64"), cython("aarch64")],
};

/// One file for every architecture.
const fn cython(arch: &'static str) -> WheelFile {
    WheelFile {
        arch,
        name: "cython-3.1.6-py3-none-any.whl",
        sha256: "91dcf7eb9b6a089ce4e9e1140e571d84c3bca834afb77ec269be7aa9d31a8157",
    }
}

/// Returns NumPy for the CPython that a wheel is for.
#[must_use]
pub fn numpy_beside(wheel: &Wheel) -> Option<Wheel> {
    NUMPY.into_iter().find(|numpy| numpy.python == wheel.python)
}

#[cfg(test)]
mod tests {
    use super::super::CUDA_BINDINGS;
    use super::*;

    #[test]
    fn each_python_with_bindings_has_a_numpy() {
        for bindings in CUDA_BINDINGS {
            let numpy = numpy_beside(&bindings);
            assert!(
                numpy.is_some_and(|numpy| numpy.python == bindings.python),
                "{}",
                bindings.python
            );
        }
    }
}
