//! Where NCCL is: in the places of NVRTC, by the same rules. The crate `cuda-nccl` loads it.

use std::path::PathBuf;

use crate::error::Attempt;
use crate::find::library::{Sought, find};

/// Finds NCCL's library, and loads nothing: what the variable `CUDA_NCCL` names (the library or its folder), or else
/// `libnccl.so.2` in the first place of [`Nvrtc::find`](crate::Nvrtc::find) that has one. Pip's packages
/// `nvidia-nccl-cu12` and `nvidia-nccl-cu13` are among these places.
///
/// # Errors
/// Every place that was searched, and why nothing was taken there.
pub fn nccl_path() -> Result<PathBuf, Vec<Attempt>> {
    find(&NCCL, None)
}

const NCCL: Sought = Sought {
    name: "NCCL",
    variable: "CUDA_NCCL",
    package: "nccl",
    files: || vec![(2, "libnccl.so.2".to_owned())],
    preferred: None,
    most: None,
};

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn it_is_taken_by_its_name_from_the_folder_that_is_named() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let library = folder.path().join("lib/libnccl.so.2");
        std::fs::create_dir(folder.path().join("lib"))?;
        let tried = find(&NCCL, Some(folder.path())).err().unwrap_or_default();
        assert!(tried.iter().any(|attempt| attempt.reason == "holds no NCCL"), "{tried:?}");
        std::fs::write(&library, "")?;
        assert_eq!(find(&NCCL, Some(folder.path())).ok(), Some(library));
        Ok(())
    }

    #[test]
    fn its_package_is_searched_also_without_a_package_of_nvrtc() -> std::io::Result<()> {
        let packages = tempfile::tempdir()?;
        let lib = packages.path().join("nvidia/nccl/lib");
        std::fs::create_dir_all(&lib)?;
        assert_eq!(crate::find::nvidia_folders(packages.path()), [lib]);
        Ok(())
    }
}
