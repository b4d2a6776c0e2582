//! Samples of volumes: with respect to positions, voxels and arrays of values.

use std::collections::HashMap;

use cuda_safe::{DeviceBuffer, DeviceSlice, Stream};
use geom_kernels::Real;
use geom_kernels::tape::DifferentiableValue;
use geom_kernels::volume::nanovdb::{self, Builder, Map};
use geom_kernels::volume::{
    DenseOptions, Index, IndexedValues, Interpolation, OnIndex, Samples, Volume, VolumeOptions,
};
use geom_oracle::samples::{Numbers, Stored, noise, stencil, weighted_sum};
use tape::{Differentiable, Seeds, Tape};

use super::user::{User, threads};
use super::{OF_F32, points, refused, slopes, within};
use crate::Geometry;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "gradients::volume",
        device(trilinear_samples),
        device(tricubic_samples),
        device(arrays_of_values),
        device(every_kernel),
        device(sums_of_a_transformed_cloud),
        device(deterministic_bits),
        device(what_is_refused),
    ]
}

/// Voxels from -10 to 9 have values; the leaves around have the background as well, and end at -16 and 15.
const FROM: i32 = -10;
const SIDE: usize = 20;
/// Voxels are that large, and the first lies there.
pub(super) const VOXEL: f64 = 0.25;
pub(super) const SHIFT: [f64; 3] = [1.0, -2.0, 0.5];

pub(super) trait Kind: DifferentiableValue + PartialEq + Sync {
    fn of(numbers: &[f64]) -> Self;
    fn to(&self) -> Vec<f64>;
}

macro_rules! kinds {
    ($($value:ty: $n:literal, $real:ty;)+) => {$(
        impl Kind for $value {
            fn of(numbers: &[f64]) -> Self {
                let all: Vec<$real> = numbers.iter().map(|x| *x as $real).collect();
                bytemuck::pod_read_unaligned(bytemuck::cast_slice::<$real, u8>(&all[..$n]))
            }
            fn to(&self) -> Vec<f64> {
                let all: &[$real] = bytemuck::cast_slice(std::slice::from_ref(self));
                all.iter().map(|x| f64::from(*x)).collect()
            }
        }
    )+};
}
kinds! {
    f32: 1, f32;
    f64: 1, f64;
    [f32; 3]: 3, f32;
    [f64; 3]: 3, f64;
    [f32; 4]: 4, f32;
    [f64; 4]: 4, f64;
}

/// The numbers of a voxel, which f32 has.
fn numbers_at(voxel: [i32; 3]) -> Numbers {
    let inside = voxel.iter().all(|i| (FROM..FROM + SIDE as i32).contains(i));
    if inside { noise(voxel) } else { [0.5; 4] }
}

fn value_at<V: Kind>(voxel: [i32; 3]) -> V {
    V::of(&numbers_at(voxel))
}

pub(super) fn volume<V: Kind + Send>(
    device: &TestDevice,
    stream: &Stream,
) -> Result<Volume, Failure> {
    let options = VolumeOptions::new(value_at::<V>([100; 3])).map(Map::uniform(VOXEL, SHIFT)?);
    let options = DenseOptions::new(options).origin([FROM; 3]);
    Ok(Volume::from_fn(stream, &device.geometry(), [SIDE; 3], options, value_at::<V>)?)
}

/// Positions in index space, some of them beyond what is stored, and how the samples have them.
fn positions(rng: &mut Rng, n: usize, in_world: bool) -> Vec<[f64; 3]> {
    let one = |p: [f32; 3]| {
        std::array::from_fn(|i| {
            let index = f64::from(p[i]);
            f64::from(if in_world { (index * VOXEL + SHIFT[i]) as f32 } else { index as f32 })
        })
    };
    points(rng, n, 18.0).into_iter().map(one).collect()
}

fn in_index(p: [f64; 3], in_world: bool) -> [f64; 3] {
    if in_world { std::array::from_fn(|i| (p[i] - SHIFT[i]) / VOXEL) } else { p }
}

fn samples<P: Real>(points: &DeviceBuffer<[P; 3]>, in_world: bool) -> Samples<'_, P> {
    if in_world { Samples::world(points) } else { Samples::index(points) }
}

