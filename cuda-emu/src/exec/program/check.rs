//! Whether a text is for this device.

use cuda_sys::CUresult;
use ptx::ir::Module;

use super::{LoadError, error};
use crate::exec::config::DeviceInfo;

/// Checks the version and target of a text against the device.
pub(super) fn check(module: &Module, device: &DeviceInfo) -> Result<(), LoadError> {
    let (major, minor) = module.version;
    if module.version > device.isa {
        let (has_major, has_minor) = device.isa;
        return Err(error(
            CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
            format!("PTX ISA {major}.{minor} is newer than {has_major}.{has_minor}"),
        ));
    }
    let target = module.targets.iter().find_map(|t| t.strip_prefix("sm_"));
    let target = target.ok_or_else(|| {
        error(CUresult::CUDA_ERROR_INVALID_PTX, "the text names no target".to_owned())
    })?;
    let digits = target.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u32 = digits.parse().unwrap_or(0);
    let (has, exact) = (device.cc.0 * 10 + device.cc.1, digits != target);
    if number > has || (exact && number != has) {
        return Err(error(
            CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
            format!("the target sm_{target} is not for compute capability {has}"),
        ));
    }
    if module.address_size != 64 {
        return Err(error(CUresult::CUDA_ERROR_INVALID_PTX, "addresses are not of 64 bits"));
    }
    Ok(())
}

/// First words of the instructions that PTX has and `ptx` does not take apart.
const KNOWN: &[&str] = &[
    "tex",
    "tld4",
    "txq",
    "suld",
    "sust",
    "sured",
    "suq",
    "istypep",
    "wgmma",
    "tcgen05",
    "mapa",
    "getctarank",
    "barrier",
    "cp",
    "st",
    "ld",
    "red",
    "atom",
    "multimem",
    "setmaxnreg",
    "tensormap",
    "discard",
    "clusterlaunchcontrol",
    "mbarrier",
    "fence",
    "vadd",
    "vsub",
    "vabsdiff",
    "vmin",
    "vmax",
    "vshl",
    "vshr",
    "vmad",
    "vset",
    "mma",
    "wmma",
    "ldmatrix",
    "stmatrix",
    "movmatrix",
    "cvt",
    "add",
    "sub",
    "mul",
    "fma",
    "min",
    "max",
    "elect",
    "griddepcontrol",
    "createpolicy",
    "applypriority",
    "prefetch",
    "redux",
    "shfl",
    "vote",
    "match",
    "set",
    "setp",
    "mov",
    "dp4a",
    "dp2a",
    "tanh",
    "ex2",
    "call",
    "isspacep",
    "cvta",
    "stackrestore",
    "stacksave",
    "alloca",
];

/// An instruction that is none of PTX's makes the text wrong; one that only this device lacks does
/// not.
pub(super) fn check_opcodes(module: &Module) -> Result<(), LoadError> {
    for instr in module.functions.iter().flat_map(|function| function.instrs()) {
        if let ptx::ir::Op::Other { opcode, .. } = &instr.op {
            let first = opcode.split('.').next().unwrap_or_default();
            if !KNOWN.contains(&first.trim_end_matches(['2', '4'])) && !KNOWN.contains(&first) {
                return Err(error(
                    CUresult::CUDA_ERROR_INVALID_PTX,
                    format!("PTX line {}: unknown instruction {opcode}", instr.line),
                ));
            }
        }
    }
    Ok(())
}
