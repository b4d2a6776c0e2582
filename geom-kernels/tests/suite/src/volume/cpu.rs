//! Volumes on the CPU: the bits of the device.

use bytemuck::NoUninit;
use geom_kernels::volume::nanovdb::{self, Build, Builder, Grid};
use geom_kernels::volume::{
    Index, Interpolated, Interpolation, OnIndex, Samples, Volume, VolumeHit,
};
use geom_kernels::{Ray, Real, structures, volume};

use super::Fixture;
use super::grids::{self, Kind, for_all_kinds, grid, map, positions, voxels};
use super::march_inputs::{inputs, no_rays, rays};
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused_for,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "volume::cpu",
        device(voxels_of_every_type),
        device(interpolated_values),
        device(values_of_arrays),
        device(nan_is_where_the_device_has_it),
        device(maps_of_any_vector),
        device(rays_through_every_input),
        device(rays_through_values_that_are_not_finite),
        device(refused),
    ]
}

const SIZES: [usize; 6] = [0, 1, 31, 32, 33, 1500];

/// The first element whose bytes differ.
fn same<T: NoUninit + std::fmt::Debug, I: std::fmt::Debug>(
    what: &str,
    asked: &[I],
    cpu: &[T],
    device: &[T],
) -> TestResult {
    ensure_eq!(cpu.len(), device.len());
    ensure_eq!(cpu.len(), asked.len());
    for ((asked, cpu), device) in asked.iter().zip(cpu).zip(device) {
        // Which NaN an operation gives is the processor's: an H200 gives others than the device in software. Debug shows
        // all NaN alike, and other numbers exactly.
        let shown = format!("{cpu:?}");
        let equal = bytemuck::bytes_of(cpu) == bytemuck::bytes_of(device)
            || (shown.contains("NaN") && shown == format!("{device:?}"));
        ensure!(equal, "{what}, {asked:?}: {shown} on the CPU, {device:?} on the device");
    }
    Ok(())
}

fn garbage<T: bytemuck::AnyBitPattern>(n: usize) -> Vec<T> {
    vec![bytemuck::pod_read_unaligned(&vec![0x5au8; size_of::<T>()]); n]
}

fn voxels_of_every_type(device: &TestDevice) -> TestResult {
    for_all_kinds!(voxels_of((device)));
    Ok(())
}

/// A grid whose leaves lie close together, so that it has a directory, among tiles and next to them; outside of the
/// box of leaves there is only the background, or also other tiles.
fn compact<K: Kind>(rng: &mut Rng, tiles: bool) -> Result<(Grid, Vec<[i32; 3]>), Failure> {
    let background = K::random(rng);
    let mut builder = Builder::<K::Build>::new(background);
    builder.map(map()?);
    for at in [[8, 0, 0], [16, 8, 8], [136, 0, 0]] {
        builder.fill_tile(1, at, K::random(rng), rng.below(2) == 0);
    }
    let outside = if tiles { K::random(rng) } else { background };
    builder.fill_tile(2, [256, 0, 0], outside, true).fill_tile(3, [8192, 5, 5], outside, false);
    let cube = (0..18 * 18 * 18).map(|n| [n / 324 - 9, n / 18 % 18 - 9, n % 18 - 9]);
    let set: Vec<[i32; 3]> = cube.chain([[390, 3, 3], [130, -9, 20]]).collect();
    for voxel in &set {
        match rng.below(4) {
            0 => builder.set_inactive(*voxel, K::random(rng)),
            _ => builder.set(*voxel, K::random(rng)),
        };
    }
    Ok((builder.build()?, set))
}

fn voxels_of<K: Kind>(device: &TestDevice) -> TestResult {
    let (fixture, mut rng) = (Fixture::new(device)?, device.rng(970));
    let scattered = grid::<K>(&mut rng)?;
    voxels_in::<K>(&fixture, &mut rng, scattered)?;
    for tiles in [false, true] {
        let compact = compact::<K>(&mut rng, tiles)?;
        voxels_in::<K>(&fixture, &mut rng, compact)?;
    }
    Ok(())
}

