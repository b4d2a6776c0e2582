//! Wavefront OBJ, by `tobj`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{Result as IoResult, Write};

use tobj::{LoadError, LoadOptions};

use super::error::short;
use super::{FileError, FileFormat, TriangleMesh, check, push_fan};

pub(super) fn read(bytes: &[u8]) -> Result<TriangleMesh, FileError> {
    // Names and comments are in whatever encoding; all else is ASCII.
    parse(&String::from_utf8_lossy(bytes)).map_err(|what| FileError::new(FileFormat::Obj, what))
}

fn parse(text: &str) -> Result<TriangleMesh, String> {
    let (text, points) = geometry(text)?;
    // All options off: polygons as they are, one index for each corner.
    let options = LoadOptions::default();
    // No material is named in what is left.
    let materials = |_: &_| Err(LoadError::GenericFailure);
    let (models, _) = tobj::load_obj_buf(&mut text.as_bytes(), &options, materials)
        .map_err(|error| short(&error))?;
    let mut mesh = TriangleMesh::default();
    for model in models {
        let tobj::Mesh { positions, indices, face_arities, .. } = model.mesh;
        mesh.points.extend_from_slice(positions.as_chunks().0);
        // The first polygon is ours. Without arities, all are triangles, as ours is then.
        let mut rest = indices.get(points..).unwrap_or_default();
        let arities = match face_arities.get(usize::from(points > 0)..) {
            Some(arities) => arities.to_vec(),
            None => vec![3; rest.len() / 3],
        };
        for arity in arities {
            let face = rest.split_at_checked(arity as usize);
            let (corners, others) = face.ok_or("a face that is cut off")?;
            push_fan(&mut mesh.faces, corners)?;
            rest = others;
        }
    }
    check(&mesh)?;
    Ok(mesh)
}

/// Returns the lines of a file that say where points and faces are, and how many points there are.
///
/// `tobj` begins a new mesh with new points at every group and object, numbers the points of each by their
/// first use, and leaves out those without faces. So it is given no groups, and one polygon of all points in
/// front: then points are those of the file, in its order. Nor is it given indices of texture coordinates
/// and normals, with which it calculates unchecked.
fn geometry(text: &str) -> Result<(String, usize), String> {
    // A backslash at the end of a line continues it.
    let text = if text.contains('\\') {
        Cow::Owned(text.replace("\\\r\n", " ").replace("\\\n", " "))
    } else {
        Cow::Borrowed(text)
    };
    let mut lines = String::new();
    let mut points: usize = 0;
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        match words.next() {
            Some("v") => {
                points += 1;
                lines.push('v');
                // Four are x, y, z and w; more are colours.
                let numbers = if words.clone().count() == 4 { 4 } else { 3 };
                for word in words.take(numbers) {
                    lines.extend([" ", word]);
                }
                lines.push('\n');
            }
            Some("f") => {
                lines.push('f');
                for word in words {
                    let index = word.split('/').next().unwrap_or_default();
                    // A corner without a point, such as "/1", is refused as "/" is.
                    lines.extend([" ", if index.is_empty() { "/" } else { index }]);
                }
                lines.push('\n');
            }
            _ => {}
        }
    }
    if points >= u32::MAX as usize {
        return Err(format!("{points} points; at most 2^32 - 1 are possible"));
    }
    if points == 0 {
        return Ok((lines, 0));
    }
    let mut result = String::with_capacity(lines.len() + points * 11 + 2);
    result.push('f');
    for point in 1..=points {
        // Writing to a string does not fail.
        let _ = write!(result, " {point}");
    }
    result.push('\n');
    result.push_str(&lines);
    Ok((result, points))
}

pub(super) fn write(mesh: &TriangleMesh, writer: &mut impl Write) -> IoResult<()> {
    for [x, y, z] in &mesh.points {
        writeln!(writer, "v {x} {y} {z}")?;
    }
    for face in &mesh.faces {
        let [a, b, c] = face.map(|index| u64::from(index) + 1);
        writeln!(writer, "f {a} {b} {c}")?;
    }
    Ok(())
}
