//! Meshes in files.

use geom_kernels::mesh::TriangleMesh;
use geom_kernels::mesh::files::{FileError, PlyEncoding};

use crate::within;

const ENCODINGS: [PlyEncoding; 3] =
    [PlyEncoding::Ascii, PlyEncoding::LittleEndian, PlyEncoding::BigEndian];

/// Wavefront OBJ: a mesh that keeps what meshes keep and survives every format, or an error in few words.
///
/// # Panics
/// That does not hold.
pub fn obj(data: &[u8]) {
    check(data, |bytes| TriangleMesh::from_obj(bytes));
}

/// As [`obj`], for STL, text and binary.
///
/// # Panics
/// That does not hold.
pub fn stl(data: &[u8]) {
    if let Some(mesh) = check(data, |bytes| TriangleMesh::from_stl(bytes)) {
        // It was merged when it was read.
        same(
            &mesh,
            &read_again(&mesh, |mesh, to| mesh.write_stl(to), |b| TriangleMesh::from_stl(b)),
        );
    }
}

/// As [`obj`], for PLY, text and binary.
///
/// # Panics
/// That does not hold.
pub fn ply(data: &[u8]) {
    check(data, |bytes| TriangleMesh::from_ply(bytes));
}

/// A mesh that keeps what meshes keep, or an error in few words; the mesh survives every format.
fn check(data: &[u8], read: fn(&[u8]) -> Result<TriangleMesh, FileError>) -> Option<TriangleMesh> {
    let mesh = match within((1 << 20) + 64 * data.len(), || read(data)) {
        Ok(mesh) => mesh,
        Err(error) => {
            assert!(error.to_string().len() < 400, "{error}");
            return None;
        }
    };
    assert!(mesh.points.iter().flatten().all(|x| x.is_finite()));
    assert!(mesh.faces.iter().flatten().all(|index| (*index as usize) < mesh.points.len()));
    let from_obj = |bytes: &[u8]| TriangleMesh::from_obj(bytes);
    same(&mesh, &read_again(&mesh, |mesh, to| mesh.write_obj(to), from_obj));
    for encoding in ENCODINGS {
        let from_ply = |bytes: &[u8]| TriangleMesh::from_ply(bytes);
        same(&mesh, &read_again(&mesh, |mesh, to| mesh.write_ply(to, encoding), from_ply));
    }
    let from_stl = |bytes: &[u8]| TriangleMesh::from_stl(bytes);
    let again = read_again(&mesh, |mesh, to| mesh.write_stl(to), from_stl);
    // Points are merged by position, in which the two zeros are one.
    assert_eq!(corners(&again), corners(&mesh));
    Some(mesh)
}

fn read_again(
    mesh: &TriangleMesh,
    write: impl Fn(&TriangleMesh, &mut Vec<u8>) -> Result<(), FileError>,
    read: impl Fn(&[u8]) -> Result<TriangleMesh, FileError>,
) -> TriangleMesh {
    let mut bytes = Vec::new();
    if let Err(error) = write(mesh, &mut bytes) {
        panic!("{error}, of a mesh that was read");
    }
    read(&bytes).unwrap_or_else(|error| panic!("{error}, of what was written"))
}

/// The same bits.
fn same(one: &TriangleMesh, other: &TriangleMesh) {
    let bits = |mesh: &TriangleMesh| -> Vec<[u32; 3]> {
        mesh.points.iter().map(|point| point.map(f32::to_bits)).collect()
    };
    assert_eq!(bits(one), bits(other));
    assert_eq!(one.faces, other.faces);
}

fn corners(mesh: &TriangleMesh) -> Vec<[[f32; 3]; 3]> {
    mesh.faces.iter().map(|face| face.map(|index| mesh.points[index as usize])).collect()
}