/// The loss: the sum of the samples' numbers times weights.
fn loss<V: Kind>(
    how: Interpolation,
    at: &[f64],
    in_world: bool,
    seeds: &[V],
    value: impl Fn([i32; 3]) -> Numbers,
) -> f64 {
    let in_index = |p: &[f64]| in_index([p[0], p[1], p[2]], in_world);
    let at: Vec<[f64; 3]> = at.chunks_exact(3).map(in_index).collect();
    let parts = V::of(&[0.0; 4]).to().len();
    weighted_sum(is_tricubic(how), at.as_flattened(), &flat(seeds), parts, &value)
}

fn is_tricubic(how: Interpolation) -> bool {
    matches!(how, Interpolation::Tricubic)
}

fn flat<V: Kind>(values: &[V]) -> Vec<f64> {
    values.iter().flat_map(Kind::to).collect()
}

fn tolerance<V: Kind, P: Real>() -> f64 {
    if size_of::<V::Number>() == 8 && size_of::<P>() == 8 { 1e-7 } else { OF_F32 }
}

/// Voxels that samples are made of, and two that are not stored.
fn some_voxels(rng: &mut Rng) -> Vec<[i32; 3]> {
    let inside = |_| [0; 3].map(|_: i32| rng.below(SIDE) as i32 + FROM);
    let mut voxels: Vec<[i32; 3]> = (0..120).map(inside).collect();
    voxels.extend([[-14, 0, 3], [60, 0, 0], [0, -500, 0]]);
    voxels.sort_unstable();
    voxels.dedup();
    voxels
}

fn check<V, P: Real>(device: &TestDevice, how: Interpolation, n: usize) -> TestResult
where
    [P; 3]: Differentiable<Gradient = [P; 3]>,
    V: Kind + Send + Differentiable<Gradient = V>,
    V::Number: Differentiable<Gradient = V::Number>,
{
    let volume = volume::<V>(device, &device.stream()?)?;
    check_in::<V, P>(device, &volume, how, n)
}

fn check_in<V, P: Real>(
    device: &TestDevice,
    volume: &Volume,
    how: Interpolation,
    n: usize,
) -> TestResult
where
    [P; 3]: Differentiable<Gradient = [P; 3]>,
    V: Kind + Send + Differentiable<Gradient = V>,
    V::Number: Differentiable<Gradient = V::Number>,
{
    let (stream, mut rng) = (device.stream()?, device.rng(1420));
    for in_world in [false, true] {
        let host = positions(&mut rng, n, in_world);
        let there: Vec<[P; 3]> = host.iter().map(|p| p.map(P::narrow)).collect();
        let points = DeviceBuffer::from_slice(&stream, &there)?;
        let seeds: Vec<V> =
            (0..n).map(|_| V::of(&[0; 4].map(|_: i32| rng.float().into()))).collect();
        let mut out = DeviceBuffer::<V>::zeroed(&stream, n)?;
        let given = DeviceBuffer::from_slice(&stream, &seeds)?;
        let at = host.as_flattened();
        let by_point = slopes(at, |at| loss(how, at, in_world, &seeds, numbers_at));
        // Positions alone, then values too.
        for voxels in [false, true] {
            let mut tape = Tape::record(&stream, |t| {
                t.watch(&points)?;
                if voxels {
                    t.watch(volume.variables::<V>()?)?;
                }
                volume.record_sample(t, &samples(&points, in_world), how, &mut out)
            })?;
            tape.backward_with(&stream, &Seeds::new().with(&out, &given)?)?;
            let got = tape.gradient(&points)?.to_vec(&stream)?;
            let got: Vec<f64> = got.as_flattened().iter().map(|x| x.wide()).collect();
            within(tolerance::<V, P>(), &got, &by_point)?;
            if voxels {
                let whole = tape.gradient(volume.variables::<V>()?)?;
                by_voxels(&stream, volume, whole, &mut rng, (how, at, in_world, &seeds))?;
            }
        }
    }
    Ok(())
}

fn by_voxels<V: Kind + Send>(
    stream: &Stream,
    volume: &Volume,
    whole: DeviceSlice<'_, V::Number>,
    rng: &mut Rng,
    (how, at, in_world, seeds): (Interpolation, &[f64], bool, &[V]),
) -> TestResult {
    let voxels = some_voxels(rng);
    let asked = DeviceBuffer::from_slice(stream, &voxels)?;
    let mut out = DeviceBuffer::<V>::zeroed(stream, voxels.len())?;
    volume.gradients_of_voxels::<V>(stream, whole, &asked, &mut out)?;
    let numbers = V::of(&[0.0; 4]).to().len();
    let places: HashMap<[i32; 3], usize> =
        voxels.iter().enumerate().map(|(i, voxel)| (*voxel, i)).collect();
    let values: Vec<f64> = voxels.iter().flat_map(|voxel| value_at::<V>(*voxel).to()).collect();
    let mut wanted = slopes(&values, |values| {
        let stored = Stored { places: &places, values, parts: numbers };
        loss(how, at, in_world, seeds, |voxel| {
            stored.at(voxel).unwrap_or_else(|| numbers_at(voxel))
        })
    });
    // Those that no leaf has are constants.
    for (i, voxel) in voxels.iter().enumerate() {
        if voxel.iter().any(|x| !(-16..16).contains(x)) {
            wanted[numbers * i..numbers * (i + 1)].fill(Some(0.0));
        }
    }
    within(OF_F32, &flat(&out.to_vec(stream)?), &wanted)
}

