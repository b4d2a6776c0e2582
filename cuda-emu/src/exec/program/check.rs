//! Whether a text is for this device.

use cuda_sys::CUresult;
use ptx::fatbin::{Arch, Specific};
use ptx::ir::{Formal, Function, FunctionKind, Module, Space as StateSpace};

use super::{LoadError, error};
use crate::exec::config::DeviceInfo;
use crate::exec::decode::marker_type;

/// Checks the version and target of a text against the device, and returns the target.
pub(super) fn check(module: &Module, device: &DeviceInfo) -> Result<Arch, LoadError> {
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
    let has = device.cc.0 * 10 + device.cc.1;
    let specific = match target.strip_prefix(digits) {
        Some("") => Specific::No,
        Some("f") => Specific::Family,
        _ => Specific::Architecture,
    };
    let arch = Arch { number, specific };
    if !arch.runs_on(has) {
        return Err(error(
            CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
            format!("the target sm_{target} is not for compute capability {has}"),
        ));
    }
    if module.address_size != 64 {
        return Err(error(CUresult::CUDA_ERROR_INVALID_PTX, "addresses are not of 64 bits"));
    }
    Ok(arch)
}

/// Bytes of local memory of a thread at most, its stack included, as GPUs have it. A multiple of 16.
pub(super) const MOST_LOCAL: u32 = 512 << 10;

/// Bytes of a kernel's parameters at most, since PTX ISA 8.1.
const MOST_PARAMS: u64 = 32_764;

/// Checks what functions declare against what a thread has, as ptxas does: all that is calculated with sizes
/// later stays far from the end of its numbers.
pub(super) fn check_sizes(module: &Module) -> Result<(), LoadError> {
    for function in &module.functions {
        let kernel = function.kind == FunctionKind::Entry;
        let (_, params) = function.param_layout();
        let local = local_bytes(function, kernel);
        let (what, bytes, most) = if kernel && params > MOST_PARAMS {
            ("parameters", params, MOST_PARAMS)
        } else if local > u64::from(MOST_LOCAL) {
            ("local memory", local, MOST_LOCAL.into())
        } else {
            continue;
        };
        return Err(error(
            CUresult::CUDA_ERROR_INVALID_PTX,
            format!("{} uses {bytes} bytes of {what}, where {most} are possible", function.name),
        ));
    }
    Ok(())
}

/// Bytes that a function takes of a thread's local memory; what it passes to others lies there too.
fn local_bytes(function: &Function, kernel: bool) -> u64 {
    let mut end = 0u64;
    let mut passed = vec![false; function.variables.len()];
    for formal in function.params.iter().filter(|_| kernel) {
        if let Formal::Var(v) = formal
            && let Some(passed) = passed.get_mut(v.index())
        {
            *passed = true;
        }
    }
    for (variable, passed) in function.variables.iter().zip(passed) {
        let counts = match variable.space {
            StateSpace::Local => true,
            StateSpace::Param | StateSpace::ParamEntry | StateSpace::ParamFunc => !passed,
            _ => false,
        };
        if counts {
            let start = end.checked_next_multiple_of(variable.align.max(1).into());
            end = start.unwrap_or(u64::MAX).saturating_add(variable.size());
        }
    }
    end
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

/// An instruction that PTX does not have makes the text wrong; an instruction that only this device lacks does not.
pub(super) fn check_opcodes(module: &Module) -> Result<(), LoadError> {
    for instr in module.functions.iter().flat_map(|function| function.instrs()) {
        if let ptx::ir::Op::Other { opcode, .. } = &instr.op {
            let first = opcode.split('.').next().unwrap_or_default();
            if marker_type(opcode).is_some() {
                continue;
            }
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
