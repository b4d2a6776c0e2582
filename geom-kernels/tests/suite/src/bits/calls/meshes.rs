//! `geom_kernels::mesh`.

use cuda_safe::DeviceBuffer;
use geom_kernels::QueryOrder;
use geom_kernels::Ray;
use geom_kernels::bvh::{self, BuildMode};
use geom_kernels::mesh::{
    ClosestPoint, FacePoint, FaceTree, Fault, Mesh, MeshOptions, MeshReport, Overlap, PointQueries,
    RayHit, Sign, Surface, Topology, TriangleMesh,
};

use super::{Got, Lab, Plain, Vectors, report_words, sorted_nodes, word};

pub(in super::super) const SIGNS: [(&str, Sign); 3] =
    [("normal", Sign::Normal), ("parity", Sign::Parity), ("winding", Sign::Winding)];

pub(in super::super) const OVERLAPS: [(&str, Overlap); 2] =
    [("faces", Overlap::Faces), ("boxes", Overlap::Boxes)];

/// A mesh that owns its points and faces, with winding numbers and, if asked for, topology.
pub(in super::super) fn mesh(
    lab: &Lab,
    of: &TriangleMesh,
    (builder, topology): (BuildMode, bool),
) -> Got<Mesh<'static>> {
    let options = MeshOptions::default().build_mode(builder).winding().skip_validation();
    let options = if topology { options.topology() } else { options };
    Ok(Mesh::upload(&lab.stream, &lab.geometry, of, options)?)
}

/// A mesh of borrowed points and faces, whose indices are checked.
pub(in super::super) fn borrowing_mesh<'a>(
    lab: &Lab,
    points: &'a DeviceBuffer<[f32; 3]>,
    faces: &'a DeviceBuffer<[u32; 3]>,
) -> Got<Mesh<'a>> {
    Ok(Mesh::build(&lab.stream, &lab.geometry, points, faces, MeshOptions::default())?)
}

/// Moves the points of a mesh that owns them, without a refit.
pub(in super::super) fn move_points(
    lab: &Lab,
    mesh: &mut Mesh<'_>,
    points: &[[f32; 3]],
) -> Got<()> {
    let mut there = mesh
        .points_mut()
        .ok_or_else(|| test_harness::Failure::new("the mesh does not own its points"))?;
    Ok(there.upload(&lab.stream, points)?)
}

pub(in super::super) fn refit_mesh(lab: &Lab, mesh: &mut Mesh<'_>) -> Got<()> {
    Ok(mesh.refit(&lab.stream)?)
}

pub(in super::super) fn refit_mesh_to(
    lab: &Lab,
    mesh: &mut Mesh<'static>,
    points: &[[f32; 3]],
) -> Got<()> {
    Ok(mesh.refit_to(&lab.stream, lab.up(points)?)?)
}

pub(in super::super) fn rebuild_mesh(lab: &Lab, mesh: &mut Mesh<'_>) -> Got<()> {
    Ok(mesh.rebuild(&lab.stream)?)
}

/// The report of the mesh, then that of its hierarchy.
pub(in super::super) fn mesh_reports(lab: &Lab, mesh: &Mesh<'_>) -> Got<Vec<u64>> {
    let mut words = mesh_report_words(&mesh.report(&lab.stream)?);
    words.extend(report_words(&mesh.bvh_report(&lab.stream)?));
    Ok(words)
}

fn mesh_report_words(report: &MeshReport) -> Vec<u64> {
    let counts = [
        report.points,
        report.faces,
        report.skipped_faces,
        report.degenerate_faces,
        report.edges,
        report.boundary_edges,
        report.non_manifold_edges,
        report.inconsistent_edges,
        report.isolated_points,
    ];
    let flags = [report.closed, report.oriented, report.watertight];
    let mut words = counts.map(word).to_vec();
    words.push(report.euler_characteristic as u64);
    words.extend(flags.map(u64::from));
    words.extend([report.volume.to_bits(), report.area.to_bits()]);
    words
}

/// Points, faces, and, of a mesh with topology, the normals of vertices and the neighbours of faces.
pub(in super::super) fn mesh_arrays(lab: &Lab, mesh: &Mesh<'_>) -> Got<[Vec<u32>; 4]> {
    let bits = |of: Vec<[f32; 3]>| of.as_flattened().iter().map(|x| x.to_bits()).collect();
    let normals = mesh.vertex_normals().map_or(Ok(Vec::new()), |normals| lab.down(normals))?;
    let neighbors = mesh.neighbors().map_or(Ok(Vec::new()), |neighbors| lab.down(neighbors))?;
    Ok([
        bits(lab.down(mesh.points())?),
        lab.down(mesh.faces())?.into_flattened(),
        bits(normals),
        neighbors,
    ])
}

/// Nodes, items, triangles, and the report.
pub(in super::super) type TreeParts = (Vec<u8>, Vec<u32>, Vec<[u32; 16]>, Vec<u64>);

