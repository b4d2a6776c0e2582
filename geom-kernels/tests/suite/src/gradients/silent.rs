//! What another tape answers with wrong numbers and without a word: the gradient is right here, or there is an
//! error. Vertices of meshes and voxels; arrays that are changed afterwards; updates in place.

use cuda_safe::{DeviceBuffer, LaunchConfig};
use geom_kernels::mesh::{PointQueries, Sign, shapes};
use geom_kernels::volume::{DenseOptions, Interpolation, Samples, Volume, VolumeOptions};
use tape::{Seeds, Tape};

use super::mesh_points::upload;
use super::user::{User, threads};
use super::{near, points, refused, slopes, wide};
use crate::Geometry;
use test_harness::{Case, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "gradients::silent",
        device(vertices_of_a_mesh),
        device(voxels),
        device(arrays_changed_by_what_is_recorded),
        device(arrays_changed_by_others),
        device(memory_that_is_not_watched),
    ]
}

/// By the vertices of a sphere that grows: the sum of the gradients along them is that by its radius.
fn vertices_of_a_mesh(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let sphere = shapes::icosphere(2, 1.0)?;
    let mesh = upload(device, &stream, &sphere)?;
    let queries = DeviceBuffer::from_slice(&stream, &[[3.0f32, 0.5, 0.25]])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(mesh.points())?;
        mesh.record_signed_distances(t, &PointQueries::at(&queries), Sign::Normal, &mut out)
    })?;
    tape.backward(&stream, &out)?;
    let by = tape.gradient(mesh.points())?.to_vec(&stream)?;
    let sum: f32 =
        by.iter().zip(&sphere.points).map(|(g, p)| (0..3).map(|k| g[k] * p[k]).sum::<f32>()).sum();
    ensure!((sum + 1.0).abs() < 0.05, "{sum}");
    Ok(())
}

/// Samples are linear in the voxels: the gradient times the values is the sample.
fn voxels(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let value = |[x, y, z]: [i32; 3]| (1 + x + 2 * y + 3 * z) as f32;
    let options = DenseOptions::new(VolumeOptions::new(0.0f32));
    let volume = Volume::from_fn(&stream, &device.geometry(), [4; 3], options, value)?;
    let at = DeviceBuffer::from_slice(&stream, &[[1.25f32, 1.5, 0.75]])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(volume.variables::<f32>()?)?;
        volume.record_sample(t, &Samples::index(&at), Interpolation::Trilinear, &mut out)
    })?;
    tape.backward(&stream, &out)?;
    let all: Vec<[i32; 3]> = (0..64).map(|i| [i / 16, i / 4 % 4, i % 4]).collect();
    let asked = DeviceBuffer::from_slice(&stream, &all)?;
    let mut by = DeviceBuffer::<f32>::zeroed(&stream, 64)?;
    let gradient = tape.gradient(volume.variables::<f32>()?)?;
    volume.gradients_of_voxels::<f32>(&stream, gradient, &asked, &mut by)?;
    let by = by.to_vec(&stream)?;
    let sum: f32 = by.iter().zip(&all).map(|(g, p)| g * value(*p)).sum();
    let sample = out.to_vec(&stream)?[0];
    ensure!(sample > 5.0 && (sum - sample).abs() < 1e-4, "{sum}, not {sample}");
    ensure!((by.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{by:?}");
    Ok(())
}

/// Points are asked about, then moved in place, twice, and asked about again: each pass finds them as they were.
fn arrays_changed_by_what_is_recorded(device: &TestDevice) -> TestResult {
    let (stream, mut rng, user) = (device.stream()?, device.rng(1510), User::new(device)?);
    let (n, rounds) = (40, 3);
    let value = |[x, y, z]: [i32; 3]| (x * x - 2 * y * y + z * x) as f32 / 16.0;
    let options = DenseOptions::new(VolumeOptions::new(0.0f32)).origin([-12; 3]);
    let volume = Volume::from_fn(&stream, &device.geometry(), [24; 3], options, value)?;
    let host = points(&mut rng, n, 3.0);
    let start = DeviceBuffer::from_slice(&stream, &host)?;
    let mut x = DeviceBuffer::<[f32; 3]>::zeroed(&stream, n)?;
    let mut values = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&start)?;
        t.fill(&mut loss, 0.0)?;
        t.copy(&start, &mut x)?;
        for _ in 0..rounds {
            let at = Samples::index(&x);
            volume.record_sample(t, &at, Interpolation::Tricubic, &mut values)?;
            t.launch(&user.add_squares, threads(n), (&values, &mut loss, n as u32))?;
            t.launch(&user.bend, threads(n), (&mut x, n as u32))?;
        }
        // What was watched is overwritten, too, and nothing comes through that.
        t.fill(&mut values, 0.0)
    })?;
    tape.backward(&stream, &loss)?;
    // The function is a polynomial of second degree, which cubic interpolation has.
    let sample = |p: [f64; 3]| (p[0] * p[0] - 2.0 * p[1] * p[1] + p[2] * p[0]) / 16.0;
    let wanted = slopes(&wide(&host), |x| {
        let mut sum = 0.0;
        for p in x.chunks_exact(3) {
            let mut p = [p[0], p[1], p[2]];
            for _ in 0..rounds {
                sum += sample(p).powi(2);
                p = p.map(|x| x + 0.1 * x * x);
            }
        }
        sum
    });
    near(tape.gradient(&start)?.to_vec(&stream)?.as_flattened(), &wanted)
}