fn voxels_in<K: Kind>(
    fixture: &Fixture,
    rng: &mut Rng,
    (grid, set): (Grid, Vec<[i32; 3]>),
) -> TestResult {
    let cpu = structures::Volume::<K::Value>::new(grid.clone())?;
    let there = fixture.volume(&grid)?;
    let stream = &fixture.stream;
    for n in SIZES {
        let mut asked = voxels(rng, &set, n);
        asked.truncate(n);
        let coords = fixture.upload(&asked)?;
        let mut values = fixture.room::<K::Value>(n)?;
        there.lookup(stream, &coords, &mut values)?;
        let (mut mine, mut active) = (garbage(n), garbage(n));
        cpu.lookup_all(&asked, &mut mine)?;
        same(K::NAME, &asked, &mine, &values.to_vec(stream)?)?;
        let one: Vec<_> = asked.iter().map(|voxel| cpu.lookup(*voxel)).collect();
        same(K::NAME, &asked, &one, &mine)?;
        let mut flags = fixture.room::<u8>(n)?;
        there.is_active(stream, &coords, &mut flags)?;
        cpu.is_active_all(&asked, &mut active)?;
        same(K::NAME, &asked, &active, &flags.to_vec(stream)?)?;
        ensure!(asked.iter().zip(&active).all(|(at, is)| cpu.is_active(*at) == (*is == 1)));
    }
    nearest_of::<K, f32>(fixture, rng, (&cpu, &there), &set)?;
    nearest_of::<K, f64>(fixture, rng, (&cpu, &there), &set)
}

fn nearest_of<K: Kind, P: Real>(
    fixture: &Fixture,
    rng: &mut Rng,
    (cpu, there): (&structures::Volume<K::Value>, &Volume),
    set: &[[i32; 3]],
) -> TestResult {
    let (asked, stream) = (positions::<P>(rng, set, 300), &fixture.stream);
    let points = fixture.upload(&asked)?;
    let both = [
        (Samples::index(&points), structures::volume::Samples::index(&asked)),
        (Samples::world(&points), structures::volume::Samples::world(&asked)),
    ];
    for (on_device, on_cpu) in both {
        let mut values = fixture.room::<K::Value>(asked.len())?;
        there.sample(stream, &on_device, Interpolation::Nearest, &mut values)?;
        let mut mine = garbage(asked.len());
        cpu.sample_nearest_all(&on_cpu, &mut mine)?;
        same(K::NAME, &asked, &mine, &values.to_vec(stream)?)?;
    }
    let mut mine = garbage(asked.len());
    cpu.sample_nearest_all(&structures::volume::Samples::index(&asked), &mut mine)?;
    let one: Vec<_> = asked.iter().map(|p| cpu.sample_nearest(*p)).collect();
    same(K::NAME, &asked, &one, &mine)
}

fn interpolated_values(device: &TestDevice) -> TestResult {
    interpolated_of::<grids::F32>(device)?;
    interpolated_of::<grids::F64>(device)?;
    interpolated_of::<grids::Vec3F>(device)?;
    interpolated_of::<grids::Vec3D>(device)?;
    interpolated_of::<grids::Vec4F>(device)?;
    interpolated_of::<grids::Vec4D>(device)
}

fn interpolated_of<K: Kind<Value: Interpolated>>(device: &TestDevice) -> TestResult {
    let (fixture, mut rng) = (Fixture::new(device)?, device.rng(971));
    let (grid, set) = grid::<K>(&mut rng)?;
    samples_of::<K::Value, f32>(&fixture, &grid, &positions(&mut rng, &set, 80))?;
    samples_of::<K::Value, f64>(&fixture, &grid, &positions(&mut rng, &set, 80))?;
    for tiles in [false, true] {
        let (grid, set) = compact::<K>(&mut rng, tiles)?;
        samples_of::<K::Value, f32>(&fixture, &grid, &positions(&mut rng, &set, 150))?;
        samples_of::<K::Value, f64>(&fixture, &grid, &positions(&mut rng, &set, 60))?;
    }
    let grid = Builder::<K::Build>::new(K::random(&mut rng)).map(map()?).build()?;
    samples_of::<K::Value, f64>(&fixture, &grid, &positions(&mut rng, &set, 20))
}

const BOTH: [Interpolation; 2] = [Interpolation::Trilinear, Interpolation::Tricubic];