fn trilinear_samples(device: &TestDevice) -> TestResult {
    let how = Interpolation::Trilinear;
    for n in [1, 31, 32, 33, 200] {
        check::<f32, f32>(device, how, n)?;
    }
    check::<f32, f64>(device, how, 100)?;
    check::<f64, f32>(device, how, 100)?;
    check::<f64, f64>(device, how, 100)?;
    check::<[f32; 3], f32>(device, how, 70)?;
    check::<[f64; 3], f64>(device, how, 70)?;
    check::<[f32; 4], f32>(device, how, 70)?;
    check::<[f64; 4], f64>(device, how, 70)
}

fn tricubic_samples(device: &TestDevice) -> TestResult {
    let how = Interpolation::Tricubic;
    check::<f32, f32>(device, how, 60)?;
    check::<f32, f64>(device, how, 40)?;
    check::<f64, f64>(device, how, 40)?;
    check::<[f32; 3], f32>(device, how, 40)?;
    check::<[f64; 3], f32>(device, how, 40)?;
    check::<[f32; 4], f32>(device, how, 40)?;
    check::<[f64; 4], f64>(device, how, 40)
}

/// The voxels of a grid of indices, and their places in an array.
pub(super) struct Indexed {
    pub(super) volume: Volume,
    pub(super) places: HashMap<[i32; 3], usize>,
}

/// Made on the device, of active voxels alone.
pub(super) fn on_index(device: &TestDevice, stream: &Stream) -> Result<Indexed, Failure> {
    let voxels: Vec<[i32; 3]> =
        (0..6i32.pow(3)).map(|i| [i / 36, i / 6 % 6, i % 6].map(|i| i + 4)).collect();
    let list = DeviceBuffer::from_slice(stream, &voxels)?;
    let options = VolumeOptions::new(OnIndex(0)).map(Map::uniform(VOXEL, SHIFT)?);
    let volume = Volume::from_voxels(stream, &device.geometry(), &list, options)?;
    let mut indices = DeviceBuffer::<OnIndex>::zeroed(stream, voxels.len())?;
    volume.lookup(stream, &list, &mut indices)?;
    let indices = indices.to_vec(stream)?;
    let places: HashMap<[i32; 3], usize> =
        voxels.iter().zip(&indices).map(|(voxel, index)| (*voxel, index.0 as usize - 1)).collect();
    ensure_eq!(places.len(), voxels.len());
    Ok(Indexed { volume, places })
}

/// Made on the host, of all voxels of a leaf.
fn index(device: &TestDevice, stream: &Stream) -> Result<Indexed, Failure> {
    let mut builder = Builder::<nanovdb::ValueIndex>::new(());
    builder.map(Map::uniform(VOXEL, SHIFT)?);
    let all = || (0..8i32.pow(3)).map(|i| [i / 64, i / 8 % 8, i % 8]);
    for voxel in all().step_by(3) {
        builder.set(voxel, ());
    }
    let volume = Volume::upload(stream, &device.geometry(), &builder.build()?)?;
    let voxels: Vec<[i32; 3]> = all().collect();
    let list = DeviceBuffer::from_slice(stream, &voxels)?;
    let mut indices = DeviceBuffer::<Index>::zeroed(stream, voxels.len())?;
    volume.lookup(stream, &list, &mut indices)?;
    let indices = indices.to_vec(stream)?;
    let stored = voxels.iter().zip(&indices).filter(|(_, index)| index.0 != 0);
    let places: HashMap<[i32; 3], usize> =
        stored.map(|(voxel, index)| (*voxel, index.0 as usize - 1)).collect();
    ensure_eq!(places.len(), voxels.len());
    Ok(Indexed { volume, places })
}

