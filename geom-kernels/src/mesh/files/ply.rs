//! PLY, by `ply-rs-bw`.

use std::io::{Result as IoResult, Write};

use ply_rs_bw::parser::{Parser, Reader};
use ply_rs_bw::ply::{
    Addable, ElementDef, Encoding, Header, Property, PropertyAccess, PropertyAccessResult,
    PropertyDef, PropertyType, ScalarType,
};
use ply_rs_bw::writer::Writer;

use super::error::short;
use super::{FileError, FileFormat, TriangleMesh, check, push_fan};

/// No header is longer: the reader copies lines, and quotes those that it does not understand.
const MOST_HEADER: usize = 1 << 20;

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

/// The used properties of one item of an element. The reader creates one for each item.
#[derive(Default)]
struct Item {
    position: [f32; 3],
    corners: Vec<u32>,
    /// A property of the item that can't be used.
    wrong: bool,
}

impl PropertyAccess for Item {
    fn new() -> Self {
        Self::default()
    }

    fn set_property(&mut self, name: &str, property: Property) -> PropertyAccessResult {
        if let Some(axis) = AXES.iter().position(|axis| *axis == name) {
            match (property.to_f32_lossy(), self.position.get_mut(axis)) {
                (Some(x), Some(place)) => *place = x,
                // Declared as a list, which matters for vertices only.
                _ => self.wrong = true,
            }
        } else if CORNERS.contains(&name) {
            match indices(&property) {
                Some(corners) => self.corners = corners,
                None => self.wrong = true,
            }
        }
        PropertyAccessResult::Set
    }

    fn get_float(&self, name: &str) -> Option<f32> {
        let axis = AXES.iter().position(|axis| *axis == name)?;
        self.position.get(axis).copied()
    }

    fn get_list_uint(&self, _: &str) -> Option<&[u32]> {
        Some(&self.corners)
    }
}

/// Returns the numbers of a list of any type, if they are whole and not negative.
fn indices(property: &Property) -> Option<Vec<u32>> {
    let whole = |x: f64| ((x as u32) as f64 == x).then_some(x as u32);
    match property {
        Property::ListFloat(list) => list.iter().map(|x| whole(f64::from(*x))).collect(),
        Property::ListDouble(list) => list.iter().map(|x| whole(*x)).collect(),
        other => other.to_u32_list(),
    }
}

pub(super) fn read(bytes: &[u8]) -> Result<TriangleMesh, FileError> {
    parse(bytes).map_err(|what| FileError::new(FileFormat::Ply, what))
}

fn parse(bytes: &[u8]) -> Result<TriangleMesh, String> {
    let (header, mut rest) = read_header(bytes)?;
    let mut mesh = TriangleMesh::default();
    for (name, element) in &header.elements {
        check_size(element, header.encoding, rest.len())?;
        let parser = Parser::<Item>::new();
        let at = |place: usize, what: &str| format!("{name} {place}: {what}");
        match name.as_str() {
            "vertex" => mesh.points.reserve_exact(element.count),
            "face" => mesh.faces.reserve_exact(element.count),
            _ => {}
        }
        for place in 0..element.count {
            let item = match header.encoding {
                Encoding::Ascii => parser.read_ascii_element(next_line(&mut rest)?, element),
                Encoding::BinaryLittleEndian => {
                    parser.read_little_endian_element(&mut rest, element)
                }
                Encoding::BinaryBigEndian => parser.read_big_endian_element(&mut rest, element),
            };
            let item = item.map_err(|error| at(place, &short(&error)))?;
            match name.as_str() {
                "vertex" if item.wrong => return Err(at(place, "a coordinate is a list")),
                "vertex" => mesh.points.push(item.position),
                "face" if item.wrong => return Err(at(place, "its corners are no indices")),
                "face" => {
                    push_fan(&mut mesh.faces, &item.corners).map_err(|what| at(place, &what))?;
                }
                _ => {}
            }
        }
    }
    check(&mesh)?;
    Ok(mesh)
}

