//! Detects this machine's GPU and the driver's version, without loading the driver.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

/// Whether tests can be expected to reach an NVIDIA GPU here.
pub(crate) fn has_gpu() -> bool {
    let names = fs::read_dir("/dev").into_iter().flatten().flatten();
    shows_gpu(names.map(|entry| entry.file_name())) && !hidden(env::var_os("CUDA_VISIBLE_DEVICES"))
}

/// Whether the names of device files include a GPU's: `nvidia0` and so on, or WSL's `dxg`.
fn shows_gpu(mut names: impl Iterator<Item = OsString>) -> bool {
    names.any(|name| {
        let Some(name) = name.to_str() else {
            return false;
        };
        let number = name.strip_prefix("nvidia").unwrap_or_default();
        name == "dxg" || (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// Whether `CUDA_VISIBLE_DEVICES` hides every GPU.
fn hidden(visible: Option<OsString>) -> bool {
    visible.is_some_and(|list| list.is_empty() || list.to_string_lossy().starts_with('-'))
}

/// The branch of the loaded NVIDIA driver, such as 580, if the kernel module says so.
pub(crate) fn driver_branch() -> Option<u32> {
    let path: &Path = OsStr::new("/proc/driver/nvidia/version").as_ref();
    parse_branch(&fs::read_to_string(path).ok()?)
}

/// The branch in the first line of `/proc/driver/nvidia/version`: the first word of it that is a
/// version number.
fn parse_branch(text: &str) -> Option<u32> {
    text.lines().next()?.split_whitespace().find_map(|word| {
        let (branch, rest) = word.split_once('.')?;
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        digits(rest).then(|| branch.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_is_read_from_both_kernel_modules() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder@host)\nGCC version: 15.3.0\n";
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\n";
        assert_eq!(parse_branch(open), Some(580));
        assert_eq!(parse_branch(closed), Some(550));
        assert_eq!(parse_branch("GCC version:  gcc version fifteen\n1.2.3"), None);
        assert_eq!(parse_branch(""), None);
    }

    #[test]
    fn only_numbered_device_files_are_gpus() {
        let shows = |names: &[&str]| shows_gpu(names.iter().map(OsString::from));
        assert!(shows(&["null", "nvidiactl", "nvidia0"]));
        assert!(shows(&["dxg"]));
        assert!(!shows(&["nvidiactl", "nvidia-uvm", "nvidia-caps", "nvidia"]));
        assert!(!shows(&[]));
    }

    #[test]
    fn visible_devices_can_hide_all() {
        assert!(hidden(Some("".into())));
        assert!(hidden(Some("-1".into())));
        assert!(!hidden(Some("0,1".into())));
        assert!(!hidden(Some("MIG-4d9e".into())));
        assert!(!hidden(None));
    }
}
