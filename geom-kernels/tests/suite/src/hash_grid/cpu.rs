//! Grids of the CPU against those of the device: the same neighbours, in the same order, with the same bits.

use cuda_safe::DeviceBuffer;
use cuda_safe::nvrtc::Options;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid, Lookup, NeighborSum, Pairs};
use geom_kernels::structures::Exact;
use geom_kernels::structures::hash_grid::{GridQueries as CpuQueries, HashGrid as CpuGrid};

use super::Fixture;
use super::inputs::{Input, inputs, uniform};
use super::kernels::{Answers, FACTS, FEW, ROOM, ask, module};
use super::number::{Number, inside, unit};
use super::oracle::{Oracle, Space};
use super::sets::{MODES, Mode, groups};
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused_for,
    first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "hash_grid",
        device(cpu_grids_are_the_devices_f32 = same::<f32>),
        device(cpu_grids_are_the_devices_f64 = same::<f64>),
        device(cpu_grids_of_any_size),
        device(cpu_queries_are_the_kernels),
        device(cpu_sums_are_the_devices),
        host(cpu_grids_find_what_brute_force_finds),
        host(cpu_grids_refuse_what_does_not_fit),
    ]
}

/// A grid of the device and one of the CPU, of the same points and groups.
struct Both<'a, T: Number + Exact> {
    fixture: &'a Fixture<'a>,
    there: HashGrid<T>,
    here: CpuGrid<T>,
    groups: Option<Vec<u32>>,
}

impl<'a, T: Number + Exact> Both<'a, T> {
    fn new(
        fixture: &'a Fixture<'a>,
        options: GridOptions<T>,
        capacity: usize,
    ) -> Result<Self, Failure> {
        let (mut there, mut here) = (fixture.grid(options)?, CpuGrid::new(options)?);
        there.reserve(&fixture.stream, capacity)?;
        here.reserve(capacity)?;
        Ok(Self { fixture, there, here, groups: None })
    }

    fn rebuild(&mut self, points: &[[T; 3]], groups: Option<Vec<u32>>, radius: T) -> TestResult {
        let (stream, up) = (&self.fixture.stream, self.fixture.upload(points)?);
        match &groups {
            Some(groups) => {
                let up_groups = self.fixture.upload(groups)?;
                self.there.rebuild_grouped(stream, T::points(&up), &up_groups, radius)?;
                self.here.rebuild_grouped(points, groups, radius)?;
            }
            None => {
                self.there.rebuild(stream, T::points(&up), radius)?;
                self.here.rebuild(points, radius)?;
            }
        }
        self.groups = groups;
        ensure_eq!(self.here.report(), self.there.report(stream)?);
        Ok(())
    }

    /// Compares all batch calls.
    fn compare(
        &self,
        there: &GridQueries<'_, T>,
        here: &CpuQueries<'_, T>,
        k: usize,
    ) -> TestResult {
        let stream = &self.fixture.stream;
        let wanted = self.there.neighbor_lists(stream, there)?;
        let found = self.here.neighbor_lists(here)?;
        first_difference(&found.offsets, &wanted.offsets.to_vec(stream)?)?;
        first_difference(&found.indices, &wanted.indices.to_vec(stream)?)?;
        let n = found.offsets.len() - 1;
        let mut counts = vec![u32::MAX; n];
        self.here.count_neighbors(here, &mut counts)?;
        let lengths: Vec<u32> =
            found.offsets.windows(2).map(|pair| (pair[1] - pair[0]) as u32).collect();
        first_difference(&counts, &lengths)?;

        let mut near = self.fixture.upload(&vec![7; n * k])?;
        let mut squares = self.fixture.upload(&vec![<T as Number>::NAN; n * k])?;
        self.there.k_nearest(stream, there, k, &mut near, &mut squares)?;
        let (mut found, mut found_squares) = (vec![7; n * k], vec![<T as Number>::NAN; n * k]);
        self.here.k_nearest(here, k, &mut found, &mut found_squares)?;
        first_difference(&found, &near.to_vec(stream)?)?;
        first_difference(&bits(&found_squares), &bits(&squares.to_vec(stream)?))
    }
}

fn bits<T: Number + Exact>(values: &[T]) -> Vec<u64> {
    values.iter().map(|value| value.hashed()).collect()
}

