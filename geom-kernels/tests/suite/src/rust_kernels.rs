//! Kernels in Rust that query structures: the same bits on the CPU as on the device, and right ones.

use crate::Geometry;
use cuda_safe::kernel::{device, kernel};
use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::Ray;
use geom_kernels::bvh::BuildMode;
use geom_kernels::hash_grid::{GridOptions, HashGrid};
use geom_kernels::mesh::{Mesh, MeshOptions, Sign, TriangleMesh, shapes};
use geom_kernels::structures::{self, Limit};
use geom_kernels::volume::nanovdb::{Builder, ValueIndex, ValueOnIndex};
use geom_kernels::volume::{Index, OnIndex, Volume};
use test_harness::{Case, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "rust_kernels",
        device(grids_in_kernels),
        device(meshes_in_kernels),
        device(winding_numbers_in_kernels),
        device(volumes_in_kernels),
        device(images_in_kernels),
        device(indices_in_kernels),
    ]
}

/// A sum over neighbours, their number, and what they are.
#[kernel]
fn look(
    grid: &structures::HashGrid<f32>,
    x: &[[f32; 3]],
    radius: f32,
    sums: &mut [f32],
    counts: &mut [[u32; 3]],
) {
    assert!(x.len() == sums.len() && counts.len() == sums.len());
    each((sums, counts), |i, (sum, count)| {
        let mut total = 0.0;
        for near in grid.near(x[i], radius) {
            total += near.delta[0] * near.position[1] + (near.distance_squared - near.delta[2]);
        }
        *sum = total;
        let mut hash = 0u32;
        for other in grid.neighbors(x[i], radius) {
            hash = hash.wrapping_mul(31).wrapping_add(other);
        }
        *count = [grid.count(x[i], radius), hash, grid.any_neighbor(x[i], radius) as u32];
    });
}

#[kernel]
fn weigh(grid: &structures::HashGrid<f64>, x: &[[f64; 3]], radius: f64, sums: &mut [f64]) {
    assert!(x.len() == sums.len());
    each(sums, |i, sum| {
        for near in grid.near_in_group(x[i], radius, 0) {
            *sum += near.distance_squared * near.delta[1];
        }
        *sum += grid.point_at(i as u32).map_or(0.0, |point| point.position[2]);
    });
}

/// The points in cell order, and what belongs to them.
#[kernel]
fn listed(grid: &structures::HashGrid<f32>, positions: &mut [[f32; 3]], numbers: &mut [[u32; 3]]) {
    each((positions, numbers), |slot, (position, number)| {
        if let Some(point) = grid.point_at(slot as u32) {
            *position = point.position;
            *number = [point.index, point.slot, grid.point_count()];
        }
    });
}

/// Both grids list the points alike: each point once, at its position.
fn points_in_kernels(
    stream: &Stream,
    points: &[[f32; 3]],
    here: &structures::HashGrid<f32>,
    there: &HashGrid<f32>,
) -> TestResult {
    let n = points.len() + 3;
    let (mut positions, mut numbers) = (vec![[9.0; 3]; n], vec![[u32::MAX; 3]; n]);
    let mut other_positions = DeviceBuffer::from_slice(stream, &positions)?;
    let mut other_numbers = DeviceBuffer::from_slice(stream, &numbers)?;
    listed::cpu(here, &mut positions, &mut numbers)?;
    listed::launch(stream, there, &mut other_positions, &mut other_numbers)?;
    ensure_eq!(positions, other_positions.to_vec(stream)?);
    ensure_eq!(numbers, other_numbers.to_vec(stream)?);
    let mut seen = vec![0; points.len()];
    for (slot, (position, [index, own, count])) in positions.iter().zip(&numbers).enumerate() {
        if slot >= points.len() {
            ensure_eq!((*position, *index), ([9.0; 3], u32::MAX));
            continue;
        }
        ensure_eq!((*own, *count), (slot as u32, points.len() as u32));
        ensure_eq!(*position, points[*index as usize]);
        seen[*index as usize] += 1;
    }
    ensure!(seen.iter().all(|times| *times == 1), "{seen:?}");
    Ok(())
}