/// A grid of indices, and its array: by `n` positions and by the array.
fn array<V, P: Real>(
    device: &TestDevice,
    indexed: &Indexed,
    how: Interpolation,
    n: usize,
) -> TestResult
where
    [P; 3]: Differentiable<Gradient = [P; 3]>,
    V: Kind + Send + Differentiable<Gradient = V>,
{
    let (stream, mut rng) = (device.stream()?, device.rng(1421));
    let Indexed { volume, places } = indexed;
    let random = |rng: &mut Rng| V::of(&[0; 4].map(|_: i32| rng.float().into()));
    let length = volume.value_count().map_or(places.len(), |count| count as usize - 1);
    let values: Vec<V> = (0..length).map(|_| random(&mut rng)).collect();
    let (background, seeds) =
        (random(&mut rng), (0..n).map(|_| random(&mut rng)).collect::<Vec<V>>());
    let host: Vec<[f64; 3]> = points(&mut rng, n, 4.5)
        .into_iter()
        .map(|p| {
            std::array::from_fn(|i| f64::from(((f64::from(p[i]) + 6.5) * VOXEL + SHIFT[i]) as f32))
        })
        .collect();
    let there: Vec<[P; 3]> = host.iter().map(|p| p.map(P::narrow)).collect();
    let at = DeviceBuffer::from_slice(&stream, &there)?;
    let data = DeviceBuffer::from_slice(&stream, &values)?;
    let given = DeviceBuffer::from_slice(&stream, &seeds)?;
    let mut out = DeviceBuffer::<V>::zeroed(&stream, n)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&at)?;
        t.watch(&data)?;
        let array = IndexedValues::new(&data, background);
        volume.record_sample_indexed(t, &Samples::world(&at), how, &array, &mut out)
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &given)?)?;
    let background = background.to();
    let mut outside = [0.0; 4];
    outside[..background.len()].copy_from_slice(&background);
    let of = |at: &[f64], values: &[f64]| {
        let stored = Stored { places, values, parts: background.len() };
        loss(how, at, true, &seeds, |voxel| stored.at(voxel).unwrap_or(outside))
    };
    let (values, host) = (flat(&values), host.as_flattened());
    let got = tape.gradient(&at)?.to_vec(&stream)?;
    let got: Vec<f64> = got.as_flattened().iter().map(|x| x.wide()).collect();
    within(tolerance::<V, P>(), &got, &slopes(host, |at| of(at, &values)))?;
    let got = flat(&tape.gradient(&data)?.to_vec(&stream)?);
    ensure!(got.iter().any(|x| *x != 0.0));
    within(tolerance::<V, P>(), &got, &slopes(&values, |values| of(host, values)))
}

fn arrays_of_values(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let (active, all) = (on_index(device, &stream)?, index(device, &stream)?);
    for how in [Interpolation::Trilinear, Interpolation::Tricubic] {
        array::<f32, f32>(device, &active, how, 60)?;
        array::<[f64; 4], f64>(device, &active, how, 60)?;
        array::<[f32; 3], f64>(device, &all, how, 60)?;
    }
    Ok(())
}

/// A few samples by each kernel that there is.
fn every_kernel(device: &TestDevice) -> TestResult {
    fn of<V>(device: &TestDevice, arrays: &[Indexed; 2]) -> TestResult
    where
        V: Kind + Send + Differentiable<Gradient = V>,
        V::Number: Differentiable<Gradient = V::Number>,
    {
        let volume = volume::<V>(device, &device.stream()?)?;
        for how in [Interpolation::Trilinear, Interpolation::Tricubic] {
            check_in::<V, f32>(device, &volume, how, 6)?;
            check_in::<V, f64>(device, &volume, how, 6)?;
            for indexed in arrays {
                array::<V, f32>(device, indexed, how, 6)?;
                array::<V, f64>(device, indexed, how, 6)?;
            }
        }
        Ok(())
    }
    let stream = device.stream()?;
    let arrays = [on_index(device, &stream)?, index(device, &stream)?];
    of::<f32>(device, &arrays)?;
    of::<f64>(device, &arrays)?;
    of::<[f32; 3]>(device, &arrays)?;
    of::<[f64; 3]>(device, &arrays)?;
    of::<[f32; 4]>(device, &arrays)?;
    of::<[f64; 4]>(device, &arrays)
}