/// Queries near points, far from them, at edges, and nowhere; and a radius for each.
fn others<T: Number + Exact>(rng: &mut Rng, input: &Input<T>) -> (Vec<[T; 3]>, Vec<T>) {
    let points = input.points.iter().chain([&input.bounds[0], &input.bounds[1]]);
    let query = |point: &[T; 3]| -> [T; 3] {
        let offset: [f64; 3] = inside(rng, -1.0, 1.0);
        match rng.below(8) {
            0 => *point,
            1 => input.bounds[rng.below(2)],
            2 => inside(rng, -1e6, 1e6),
            3 => [
                T::of(0.5),
                [<T as Number>::NAN, <T as Number>::INFINITY][rng.below(2)],
                T::of(0.5),
            ],
            _ => std::array::from_fn(|axis| {
                T::of(point[axis].f64() + input.radius.f64() * offset[axis])
            }),
        }
    };
    let at: Vec<[T; 3]> = points.map(query).collect();
    let radii = at.iter().map(|_| match rng.below(12) {
        0 => T::of(0.0),
        1 => <T as Number>::INFINITY,
        2 => <T as Number>::NAN,
        3 => T::of(-input.radius.f64()),
        4 => T::of(0.0).next_up(),
        _ => T::of(input.radius.f64() * 4.0 * unit(rng)),
    });
    let radii = radii.collect();
    (at, radii)
}

fn same<T: Number + Exact>(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(560);
    let mut lookups = Vec::new();
    for input in inputs::<T>(&mut rng, if super::thorough(device) { 400 } else { 60 }) {
        for mode in MODES {
            let compared = same_grids(&fixture, &mut rng, &input, mode);
            lookups.push(std::mem::discriminant(
                &compared.map_err(|e| Failure::new(format!("{}, {mode:?}: {e}", input.name)))?,
            ));
        }
    }
    for lookup in [Lookup::Table([1; 3]), Lookup::Rows, Lookup::HashedRows] {
        ensure!(lookups.contains(&std::mem::discriminant(&lookup)), "no grid with {lookup:?}");
    }
    Ok(())
}

fn same_grids<T: Number + Exact>(
    fixture: &Fixture<'_>,
    rng: &mut Rng,
    input: &Input<T>,
    mode: Mode,
) -> Result<Lookup, Failure> {
    let n = input.points.len();
    let mut both = Both::new(fixture, mode.options(input), n + rng.below(2) * 3 * n)?;
    let of = |rng: &mut Rng| mode.has_groups().then(|| groups(rng, n));
    let reversed: Vec<[T; 3]> = input.points.iter().rev().copied().collect();
    // In the memory of another build.
    let given = of(rng);
    both.rebuild(&reversed, given, T::of(input.radius.f64() * 3.0))?;
    let given = of(rng);
    both.rebuild(&input.points, given, input.radius)?;
    let (factor, pairs) = match rng.below(6) {
        0 => (0.0, Pairs::All),
        1 => (0.5, Pairs::Half),
        2 => (3.0, Pairs::All),
        3 => (f64::INFINITY, Pairs::Others),
        _ => (1.0, Pairs::All),
    };
    let radius = if factor == f64::INFINITY {
        <T as Number>::INFINITY
    } else {
        T::of(input.radius.f64() * factor)
    };
    let k = [1, 8, 33][rng.below(3)];
    let (there, here) = (GridQueries::at_grid_points(radius), CpuQueries::at_grid_points(radius));
    if pairs == Pairs::Half {
        let (lists, found) = (
            both.there.neighbor_lists(&fixture.stream, &there.pairs(pairs))?,
            both.here.neighbor_lists(&here.pairs(pairs))?,
        );
        first_difference(&found.indices, &lists.indices.to_vec(&fixture.stream)?)?;
        both.compare(&there, &here, k)?;
    } else {
        both.compare(&there.pairs(pairs), &here.pairs(pairs), k)?;
    }
    let (at, radii) = others(rng, input);
    let asked: Vec<u32> = at.iter().map(|_| rng.below(4) as u32).collect();
    let (up, up_radii) = (fixture.upload(&at)?, fixture.upload(&radii)?);
    let up_asked = fixture.upload(&asked)?;
    let there = GridQueries::at(T::points(&up), <T as Number>::NAN)
        .within_each(&up_radii)
        .groups(&up_asked);
    let here = CpuQueries::at(&at, <T as Number>::NAN).within_each(&radii).groups(&asked);
    both.compare(&there, &here, k)?;
    Ok(both.here.report().lookup)
}

fn cpu_grids_of_any_size(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(561);
    for n in [0, 1, 2, 31, 32, 33, 257, 5000] {
        let input = uniform::<f32>(&mut rng, n);
        for mode in [Mode::Open, Mode::Bounds, Mode::Periodic([true; 3])] {
            let mut both = Both::new(&fixture, mode.options(&input), n)?;
            both.rebuild(&input.points, None, input.radius)?;
            let radius = input.radius.min(2.0);
            let queries = GridQueries::at_grid_points(radius);
            both.compare(&queries, &CpuQueries::at_grid_points(radius), 3)
                .map_err(|e| Failure::new(format!("{n}, {mode:?}: {e}")))?;
            ensure_eq!(both.here.len(), n);
            ensure_eq!(both.here.is_empty(), n == 0);
        }
    }
    Ok(())
}

