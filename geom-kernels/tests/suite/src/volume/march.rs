//! Rays through volumes: crossings and integrals, against brute force in f64.

use cuda_safe::{DeviceBuffer, LaunchConfig};
use geom_kernels::Ray;
use geom_kernels::volume::{Volume, VolumeHit};
use nanovdb::{Builder, Grid, Map};

use super::Fixture;
use super::march_inputs::{Input, band, inputs, no_rays, rays};
use super::march_oracle::{Field, Line, certain};
use crate::flags::{flags, module};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, deep, ensure, ensure_eq, ensure_refused,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "volume::march",
        device(crossings_are_those_of_every_cell),
        device(integrals_are_those_of_every_cell = integrals),
        device(rays_that_find_nothing),
        device(values_that_are_not_finite),
        device(segments_follow_each_other_and_are_few),
        device(kernels_find_what_batches_find_under_all_flags),
        device(is_refused_before_the_launch),
        device(in_a_graph),
    ]
}

pub(crate) const SOURCE: &str = include_str!("../../kernels/volume_march.cu");

const NO_HIT: VolumeHit =
    VolumeHit { t: f32::INFINITY, enters: 0, cell: [0; 3], place: [0.0; 3], normal: [0.0; 3] };

impl Fixture {
    fn hits(&self, volume: &Volume, rays: &[Ray], iso: f64) -> Result<Vec<VolumeHit>, Failure> {
        let there = DeviceBuffer::from_slice(&self.stream, rays)?;
        let garbage = VolumeHit { t: -7.0, enters: 9, ..NO_HIT };
        let mut hits = DeviceBuffer::from_slice(&self.stream, &vec![garbage; rays.len()])?;
        volume.first_crossings(&self.stream, &there, iso, &mut hits)?;
        Ok(hits.to_vec(&self.stream)?)
    }

    fn integrals(&self, volume: &Volume, rays: &[Ray]) -> Result<Vec<f32>, Failure> {
        let there = DeviceBuffer::from_slice(&self.stream, rays)?;
        let mut out = DeviceBuffer::from_slice(&self.stream, &vec![f32::NAN; rays.len()])?;
        volume.integrals(&self.stream, &there, &mut out)?;
        Ok(out.to_vec(&self.stream)?)
    }
}

/// How many rays an input is asked.
fn count(device: &TestDevice, input: &Input) -> usize {
    let many = deep() || (device.tier() == "gpu" && !device.is_instrumented());
    match (many, input.large) {
        (true, false) => 2000,
        (true, true) => 300,
        (false, false) => 160,
        (false, true) => 40,
    }
}

/// What was checked.
#[derive(Debug, Default)]
struct Seen {
    hits: usize,
    misses: usize,
    /// Hits that are known to 1e-5 of a cell, or of t.
    close: usize,
    leaving: usize,
    normals: usize,
}

fn crossings_are_those_of_every_cell(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(910);
    let mut all = Seen::default();
    for input in inputs(&mut rng)? {
        let volume = fixture.volume(&input.field.grid)?;
        let rays = rays(&mut rng, &input, count(device, &input));
        let mut seen = Seen::default();
        for (ray, hit) in rays.iter().zip(fixture.hits(&volume, &rays, input.iso)?) {
            check(&input, ray, &hit, &mut seen)
                .map_err(|e| Failure::new(format!("{}, {ray:?}, {hit:?}: {e}", input.name)))?;
        }
        if input.name != "nothing" && !input.name.starts_with("scattered") {
            ensure!(seen.hits > 0 && seen.misses > 0, "{}: {seen:?}", input.name);
        }
        all.hits += seen.hits;
        all.misses += seen.misses;
        all.close += seen.close;
        all.leaving += seen.leaving;
        all.normals += seen.normals;
    }
    ensure!(all.hits > 1000 && all.misses > 500 && all.leaving > 200, "{all:?}");
    ensure!(all.close * 10 > all.hits * 9 && all.normals * 10 > all.hits * 9, "{all:?}");
    Ok(())
}