/// loss = sum of squares of the samples at points that a map has moved, by the map and by voxels.
fn sums_of_a_transformed_cloud(device: &TestDevice) -> TestResult {
    let (stream, mut rng, user) = (device.stream()?, device.rng(1422), User::new(device)?);
    let volume = volume::<f32>(device, &stream)?;
    let n = 50;
    let host = points(&mut rng, n, 8.0);
    let rows: Vec<f32> =
        (0..12).map(|i| if i % 5 == 0 { 0.9 } else { 0.1 * rng.float() }).collect();
    let cloud = DeviceBuffer::from_slice(&stream, &host)?;
    let map = DeviceBuffer::from_slice(&stream, &rows)?;
    let mut moved = DeviceBuffer::<[f32; 3]>::zeroed(&stream, n)?;
    let mut values = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&map)?;
        t.fill(&mut loss, 0.0)?;
        t.launch(&user.transform, threads(n), (&map, &cloud, &mut moved, n as u32))?;
        let at = Samples::index(&moved);
        volume.record_sample(t, &at, Interpolation::Tricubic, &mut values)?;
        t.launch(&user.add_squares, threads(n), (&values, &mut loss, n as u32))
    })?;
    tape.backward(&stream, &loss)?;
    let value = |rows: &[f64]| {
        let one = |q: &[f32; 3]| {
            let row = |r: usize| {
                (0..3).map(|k| rows[4 * r + k] * f64::from(q[k])).sum::<f64>() + rows[4 * r + 3]
            };
            let all = stencil(true, [row(0), row(1), row(2)]);
            let sample: f64 = all.iter().map(|(v, w)| w * f64::from(value_at::<f32>(*v))).sum();
            sample * sample
        };
        host.iter().map(one).sum::<f64>()
    };
    let rows: Vec<f64> = rows.iter().map(|x| f64::from(*x)).collect();
    let got: Vec<f64> = tape.gradient(&map)?.to_vec(&stream)?.into_iter().map(f64::from).collect();
    within(OF_F32, &got, &slopes(&rows, value))
}

/// Many samples in few voxels.
fn deterministic_bits(device: &TestDevice) -> TestResult {
    let (stream, mut rng, n) = (device.stream()?, device.rng(1423), 400);
    let volume = volume::<f32>(device, &stream)?;
    let at = DeviceBuffer::from_slice(&stream, &points(&mut rng, n, 2.0))?;
    let given = DeviceBuffer::from_slice(&stream, &rng.floats(n))?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let mut all = Vec::new();
    for deterministic in [true, true, false] {
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(deterministic);
        tape.record_again(&stream, |t| {
            t.watch(volume.variables::<f32>()?)?;
            volume.record_sample(t, &Samples::index(&at), Interpolation::Tricubic, &mut out)
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &given)?)?;
        all.push(tape.gradient(volume.variables::<f32>()?)?.to_vec(&stream)?);
    }
    let bits = |of: &[f32]| of.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    ensure!(bits(&all[0]) == bits(&all[1]), "other bits");
    let wanted: Vec<Option<f64>> = all[0].iter().map(|x| Some(f64::from(*x))).collect();
    ensure!(all[0].iter().any(|x| *x != 0.0));
    super::near(&all[2], &wanted)
}

fn what_is_refused(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut volume = volume::<f32>(device, &stream)?;
    let at = DeviceBuffer::from_slice(&stream, &[[0.5f32; 3]])?;
    let one = DeviceBuffer::from_slice(&stream, &[1.0f32])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let nearest = Tape::record(&stream, |t| {
        t.watch(&at)?;
        volume.record_sample(t, &Samples::index(&at), Interpolation::Nearest, &mut out)
    });
    refused(nearest.map(|_| ()), "the nearest value has no gradient")?;
    refused(volume.variables::<f64>().map(|_| ()), "not of double")?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&at)?;
        volume.record_sample(t, &Samples::index(&at), Interpolation::Trilinear, &mut out)
    })?;
    let seeds = Seeds::new().with(&out, &one)?;
    tape.backward_with(&stream, &seeds)?;
    refused(tape.gradient(volume.variables::<f32>()?).map(|_| ()), "is not watched")?;
    let voxels = DeviceBuffer::from_slice(&stream, &[[0i32; 3]])?;
    let mut by = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let short = volume.gradients_of_voxels::<f32>(&stream, &one, &voxels, &mut by);
    refused(short, "a gradient of 1 numbers")?;
    // The adjoint looks at values, and finds its way by the nodes.
    let mut count = DeviceBuffer::<u64>::zeroed(&stream, 1)?;
    volume.store(&stream, &voxels, &one, &mut count)?;
    refused(tape.backward_with(&stream, &seeds), "`volume samples`) was overwritten")
}
