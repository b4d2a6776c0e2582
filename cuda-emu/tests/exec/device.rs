//! A device for one test: memory, settings, and what kernels print.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cuda_emu::exec::{
    DeviceInfo, Env, ExecConfig, Fault, Heap, Launch, LoadError, Program, Stats, run,
};
use cuda_emu::space::{Kind, Space};

/// Memory and settings.
pub(crate) struct Device {
    pub(crate) space: Arc<Space>,
    pub(crate) info: DeviceInfo,
    pub(crate) config: ExecConfig,
    pub(crate) heap: Heap,
    pub(crate) printed: Mutex<Vec<u8>>,
}

/// A launch with its dimensions.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) cooperative: bool,
    pub(crate) cluster: Option<[u32; 3]>,
}

/// A one-dimensional launch.
pub(crate) fn shape(grid: u32, block: u32) -> Shape {
    Shape { grid: [grid, 1, 1], block: [block, 1, 1], shared: 0, cooperative: false, cluster: None }
}

impl Device {
    pub(crate) fn new(workers: usize) -> Self {
        let space = Space::new().expect("a range of addresses");
        let mut config = ExecConfig::default();
        config.workers = workers;
        config.timeout = Some(Duration::from_secs(20));
        Self {
            space,
            info: DeviceInfo::default(),
            config,
            heap: Heap::new(0, 8 << 20),
            printed: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn load(&self, ptx: &str) -> Result<Program, LoadError> {
        Program::load(ptx, &self.space, &self.info)
    }

    /// Memory that holds these values.
    pub(crate) fn upload<T: Copy>(&self, values: &[T]) -> u64 {
        let bytes = size_of_val(values) as u64;
        let start = self.space.allocate(bytes, 256, Kind::Device, 0).expect("memory");
        // SAFETY: the allocation has room for the values, and nothing else uses it.
        unsafe {
            std::ptr::copy_nonoverlapping(values.as_ptr(), start as *mut T, values.len());
        }
        start
    }

    pub(crate) fn download<T: Copy>(&self, start: u64, count: usize) -> Vec<T> {
        // SAFETY: the caller names values that it has uploaded, and no kernel runs.
        unsafe { std::slice::from_raw_parts(start as *const T, count) }.to_vec()
    }

    pub(crate) fn launch(
        &self,
        program: &Program,
        name: &str,
        shape: Shape,
        args: &[u64],
    ) -> Result<Stats, Fault> {
        let entry = program.entry(name).unwrap_or_else(|| panic!("no kernel {name}"));
        let mut params = vec![0; program.param_bytes(entry)];
        assert_eq!(program.params(entry).len(), args.len(), "arguments of {name}");
        for (&(offset, bytes), arg) in program.params(entry).iter().zip(args) {
            params[offset..offset + bytes].copy_from_slice(&arg.to_le_bytes()[..bytes]);
        }
        let Shape { grid, block, shared, cooperative, cluster } = shape;
        let launch = Launch { entry, grid, block, shared, params, cooperative, cluster };
        let printf = |text: &[u8]| self.printed.lock().expect("printed").extend_from_slice(text);
        let env = Env {
            space: &self.space,
            device: &self.info,
            config: &self.config,
            heap: &self.heap,
            printf: &printf,
        };
        run(program, &launch, &env)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.printed.lock().expect("printed")).into_owned()
    }
}