/// Samples of each kind at positions, all with the same bits.
fn samples_of<V: Interpolated, P: Real>(
    fixture: &Fixture,
    grid: &Grid,
    asked: &[[P; 3]],
) -> TestResult {
    let (stream, n) = (&fixture.stream, asked.len());
    let (cpu, there) = (structures::Volume::<V>::new(grid.clone())?, fixture.volume(grid)?);
    let points = fixture.upload(asked)?;
    let spaces = [
        (Samples::index(&points), structures::volume::Samples::index(asked)),
        (Samples::world(&points), structures::volume::Samples::world(asked)),
    ];
    for (how, (on_device, on_cpu)) in BOTH.into_iter().flat_map(|how| spaces.map(|s| (how, s))) {
        let what = format!("{how:?} of {}", V::TYPE);
        let (mut values, mut gradients) = (fixture.room::<V>(n)?, fixture.room(n)?);
        there.sample_with_gradient(stream, &on_device, how, &mut values, &mut gradients)?;
        let (values, gradients) = (values.to_vec(stream)?, gradients.to_vec(stream)?);
        let (mut alone, mut mine, mut slopes) = (garbage(n), garbage(n), garbage(n));
        cpu.sample(&on_cpu, how, &mut alone)?;
        cpu.sample_with_gradient(&on_cpu, how, &mut mine, &mut slopes)?;
        same(&what, asked, &alone, &values)?;
        same(&what, asked, &mine, &values)?;
        same(&what, asked, &slopes, &gradients)?;
    }
    let cubic = asked.iter().map(|p| cpu.sample_tricubic(*p)).collect::<Vec<_>>();
    let both = asked.iter().map(|p| cpu.sample_tricubic_with_gradient(*p)).collect::<Vec<_>>();
    singles(&cpu, asked, Interpolation::Tricubic, (cubic, both))?;
    let linear = asked.iter().map(|p| cpu.sample_trilinear(*p)).collect::<Vec<_>>();
    let both = asked.iter().map(|p| cpu.sample_trilinear_with_gradient(*p)).collect::<Vec<_>>();
    singles(&cpu, asked, Interpolation::Trilinear, (linear, both))
}

/// Queries of one position are those of many.
fn singles<V: Interpolated, P: Real>(
    cpu: &structures::Volume<V>,
    asked: &[[P; 3]],
    how: Interpolation,
    (alone, both): (Vec<V>, Vec<structures::volume::Sample<V>>),
) -> TestResult {
    let (mut values, mut gradients) = (garbage(asked.len()), garbage(asked.len()));
    let samples = structures::volume::Samples::index(asked);
    cpu.sample_with_gradient(&samples, how, &mut values, &mut gradients)?;
    same("alone", asked, &alone, &values)?;
    same("value", asked, &both.iter().map(|s| s.value).collect::<Vec<_>>(), &values)?;
    same("gradient", asked, &both.iter().map(|s| s.gradient).collect::<Vec<_>>(), &gradients)
}

