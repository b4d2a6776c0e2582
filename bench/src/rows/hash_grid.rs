//! Hash grids: building, and what is asked of millions of points.

use cuda_safe::vector::Float4;
use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid, Lookup, NeighborSum, Pairs};

use super::{Bench, Work};
use crate::cells::{Cells, check_counts, check_sums};
use crate::data::random;
use crate::gpu::Gpu;
use crate::replay::{CALLS, Replays, SETS};
use crate::report::{Row, Unit};
use crate::stats::median;
use crate::stop::Stop;

macro_rules! names {
    ($n:literal) => {
        &[
            concat!("hashgrid_build/", $n),
            concat!("hashgrid_build/", $n, "/exact_arch"),
            concat!("hashgrid_build/", $n, "/unbounded"),
            concat!("hashgrid_sum/", $n),
            concat!("hashgrid_sum/", $n, "/unbounded"),
            concat!("hashgrid_sum/", $n, "/other_queries"),
            concat!("hashgrid_count/", $n),
            concat!("hashgrid_count/", $n, "/exact_arch"),
            concat!("hashgrid_lists/", $n),
            concat!("hashgrid_nearest8/", $n),
        ]
    };
}

pub(super) const WORKS: &[Work] = &[
    Work { names: names!("100000"), run: |bench| rows(bench, &SMALL) },
    Work { names: names!("1000000"), run: |bench| rows(bench, &MEDIUM) },
    Work { names: names!("8000000"), run: |bench| rows(bench, &LARGE) },
];

/// A number of points, and what is asked of it.
struct Size {
    n: usize,
    names: &'static [&'static str; 10],
    /// The mean number of neighbours that the peers found.
    neighbours: f64,
    build_ms: Option<f64>,
    sum_ms: f64,
}

const SMALL: Size =
    Size { n: 100_000, names: names!("100000"), neighbours: 31.5, build_ms: None, sum_ms: 0.035 };
const MEDIUM: Size = Size {
    n: 1_000_000,
    names: names!("1000000"),
    neighbours: 32.3,
    build_ms: Some(0.09),
    sum_ms: 0.18,
};
const LARGE: Size = Size {
    n: 8_000_000,
    names: names!("8000000"),
    neighbours: 32.6,
    build_ms: Some(0.40),
    sum_ms: 1.4,
};

/// Results of each set that are compared with the oracle: more than 10,000 in all.
const COMPARED: usize = 3000;
const NEAREST: usize = 8;

/// The article's sum, and the number of neighbours.
const SUM: &str =
    "sum.x += n.position.x; sum.y += n.position.y; sum.z += n.position.z; sum.w += 1.0f;";

/// One of the inputs, and the grid of it.
struct Set {
    host: Vec<[f32; 3]>,
    points: DeviceBuffer<[f32; 3]>,
    grid: HashGrid<f32>,
    counts: DeviceBuffer<u32>,
    sums: DeviceBuffer<Float4>,
}

/// The data of a graph.
struct State {
    sets: Vec<Set>,
    answers: Answers,
}

/// The memory that all sets write in turn.
struct Answers {
    offsets: DeviceBuffer<u64>,
    /// For lists, and for the nearest ones.
    words: DeviceBuffer<u32>,
    squares: DeviceBuffer<f32>,
}

/// The radius of a sphere that holds 32 of `n` points of the unit cube on average.
pub(super) fn radius_of(n: usize) -> f32 {
    (32.0 / n as f64 / (4.0 / 3.0 * std::f64::consts::PI)).cbrt() as f32
}

/// `n` points of the unit cube in no order.
pub(super) fn points(n: usize, seed: u64) -> Vec<[f32; 3]> {
    let numbers = random(3 * n, seed);
    numbers.chunks_exact(3).map(|p| [p[0], p[1], p[2]].map(|x| 0.5 * x + 0.5)).collect()
}

fn rows(bench: &Bench, size: &Size) -> Result<Vec<Row>, Stop> {
    measure(bench.gpu()?, bench.samples, size)
}

