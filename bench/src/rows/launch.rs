//! The host's time of a launch.

use cuda_safe::dlpack::TensorRef;
use cuda_safe::dlpack::abi::{DLDataType, DLDevice, DLDeviceType, DLTensor};
use cuda_safe::{DeviceBuffer, LaunchConfig};

use super::{Bench, Work};
use crate::data::{check_saxpy, random};
use crate::gpu::{Gpu, Own, Saxpy};
use crate::raw::{Arrays, Launcher, synchronizer};
use crate::report::Row;
use crate::stop::Stop;
use crate::timing::{Paired, burst};

pub(super) const WORKS: &[Work] = &[
    Work { names: &["launch/empty", "launch/empty/safe"], run: empty },
    Work { names: &["launch/saxpy5", "launch/saxpy5/safe"], run: saxpy5 },
    Work { names: &["launch/lend_three_views"], run: lend_three_views },
    Work { names: &["launch_sync/saxpy5"], run: launch_sync },
];

/// Calls in a burst: fewer than the driver queues before a launch waits.
const CALLS: u32 = 200;

const ELEMENTS: usize = 1024;
const A: f32 = 2.5;
const MOST_DIFF_NS: f64 = 100.0;
/// The same for a call of an operator: the stream is lent, and three tensors are viewed.
const MOST_LEND_NS: f64 = 120.0;

fn empty(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let kernels = Own::load(&gpu.context)?;
    let kernel = kernels.empty_kernel();
    let launcher = Launcher::new(gpu.driver, kernel, &gpu.stream, 1, 32)?;
    let launch = LaunchConfig::new(1, 32);
    let raw = || {
        gpu.stream.synchronize()?;
        // SAFETY: kernel and stream are alive, and `empty` has no parameters.
        burst(CALLS, || unsafe { launcher.empty() })
    };
    let mut direct = || {
        gpu.stream.synchronize()?;
        // SAFETY: `empty` takes no arguments and touches no memory.
        burst(CALLS, || unsafe { kernel.launch(&gpu.stream, launch, ()) })
    };
    let direct = Paired::measure(bench.pairs, &mut direct, &raw)?;
    let mut safe = || {
        gpu.stream.synchronize()?;
        burst(CALLS, || kernels.empty(&gpu.stream, launch))
    };
    let safe = Paired::measure(bench.pairs, &mut safe, &raw)?;
    gpu.stream.synchronize()?;
    [("launch/empty", direct), ("launch/empty/safe", safe)]
        .iter()
        .map(|(work, paired)| row(work, paired, gpu, kernel, "no answer; the stream finished"))
        .collect()
}

fn row(
    work: &str,
    paired: &Paired,
    gpu: &Gpu,
    kernel: &cuda_safe::Kernel,
    check: &str,
) -> Result<Row, Stop> {
    Ok(Row::host(work, paired).check(check).image(gpu.image_of(kernel)?).device(&gpu.name).at_most(
        "diff_ns",
        paired.difference().median,
        MOST_DIFF_NS,
    ))
}

/// The kernel with five arguments on 1024 elements, and its buffers.
struct Five {
    kernels: Saxpy,
    x: DeviceBuffer<f32>,
    y: DeviceBuffer<f32>,
    out: DeviceBuffer<f32>,
    launch: LaunchConfig,
}

impl Five {
    fn new(gpu: &Gpu) -> Result<Self, Stop> {
        let input = |seed| DeviceBuffer::from_slice(&gpu.stream, &random(ELEMENTS, seed));
        Ok(Self {
            kernels: Saxpy::load(&gpu.context)?,
            x: input(1)?,
            y: input(2)?,
            out: DeviceBuffer::zeroed(&gpu.stream, ELEMENTS)?,
            launch: LaunchConfig::cover(ELEMENTS, 256),
        })
    }

    fn launcher(&self, gpu: &Gpu) -> Result<(Launcher, Arrays), Stop> {
        let (grid, block) = (self.launch.grid.x, self.launch.block.x);
        let kernel = self.kernels.saxpy_kernel();
        let launcher = Launcher::new(gpu.driver, kernel, &gpu.stream, grid, block)?;
        Ok((launcher, [self.x.device_ptr(), self.y.device_ptr(), self.out.device_ptr()]))
    }

    fn direct(&mut self, gpu: &Gpu) -> Result<(), cuda_safe::Error> {
        let arguments = (A, &self.x, &self.y, &mut self.out, ELEMENTS as u64);
        // SAFETY: the kernel has these five parameters, and the buffers have that many elements.
        unsafe { self.kernels.saxpy_kernel().launch(&gpu.stream, self.launch, arguments) }
    }

    fn safe(&mut self, gpu: &Gpu) -> Result<(), cuda_safe::Error> {
        let (out, n) = (&mut self.out, ELEMENTS as u64);
        self.kernels.saxpy(&gpu.stream, self.launch, A, &self.x, &self.y, out, n)
    }

    /// Runs `launch` on a cleared result and compares what it writes.
    fn check(
        &mut self,
        gpu: &Gpu,
        launch: impl FnOnce(&mut Self) -> Result<(), Stop>,
    ) -> Result<String, Stop> {
        self.out.fill(&gpu.stream, f32::NAN)?;
        launch(self)?;
        let out = self.out.to_vec(&gpu.stream)?;
        let right = check_saxpy(A, &random(ELEMENTS, 1), &random(ELEMENTS, 2), &out)?;
        Ok(format!("{right} of {ELEMENTS} elements equal f64"))
    }
}

