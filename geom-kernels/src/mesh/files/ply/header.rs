//! The header of a PLY file: the elements that follow, and their properties.

use super::super::text::{Lines, guess, number, quote, words};
use super::{AXES, CORNERS};

/// The most elements of a file, and properties of an element: each name is compared with all before it.
const MOST_ELEMENTS: usize = 1000;
const MOST_PROPERTIES: usize = 10_000;

/// How the numbers after the header are written, and where they start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Ascii,
    LittleEndian,
    BigEndian,
}

/// The type of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    F32,
    F64,
}

impl Scalar {
    fn named(name: &[u8]) -> Result<Self, String> {
        Ok(match name {
            b"char" | b"int8" => Self::I8,
            b"uchar" | b"uint8" => Self::U8,
            b"short" | b"int16" => Self::I16,
            b"ushort" | b"uint16" => Self::U16,
            b"int" | b"int32" => Self::I32,
            b"uint" | b"uint32" => Self::U32,
            b"float" | b"float32" => Self::F32,
            b"double" | b"float64" => Self::F64,
            _ => return Err(format!("{} is no type of PLY", quote(name))),
        })
    }

    /// Returns the bytes of a number.
    pub(super) fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

/// The use of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Unused,
    Coordinate(usize),
    Corners,
}

/// A property: a number of each item of an element, or a list of numbers.
#[derive(Debug)]
pub(super) struct Property<'a> {
    name: &'a [u8],
    /// The type of the list's length.
    pub(super) list: Option<Scalar>,
    pub(super) scalar: Scalar,
    pub(super) role: Role,
}

/// `count` items with the same properties.
#[derive(Debug)]
pub(super) struct Element<'a> {
    pub(super) name: &'a [u8],
    line: usize,
    pub(super) count: usize,
    pub(super) properties: Vec<Property<'a>>,
}

impl<'a> Element<'a> {
    fn property(&mut self, name: &[u8]) -> Option<&mut Property<'a>> {
        self.properties.iter_mut().find(|property| property.name == name)
    }

    /// Fails if the rest of the file is too short for the items, each of minimal length.
    pub(super) fn check_size(&self, encoding: Encoding, left: usize) -> Result<(), String> {
        let Self { line, count, properties, .. } = self;
        let name = quote(self.name);
        if *count == 0 {
            return Ok(());
        }
        let ascii = encoding == Encoding::Ascii;
        let least: usize = match encoding {
            // Each property takes a digit and a separator; the last line may lack its end.
            Encoding::Ascii => properties.len() * 2,
            _ => properties.iter().map(|of| of.list.unwrap_or(of.scalar).size()).sum(),
        };
        if least == 0 {
            return Err(at_line(*line, &format!("the element {name} has no properties")));
        }
        if *count > (left + usize::from(ascii)) / least {
            let what = format!("the header says {count} of {name}; {left} bytes are left for them");
            return Err(at_line(*line, &what));
        }
        Ok(())
    }
}

/// A header.
pub(super) struct Header<'a> {
    pub(super) encoding: Encoding,
    pub(super) elements: Vec<Element<'a>>,
    /// The line and the byte after the header.
    pub(super) end: (usize, usize),
}

impl<'a> Header<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let mut lines = Lines::new(bytes, 1);
        let magic = lines.find(|(_, line)| !line.trim_ascii().is_empty());
        if magic.is_none_or(|(_, line)| line.trim_ascii() != b"ply") {
            return Err(format!("the first line is not \"ply\"; {}", guess(bytes)));
        }
        let before = bytes.get(..bytes.len() - lines.rest().len()).unwrap_or_default();
        let mac = before.ends_with(b"\r");
        let mut encoding = None;
        let mut elements: Vec<Element<'_>> = Vec::new();
        loop {
            let (at, line) = lines.next().ok_or("the header has no line \"end_header\"")?;
            let statement: Vec<&[u8]> = words(line).take(6).collect();
            match statement[..] {
                [b"end_header"] => break,
                [b"format", name, _] => {
                    encoding = Some(encoding_named(name).map_err(|what| at_line(at, &what))?);
                }
                _ => declare(&mut elements, &statement, (at, line))
                    .map_err(|what| at_line(at, &what))?,
            }
        }
        let encoding = encoding.ok_or("the header has no line \"format\"")?;
        assign_roles(&mut elements)?;
        let mut end = bytes.len() - lines.rest().len();
        // If "\r" ends lines, "\n" is the first byte of the data.
        if mac && bytes.get(..end).is_some_and(|header| header.ends_with(b"\r\n")) {
            end -= 1;
        }
        Ok(Self { encoding, elements, end: (lines.number() + 1, end) })
    }
}