fn measure(gpu: &Gpu, samples: usize, size: &Size) -> Result<Vec<Row>, Stop> {
    let embedded = GeometryKernels::new(&gpu.context);
    let timer = Timer::new(gpu, samples, size)?;
    let bounded = GridOptions::default().bounds([0.0; 3], [1.0; 3]);
    let [build, build_exact, build_any, sum, sum_any, sum_at, count, count_exact, lists, nearest] =
        *size.names;
    let (image, exact_arch) = ("embedded PTX".to_owned(), timer.replays.exact_arch()?);
    let mut rows = Vec::new();

    // Kernels from the embedded PTX.
    let state = State::new(gpu, &embedded, bounded, size.n)?;
    let (row, state) = timer.build(build, state)?;
    let row = match size.build_ms {
        Some(most) => target(row, most),
        None => row,
    };
    rows.push(row.image(&image));
    let own = GridQueries::at_grid_points(timer.radius);
    let (row, state) = timer.run(count, state, |stream, set, _| {
        set.grid.count_neighbors(stream, &own, &mut set.counts)
    })?;
    rows.push(row.check(timer.check_counts(&state)?).image(&image));

    // SAFETY: float4 is Float4; the snippet touches its arguments alone.
    let kernel = unsafe { NeighborSum::<f32, Float4>::compile(&embedded, "float4", None, SUM) }?;
    let (row, state) =
        timer.sum(sum, state, |stream, set| kernel.run(stream, &set.grid, &own, &mut set.sums))?;
    rows.push(target(row, size.sum_ms).image(&exact_arch));
    // The same points as other queries: sorted by cells first.
    let (row, state) = timer.sum(sum_at, state, |stream, set| {
        let queries = GridQueries::at(&set.points, timer.radius);
        kernel.run(stream, &set.grid, &queries, &mut set.sums)
    })?;
    rows.push(row.image(&exact_arch));

    let (row, state) = timer.run(lists, state, |stream, set, answers| {
        set.grid.neighbor_lists_into(stream, &own, &mut answers.offsets, &mut answers.words)
    })?;
    rows.push(row.check(timer.check_lists(&state)?).image(&image));
    let others = own_everywhere();
    let (row, state) = timer.run(nearest, state, |stream, set, answers| {
        let words = answers.words.slice_mut(..NEAREST * set.host.len())?;
        set.grid.k_nearest(stream, &others, NEAREST, words, &mut answers.squares)
    })?;
    rows.push(row.check(timer.check_nearest(&state)?).image(&image));
    drop(state);

    // Without bounds.
    let state = State::new(gpu, &embedded, GridOptions::default(), size.n)?;
    let (row, state) = timer.build(build_any, state)?;
    rows.push(row.image(&image));
    let (row, state) = timer
        .sum(sum_any, state, |stream, set| kernel.run(stream, &set.grid, &own, &mut set.sums))?;
    rows.push(row.image(&exact_arch));
    drop(state);

    // Compiled for the device.
    let state = State::new(gpu, &GeometryKernels::compiled(&gpu.context), bounded, size.n)?;
    let (row, state) = timer.build(build_exact, state)?;
    rows.push(row.image(&exact_arch));
    let (row, state) = timer.run(count_exact, state, |stream, set, _| {
        set.grid.count_neighbors(stream, &own, &mut set.counts)
    })?;
    rows.push(row.check(timer.check_counts(&state)?).image(&exact_arch));
    Ok(rows)
}

/// At every point, the others, however far away.
fn own_everywhere() -> GridQueries<'static, f32> {
    GridQueries::at_grid_points(f32::INFINITY).pairs(Pairs::Others)
}

fn target(row: Row, most: f64) -> Row {
    let value = row.stats.median;
    row.at_most("ms", value, most)
}

impl State {
    fn new(
        gpu: &Gpu,
        geometry: &GeometryKernels,
        options: GridOptions<f32>,
        n: usize,
    ) -> Result<Self, Stop> {
        let stream = &gpu.stream;
        let set = |index: usize| {
            let host = points(n, 100 + index as u64);
            let points = DeviceBuffer::from_slice(stream, &host)?;
            let grid = HashGrid::build(stream, geometry, &points, radius_of(n), options)?;
            let counts = DeviceBuffer::zeroed(stream, n)?;
            Ok(Set { host, points, grid, counts, sums: DeviceBuffer::zeroed(stream, n)? })
        };
        Ok(Self {
            sets: (0..SETS).map(set).collect::<Result<_, Stop>>()?,
            answers: Answers {
                offsets: DeviceBuffer::zeroed(stream, n + 1)?,
                // More than there are neighbours.
                words: DeviceBuffer::zeroed(stream, 40 * n)?,
                squares: DeviceBuffer::zeroed(stream, NEAREST * n)?,
            },
        })
    }
}

/// Measures what is asked of a grid, and compares.
struct Timer<'a> {
    gpu: &'a Gpu,
    replays: Replays<'a>,
    radius: f32,
    neighbours: f64,
}

impl<'a> Timer<'a> {
    fn new(gpu: &'a Gpu, samples: usize, size: &Size) -> Result<Self, Stop> {
        let (replays, radius) = (Replays::new(gpu, samples)?, radius_of(size.n));
        Ok(Self { gpu, replays, radius, neighbours: size.neighbours })
    }