fn saxpy5(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let mut five = Five::new(gpu)?;
    let (launcher, arrays) = five.launcher(gpu)?;
    // SAFETY: the launcher's kernel has these parameters; `five` keeps kernel and arrays.
    let call = || unsafe { launcher.saxpy(A, arrays, ELEMENTS as u64) };
    let raw = || {
        gpu.stream.synchronize()?;
        burst(CALLS, call)
    };
    let checks = [
        five.check(gpu, |_| Ok(call()?))?,
        five.check(gpu, |five| Ok(five.direct(gpu)?))?,
        five.check(gpu, |five| Ok(five.safe(gpu)?))?,
    ];
    let mut direct = || {
        gpu.stream.synchronize()?;
        burst(CALLS, || five.direct(gpu))
    };
    let direct = Paired::measure(bench.pairs, &mut direct, &raw)?;
    let mut safe = || {
        gpu.stream.synchronize()?;
        burst(CALLS, || five.safe(gpu))
    };
    let safe = Paired::measure(bench.pairs, &mut safe, &raw)?;
    gpu.stream.synchronize()?;
    let kernel = five.kernels.saxpy_kernel();
    [("launch/saxpy5", direct, &checks[1]), ("launch/saxpy5/safe", safe, &checks[2])]
        .iter()
        .map(|(work, paired, check)| row(work, paired, gpu, kernel, check))
        .collect()
}

/// Returns arrays of floats of one shape as a framework hands them over.
pub(super) fn tensors(arrays: Arrays, device_id: i32, shape: &mut [i64; 1]) -> [DLTensor; 3] {
    let shape = shape.as_mut_ptr();
    arrays.map(|start| DLTensor {
        data: std::ptr::with_exposed_provenance_mut(start as usize),
        device: DLDevice { device_type: DLDeviceType::CUDA, device_id },
        ndim: 1,
        dtype: DLDataType { code: DLDataType::FLOAT, bits: 32, lanes: 1 },
        shape,
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    })
}

/// A call of an operator by a framework: its stream is lent, three tensors are viewed, and one kernel is launched.
fn lend_three_views(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let mut five = Five::new(gpu)?;
    let (launcher, arrays) = five.launcher(gpu)?;
    // SAFETY: the launcher's kernel has these parameters; `five` keeps kernel and arrays.
    let raw_call = || unsafe { launcher.saxpy(A, arrays, ELEMENTS as u64) };
    let raw = || {
        gpu.stream.synchronize()?;
        burst(CALLS, raw_call)
    };
    let mut shape = [ELEMENTS as i64];
    let device_id = i32::try_from(bench.ordinal).unwrap_or(i32::MAX);
    let [x, y, out] = tensors(arrays, device_id, &mut shape);
    let stream = gpu.stream.as_raw();
    let lend = |five: &Five| {
        // SAFETY: the stream is live, nothing captures it, and all work on the tensors' memory is on this stream; the
        // memory is that of `five`.
        unsafe {
            gpu.context.lend(stream, |lent| {
                let x = lent.view::<f32>(TensorRef::new(&x, true))?;
                let y = lent.view::<f32>(TensorRef::new(&y, true))?;
                let out = lent.view_mut::<f32>(TensorRef::new(&out, false))?;
                five.kernels.saxpy(lent, five.launch, A, x, y, out, ELEMENTS as u64)
            })
        }
    };
    five.check(gpu, |_| Ok(raw_call()?))?;
    let check = five.check(gpu, |five| Ok(lend(five)?))?;
    let mut ours = || {
        gpu.stream.synchronize()?;
        burst(CALLS, || lend(&five))
    };
    let paired = Paired::measure(bench.pairs, &mut ours, &raw)?;
    gpu.stream.synchronize()?;
    Ok(vec![
        Row::host("launch/lend_three_views", &paired)
            .check(check)
            .image(gpu.image_of(five.kernels.saxpy_kernel())?)
            .device(&gpu.name)
            .at_most("diff_ns", paired.difference().median, MOST_LEND_NS),
    ])
}

fn launch_sync(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let mut five = Five::new(gpu)?;
    let (launcher, arrays) = five.launcher(gpu)?;
    let check = five.check(gpu, |five| Ok(five.safe(gpu)?))?;
    let synchronize = synchronizer(gpu.driver, &gpu.stream)?;
    let raw = || {
        burst(CALLS, || {
            // SAFETY: the launcher's kernel has these parameters; `five` keeps kernel and arrays.
            unsafe { launcher.saxpy(A, arrays, ELEMENTS as u64) }?;
            synchronize()
        })
    };
    let mut ours = || {
        burst(CALLS, || {
            five.safe(gpu)?;
            gpu.stream.synchronize()
        })
    };
    let paired = Paired::measure(bench.pairs, &mut ours, &raw)?;
    Ok(vec![
        Row::host("launch_sync/saxpy5", &paired)
            .check(check)
            .image(gpu.image_of(five.kernels.saxpy_kernel())?)
            .device(&gpu.name),
    ])
}
