//! STL, by `stl_io`.

use std::io::{Cursor, Result as IoResult, Write};

use stl_io::{Normal, Triangle, Vertex};

use super::error::short;
use super::{FileError, FileFormat, TriangleMesh, check};
use crate::mesh::host::{cross, normalize, sub};

/// A binary file: this many bytes of anything, the number of faces, the faces.
const TITLE: usize = 80;
const HEADER: usize = TITLE + 4;
const FACE: u64 = 50;

pub(super) fn read(bytes: &[u8]) -> Result<TriangleMesh, FileError> {
    let read = || {
        let mut mesh = TriangleMesh::default();
        let text = bytes.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"solid"));
        // Some programs begin binary files with "solid" too; these are as long as they say.
        match length(bytes) {
            Some(length) if length == bytes.len() as u64 => read_binary(&mut mesh, bytes)?,
            _ if text => read_text(&mut mesh, bytes)?,
            Some(length) if length < bytes.len() as u64 => read_binary(&mut mesh, bytes)?,
            Some(length) => {
                return Err(format!("{} bytes of the {length} that the header says", bytes.len()));
            }
            None => return Err("neither a text that begins with \"solid\" nor a header".into()),
        }
        // Before points are merged, so that what is not finite is named by the face's place.
        check(&mesh)?;
        mesh.weld();
        Ok(mesh)
    };
    read().map_err(|what: String| FileError::new(FileFormat::Stl, what))
}

/// Returns how long a binary file is by its header.
fn length(bytes: &[u8]) -> Option<u64> {
    let count = bytes.get(TITLE..)?.first_chunk()?;
    Some(HEADER as u64 + FACE * u64::from(u32::from_le_bytes(*count)))
}

fn read_binary(mesh: &mut TriangleMesh, bytes: &[u8]) -> Result<(), String> {
    // stl_io takes what begins with "solid " for text.
    if !bytes.starts_with(b"solid ") {
        return push_faces(mesh, bytes);
    }
    let mut untitled = vec![0; TITLE];
    untitled.extend_from_slice(bytes.get(TITLE..).unwrap_or_default());
    push_faces(mesh, &untitled)
}

/// Of one solid or several, with a name or without one, in any case, with names in any encoding: stl_io reads
/// the first solid and wants "solid " and small letters.
fn read_text(mesh: &mut TriangleMesh, bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let mut rest = text.trim_ascii_start();
    while !rest.is_empty() {
        let (first, body) = rest.split_once('\n').unwrap_or((rest, ""));
        if first.split_ascii_whitespace().next() != Some("solid") {
            return Err(format!("not a solid: {}", short(&first)));
        }
        let mut end = 0;
        for line in body.split_inclusive('\n') {
            end += line.len();
            if line.split_ascii_whitespace().next() == Some("endsolid") {
                break;
            }
        }
        let (solid, others) = body.split_at_checked(end).unwrap_or((body, ""));
        push_faces(mesh, format!("solid \n{solid}").as_bytes())?;
        rest = others.trim_ascii_start();
    }
    Ok(())
}

fn push_faces(mesh: &mut TriangleMesh, bytes: &[u8]) -> Result<(), String> {
    let mut cursor = Cursor::new(bytes);
    let triangles = stl_io::create_stl_reader(&mut cursor).map_err(|error| short(&error))?;
    for triangle in triangles {
        let triangle = triangle.map_err(|error| short(&error))?;
        let first = u32::try_from(mesh.points.len()).ok().filter(|first| *first < u32::MAX - 3);
        let first = first.ok_or("more faces than a u32 numbers the corners of")?;
        mesh.points.extend(triangle.vertices.map(|vertex| vertex.0));
        mesh.faces.push([first, first + 1, first + 2]);
    }
    Ok(())
}

pub(super) fn write(mesh: &TriangleMesh, writer: &mut impl Write) -> IoResult<()> {
    let triangles = mesh.faces.iter().map(|face| {
        // In range: the mesh is checked.
        let corners =
            face.map(|index| mesh.points.get(index as usize).copied().unwrap_or_default());
        let [a, b, c] = corners.map(|corner| corner.map(f64::from));
        let normal = normalize(cross(sub(b, a), sub(c, a))).unwrap_or_default();
        Triangle {
            normal: Normal::new(normal.map(|x| x as f32)),
            vertices: corners.map(Vertex::new),
        }
    });
    stl_io::write_stl(writer, triangles)
}
