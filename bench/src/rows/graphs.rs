//! Graphs: the time of a replay, and the host's time to launch and to change one.

use cuda_safe::{DeviceBuffer, GraphExec, LaunchConfig};

use super::{Bench, Work};
use crate::data::{check_saxpy, random};
use crate::gpu::{Gpu, Saxpy};
use crate::raw::{Arrays, Launcher, synchronizer};
use crate::raw_graph::{Current, RawGraph};
use crate::report::{Row, Unit};
use crate::stats::Stats;
use crate::stop::Stop;
use crate::timing::{Paired, burst, once};

pub(super) const WORKS: &[Work] = &[
    Work { names: &["graph_replay/1000saxpy"], run: replay },
    Work { names: &["graph_launch/saxpy5"], run: launch },
    Work { names: &["graph_update/saxpy5"], run: update },
];

const NODES: usize = 1000;
const ELEMENTS: usize = 1024;
const A: f32 = 2.5;
/// Graphs in a burst: few enough for the driver's queue.
const CALLS: u32 = 100;

struct State {
    x: DeviceBuffer<f32>,
    y: DeviceBuffer<f32>,
    out: DeviceBuffer<f32>,
}

struct Both {
    kernels: Saxpy,
    ours: GraphExec<'static, State>,
    raw: RawGraph,
    arrays: Arrays,
    shape: LaunchConfig,
}

impl Both {
    /// The same launches, captured by us and by raw calls.
    fn new(gpu: &Gpu, nodes: usize) -> Result<Self, Stop> {
        let input = |seed| DeviceBuffer::from_slice(&gpu.stream, &random(ELEMENTS, seed));
        let out = DeviceBuffer::zeroed(&gpu.stream, ELEMENTS)?;
        let state = State { x: input(1)?, y: input(2)?, out };
        let kernels = Saxpy::load(&gpu.context)?;
        let (shape, n) = (LaunchConfig::cover(ELEMENTS, 256), ELEMENTS as u64);
        let arrays = [state.x.device_ptr(), state.y.device_ptr(), state.out.device_ptr()];
        let kernel = kernels.saxpy_kernel();
        let (grid, block) = (shape.grid.x, shape.block.x);
        let launcher = Launcher::new(gpu.driver, kernel, &gpu.stream, grid, block)?;
        gpu.stream.synchronize()?;
        let raw = RawGraph::capture(&gpu.context, &gpu.stream, || {
            // SAFETY: the kernel has these parameters; the graph below keeps kernel and arrays.
            (0..nodes).try_for_each(|_| Ok(unsafe { launcher.saxpy(A, arrays, n) }?))
        })?;
        let recorded = kernels.clone();
        let ours = gpu.context.capture(state, move |stream, State { x, y, out }| {
            for _ in 0..nodes {
                recorded.saxpy(stream, shape, A, &*x, &*y, &mut *out, n)?;
            }
            stream.last_node()?;
            Ok(())
        })?;
        Ok(Self { kernels, ours, raw, arrays, shape })
    }

    /// Launches both into a cleared result and compares what they write.
    fn check(&mut self, gpu: &Gpu, a: f32) -> Result<String, Stop> {
        let raw = self.raw.launcher(&gpu.stream)?;
        for ours in [true, false] {
            self.ours.state_mut().out.fill(&gpu.stream, f32::NAN)?;
            if ours {
                self.ours.launch(&gpu.stream)?;
            } else {
                raw()?;
            }
            let out = self.ours.state().out.to_vec(&gpu.stream)?;
            check_saxpy(a, &random(ELEMENTS, 1), &random(ELEMENTS, 2), &out)?;
        }
        Ok(format!("{ELEMENTS} of {ELEMENTS} elements equal f64, by both graphs"))
    }
}

