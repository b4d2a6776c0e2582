//! The STL format.

use std::io::{Result as IoResult, Write};

use super::text::{
    Lines, coordinate, decode, guess, known_format, quote, split_word, without_padding,
};
use super::{FileError, FileFormat, TriangleMesh, check_counts};
use crate::mesh::host::{cross, normalize, sub};

/// A binary file: a title of this many bytes, the number of faces, and the faces.
const TITLE: usize = 80;
const HEADER: usize = TITLE + 4;
/// A face: a normal, three corners, and two unused bytes.
const FACE: usize = 50;
const NORMAL: usize = 12;

pub(super) fn read(bytes: &[u8]) -> Result<TriangleMesh, FileError> {
    parse(bytes).map_err(|what| FileError::new(FileFormat::Stl, what))
}

fn parse(bytes: &[u8]) -> Result<TriangleMesh, String> {
    let mut mesh = TriangleMesh::default();
    let header = bytes.split_at_checked(HEADER).and_then(|(header, faces)| {
        Some((u32::from_le_bytes(*header.get(TITLE..)?.first_chunk()?), faces))
    });
    let text = decode(bytes);
    let start = text.trim_ascii_start().get(..5).unwrap_or_default();
    let solid = start.eq_ignore_ascii_case(b"solid");
    // A binary file may also begin with "solid". It then has the length that it declares, or contains zeros, which
    // texts do not, except as padding at their end. A binary file without faces has nothing but zeros after its
    // title.
    let padded = without_padding(&text);
    let content = if padded.len() < HEADER { &text } else { padded };
    let zeros = content.get(..1024).unwrap_or(content).contains(&0);
    let foreign = known_format(&text).filter(|_| !solid);
    match (header, foreign) {
        (Some((count, faces)), _) if faces.len() as u64 == length(count) => {
            read_binary(&mut mesh, faces)?;
        }
        _ if solid && !zeros => read_text(&mut mesh, padded)?,
        (_, Some(format)) => return Err(format!("the file is {format}")),
        (Some((count, faces)), None) => {
            let whole = faces.len() / FACE;
            if whole as u64 != u64::from(count) {
                return Err(format!(
                    "bytes 80 to 83 say {count} faces, which have {} bytes; {} bytes follow, {whole} faces: correct \
                     the number, or fetch the whole file",
                    length(count),
                    faces.len()
                ));
            }
            read_binary(&mut mesh, faces)?;
        }
        (None, None) => {
            return Err(format!(
                "neither a text that starts with \"solid\" nor a header of {HEADER} bytes; {}",
                guess(&text)
            ));
        }
    }
    check_counts(&mesh)?;
    mesh.weld();
    Ok(mesh)
}

/// Returns the length of a file with `count` faces.
fn length(count: u32) -> u64 {
    u64::from(count) * FACE as u64
}

/// Reads complete faces, and ignores the rest.
fn read_binary(mesh: &mut TriangleMesh, faces: &[u8]) -> Result<(), String> {
    for (place, face) in faces.as_chunks::<FACE>().0.iter().enumerate() {
        let mut numbers = face.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        let mut corners = [[0.0; 3]; 3];
        for (x, number) in corners.as_flattened_mut().iter_mut().zip(numbers.by_ref().skip(3)) {
            *x = number;
        }
        if let Some(at) = corners.as_flattened().iter().position(|x| !x.is_finite()) {
            let byte = HEADER + place * FACE + NORMAL + at * 4;
            return Err(format!("byte {byte}: a coordinate of face {place} is not a finite f32"));
        }
        push(mesh, corners)?;
    }
    Ok(())
}

fn push(mesh: &mut TriangleMesh, corners: [[f32; 3]; 3]) -> Result<(), String> {
    let first = u32::try_from(mesh.points.len()).ok().filter(|first| *first < u32::MAX - 3);
    let first = first.ok_or("more faces than a u32 numbers the corners of")?;
    mesh.points.extend(corners);
    mesh.faces.push([first, first + 1, first + 2]);
    Ok(())
}