fn at_line(line: usize, what: &str) -> String {
    format!("line {line}: {what}")
}

fn encoding_named(name: &[u8]) -> Result<Encoding, String> {
    match name {
        b"ascii" => Ok(Encoding::Ascii),
        b"binary_little_endian" => Ok(Encoding::LittleEndian),
        b"binary_big_endian" => Ok(Encoding::BigEndian),
        _ => Err(format!("{} is no format of PLY", quote(name))),
    }
}

fn declare<'a>(
    elements: &mut Vec<Element<'a>>,
    statement: &[&'a [u8]],
    (at, line): (usize, &[u8]),
) -> Result<(), String> {
    let (name, list, scalar) = match *statement {
        [] | [b"comment" | b"obj_info", ..] => return Ok(()),
        [b"element", name, count] => {
            if elements.len() >= MOST_ELEMENTS {
                return Err(format!("more than {MOST_ELEMENTS} elements can't be read"));
            }
            if elements.iter().any(|element| element.name == name) {
                return Err(format!("a second element of the same name, {}", quote(name)));
            }
            let count = number(count)?;
            elements.push(Element { name, line: at, count, properties: Vec::new() });
            return Ok(());
        }
        [b"property", b"list", list, scalar, name] => (name, Some(Scalar::named(list)?), scalar),
        [b"property", scalar, name] => (name, None, scalar),
        _ => return Err(format!("{} is no line of a header", quote(line.trim_ascii()))),
    };
    let element = elements.last_mut().ok_or("a property before the first element")?;
    if element.properties.len() >= MOST_PROPERTIES {
        return Err(format!(
            "more than {MOST_PROPERTIES} properties of an element can't be read: {}",
            quote(element.name)
        ));
    }
    if element.property(name).is_some() {
        return Err(format!("a second property of the same name, {}", quote(name)));
    }
    let scalar = Scalar::named(scalar)?;
    element.properties.push(Property { name, list, scalar, role: Role::Unused });
    Ok(())
}

/// Assigns roles to the properties that are used.
fn assign_roles(elements: &mut [Element<'_>]) -> Result<(), String> {
    let vertex = elements.iter_mut().find(|element| element.name == b"vertex");
    let vertex = vertex.ok_or("no element \"vertex\"")?;
    let line = vertex.line;
    for (axis, name) in AXES.iter().enumerate() {
        match vertex.property(name.as_bytes()) {
            Some(property) if property.list.is_none() => property.role = Role::Coordinate(axis),
            Some(_) => {
                return Err(format!(
                    "line {line}: the property \"{name}\" of \"vertex\" is a list"
                ));
            }
            None => return Err(format!("line {line}: no property \"{name}\" of \"vertex\"")),
        }
    }
    let corners = |element: &Element<'_>| {
        let mut names = CORNERS.iter().map(|name| name.as_bytes());
        names.find(|name| element.properties.iter().any(|property| property.name == *name))
    };
    let filled = |element: &&Element<'_>| element.count > 0;
    let strips = elements.iter().filter(filled).find(|element| element.name == b"tristrips");
    if let Some(Element { line, .. }) = strips {
        return Err(format!(
            "line {line}: triangle strips (`tristrips`) can't be read: convert them to faces"
        ));
    }
    if elements.iter().filter(filled).all(|element| element.name != b"face") {
        // An element with faces under another name would be ignored, so it is an error.
        let other = elements.iter().filter(filled).find(|element| corners(element).is_some());
        if let Some(Element { line, name, .. }) = other {
            return Err(format!(
                "line {line}: faces in the element {} can't be read, only in \"face\"",
                quote(name)
            ));
        }
    }
    let Some(face) = elements.iter_mut().find(|element| element.name == b"face") else {
        return Ok(());
    };
    let line = face.line;
    match corners(face).and_then(|name| face.property(name)) {
        Some(property) if property.list.is_some() => property.role = Role::Corners,
        Some(_) => {
            return Err(format!("line {line}: the corners of \"face\" are one number, not a list"));
        }
        None => return Err(format!("line {line}: no property \"vertex_indices\" of \"face\"")),
    }
    Ok(())
}