fn values_of_arrays(device: &TestDevice) -> TestResult {
    let (fixture, stream) = (Fixture::new(device)?, device.stream()?);
    let mut rng = device.rng(972);
    let (grid, set) = grid::<grids::OfIndex>(&mut rng)?;
    let cpu = structures::Volume::<Index>::new(grid.clone())?;
    macro_rules! of {
        ($cpu:ident, $grid:ident, $set:ident, $value:ty, $P:ty) => {{
            let there = fixture.volume(&$grid)?;
            let count = $grid.value_count() as usize - 1;
            let values: Vec<$value> = (0..count)
                .map(|i| bytemuck::cast([0.37 * i as f32; size_of::<$value>() / 4]))
                .collect();
            let background: $value = bytemuck::cast([-3.5f32; size_of::<$value>() / 4]);
            let array = fixture.upload(&values)?;
            let (on_cpu, on_device) = (
                structures::volume::IndexedValues::new(&values, background),
                volume::IndexedValues::new(&array, background),
            );
            let asked = positions::<$P>(&mut rng, &$set, 250);
            let (n, points) = (asked.len(), fixture.upload(&asked)?);
            let (mut out, mut slopes) = (fixture.room(n)?, fixture.room(n)?);
            let (mut mine, mut gradients) = (garbage::<$value>(n), garbage(n));
            let (there_at, at) =
                (Samples::world(&points), structures::volume::Samples::world(&asked));
            for how in BOTH {
                there.sample_indexed_with_gradient(
                    &stream,
                    &there_at,
                    how,
                    &on_device,
                    &mut out,
                    &mut slopes,
                )?;
                $cpu.sample_indexed_with_gradient(&at, how, &on_cpu, &mut mine, &mut gradients)?;
                same("indexed", &asked, &mine, &out.to_vec(&stream)?)?;
                same("indexed gradient", &asked, &gradients, &slopes.to_vec(&stream)?)?;
            }
            let at = structures::volume::Samples::index(&asked);
            for how in BOTH {
                $cpu.sample_indexed(&at, how, &on_cpu, &mut mine)?;
                let one = |p: &[$P; 3]| match how {
                    Interpolation::Trilinear => $cpu.sample_trilinear_index(*p, &on_cpu),
                    _ => $cpu.sample_tricubic_index(*p, &on_cpu),
                };
                same("one", &asked, &asked.iter().map(one).collect::<Vec<_>>(), &mine)?;
            }
            let nearest = Interpolation::Nearest;
            there.sample_indexed(
                &stream,
                &Samples::index(&points),
                nearest,
                &on_device,
                &mut out,
            )?;
            $cpu.sample_indexed(&at, nearest, &on_cpu, &mut mine)?;
            same("nearest indexed", &asked, &mine, &out.to_vec(&stream)?)?;
            let one = asked.iter().map(|p| $cpu.sample_nearest_index(*p, &on_cpu));
            same("one", &asked, &one.collect::<Vec<_>>(), &mine)?;
            let few = structures::volume::IndexedValues::new(&values[1..], background);
            ensure_refused_for($cpu.sample_indexed(&at, nearest, &few, &mut mine), "indices")?;
        }};
    }
    of!(cpu, grid, set, f32, f32);
    of!(cpu, grid, set, [f32; 3], f64);
    of!(cpu, grid, set, f64, f32);
    let (grid, set) = grids::grid::<grids::OfOnIndex>(&mut rng)?;
    let cpu = structures::Volume::<OnIndex>::new(grid.clone())?;
    of!(cpu, grid, set, f32, f32);
    of!(cpu, grid, set, [f64; 4], f32);
    Ok(())
}

/// A grid of random bits: NaN of every kind, infinities, numbers of every size.
fn of_bits<T: Build>(rng: &mut Rng, value: fn(&mut Rng) -> T::Value) -> Result<Grid, Failure> {
    let mut builder = Builder::<T>::new(value(rng));
    for voxel in (0..20 * 20 * 20).map(|n| [n / 400 - 9, n / 20 % 20 - 9, n % 20 - 9]) {
        builder.set(voxel, value(rng));
    }
    Ok(builder.map(map()?).build()?)
}

/// A value that is often NaN, infinite or large.
fn any_f64(rng: &mut Rng) -> f64 {
    match rng.below(16) {
        0 => f64::from_bits(rng.next() | 0x7ff << 52),
        1 => f64::from_bits(rng.next()),
        2 => f64::INFINITY,
        3 => f64::MAX,
        _ => f64::from(rng.float()),
    }
}

fn any_f32(rng: &mut Rng) -> f32 {
    match rng.below(16) {
        0 => f32::from_bits(rng.next() as u32 | 0x7f80_0000),
        1 => f32::from_bits(rng.next() as u32),
        2 => f32::NEG_INFINITY,
        3 => f32::MAX,
        _ => rng.float(),
    }
}

