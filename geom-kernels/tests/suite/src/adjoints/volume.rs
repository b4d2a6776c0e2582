//! Samples of volumes: gradients of positions, of voxels' values, and of the arrays of indices.

use std::collections::HashMap;

use bytemuck::Pod;
use cuda_safe::{DeviceBuffer, KernelArg, LaunchConfig, Stream, arg::KernelArgs};
use geom_kernels::Real;
use geom_kernels::volume::{IndexedValues, Interpolated, Volume};

use super::differences::{OF_F32, OF_F64, Skipped, gradients, largest, near};
use super::volume_grids::{Field, Index, Loss, OnIndex, map};
use super::{VOLUME_SOURCE, count, single};
use crate::Geometry;
use crate::flags::module;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "adjoints",
        device(samples_of_numbers),
        device(samples_of_vectors),
        device(samples_of_index_grids),
        device(samples_in_the_world),
        device(samples_of_constants_have_no_gradient),
    ]
}

/// How samples are taken, as the kernels number it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    Trilinear,
    Tricubic,
    TrilinearWithGradient,
    TricubicWithGradient,
    Nearest,
}

const ALL: [How; 5] = [
    How::Trilinear,
    How::Tricubic,
    How::TrilinearWithGradient,
    How::TricubicWithGradient,
    How::Nearest,
];

impl How {
    fn is_cubic(self) -> bool {
        matches!(self, Self::Tricubic | Self::TricubicWithGradient)
    }
    fn has_gradient(self) -> bool {
        matches!(self, Self::TrilinearWithGradient | Self::TricubicWithGradient)
    }
}

/// Where samples are, and gradients of each: of the value's numbers, then three for each of them.
struct Asked {
    positions: Vec<[f64; 3]>,
    gradients: Vec<Vec<f64>>,
}

impl Asked {
    fn new(rng: &mut Rng, field: &Field, parts: usize, n: usize) -> Self {
        let positions = (0..n).map(|_| field.position(rng)).collect();
        let gradients =
            (0..n).map(|_| rng.floats(4 * parts).into_iter().map(f64::from).collect()).collect();
        Self { positions, gradients }
    }
}

/// What a kernel gives for a sample.
struct Found {
    position: [f64; 3],
    /// By where the value lies.
    voxels: HashMap<usize, Vec<f64>>,
    calls: usize,
}

fn narrowed<T: Real>(numbers: impl IntoIterator<Item = f64>) -> Vec<T> {
    numbers.into_iter().map(T::narrow).collect()
}

/// A volume on the device, with the array of its values if it is of indices.
struct Fixture<'a> {
    device: &'a TestDevice,
    stream: Stream,
    volume: Volume,
}

impl<'a> Fixture<'a> {
    fn new(device: &'a TestDevice, field: &Field) -> Result<Self, Failure> {
        let stream = device.stream()?;
        let volume = Volume::upload(&stream, &device.geometry(), &field.grid)?;
        Ok(Self { device, stream, volume })
    }