/// The nodes, sorted, the items, and the triangles of a hierarchy of faces, built and then refitted.
pub(in super::super) fn face_tree_parts(
    lab: &Lab,
    builder: BuildMode,
    (before, after): (&TriangleMesh, &TriangleMesh),
) -> Got<[TreeParts; 2]> {
    let mut tree = FaceTree::new(&lab.stream, &lab.geometry, before.faces.len(), builder)?;
    let mut parts = |mesh: &TriangleMesh, is_new: bool| -> Got<_> {
        let (points, faces) = (lab.up(&mesh.points)?, lab.up(&mesh.faces)?);
        let surface = Surface::new(&points, &faces)?;
        match is_new {
            true => tree.rebuild(&lab.stream, surface)?,
            false => tree.refit(&lab.stream, surface)?,
        }
        let (nodes, items) = tree.parts(&lab.stream)?;
        let report = report_words(&tree.report(&lab.stream)?);
        let words = tree.triangle_words(&lab.stream)?;
        Ok((sorted_nodes(&nodes), items, words, report))
    };
    Ok([parts(before, true)?, parts(after, false)?])
}

/// Points to ask about.
pub(in super::super) fn points_at(
    points: &DeviceBuffer<[f32; 3]>,
    sorted: bool,
) -> PointQueries<'_> {
    PointQueries::at(points).order(if sorted { QueryOrder::Sorted } else { QueryOrder::Given })
}

pub(in super::super) fn up_to<'a>(queries: PointQueries<'a>, distance: f32) -> PointQueries<'a> {
    queries.within(distance)
}

pub(in super::super) fn up_to_each<'a>(
    queries: PointQueries<'a>,
    distances: &'a DeviceBuffer<f32>,
) -> PointQueries<'a> {
    queries.within_each(distances)
}

pub(in super::super) fn closest_points(
    lab: &Lab,
    mesh: &Mesh<'_>,
    queries: &PointQueries<'_>,
) -> Got<Vec<ClosestPoint>> {
    lab.filled(queries.len(), |out| mesh.closest_points(&lab.stream, queries, out))
}

pub(in super::super) fn are_within(
    lab: &Lab,
    mesh: &Mesh<'_>,
    queries: &PointQueries<'_>,
) -> Got<Vec<u8>> {
    lab.filled(queries.len(), |out| mesh.any_within(&lab.stream, queries, out))
}

/// By the call for distances alone, and by that for closest points, too.
pub(in super::super) fn signed_distances(
    lab: &Lab,
    mesh: &Mesh<'_>,
    queries: &PointQueries<'_>,
    sign: Sign,
) -> Got<(Vec<f32>, Vec<f32>, Vec<ClosestPoint>)> {
    let n = queries.len();
    let alone = lab.filled(n, |out| mesh.signed_distances(&lab.stream, queries, sign, out))?;
    let (distances, closest) = lab.filled_both((n, n), |distances, closest| {
        mesh.signed_closest_points(&lab.stream, queries, sign, distances, closest)
    })?;
    Ok((alone, distances, closest))
}

pub(in super::super) fn sides(
    lab: &Lab,
    mesh: &Mesh<'_>,
    queries: &PointQueries<'_>,
) -> Got<Vec<i32>> {
    lab.filled(queries.len(), |out| mesh.classify(&lab.stream, queries, out))
}

pub(in super::super) fn winding_numbers(
    lab: &Lab,
    mesh: &Mesh<'_>,
    queries: &PointQueries<'_>,
    beta: f32,
) -> Got<Vec<f32>> {
    lab.filled(queries.len(), |out| mesh.winding_numbers(&lab.stream, queries, beta, out))
}

pub(in super::super) fn mesh_overlap_counts(
    lab: &Lab,
    mesh: &Mesh<'_>,
    queries: bvh::BvhQueries<'_>,
    how: Overlap,
) -> Got<Vec<u32>> {
    lab.filled(queries.len(), |out| mesh.count_overlaps(&lab.stream, queries, how, out))
}

/// Offsets and faces.
pub(in super::super) fn mesh_overlap_lists(
    lab: &Lab,
    mesh: &Mesh<'_>,
    queries: bvh::BvhQueries<'_>,
    how: Overlap,
) -> Got<(Vec<u64>, Vec<u32>)> {
    let lists = mesh.overlap_lists(&lab.stream, queries, how)?;
    Ok((lab.down(&lists.offsets)?, lab.down(&lists.indices)?))
}

pub(in super::super) fn mesh_overlap_lists_into(
    lab: &Lab,
    mesh: &Mesh<'_>,
    queries: bvh::BvhQueries<'_>,
    (how, room): (Overlap, usize),
) -> Got<(Vec<u64>, Vec<u32>)> {
    lab.filled_both((queries.len() + 1, room), |offsets, faces| {
        mesh.overlap_lists_into(&lab.stream, queries, how, offsets, faces)
    })
}

