//! Grids in kernels of a user's own, whatever they are compiled with.

use cuda_safe::nvrtc::Options;
use cuda_safe::{DeviceBuffer, KernelSource, LaunchConfig, Module};
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid};

use super::inputs::inputs;
use super::number::{Number, inside};
use super::{Fixture, thorough};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "hash_grid",
        device(kernels_find_what_batches_find),
        device(kernels_do_not_depend_on_flags),
        device(kernels_of_grids_without_points),
        device(kernels_see_groups),
    ]
}

const SOURCE: &str = include_str!("../../kernels/hash_grid.cu");
/// What the kernel keeps for each query.
pub(super) const ROOM: usize = 48;
pub(super) const FACTS: usize = 6;
pub(super) const FEW: usize = 4;

/// The test's kernels.
pub(super) fn module(device: &TestDevice, options: Options) -> Result<Module, Failure> {
    let program = geom_kernels::program(SOURCE).name("hash_grid.cu").options(options);
    Ok(program.load_kernels(device.context(), &[])?)
}

/// What `every` wrote.
#[derive(PartialEq)]
pub(super) struct Answers<T> {
    pub(super) indices: Vec<u32>,
    pub(super) values: Vec<T>,
    pub(super) facts: Vec<u32>,
    pub(super) near_indices: Vec<u32>,
    pub(super) near_squares: Vec<T>,
}

impl<T: Number> Answers<T> {
    /// All of it in one number, so that runs can be compared.
    fn bits(&self) -> Vec<u64> {
        let numbers = self.values.iter().chain(&self.near_squares).map(|value| value.hashed());
        let words = [&self.indices, &self.facts, &self.near_indices];
        numbers.chain(words.into_iter().flatten().map(|word| u64::from(*word))).collect()
    }
}

pub(super) fn ask<T: Number>(
    fixture: &Fixture<'_>,
    module: &Module,
    grid: &HashGrid<T>,
    at: &[[T; 3]],
    (radius, group): (T, u32),
) -> Result<Answers<T>, Failure> {
    let (stream, n) = (&fixture.stream, at.len());
    let kernel = module.kernel(&format!("every_{}", T::NAME))?;
    let queries = fixture.upload(at)?;
    let words = |n| DeviceBuffer::<u32>::zeroed(stream, n);
    let numbers = |n| DeviceBuffer::<T>::zeroed(stream, n);
    let (mut indices, mut values) = (words(n * ROOM)?, numbers(4 * n * ROOM)?);
    let mut facts = words(n * FACTS)?;
    let (mut near_indices, mut near_squares) = (words(n * FEW)?, numbers(n * FEW)?);
    let args = (
        grid.view(),
        queries.as_slice().cast::<T>()?,
        n as u32,
        radius,
        group,
        &mut indices,
        &mut values,
        &mut facts,
        &mut near_indices,
        &mut near_squares,
    );
    // SAFETY: the kernel reads n queries, and writes the elements of each that are made above.
    unsafe { fixture.device.launch(&kernel, stream, LaunchConfig::cover(n, 64), args) }?;
    Ok(Answers {
        indices: indices.to_vec(stream)?,
        values: values.to_vec(stream)?,
        facts: facts.to_vec(stream)?,
        near_indices: near_indices.to_vec(stream)?,
        near_squares: near_squares.to_vec(stream)?,
    })
}

fn kernels_find_what_batches_find(device: &TestDevice) -> TestResult {
    batches::<f32>(device)?;
    batches::<f64>(device)
}

fn batches<T: Number>(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let module = module(device, Options::new())?;
    let n = if thorough(device) { 500 } else { 70 };
    for input in inputs::<T>(&mut device.rng(530), n) {
        let grid = fixture.built(&input.points, input.radius)?;
        let answers = ask(&fixture, &module, &grid, &input.points, (input.radius, 0))?;
        let lists = fixture.lists(&grid, &GridQueries::at_grid_points(input.radius))?;
        let (mut near, mut squares) =
            (fixture.upload(&vec![0u32; n * FEW])?, fixture.upload(&vec![T::NAN; n * FEW])?);
        let queries = GridQueries::at_grid_points(input.radius);
        grid.k_nearest(&fixture.stream, &queries, FEW, &mut near, &mut squares)?;
        let (near, squares) = (near.to_vec(&fixture.stream)?, squares.to_vec(&fixture.stream)?);
        for (i, list) in lists.iter().enumerate() {
            let facts = &answers.facts[FACTS * i..FACTS * (i + 1)];
            let kept = list.len().min(ROOM);
            let found = &answers.indices[ROOM * i..ROOM * i + kept];
            ensure!(found == &list[..kept], "{}, {i}: {found:?}, not {list:?}", input.name);
            let third = list.get(2).copied().unwrap_or(u32::MAX);
            let visited = if list.len() > 2 { 103 } else { list.len() as u32 };
            let any = u32::from(!list.is_empty());
            let nearest = list.len().min(FEW);
            let wanted = [list.len() as u32, 1, any, third, visited, nearest as u32];
            ensure!(*facts == wanted, "{}, {i}: {facts:?}, not {wanted:?}", input.name);
            let range = FEW * i..FEW * i + nearest;
            ensure_eq!(answers.near_indices[range.clone()], near[range.clone()]);
            ensure_eq!(answers.near_squares[range.clone()], squares[range]);
        }
    }
    Ok(())
}

