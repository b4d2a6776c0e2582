//! The frame of examples/dem: its kernel, on the grains that the peers move, and beside it the same kernel in C++.

use std::mem::swap;

use cuda_safe::kernel::vector::Vec4;
use cuda_safe::vector::Float4;
use cuda_safe::{DeviceBuffer, GraphExec, LaunchConfig, Stream, kernels};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid, Pairs};

#[path = "../../../examples/dem/src/step.rs"]
mod step;

use super::{Bench, Work};
use crate::data::random;
use crate::gpu::Gpu;
use crate::report::{Row, Unit};
use crate::stop::Stop;
use crate::timing::once;

pub(super) const WORKS: &[Work] = &[Work { names: &[NAME], run: frames }];

const NAME: &str = "dem/65536x64substeps";

/// 64 layers of 32 × 32.
const N: usize = 65_536;
const SUBSTEPS: usize = 64;
const FRAMES: usize = 25;
/// The frames before are not measured.
const FIRST: usize = 6;
/// The frame whose substeps are compared with brute force.
const CHECKED: usize = 8;
/// As in the example: how often neighbours are listed, and how far.
const INTERVAL: usize = 8;
const REACH: f32 = step::REACH;
const ROOM: usize = 32 * N;

kernels! {
    struct Twin;
    // SAFETY: thread i writes what belongs to grain i, or by atomics; what comes from
    // memory is bounded by n, or by the room for lists, before it is an index.
    unsafe in geom_kernels::program(include_str!("../../../examples/dem/tests/step.cu")).name("step.cu") {
        safe fn step(
            now: &[Float4], old: &[Float4], offsets: &[u64], lists: &[u32], next: &mut [Float4],
            trouble: &mut [u32], n: u32,
        ) where 2 * n <= now.len(), n <= old.len(), n < offsets.len(), 32 * n <= lists.len(),
            2 * n <= next.len(), 1 <= trouble.len();
    }
}

kernels! {
    struct Brute;
    // SAFETY: thread i writes count i, and only if i < n; it reads positions below n. Blocks have as many
    // threads as the shared array has places, which the one launch below gives them.
    unsafe in geom_kernels::program(include_str!("../contacts.cu")).name("contacts.cu") {
        unsafe fn contacts(grains: &[Float4], n: u32, counts: &mut [u32])
            where n <= grains.len(), n <= counts.len();
    }
}

/// The grains, positions and then velocities, and what is known of their neighbours.
struct State {
    grid: HashGrid<f32>,
    now: DeviceBuffer<Float4>,
    next: DeviceBuffer<Float4>,
    old: DeviceBuffer<Float4>,
    offsets: DeviceBuffer<u64>,
    lists: DeviceBuffer<u32>,
    trouble: DeviceBuffer<u32>,
}

/// The lattice of the workload, which moves in z; then its velocities.
fn block() -> Vec<Float4> {
    // A tenth of the radius, from -1..1.
    let jitter = random(3 * N, 7);
    let place = |i: usize, axis: usize| {
        let lattice = [i % 32, i / 1024, i / 32 % 32][axis];
        0.2 * lattice as f32 + 0.005 * (jitter[3 * i + axis] + 1.0)
    };
    let position = |i| Float4::new(place(i, 0), 0.5 + place(i, 1), place(i, 2), 0.0);
    let velocity = |_| Float4::new(0.0, 0.0, 15.0, 0.0);
    (0..N).map(position).chain((0..N).map(velocity)).collect()
}

impl State {
    fn new(gpu: &Gpu, grains: &[Float4]) -> Result<Self, Stop> {
        let stream = &gpu.stream;
        let geometry = GeometryKernels::new(&gpu.context);
        let mut grid = HashGrid::new(stream, &geometry, GridOptions::default())?;
        grid.reserve(stream, N)?;
        Ok(Self {
            grid,
            now: DeviceBuffer::from_slice(stream, grains)?,
            next: DeviceBuffer::from_slice(stream, grains)?,
            old: DeviceBuffer::from_slice(stream, grains)?,
            offsets: DeviceBuffer::zeroed(stream, N + 1)?,
            lists: DeviceBuffer::zeroed(stream, ROOM)?,
            trouble: DeviceBuffer::zeroed(stream, 1)?,
        })
    }

