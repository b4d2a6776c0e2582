//! The PLY format.

mod header;
mod values;

use std::io::{Result as IoResult, Write};

use header::{Element, Encoding, Header, Role};
use values::{Binary, Text, Values};

use super::text::{decode, quote, without_padding};
use super::{FileError, FileFormat, TriangleMesh, check_counts, push_fan};

const AXES: [&str; 3] = ["x", "y", "z"];
const CORNERS: [&str; 2] = ["vertex_indices", "vertex_index"];

/// How numbers are written in a PLY file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PlyEncoding {
    /// As text.
    Ascii,
    /// Binary, the least significant byte first.
    #[default]
    LittleEndian,
    /// Binary, the most significant byte first.
    BigEndian,
}

pub(super) fn read(bytes: &[u8]) -> Result<TriangleMesh, FileError> {
    parse(bytes).map_err(|what| FileError::new(FileFormat::Ply, what))
}

fn parse(bytes: &[u8]) -> Result<TriangleMesh, String> {
    let bytes = &*decode(bytes);
    let Header { encoding, elements, end: (line, byte) } = Header::read(bytes)?;
    match encoding {
        Encoding::Ascii => {
            let body = bytes.get(byte..).unwrap_or_default();
            read_elements(&elements, encoding, Text::new(without_padding(body), line))
        }
        _ => read_elements(&elements, encoding, Binary::new(bytes, byte, encoding)),
    }
}

fn read_elements(
    elements: &[Element<'_>],
    encoding: Encoding,
    mut values: impl Values,
) -> Result<TriangleMesh, String> {
    let mut mesh = TriangleMesh::default();
    let mut corners = Vec::new();
    let points = elements.iter().find(|element| element.name == b"vertex");
    let points = points.map_or(0, |element| element.count);
    for element in elements {
        element.check_size(encoding, values.left())?;
        match element.name {
            b"vertex" => mesh.points.reserve_exact(element.count),
            b"face" => mesh.faces.reserve_exact(element.count),
            _ => {}
        }
        for index in 0..element.count {
            let item = values.begin();
            item.and_then(|()| read_item(element, &mut values, &mut mesh, &mut corners, points))
                .map_err(|what| {
                    format!("{}: {} {index}: {what}", values.place(), quote(element.name))
                })?;
        }
    }
    values.finish().map_err(|what| {
        let items: usize = elements.iter().map(|element| element.count).sum();
        format!("{}: {what} after the {items} items that the header counts", values.place())
    })?;
    check_counts(&mesh)?;
    Ok(mesh)
}

fn read_item(
    element: &Element<'_>,
    values: &mut impl Values,
    mesh: &mut TriangleMesh,
    corners: &mut Vec<u32>,
    points: usize,
) -> Result<(), String> {
    let mut point = [0.0; 3];
    for property in &element.properties {
        let count = property.list.map(|scalar| values.whole(scalar)).transpose()?;
        match property.role {
            Role::Coordinate(axis) => {
                let x = values.coordinate(property.scalar)?;
                if let Some(place) = point.get_mut(axis) {
                    *place = x;
                }
            }
            Role::Corners => {
                corners.clear();
                for _ in 0..count.unwrap_or(1) {
                    let corner = values.whole(property.scalar)?;
                    if corner as usize >= points {
                        return Err(format!("point {corner} of a file that has {points}"));
                    }
                    corners.push(corner);
                }
            }
            Role::Unused => values.skip(property.scalar, count.unwrap_or(1))?,
        }
    }
    match element.name {
        b"vertex" => mesh.points.push(point),
        b"face" => push_fan(&mut mesh.faces, corners)?,
        _ => {}
    }
    Ok(())
}

pub(super) fn write(
    mesh: &TriangleMesh,
    out: &mut impl Write,
    encoding: PlyEncoding,
) -> IoResult<()> {
    let format = match encoding {
        PlyEncoding::Ascii => "ascii",
        PlyEncoding::LittleEndian => "binary_little_endian",
        PlyEncoding::BigEndian => "binary_big_endian",
    };
    writeln!(out, "ply\nformat {format} 1.0\nelement vertex {}", mesh.points.len())?;
    for axis in AXES {
        writeln!(out, "property float {axis}")?;
    }
    writeln!(out, "element face {}", mesh.faces.len())?;
    writeln!(out, "property list uchar uint vertex_indices\nend_header")?;
    for [x, y, z] in &mesh.points {
        if encoding == PlyEncoding::Ascii {
            writeln!(out, "{x} {y} {z}")?;
        }
        for number in [x, y, z] {
            put(out, number.to_bits(), encoding)?;
        }
    }
    for [a, b, c] in &mesh.faces {
        if encoding == PlyEncoding::Ascii {
            writeln!(out, "3 {a} {b} {c}")?;
        } else {
            out.write_all(&[3])?;
        }
        for index in [a, b, c] {
            put(out, *index, encoding)?;
        }
    }
    Ok(())
}

/// Writes four bytes, in a binary file.
fn put(out: &mut impl Write, bits: u32, encoding: PlyEncoding) -> IoResult<()> {
    match encoding {
        PlyEncoding::Ascii => Ok(()),
        PlyEncoding::LittleEndian => out.write_all(&bits.to_le_bytes()),
        PlyEncoding::BigEndian => out.write_all(&bits.to_be_bytes()),
    }
}