fn cpu_queries_are_the_kernels(device: &TestDevice) -> TestResult {
    kernels::<f32>(device)?;
    kernels::<f64>(device)
}

/// The queries of kernels, one at a time.
fn kernels<T: Number + Exact>(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let module = module(device, Options::new())?;
    let mut rng = device.rng(562);
    for input in inputs::<T>(&mut rng, 33) {
        for mode in [Mode::Open, Mode::Periodic([true; 3]), Mode::Groups] {
            let n = input.points.len();
            let mut both = Both::new(&fixture, mode.options(&input), n)?;
            let groups = mode.has_groups().then(|| groups(&mut rng, n));
            both.rebuild(&input.points, groups, input.radius)?;
            let (at, radius) = (others(&mut rng, &input).0, T::of(input.radius.f64() * 1.5));
            let group = u32::from(mode.has_groups());
            let answers = ask(&fixture, &module, &both.there, &at, (radius, group))?;
            for (i, x) in at.iter().enumerate() {
                same_query(&both.here, &answers, i, (*x, radius, group))
                    .map_err(|e| Failure::new(format!("{}, {mode:?}, {x:?}: {e}", input.name)))?;
            }
        }
    }
    Ok(())
}

fn same_query<T: Number + Exact>(
    grid: &CpuGrid<T>,
    answers: &Answers<T>,
    i: usize,
    (x, radius, group): ([T; 3], T, u32),
) -> TestResult {
    let near: Vec<_> = grid.near_in_group(x, radius, group).collect();
    let indices: Vec<u32> = grid.neighbors_in_group(x, radius, group).collect();
    ensure_eq!(near.iter().map(|near| near.index).collect::<Vec<_>>(), indices);
    ensure_eq!(near.len() as u32, answers.facts[FACTS * i]);
    for (j, near) in near.iter().enumerate() {
        let slot = grid.point_at(near.slot);
        ensure!(slot.is_some_and(|p| p.index == near.index && p.position == near.position));
        if j < ROOM {
            let at = ROOM * i + j;
            let [x, y, z] = near.delta;
            ensure_eq!(near.index, answers.indices[at]);
            let found = bits(&[near.distance_squared, x, y, z]);
            ensure_eq!(found, bits(&answers.values[4 * at..4 * at + 4]));
        }
    }
    ensure!(grid.point_at(grid.point_count()).is_none());
    if group == 0 {
        let count = near.len() as u32;
        ensure_eq!((grid.count(x, radius), grid.any_neighbor(x, radius)), (count, count > 0));
        let few = grid.nearest_neighbors::<FEW>(x, radius);
        let found = FEW * i..FEW * i + few.count as usize;
        ensure_eq!(few.count, answers.facts[FACTS * i + 5]);
        ensure_eq!(few.index[..few.count as usize], answers.near_indices[found.clone()]);
        let squares = &few.distance_squared[..few.count as usize];
        ensure_eq!(bits(squares), bits(&answers.near_squares[found]));
        let first = (few.count > 0).then(|| (few.index[0], few.distance_squared[0]));
        ensure_eq!(grid.nearest(x, radius), first);
        let others = grid.nearest_others::<FEW>(x, radius, few.index[0]);
        ensure_eq!(others.count, count.saturating_sub(1).min(FEW as u32));
    }
    Ok(())
}

/// Sums have the bits of the device's, because terms come in the same order.
fn cpu_sums_are_the_devices(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(563);
    // SAFETY: the types are the same on both sides; the snippet touches its arguments alone.
    let sum = unsafe {
        NeighborSum::<f32, f32>::compile(
            &fixture.geometry,
            "float",
            None,
            "sum += n.delta.x; sum += n.distance_squared; sum += n.position.y; sum += x.z; sum += r;",
        )
    }?;
    let input = uniform::<f32>(&mut rng, 500);
    for mode in MODES {
        let mut both = Both::new(&fixture, mode.options(&input), 500)?;
        let groups = mode.has_groups().then(|| groups(&mut rng, 500));
        both.rebuild(&input.points, groups, input.radius)?;
        let mut sums = DeviceBuffer::<f32>::zeroed(stream, 500)?;
        let queries = GridQueries::at_grid_points(input.radius).pairs(Pairs::Others);
        sum.run(stream, &both.there, &queries, &mut sums)?;
        let mut found = vec![f32::NAN; 500];
        let queries = CpuQueries::at_grid_points(input.radius).pairs(Pairs::Others);
        both.here.neighbor_sums(&queries, &mut found, |sum: &mut f32, near, at| {
            *sum += near.delta[0];
            *sum += near.distance_squared;
            *sum += near.position[1];
            *sum += at.position[2];
            *sum += at.radius;
        })?;
        first_difference(&bits(&found), &bits(&sums.to_vec(stream)?))
            .map_err(|e| Failure::new(format!("{mode:?}: {e}")))?;
        ensure!(found.iter().filter(|sum| **sum != 0.0).count() > 300);
    }
    Ok(())
}

