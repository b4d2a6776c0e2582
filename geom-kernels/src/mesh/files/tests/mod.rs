//! Tests of the readers and writers of files.

mod bad_files;
mod foreign;
mod formats;
mod mutations;
mod round_trips;

use test_support::meter;

use super::*;

#[global_allocator]
static METER: meter::Meter = meter::Meter;

type Answer = Result<(), Box<dyn std::error::Error>>;

/// Returns a mesh with awkward numbers, points in the order of no face, and a point without a face.
fn awkward() -> TriangleMesh {
    TriangleMesh {
        points: vec![
            [1.0 / 3.0, -0.0, f32::MAX],
            [f32::MIN_POSITIVE, 1e-45, -1e30],
            [16_777_217.0, 0.1, -2.5e-7],
            [5.0, 5.0, 5.0],
            [0.0, 1.0, 0.0],
        ],
        faces: vec![[4, 2, 0], [0, 1, 2], [1, 1, 4]],
    }
}

fn bits(mesh: &TriangleMesh) -> Vec<[u32; 3]> {
    mesh.points.iter().map(|point| point.map(f32::to_bits)).collect()
}

fn ply_bytes(mesh: &TriangleMesh, encoding: PlyEncoding) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    mesh.write_ply(&mut bytes, encoding)?;
    Ok(bytes)
}

fn obj_bytes(mesh: &TriangleMesh) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    mesh.write_obj(&mut bytes)?;
    Ok(bytes)
}

fn stl_bytes(mesh: &TriangleMesh) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    mesh.write_stl(&mut bytes)?;
    Ok(bytes)
}

const ENCODINGS: [PlyEncoding; 3] =
    [PlyEncoding::Ascii, PlyEncoding::LittleEndian, PlyEncoding::BigEndian];
