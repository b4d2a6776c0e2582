//! The order of lists: by rows of cells, in a row by x, in a cell by index; the same in every run.

use cuda_safe::nvrtc::Options;
use cuda_safe::{DeviceBuffer, LaunchConfig, Module};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid, Lookup};

use super::inputs::{Input, inputs};
use super::kernels::module;
use super::number::Number;
use super::oracle::{Oracle, Space};
use super::{Fixture, thorough};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "hash_grid",
        device(lists_are_in_cell_order_f32 = cell_order::<f32>),
        device(lists_are_in_cell_order_f64 = cell_order::<f64>),
        device(lists_go_once_around_a_periodic_box),
        device(every_run_gives_the_same_bits),
        device(exact_code_gives_the_same_bits),
    ]
}

/// What a kernel sees of a grid, and the cells that follow from it.
struct Seen<T> {
    /// The points' indices, in the grid's order.
    order: Vec<u32>,
    positions: Vec<[T; 3]>,
    origin: [f64; 3],
    inverse: [f64; 3],
    cells: [i64; 3],
    is_table: bool,
}

impl<T: Number> Seen<T> {
    fn of(fixture: &Fixture<'_>, module: &Module, grid: &HashGrid<T>) -> Result<Self, Failure> {
        let stream = &fixture.stream;
        let kernel = module.kernel(&format!("inspect_{}", T::NAME))?;
        let n = grid.len();
        let mut order = DeviceBuffer::<u32>::zeroed(stream, n)?;
        let mut positions = DeviceBuffer::<[T; 3]>::zeroed(stream, n)?;
        let mut frame = DeviceBuffer::<f64>::zeroed(stream, 6)?;
        let mut cells = DeviceBuffer::<i64>::zeroed(stream, 5)?;
        let flat = positions.as_slice_mut().cast_mut::<T>()?;
        let args = (grid.view(), &mut order, flat, &mut frame, &mut cells);
        // SAFETY: the kernel writes an index and three coordinates for each point, 6 and 5 numbers.
        unsafe { fixture.device.launch(&kernel, stream, LaunchConfig::cover(n.max(1), 64), args) }?;
        let (frame, cells) = (frame.to_vec(stream)?, cells.to_vec(stream)?);
        let mut seen = Self {
            order: order.to_vec(stream)?,
            positions: positions.to_vec(stream)?,
            origin: std::array::from_fn(|axis| frame[axis]),
            inverse: std::array::from_fn(|axis| frame[3 + axis]),
            cells: std::array::from_fn(|axis| cells[axis]),
            is_table: cells[3] == 0,
        };
        let points = usize::try_from(cells[4])?;
        seen.order.truncate(points);
        seen.positions.truncate(points);
        Ok(seen)
    }

    /// z, y and x of the cell that a point is in, by the arithmetic of the headers.
    fn cell(&self, point: [T; 3]) -> [i64; 3] {
        let [x, y, z] = std::array::from_fn(|axis| {
            let at = if self.is_table {
                let (origin, inverse) = (T::of(self.origin[axis]), T::of(self.inverse[axis]));
                point[axis].minus(origin).times(inverse).f64()
            } else {
                (point[axis].f64() - self.origin[axis]) * self.inverse[axis]
            };
            // A NaN, such as of a distance of 0 over a size of 0, is in the first cell.
            let at = if at.is_nan() { 0.0 } else { at.floor() };
            (at as i64).clamp(0, self.cells[axis] - 1)
        });
        [z, y, x]
    }
}

fn cell_order<T: Number>(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let module = module(device, Options::new())?;
    let n = if thorough(device) { 1000 } else { 120 };
    for input in inputs::<T>(&mut device.rng(540), n) {
        let [low, high] = input.narrow_bounds();
        let [around_low, around_high] = input.bounds;
        let all = [
            GridOptions::default(),
            GridOptions::default().bounds(around_low, around_high),
            GridOptions::default().bounds(low, high),
        ];
        for options in all {
            let in_order = input_in_order(&fixture, &module, &input, options);
            in_order.map_err(|failure| {
                Failure::new(format!("{}, {options:?}: {failure}", input.name))
            })?;
        }
    }
    Ok(())
}

