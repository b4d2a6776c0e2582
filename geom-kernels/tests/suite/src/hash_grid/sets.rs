//! Sets of neighbours: equal to brute force, whatever the points, the grid and the queries.

use geom_kernels::Points;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid, Lookup};

use super::inputs::{Input, inputs, uniform};
use super::number::{Number, inside, unit};
use super::oracle::{Oracle, Pairs, Space};
use super::{Fixture, sorted, thorough};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, deep, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "hash_grid",
        device(sets_equal_brute_force_f32 = equal_brute_force::<f32>),
        device(sets_equal_brute_force_f64 = equal_brute_force::<f64>),
        device(sets_at_sizes_around_a_warp),
        device(sets_of_many_points),
        host(the_oracle_with_cells_is_brute_force),
    ]
}

/// How a grid is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Mode {
    Open,
    Bounds,
    /// Bounds far smaller than what the points fill.
    Narrow,
    Periodic([bool; 3]),
    Groups,
    BoundedGroups,
}

pub(super) const MODES: [Mode; 7] = [
    Mode::Open,
    Mode::Bounds,
    Mode::Narrow,
    Mode::Periodic([true; 3]),
    Mode::Periodic([false, true, false]),
    Mode::Groups,
    Mode::BoundedGroups,
];

const GROUPS: u32 = 3;

impl Mode {
    pub(super) fn options<T: Number>(self, input: &Input<T>) -> GridOptions<T> {
        let options = GridOptions::default();
        let [low, high] = input.bounds;
        match self {
            Self::Open => options,
            Self::Bounds => options.bounds(low, high),
            Self::Narrow => {
                let [low, high] = input.narrow_bounds();
                options.bounds(low, high)
            }
            Self::Periodic(axes) => {
                let [low, high] = input.solid_bounds();
                options.periodic_in(axes, low, high)
            }
            Self::Groups => options.groups(GROUPS),
            Self::BoundedGroups => options.bounds(low, high).groups(GROUPS),
        }
    }

    fn space<T: Number>(self, input: &Input<T>) -> Space<T> {
        match self {
            Self::Periodic(axes) => Space::periodic(axes, input.solid_bounds()),
            _ => Space::open(),
        }
    }

    pub(super) fn has_groups(self) -> bool {
        matches!(self, Self::Groups | Self::BoundedGroups)
    }
}

/// Where neighbours are looked for and how far.
#[derive(Debug, Clone, Copy)]
enum Asked {
    Own(f64),
    Other(f64),
    /// Each with a radius of its own.
    OwnRadii,
    OtherRadii,
}

const ASKED: [Asked; 10] = [
    Asked::Own(1.0),
    Asked::Other(1.0),
    Asked::Own(0.5),
    Asked::Other(3.0),
    Asked::OwnRadii,
    Asked::Own(0.0),
    Asked::OtherRadii,
    Asked::Own(3.0),
    Asked::Other(f64::INFINITY),
    Asked::Own(f64::INFINITY),
];

/// One grid, and what it was built from.
struct Built<'a, T: Number> {
    fixture: &'a Fixture<'a>,
    input: &'a Input<T>,
    groups: Option<Vec<u32>>,
    grid: HashGrid<T>,
    oracle: Oracle<'a, T>,
}

fn equal_brute_force<T: Number>(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(500);
    let (mut ordinary, mut ties) = (Pairs::default(), Pairs::default());
    let (mut turn, mut seen) = (0, Vec::new());
    let inputs = inputs::<T>(&mut rng, if thorough(device) { 400 } else { 100 });
    for input in &inputs {
        let pairs = if input.ties { &mut ties } else { &mut ordinary };
        for mode in MODES {
            let name = format!("{} as {mode:?}", input.name);
            let groups = mode.has_groups().then(|| groups(&mut rng, input.points.len()));
            let lookup = check_grid(&fixture, (input, mode, groups), (&mut rng, &mut turn), pairs);
            let lookup = lookup.map_err(|failure| Failure::new(format!("{name}: {failure}")))?;
            seen.push(std::mem::discriminant(&lookup));
        }
    }
    // Every way to find cells has been taken.
    let all = [Lookup::Table([1; 3]), Lookup::Rows, Lookup::HashedRows];
    for lookup in all {
        ensure!(seen.contains(&std::mem::discriminant(&lookup)), "no grid with {lookup:?}");
    }
    let name = T::NAME;
    println!("hash grid, {name}: of pairs {ordinary} differ from exact distances, of ties {ties}");
    ensure!(ordinary.compared > 100_000);
    ordinary.judge(name)
}