fn kernels_do_not_depend_on_flags(device: &TestDevice) -> TestResult {
    flags::<f32>(device)?;
    flags::<f64>(device)
}

fn flags<T: Number>(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let modules = [Options::new(), Options::new().fmad(false), Options::new().fast_math(true)]
        .map(|options| module(device, options));
    let [plain, others @ ..] = modules;
    let plain = plain?;
    let others: Vec<Module> = others.into_iter().collect::<Result<_, _>>()?;
    let periodic = |bounds: [[T; 3]; 2]| GridOptions::default().periodic(bounds[0], bounds[1]);
    for input in inputs::<T>(&mut device.rng(531), 60) {
        for options in [GridOptions::default(), periodic(input.solid_bounds())] {
            let mut grid = fixture.grid(options)?;
            let points = fixture.upload(&input.points)?;
            grid.reserve(&fixture.stream, points.len())?;
            grid.rebuild(&fixture.stream, T::points(&points), input.radius)?;
            let asked = (input.radius, 0);
            let wanted = ask(&fixture, &plain, &grid, &input.points, asked)?;
            for other in &others {
                let answers = ask(&fixture, other, &grid, &input.points, asked)?;
                ensure!(answers.bits() == wanted.bits(), "{}, {options:?}", input.name);
            }
        }
    }
    Ok(())
}

fn kernels_of_grids_without_points(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let module = module(device, Options::new())?;
    let bounded = GridOptions::default().bounds([0.0; 3], [1.0f32; 3]);
    let mut of_none = fixture.grid(bounded)?;
    let none = fixture.upload::<[f32; 3]>(&[])?;
    of_none.reserve(&fixture.stream, none.len())?;
    of_none.rebuild(&fixture.stream, &none, 0.1)?;
    let mut reserved = fixture.grid(GridOptions::default())?;
    reserved.reserve(&fixture.stream, 100)?;
    // A grid that had points.
    let mut emptied = fixture.built(&[[0.0f32; 3]; 40], 0.5)?;
    emptied.rebuild(&fixture.stream, &none, 0.5)?;
    let nowhere = fixture.built(&[[f32::NAN; 3]; 40], 0.5)?;
    let grids = [
        fixture.grid(GridOptions::default())?,
        fixture.grid(bounded)?,
        of_none,
        reserved,
        emptied,
        nowhere,
        fixture.built::<f32>(&[], 0.1)?,
    ];
    for grid in &grids {
        for radius in [0.0, 0.5, f32::INFINITY] {
            let at = [[0.0; 3], [0.5; 3], [f32::NAN; 3]];
            let answers = ask(&fixture, &module, grid, &at, (radius, 0))?;
            let wanted = [0, 1, 0, u32::MAX, 0, 0].repeat(at.len());
            ensure_eq!(answers.facts, wanted, "{:?}", grid.report(&fixture.stream)?);
        }
    }
    Ok(())
}

fn kernels_see_groups(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let module = module(device, Options::new())?;
    let mut rng = device.rng(532);
    let points: Vec<[f64; 3]> = (0..64).map(|_| inside(&mut rng, 0.0, 1.0)).collect();
    let groups: Vec<u32> = (0..64).map(|i| i % 4).collect();
    let mut grid = fixture.grid(GridOptions::default().groups(3))?;
    let (points_there, groups_there) = (fixture.upload(&points)?, fixture.upload(&groups)?);
    grid.reserve(&fixture.stream, points_there.len())?;
    grid.rebuild_grouped(&fixture.stream, &points_there, &groups_there, 0.3)?;
    for group in 0..5 {
        let answers = ask(&fixture, &module, &grid, &points, (10.0, group))?;
        // All 16 of the group; the last group is not the grid's.
        let count = if group < 3 { 16 } else { 0 };
        for (i, facts) in answers.facts.chunks(FACTS).enumerate() {
            ensure_eq!((facts[0], facts[1]), (count, 1));
            let found = &answers.indices[ROOM * i..ROOM * i + count as usize];
            ensure!(found.iter().all(|index| index % 4 == group), "{found:?}");
        }
    }
    Ok(())
}
