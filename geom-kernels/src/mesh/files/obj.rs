//! The Wavefront OBJ format.

use std::io::{Result as IoResult, Write};

use super::text::{
    Lines, coordinate, decode, guess, known_format, number, quote, without_padding, words,
};
use super::{FileError, FileFormat, TriangleMesh, check_counts, push_fan};

pub(super) fn read(bytes: &[u8]) -> Result<TriangleMesh, FileError> {
    parse(bytes).map_err(|what| FileError::new(FileFormat::Obj, what))
}

/// The mesh, and forward references to points.
#[derive(Default)]
struct Reader {
    mesh: TriangleMesh,
    corners: Vec<u32>,
    /// The greatest index that was used before its point, counted from 1, and its line.
    later: Option<(u32, usize)>,
}

fn parse(bytes: &[u8]) -> Result<TriangleMesh, String> {
    let text = decode(bytes);
    if let Some(format) = known_format(&text).filter(|format| !format.starts_with("OBJ")) {
        return Err(format!("the file is {format}"));
    }
    let mut reader = Reader::default();
    let mut lines = Lines::new(without_padding(&text), 1);
    let mut statement = Vec::new();
    while let Some((at, mut line)) = lines.next() {
        statement.clear();
        // Joined files have byte order marks inside.
        line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        loop {
            let (content, comment) = match line.iter().position(|byte| *byte == b'#') {
                Some(end) => (line.get(..end).unwrap_or(line), true),
                None => (line, false),
            };
            // A backslash at the end of a line continues the statement. A comment ends with its line.
            let continued = (!comment).then(|| content.strip_suffix(b"\\")).flatten();
            statement.extend(words(continued.unwrap_or(content)));
            match continued.and_then(|_| lines.next()) {
                Some((_, next)) => line = next,
                None => break,
            }
        }
        if let [keyword, values @ ..] = &statement[..] {
            reader.statement(at, keyword, values).map_err(|what| format!("line {at}: {what}"))?;
        }
    }
    let Reader { mesh, later, .. } = reader;
    let points = mesh.points.len();
    if points == 0 && !text.trim_ascii().is_empty() {
        return Err(format!("no points: no line starts with \"v\"; {}", guess(&text)));
    }
    if let Some((index, line)) = later.filter(|(index, _)| *index as usize > points) {
        return Err(format!("line {line}: a face names point {index}; the file has {points}"));
    }
    check_counts(&mesh)?;
    Ok(mesh)
}

impl Reader {
    fn statement(&mut self, line: usize, keyword: &[u8], values: &[&[u8]]) -> Result<(), String> {
        match keyword {
            b"v" | b"V" => self.point(values),
            // `fo` is the keyword of old versions of the format.
            b"f" | b"F" | b"fo" => self.face(line, values),
            b"surf" => {
                Err("free-form surfaces (`surf`) can't be read, only polygons: convert them".into())
            }
            b"call" => {
                Err("the contents of another file (`call`) can't be read: insert them".into())
            }
            // Other statements are names, normals, materials and extensions. Any other first word means a damaged
            // line, or a number that has lost its statement: ignoring it could lose a point.
            [b'a'..=b'z' | b'A'..=b'Z', rest @ ..]
                if rest.iter().all(|x| x.is_ascii_alphanumeric() || b"_-.:".contains(x)) =>
            {
                Ok(())
            }
            other => Err(format!("{} is no statement of OBJ", quote(other))),
        }
    }

    /// Reads x, y, z, or x, y, z, w, where w divides the others. Further numbers are colours.
    fn point(&mut self, values: &[&[u8]]) -> Result<(), String> {
        let (x, y, z, w) = match values {
            [x, y, z, w] => (x, y, z, Some(w)),
            [x, y, z, ..] => (x, y, z, None),
            _ => return Err(format!("a point of {} coordinates; it takes 3", values.len())),
        };
        let mut point = [coordinate(x)?, coordinate(y)?, coordinate(z)?];
        if let Some(word) = w {
            let w = coordinate(word)?;
            point = point.map(|x| x / w);
            if !point.iter().all(|x| x.is_finite()) {
                return Err(format!(
                    "a coordinate divided by w = {} is not a finite f32",
                    quote(word)
                ));
            }
        }
        self.mesh.points.push(point);
        Ok(())
    }

    fn face(&mut self, line: usize, values: &[&[u8]]) -> Result<(), String> {
        self.corners.clear();
        for word in values {
            // The indices of texture coordinates and normals that follow are not used.
            let index: i64 = number(word.split(|x| *x == b'/').next().unwrap_or_default())?;
            let points = self.mesh.points.len();
            let from_start =
                if index < 0 { index.saturating_add_unsigned(points as u64 + 1) } else { index };
            let corner = u32::try_from(from_start).ok().filter(|corner| *corner > 0);
            let corner = corner.ok_or_else(|| match index {
                0 => "a face names point 0; points are counted from 1".to_owned(),
                _ => format!("a face names point {index}; the file has {points} up to here"),
            })?;
            if corner as usize > points && self.later.is_none_or(|(most, _)| most < corner) {
                self.later = Some((corner, line));
            }
            self.corners.push(corner - 1);
        }
        push_fan(&mut self.mesh.faces, &self.corners)
    }
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