fn nan_is_where_the_device_has_it(device: &TestDevice) -> TestResult {
    let (fixture, mut rng) = (Fixture::new(device)?, device.rng(973));
    let inside = |rng: &mut Rng| -> Vec<[f64; 3]> {
        (0..150).map(|_| [0; 3].map(|_: i32| 12.0 * f64::from(rng.float()))).collect()
    };
    let (wide, asked) = (inside(&mut rng), inside(&mut rng));
    let asked: Vec<[f32; 3]> =
        asked.iter().map(|p| p.map(|x| (x * 8.0).round() as f32 / 8.0)).collect();
    let grid = of_bits::<f32>(&mut rng, any_f32)?;
    samples_of::<f32, f32>(&fixture, &grid, &asked)?;
    samples_of::<f32, f64>(&fixture, &grid, &wide)?;
    let grid = of_bits::<f64>(&mut rng, any_f64)?;
    samples_of::<f64, f32>(&fixture, &grid, &asked)?;
    samples_of::<f64, f64>(&fixture, &grid, &wide)?;
    let grid = of_bits::<[f64; 3]>(&mut rng, |rng| [0; 3].map(|_: i32| any_f64(rng)))?;
    samples_of::<[f64; 3], f32>(&fixture, &grid, &asked)?;
    let grid = of_bits::<[f32; 4]>(&mut rng, |rng| [0; 4].map(|_: i32| any_f32(rng)))?;
    samples_of::<[f32; 4], f64>(&fixture, &grid, &wide)
}

fn maps_of_any_vector(device: &TestDevice) -> TestResult {
    maps_of::<f32>(device, any_f32)?;
    maps_of::<f64>(device, any_f64)
}

fn maps_of<P: Real>(device: &TestDevice, any: fn(&mut Rng) -> P) -> TestResult {
    let (fixture, mut rng) = (Fixture::new(device)?, device.rng(974));
    let grid = Builder::<u8>::new(0).map(map()?).build()?;
    let (cpu, there) = (structures::Volume::<u8>::new(grid.clone())?, fixture.volume(&grid)?);
    let asked: Vec<[P; 3]> = (0..1500).map(|_| [0; 3].map(|_: i32| any(&mut rng))).collect();
    let (stream, from) = (&fixture.stream, fixture.upload(&asked)?);
    let mut to = fixture.room::<[P; 3]>(asked.len())?;
    let mut mine = garbage::<[P; 3]>(asked.len());
    macro_rules! each {
        ($($name:ident $all:ident $one:ident;)+) => {$(
            there.$name(stream, &from, &mut to)?;
            cpu.$all(&asked, &mut mine)?;
            same(stringify!($name), &asked, &mine, &to.to_vec(stream)?)?;
            let one: Vec<_> = asked.iter().map(|v| cpu.$one(*v)).collect();
            same(stringify!($one), &asked, &one, &mine)?;
        )+};
    }
    each! {
        index_to_world index_to_world_all index_to_world;
        world_to_index world_to_index_all world_to_index;
        index_to_world_directions index_to_world_directions index_to_world_direction;
        world_to_index_directions world_to_index_directions world_to_index_direction;
        index_to_world_gradients index_to_world_gradients index_to_world_gradient;
        world_to_index_gradients world_to_index_gradients world_to_index_gradient;
    }
    Ok(())
}

fn rays_through_every_input(device: &TestDevice) -> TestResult {
    let (fixture, mut rng) = (Fixture::new(device)?, device.rng(975));
    let mut hits = 0;
    for input in inputs(&mut rng)? {
        let n = if input.large { 15 } else { 40 };
        let mut rays = rays(&mut rng, &input, n);
        rays.extend(no_rays());
        let grid = &input.field.grid;
        hits += match grid.value_type() {
            nanovdb::ValueType::F64 => rays_of::<f64>(&fixture, grid, input.iso, &rays)?,
            _ => rays_of::<f32>(&fixture, grid, input.iso, &rays)?,
        };
    }
    ensure!(hits > 300, "{hits}");
    // Through cells between a large tile and small ones, none of them in a leaf.
    let mut builder = Builder::<f32>::new(0.5);
    builder.fill_tile(2, [0; 3], -1.0, true);
    for tile in (0..4 * 4 * 4).map(|n| [128 + n / 16 * 8, n / 4 % 4 * 8, n % 4 * 8]) {
        builder.fill_tile(1, tile, rng.float(), true);
    }
    let between: Vec<Ray> = (0..150)
        .map(|_| {
            let [from, to] = [0; 2].map(|_: i32| {
                [127.5 + 0.45 * rng.float(), 16.0 + 20.0 * rng.float(), 16.0 + 20.0 * rng.float()]
            });
            Ray::segment(from, to)
        })
        .collect();
    ensure!(rays_of::<f32>(&fixture, &builder.build()?, -0.2, &between)? > 50);
    Ok(())
}