fn cpu_grids_find_what_brute_force_finds() -> TestResult {
    let mut rng = Rng::new(5);
    let mut total = 0;
    for input in inputs::<f32>(&mut rng, 300) {
        let [low, high] = input.solid_bounds();
        let periodic = GridOptions::default().periodic(low, high);
        for options in [GridOptions::default(), periodic] {
            let mut space = Space::open();
            if options == periodic {
                space = Space::periodic([true; 3], [low, high]);
            }
            let grid = CpuGrid::build(&input.points, input.radius, options)?;
            let oracle = Oracle::new(space, &input.points, None);
            let (at, radii) = others(&mut rng, &input);
            for (x, radius) in at.iter().zip(&radii) {
                let wanted: Vec<u32> =
                    oracle.near(*x, *radius, 0).into_iter().map(|(index, _)| index).collect();
                let mut found: Vec<u32> = grid.neighbors(*x, *radius).collect();
                found.sort_unstable();
                ensure!(found == wanted, "{}, {x:?}, {radius}: {found:?}", input.name);
                total += found.len();
            }
        }
    }
    ensure!(total > 100_000, "{total}");
    Ok(())
}

fn cpu_grids_refuse_what_does_not_fit() -> TestResult {
    let points = [[0.0f32; 3]; 3];
    let grid = CpuGrid::build(&points, 1.0, GridOptions::default())?;
    let own = CpuQueries::at_grid_points(1.0);
    ensure_refused_for(grid.count_neighbors(&own, &mut [0; 2]), "2 counts, and 3 are")?;
    ensure_refused_for(grid.neighbor_lists(&own.within_each(&[1.0; 4])), "4 radii for 3")?;
    ensure_refused_for(grid.neighbor_lists(&own.groups(&[1; 4])), "4 groups for 3")?;
    ensure_refused_for(grid.neighbor_lists(&CpuQueries::at_grid_points(f32::NAN)), "no radius")?;
    let others = CpuQueries::at(&points, 1.0).pairs(Pairs::Half);
    ensure_refused_for(grid.neighbor_lists(&others), "only a grid's own points")?;
    let (indices, squares) = (&mut [0; 3], &mut [0.0; 3]);
    ensure_refused_for(grid.k_nearest(&own, 0, indices, squares), "from 1 to 128")?;
    ensure_refused_for(grid.k_nearest(&own, 2, indices, squares), "6 are")?;
    ensure_refused_for(grid.k_nearest(&own.pairs(Pairs::Half), 1, indices, squares), "half")?;
    let mut offsets = [0; 4];
    ensure_refused_for(grid.neighbor_lists_into(&own, &mut offsets[1..], indices), "4 are")?;
    grid.neighbor_lists_into(&own, &mut offsets, indices)?;
    ensure_eq!((offsets, *indices), ([0, 3, 6, 9], [0, 1, 2]));
    ensure_refused_for(CpuGrid::build(&points, -1.0, GridOptions::default()), "no radius")?;
    let flat = GridOptions::default().periodic([0.0; 3], [1.0, 0.0, 1.0]);
    ensure_refused_for(CpuGrid::<f32>::new(flat), "not a box")?;
    let mut grouped = CpuGrid::new(GridOptions::default().groups(2))?;
    grouped.reserve(3)?;
    ensure_refused_for(grouped.rebuild(&points, 1.0), "has groups")?;
    ensure_refused_for(grouped.rebuild_grouped(&points, &[1], 1.0), "1 groups for 3")?;
    ensure_refused_for(grouped.rebuild_grouped(&[[0.0; 3]; 4], &[0; 4], 1.0), "room for 3")?;
    grouped.rebuild_grouped(&points, &[0, 1, 2], 1.0)?;
    ensure_eq!((grouped.report().left_out, grouped.count([0.0; 3], 9.0)), (1, 1));
    grouped.reserve(4)?;
    ensure_eq!((grouped.len(), grouped.count([0.0; 3], 9.0)), (0, 0));
    Ok(())
}
