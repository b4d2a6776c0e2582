//! The one place where the driver meets the executor.

use std::sync::Arc;
use std::time::Instant;

use cuda_sys::CUresult;

use super::process::Process;
use super::stream::engine::Turn;
use crate::config::{Config, Contraction};
use crate::exec::{Around, Env, ExecConfig};
pub(super) use crate::exec::{DeviceInfo, EntryAttributes, EntryId, Heap, Launch, Program};
use crate::run::{Launched, note_launch};

/// Returns the properties of a device.
pub(super) fn device_info(config: &Config, ordinal: u32) -> DeviceInfo {
    let (major, minor) = config.compute_capability;
    let like = match config.profile {
        Some(profile) => profile.title().to_owned(),
        None => format!("sm_{major}{minor}"),
    };
    let mut info = DeviceInfo {
        ordinal,
        name: format!("CUDA emulator (software), {like}"),
        cc: (major, minor),
        multiprocessors: config.multiprocessors,
        total_memory: config.memory,
        contract: config.contraction == Contraction::Always,
        checks: config.checks,
        tangents: config.tangents,
        counts: config.reports(),
        taint: config.taint && !config.tangents,
        isa: config.ptx_isa,
        ..DeviceInfo::default()
    };
    if let Some(profile) = config.profile {
        profile.apply(&mut info);
    }
    info
}

/// Loads a program, with a limit on the registers of its kernels, 0 for none. The log says what is wrong, if something is.
pub(super) fn load(
    process: &Process,
    text: &str,
    device: u32,
    registers: u32,
) -> Result<Program, (CUresult, String)> {
    let bad = || (CUresult::CUDA_ERROR_INVALID_DEVICE, String::new());
    let info = process.devices.get(device as usize).ok_or_else(bad)?;
    let loaded = Program::load(text, &process.space, info);
    let mut program = loaded.map_err(|error| (error.code, error.log))?;
    if registers != 0 {
        program.limit_registers(registers);
    }
    Ok(program)
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
    let started = Instant::now();
    let (stats, fault) = crate::exec::run_stats(&work.program, &work.launch, &env, &around);
    if device.counts {
        let product = |of: [u32; 3]| of.iter().map(|&each| u64::from(each)).product::<u64>();
        let blocks = product(work.launch.grid);
        note_launch(&Launched {
            kernel: work.program.name(work.launch.entry),
            blocks,
            threads: blocks * product(work.launch.block),
            time: started.elapsed(),
            executed: &stats.executed,
            reached: &stats.reached,
        });
    }
    match fault {
        None => Ok(()),
        Some(fault) => Err((fault.code, fault.report.to_string())),
    }
}
