//! The host's time to record launches and to enqueue their adjoints, compared with raw launches of the same kernels:
//! 10,000 particles keep the device busy for less time than that.

use std::ffi::c_void;

use cuda_safe::{DeviceBuffer, Kernel, LaunchConfig, sys::CUdeviceptr};
use tape::{ABI, Frame};

use super::particles::Set;
use super::{BLOCK, Ops, STEPS};
use crate::gpu::Gpu;
use crate::raw::Launcher;
use crate::report::Row;
use crate::rows::Bench;
use crate::stop::Stop;
use crate::timing::{Paired, once};

pub(super) const NAMES: [&str; 2] = ["tape_forward_host/10000x64", "tape_backward_host/10000x64"];

const PARTICLES: usize = 10_000;
const MOST_RATIO: f64 = 1.3;

/// The same launches as a C program makes them: kernels of the same arguments.
pub(super) struct Raw<'a> {
    kernel: Kernel,
    adjoint: Kernel,
    gpu: &'a Gpu,
    launch: LaunchConfig,
    n: u32,
    /// Of places and velocities, by step.
    path: Vec<[CUdeviceptr; 2]>,
    /// Two of each, in turns.
    gradients: [[DeviceBuffer<[f32; 3]>; 2]; 2],
}

impl<'a> Raw<'a> {
    pub(super) fn new(gpu: &'a Gpu, ops: &Ops, set: &Set, n: usize) -> Result<Self, Stop> {
        let gradient = || DeviceBuffer::zeroed(&gpu.stream, n);
        Ok(Self {
            kernel: ops.module.kernel("step")?,
            adjoint: ops.module.kernel("step_adjoint")?,
            gpu,
            launch: LaunchConfig::cover(n, BLOCK),
            n: n as u32,
            path: set.path.iter().map(|[x, v]| [x.device_ptr(), v.device_ptr()]).collect(),
            gradients: [[gradient()?, gradient()?], [gradient()?, gradient()?]],
        })
    }

    fn launcher(&self, kernel: &Kernel) -> Result<Launcher, Stop> {
        let (grid, block) = (self.launch.grid.x, self.launch.block.x);
        Launcher::new(self.gpu.driver, kernel, &self.gpu.stream, grid, block)
    }

    pub(super) fn forward(&self) -> Result<f64, Stop> {
        let launcher = self.launcher(&self.kernel)?;
        self.gpu.stream.synchronize()?;
        let (ns, ()) = once(|| {
            for pair in self.path.windows(2) {
                let &[[mut x, mut v], [mut x1, mut v1]] = pair else { continue };
                let mut n = self.n;
                let mut parameters: [*mut c_void; 5] = [
                    (&raw mut x).cast(),
                    (&raw mut v).cast(),
                    (&raw mut x1).cast(),
                    (&raw mut v1).cast(),
                    (&raw mut n).cast(),
                ];
                // SAFETY: pointers to values of the kernel's five parameters; `set` keeps the buffers, of n
                // elements each, and nothing else uses them until the stream is waited for.
                unsafe { launcher.call(parameters.as_mut_ptr()) }?;
            }
            Ok(())
        })?;
        Ok(ns / STEPS as f64)
    }

    pub(super) fn backward(&self) -> Result<f64, Stop> {
        let launcher = self.launcher(&self.adjoint)?;
        let gradients =
            self.gradients.each_ref().map(|pair| pair.each_ref().map(DeviceBuffer::device_ptr));
        let extents = |extent: cuda_safe::Dim3| [extent.x, extent.y, extent.z];
        let mut frame = Frame {
            abi: ABI,
            flags: 0,
            fwd_grid: extents(self.launch.grid),
            fwd_block: extents(self.launch.block),
            fwd_shared: 0,
            partials_log2: 0,
            tape: 0,
            tape_bytes: 0,
            scratch: 0,
            scratch_bytes: 0,
            log: 0,
            log_bytes: 0,
            status: 0,
            assign: 0b0011,
            drop: 0b1100,
            reserved: [0; 2],
        };
        self.gpu.stream.synchronize()?;
        let (ns, ()) = once(|| {
            for (number, pair) in self.path.windows(2).enumerate().rev() {
                let &[[mut x, mut v], [mut x1, mut v1]] = pair else { continue };
                let mut n = self.n;
                let ([mut gx, mut gv], [mut gx1, mut gv1]) =
                    (gradients[number % 2], gradients[(number + 1) % 2]);
                let mut parameters: [*mut c_void; 10] = [
                    (&raw mut x).cast(),
                    (&raw mut v).cast(),
                    (&raw mut x1).cast(),
                    (&raw mut v1).cast(),
                    (&raw mut n).cast(),
                    (&raw mut gx).cast(),
                    (&raw mut gv).cast(),
                    (&raw mut gx1).cast(),
                    (&raw mut gv1).cast(),
                    (&raw mut frame).cast(),
                ];
                // SAFETY: as above, of the adjoint's ten parameters; gradients have n elements too.
                unsafe { launcher.call(parameters.as_mut_ptr()) }?;
            }
            Ok(())
        })?;
        Ok(ns / STEPS as f64)
    }
}

pub(super) fn rows(bench: &Bench) -> Result<Vec<Row>, Stop> {
    measure(bench.gpu()?, bench.pairs, PARTICLES)
}

pub(super) fn measure(gpu: &Gpu, pairs: usize, n: usize) -> Result<Vec<Row>, Stop> {
    let (stream, ops) = (&gpu.stream, Ops::new(gpu)?);
    let mut set = Set::new(gpu, n, 0)?;
    let raw = Raw::new(gpu, &ops, &set, n)?;
    let mut forward = || {
        stream.synchronize()?;
        let (ns, ()) = once(|| Ok(set.forward(stream, &ops.step, None)?))?;
        Ok(ns / STEPS as f64)
    };
    let forward = Paired::measure(pairs, &mut forward, &|| raw.forward())?;
    stream.synchronize()?;
    let ends = set.check_ends(stream, n)?;
    // Recorded anew each time, so that the plan is made each time.
    let mut backward = || {
        set.forward(stream, &ops.step, Some(&ops.energy))?;
        stream.synchronize()?;
        let (ns, ()) = once(|| Ok(set.backward(stream)?))?;
        Ok(ns / STEPS as f64)
    };
    let backward = Paired::measure(pairs, &mut backward, &|| raw.backward())?;
    stream.synchronize()?;
    let gradients = set.check_gradients(stream, n)?;
    let row = |name, paired: &Paired, check: String| -> Result<Row, Stop> {
        let ratio = paired.ratio().median;
        let row = Row::host(name, paired).figure("ratio", ratio).check(check);
        Ok(row.image(ops.image(gpu)?).device(&gpu.name).at_most("ratio", ratio, MOST_RATIO))
    };
    Ok(vec![
        row(NAMES[0], &forward, format!("places of {ends} particles equal f64 to 1e-4"))?,
        row(NAMES[1], &backward, format!("gradients of {gradients} particles equal f64 to 1e-4"))?,
    ])
}