fn input_in_order<T: Number>(
    fixture: &Fixture<'_>,
    module: &Module,
    input: &Input<T>,
    options: GridOptions<T>,
) -> TestResult {
    let mut grid = fixture.grid(options)?;
    let points = fixture.upload(&input.points)?;
    grid.reserve(&fixture.stream, points.len())?;
    grid.rebuild(&fixture.stream, T::points(&points), input.radius)?;
    let seen = Seen::of(fixture, module, &grid)?;
    let lookup = grid.report(&fixture.stream)?.lookup;
    ensure_eq!(seen.is_table, matches!(lookup, Lookup::Table(_)));

    // Each point once, where it was, in the order of cells unless rows are hashed.
    let key = |index: u32| (seen.cell(input.points[index as usize]), index);
    let finite = |i: &u32| input.points[*i as usize].iter().all(|x| x.f64().is_finite());
    let mut wanted: Vec<u32> = (0..input.points.len() as u32).filter(finite).collect();
    if lookup == Lookup::HashedRows {
        let mut order = seen.order.clone();
        order.sort_unstable();
        first_difference(&order, &wanted)?;
    } else {
        wanted.sort_by_key(|index| key(*index));
        first_difference(&seen.order, &wanted)?;
    }
    for (index, position) in seen.order.iter().zip(&seen.positions) {
        ensure_eq!(*position, input.points[*index as usize]);
    }

    // Lists are predicted in full.
    let oracle = Oracle::new(Space::open(), &input.points, None);
    for radius in [input.radius, T::of(input.radius.f64() * 2.5)] {
        let lists = fixture.lists(&grid, &GridQueries::at_grid_points(radius))?;
        for (query, list) in input.points.iter().zip(&lists) {
            let near = oracle.near(*query, radius, 0);
            let mut wanted: Vec<u32> = near.into_iter().map(|(index, _)| index).collect();
            wanted.sort_by_key(|index| key(*index));
            ensure!(*list == wanted, "{lookup:?}, {query:?}: {list:?}, not {wanted:?}");
        }
    }
    Ok(())
}

/// Rows come in a ring that begins somewhere, and so do planes of rows and cells of a row.
fn lists_go_once_around_a_periodic_box(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let module = module(device, Options::new())?;
    let input = super::inputs::uniform::<f32>(&mut device.rng(541), 300);
    let options = GridOptions::default().periodic([0.0; 3], [1.0; 3]);
    let mut grid = fixture.grid(options)?;
    let points = fixture.upload(&input.points)?;
    grid.reserve(&fixture.stream, points.len())?;
    grid.rebuild(&fixture.stream, &points, 0.1)?;
    let seen = Seen::of(&fixture, &module, &grid)?;
    let mut wraps = 0;
    for radius in [0.1, 0.2, 0.4, 0.6] {
        for list in fixture.lists(&grid, &GridQueries::at_grid_points(radius))? {
            let keys: Vec<([i64; 3], u32)> =
                list.iter().map(|i| (seen.cell(input.points[*i as usize]), *i)).collect();
            let planes: Vec<i64> = keys.iter().map(|([z, _, _], _)| *z).collect();
            wraps += descents(&planes)?;
            for plane in keys.chunk_by(|(a, _), (b, _)| a[0] == b[0]) {
                let rows: Vec<i64> = plane.iter().map(|([_, y, _], _)| *y).collect();
                wraps += descents(&rows)?;
                for row in plane.chunk_by(|(a, _), (b, _)| a[1] == b[1]) {
                    let cells: Vec<i64> = row.iter().map(|([_, _, x], _)| *x).collect();
                    wraps += descents(&cells)?;
                    for cell in row.chunk_by(|(a, _), (b, _)| a[2] == b[2]) {
                        ensure!(cell.is_sorted(), "{cell:?}");
                    }
                }
            }
        }
    }
    ensure!(wraps > 100, "only {wraps} lists go over the edge");
    Ok(())
}

/// How often a sequence falls: at most once, and then it ends before where it began.
fn descents(numbers: &[i64]) -> Result<usize, Failure> {
    let falls = numbers.windows(2).filter(|pair| pair[0] > pair[1]).count();
    let around = numbers.last() < numbers.first();
    ensure!(falls == 0 || (falls == 1 && around), "{numbers:?}");
    Ok(falls)
}

fn every_run_gives_the_same_bits(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    for input in inputs::<f32>(&mut device.rng(542), 300).into_iter().step_by(3) {
        let mut first: Option<Vec<Vec<u32>>> = None;
        for _ in 0..3 {
            // Each in memory that another grid has used.
            let grid = fixture.built(&input.points, input.radius)?;
            let lists = fixture.lists(&grid, &GridQueries::at_grid_points(input.radius))?;
            match &first {
                None => first = Some(lists),
                Some(first) => first_difference(&lists, first)?,
            }
        }
    }
    Ok(())
}

/// Kernels that are compiled for the device give what the embedded ones give.
fn exact_code_gives_the_same_bits(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let geometry = GeometryKernels::compiled(device.context());
    let compiled = Fixture { geometry, device, stream: device.stream()? };
    for input in inputs::<f32>(&mut device.rng(543), 60) {
        let mut answers = Vec::new();
        for fixture in [&fixture, &compiled] {
            let grid = fixture.built(&input.points, input.radius)?;
            let lists = fixture.lists(&grid, &GridQueries::at_grid_points(input.radius))?;
            let mut near = fixture.upload(&[0u32; 480])?;
            let mut squares = fixture.upload(&[0.0f32; 480])?;
            let queries = GridQueries::at_grid_points(f32::INFINITY);
            grid.k_nearest(&fixture.stream, &queries, 8, &mut near, &mut squares)?;
            let bits: Vec<u32> =
                squares.to_vec(&fixture.stream)?.iter().map(|x| x.to_bits()).collect();
            let report = grid.report(&fixture.stream)?;
            answers.push((lists, near.to_vec(&fixture.stream)?, bits, report));
        }
        ensure!(answers[0] == answers[1], "{}", input.name);
    }
    Ok(())
}