/// Holds a hit against all that comes before it.
fn check(input: &Input, ray: &Ray, hit: &VolumeHit, seen: &mut Seen) -> TestResult {
    let (field, iso) = (&input.field, input.iso);
    let Some(line) = Line::new(field, ray) else {
        ensure_eq!(*hit, NO_HIT);
        seen.misses += 1;
        return Ok(());
    };
    let pieces = field.pieces(&line);
    let t = f64::from(hit.t);
    let is_hit = t.is_finite();
    // t is rounded to f32.
    let slack = if is_hit { t / f64::from(1u32 << 23) + f64::from(f32::MIN_POSITIVE) } else { 0.0 };
    let (first, error) = (pieces[0].c[0], pieces[0].error);
    if is_hit {
        // It is where it began, or what it began as is in doubt.
        let from_inside = hit.enters == 0;
        ensure!(from_inside == (first < iso) || (first - iso).abs() <= error, "begins at {first}");
        let earlier = certain(&pieces, iso, from_inside, t - slack);
        ensure!(earlier.is_none(), "crosses at {earlier:?} already");
        // And the field is the value there, in one of the pieces that t may be in.
        let here = pieces.iter().filter(|p| p.t0 <= t + slack && p.t1 >= t - slack);
        let off = here.map(|p| (p.at(p.place(t)) - iso).abs() - p.error - p.slope * slack);
        let off = off.fold(f64::INFINITY, f64::min);
        ensure!(off <= 0.0, "the field is off by {off}");
        ensure!((ray.t_min..=ray.t_max).contains(&hit.t), "t");
        let next = certain(&pieces, iso, from_inside, f64::INFINITY);
        let cell = 1.0 / line.along.iter().map(|d| d.abs()).fold(0.0, f64::max);
        seen.close += usize::from(next.is_some_and(|next| (next - t).abs() <= 1e-5 * (cell + t)));
        seen.hits += 1;
        seen.leaving += usize::from(from_inside);
        seen.normals += usize::from(check_place(field, &line, hit)?);
    } else {
        ensure_eq!(*hit, NO_HIT);
        let sides = [(false, first >= iso - error), (true, first <= iso + error)];
        let crosses = sides
            .iter()
            .filter(|side| side.1)
            .map(|side| certain(&pieces, iso, side.0, f64::INFINITY));
        let crosses: Vec<_> = crosses.collect();
        ensure!(crosses.contains(&None), "crosses at {crosses:?}");
        seen.misses += 1;
    }
    Ok(())
}

/// That cell, place and normal are those of t. Whether there is a normal.
fn check_place(field: &Field, line: &Line, hit: &VolumeHit) -> Result<bool, Failure> {
    let t = f64::from(hit.t);
    let at = line.at(t);
    for (axis, at) in at.into_iter().enumerate() {
        ensure!((0.0..=1.0).contains(&hit.place[axis]), "place");
        let got = f64::from(hit.cell[axis]) + f64::from(hit.place[axis]);
        let coordinates = line.from[axis].abs() + t * line.along[axis].abs();
        let off = 1e-7 + t * line.along[axis].abs() * 1.2e-7 + coordinates * 1e-14;
        ensure!((got - at).abs() <= off, "in {axis}: {got}, not {at}");
    }
    let corners = field.corners(hit.cell);
    let p = hit.place.map(f64::from);
    let gradient: [f64; 3] = std::array::from_fn(|axis| {
        let weight = |i: usize| -> f64 {
            (0..3)
                .map(|a| match (a == axis, i >> (2 - a) & 1 == 1) {
                    (true, far) => {
                        if far {
                            1.0
                        } else {
                            -1.0
                        }
                    }
                    (false, true) => p[a],
                    (false, false) => 1.0 - p[a],
                })
                .product()
        };
        corners.iter().enumerate().map(|(i, v)| v * weight(i)).sum()
    });
    let world = field.grid.map().apply_gradient(gradient);
    let length = |v: [f64; 3]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
    let (size, all) = (length(gradient), corners.iter().map(|v| v.abs()).fold(0.0, f64::max));
    let got = hit.normal.map(f64::from);
    ensure!((length(got) - 1.0).abs() < 1e-6 || got == [0.0; 3], "normal");
    // Place is rounded to f32, t too.
    if size < 1e-2 * all || t * length(line.along) > 1e3 {
        return Ok(false);
    }
    let wanted = world.map(|x| x / length(world));
    let off = length(std::array::from_fn(|axis| got[axis] - wanted[axis]));
    // Maps that stretch some directions turn errors.
    ensure!(off < 1e-3, "normal: not {wanted:?}, off by {off}");
    Ok(true)
}