/// What is not recorded, and overwrites what an adjoint needs: an error that names it, whatever it is.
fn arrays_changed_by_others(device: &TestDevice) -> TestResult {
    let (stream, user) = (device.stream()?, User::new(device)?);
    let value = |[x, _, _]: [i32; 3]| x as f32;
    let options = DenseOptions::new(VolumeOptions::new(0.0f32));
    let volume = Volume::from_fn(&stream, &device.geometry(), [4; 3], options, value)?;
    for how in 0..4 {
        let mut x = DeviceBuffer::from_slice(&stream, &[[1.5f32; 3]; 8])?;
        let other = DeviceBuffer::from_slice(&stream, &[[2.5f32; 3]; 8])?;
        let mut out = DeviceBuffer::<f32>::zeroed(&stream, 8)?;
        let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; 8])?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            volume.record_sample(t, &Samples::index(&x), Interpolation::Trilinear, &mut out)
        })?;
        let seeds = Seeds::new().with(&out, &ones)?;
        match how {
            0 => x.upload(&stream, &[[2.5; 3]; 8])?,
            1 => x.copy_from(&stream, &other)?,
            2 => {
                // SAFETY: 8 threads, each of which replaces a point of 8.
                unsafe {
                    user.bend.kernel().launch(&stream, LaunchConfig::cover(8, 32), (&mut x, 8u32))
                }?;
            }
            // Not changed.
            _ => {
                tape.backward_with(&stream, &seeds)?;
                let by = tape.gradient(&x)?.to_vec(&stream)?;
                ensure!(by.iter().all(|g| *g == [1.0, 0.0, 0.0]), "{by:?}");
                continue;
            }
        }
        refused(tape.backward_with(&stream, &seeds), "`volume samples`) was overwritten")?;
    }
    Ok(())
}

fn memory_that_is_not_watched(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mesh = upload(device, &stream, &shapes::icosphere(1, 1.0)?)?;
    let queries = DeviceBuffer::from_slice(&stream, &[[3.0f32, 0.5, 0.25]])?;
    let unused = DeviceBuffer::from_slice(&stream, &[[3.0f32, 0.5, 0.25]])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&queries)?;
        t.watch(&unused)?;
        mesh.record_distances(t, &PointQueries::at(&queries), &mut out)
    })?;
    tape.backward(&stream, &out)?;
    refused(tape.gradient(mesh.points()).map(|_| ()), "is not watched")?;
    refused(tape.gradient(&unused).map(|_| ()), "no differentiable path")
}
