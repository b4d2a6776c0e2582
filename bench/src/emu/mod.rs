//! A program on the software device's executor, without the driver around it, for the rows.

mod tree;

use std::sync::Arc;
use std::time::Instant;

use cuda_emu::exec::{DeviceInfo, Env, ExecConfig, Heap, Launch, Program, run};
use cuda_emu::space::{Kind, Space};
use cuda_safe::PackedPtx;

use crate::stop::Stop;

pub(crate) use tree::{nearest_brute_force, tree};

/// The PTX of `kernels.cu`.
pub(crate) const PTX: PackedPtx<'_> = PackedPtx::new("kernels", include_bytes!("kernels.ptx.gz"));

/// A loaded program and memory for it.
pub(crate) struct Machine {
    space: Arc<Space>,
    info: DeviceInfo,
    program: Program,
}

fn stopped(error: impl std::fmt::Display) -> Stop {
    Stop::failed(error.to_string())
}

impl Machine {
    pub(crate) fn new() -> Result<Self, Stop> {
        let space = Space::new().map_err(stopped)?;
        let info = DeviceInfo::default();
        let program = Program::load(&PTX.unpack()?, &space, &info).map_err(stopped)?;
        Ok(Self { space, info, program })
    }

    /// Copies values to the device's memory and says where they are.
    pub(crate) fn upload<T: Copy>(&self, values: &[T]) -> Result<u64, Stop> {
        let bytes = size_of_val(values) as u64;
        let start = self.space.allocate(bytes, 256, Kind::Device, 0).map_err(stopped)?;
        // SAFETY: the allocation has room for the values, and nothing else uses it yet.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), start as *mut T, values.len()) };
        Ok(start)
    }

    /// The `n` floats at `start`, which `upload` has returned for at least as many.
    pub(crate) fn download(&self, start: u64, n: usize) -> Vec<f32> {
        // SAFETY: the memory lives as long as the space, and no launch is running: `launch` ends
        // with its kernel.
        unsafe { std::slice::from_raw_parts(start as *const f32, n) }.to_vec()
    }

    /// Runs a kernel over `grid` blocks of 256 threads: seconds and lane-instructions.
    pub(crate) fn launch(
        &self,
        name: &str,
        workers: usize,
        grid: u32,
        arguments: &[u64],
    ) -> Result<(f64, f64), Stop> {
        let entry = self.program.entry(name).ok_or_else(|| stopped("no such kernel"))?;
        let mut params = vec![0; self.program.param_bytes(entry)];
        for (&(offset, bytes), argument) in self.program.params(entry).iter().zip(arguments) {
            params[offset..offset + bytes].copy_from_slice(&argument.to_le_bytes()[..bytes]);
        }
        let (grid, block) = ([grid, 1, 1], [256, 1, 1]);
        let launch =
            Launch { entry, grid, block, shared: 0, params, cooperative: false, cluster: None };
        let mut config = ExecConfig::default();
        config.workers = workers;
        let heap = Heap::new(0, 8 << 20);
        let (space, device) = (&*self.space, &self.info);
        let env = Env { space, device, config: &config, heap: &heap, printf: &|_| {} };
        let start = Instant::now();
        let stats = run(&self.program, &launch, &env).map_err(stopped)?;
        Ok((start.elapsed().as_secs_f64(), stats.lane_instructions as f64))
    }

    /// Loads another text: seconds, and how many kernels it has.
    pub(crate) fn load(&self, text: &str) -> Result<(f64, usize), Stop> {
        let start = Instant::now();
        let loaded = Program::load(text, &self.space, &self.info).map_err(stopped)?;
        Ok((start.elapsed().as_secs_f64(), loaded.entries().count()))
    }
}