/// Groups, some of which the grid does not have.
pub(super) fn groups(rng: &mut Rng, n: usize) -> Vec<u32> {
    (0..n).map(|_| if rng.below(20) == 0 { u32::MAX } else { rng.below(3) as u32 }).collect()
}

fn check_grid<T: Number>(
    fixture: &Fixture<'_>,
    (input, mode, groups): (&Input<T>, Mode, Option<Vec<u32>>),
    (rng, turn): (&mut Rng, &mut usize),
    pairs: &mut Pairs,
) -> Result<Lookup, Failure> {
    let stream = &fixture.stream;
    let mut grid = fixture.grid(mode.options(input))?;
    let points = fixture.upload(&input.points)?;
    grid.reserve(stream, points.len())?;
    match &groups {
        Some(groups) => {
            let groups = fixture.upload(groups)?;
            grid.rebuild_grouped(stream, T::points(&points), &groups, input.radius)?;
        }
        None => grid.rebuild(stream, T::points(&points), input.radius)?,
    }
    let report = grid.report(stream)?;
    let is_left_out = |i: usize| {
        let finite = input.points[i].iter().all(|x| x.f64().is_finite());
        !finite || groups.as_ref().is_some_and(|groups| groups[i] >= GROUPS)
    };
    let left_out = (0..input.points.len()).filter(|i| is_left_out(*i)).count();
    ensure_eq!(report.left_out, left_out);
    ensure_eq!(report.points, input.points.len() - left_out);
    let of = groups.clone();
    let oracle = Oracle::new(mode.space(input), &input.points, of.as_deref());
    let built = Built { fixture, input, groups, grid, oracle };
    // All of them in the end, but not all of them for every grid.
    let asked = if thorough(fixture.device) { ASKED.len() } else { 3 };
    for _ in 0..asked {
        let asked = ASKED[*turn % ASKED.len()];
        *turn += 1;
        let checked = built.check(rng, asked, pairs);
        checked.map_err(|failure| Failure::new(format!("{asked:?}, {report:?}: {failure}")))?;
    }
    // So that each grid begins elsewhere.
    *turn += 1;
    Ok(report.lookup)
}

impl<T: Number> Built<'_, T> {
    fn check(&self, rng: &mut Rng, asked: Asked, pairs: &mut Pairs) -> TestResult {
        let input = self.input;
        let is_own = matches!(asked, Asked::Own(_) | Asked::OwnRadii);
        let at = if is_own { input.points.clone() } else { self.other_queries(rng) };
        let factor = match asked {
            Asked::Own(factor) | Asked::Other(factor) => Some(factor),
            Asked::OwnRadii | Asked::OtherRadii => None,
        };
        let radii: Vec<T> = match factor {
            Some(factor) => vec![self.radius(factor); at.len()],
            None => at.iter().map(|_| self.any_radius(rng)).collect(),
        };
        // Points of the grid search their own group; for others a group is passed.
        let groups = match &self.groups {
            Some(own) if is_own => own.clone(),
            Some(_) => (0..at.len()).map(|_| rng.below(4) as u32).collect(),
            None => vec![0; at.len()],
        };

        let points = self.fixture.upload(&at)?;
        let (radii_there, groups_there) =
            (self.fixture.upload(&radii)?, self.fixture.upload(&groups)?);
        let radius = factor.map_or(T::NAN, |factor| self.radius(factor));
        let mut queries = if is_own {
            GridQueries::at_grid_points(radius)
        } else {
            GridQueries::at(T::points(&points), radius)
        };
        if factor.is_none() {
            queries = queries.within_each(&radii_there);
        }
        if self.groups.is_some() && !is_own {
            queries = queries.groups(&groups_there);
        }
        let lists = self.fixture.lists(&self.grid, &queries)?;
        ensure_eq!(lists.len(), at.len());
        for (i, list) in lists.iter().enumerate() {
            let (query, radius, group) = (at[i], radii[i], groups[i]);
            let mut wanted = self.oracle.near(query, radius, group);
            if group >= GROUPS {
                wanted.clear();
            }
            let wanted: Vec<u32> = wanted.into_iter().map(|(index, _)| index).collect();
            let found = sorted(list);
            ensure!(
                found == wanted,
                "query {i} at {query:?} within {radius}: {found:?}, not {wanted:?}"
            );
            let is_radius = radius.f64() >= 0.0 && radius.f64().is_finite();
            if input.ordinary && is_radius && group < GROUPS {
                pairs.compare(&self.oracle, (query, radius, group), &found)?;
            }
        }
        Ok(())
    }

    fn radius(&self, factor: f64) -> T {
        if factor == f64::INFINITY { T::INFINITY } else { T::of(self.input.radius.f64() * factor) }
    }

    fn any_radius(&self, rng: &mut Rng) -> T {
        match rng.below(12) {
            0 => T::of(0.0),
            1 => T::INFINITY,
            2 => T::NAN,
            3 => T::of(-self.input.radius.f64()),
            4 => T::of(0.0).next_up(),
            _ => T::of(self.input.radius.f64() * 4.0 * unit(rng)),
        }
    }

    /// Near points, far from them, at edges, and nowhere.
    fn other_queries(&self, rng: &mut Rng) -> Vec<[T; 3]> {
        let (points, [low, high]) = (&self.input.points, self.input.bounds);
        let count = points.len().max(1);
        let query = |i: usize| -> [T; 3] {
            let point = points.get(i).copied().unwrap_or([T::of(0.0); 3]);
            match rng.below(8) {
                0 => point,
                1 => low,
                2 => high,
                3 => inside(rng, -1e6, 1e6),
                4 if rng.below(4) == 0 => [T::of(0.5), T::NAN, T::of(0.5)],
                4 => [T::of(0.25), T::of(0.5), T::INFINITY],
                _ => {
                    let offset: [f64; 3] = inside(rng, -1.0, 1.0);
                    let radius = self.input.radius.f64();
                    std::array::from_fn(|axis| T::of(point[axis].f64() + radius * offset[axis]))
                }
            }
        };
        (0..count).map(query).collect()
    }
}