/// The words of a text, with their line numbers.
struct Words<'a> {
    lines: Lines<'a>,
    line: &'a [u8],
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            if let Some(word) = split_word(&mut self.line) {
                return Some(word);
            }
            self.line = self.lines.next()?.1;
        }
    }

    /// Skips the name of a solid, which ends with its line. A face in that line would be lost, so it is an error.
    fn skip_name(&mut self) -> Result<(), String> {
        while let Some(word) = split_word(&mut self.line) {
            if word.eq_ignore_ascii_case(b"endfacet") {
                return Err(format!(
                    "line {}: a `facet` after the name of a solid can't be read: start a new line after the name",
                    self.lines.number()
                ));
            }
        }
        Ok(())
    }

    /// Reads `word`, or fails.
    fn expect(&mut self, word: &str) -> Result<(), String> {
        match self.next() {
            Some(found) if found.eq_ignore_ascii_case(word.as_bytes()) => Ok(()),
            found => Err(self.unexpected(found, &format!("`{word}`"))),
        }
    }

    fn unexpected(&self, found: Option<&[u8]>, wanted: &str) -> String {
        let line = self.lines.number();
        match found {
            Some(found) => format!("line {line}: {} where {wanted} belongs", quote(found)),
            None => format!("line {line}: the file ends where {wanted} belongs"),
        }
    }
}

/// Reads solids, with or without names, in upper or lower case. Line ends matter only after a name.
fn read_text(mesh: &mut TriangleMesh, text: &[u8]) -> Result<(), String> {
    let mut words = Words { lines: Lines::new(text, 1), line: &[] };
    while let Some(word) = words.next() {
        if !word.eq_ignore_ascii_case(b"solid") {
            return Err(words.unexpected(Some(word), "`solid`"));
        }
        words.skip_name()?;
        loop {
            match words.next() {
                Some(word) if word.eq_ignore_ascii_case(b"endsolid") => break,
                Some(word) if word.eq_ignore_ascii_case(b"facet") => facet(mesh, &mut words)?,
                found => return Err(words.unexpected(found, "`facet` or `endsolid`")),
            }
        }
        words.skip_name()?;
    }
    Ok(())
}

/// Reads a face after its word "facet".
fn facet(mesh: &mut TriangleMesh, text: &mut Words<'_>) -> Result<(), String> {
    // The words of the normal are not used, but a keyword among them is an error: the normal is incomplete.
    loop {
        match text.next() {
            Some(word) if word.eq_ignore_ascii_case(b"outer") => break,
            Some(word) if !is_structure(word) => {}
            found => return Err(text.unexpected(found, "`outer loop`")),
        }
    }
    text.expect("loop")?;
    let mut corners = [[0.0; 3]; 3];
    for corner in &mut corners {
        text.expect("vertex")?;
        for x in corner {
            let word = text.next().ok_or_else(|| text.unexpected(None, "a coordinate"))?;
            *x =
                coordinate(word).map_err(|what| format!("line {}: {what}", text.lines.number()))?;
        }
    }
    text.expect("endloop")?;
    text.expect("endfacet")?;
    push(mesh, corners)
}

fn is_structure(word: &[u8]) -> bool {
    let words = ["solid", "facet", "loop", "vertex", "endloop", "endfacet", "endsolid"];
    words.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

pub(super) fn write(mesh: &TriangleMesh, writer: &mut impl Write) -> IoResult<()> {
    writer.write_all(&[0; TITLE])?;
    writer.write_all(&(mesh.faces.len() as u32).to_le_bytes())?;
    for face in &mesh.faces {
        // The indices are in range: the mesh is checked.
        let corners =
            face.map(|index| mesh.points.get(index as usize).copied().unwrap_or_default());
        let [a, b, c] = corners.map(|corner| corner.map(f64::from));
        let normal = normalize(cross(sub(b, a), sub(c, a))).unwrap_or_default();
        for x in normal.map(|x| x as f32).iter().chain(corners.as_flattened()) {
            writer.write_all(&x.to_le_bytes())?;
        }
        writer.write_all(&[0; 2])?;
    }
    Ok(())
}