fn integrals(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(911);
    let mut some = 0;
    for input in inputs(&mut rng)? {
        let volume = fixture.volume(&input.field.grid)?;
        let rays = rays(&mut rng, &input, count(device, &input));
        for (ray, got) in rays.iter().zip(fixture.integrals(&volume, &rays)?) {
            let (mut wanted, mut error) = (0.0, f64::from(f32::MIN_POSITIVE));
            if let Some(line) = Line::new(&input.field, ray) {
                for piece in input.field.pieces(&line) {
                    let part = piece.mean() * (piece.t1 - piece.t0);
                    wanted += part;
                    error += part.abs() * 1e-13 + piece.error * (piece.t1 - piece.t0);
                    // Where planes are crossed is rounded too.
                    error += piece.c[0].abs() * piece.t1 * 1e-14;
                }
            }
            let off = (f64::from(got) - wanted).abs() - wanted.abs() * 6e-8;
            ensure!(off <= error, "{}, {ray:?}: {got}, not {wanted} +- {error}", input.name);
            some += usize::from(wanted.abs() > 1e3 * error);
        }
    }
    ensure!(some > 1500, "{some}");
    Ok(())
}

fn rays_that_find_nothing(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let volume = fixture.volume(&band([0; 3], 6.0).build()?)?;
    let good = Ray::new([-20.0, 0.25, 0.5], [1.0, 0.0, 0.0]);
    let bad = no_rays();
    for (ray, hit) in bad.iter().zip(fixture.hits(&volume, &bad, 0.0)?) {
        ensure_eq!(hit, NO_HIT, "{ray:?}");
    }
    ensure_eq!(fixture.integrals(&volume, &bad)?, vec![0.0; bad.len()]);
    for iso in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 3.5, -3.5] {
        ensure_eq!(fixture.hits(&volume, &[good], iso)?, vec![NO_HIT], "{iso}");
    }
    // Around one launch's blocks, all rays are asked.
    for n in [0, 1, 31, 32, 33, 127, 128, 129, 1000] {
        let hits = fixture.hits(&volume, &vec![good; n], 0.0)?;
        ensure_eq!(hits.len(), n);
        ensure!(
            hits.iter().all(|hit| (hit.t - 14.0).abs() < 0.1 && hit.enters == 1),
            "{n}: {hits:?}"
        );
        ensure!(hits.iter().all(|hit| hit.normal[0] < -0.9), "{n}: {hits:?}");
        let integrals = fixture.integrals(&volume, &vec![good.between(0.0, 40.0); n])?;
        ensure!(integrals.windows(2).all(|two| two[0] == two[1]) && integrals.len() == n);
    }
    Ok(())
}

/// Nothing is found in a cell with a hole, and all else is as it was.
fn values_that_are_not_finite(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(912);
    let hole = |value: f32| -> Result<Grid, Failure> {
        let mut builder = band([0; 3], 6.0);
        for place in [[6, 0, 0], [0, -6, 0], [3, 4, 3], [-6, 1, -1]] {
            builder.set(place, value);
        }
        Ok(builder.map(Map::uniform(0.5, [0.0; 3])?).build()?)
    };
    let rays: Vec<Ray> = (0..600)
        .map(|_| {
            let from = [rng.float() * 6.0, rng.float() * 6.0, rng.float() * 6.0];
            Ray::new(from, std::array::from_fn(|axis| rng.float() - from[axis]))
        })
        .collect();
    let clean = hole(0.5)?;
    let clean = Field::new(clean, Vec::new())?;
    let wanted = fixture.hits(&fixture.volume(&clean.grid)?, &rays, 0.0)?;
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let holes = Field::new(hole(value)?, Vec::new())?;
        let (mut same, mut lost) = (0, 0);
        let got = fixture.hits(&fixture.volume(&holes.grid)?, &rays, 0.0)?;
        for ((ray, got), wanted) in rays.iter().zip(&got).zip(&wanted) {
            let whole = |cell| holes.corners(cell).iter().all(|v| v.is_finite());
            ensure!(!got.t.is_finite() || whole(got.cell), "{ray:?}: {got:?}");
            // One that is on the side that the rest of its cell is on does no harm.
            if got == wanted {
                same += 1;
            } else {
                lost += 1;
                ensure!(
                    !wanted.t.is_finite() || got.t > wanted.t || value < 0.0,
                    "{ray:?}: {got:?} {wanted:?}"
                );
            }
        }
        ensure!(same > 400 && lost > 2, "{value}: {same} {lost}");
    }
    Ok(())
}