fn sets_at_sizes_around_a_warp(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(501);
    let mut pairs = Pairs::default();
    for n in [0, 1, 2, 31, 32, 33, 257, 1000] {
        let input = uniform::<f32>(&mut rng, n);
        for mode in [Mode::Open, Mode::Bounds] {
            let mut turn = 0;
            let checked =
                check_grid(&fixture, (&input, mode, None), (&mut rng, &mut turn), &mut pairs);
            checked.map_err(|failure| Failure::new(format!("{n} as {mode:?}: {failure}")))?;
        }
    }
    pairs.judge("uniform")
}

/// Points of more blocks than one, the answers of a few compared.
fn sets_of_many_points(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let n = match device.tier() {
        "gpu" if thorough(device) => 1_000_000,
        _ if deep() => 50_000,
        _ => 5000,
    };
    let input = uniform::<f32>(&mut device.rng(502), n);
    let mut rng = device.rng(503);
    let oracle = Oracle::with_cells(&input.points, input.radius);
    for mode in [Mode::Bounds, Mode::Open, Mode::Narrow] {
        let mut grid = fixture.grid(mode.options(&input))?;
        let points = fixture.upload(&input.points)?;
        grid.reserve(&fixture.stream, points.len())?;
        grid.rebuild(&fixture.stream, Points::from(&points), input.radius)?;
        // Narrow bounds put all points into a few cells.
        let asked = if mode == Mode::Narrow { 300 } else { n.min(40_000) };
        let at: Vec<[f32; 3]> = (0..asked).map(|_| inside(&mut rng, -0.05, 1.05)).collect();
        let at_there = fixture.upload(&at)?;
        let lists = fixture.lists(&grid, &GridQueries::at(&at_there, input.radius))?;
        let mut pairs = Pairs::default();
        for (query, list) in at.iter().zip(&lists).take(10_000) {
            let wanted = oracle.near(*query, input.radius, 0);
            let wanted: Vec<u32> = wanted.into_iter().map(|(index, _)| index).collect();
            let found = sorted(list);
            ensure!(found == wanted, "{mode:?}, {query:?}: {found:?}, not {wanted:?}");
            pairs.compare(&oracle, (*query, input.radius, 0), &found)?;
        }
        pairs.judge("many points")?;
    }
    Ok(())
}

fn the_oracle_with_cells_is_brute_force() -> TestResult {
    let mut rng = Rng::new(1);
    let mut found = 0;
    for mut input in inputs::<f32>(&mut rng, 200) {
        if input.radius <= 1e-30 || !input.ordinary {
            continue;
        }
        // Cell numbers are exact only for places that are not absurdly far away.
        input.points.retain(|p| p.iter().all(|x| x.is_nan() || x.abs() < 1e9));
        let fast = Oracle::with_cells(&input.points, input.radius);
        let slow = Oracle::new(Space::open(), &input.points, None);
        for query in &input.points {
            for radius in [input.radius, input.radius * 0.5] {
                let (fast, slow) = (fast.near(*query, radius, 0), slow.near(*query, radius, 0));
                ensure!(fast == slow, "{}: {fast:?}, not {slow:?}", input.name);
                found += slow.len();
            }
        }
    }
    ensure!(found > 10_000, "{found}");
    Ok(())
}
