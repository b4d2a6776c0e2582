//! Attacks on hierarchies of boxes, lists of what is found, and rays.

use cuda_safe::DeviceBuffer;
use geom_kernels::bvh::{BuildMode, Bvh, BvhQueries};
use geom_kernels::mesh::{Mesh, MeshOptions, NO_FACE, Overlap, RayHit, TriangleMesh, shapes};
use geom_kernels::{Aabb, GeometryKernels, Ray};
use test_harness::{TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

/// Builds a hierarchy of boxes that are empty, inverted, infinite, no numbers, and there a thousand times, and
/// refits it to others.
///
/// - row: launching foreign code is unsafe
/// - targets: `BvhQueries::spheres`, `Bvh::build`, `Bvh::refit`, `Bvh::rebuild`, `Bvh::overlap_lists`,
///   `Bvh::count_overlaps`, `Bvh::report`, `Bvh::new`
fn boxes_that_are_none(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let builder = if lab.variant() == "fast" { BuildMode::Fast } else { BuildMode::Quality };
    let unit = Aabb { lower: [0.0f32; 3], upper: [1.0; 3] };
    let mut boxes = vec![unit; 1000];
    let odd = [
        Aabb::<f32>::EMPTY,
        Aabb { lower: [1.0; 3], upper: [0.0; 3] },
        Aabb { lower: [NAN, 0.0, 0.0], upper: [1.0; 3] },
        Aabb { lower: [-INF; 3], upper: [INF; 3] },
        Aabb { lower: [0.0; 3], upper: [0.0, INF, 0.0] },
        Aabb { lower: [-f32::MAX; 3], upper: [f32::MAX; 3] },
        Aabb { lower: [0.5; 3], upper: [0.5; 3] },
    ];
    boxes.extend(odd);
    let device = DeviceBuffer::from_slice(&stream, &boxes)?;
    let mut bvh = Bvh::build(&stream, &geometry, &device, builder)?;
    let report = bvh.report(&stream)?;
    ensure_eq!((report.items, report.skipped), (1001, 6));
    let asked =
        [unit, Aabb::<f32>::EMPTY, odd[2], odd[3], Aabb { lower: [5.0; 3], upper: [6.0; 3] }];
    let asked = DeviceBuffer::from_slice(&stream, &asked)?;
    let mut counts = DeviceBuffer::<u32>::zeroed(&stream, 5)?;
    bvh.count_overlaps(&stream, &asked, &mut counts)?;
    let seen = counts.to_vec(&stream)?;
    ensure!(seen[0] == 1001 && seen[3] == 1001, "{seen:?}");
    ensure_eq!((seen[1], seen[2]), (0, 0));
    let lists = bvh.overlap_lists(&stream, &asked)?;
    let found = lists.indices.to_vec(&stream)?;
    ensure_eq!(found.len(), seen.iter().sum::<u32>() as usize);
    ensure!(found[..1000].iter().copied().eq(0..1000));
    for skipped in [1000u32, 1001, 1002] {
        ensure!(!found.contains(&skipped), "box {skipped} was found");
    }
    lab.refused(
        bvh.refit(&stream, device.slice(1..)?),
        "1006 boxes for a hierarchy that was built from 1007",
    )?;
    let nothing = DeviceBuffer::from_slice(&stream, &vec![odd[2]; boxes.len()])?;
    bvh.refit(&stream, &nothing)?;
    bvh.count_overlaps(&stream, &asked, &mut counts)?;
    ensure_eq!(counts.to_vec(&stream)?, [0; 5]);
    bvh.rebuild(&stream, &nothing)?;
    ensure_eq!(bvh.report(&stream)?.items, 0);
    bvh.rebuild(&stream, device.slice(..1)?)?;
    bvh.count_overlaps(&stream, &asked, &mut counts)?;
    ensure_eq!(counts.to_vec(&stream)?, [1, 0, 0, 1, 0]);
    let mut small = Bvh::new(&stream, &geometry, 3, builder)?;
    lab.refused(small.rebuild(&stream, device.slice(..4)?), "4 boxes, and room for 3")?;
    small.count_overlaps(&stream, &asked, &mut counts)?;
    ensure_eq!(counts.to_vec(&stream)?, [0; 5]);
    lab.refused(
        Bvh::new(&stream, &geometry, usize::MAX, builder),
        "18446744073709551615 boxes; less than 2^28 are possible",
    )?;
    lab.refused(
        small.count_overlaps(&stream, &asked, counts.slice_mut(..4)?),
        "room for 4 counts, and 5 are written",
    )?;
    let centers = DeviceBuffer::from_slice(&stream, &[[NAN; 3], [INF; 3], [0.0; 3]])?;
    bvh.count_overlaps(&stream, BvhQueries::spheres(&centers, INF), counts.slice_mut(..3)?)?;
    ensure_eq!(counts.to_vec(&stream)?[..3], [0, 0, 1]);
    let negative = BvhQueries::spheres(&centers, -1.0);
    lab.refused(
        bvh.count_overlaps(&stream, negative, counts.slice_mut(..3)?),
        "-1.0 is no radius",
    )?;
    Ok(())
}

/// Asks for lists in memory that is too short, with other values right behind it.
///
/// - row: launching foreign code is unsafe
/// - targets: `Bvh::overlap_lists_into`, `Mesh::overlap_lists_into`, `Mesh::all_hits_into`, `Mesh::all_hits`
fn lists_without_room(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let unit = Aabb { lower: [-1.0f32; 3], upper: [1.0; 3] };
    let boxes = DeviceBuffer::from_slice(&stream, &[unit; 100])?;
    let bvh = Bvh::build(&stream, &geometry, &boxes, BuildMode::default())?;
    let soup = TriangleMesh {
        points: vec![[-9.0, -9.0, 0.0], [9.0, -9.0, 0.0], [0.0, 9.0, 0.0]],
        faces: vec![[0, 1, 2]; 100],
    };
    let mesh = Mesh::upload(&stream, &geometry, &soup, MeshOptions::default())?;
    let rays = [Ray::new([0.1, 0.1, -5.0], [0.0, 0.0, 1.0]); 3];
    let rays = DeviceBuffer::from_slice(&stream, &rays)?;
    let asked = DeviceBuffer::from_slice(&stream, &[unit; 3])?;
    let mut offsets = DeviceBuffer::<u64>::zeroed(&stream, 4)?;
    let guard = RayHit { t: 7.0, face: 7, u: 7.0, v: 7.0, front: 7 };
    for room in [0usize, 1, 99, 150, 299, 300, 310] {
        let (list, behind) = match lab.variant() {
            "hits" => {
                let mut hits = DeviceBuffer::from_slice(&stream, &[guard; 320])?;
                mesh.all_hits_into(&stream, &rays, &mut offsets, hits.slice_mut(..room)?)?;
                let faces = hits.to_vec(&stream)?.iter().map(|hit| hit.face).collect::<Vec<_>>();
                let ts = hits.to_vec(&stream)?.iter().all(|hit| hit.t == 7.0 || hit.t == 5.0);
                ensure!(ts);
                (faces[..room].to_vec(), faces[room..].to_vec())
            }
            variant => {
                let mut items = DeviceBuffer::from_slice(&stream, &[7u32; 320])?;
                let mut part = items.slice_mut(..room)?;
                if variant == "bvh" {
                    bvh.overlap_lists_into(&stream, &asked, &mut offsets, &mut part)?;
                } else {
                    let what = Overlap::default();
                    mesh.overlap_lists_into(&stream, &asked, what, &mut offsets, &mut part)?;
                }
                let items = items.to_vec(&stream)?;
                (items[..room].to_vec(), items[room..].to_vec())
            }
        };
        ensure_eq!(offsets.to_vec(&stream)?, [0, 100, 200, 300]);
        ensure!(behind.iter().all(|item| *item == 7), "written behind {room} places");
        for (place, item) in list.iter().enumerate().take(300) {
            ensure!(lab.variant() == "hits" || *item == (place % 100) as u32, "{place}: {item}");
            ensure!(*item < 100, "{place}: {item}");
        }
    }
    let mut short = offsets.slice_mut(..3)?;
    let mut items = DeviceBuffer::<u32>::zeroed(&stream, 300)?;
    lab.refused(
        bvh.overlap_lists_into(&stream, &asked, &mut short, &mut items),
        "room for 3 offsets, and 4 are written",
    )?;
    let mut hits = DeviceBuffer::<RayHit>::zeroed(&stream, 300)?;
    lab.refused(
        mesh.all_hits_into(&stream, &rays, &mut short, &mut hits),
        "room for 3 offsets, and 4 are written",
    )?;
    ensure_eq!(mesh.all_hits(&stream, &rays)?.hits.len(), 300);
    Ok(())
}

/// Sends rays without a direction, with limits out of order, of huge and tiny numbers, and along edges.
///
/// - row: launching foreign code is unsafe
/// - targets: `Mesh::closest_hits`, `Mesh::count_hits`, `Ray::new`, `Ray::between`, `Ray::segment`
fn rays_of_every_kind(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let mesh = Mesh::upload(&stream, &geometry, &shapes::cube(2.0)?, MeshOptions::default())?;
    let nothing = [
        Ray::new([0.0; 3], [0.0; 3]),
        Ray::new([0.0; 3], [NAN, 0.0, 1.0]),
        Ray::new([0.0; 3], [INF, 0.0, 0.0]),
        Ray::new([INF, 0.0, 0.0], [1.0, 0.0, 0.0]),
        Ray::new([f32::MAX; 3], [-1.0; 3]),
        Ray::new([0.0; 3], [0.0, 0.0, 1.0]).between(5.0, 1.0),
        Ray::new([0.0; 3], [0.0, 0.0, 1.0]).between(NAN, 9.0),
        Ray::new([0.0; 3], [0.0, 0.0, 1.0]).between(0.0, NAN),
        Ray::new([0.0; 3], [0.0, 0.0, 1.0]).between(2.0, INF),
        Ray::segment([0.5; 3], [0.5; 3]),
    ];
    let mut rays = nothing.to_vec();
    rays.push(Ray::new([0.0; 3], [0.0, 0.0, 1.0]).between(-5.0, INF));
    // Through edges, vertices and diagonals of faces: each goes in once and comes out once.
    for z in [-1.0f32, 0.0, 1.0] {
        for x in [-1.0f32, 0.0, 1.0] {
            let aside = [x * 3.0, 0.25, z * 3.0];
            rays.push(Ray::new(aside, [-x * 3.0, 0.0, -z * 3.0]));
        }
    }
    let inside = nothing.len();
    let device = DeviceBuffer::from_slice(&stream, &rays)?;
    let n = rays.len();
    let mut hits = DeviceBuffer::<RayHit>::zeroed(&stream, n)?;
    let mut counts = DeviceBuffer::<u32>::zeroed(&stream, n)?;
    mesh.closest_hits(&stream, &device, &mut hits)?;
    mesh.count_hits(&stream, &device, &mut counts)?;
    let (hits, counts) = (hits.to_vec(&stream)?, counts.to_vec(&stream)?);
    for (i, (hit, count)) in hits.iter().zip(&counts).enumerate() {
        let middle = rays[i].direction == [0.0; 3];
        match i {
            _ if i < inside || middle => {
                ensure!(hit.face == NO_FACE && *count == 0, "{i}: {hit:?}");
            }
            _ if i == inside => ensure!(hit.t == 1.0 && *count == 1, "{hit:?}"),
            _ => ensure!(hit.face < 12 && *count == 2, "{i}: {hit:?}, {count}"),
        }
    }
    Ok(())
}

attacks![
    "geometry",
    refused(boxes_that_are_none).variants(&["fast", "quality"]),
    refused(lists_without_room).variants(&["bvh", "overlaps", "hits"]),
    right(rays_of_every_kind),
];
