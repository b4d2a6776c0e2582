//! Kernels that query hierarchies of boxes: against differences of the same kernels on the CPU, or refused.

use cuda_safe::DeviceBuffer;
use cuda_safe::kernel::kernel;
use geom_kernels::bvh::{self, BuildMode};
use geom_kernels::structures::Bvh;
use geom_kernels::{Aabb, GeometryKernels, Ray};
use gpu_phases::kernel::CpuError;
use tape::{Recorder, Tape};

use super::super::outputs::{line_in, refused};
use super::{STEP, differences, points, recorded, same, single, triples};
use test_harness::{Case, Rng, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::rust",
        device(items_of_hierarchies),
        device(distances_to_boxes_are_refused),
        device(hierarchies_that_are_built_again),
    ]
}

/// Energies of the items around each place, by their indices and by comparisons of distances.
#[kernel(gradient)]
fn around(bvh: &Bvh, #[inactive] at: &[[f32; 3]], x: &[[f64; 3]], out: &mut [f64]) {
    assert!(at.len() == out.len() && x.len() == out.len());
    each(out, |i, out| {
        let (p, mut sum) = (at[i], 0.0);
        let lower = [p[0] - 0.3, p[1] - 0.3, p[2] - 0.3];
        let upper = [p[0] + 0.3, p[1] + 0.3, p[2] + 0.3];
        for item in bvh.overlaps_ascending(&Aabb { lower, upper }) {
            let q = x[item as usize];
            sum += q[0] * q[0] * x[i][1] + q[2];
        }
        for near in bvh.within_ascending(p, 0.4) {
            let weight = if near.distance_squared < 0.01 { 2.0 } else { 0.5 };
            sum += weight * x[near.item as usize][1] * sum;
        }
        *out = sum * bvh.count_overlapping(&Aabb { lower, upper }) as f64;
    });
}

/// The items that rays meet, the first of them, and the nearest one.
#[kernel(gradient)]
fn along(bvh: &Bvh, #[inactive] rays: &[Ray], x: &[[f64; 3]], out: &mut [f64]) {
    assert!(rays.len() == out.len() && x.len() == out.len());
    each(out, |i, out| {
        let mut sum = x[i][0];
        for met in bvh.along_ascending(&rays[i]) {
            let q = x[met.item as usize];
            sum = 0.5 * sum * q[1] + if met.t > 1.0 { q[0] } else { q[2] * q[2] };
        }
        if let Some(first) = bvh.first_box_along(&rays[i]) {
            sum += 3.0 * x[first.item as usize][2] * x[i][1];
        }
        if let Some(near) = bvh.nearest_box(rays[i].origin, 5.0) {
            let q = x[near.item as usize];
            sum += q[0] * q[1] * q[2];
        }
        *out = sum;
    });
}

/// Distances to the boxes of the hierarchy, which has no gradient.
#[kernel(gradient)]
fn lengths(bvh: &Bvh, x: &[[f32; 3]], out: &mut [f32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let mut sum = 0.0;
        for near in bvh.within_ascending(x[i], 0.4) {
            sum += near.distance_squared;
        }
        *out = sum;
    });
}

#[kernel(gradient)]
fn nearest(bvh: &Bvh, x: &[[f32; 3]], out: &mut [f32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        *out = bvh.nearest_box(x[i], 5.0).map_or(0.0, |found| found.distance_squared);
    });
}

#[kernel(gradient)]
fn entered(bvh: &Bvh, x: &[[f32; 3]], out: &mut [f32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let direction = [x[i][1], x[i][0], 1.0];
        let ray = Ray { origin: x[i], t_min: 0.0, direction, t_max: f32::INFINITY };
        *out = bvh.first_box_along(&ray).map_or(0.0, |found| found.t);
    });
}

/// Boxes around points.
fn boxes(x: &[[f64; 3]]) -> Vec<Aabb<f32>> {
    let around = |p: &[f32; 3]| Aabb { lower: p.map(|x| x - 0.05), upper: p.map(|x| x + 0.05) };
    single(x).iter().map(around).collect()
}

type Run = fn(&Bvh, &[[f64; 3]], &[[f64; 3]], &mut [f64]) -> Result<(), CpuError>;

type Launch = fn(
    &mut Recorder<'_>,
    &bvh::Bvh,
    &[[f64; 3]],
    &DeviceBuffer<[f64; 3]>,
    &mut DeviceBuffer<f64>,
) -> cuda_safe::Result<()>;

