//! What CUDA has removed, and what NVRTC compiles only with an option or for a newer architecture.

use super::{Source, place};
use crate::Diagnostic;

/// Functions of a warp that took no mask. Source: CUDA C++ programming guide, "Warp Shuffle Functions" and "Warp Vote
/// Functions".
const WITHOUT_MASK: [&str; 7] =
    ["__all", "__any", "__ballot", "__shfl", "__shfl_down", "__shfl_up", "__shfl_xor"];

/// Functions that the prelude declares for newer architectures alone.
const NEW: [&str; 2] = ["cudaGridDependencySynchronize", "cudaTriggerProgrammaticLaunchCompletion"];

/// Returns what to do about an error of this kind.
pub(super) fn hint(error: &Diagnostic, source: Source<'_>) -> Option<String> {
    let message = error.message.as_str();
    let place = || place(error, source);
    let quoted = super::quoted(message);
    if message.starts_with("texture is not a template") {
        return Some(format!(
            "{} declares a texture reference, which CUDA 12 has removed: pass a `cudaTextureObject_t` to the kernel",
            place()
        ));
    }
    if message.starts_with("surface is not a template") {
        return Some(format!(
            "{} declares a surface reference, which CUDA 12 has removed: pass a `cudaSurfaceObject_t` to the kernel",
            place()
        ));
    }
    if message.starts_with("namespace \"cooperative_groups\" has no member")
        && message.contains("multi_grid")
    {
        return Some(format!(
            "{} uses a grid on several devices (`multi_grid_group`), which CUDA 13 has removed: launch a grid on each device",
            place()
        ));
    }
    if message.starts_with("identifier ") && WITHOUT_MASK.binary_search(&quoted).is_ok() {
        return Some(format!(
            "{} calls `{quoted}`, which newer architectures do not have: call `{quoted}_sync` with the mask of the lanes",
            place()
        ));
    }
    if message.starts_with("identifier ") && NEW.contains(&quoted) {
        return Some(format!(
            "{} calls `{quoted}`, which architectures before sm_90 do not have: compile for `compute_90` or newer",
            place()
        ));
    }
    if message.contains("annotation on lambda requires --extended-lambda") {
        return Some(format!(
            "{} annotates a lambda, for which NVRTC has no option: in a kernel leave `__device__` out, and for an argument of a \
             kernel declare a structure with `operator()`",
            place()
        ));
    }
    if message.starts_with("128-bit integer type is only supported") {
        return Some(format!(
            "{} uses `__int128`: give the compiler its option by `Options::extra(\"--device-int128\")`",
            place()
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::parse;

    #[test]
    fn what_was_removed_is_named_with_its_line() {
        let of = |message: &str| {
            let log = parse(&format!("a.cu(7): error: {message}\n"));
            let source = Source { name: "a.cu", text: "", line: 1 };
            log.first().and_then(|error| hint(error, source)).unwrap_or_default()
        };
        for (message, part) in [
            ("texture is not a template", "a texture reference"),
            ("surface is not a template", "a surface reference"),
            (
                "namespace \"cooperative_groups\" has no member \"this_multi_grid\"",
                "`multi_grid_group`",
            ),
            ("identifier \"__shfl_down\" is undefined", "`__shfl_down_sync`"),
            ("identifier \"cudaGridDependencySynchronize\" is undefined", "before sm_90"),
            (
                "__host__ or __device__ annotation on lambda requires --extended-lambda nvcc flag",
                "annotates a lambda",
            ),
            (
                "128-bit integer type is only supported in Linux with the \"--device-int128\" flag in NVRTC",
                "--device-int128",
            ),
        ] {
            let hint = of(message);
            assert!(hint.starts_with("line 7 of a.cu") && hint.contains(part), "{message}: {hint}");
        }
        for message in [
            "identifier \"__shfl_down_sync\" is undefined",
            "namespace \"cooperative_groups\" has no member \"nothing\"",
            "vector is not a template",
        ] {
            assert_eq!(of(message), "");
        }
        assert!(WITHOUT_MASK.is_sorted());
    }
}
