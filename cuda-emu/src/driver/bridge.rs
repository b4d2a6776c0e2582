//! The one place where the driver meets the executor.

use std::sync::Arc;

use cuda_sys::CUresult;

use super::process::Process;
use super::stream::engine::Turn;
use crate::config::{Config, Contraction};
use crate::exec::{Around, Env, ExecConfig};
pub(super) use crate::exec::{DeviceInfo, EntryAttributes, EntryId, Heap, Launch, Program};

/// Returns the properties of a device.
pub(super) fn device_info(config: &Config, ordinal: u32) -> DeviceInfo {
    let (major, minor) = config.compute_capability;
    DeviceInfo {
        ordinal,
        name: format!("CUDA emulator (software), sm_{major}{minor}"),
        cc: (major, minor),
        multiprocessors: config.multiprocessors,
        total_memory: config.memory,
        contract: config.contraction == Contraction::Always,
        checks: config.checks,
        tangents: config.tangents,
        ..DeviceInfo::default()
    }
}

/// Loads a program. The log says what is wrong, if something is.
pub(super) fn load(
    process: &Process,
    text: &str,
    device: u32,
) -> Result<Program, (CUresult, String)> {
    let bad = || (CUresult::CUDA_ERROR_INVALID_DEVICE, String::new());
    let info = process.devices.get(device as usize).ok_or_else(bad)?;
    Program::load(text, &process.space, info).map_err(|error| (error.code, error.log))
}

/// A kernel launch, with all that it needs.
#[derive(Clone)]
pub(super) struct KernelWork {
    pub(super) program: Arc<Program>,
    pub(super) launch: Launch,
    pub(super) device: u32,
    /// The context that it is launched in. A graph's kernels may have others than the stream that the graph is launched on.
    pub(super) context: u64,
    pub(super) stack: u32,
    pub(super) heap: Arc<Heap>,
    /// The priority that it has as a node of a graph.
    pub(super) priority: i32,
}

/// Returns a heap for kernels.
pub(super) fn new_heap(bytes: usize, device: u32) -> Arc<Heap> {
    Arc::new(Heap::new(device, bytes as u64))
}

/// Runs a kernel to its end. A fault is its code and its report.
pub(super) fn run(
    process: &Process,
    work: &KernelWork,
    turn: &Turn,
) -> Result<(), (CUresult, String)> {
    let config = process.config;
    let bad = || (CUresult::CUDA_ERROR_INVALID_DEVICE, String::new());
    let device = process.devices.get(work.device as usize).ok_or_else(bad)?;
    let settings = ExecConfig {
        workers: config.workers,
        timeout: config.timeout,
        block_order_seed: turn.seed,
        stack_bytes: work.stack,
    };
    let env = Env {
        space: &process.space,
        device,
        config: &settings,
        heap: &work.heap,
        printf: &|bytes| process.print(bytes),
    };
    let around = Around {
        condition: &|handle, value| {
            turn.scope.as_ref().is_some_and(|scope| scope.set(handle, value))
        },
        reach: &|region| process.lock().reach(work.context, work.device, region),
    };
    match crate::exec::run_around(&work.program, &work.launch, &env, &around) {
        Ok(_) => Ok(()),
        Err(fault) => Err((fault.code, fault.report.to_string())),
    }
}