/// What a kernel counts of a ray: constant pieces, cells, and mistakes; and the last t.
type Walk = [f32; 4];

fn walk(
    device: &TestDevice,
    fixture: &Fixture,
    grid: &Grid,
    rays: &[Ray],
) -> Result<Vec<Walk>, Failure> {
    let module = module(device, SOURCE, flags()[0].1.clone())?;
    let volume = fixture.volume(grid)?;
    let there = DeviceBuffer::from_slice(&fixture.stream, rays)?;
    let mut out = DeviceBuffer::<Walk>::zeroed(&fixture.stream, rays.len())?;
    let args = (volume.view::<f32>()?, &there, rays.len() as u32, &mut out);
    let kernel = module.kernel("count_segments")?;
    // SAFETY: thread i reads ray i and writes walk i.
    unsafe { device.launch(&kernel, &fixture.stream, LaunchConfig::cover(rays.len(), 64), args)? };
    Ok(out.to_vec(&fixture.stream)?)
}

fn segments_follow_each_other_and_are_few(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(913);
    for input in
        inputs(&mut rng)?.iter().filter(|input| !input.name.contains("f64") && !input.large)
    {
        let rays = rays(&mut rng, input, 200);
        for (ray, [constant, cells, wrong, end]) in
            rays.iter().zip(walk(device, &fixture, &input.field.grid, &rays)?)
        {
            let Some(line) = Line::new(&input.field, ray) else {
                ensure_eq!((constant, cells), (0.0, 0.0), "{}: {ray:?}", input.name);
                continue;
            };
            ensure_eq!(wrong, 0.0, "{}: {ray:?}: {cells} cells", input.name);
            let off = (f64::from(end) - line.t_max).abs();
            ensure!(off <= line.t_max * 1e-6, "{}: {ray:?}: ends at {end}", input.name);
        }
    }
    // Past a tile of the root, over 2^20 voxels, between tiles of it and within one; in the sides of tiles too.
    let mut builder = Builder::<f32>::new(1.0);
    builder.set([0; 3], 1.0).set([1 << 20, 0, 0], 1.0).fill_tile(3, [8192, 0, 0], 0.25, false);
    let grid = builder.build()?;
    let mut rays = Vec::new();
    for offset in [-0.5, 0.0, 0.5, 6.5, 7.5, 127.5, 4095.0, 4095.5] {
        rays.push(Ray::new([-1e6, offset, offset], [1.0, 0.0, 0.0]));
        rays.push(Ray::new([3e6, offset, 0.25], [-2.0, 0.0, 0.0]));
        rays.push(Ray::new([offset, offset, -2e6], [0.25, 0.0, 1.0]));
        rays.push(Ray::new([-1e6, -1e6 + offset, -1e6], [1.0; 3]));
    }
    for (ray, [constant, cells, wrong, _]) in rays.iter().zip(walk(device, &fixture, &grid, &rays)?)
    {
        ensure_eq!(wrong, 0.0, "{ray:?}");
        // 3 * 16 + 3 * 32 and 3 * 32 tiles for each upper node, and 8 cells for each leaf.
        ensure!(constant < 1000.0 && cells < 100.0, "{ray:?}: {constant} regions, {cells} cells");
    }
    Ok(())
}

fn bits(hits: &[VolumeHit]) -> Vec<u32> {
    bytemuck::cast_slice(hits).to_vec()
}