fn grids_in_kernels(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(5));
    for n in [0, 1, 31, 32, 33, 700] {
        let mut one = || (rng.below(4096) as f32 - 2048.0) / 1024.0;
        let points: Vec<[f32; 3]> = (0..n).map(|_| [one(), one(), one()]).collect();
        let queries: Vec<[f32; 3]> = (0..n + 5).map(|_| [one(), one(), one()]).collect();
        let queries: Vec<_> = queries.into_iter().chain([[f32::NAN, 0.0, 0.0]]).collect();
        let (at, x) = (
            DeviceBuffer::from_slice(&stream, &points)?,
            DeviceBuffer::from_slice(&stream, &queries)?,
        );
        let options = GridOptions::default();
        let there = HashGrid::build(&stream, &device.geometry(), &at, 0.4, options)?;
        let here = structures::HashGrid::build(&points, 0.4, options)?;
        points_in_kernels(&stream, &points, &here, &there)?;
        for radius in [0.0f32, 0.3, 0.9] {
            let mut sums = vec![0.0; queries.len()];
            let mut counts = vec![[0; 3]; queries.len()];
            look::cpu(&here, &queries, radius, &mut sums, &mut counts)?;
            let mut other = DeviceBuffer::<f32>::zeroed(&stream, queries.len())?;
            let mut others = DeviceBuffer::<[u32; 3]>::zeroed(&stream, queries.len())?;
            look::launch(&stream, &there, &x, radius, &mut other, &mut others)?;
            let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            ensure_eq!(bits(&sums), bits(&other.to_vec(&stream)?));
            ensure_eq!(counts, others.to_vec(&stream)?);
            for (x, (count, sum)) in queries.iter().zip(counts.iter().zip(&sums)) {
                let delta = |p: &[f32; 3]| -> [f64; 3] {
                    std::array::from_fn(|axis| f64::from(x[axis]) - f64::from(p[axis]))
                };
                let (mut found, mut total) = (0, 0.0);
                for p in &points {
                    let d = delta(p);
                    let square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
                    if square <= f64::from(radius) * f64::from(radius) {
                        found += 1;
                        total += d[0] * f64::from(p[1]) + square - d[2];
                    }
                }
                ensure_eq!((count[0], count[2]), (found, u32::from(found > 0)));
                ensure!((f64::from(*sum) - total).abs() < 1e-3, "{sum} instead of {total}");
            }
        }

        let wide =
            |x: &[[f32; 3]]| -> Vec<[f64; 3]> { x.iter().map(|x| x.map(f64::from)).collect() };
        let (points, queries) = (wide(&points), wide(&queries));
        let (at, x) = (
            DeviceBuffer::from_slice(&stream, &points)?,
            DeviceBuffer::from_slice(&stream, &queries)?,
        );
        let options = GridOptions::default();
        let there = HashGrid::build(&stream, &device.geometry(), &at, 0.4, options)?;
        let here = structures::HashGrid::build(&points, 0.4, options)?;
        let mut sums = vec![0.0; queries.len()];
        weigh::cpu(&here, &queries, 0.6, &mut sums)?;
        let mut other = DeviceBuffer::<f64>::zeroed(&stream, queries.len())?;
        weigh::launch(&stream, &there, &x, 0.6, &mut other)?;
        let bits = |x: &[f64]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        ensure_eq!(bits(&sums), bits(&other.to_vec(&stream)?));
    }
    Ok(())
}

#[device]
fn depth(mesh: &structures::Mesh, from: [f32; 3], to: [f32; 3]) -> f32 {
    let ray = Ray { origin: from, t_min: 0.0, direction: to, t_max: f32::INFINITY };
    match mesh.nearest_hit(&ray) {
        Some(hit) => hit.t + hit.u + hit.face as f32 + mesh.count_hits(&ray) as f32,
        None => {
            if mesh.any_hit(&ray) {
                -2.0
            } else {
                -1.0
            }
        }
    }
}