fn rays(x: &[[f64; 3]]) -> Vec<Ray> {
    let one = |(i, p): (usize, &[f32; 3])| Ray::new(p.map(|x| 2.0 * x), single(x)[i / 2]);
    single(x).iter().enumerate().map(one).collect()
}

fn items_of_hierarchies(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.shared(GeometryKernels::new));
    let kernels: [(&str, Run, Launch); 2] = [
        (
            "around",
            |bvh, at, x, out| around::cpu(bvh, &single(at), x, out),
            |t, bvh, at, x, out| {
                let at = DeviceBuffer::from_slice(t.stream(), &single(at))?;
                around::record(t, bvh, &at, x, out)
            },
        ),
        (
            "along",
            |bvh, at, x, out| along::cpu(bvh, &rays(at), x, out),
            |t, bvh, at, x, out| {
                let at = DeviceBuffer::from_slice(t.stream(), &rays(at))?;
                along::record(t, bvh, &at, x, out)
            },
        ),
    ];
    // More items than a loop keeps from one traversal, and few.
    for (seed, n, size) in [(361, 45, 0.3), (362, 5, 0.3), (363, 1, 1.0)] {
        let x = points(&mut Rng::new(seed), n, size);
        let here = Bvh::build(&boxes(&x))?;
        let there = DeviceBuffer::from_slice(&stream, &boxes(&x))?;
        for mode in [BuildMode::Fast, BuildMode::Quality] {
            let there = bvh::Bvh::build(&stream, &geometry, &there, mode)?;
            for (name, run, launch) in kernels {
                let wanted = differences(x.as_flattened(), STEP, |moved| {
                    let mut out = vec![0.0; n];
                    run(&here, &x, &triples(moved), &mut out)?;
                    Ok(out)
                })?;
                let given =
                    recorded(&stream, &x, n, |t, buffer, out| launch(t, &there, &x, buffer, out))?;
                // Of polynomials, at differences that are not exact.
                same(name, &given, &wanted, 1e-7)?;
            }
        }
    }
    Ok(())
}

fn distances_to_boxes_are_refused(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.shared(GeometryKernels::new));
    let x = points(&mut Rng::new(364), 20, 0.5);
    let there = DeviceBuffer::from_slice(&stream, &boxes(&x))?;
    let bvh = bvh::Bvh::build(&stream, &geometry, &there, BuildMode::Fast)?;
    let x = DeviceBuffer::from_slice(&stream, &single(&x))?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, x.len())?;
    type Record = fn(
        &mut Recorder<'_>,
        &bvh::Bvh,
        &DeviceBuffer<[f32; 3]>,
        &mut DeviceBuffer<f32>,
    ) -> cuda_safe::Result<()>;
    let kernels: [(Record, &str); 3] = [
        (|t, bvh, x, out| lengths::record(t, bvh, x, out), "in bvh.within_ascending(x[i], 0.4)"),
        (|t, bvh, x, out| nearest::record(t, bvh, x, out), "*out = bvh.nearest_box(x[i]"),
        (|t, bvh, x, out| entered::record(t, bvh, x, out), "*out = bvh.first_box_along(&ray)"),
    ];
    for (record, text) in kernels {
        let recorded = Tape::record(&stream, |t| {
            t.watch(&x)?;
            record(t, &bvh, &x, &mut out)
        });
        let line = line_in("structures/boxes.rs", include_str!("boxes.rs"), text);
        refused(recorded, &[&line, "the result of this query has no gradient"])?;
    }
    Ok(())
}

fn hierarchies_that_are_built_again(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.shared(GeometryKernels::new));
    let host = points(&mut Rng::new(365), 20, 0.3);
    let there = DeviceBuffer::from_slice(&stream, &boxes(&host))?;
    let mut bvh = bvh::Bvh::build(&stream, &geometry, &there, BuildMode::Fast)?;
    let at = DeviceBuffer::from_slice(&stream, &single(&host))?;
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut out = DeviceBuffer::<f64>::zeroed(&stream, 20)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        around::record(t, &bvh, &at, &x, &mut out)
    })?;
    bvh.refit(&stream, &there)?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f64; 20])?;
    let done = tape.backward_with(&stream, &tape::Seeds::new().with(&out, &ones)?);
    let message = done.map_or_else(|error| error.to_string(), |_| String::new());
    for part in ["`bvh` of step 1 (`around`)", "was overwritten after it was recorded"] {
        ensure!(message.contains(part), "{message:?} lacks {part:?}");
    }
    Ok(())
}