    /// With what comes first among the arguments of the kernel.
    fn ask<T: Real, A: First<T>>(
        &self,
        (kernel, first): (&str, &A),
        asked: &Asked,
        how: How,
    ) -> Result<Vec<Found>, Failure> {
        let (stream, n) = (&self.stream, asked.positions.len());
        let parts = asked.gradients.first().map_or(1, |g| g.len() / 4);
        let points: Vec<[T; 3]> = asked.positions.iter().map(|p| p.map(T::narrow)).collect();
        let points = DeviceBuffer::from_slice(stream, &points)?;
        let given = narrowed::<T>(asked.gradients.iter().flatten().copied());
        let given = DeviceBuffer::from_slice(stream, &given)?;
        let mut positions = DeviceBuffer::from_slice(stream, &vec![[T::narrow(7.5); 3]; n])?;
        let mut counts = DeviceBuffer::from_slice(stream, &vec![[-1i32; 2]; n])?;
        let mut places = DeviceBuffer::<i64>::zeroed(stream, 64 * n)?;
        let mut voxels = DeviceBuffer::from_slice(stream, &vec![T::narrow(0.0); 64 * parts * n])?;
        let module = module(self.device, VOLUME_SOURCE, nvrtc::Options::new())?;
        let kernel = module.kernel(kernel)?;
        let rest = (&points, &given, how as u32, n as u32);
        let out = (&mut positions, &mut counts, &mut places, &mut voxels);
        first.launch(self, &kernel, rest, out)?;
        let (positions, counts) = (positions.to_vec(stream)?, counts.to_vec(stream)?);
        let (places, voxels) = (places.to_vec(stream)?, voxels.to_vec(stream)?);
        let mut all = Vec::with_capacity(n);
        for i in 0..n {
            let [calls, wrong] = counts[i];
            ensure_eq!(wrong, 0, "the three adjoints differ, {how:?}");
            ensure!((0..=64).contains(&calls), "{calls} calls, {how:?}");
            let mut found = HashMap::new();
            for k in 64 * i..64 * i + calls as usize {
                let place = usize::try_from(places[k])?;
                let sums = found.entry(place).or_insert_with(|| vec![0.0; parts]);
                for (sum, x) in sums.iter_mut().zip(&voxels[parts * k..parts * (k + 1)]) {
                    *sum += x.wide();
                }
            }
            let position = positions[i].map(Real::wide);
            all.push(Found { position, voxels: found, calls: calls as usize });
        }
        Ok(all)
    }
}

type Rest<'a, T> = (&'a DeviceBuffer<[T; 3]>, &'a DeviceBuffer<T>, u32, u32);
type Out<'a, T> = (
    &'a mut DeviceBuffer<[T; 3]>,
    &'a mut DeviceBuffer<[i32; 2]>,
    &'a mut DeviceBuffer<i64>,
    &'a mut DeviceBuffer<T>,
);

/// The first arguments of a kernel.
trait First<T: Real> {
    fn launch(
        &self,
        fixture: &Fixture<'_>,
        kernel: &cuda_safe::Kernel,
        rest: Rest<'_, T>,
        out: Out<'_, T>,
    ) -> TestResult;
}

fn launch<A: KernelArgs>(
    fixture: &Fixture<'_>,
    kernel: &cuda_safe::Kernel,
    n: u32,
    args: A,
) -> TestResult {
    let launch = LaunchConfig::cover(n as usize, 64);
    // SAFETY: reads the gradients of n samples at n positions, and writes what there is room for.
    Ok(unsafe { fixture.device.launch(kernel, &fixture.stream, launch, args) }?)
}

/// A volume of its own values of this type.
struct OfValues<V>(std::marker::PhantomData<V>);

impl<T: Real, V: Interpolated> First<T> for OfValues<V> {
    fn launch(
        &self,
        fixture: &Fixture<'_>,
        kernel: &cuda_safe::Kernel,
        (points, given, how, n): Rest<'_, T>,
        (positions, counts, places, voxels): Out<'_, T>,
    ) -> TestResult {
        let view = fixture.volume.view::<V>()?;
        let args = (view, points, given, how, n, positions, counts, places, voxels);
        launch(fixture, kernel, n, args)
    }
}

/// A volume of indices of this type, and an array.
struct OfArray<'a, I, V: Interpolated>(std::marker::PhantomData<I>, IndexedValues<'a, V>);

impl<T: Real, I, V: Interpolated> First<T> for OfArray<'_, I, V>
where
    I: geom_kernels::volume::VolumeValue,
    for<'v> IndexedValues<'v, V>: KernelArg,
{
    fn launch(
        &self,
        fixture: &Fixture<'_>,
        kernel: &cuda_safe::Kernel,
        (points, given, how, n): Rest<'_, T>,
        (positions, counts, places, voxels): Out<'_, T>,
    ) -> TestResult {
        let view = fixture.volume.view::<I>()?;
        let args = (view, self.1, points, given, how, n, positions, counts, places, voxels);
        launch(fixture, kernel, n, args)
    }
}

/// The position's gradient and those of voxels, by the places of both.
fn flat(found: &Found, places: &[usize], parts: usize) -> Vec<f64> {
    let none = vec![0.0; parts];
    let of = |place| found.voxels.get(place).unwrap_or(&none).clone();
    found.position.into_iter().chain(places.iter().flat_map(of)).collect()
}