/// Compares hits and integrals, and returns the number of hits.
fn rays_of<T: Real + volume::VolumeValue>(
    fixture: &Fixture,
    grid: &Grid,
    iso: f64,
    rays: &[Ray],
) -> Result<usize, Failure> {
    let (stream, n) = (&fixture.stream, rays.len());
    let (cpu, there) = (structures::Volume::<T>::new(grid.clone())?, fixture.volume(grid)?);
    let on_device = fixture.upload(rays)?;
    let (mut hits, mut sums) = (fixture.room::<VolumeHit>(n)?, fixture.room::<f32>(n)?);
    there.first_crossings(stream, &on_device, iso, &mut hits)?;
    there.integrals(stream, &on_device, &mut sums)?;
    let (mut mine, mut integrals) = (garbage(n), garbage(n));
    cpu.first_crossings(rays, iso, &mut mine)?;
    cpu.integrals(rays, &mut integrals)?;
    same("hit", rays, &mine, &hits.to_vec(stream)?)?;
    same("integral", rays, &integrals, &sums.to_vec(stream)?)?;
    for ((ray, hit), sum) in rays.iter().zip(&mine).zip(&integrals) {
        ensure_eq!(cpu.first_crossing(ray, iso), Some(*hit).filter(|hit| hit.t.is_finite()));
        let one = cpu.integrate(ray);
        ensure!(one.is_nan() || sum.to_bits() == (one as f32).to_bits(), "{one}, not {sum}");
    }
    Ok(mine.iter().filter(|hit: &&VolumeHit| hit.t.is_finite()).count())
}

fn rays_through_values_that_are_not_finite(device: &TestDevice) -> TestResult {
    let (fixture, mut rng) = (Fixture::new(device)?, device.rng(976));
    let world = map()?;
    let rays: Vec<Ray> = (0..400)
        .map(|_| {
            let [a, b] = [0; 2].map(|_: i32| [0; 3].map(|_: i32| 14.0 * f64::from(rng.float())));
            Ray::segment(world.apply(a).map(|x| x as f32), world.apply(b).map(|x| x as f32))
        })
        .collect();
    let grid = of_bits::<f32>(&mut rng, any_f32)?;
    ensure!(rays_of::<f32>(&fixture, &grid, 0.1, &rays)? > 100);
    let grid = of_bits::<f64>(&mut rng, any_f64)?;
    ensure!(rays_of::<f64>(&fixture, &grid, -0.1, &rays)? > 100);
    Ok(())
}

fn refused(device: &TestDevice) -> TestResult {
    let (grid, _) = grid::<grids::F32>(&mut device.rng(977))?;
    ensure_refused_for(structures::Volume::<f64>::new(grid.clone()), "not of double")?;
    let volume = structures::Volume::<f32>::new(grid)?;
    let (points, mut few) = ([[0.0f32; 3]; 5], [0.0f32; 4]);
    let at = structures::volume::Samples::index(&points);
    let (nearest, linear) = (Interpolation::Nearest, Interpolation::Trilinear);
    ensure_refused_for(volume.sample(&at, nearest, &mut few), "room for 4")?;
    ensure_refused_for(volume.sample(&at, linear, &mut few), "room for 4")?;
    let (mut values, mut gradients) = ([0.0f32; 5], [[0.0f32; 3]; 5]);
    let none = volume.sample_with_gradient(&at, nearest, &mut values, &mut gradients);
    ensure_refused_for(none, "no gradient")?;
    let short = volume.sample_with_gradient(&at, linear, &mut values, &mut gradients[1..]);
    ensure_refused_for(short, "room for 4")?;
    ensure_refused_for(volume.lookup_all(&[[0; 3]; 5], &mut few), "room for 4")?;
    ensure_refused_for(volume.is_active_all(&[[0; 3]; 5], &mut [0; 6]), "room for 6")?;
    ensure_refused_for(volume.world_to_index_all(&points, &mut gradients[1..]), "room for 4")?;
    let rays = [Ray::new([0.0; 3], [1.0; 3]); 5];
    ensure_refused_for(volume.first_crossings(&rays, 0.0, &mut []), "room for 0")?;
    ensure_refused_for(volume.integrals(&rays, &mut few), "room for 4")
}