#[kernel]
fn probe(mesh: &structures::Mesh, x: &[[f32; 3]], reach: f32, out: &mut [[f32; 8]]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let p = x[i];
        let (position, face) = match mesh.closest_point(p) {
            Some(found) => (found.position, found.face),
            None => ([9.0; 3], 0),
        };
        let signed = match mesh.signed_distance(p, reach) {
            Some((distance, found)) => distance + found.u,
            None => 100.0,
        };
        let parity = mesh.signed_distance_by_parity(p, reach).map_or(50.0, |found| found.0);
        let near = mesh.closest_point_within(p, reach).map_or(7.0, |found| found.v);
        let inside = mesh.side_of(p) as f32 + if mesh.is_within(p, reach) { 10.0 } else { 0.0 };
        let deep = depth(mesh, p, [0.3 - p[0], 0.1 - p[1], -p[2]]);
        *out = [position[0], position[2], face as f32, signed, parity, near, inside, deep];
    });
}

fn meshes_in_kernels(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(6));
    for detail in [0, 3] {
        let sphere = shapes::icosphere(detail, 1.0)?;
        let options = MeshOptions::default();
        let there = Mesh::upload(&stream, &device.geometry(), &sphere, options)?;
        let here = structures::Mesh::new(&sphere, options)?;
        let mut one = || (rng.below(4096) as f32 - 2048.0) / 1024.0;
        let points: Vec<[f32; 3]> = (0..400).map(|_| [one(), one(), one()]).collect();
        let points: Vec<_> = points.into_iter().chain([[f32::NAN, 0.0, 0.0], [0.0; 3]]).collect();
        let x = DeviceBuffer::from_slice(&stream, &points)?;
        let mut found = vec![[0.0; 8]; points.len()];
        probe::cpu(&here, &points, 0.7, &mut found)?;
        let mut other = DeviceBuffer::<[f32; 8]>::zeroed(&stream, points.len())?;
        probe::launch(&stream, &there, &x, 0.7, &mut other)?;
        let bits = |x: &[[f32; 8]]| x.iter().map(|x| x.map(f32::to_bits)).collect::<Vec<_>>();
        ensure_eq!(bits(&found), bits(&other.to_vec(&stream)?));
        // The sphere is within a few parts of a thousand of its mesh of 1,280 faces.
        if detail == 3 {
            for (p, found) in points.iter().zip(&found).filter(|(p, _)| !p[0].is_nan()) {
                let r = p.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
                let inside = f64::from(found[6] % 10.0);
                ensure!(
                    (r - 1.0).abs() < 0.01 || (inside < 0.0 || inside == 9.0) == (r < 1.0),
                    "{p:?}: {found:?}"
                );
                ensure!(
                    (r - 1.0).abs() > 0.69 || (f64::from(found[4]) - (r - 1.0)).abs() < 0.01,
                    "{p:?}: {found:?}"
                );
                ensure!(
                    r > 0.99 || found[7] > 0.0,
                    "a ray from inside of a closed mesh hits it: {p:?}"
                );
            }
        }
    }
    Ok(())
}

#[kernel]
fn wind(mesh: &structures::Mesh, x: &[[f32; 3]], beta: f32, out: &mut [[f32; 3]]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let number = mesh.winding_number(x[i], beta).unwrap_or(77.0);
        let (distance, face) = match mesh.signed_distance_by_winding(x[i], beta) {
            Some((distance, found)) => (distance, found.face as f32),
            None => (100.0, -1.0),
        };
        *out = [number, distance, face];
    });
}