/// f64 against differences. Of what is left out, numbers of f32 against f64, whose places differ.
fn check(
    (field, wide): (&Field, &[Found]),
    (other, narrow): (&Field, &[Found]),
    asked: &Asked,
    how: How,
) -> TestResult {
    let mut skipped = Skipped::default();
    for (i, p) in asked.positions.iter().enumerate() {
        let failed = |e: Failure| Failure::new(format!("{how:?} at {p:?}: {e}"));
        let parts = asked.gradients[i].len() / 4;
        let mut g = asked.gradients[i].clone();
        if !how.has_gradient() {
            g[parts..].fill(0.0);
        }
        if how == How::Nearest {
            let at = p.map(|x| (x + 0.5).floor() as i32);
            for (field, found) in [(field, &wide[i]), (other, &narrow[i])] {
                let place = field.voxel(at).place;
                ensure_eq!(found.calls, usize::from(place.is_some()), "{p:?}");
                ensure_eq!(found.position, [0.0; 3]);
                if let Some(place) = place {
                    ensure_eq!(found.voxels.get(&place).map(|g| &g[..]), Some(&g[..parts]));
                }
            }
            continue;
        }
        let loss = Loss::new(field, how.is_cubic(), *p, &g);
        let variables = loss.of_variables(p);
        let mut places: Vec<usize> = variables.keys().copied().collect();
        places.sort_unstable();
        ensure!(wide[i].voxels.keys().all(|place| variables.contains_key(place)), "{how:?} {p:?}");
        ensure_eq!(wide[i].calls, loss.voxels.iter().filter(|v| v.place.is_some()).count());

        // In the order of the other's places, which is the same for a field of the same voxels.
        let mut theirs: Vec<(Option<usize>, usize)> = Loss::new(other, how.is_cubic(), *p, &g)
            .voxels
            .into_iter()
            .map(|v| v.place)
            .zip(loss.voxels.iter().map(|v| v.place))
            .filter_map(|(theirs, own)| Some((theirs, own?)))
            .collect();
        theirs.sort_unstable_by_key(|(_, own)| *own);
        theirs.dedup();
        let theirs: Vec<usize> = theirs.into_iter().filter_map(|(theirs, _)| theirs).collect();
        let (got, single) = (flat(&wide[i], &places, parts), flat(&narrow[i], &theirs, parts));
        near(&single, &got, OF_F32).map_err(failed)?;

        let of_position = gradients(p, 1e-3, |p| loss.at(p).map(|x| [x]));
        let Some([of_position]) = skipped.count(of_position) else { continue };
        let wanted: Vec<f64> = of_position
            .into_iter()
            .chain(places.iter().flat_map(|at| variables[at].clone()))
            .collect();
        ensure!(largest(&wanted) > 1e-6 * loss.size(), "{how:?} at {p:?}");
        near(&got, &wanted, OF_F64).map_err(failed)?;
        // And the position's alone.
        let alone = &wanted[..3];
        if largest(alone) > 1e-2 * loss.size() {
            near(&got[..3], alone, OF_F64).map_err(failed)?;
        }
    }
    if how != How::Nearest {
        skipped.are_few()?;
    }
    Ok(())
}

fn samples_of_numbers(device: &TestDevice) -> TestResult {
    let (wide, narrow) = (Field::stored::<f64, f64>(1)?, Field::stored::<f32, f32>(1)?);
    let asked = Asked::new(&mut device.rng(1140), &wide, 1, count(2_000));
    let (on_wide, on_narrow) = (Fixture::new(device, &wide)?, Fixture::new(device, &narrow)?);
    for how in ALL {
        let f64 = OfValues::<f64>(std::marker::PhantomData);
        let f32 = OfValues::<f32>(std::marker::PhantomData);
        let found = on_wide.ask::<f64, _>(("of_f64", &f64), &asked, how)?;
        let single = on_narrow.ask::<f32, _>(("of_f32", &f32), &asked, how)?;
        check((&wide, &found), (&narrow, &single), &asked, how)?;
    }
    Ok(())
}