fn kernels_find_what_batches_find_under_all_flags(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(914);
    let inputs: Vec<_> = inputs(&mut rng)?.into_iter().step_by(4).collect();
    for (flag, options) in flags() {
        let module = module(device, SOURCE, options)?;
        let kernel = module.kernel("ask")?;
        for input in inputs.iter().filter(|input| !input.name.contains("f64") && !input.large) {
            let rays = rays(&mut rng, input, 100);
            let volume = fixture.volume(&input.field.grid)?;
            let there = DeviceBuffer::from_slice(&fixture.stream, &rays)?;
            let mut hits = DeviceBuffer::<VolumeHit>::zeroed(&fixture.stream, rays.len())?;
            let mut sums = DeviceBuffer::<f32>::zeroed(&fixture.stream, rays.len())?;
            let view = volume.view::<f32>()?;
            let args = (view, &there, rays.len() as u32, input.iso, &mut hits, &mut sums);
            // SAFETY: thread i reads ray i and writes answers i.
            unsafe {
                device.launch(
                    &kernel,
                    &fixture.stream,
                    LaunchConfig::cover(rays.len(), 64),
                    args,
                )?;
            };
            let wanted = bits(&fixture.hits(&volume, &rays, input.iso)?);
            ensure_eq!(bits(&hits.to_vec(&fixture.stream)?), wanted, "{}, {flag}", input.name);
            let wanted = fixture.integrals(&volume, &rays)?;
            ensure_eq!(sums.to_vec(&fixture.stream)?, wanted, "{}, {flag}", input.name);
        }
    }
    Ok(())
}

fn is_refused_before_the_launch(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let rays = DeviceBuffer::from_slice(stream, &[Ray::new([0.0; 3], [1.0; 3]); 3])?;
    let mut hits = DeviceBuffer::<VolumeHit>::zeroed(stream, 3)?;
    let mut sums = DeviceBuffer::<f32>::zeroed(stream, 3)?;
    let good = fixture.volume(&band([0; 3], 5.0).build()?)?;
    let whole = fixture.volume(&Builder::<i32>::new(3).build()?)?;
    let refused = [
        // Of another type.
        whole.first_crossings(stream, &rays, 0.0, &mut hits),
        whole.integrals(stream, &rays, &mut sums),
        // Of other lengths.
        good.first_crossings(stream, &rays, 0.0, hits.slice_mut(..2)?),
        good.integrals(stream, rays.slice(..2)?, &mut sums),
    ];
    for answer in refused {
        ensure_refused(answer)?;
    }
    let error = whole.integrals(stream, &rays, &mut sums).map_err(|e| e.to_string());
    ensure!(error.as_ref().is_err_and(|e| e.contains("f32 or f64")), "{error:?}");
    good.first_crossings(stream, &rays, 0.0, &mut hits)?;
    ensure!(hits.to_vec(stream)?.iter().all(|hit| hit.t.is_finite() && hit.enters == 0));
    Ok(())
}

fn in_a_graph(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let volume = fixture.volume(&band([0; 3], 6.0).build()?)?;
    let rays: Vec<Ray> =
        (0..50).map(|i| Ray::new([-20.0, i as f32 * 0.2, 0.0], [1.0, 0.0, 0.0])).collect();
    let there = DeviceBuffer::from_slice(&fixture.stream, &rays)?;
    let hits = DeviceBuffer::<VolumeHit>::zeroed(&fixture.stream, rays.len())?;
    let sums = DeviceBuffer::<f32>::zeroed(&fixture.stream, rays.len())?;
    let mut graph = device.context().capture((hits, sums), |stream, (hits, sums)| {
        volume.first_crossings(stream, &there, 0.0, hits)?;
        volume.integrals(stream, &there, sums)
    })?;
    graph.launch(&fixture.stream)?;
    let (hits, sums) = graph.state();
    ensure_eq!(bits(&hits.to_vec(&fixture.stream)?), bits(&fixture.hits(&volume, &rays, 0.0)?));
    ensure_eq!(sums.to_vec(&fixture.stream)?, fixture.integrals(&volume, &rays)?);
    Ok(())
}