/// Kernels give what the batch calls give, with both builders, on both sides; and nothing without moments.
fn winding_numbers_in_kernels(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(9));
    let mut one = || (rng.below(4096) as f32 - 2048.0) / 1024.0;
    let points: Vec<[f32; 3]> = (0..100).map(|_| [one(), one(), one()]).collect();
    let points = [points, vec![[f32::NAN, 0.0, 0.0], [0.0; 3]]].concat();
    let (n, x) = (points.len(), DeviceBuffer::from_slice(&stream, &points)?);
    let empty = TriangleMesh::default();
    for (host, build) in [
        (&shapes::icosphere(2, 1.0)?, BuildMode::Fast),
        (&shapes::knot(40, 8)?, BuildMode::Quality),
        (&empty, BuildMode::Fast),
    ] {
        for has_moments in [true, false] {
            let options = MeshOptions::default().build_mode(build);
            let options = if has_moments { options.winding() } else { options };
            let there = Mesh::upload(&stream, &device.geometry(), host, options)?;
            let here = structures::Mesh::new(host, options)?;
            for beta in [2.0, 1.0, 0.25, f32::NAN, f32::INFINITY] {
                let mut found = vec![[0.0; 3]; n];
                wind::cpu(&here, &points, beta, &mut found)?;
                let mut other = DeviceBuffer::<[f32; 3]>::zeroed(&stream, n)?;
                wind::launch(&stream, &there, &x, beta, &mut other)?;
                let bits = |x: &[[f32; 3]]| x.as_flattened().iter().map(|x| x.to_bits()).collect();
                let (bits, others): (Vec<_>, Vec<_>) =
                    (bits(&found), bits(&other.to_vec(&stream)?));
                ensure_eq!(bits, others, "beta {beta}, moments: {has_moments}");
                if !has_moments {
                    ensure_eq!(found, vec![[77.0, 100.0, -1.0]; n]);
                    continue;
                }
                let (mut numbers, mut distances) = (vec![0.0; n], vec![0.0; n]);
                here.winding_numbers(&points, beta.max(1.0), &mut numbers)?;
                here.signed_distances(&points, Limit::All(beta), Sign::Winding, &mut distances)?;
                for ((found, number), distance) in found.iter().zip(numbers).zip(distances) {
                    let distance = if distance == f32::INFINITY { 100.0 } else { distance };
                    ensure_eq!((found[0], found[1]), (number, distance), "beta {beta}");
                }
            }
        }
    }
    Ok(())
}

#[kernel]
fn sample(volume: &structures::Volume<f32>, x: &[[f32; 3]], out: &mut [[f32; 13]]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let p = volume.world_to_index(x[i]);
        let linear = volume.sample_trilinear_with_gradient(p);
        let cubic = volume.sample_tricubic_with_gradient([p[0] as f64, p[1] as f64, p[2] as f64]);
        let voxel = [p[0].floor() as i32, p[1].floor() as i32, p[2].floor() as i32];
        let active = if volume.is_active(voxel) { 1.0 } else { 0.0 };
        let wide = [p[0] as f64, p[1] as f64, p[2] as f64];
        *out = [
            volume.lookup(voxel) + volume.background(),
            active,
            volume.sample_nearest(p),
            volume.sample_trilinear(p),
            volume.sample_tricubic(p),
            volume.sample_trilinear(wide),
            volume.index_to_world_direction(p)[1],
            linear.value,
            linear.gradient[0],
            linear.gradient[2],
            cubic.value,
            cubic.gradient[0],
            cubic.gradient[1],
        ];
    });
}

