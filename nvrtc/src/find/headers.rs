//! Where the headers that belong to an NVRTC lie.

use std::path::{Path, PathBuf};

use crate::trust::Rule;

/// Files and folders by which a folder is known to hold CUDA's headers.
const KNOWN: [&str; 4] =
    ["cuda_runtime.h", "cuda_fp16.h", "crt/host_defines.h", "cuda/std/cstdint"];

/// Returns the folders with CUDA's headers around the library at `library`: of the toolkit it is part of, of
/// the pip packages beside its own, or of the packages that `cargo xtask setup` fetched.
///
/// They are found by searching, even around a library that was named, so each folder and the header by which it is
/// known must pass [`Rule::beside`].
pub(crate) fn around(library: &Path) -> Vec<PathBuf> {
    let Some(folder) = library.parent() else { return Vec::new() };
    let mut candidates = Vec::new();
    // A toolkit, and the pip packages of CUDA 13: `lib` (or `lib64`) beside `include`. Toolkits also
    // have `targets/x86_64-linux/lib`, with `include` beside it.
    candidates.extend(folder.parent().map(|root| root.join("include")));
    // The pip packages of CUDA 12: `nvidia/cuda_nvrtc/lib` beside `nvidia/cuda_runtime/include`.
    if let Some(packages) = folder.ancestors().nth(2) {
        for package in ["cuda_runtime", "cuda_cccl", "cuda_nvcc"] {
            candidates.push(packages.join(package).join("include"));
        }
    }
    // `cargo xtask setup`: a folder for each package, with `nvidia/cu13/include` in it.
    let setup = folder.ancestors().find(|folder| folder.file_name().is_some_and(|n| n == "nvidia"));
    if let Some(all) = setup.and_then(Path::parent).and_then(Path::parent) {
        let mut packages: Vec<PathBuf> = std::fs::read_dir(all)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        packages.sort();
        let named = |path: &PathBuf| {
            path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with("nvidia-cuda-"))
        };
        for package in packages.iter().filter(|path| named(path)) {
            candidates.push(package.join("nvidia/cu13/include"));
        }
    }
    let with_cccl = candidates.into_iter().flat_map(|path| [path.join("cccl"), path]);
    let rule = Rule::beside(library);
    let mut found: Vec<PathBuf> = Vec::new();
    for path in with_cccl {
        let known = KNOWN.iter().any(|known| rule.resolve(&path.join(known)).is_ok());
        if let Ok(path) = rule.resolve(&path)
            && known
            && !found.contains(&path)
        {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::around;

    fn touch(root: &std::path::Path, file: &str) {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "").unwrap();
        // Whatever the umask is, only the user may write there.
        #[cfg(unix)]
        for step in path.ancestors().take_while(|step| *step != root) {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(step, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    #[test]
    fn toolkits_pip_packages_and_the_setup_folder() {
        let root = tempfile::tempdir().unwrap();
        let root = &root.path().canonicalize().unwrap();
        for (library, header, expected) in [
            ("kit/lib64/libnvrtc.so.13", "kit/include/cuda_runtime.h", "kit/include"),
            (
                "py/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
                "py/nvidia/cuda_runtime/include/cuda_fp16.h",
                "py/nvidia/cuda_runtime/include",
            ),
            (
                "cuda/nvidia-cuda-nvrtc-13.0.88/nvidia/cu13/lib/libnvrtc.so.13",
                "cuda/nvidia-cuda-cccl-13.3/nvidia/cu13/include/cccl/cuda/std/cstdint",
                "cuda/nvidia-cuda-cccl-13.3/nvidia/cu13/include/cccl",
            ),
        ] {
            touch(root, library);
            touch(root, header);
            assert_eq!(around(&root.join(library)), [root.join(expected)], "{library}");
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let library = root.join("kit/lib64/libnvrtc.so.13");
            let mode = |mode| {
                let mode = std::fs::Permissions::from_mode(mode);
                std::fs::set_permissions(root.join("kit/include"), mode).unwrap();
            };
            mode(0o777);
            assert!(around(&library).is_empty(), "headers that others may write");
            mode(0o755);
            std::fs::remove_file(root.join("kit/include/cuda_runtime.h")).unwrap();
            let header = root.join("kit/include/cuda_runtime.h");
            std::os::unix::fs::symlink(root.join("open/header.h"), header).unwrap();
            touch(root, "open/header.h");
            assert_eq!(around(&library), [root.join("kit/include")]);
            let open = std::fs::Permissions::from_mode(0o757);
            std::fs::set_permissions(root.join("open"), open).unwrap();
            assert!(around(&library).is_empty(), "a link to what others may write");
        }
        touch(root, "bare/lib/libnvrtc.so.13");
        assert!(around(&root.join("bare/lib/libnvrtc.so.13")).is_empty());
    }
}
