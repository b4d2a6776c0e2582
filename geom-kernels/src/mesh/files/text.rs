//! Shared parts of the readers: encodings, lines, words, and guesses at other formats.

use std::borrow::Cow;

/// Returns the text in an encoding that is a superset of ASCII: without a byte order mark, and UTF-16 as UTF-8.
pub(super) fn decode(bytes: &[u8]) -> Cow<'_, [u8]> {
    match bytes {
        [0xef, 0xbb, 0xbf, text @ ..] => Cow::Borrowed(text),
        [0xff, 0xfe, 0, 0, ..] => Cow::Borrowed(bytes),
        [0xff, 0xfe, text @ ..] => from_utf16(text, u16::from_le_bytes),
        [0xfe, 0xff, text @ ..] => from_utf16(text, u16::from_be_bytes),
        [1..=0x7f, 0, 1..=0x7f, 0, ..] => from_utf16(bytes, u16::from_le_bytes),
        [0, 1..=0x7f, 0, 1..=0x7f, ..] => from_utf16(bytes, u16::from_be_bytes),
        _ => Cow::Borrowed(bytes),
    }
}

fn from_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Cow<'static, [u8]> {
    let units = bytes.as_chunks::<2>().0.iter().map(|pair| unit(*pair));
    let text: String = char::decode_utf16(units)
        .map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect();
    Cow::Owned(text.into_bytes())
}

/// Returns the text without the Ctrl-Z (of DOS) and the zeros that pad its end.
pub(super) fn without_padding(text: &[u8]) -> &[u8] {
    let pads = |byte: &u8| matches!(byte, 0 | 0x1a);
    let last = text.iter().rposition(|byte| !pads(byte) && !byte.is_ascii_whitespace());
    let end = last.map_or(0, |last| last + 1);
    let padding = text.iter().skip(end).position(pads);
    padding.and_then(|padding| text.get(..end + padding)).unwrap_or(text)
}

/// The lines of a text, with their numbers from 1. A line ends with "\n", "\r\n" or "\r".
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

impl<'a> Lines<'a> {
    /// Returns the lines of `text`, whose first line has the number `number`.
    pub(super) fn new(text: &'a [u8], number: usize) -> Self {
        Self { rest: text, number: number.saturating_sub(1) }
    }

    /// Returns the text that follows the last line.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the number of the last line; 0 before the first.
    pub(super) fn number(&self) -> usize {
        self.number
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let (line, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = match rest {
            [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
            [] => rest,
        };
        self.number += 1;
        Some((self.number, line))
    }
}

/// Returns the words of a line.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Takes the next word off the rest of a line.
pub(super) fn split_word<'a>(line: &mut &'a [u8]) -> Option<&'a [u8]> {
    let start = line.trim_ascii_start();
    let end = start.iter().position(u8::is_ascii_whitespace).unwrap_or(start.len());
    let (word, rest) = start.split_at(end);
    *line = rest;
    (!word.is_empty()).then_some(word)
}

/// Parses a number.
pub(super) fn number<T: std::str::FromStr>(word: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(word).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| format!("{} is not a number of the type that belongs here", quote(word)))
}

/// Parses a coordinate, which must be finite.
pub(super) fn coordinate(word: &[u8]) -> Result<f32, String> {
    match std::str::from_utf8(word).ok().and_then(|text| text.parse().ok()) {
        Some(x) if f32::is_finite(x) => Ok(x),
        Some(_) => Err(format!("the coordinate {} is not a finite f32", quote(word))),
        None => Err(format!("the coordinate {} is not a number", quote(word))),
    }
}

/// Quotes a part of the file for a message: in backquotes, short, and of printable ASCII.
pub(super) fn quote(part: &[u8]) -> String {
    const MOST: usize = 32;
    match part.split_at_checked(MOST) {
        Some((start, [_, ..])) => format!("`{}...`", start.escape_ascii()),
        _ => format!("`{}`", part.escape_ascii()),
    }
}

/// The starts of files of other formats (in any case), and advice for each.
const FORMATS: [(&[u8], &str); 33] = [
    (b"version https://git-lfs", "a git-LFS pointer: fetch the file with `git lfs pull`"),
    (b"<!doctype html", "a web page: check where the file was downloaded from"),
    (b"<html", "a web page: check where the file was downloaded from"),
    (b"<collada", "COLLADA: convert it"),
    (b"<?xml", "XML (COLLADA, X3D, AMF or another format): convert it"),
    (b"\x1f\x8b", "compressed by gzip: unpack it"),
    (b"pk\x03\x04", "a zip archive (perhaps 3MF): unpack or convert it"),
    (b"bzh", "compressed by bzip2: unpack it"),
    (b"\xfd7zxz\0", "compressed by xz: unpack it"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd: unpack it"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it"),
    (b"rar!", "a RAR archive: unpack it"),
    (b"gltf", "binary glTF: convert it"),
    (b"{", "JSON (perhaps glTF): convert it"),
    (b"kaydara fbx", "FBX: convert it"),
    (b"; fbx", "FBX: convert it"),
    (b"blender", "a Blender file: export it"),
    (b"#vrml", "VRML: convert it"),
    (b"#x3d", "X3D: convert it"),
    (b"iso-10303-21", "STEP: convert it"),
    (b"# vtk datafile", "VTK: convert it"),
    (b"$meshformat", "Gmsh: convert it"),
    (b"off\n", "OFF: convert it"),
    (b"off\r", "OFF: convert it"),
    (b"%pdf", "PDF"),
    (b"\x89png", "a PNG picture"),
    (b"\x7felf", "a program (ELF)"),
    (b"\xff\xfe\0\0", "UTF-32 text: convert it to UTF-8"),
    (b"\0\0\xfe\xff", "UTF-32 text: convert it to UTF-8"),
    (b"ply\n", "PLY: read it as that"),
    (b"ply\r", "PLY: read it as that"),
    (b"solid", "STL: read it as that"),
    (b"v ", "OBJ: read it as that"),
];

/// Returns the known format with which the file starts, and advice.
pub(super) fn known_format(text: &[u8]) -> Option<&'static str> {
    let text = text.trim_ascii_start();
    let starts =
        |start: &[u8]| text.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start));
    FORMATS.iter().find(|(start, _)| starts(start)).map(|(_, name)| *name)
}

/// Returns a description of the file for a message: its format, or its start.
pub(super) fn guess(text: &[u8]) -> String {
    match known_format(text) {
        Some(format) => format!("the file is {format}"),
        None if text.is_empty() => "the file is empty".to_owned(),
        None => format!("the file starts with {}", quote(text)),
    }
}