fn volumes_in_kernels(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(7));
    let mut builder = Builder::<f32>::new(0.25);
    for x in -6..7 {
        for y in -6..7 {
            for z in -6..7 {
                // Linear, so that an interpolation is exact but for rounding.
                builder.set([x, y, z], (x + 2 * y - 3 * z) as f32);
            }
        }
    }
    let grid = builder.build()?;
    let volume = Volume::upload(&stream, &device.geometry(), &grid)?;
    let (there, here) = (volume.view::<f32>()?, structures::Volume::<f32>::new(grid)?);
    let mut one = || (rng.below(8192) as f32 - 4096.0) / 512.0;
    let points: Vec<[f32; 3]> = (0..300).map(|_| [one(), one(), one()]).collect();
    let points: Vec<_> = points.into_iter().chain([[f32::NAN, 0.0, 0.0], [1e30; 3]]).collect();
    let x = DeviceBuffer::from_slice(&stream, &points)?;
    let mut found = vec![[0.0; 13]; points.len()];
    sample::cpu(&here, &points, &mut found)?;
    let mut other = DeviceBuffer::<[f32; 13]>::zeroed(&stream, points.len())?;
    sample::launch(&stream, &there, &x, &mut other)?;
    let bits = |x: &[[f32; 13]]| x.iter().map(|x| x.map(f32::to_bits)).collect::<Vec<_>>();
    ensure_eq!(bits(&found[..300]), bits(&other.to_vec(&stream)?[..300]));
    for (p, found) in points.iter().zip(&found).filter(|(p, _)| p.iter().all(|x| x.abs() < 4.0)) {
        let wanted = p[0] + 2.0 * p[1] - 3.0 * p[2];
        for value in [found[3], found[4], found[5]] {
            ensure!((value - wanted).abs() < 1e-4, "{p:?}: {found:?}");
        }
        ensure_eq!((found[1], found[6], found[7]), (1.0, p[1], found[3]));
        for (slope, wanted) in found[8..].iter().zip([1.0, -3.0, found[4], 1.0, 2.0]) {
            ensure!((slope - wanted).abs() < 1e-4, "{p:?}: {found:?}");
        }
    }
    Ok(())
}

/// The sum of differences from the nearest images of neighbours.
#[kernel]
fn pull(grid: &structures::HashGrid<f32>, x: &[[f32; 3]], radius: f32, out: &mut [[f32; 3]]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        for j in grid.neighbors(x[i], radius) {
            let y = x[j as usize];
            let d = grid.nearest_image([x[i][0] - y[0], x[i][1] - y[1], x[i][2] - y[2]]);
            for axis in 0..3 {
                out[axis] += d[axis];
            }
        }
    });
}

fn images_in_kernels(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(8));
    let mut one = || (rng.below(4096) as f32 - 2048.0) / 2048.0;
    let points: Vec<[f32; 3]> = (0..300).map(|_| [one(), one(), one()]).collect();
    let x = DeviceBuffer::from_slice(&stream, &points)?;
    let bits = |x: &[[f32; 3]]| x.iter().map(|x| x.map(f32::to_bits)).collect::<Vec<_>>();
    for options in [
        GridOptions::default(),
        GridOptions::default().periodic([-1.0; 3], [1.0; 3]),
        GridOptions::default().periodic_in([true, false, false], [-1.0; 3], [1.0; 3]),
    ] {
        let there = HashGrid::build(&stream, &device.geometry(), &x, 0.4, options)?;
        let here = structures::HashGrid::build(&points, 0.4, options)?;
        let mut sums = vec![[0.0; 3]; points.len()];
        pull::cpu(&here, &points, 0.4, &mut sums)?;
        let mut other = DeviceBuffer::<[f32; 3]>::zeroed(&stream, points.len())?;
        pull::launch(&stream, &there, &x, 0.4, &mut other)?;
        ensure_eq!(bits(&sums), bits(&other.to_vec(&stream)?));
        let sum = |axis: usize| sums.iter().map(|sum| f64::from(sum[axis])).sum::<f64>();
        ensure!((0..3).all(|axis| sum(axis).abs() < 1e-3), "each pair counts twice");
        // In the middle of the box no image but the point itself is near.
        for (p, sum) in points.iter().zip(&sums).filter(|(p, _)| p.iter().all(|x| x.abs() < 0.5)) {
            let near = points.iter().filter_map(|q| {
                let d: [f64; 3] = std::array::from_fn(|k| f64::from(p[k]) - f64::from(q[k]));
                (d.iter().map(|d| d * d).sum::<f64>() <= f64::from(0.4f32 * 0.4)).then_some(d)
            });
            let wanted = near.fold([0.0; 3], |sum, d| [0, 1, 2].map(|k| sum[k] + d[k]));
            let is_near = |k: usize| (wanted[k] - f64::from(sum[k])).abs() < 1e-4;
            ensure!((0..3).all(is_near), "{p:?}: {sum:?} instead of {wanted:?}");
        }
    }
    Ok(())
}

