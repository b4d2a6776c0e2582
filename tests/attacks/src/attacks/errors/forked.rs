//! Attacks by forks of a process that uses the crate.

use cuda_safe::nvrtc::Arch;
use cuda_safe::{DeviceBuffer, Gate, KernelSource, Module, ModuleImage};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry one() { ret; }\n";

/// Calls what takes locks in a forked child, where threads of the parent may hold them, and drops what leaves something to
/// locked lists. Calls are errors, or return what says nothing, and the parent goes on.
///
/// - row: a forked child does not call the driver
/// - targets: `Module::compiled_kernels`, `Module::load_lazily`, `Module::kernel`, `Context::stats`,
///   `Context::take_drop_errors`, `Context::set_copy_threads`, `Allocation::version`, `Allocation::note_write`,
///   `Gate::protect`, `Gate::close`, `KernelSource::signatures`
fn locks_in_a_forked_child(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let module = Module::load_lazily(&context, ModuleImage::Ptx(PTX))?;
    module.kernel("one")?.load()?;
    let x = DeviceBuffer::from_slice(&stream, &[3u32; 1000])?;
    x.allocation().note_write(3..5);
    let version = x.allocation().version(0..10);
    let gate = Gate::new();
    gate.protect(x.allocation())?;
    let graph = context.capture((), |s, ()| s.host_function_mut(|| ()))?;
    ensure!(context.stats().staging_bytes > 0, "nothing was staged");
    ensure_eq!(module.compiled_kernels(), ["one"]);
    let variant = lab.variant();
    let mut given = Some((module, x, graph, gate));
    let held = lab.in_fork(|| {
        let Some((module, x, graph, gate)) = given.take() else { return false };
        if variant == "dropped" {
            // The parent's handles are copies, so these are the last ones here.
            drop((module, x, graph, gate));
            return true;
        }
        context.set_copy_threads(2);
        x.allocation().note_write(0..3);
        let gate_refused = gate.close().is_err();
        let refused = gate_refused
            && module.kernel("one").is_err()
            && "__global__ void k() {}".signatures(Arch::compute(7, 5), &[]).is_err()
            && Gate::new().protect(x.allocation()).is_err();
        let silent = context.stats().staging_bytes == 0
            && context.take_drop_errors().is_empty()
            && module.compiled_kernels().is_empty()
            && !context.is_recording();
        refused && silent && x.allocation().version(0..10) == u64::MAX
    })?;
    ensure!(held, "the child was not refused, or hangs");
    let Some((module, x, graph, gate)) = given else { return Err(Failure::new("nothing is left")) };
    ensure_eq!(x.allocation().version(0..10), version);
    ensure_eq!(module.compiled_kernels(), ["one"]);
    gate.protect(x.allocation())?;
    ensure_eq!(x.to_vec(&stream)?, [3; 1000]);
    drop((module, x, graph, gate));
    context.free_deferred()?;
    Ok(())
}

attacks!["errors", right(locks_in_a_forked_child).variants(&["asked", "dropped"]),];