fn samples_of_vectors(device: &TestDevice) -> TestResult {
    let (wide, narrow) = (Field::stored::<[f64; 3], f64>(3)?, Field::stored::<[f32; 3], f32>(3)?);
    let asked = Asked::new(&mut device.rng(1141), &wide, 3, count(1_000));
    let (on_wide, on_narrow) = (Fixture::new(device, &wide)?, Fixture::new(device, &narrow)?);
    for how in ALL {
        let f64 = OfValues::<[f64; 3]>(std::marker::PhantomData);
        let f32 = OfValues::<[f32; 3]>(std::marker::PhantomData);
        let found = on_wide.ask::<f64, _>(("of_vec3d", &f64), &asked, how)?;
        let single = on_narrow.ask::<f32, _>(("of_vec3f", &f32), &asked, how)?;
        check((&wide, &found), (&narrow, &single), &asked, how)?;
    }
    Ok(())
}

/// The array of a field, on the device.
fn array<V: Interpolated + Pod, S: Real>(
    stream: &Stream,
    field: &Field,
) -> Result<(DeviceBuffer<V>, V), Failure> {
    let numbers = narrowed::<S>(field.array.iter().copied());
    let values: Vec<V> = bytemuck::cast_slice::<S, u8>(&numbers)
        .chunks_exact(size_of::<V>())
        .map(bytemuck::pod_read_unaligned)
        .collect();
    let background = narrowed::<S>(field.background.iter().copied());
    let background = bytemuck::pod_read_unaligned(bytemuck::cast_slice(&background));
    Ok((DeviceBuffer::from_slice(stream, &values)?, background))
}

fn samples_of_index_grids(device: &TestDevice) -> TestResult {
    use geom_kernels::volume::{Index as OfAll, OnIndex as OfActive};
    let mut rng = device.rng(1142);
    let (wide, narrow) = (Field::indexed::<Index>(1, 8)?, Field::indexed::<Index>(1, 4)?);
    let asked = Asked::new(&mut rng, &wide, 1, count(1_500));
    let (on_wide, on_narrow) = (Fixture::new(device, &wide)?, Fixture::new(device, &narrow)?);
    let (values, outside) = array::<f64, f64>(&on_wide.stream, &wide)?;
    let f64 = OfArray::<OfAll, _>(std::marker::PhantomData, IndexedValues::new(&values, outside));
    let (values, outside) = array::<f32, f32>(&on_narrow.stream, &narrow)?;
    let f32 = OfArray::<OfAll, _>(std::marker::PhantomData, IndexedValues::new(&values, outside));
    for how in ALL {
        let found = on_wide.ask::<f64, _>(("of_index_f64", &f64), &asked, how)?;
        let single = on_narrow.ask::<f32, _>(("of_index_f32", &f32), &asked, how)?;
        check((&wide, &found), (&narrow, &single), &asked, how)?;
    }

    let (wide, narrow) = (Field::indexed::<OnIndex>(3, 8)?, Field::indexed::<OnIndex>(3, 4)?);
    let asked = Asked::new(&mut rng, &wide, 3, count(800));
    let (on_wide, on_narrow) = (Fixture::new(device, &wide)?, Fixture::new(device, &narrow)?);
    let (values, outside) = array::<[f64; 3], f64>(&on_wide.stream, &wide)?;
    let values = IndexedValues::new(&values, outside);
    let f64 = OfArray::<OfActive, _>(std::marker::PhantomData, values);
    let (values, outside) = array::<[f32; 3], f32>(&on_narrow.stream, &narrow)?;
    let values = IndexedValues::new(&values, outside);
    let f32 = OfArray::<OfActive, _>(std::marker::PhantomData, values);
    for how in ALL {
        let found = on_wide.ask::<f64, _>(("of_on_index_vec3d", &f64), &asked, how)?;
        let single = on_narrow.ask::<f32, _>(("of_on_index_vec3f", &f32), &asked, how)?;
        check((&wide, &found), (&narrow, &single), &asked, how)?;
    }
    Ok(())
}