#[kernel]
fn take(
    dense: &structures::Volume<Index>,
    active: &structures::Volume<OnIndex>,
    values: &[f32],
    wide: &[f64],
    x: &[[f32; 3]],
    out: &mut [[f64; 6]],
) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let p = active.world_to_index(x[i]);
        let half = &values[..values.len() / 2];
        *out = [
            dense.sample_nearest_of(p, values, 0.5) as f64,
            dense.sample_trilinear_of(p, wide, 0.25),
            dense.sample_tricubic_of(p, half, 2.0) as f64,
            active.sample_nearest_of([p[0] as f64, p[1] as f64, p[2] as f64], half, 0.5) as f64,
            active.sample_trilinear_of(p, values, -1.0) as f64,
            active.sample_tricubic_of(p, wide, 0.0),
        ];
    });
}

/// Volumes of indices, whose values are in slices; parts of these are shorter than there are indices.
fn indices_in_kernels(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(9));
    let (mut dense, mut active) =
        (Builder::<ValueIndex>::new(()), Builder::<ValueOnIndex>::new(()));
    for voxel in (0..12i32.pow(3)).map(|i| [i / 144, i / 12 % 12, i % 12]) {
        dense.set(voxel, ());
        active.set(voxel, ());
    }
    let here = (
        structures::Volume::<Index>::new(dense.build()?)?,
        structures::Volume::<OnIndex>::new(active.build()?)?,
    );
    let geometry = device.geometry();
    let there = (
        Volume::upload(&stream, &geometry, here.0.grid())?,
        Volume::upload(&stream, &geometry, here.1.grid())?,
    );
    let mut one = || (rng.below(4096) as f32 - 2048.0) / 1024.0;
    // As many as the larger volume has.
    let values: Vec<f32> = (0..8 * 512).map(|_| one()).collect();
    let wide: Vec<f64> = values.iter().map(|x| f64::from(*x) / 3.0).collect();
    let points: Vec<[f32; 3]> =
        (0..300).map(|_| [one(), one(), one()].map(|x| 4.0 * x + 5.5)).collect();
    let mut found = vec![[0.0; 6]; points.len()];
    take::cpu(&here.0, &here.1, &values, &wide, &points, &mut found)?;
    let on_device = DeviceBuffer::from_slice(&stream, &values)?;
    let wide = DeviceBuffer::from_slice(&stream, &wide)?;
    let x = DeviceBuffer::from_slice(&stream, &points)?;
    let mut other = DeviceBuffer::<[f64; 6]>::zeroed(&stream, points.len())?;
    let (dense, active) = (there.0.view::<Index>()?, there.1.view::<OnIndex>()?);
    take::launch(&stream, &dense, &active, &on_device, &wide, &x, &mut other)?;
    let bits = |x: &[[f64; 6]]| x.iter().map(|x| x.map(f64::to_bits)).collect::<Vec<_>>();
    ensure_eq!(bits(&found), bits(&other.to_vec(&stream)?));
    for (p, found) in points.iter().zip(&found) {
        let voxel = p.map(|x| (x + 0.5).floor() as i32);
        let index = here.0.lookup(voxel).0 as usize;
        let wanted = if index == 0 { 0.5 } else { values[index - 1] };
        ensure_eq!(found[0], f64::from(wanted));
    }
    Ok(())
}