    /// Milliseconds of one of the calls of a graph.
    fn run<F>(&self, work: &str, state: State, call: F) -> Result<(Row, State), Stop>
    where
        F: Fn(&Stream, &mut Set, &mut Answers) -> cuda_safe::Result<()>,
    {
        let (samples, state) = self.replays.run(state, |stream, state: &mut State, number| {
            call(stream, &mut state.sets[number], &mut state.answers)
        })?;
        let n = state.sets.first().map_or(0, |set| set.host.len());
        let rate = n as f64 / median(&samples) / 1e6;
        let row = Row::new(work, Unit::Ms, &samples)
            .figure("gpoints_per_s", rate)
            .note(format!("{rate:.2} G points/s"))
            .device(&self.gpu.name);
        Ok((row, state))
    }

    /// Builds; what comes of it is counted and compared.
    fn build(&self, work: &str, state: State) -> Result<(Row, State), Stop> {
        let radius = self.radius;
        let (row, mut state) =
            self.run(work, state, |stream, set, _| set.grid.rebuild(stream, &set.points, radius))?;
        let stream = &self.gpu.stream;
        let mut lookup = Lookup::Rows;
        for set in &mut state.sets {
            let report = set.grid.report(stream)?;
            if report.points != set.host.len() {
                return Err(Stop::failed(format!("{report:?}")));
            }
            lookup = report.lookup;
            set.grid.count_neighbors(
                stream,
                &GridQueries::at_grid_points(radius),
                &mut set.counts,
            )?;
        }
        let check = format!("{}; {lookup:?}", self.check_counts(&state)?);
        Ok((row.check(check), state))
    }

    /// Sums; they and their numbers of neighbours are compared.
    fn sum<F>(&self, work: &str, mut state: State, call: F) -> Result<(Row, State), Stop>
    where
        F: Fn(&Stream, &mut Set) -> cuda_safe::Result<()>,
    {
        let nothing = Float4 { x: f32::NAN, y: f32::NAN, z: f32::NAN, w: f32::NAN };
        for set in &mut state.sets {
            set.sums.fill(&self.gpu.stream, nothing)?;
        }
        let (row, state) = self.run(work, state, |stream, set, _| call(stream, set))?;
        let (mut right, mut mean) = (0, 0.0);
        for set in &state.sets {
            let sums = set.sums.to_vec(&self.gpu.stream)?;
            mean += self.mean(sums.iter().map(|sum| f64::from(sum.w)))?;
            let cells = Cells::new(&set.host, self.radius);
            right += check_sums(&cells, &sums, COMPARED)?;
        }
        Ok((row.check(self.checked(mean, right)), state))
    }

    fn check_counts(&self, state: &State) -> Result<String, Stop> {
        let (mut right, mut mean) = (0, 0.0);
        for set in &state.sets {
            let counts = set.counts.to_vec(&self.gpu.stream)?;
            mean += self.mean(counts.iter().map(|count| f64::from(*count)))?;
            let cells = Cells::new(&set.host, self.radius);
            right += check_counts(&cells, &counts, COMPARED)?;
        }
        Ok(self.checked(mean, right))
    }

    /// The lists of the set that came last, in full by their lengths and some by their elements.
    fn check_lists(&self, state: &State) -> Result<String, Stop> {
        let Some(set) = state.sets.get((CALLS - 1) % SETS) else {
            return Err(Stop::failed("there is no set"));
        };
        let stream = &self.gpu.stream;
        let offsets = state.answers.offsets.to_vec(stream)?;
        let mean = self.mean(offsets.windows(2).map(|pair| (pair[1] - pair[0]) as f64))?;
        let cells = Cells::new(&set.host, self.radius);
        let words = state.answers.words.to_vec(stream)?;
        let right = cells.check_lists(&offsets, &words, COMPARED * SETS)?;
        Ok(format!("{mean:.2} neighbours on average, {right} lists equal f64"))
    }

    fn check_nearest(&self, state: &State) -> Result<String, Stop> {
        let Some(set) = state.sets.get((CALLS - 1) % SETS) else {
            return Err(Stop::failed("there is no set"));
        };
        let stream = &self.gpu.stream;
        let words = state.answers.words.slice(..NEAREST * set.host.len())?.to_vec(stream)?;
        let squares = state.answers.squares.to_vec(stream)?;
        let cells = Cells::new(&set.host, self.radius);
        let right = cells.check_nearest(&words, &squares, NEAREST, COMPARED * SETS)?;
        Ok(format!("{right} queries equal f64"))
    }

    /// The mean, which agrees with the peers' within 0.1.
    fn mean(&self, numbers: impl ExactSizeIterator<Item = f64>) -> Result<f64, Stop> {
        let n = numbers.len().max(1) as f64;
        let mean = numbers.sum::<f64>() / n;
        let is_right = (mean - self.neighbours).abs() < 0.1;
        if is_right { Ok(mean) } else { Err(Stop::failed(format!("{mean} neighbours on average"))) }
    }

    fn checked(&self, means: f64, right: usize) -> String {
        let mean = means / SETS as f64;
        format!("{mean:.2} neighbours on average, {right} answers equal f64, over {SETS} inputs")
    }
}