/// Positions in the world, and gradients there, go by the map and its inverse.
fn samples_in_the_world(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(1143);
    let (wide, narrow) = (Field::stored::<f64, f64>(1)?, Field::stored::<f32, f32>(1)?);
    let map = map()?;
    let inside = Asked::new(&mut rng, &wide, 1, count(1_000));
    // In f32 the way from the world and back costs bits of the position: only where there are few.
    let near_origin = |p: &&[f64; 3]| largest(&p[..]) < 20.0;
    let positions: Vec<[f64; 3]> =
        inside.positions.iter().filter(near_origin).map(|p| map.apply(*p).map(single)).collect();
    let gradients_there = inside.gradients[..positions.len()].to_vec();
    let asked = Asked { positions, gradients: gradients_there };
    let found = world::<f64>(device, ("in_world_f64", &wide), &asked)?;
    let singles = world::<f32>(device, ("in_world_f32", &narrow), &asked)?;
    let mut skipped = Skipped::default();
    for (i, p) in asked.positions.iter().enumerate() {
        let inverse = map.inverse_matrix();
        let to_index = |p: &[f64]| -> [f64; 3] { map.apply_inverse([p[0], p[1], p[2]]) };
        // A gradient in the world is the transposed inverse times that of index space.
        let g = &asked.gradients[i];
        let slopes: [f64; 3] =
            std::array::from_fn(|k| (0..3).map(|j| inverse[k][j] * g[1 + j]).sum());
        let g = [g[0], slopes[0], slopes[1], slopes[2]];
        let loss = Loss::new(&wide, true, to_index(p), &g);
        let wanted = gradients(p, 2e-4, |p| loss.at(&to_index(p)).map(|x| [x]));
        let Some([wanted]) = skipped.count(wanted) else { continue };
        let failed = |e: Failure| Failure::new(format!("{p:?}: {e}"));
        near(&found[i], &wanted, OF_F64).map_err(failed)?;
        near(&singles[i], &found[i], OF_F32).map_err(failed)?;
    }
    ensure!(skipped.all > 300, "{}", skipped.all);
    skipped.are_few()
}

fn world<T: Real + Interpolated>(
    device: &TestDevice,
    (kernel, field): (&str, &Field),
    asked: &Asked,
) -> Result<Vec<[f64; 3]>, Failure> {
    let fixture = Fixture::new(device, field)?;
    let (stream, n) = (&fixture.stream, asked.positions.len());
    let points: Vec<[T; 3]> = asked.positions.iter().map(|p| p.map(T::narrow)).collect();
    let points = DeviceBuffer::from_slice(stream, &points)?;
    let given = narrowed::<T>(asked.gradients.iter().flatten().copied());
    let given = DeviceBuffer::from_slice(stream, &given)?;
    let mut out = DeviceBuffer::from_slice(stream, &vec![[T::narrow(7.5); 3]; n])?;
    let kernel = module(device, VOLUME_SOURCE, nvrtc::Options::new())?.kernel(kernel)?;
    let args = (fixture.volume.view::<T>()?, &points, &given, n as u32, &mut out);
    launch(&fixture, &kernel, n as u32, args)?;
    Ok(out.to_vec(stream)?.into_iter().map(|p| p.map(Real::wide)).collect())
}

/// Within tiles and the background, and where nothing is sampled.
fn samples_of_constants_have_no_gradient(device: &TestDevice) -> TestResult {
    let field = Field::stored::<f32, f32>(1)?;
    let fixture = Fixture::new(device, &field)?;
    let positions = vec![
        [11.5, 3.25, 4.75],
        [300.5, 40.0, 70.5],
        [4097.25, 120.5, 300.5],
        [-50.5, -60.5, -70.25],
        [1e9, 3.0, 3.0],
        [3e9, 3.0, 3.0],
        [3.0, f64::NAN, 3.0],
        [3.0, 3.0, f64::NEG_INFINITY],
    ];
    let gradients = vec![vec![1.0, -2.0, 3.0, 0.5]; positions.len()];
    let asked = Asked { positions, gradients };
    let values = OfValues::<f32>(std::marker::PhantomData);
    for how in ALL {
        for (found, p) in
            fixture.ask::<f32, _>(("of_f32", &values), &asked, how)?.iter().zip(&asked.positions)
        {
            ensure_eq!(found.position, [0.0; 3], "{how:?} {p:?}");
            ensure_eq!(found.calls, 0, "{how:?} {p:?}");
        }
    }
    Ok(())
}