/// Milliseconds from the launch to the end: small kernels, so that what a node costs shows.
fn replay(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let mut both = Both::new(gpu, NODES)?;
    let check = both.check(gpu, A)?;
    let synchronize = synchronizer(gpu.driver, &gpu.stream)?;
    let launch = both.raw.launcher(&gpu.stream)?;
    let raw = || {
        let (nanoseconds, ()) = once(|| {
            launch()?;
            Ok(synchronize()?)
        })?;
        Ok(nanoseconds / 1e6)
    };
    let ours = &mut both.ours;
    let mut timed = || {
        let (nanoseconds, ()) = once(|| {
            ours.launch(&gpu.stream)?;
            Ok(gpu.stream.synchronize()?)
        })?;
        Ok(nanoseconds / 1e6)
    };
    let paired = Paired::measure(bench.pairs, &mut timed, &raw)?;
    let ratio = paired.ratio();
    Ok(vec![
        Row::new("graph_replay/1000saxpy", Unit::Ms, &paired.ours)
            .figure("raw_ms", Stats::of(&paired.raw).median)
            .figure("ratio", ratio.median)
            .figure("aa_ratio", paired.aa_ratio())
            .note(format!("raw x {:.4}, A/A {:.4}", ratio.median, paired.aa_ratio()))
            .check(check)
            .image(gpu.image_of(both.kernels.saxpy_kernel())?)
            .device(&gpu.name)
            .at_most("ratio", ratio.median, 1.02),
    ])
}

/// The host's time to launch a graph of one node.
fn launch(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let mut both = Both::new(gpu, 1)?;
    let check = both.check(gpu, A)?;
    let launch = both.raw.launcher(&gpu.stream)?;
    let raw = || {
        gpu.stream.synchronize()?;
        burst(CALLS, &launch)
    };
    let ours = &mut both.ours;
    let mut timed = || {
        gpu.stream.synchronize()?;
        burst(CALLS, || ours.launch(&gpu.stream))
    };
    let paired = Paired::measure(bench.pairs, &mut timed, &raw)?;
    gpu.stream.synchronize()?;
    Ok(vec![Row::host("graph_launch/saxpy5", &paired).check(check).device(&gpu.name)])
}

/// The host's time to change a node's arguments.
fn update(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let mut both = Both::new(gpu, 1)?;
    let (kernel, shape, arrays) = (both.kernels.saxpy_kernel().clone(), both.shape, both.arrays);
    let n = ELEMENTS as u64;
    let node = both.ours.nodes().next().ok_or_else(|| Stop::failed("no node was named"))?;
    let raw_node = both.raw.only_node()?;
    let extents = (shape.grid.x, shape.block.x);
    // SAFETY: the node is that graph's only one, and saxpy has these parameters.
    let set = unsafe { both.raw.saxpy_updater(raw_node, kernel.as_raw(), extents) }?;
    let values = [1.5f32, A];
    // The raw calls need a current context, and have it as a C program has: ours push their own.
    let current = Current::push(&gpu.context)?;
    let raw = || {
        gpu.stream.synchronize()?;
        let mut call = 0;
        burst(CALLS, || {
            call += 1;
            set(values[call % 2], arrays, n)
        })
    };
    let (ours, kernels) = (&mut both.ours, both.kernels.clone());
    let mut timed = || {
        gpu.stream.synchronize()?;
        let mut call = 0;
        burst(CALLS, || {
            call += 1;
            let (a, kernels) = (values[call % 2], kernels.clone());
            ours.update(node, move |stream, State { x, y, out }| {
                kernels.saxpy(stream, shape, a, &*x, &*y, &mut *out, n)
            })
        })
    };
    let paired = Paired::measure(bench.pairs, &mut timed, &raw)?;
    // Both were changed last to the second value, which is what they were made with; so the first.
    drop(set);
    let kernels = both.kernels.clone();
    both.ours.update(node, move |stream, State { x, y, out }| {
        kernels.saxpy(stream, shape, 1.5, &*x, &*y, &mut *out, n)
    })?;
    // SAFETY: as above.
    unsafe { both.raw.saxpy_updater(raw_node, kernel.as_raw(), extents) }?(1.5, arrays, n)?;
    drop(current);
    let check = both.check(gpu, 1.5)?;
    Ok(vec![Row::host("graph_update/saxpy5", &paired).check(check).device(&gpu.name).at_most(
        "diff_ns",
        paired.difference().median,
        2000.0,
    )])
}
