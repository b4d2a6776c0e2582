//! Winding numbers in users' kernels, under all flags.

use cuda_safe::{DeviceBuffer, LaunchConfig};
use geom_kernels::mesh::{ClosestPoint, MeshOptions, PointQueries, Sign, shapes};

use super::inputs::queries;
use super::{BUILDERS, Fixture, errors, wanted};
use crate::flags::{flags, module};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, first_difference};

const SOURCE: &str = include_str!("../../kernels/winding.cu");

pub(super) fn cases() -> Vec<Case> {
    cases![
        "winding",
        device(same_bits_under_all_flags),
        device(with_hardly_a_stack),
        device(without_moments_all_faces_are_added),
        device(signed_distances),
    ]
}

fn same_bits_under_all_flags(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(820);
    let host = shapes::knot(48, 12)?;
    let mesh = fixture.mesh(&host, BUILDERS[1])?;
    let at = queries(&mut rng, &host, 120);
    let points = DeviceBuffer::from_slice(stream, &at)?;
    for beta in [1.0, 2.0, f32::INFINITY] {
        let batch: Vec<u32> =
            fixture.numbers(&mesh, &at, beta)?.iter().map(|number| number.to_bits()).collect();
        let betas = DeviceBuffer::from_slice(stream, &vec![beta; at.len()])?;
        for (flag, options) in flags() {
            let kernel = module(device, SOURCE, options)?.kernel("numbers")?;
            let mut out = DeviceBuffer::<f32>::zeroed(stream, at.len())?;
            let args = (mesh.view(), &points, &betas, at.len() as u32, &mut out);
            // SAFETY: the kernel reads n points and betas and writes n numbers.
            unsafe { device.launch(&kernel, stream, LaunchConfig::cover(at.len(), 64), args) }?;
            let out: Vec<u32> = out.to_vec(stream)?.iter().map(|x| x.to_bits()).collect();
            first_difference(&out, &batch)
                .map_err(|e| Failure::new(format!("{flag}, {beta}: {e}")))?;
        }
    }
    Ok(())
}

/// Everything, or all but what is near the root, is added without the stack.
fn with_hardly_a_stack(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(823);
    let host = shapes::knot(48, 12)?;
    let mesh = fixture.mesh(&host, BUILDERS[1])?;
    let at = queries(&mut rng, &host, 100);
    let points = DeviceBuffer::from_slice(stream, &at)?;
    for beta in [2.0, f32::INFINITY] {
        // In another order, but the same terms.
        let batch: Vec<f64> =
            fixture.numbers(&mesh, &at, beta)?.iter().map(|number| f64::from(*number)).collect();
        let betas = DeviceBuffer::from_slice(stream, &vec![beta; at.len()])?;
        for room in [3, 6] {
            let source = format!("#define GEOM_BVH_STACK {room}\n{SOURCE}");
            let [(_, options), ..] = flags();
            let kernel = module(device, &source, options)?.kernel("numbers")?;
            let mut out = DeviceBuffer::<f32>::zeroed(stream, at.len())?;
            let args = (mesh.view(), &points, &betas, at.len() as u32, &mut out);
            // SAFETY: the kernel reads n points and betas and writes n numbers.
            unsafe { device.launch(&kernel, stream, LaunchConfig::cover(at.len(), 64), args) }?;
            let (greatest, _) = errors(&out.to_vec(stream)?, &batch);
            ensure!(greatest <= 3e-7, "{room} entries, {beta}: {greatest}");
        }
    }
    Ok(())
}

/// And what is no beta is taken for one.
fn without_moments_all_faces_are_added(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(821);
    let host = shapes::knot(30, 9)?;
    let at = queries(&mut rng, &host, 100);
    let points = DeviceBuffer::from_slice(stream, &at)?;
    let betas: Vec<f32> = [2.0, 1.0, 0.0, -3.0, f32::NAN, f32::NEG_INFINITY].repeat(20);
    let betas = DeviceBuffer::from_slice(stream, &betas)?;
    let [_, _, (_, options)] = flags();
    let kernel = module(device, SOURCE, options)?.kernel("numbers")?;
    for (has_moments, most) in [(false, 2e-6), (true, 0.2)] {
        let options = MeshOptions::default();
        let options = if has_moments { options.winding() } else { options };
        let mesh = fixture.made(&host, options)?;
        let mut out = DeviceBuffer::<f32>::zeroed(stream, at.len())?;
        let args = (mesh.view(), &points, &betas, at.len() as u32, &mut out);
        // SAFETY: the kernel reads n points and betas and writes n numbers.
        unsafe { device.launch(&kernel, stream, LaunchConfig::cover(at.len(), 64), args) }?;
        let (greatest, _) = errors(&out.to_vec(stream)?, &wanted(&host, &at));
        ensure!(greatest <= most, "moments: {has_moments}: {greatest}");
    }
    Ok(())
}

fn signed_distances(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(822);
    let mut host = shapes::icosphere(3, 1.0)?;
    // A hole.
    host.faces.truncate(host.faces.len() - 60);
    let mesh = fixture.mesh(&host, BUILDERS[1])?;
    let at = queries(&mut rng, &host, 200);
    let points = DeviceBuffer::from_slice(stream, &at)?;
    let (mut distances, mut closest) = (
        DeviceBuffer::<f32>::zeroed(stream, at.len())?,
        DeviceBuffer::<ClosestPoint>::zeroed(stream, at.len())?,
    );
    let queries = PointQueries::at(&points);
    mesh.signed_closest_points(stream, &queries, Sign::Winding, &mut distances, &mut closest)?;
    let (distances, closest) = (distances.to_vec(stream)?, closest.to_vec(stream)?);
    let numbers = fixture.numbers(&mesh, &at, 2.0)?;
    for ((distance, closest), number) in distances.iter().zip(&closest).zip(&numbers) {
        let size = closest.distance_squared.sqrt();
        let wanted = if *number > 0.5 { -size } else { size };
        ensure!(*distance == wanted, "{distance}, not {wanted}: number {number}");
    }
    ensure!(numbers.iter().any(|n| *n > 0.5) && numbers.iter().any(|n| *n < 0.5));
    // With another threshold, and another beta.
    let numbers = fixture.numbers(&mesh, &at, 3.0)?;
    for (flag, options) in flags() {
        let kernel = module(device, SOURCE, options)?.kernel("signed_distances")?;
        for threshold in [0.25f32, 0.8] {
            let mut out = DeviceBuffer::<f32>::zeroed(stream, at.len())?;
            let args = (mesh.view(), &points, threshold, at.len() as u32, &mut out);
            // SAFETY: the kernel reads n points and writes n distances.
            unsafe { device.launch(&kernel, stream, LaunchConfig::cover(at.len(), 64), args) }?;
            for ((got, number), distance) in
                out.to_vec(stream)?.iter().zip(&numbers).zip(&distances)
            {
                let wanted = if *number > threshold { -distance.abs() } else { distance.abs() };
                ensure!(*got == wanted, "{flag}: {got}, not {wanted}: number {number}");
            }
        }
    }
    Ok(())
}
