//! Passes over the compilers' texts: ptxas accepts what they write.

use std::error::Error;
use std::path::Path;

use nvrtc::{Arch, Linker};
use ptx::inline::{InlineError, inline};
use ptx::ir::{FunctionId, Module};
use ptx::simplify::single_exit;
use ptx::ssa::Ssa;

/// The folder of nvJitLink under `target/cuda`. It contains ptxas.
pub(crate) const LINKER: &str = "nvidia-nvjitlink-13.0.88/nvidia/cu13/lib";

/// Brings every function of `module` into static single assignment form and back, every other one with its calls inlined
/// and with one exit; and compiles the result.
pub(crate) fn check(module: &Module, linker: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let mut new = module.clone();
    for (at, function) in module.functions.iter().enumerate() {
        if function.body.is_none() {
            continue;
        }
        let flat = match inline(module, FunctionId(u32::try_from(at)?)) {
            Err(InlineError::Recursion { .. }) => function.clone(),
            flat => flat?,
        };
        let flat = if at % 2 == 0 { single_exit(module, &flat) } else { flat };
        for function in [function, &flat] {
            let ssa = Ssa::new(module, function)?;
            ssa.verify()?;
            new.functions[at] = ssa.into_function();
        }
    }
    let text = new.to_string();
    ptx::parse(&text)?;
    if let Some(linker) = linker {
        // SAFETY: NVIDIA's library, as `cargo xtask setup` fetched it by its hash.
        let linker = unsafe { Linker::new("sm_90".parse::<Arch>()?).library(linker) };
        // NVRTC 12.0 leaves references to functions that only clang's headers define.
        match linker.ptx("passes", text).link() {
            Err(error) if error.to_string().contains("Undefined reference") => {}
            linked => drop(linked?),
        }
    }
    Ok(())
}