    /// Moves the grains, by the kernel in Rust unless there is a twin.
    fn substep(
        &mut self,
        twin: Option<&Twin>,
        stream: &Stream,
        number: usize,
    ) -> cuda_safe::Result<()> {
        let Self { grid, now, next, old, offsets, lists, trouble } = self;
        if number.is_multiple_of(INTERVAL) {
            old.copy_from(stream, &*now)?;
            grid.rebuild(stream, now.slice(..N)?, REACH)?;
            let others = GridQueries::at_grid_points(REACH).pairs(Pairs::Others);
            grid.neighbor_lists_into(stream, &others, &mut *offsets, &mut *lists)?;
        }
        if let Some(twin) = twin {
            let (each, n) = (LaunchConfig::cover(N, 128), N as u32);
            let (trouble, next) = (&mut *trouble, &mut *next);
            twin.step(stream, each, &*now, &*old, &*offsets, &*lists, next, trouble, n)?;
        } else {
            let (now, old) = (now.as_slice().cast::<Vec4>()?, old.as_slice().cast::<Vec4>()?);
            let (x, v, old) = (now.slice(..N)?, now.slice(N..)?, old.slice(..N)?);
            let (next_x, next_v) = next.as_slice_mut().cast_mut::<Vec4>()?.split_at_mut(N)?;
            step::step::launch(stream, x, v, old, &*offsets, &*lists, next_x, next_v)?;
        }
        swap(now, next);
        Ok(())
    }

    /// The kernels say whether their lists were good enough, the one in Rust by a fault.
    fn no_trouble(&self, stream: &Stream) -> Result<(), Stop> {
        match self.trouble.to_vec(stream)?.as_slice() {
            [0] => Ok(()),
            _ => Err(Stop::failed("the lists of neighbours were not enough")),
        }
    }
}

/// The mean of frames 6 to 25, of a new block each time.
fn frames(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let grains = block();
    let check = check(gpu, &grains)?;
    let samples = measure(bench, &mut capture(gpu, None, &grains)?, &grains)?;
    let twin = Twin::load(&gpu.context)?;
    let others = measure(bench, &mut capture(gpu, Some(twin), &grains)?, &grains)?;
    let row = Row::new(NAME, Unit::Ms, &samples).check(check).device(&gpu.name);
    let median = row.stats.median;
    let ratio = median / Row::new(NAME, Unit::Ms, &others).stats.median;
    let row = row.note(format!("{ratio:.2} of the kernel in C++")).figure("of_cpp", ratio);
    Ok(vec![row.at_most("ms", median, 3.0)])
}

/// Returns the mean milliseconds of the measured frames, for each sample.
fn measure(
    bench: &Bench,
    graph: &mut GraphExec<'static, State>,
    grains: &[Float4],
) -> Result<Vec<f64>, Stop> {
    let stream = &bench.gpu()?.stream;
    let mut samples = Vec::with_capacity(bench.samples);
    for _ in 0..bench.samples {
        graph.state_mut().now.upload(stream, grains)?;
        stream.synchronize()?;
        let mut total = 0.0;
        for frame in 1..=FRAMES {
            let (nanoseconds, ()) = once(|| {
                graph.launch(stream)?;
                graph.state().no_trouble(stream)
            })?;
            if frame >= FIRST {
                total += nanoseconds / 1e6;
            }
        }
        samples.push(total / (FRAMES + 1 - FIRST) as f64);
    }
    Ok(samples)
}

/// One frame as one graph.
fn capture(
    gpu: &Gpu,
    twin: Option<Twin>,
    grains: &[Float4],
) -> Result<GraphExec<'static, State>, Stop> {
    Ok(gpu.context.capture(State::new(gpu, grains)?, move |stream, state| {
        (0..SUBSTEPS).try_for_each(|number| state.substep(twin.as_ref(), stream, number))
    })?)
}

/// Compares the contacts of every grain in every substep of one frame with those that comparing all
/// grains finds.
fn check(gpu: &Gpu, grains: &[Float4]) -> Result<String, Stop> {
    let stream = &gpu.stream;
    let brute = Brute::load(&gpu.context)?;
    let mut counts = DeviceBuffer::<u32>::zeroed(stream, N)?;
    let mut state = State::new(gpu, grains)?;
    let mut contacts = 0;
    for frame in 1..=CHECKED {
        for number in 0..SUBSTEPS {
            if frame == CHECKED {
                // SAFETY: blocks of 128 threads, as many as the kernel has shared places.
                unsafe {
                    let launch = LaunchConfig::cover(N, 128);
                    brute.contacts(stream, launch, &state.now, N as u32, &mut counts)
                }?;
            }
            state.substep(None, stream, number)?;
            if frame == CHECKED {
                contacts += compare(number, &counts.to_vec(stream)?, &state.now.to_vec(stream)?)?;
            }
        }
        state.no_trouble(stream)?;
    }
    let mean = contacts as f64 / (N * SUBSTEPS) as f64;
    Ok(format!(
        "{mean:.3} contacts a grain; those of all grains in the {SUBSTEPS} substeps of frame {CHECKED} \
         equal brute force"
    ))
}

/// Contacts by brute force, and as the kernel kept them. Says how many they are.
fn compare(substep: usize, brute: &[u32], grains: &[Float4]) -> Result<u64, Stop> {
    for (grain, (wanted, found)) in brute.iter().zip(grains).enumerate() {
        if found.w != *wanted as f32 {
            return Err(Stop::failed(format!(
                "substep {substep}: grain {grain} has {} contacts, not {wanted}",
                found.w
            )));
        }
    }
    Ok(brute.iter().map(|count| u64::from(*count)).sum())
}
