//! Samples of volumes: by positions, and by the array of values of a volume of indices.

use cuda_safe::{DeviceBuffer, DeviceRepr};
use geom_kernels::Real;
use geom_kernels::volume::{IndexedValues, Interpolation, OnIndex, Samples, VolumeView};
use tape::{Differentiable, Op, Param, Seeds, Tape};

use super::super::volume::{Kind, SHIFT, VOXEL, on_index, volume};
use super::super::{points, refused};
use super::{differentiate, each, input, threads};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "gradients::queries",
        device(samples_of_volumes),
        device(samples_of_arrays),
        device(volumes_with_gradients),
    ]
}

const HOW: [(Interpolation, &str); 2] =
    [(Interpolation::Trilinear, "trilinear"), (Interpolation::Tricubic, "tricubic")];

/// `sample(volume, x, out, n)`
fn of_volume<V, P: Real>(
    device: &TestDevice,
    how: &str,
    value: &str,
    real: &str,
) -> Result<Op, Failure>
where
    [P; 3]: Differentiable,
    V: Kind + Differentiable,
{
    let text = format!(
        "#include <geom/volume.cuh>
extern \"C\" __global__ void sample(
    geom::Volume<{value}> volume, const geom::vec3<{real}>* x, {value}* out, unsigned n
) {{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = geom::sample_{how}(volume, geom::world_to_index(volume.map, x[i]));
}}"
    );
    let point = <[P; 3] as Differentiable>::ELEMENT;
    let params = vec![
        Param::argument::<VolumeView<'_, V>>("volume"),
        each("x", point),
        each("out", V::ELEMENT),
    ];
    differentiate(device, &text, "sample", params)
}

/// `sample(volume, values, count, x, out, n)`
fn of_array<V, P: Real>(
    device: &TestDevice,
    how: &str,
    value: &str,
    real: &str,
) -> Result<Op, Failure>
where
    [P; 3]: Differentiable,
    V: Kind + Differentiable,
{
    let text = format!(
        "#include <geom/volume.cuh>
extern \"C\" __global__ void sample(
    geom::Volume<geom::VolumeOnIndex> volume, const {value}* values, unsigned long long count,
    const geom::vec3<{real}>* x, {value}* out, unsigned n
) {{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    geom::IndexedValues<{value}> array{{values, count, {value}(0.5f)}};
    if (i < n) out[i] = geom::sample_{how}_index(volume, geom::world_to_index(volume.map, x[i]), array);
}}"
    );
    let point = <[P; 3] as Differentiable>::ELEMENT;
    let params = vec![
        Param::argument::<VolumeView<'_, OnIndex>>("volume"),
        input("values", V::ELEMENT),
        Param::value("count"),
        each("x", point),
        each("out", V::ELEMENT),
    ];
    differentiate(device, &text, "sample", params)
}

/// Positions in the world around voxels from -12 to 12, or from 3 to 11; some of them far away or not valid.
fn positions<P: Real>(rng: &mut Rng, n: usize, center: f64, size: f32) -> Vec<[P; 3]> {
    let one = |(i, p): (usize, [f32; 3])| match i % 30 {
        27 => [f64::NAN; 3],
        28 => [1e30; 3],
        29 => [500.0, -500.0, 0.0],
        _ => std::array::from_fn(|k| (f64::from(p[k]) + center) * VOXEL + SHIFT[k]),
    };
    let all = points(rng, n, size).into_iter().enumerate();
    all.map(|p| one(p).map(P::narrow)).collect()
}

fn flat<V: Kind>(values: &[V]) -> Vec<f64> {
    values.iter().flat_map(Kind::to).collect()
}

fn wide<P: Real>(values: &[[P; 3]]) -> Vec<f64> {
    values.as_flattened().iter().map(|x| x.wide()).collect()
}

/// Fails unless numbers differ by at most `bound` of the largest. In f32, the adjoint of the recorded call rounds at each
/// step, where slopes cancel; the generated one computes in f64.
fn same(what: &str, given: &[f64], wanted: &[f64], bound: f64) -> TestResult {
    ensure!(given.len() == wanted.len(), "{what}: {} of {}", given.len(), wanted.len());
    let most = wanted.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    for (i, (a, b)) in given.iter().zip(wanted).enumerate() {
        ensure!((a - b).abs() <= bound * most, "{what} {i}: {a}, not {b}; the largest is {most}");
    }
    Ok(())
}

fn bound<V: Kind, P: Real>() -> f64 {
    if size_of::<V::Number>() == 8 && size_of::<P>() == 8 { 1e-13 } else { 1e-6 }
}

