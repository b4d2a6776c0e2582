//! The frame of examples/dem: its kernel, on the grains that the peers move.

use std::mem::swap;

use cuda_safe::vector::Float4;
use cuda_safe::{DeviceBuffer, GraphExec, LaunchConfig, Stream, kernels};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid, Pairs};

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
const REACH: f32 = 0.2075 + 2.0 * 0.065;
const ROOM: usize = 32 * N;

kernels! {
    struct Dem;
    // SAFETY: as in examples/dem: thread i writes what belongs to grain i, or by atomics; what comes from
    // memory is bounded by n, or by the room for lists, before it is an index.
    unsafe in geom_kernels::program(include_str!("../../../examples/dem/src/dem.cu")).name("dem.cu") {
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

/// The grains, and what is known of their neighbours.
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

    fn substep(&mut self, dem: &Dem, stream: &Stream, number: usize) -> cuda_safe::Result<()> {
        let Self { grid, now, next, old, offsets, lists, trouble } = self;
        if number.is_multiple_of(INTERVAL) {
            old.copy_from(stream, &*now)?;
            grid.rebuild(stream, now.slice(..N)?, REACH)?;
            let others = GridQueries::at_grid_points(REACH).pairs(Pairs::Others);
            grid.neighbor_lists_into(stream, &others, &mut *offsets, &mut *lists)?;
        }
        let each = LaunchConfig::cover(N, 128);
        dem.step(
            stream,
            each,
            &*now,
            &*old,
            &*offsets,
            &*lists,
            &mut *next,
            &mut *trouble,
            N as u32,
        )?;
        swap(now, next);
        Ok(())
    }

    /// The kernel says whether its lists were good enough.
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
    let stream = &gpu.stream;
    let dem = Dem::load(&gpu.context)?;
    let grains = block();
    let check = check(gpu, &dem, &grains)?;
    let mut graph = capture(gpu, &dem, &grains)?;
    let mut samples = Vec::with_capacity(bench.samples);
    for _ in 0..bench.samples {
        graph.state_mut().now.upload(stream, &grains)?;
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
    let row = Row::new(NAME, Unit::Ms, &samples)
        .check(check)
        .image(gpu.image_of(dem.step_kernel())?)
        .device(&gpu.name);
    let median = row.stats.median;
    Ok(vec![row.at_most("ms", median, 3.0)])
}

/// One frame as one graph.
fn capture(gpu: &Gpu, dem: &Dem, grains: &[Float4]) -> Result<GraphExec<'static, State>, Stop> {
    let dem = dem.clone();
    Ok(gpu.context.capture(State::new(gpu, grains)?, move |stream, state| {
        (0..SUBSTEPS).try_for_each(|number| state.substep(&dem, stream, number))
    })?)
}

/// Compares the contacts of every grain in every substep of one frame with those that comparing all
/// grains finds.
fn check(gpu: &Gpu, dem: &Dem, grains: &[Float4]) -> Result<String, Stop> {
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
            state.substep(dem, stream, number)?;
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
