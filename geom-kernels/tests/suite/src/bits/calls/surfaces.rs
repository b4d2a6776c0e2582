//! `geom_kernels::isosurface`.

use cuda_safe::DeviceBuffer;
use geom_kernels::isosurface::{
    BlockField, Counts, DenseField, Field, Map, MarchingCubes, Output, TriangleBuffers, VolumeField,
};
use geom_kernels::mesh::MeshOptions;
use geom_kernels::volume::Volume;

use super::{Got, Lab, Vectors, mesh_reports};

pub(in super::super) fn marching(lab: &Lab) -> MarchingCubes {
    MarchingCubes::new(&lab.geometry)
}

pub(in super::super) fn index_map(rows: [[f64; 4]; 3]) -> Got<Map> {
    Ok(Map::from_rows(rows)?)
}

pub(in super::super) fn dense_field(
    values: &DeviceBuffer<f32>,
    dims: [usize; 3],
    map: Map,
) -> Got<DenseField<'_>> {
    Ok(DenseField::new(values, dims, map)?)
}

pub(in super::super) fn block_field<'a>(
    (values, stride): (&'a DeviceBuffer<f32>, usize),
    origins: &'a DeviceBuffer<[i32; 3]>,
    neighbors: &'a DeviceBuffer<[u32; 27]>,
    map: Map,
) -> Got<BlockField<'a>> {
    Ok(BlockField::new(values, stride, origins, neighbors, map)?)
}

pub(in super::super) fn volume_field(lab: &Lab, volume: &Volume) -> Got<VolumeField> {
    Ok(VolumeField::build(&lab.stream, &lab.geometry, volume)?)
}

pub(in super::super) fn update_field(
    lab: &Lab,
    field: &mut VolumeField,
    volume: &Volume,
) -> Got<()> {
    Ok(field.update(&lab.stream, volume)?)
}

/// The numbers of a volume's field, and whether it has all of it.
pub(in super::super) fn field_values(lab: &Lab, field: &VolumeField) -> Got<(Vec<f32>, bool)> {
    Ok((lab.down(field.values())?, field.is_complete()))
}

/// Vertices, faces, normals (which may be missing) and counts.
pub(in super::super) type Found = (Vec<[f32; 3]>, Vec<[u32; 3]>, Vec<[f32; 3]>, Vec<Counts>);

fn found(lab: &Lab, of: &TriangleBuffers) -> Got<Found> {
    let normals = of.normals.as_ref().map_or(Ok(Vec::new()), |normals| lab.down(normals))?;
    Ok((lab.down(&of.vertices)?, lab.down(&of.faces)?, normals, vec![of.counts]))
}

/// Without normals and with them.
pub(in super::super) fn extracted<F: Field>(lab: &Lab, field: &F, iso: f32) -> Got<[Found; 2]> {
    let marching = marching(lab);
    let plain = marching.extract(&lab.stream, field, iso)?;
    let normals = marching.extract_with_normals(&lab.stream, field, iso)?;
    Ok([found(lab, &plain)?, found(lab, &normals)?])
}

/// Into memory for so many vertices and faces, with normals.
pub(in super::super) fn extracted_into<F: Field>(
    lab: &Lab,
    field: &F,
    iso: f32,
    room: [usize; 2],
) -> Got<Found> {
    let (mut vertices, mut faces) = (lab.room(room[0])?, lab.room(room[1])?);
    let (mut normals, mut counts) = (lab.room(room[0])?, lab.room(1)?);
    let output = Output::new(&mut vertices, &mut faces, &mut counts).normals(&mut normals);
    marching(lab).extract_into(&lab.stream, field, iso, output)?;
    Ok((lab.down(&vertices)?, lab.down(&faces)?, lab.down(&normals)?, lab.down(&counts)?))
}

pub(in super::super) fn surface_counts<F: Field>(
    lab: &Lab,
    field: &F,
    iso: f32,
) -> Got<Vec<Counts>> {
    lab.filled(1, |counts| marching(lab).count(&lab.stream, field, iso, counts))
}

/// A surface on the host, and the report of the mesh that it becomes on the device.
pub(in super::super) fn surface_mesh<F: Field>(
    lab: &Lab,
    field: &F,
    iso: f32,
) -> Got<(Vectors, Vec<[u32; 3]>, Vec<u64>)> {
    let surface = marching(lab).extract(&lab.stream, field, iso)?;
    let host = surface.download(&lab.stream)?;
    let mesh = surface.into_mesh(&lab.stream, &lab.geometry, MeshOptions::default().topology())?;
    Ok((host.points, host.faces, mesh_reports(lab, &mesh)?))
}