/// Returns the header, and the rest of the file. The header's number of each element is not checked.
fn read_header(bytes: &[u8]) -> Result<(Header, &[u8]), String> {
    let start = bytes.get(..MOST_HEADER).unwrap_or(bytes);
    let mut reader = Reader::new(start);
    let header = Parser::<Item>::new().read_header(&mut reader).map_err(|error| short(&error))?;
    let length = start.len() - reader.into_inner().len();
    let (text, rest) = bytes.split_at_checked(length).ok_or("no header")?;

    // The reader lets a second element or property of the same name take the place of the first, and would
    // then misread all that follows.
    let count = |what: &[u8]| {
        text.split(|byte| *byte == b'\n').filter(|line| line.starts_with(what)).count()
    };
    let properties: usize = header.elements.values().map(|element| element.properties.len()).sum();
    if count(b"element") != header.elements.len() || count(b"property") != properties {
        return Err("two elements, or two properties of one, have the same name".into());
    }

    let vertex = header.elements.get("vertex").ok_or("no element \"vertex\"")?;
    if let Some(axis) = AXES.iter().find(|axis| !vertex.properties.contains_key(**axis)) {
        return Err(format!("no property \"{axis}\" of \"vertex\""));
    }
    match header.elements.get("face") {
        Some(face) if CORNERS.iter().all(|name| !face.properties.contains_key(*name)) => {
            return Err("no property \"vertex_indices\" of \"face\"".into());
        }
        None if header.elements.contains_key("tristrips") => {
            return Err("strips of triangles can't be read, only faces".into());
        }
        _ => {}
    }
    Ok((header, rest))
}

/// Checks whether what is left of the file can hold so many items, each as short as can be.
fn check_size(element: &ElementDef, encoding: Encoding, left: usize) -> Result<(), String> {
    let ElementDef { name, count, properties } = element;
    if *count == 0 {
        return Ok(());
    }
    let least: usize = match encoding {
        // A digit of each, and what separates them; the last line may lack its end.
        Encoding::Ascii => properties.len() * 2,
        _ => properties.values().map(|property| size(&property.data_type)).sum(),
    };
    if least == 0 {
        return Err(format!("\"{name}\" has no properties"));
    }
    if *count > (left + usize::from(encoding == Encoding::Ascii)) / least {
        return Err(format!(
            "the header says {count} of \"{name}\"; {left} bytes are left for them"
        ));
    }
    Ok(())
}

/// Returns the bytes of a number, or of the length of a list.
fn size(data_type: &PropertyType) -> usize {
    let (PropertyType::Scalar(scalar) | PropertyType::List(scalar, _)) = data_type;
    match scalar {
        ScalarType::Char | ScalarType::UChar => 1,
        ScalarType::Short | ScalarType::UShort => 2,
        ScalarType::Int | ScalarType::UInt | ScalarType::Float => 4,
        ScalarType::Double => 8,
    }
}

fn next_line<'a>(rest: &mut &'a [u8]) -> Result<&'a str, String> {
    if rest.is_empty() {
        return Err("the file is cut off".into());
    }
    let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
    let (line, others) = rest.split_at_checked(end).unwrap_or((rest, &[]));
    *rest = others;
    std::str::from_utf8(line).map_err(|error| error.to_string())
}

pub(super) fn write(
    mesh: &TriangleMesh,
    out: &mut impl Write,
    encoding: PlyEncoding,
) -> IoResult<()> {
    let mut vertex = ElementDef::new("vertex".into());
    vertex.count = mesh.points.len();
    for axis in AXES {
        vertex
            .properties
            .add(PropertyDef::new(axis.into(), PropertyType::Scalar(ScalarType::Float)));
    }
    let mut face = ElementDef::new("face".into());
    face.count = mesh.faces.len();
    let list = PropertyType::List(ScalarType::UChar, ScalarType::UInt);
    face.properties.add(PropertyDef::new("vertex_indices".into(), list));

    let mut header = Header::new();
    header.encoding = match encoding {
        PlyEncoding::Ascii => Encoding::Ascii,
        PlyEncoding::LittleEndian => Encoding::BinaryLittleEndian,
        PlyEncoding::BigEndian => Encoding::BinaryBigEndian,
    };
    header.elements.add(vertex.clone());
    header.elements.add(face.clone());

    let writer = Writer::<Item>::new();
    writer.write_header(out, &header)?;
    let mut put = |item: &Item, element: &ElementDef| {
        match encoding {
            PlyEncoding::Ascii => writer.write_ascii_element(out, item, element),
            PlyEncoding::LittleEndian => writer.write_little_endian_element(out, item, element),
            PlyEncoding::BigEndian => writer.write_big_endian_element(out, item, element),
        }
        .map(|_| ())
    };
    let mut item = Item::default();
    for point in &mesh.points {
        item.position = *point;
        put(&item, &vertex)?;
    }
    for corners in &mesh.faces {
        item.corners.clear();
        item.corners.extend_from_slice(corners);
        put(&item, &face)?;
    }
    Ok(())
}