pub(in super::super) fn closest_hits(
    lab: &Lab,
    mesh: &Mesh<'_>,
    rays: &DeviceBuffer<Ray>,
) -> Got<Vec<RayHit>> {
    lab.filled(rays.len(), |out| mesh.closest_hits(&lab.stream, rays, out))
}

pub(in super::super) fn any_hits(
    lab: &Lab,
    mesh: &Mesh<'_>,
    rays: &DeviceBuffer<Ray>,
) -> Got<Vec<u8>> {
    lab.filled(rays.len(), |out| mesh.any_hits(&lab.stream, rays, out))
}

pub(in super::super) fn hit_counts(
    lab: &Lab,
    mesh: &Mesh<'_>,
    rays: &DeviceBuffer<Ray>,
) -> Got<Vec<u32>> {
    lab.filled(rays.len(), |out| mesh.count_hits(&lab.stream, rays, out))
}

/// Offsets and hits.
pub(in super::super) fn all_hits(
    lab: &Lab,
    mesh: &Mesh<'_>,
    rays: &DeviceBuffer<Ray>,
) -> Got<(Vec<u64>, Vec<RayHit>)> {
    let lists = mesh.all_hits(&lab.stream, rays)?;
    Ok((lab.down(&lists.offsets)?, lab.down(&lists.hits)?))
}

pub(in super::super) fn all_hits_into(
    lab: &Lab,
    mesh: &Mesh<'_>,
    rays: &DeviceBuffer<Ray>,
    room: usize,
) -> Got<(Vec<u64>, Vec<RayHit>)> {
    lab.filled_both((rays.len() + 1, room), |offsets, hits| {
        mesh.all_hits_into(&lab.stream, rays, offsets, hits)
    })
}

/// Positions and normals.
pub(in super::super) fn evaluated(
    lab: &Lab,
    mesh: &Mesh<'_>,
    points: &DeviceBuffer<FacePoint>,
) -> Got<(Vectors, Vectors)> {
    let n = points.len();
    Ok((
        lab.filled(n, |out| mesh.positions_at(&lab.stream, points, out))?,
        lab.filled(n, |out| mesh.normals_at(&lab.stream, points, out))?,
    ))
}

/// Attributes of N numbers, each as its bits.
pub(in super::super) fn attributes<const N: usize>(
    lab: &Lab,
    mesh: &Mesh<'_>,
    points: &DeviceBuffer<FacePoint>,
    numbers: &[f32],
) -> Got<Vec<u32>>
where
    [f32; N]: Plain,
{
    let of_vertices: Vec<[f32; N]> =
        numbers.chunks_exact(N).map(|chunk| std::array::from_fn(|i| chunk[i])).collect();
    let of_vertices = lab.up(&of_vertices)?;
    let out =
        lab.filled(points.len(), |out| mesh.attributes_at(&lab.stream, points, &of_vertices, out))?;
    Ok(out.as_flattened().iter().map(|x: &f32| x.to_bits()).collect())
}

/// What topology tells of a mesh that may be wrong in any way.
pub(in super::super) struct Facts {
    pub(in super::super) neighbors: Vec<u32>,
    pub(in super::super) closed: Vec<u32>,
    pub(in super::super) normals: Vec<[f32; 3]>,
    pub(in super::super) report: Vec<u64>,
    /// Faces out of range and not finite, and the first fault of each kind.
    pub(in super::super) validation: Vec<u64>,
}

pub(in super::super) fn topology(lab: &Lab, mesh: &TriangleMesh) -> Got<Facts> {
    let (points, faces) = (lab.up(&mesh.points)?, lab.up(&mesh.faces)?);
    let surface = Surface::new(&points, &faces)?;
    let (topology, stream) = (Topology::new(&lab.geometry), &lab.stream);
    let mut neighbors = lab.room::<u32>(3 * mesh.faces.len())?;
    topology.neighbors(stream, surface, neighbors.as_slice_mut())?;
    let found = topology.validate(stream, surface)?;
    let fault = |fault: Option<Fault>| {
        fault.map_or([u64::MAX; 3], |f| [f.face, f.corner, f.vertex].map(u64::from))
    };
    let (range, finite) = (fault(found.first_out_of_range), fault(found.first_not_finite));
    Ok(Facts {
        closed: lab.filled(1, |out| {
            topology.closed(stream, surface, neighbors.as_slice(), out.as_slice_mut())
        })?,
        neighbors: lab.down(&neighbors)?,
        normals: lab.filled(mesh.points.len(), |out| {
            topology.vertex_normals(stream, surface, out.as_slice_mut())
        })?,
        report: mesh_report_words(&topology.report(stream, surface)?),
        validation: [&[word(found.out_of_range), word(found.not_finite)], &range[..], &finite]
            .concat(),
    })
}
