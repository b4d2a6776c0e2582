//! Volumes in kernels of a user's own, whatever they are compiled with.

use cuda_safe::{LaunchConfig, Module};
use geom_kernels::volume::{IndexedValues, Interpolation, Samples, Volume};

use super::Fixture;
use super::grids::{self, grid, positions};
use crate::flags::{flags, module};
use crate::volume_decode::Decoded;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure_eq, first_difference};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "volume",
        device(kernels_sample_as_batches_under_all_flags),
        device(kernels_store_and_look_up),
    ]
}

pub(crate) const SOURCE: &str = include_str!("../../kernels/volume.cu");

/// Numbers that a kernel of the source writes for each position.
const OF_F32: usize = 11;
const OF_VEC3D: usize = 27;
const OF_INDEX: usize = 9;

struct Volumes {
    of_f32: Volume,
    of_vec3d: Volume,
    of_index: Volume,
}

fn kernels_sample_as_batches_under_all_flags(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(960);
    let (of_f32, set) = grid::<grids::F32>(&mut rng)?;
    let volumes = Volumes {
        of_f32: fixture.volume(&of_f32)?,
        of_vec3d: fixture.volume(&grid::<grids::Vec3D>(&mut rng)?.0)?,
        of_index: fixture.volume(&grid::<grids::OfOnIndex>(&mut rng)?.0)?,
    };
    let asked = positions::<f32>(&mut rng, &set, 150);
    let values = rng.floats(volumes.of_index.value_count().unwrap_or(0) as usize - 1);
    let (points, values) = (fixture.upload(&asked)?, fixture.upload(&values)?);
    let array = IndexedValues::new(&values, 0.375);
    let n = asked.len();

    let samples = Samples::world(&points);
    let (mut near, mut line) = (fixture.room::<f32>(n)?, fixture.room::<f32>(n)?);
    let mut slopes = fixture.room::<[f32; 3]>(n)?;
    let (mut cubic, mut cubic_slopes) = (fixture.room::<f32>(n)?, fixture.room::<[f32; 3]>(n)?);
    let (linear, tricubic) = (Interpolation::Trilinear, Interpolation::Tricubic);
    let volume = &volumes.of_f32;
    volume.sample(stream, &samples, Interpolation::Nearest, &mut near)?;
    volume.sample_with_gradient(stream, &samples, linear, &mut line, &mut slopes)?;
    volume.sample_with_gradient(stream, &samples, tricubic, &mut cubic, &mut cubic_slopes)?;
    let (near, line, slopes) = (near.to_vec(stream)?, line.to_vec(stream)?, slopes.to_vec(stream)?);
    let (cubic, cubic_slopes) = (cubic.to_vec(stream)?, cubic_slopes.to_vec(stream)?);
    let mut wanted = Vec::with_capacity(n * OF_F32);
    for i in 0..n {
        wanted.extend([near[i], line[i], line[i]]);
        wanted.extend(slopes[i]);
        wanted.extend([cubic[i], cubic[i]]);
        wanted.extend(cubic_slopes[i]);
    }

    let samples = Samples::index(&points);
    let volume = &volumes.of_vec3d;
    let (mut line, mut slopes) = (fixture.room::<[f64; 3]>(n)?, fixture.room::<[[f64; 3]; 3]>(n)?);
    volume.sample_with_gradient(stream, &samples, linear, &mut line, &mut slopes)?;
    let (mut cubic, mut cubic_slopes) =
        (fixture.room::<[f64; 3]>(n)?, fixture.room::<[[f64; 3]; 3]>(n)?);
    volume.sample_with_gradient(stream, &samples, tricubic, &mut cubic, &mut cubic_slopes)?;
    let mut near = fixture.room::<[f64; 3]>(n)?;
    volume.sample(stream, &samples, Interpolation::Nearest, &mut near)?;
    let (near, line, slopes) = (near.to_vec(stream)?, line.to_vec(stream)?, slopes.to_vec(stream)?);
    let (cubic, cubic_slopes) = (cubic.to_vec(stream)?, cubic_slopes.to_vec(stream)?);
    let mut wanted_vectors = Vec::with_capacity(n * OF_VEC3D);
    for i in 0..n {
        wanted_vectors.extend(near[i]);
        wanted_vectors.extend(line[i]);
        wanted_vectors.extend(slopes[i].as_flattened());
        wanted_vectors.extend(cubic[i]);
        wanted_vectors.extend(cubic_slopes[i].as_flattened());
    }

    let volume = &volumes.of_index;
    let (mut near, mut line) = (fixture.room::<f32>(n)?, fixture.room::<f32>(n)?);
    let (mut slopes, mut cubic) = (fixture.room::<[f32; 3]>(n)?, fixture.room::<f32>(n)?);
    volume.sample_indexed(stream, &samples, Interpolation::Nearest, &array, &mut near)?;
    let both = (&mut line, &mut slopes);
    volume.sample_indexed_with_gradient(stream, &samples, linear, &array, both.0, both.1)?;
    volume.sample_indexed(stream, &samples, tricubic, &array, &mut cubic)?;
    let (near, line, slopes) = (near.to_vec(stream)?, line.to_vec(stream)?, slopes.to_vec(stream)?);
    let cubic = cubic.to_vec(stream)?;
    let mut wanted_indexed = Vec::with_capacity(n * OF_INDEX);
    for i in 0..n {
        wanted_indexed.extend([near[i], line[i]]);
        wanted_indexed.extend(slopes[i]);
        wanted_indexed.extend([cubic[i], line[i], 0.375, 0.375]);
    }

    for (flag, options) in flags() {
        let module = module(device, SOURCE, options)?;
        let failed = |e: Failure| Failure::new(format!("{flag}: {e}"));
        let mut out = fixture.room::<f32>(n * OF_F32)?;
        let args = (volumes.of_f32.view::<f32>()?, &points, n as u32, &mut out);
        launch(device, &fixture, &module, "ask_f32", n, args)?;
        first_difference(&bits(&out.to_vec(stream)?), &bits(&wanted)).map_err(failed)?;

        let mut out = fixture.room::<f64>(n * OF_VEC3D)?;
        let args = (volumes.of_vec3d.view::<[f64; 3]>()?, &points, n as u32, &mut out);
        launch(device, &fixture, &module, "ask_vec3d", n, args)?;
        let words = |values: &[f64]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        first_difference(&words(&out.to_vec(stream)?), &words(&wanted_vectors)).map_err(failed)?;

        let mut out = fixture.room::<f32>(n * OF_INDEX)?;
        let view = volumes.of_index.view::<geom_kernels::volume::OnIndex>()?;
        let args = (view, array, &points, n as u32, &mut out);
        launch(device, &fixture, &module, "ask_index", n, args)?;
        first_difference(&bits(&out.to_vec(stream)?), &bits(&wanted_indexed)).map_err(failed)?;
    }
    Ok(())
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

fn launch<A: cuda_safe::arg::KernelArgs>(
    device: &TestDevice,
    fixture: &Fixture,
    module: &Module,
    name: &str,
    n: usize,
    args: A,
) -> TestResult {
    let kernel = module.kernel(name)?;
    // SAFETY: reads n positions, and writes as many numbers of each as the tests made room for.
    unsafe { device.launch(&kernel, &fixture.stream, LaunchConfig::cover(n, 64), args)? };
    Ok(())
}

/// A kernel's own stores are seen by its own look-ups.
fn kernels_store_and_look_up(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let (grid, set) = grid::<grids::Bit>(&mut device.rng(961))?;
    let mut volume = fixture.volume(&grid)?;
    let asked: Vec<_> = set.into_iter().chain([[i32::MIN; 3]]).collect();
    let voxels = fixture.upload(&asked)?;
    let mut out = fixture.room::<u8>(asked.len())?;
    let module = module(device, SOURCE, nvrtc::Options::new())?;
    let view = volume.view_mut::<geom_kernels::volume::Bool>()?;
    let args = (view, &voxels, asked.len() as u32, &mut out);
    launch(device, &fixture, &module, "flip", asked.len(), args)?;
    let out = out.to_vec(stream)?;
    let decoded = Decoded::new(grid.bytes());
    for (voxel, got) in asked.iter().zip(out) {
        let flipped = decoded.value(*voxel)[0] ^ u8::from(decoded.is_in_leaf(*voxel));
        ensure_eq!(got, flipped, "{voxel:?}");
    }
    Ok(())
}