fn by_position<V, P: Real>(device: &TestDevice, value: &str, real: &str) -> TestResult
where
    [P; 3]: Differentiable<Gradient = [P; 3]> + DeviceRepr,
    V: Kind + Send + Differentiable<Gradient = V>,
    V::Number: Differentiable<Gradient = V::Number>,
{
    let (stream, mut rng) = (device.stream()?, device.rng(1540));
    let volume = volume::<V>(device, &stream)?;
    for (how, name) in HOW {
        let op = of_volume::<V, P>(device, name, value, real)?;
        for n in [0, 1, 31, 32, 33, 600] {
            let at = DeviceBuffer::from_slice(&stream, &positions::<P>(&mut rng, n, 0.0, 14.0))?;
            let random = |rng: &mut Rng| V::of(&[0; 4].map(|_: i32| rng.float().into()));
            let seeds: Vec<V> = (0..n).map(|_| random(&mut rng)).collect();
            let seeds = DeviceBuffer::from_slice(&stream, &seeds)?;
            let mut out = DeviceBuffer::<V>::zeroed(&stream, n)?;
            let mut both = Vec::new();
            for kernel in [false, true] {
                let mut tape = Tape::record(&stream, |t| {
                    t.watch(&at)?;
                    if kernel {
                        let view = volume.view::<V>()?;
                        return t.launch(&op, threads(n), (view, &at, &mut out, n as u32));
                    }
                    volume.record_sample(t, &Samples::world(&at), how, &mut out)
                })?;
                if n == 0 {
                    continue;
                }
                tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
                let by = tape.gradient(&at)?.to_vec(&stream)?;
                both.push((flat(&out.to_vec(&stream)?), wide(&by)));
            }
            let [wanted, given] = &both[..] else { continue };
            ensure!(given.0 == wanted.0, "other values");
            same("by position", &given.1, &wanted.1, bound::<V, P>())?;
        }
    }
    Ok(())
}

fn samples_of_volumes(device: &TestDevice) -> TestResult {
    by_position::<f32, f32>(device, "float", "float")?;
    by_position::<f32, f64>(device, "float", "double")?;
    by_position::<f64, f64>(device, "double", "double")?;
    by_position::<[f32; 3], f32>(device, "geom::vec3<float>", "float")
}

fn by_array<V, P: Real>(device: &TestDevice, value: &str, real: &str) -> TestResult
where
    [P; 3]: Differentiable<Gradient = [P; 3]> + DeviceRepr,
    V: Kind + Send + Differentiable<Gradient = V>,
{
    let (stream, mut rng) = (device.stream()?, device.rng(1541));
    let indexed = on_index(device, &stream)?;
    let count =
        indexed.volume.value_count().map_or(indexed.places.len(), |count| count as usize - 1);
    let random = |rng: &mut Rng| V::of(&[0; 4].map(|_: i32| rng.float().into()));
    let values: Vec<V> = (0..count).map(|_| random(&mut rng)).collect();
    let data = DeviceBuffer::from_slice(&stream, &values)?;
    for (how, name) in HOW {
        let op = of_array::<V, P>(device, name, value, real)?;
        for n in [1, 33, 300] {
            let at = DeviceBuffer::from_slice(&stream, &positions::<P>(&mut rng, n, 6.5, 4.5))?;
            let seeds: Vec<V> = (0..n).map(|_| random(&mut rng)).collect();
            let seeds = DeviceBuffer::from_slice(&stream, &seeds)?;
            let mut out = DeviceBuffer::<V>::zeroed(&stream, n)?;
            let mut both = Vec::new();
            for kernel in [false, true] {
                let mut tape = Tape::record(&stream, |t| {
                    t.watch(&at)?;
                    t.watch(&data)?;
                    if kernel {
                        let view = indexed.volume.view::<OnIndex>()?;
                        let args = (view, &data, count as u64, &at, &mut out, n as u32);
                        return t.launch(&op, threads(n), args);
                    }
                    let array = IndexedValues::new(&data, V::of(&[0.5; 4]));
                    indexed.volume.record_sample_indexed(
                        t,
                        &Samples::world(&at),
                        how,
                        &array,
                        &mut out,
                    )
                })?;
                tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
                let by = wide(&tape.gradient(&at)?.to_vec(&stream)?);
                let by_value = flat(&tape.gradient(&data)?.to_vec(&stream)?);
                both.push((flat(&out.to_vec(&stream)?), by, by_value));
            }
            let [wanted, given] = &both[..] else { continue };
            ensure!(given.0 == wanted.0, "other values");
            same("by position", &given.1, &wanted.1, bound::<V, P>())?;
            same("by value", &given.2, &wanted.2, bound::<V, P>())?;
        }
    }
    Ok(())
}

fn samples_of_arrays(device: &TestDevice) -> TestResult {
    by_array::<f32, f32>(device, "float", "float")?;
    by_array::<f64, f64>(device, "double", "double")?;
    by_array::<[f32; 3], f32>(device, "geom::vec3<float>", "float")
}

/// The values of the volume itself have no gradient in a kernel.
fn volumes_with_gradients(device: &TestDevice) -> TestResult {
    let (stream, n) = (device.stream()?, 1);
    let volume = volume::<f32>(device, &stream)?;
    let op = of_volume::<f32, f32>(device, "trilinear", "float", "float")?;
    let at = DeviceBuffer::from_slice(&stream, &[[0.0f32; 3]])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let done = Tape::record(&stream, |t| {
        t.watch(&at)?;
        t.watch(volume.variables::<f32>()?)?;
        t.launch(&op, threads(n), (volume.view::<f32>()?, &at, &mut out, n as u32))
    });
    refused(done.map(drop), "by a pointer that the specification does not tell of")
}
