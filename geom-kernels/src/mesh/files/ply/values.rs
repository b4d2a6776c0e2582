//! The values after the header of a PLY file, as text or binary.

use super::super::text::{Lines, coordinate, number, quote, split_word};
use super::header::{Encoding, Scalar};

/// A reader of the values of one item after the other.
pub(super) trait Values {
    /// Advances to the next item.
    fn begin(&mut self) -> Result<(), String>;
    /// Returns the item's position, for a message.
    fn place(&self) -> String;
    /// Returns how many bytes of the file are left.
    fn left(&self) -> usize;
    /// Checks that nothing follows the last item, and moves to the end.
    fn finish(&mut self) -> Result<(), String>;
    /// Reads a coordinate, which is finite.
    fn coordinate(&mut self, scalar: Scalar) -> Result<f32, String>;
    /// Reads a whole number that is not negative.
    fn whole(&mut self, scalar: Scalar) -> Result<u32, String>;
    /// Skips numbers that are not used.
    fn skip(&mut self, scalar: Scalar, count: u32) -> Result<(), String>;
}

fn to_whole(x: f64) -> Result<u32, String> {
    let whole = x as u32;
    if f64::from(whole) == x { Ok(whole) } else { Err(format!("{x} is no index and no length")) }
}

fn to_coordinate(x: f64) -> Result<f32, String> {
    let rounded = x as f32;
    if rounded.is_finite() {
        Ok(rounded)
    } else {
        Err(format!("the coordinate {x} is not a finite f32"))
    }
}

/// Each item is a line that is not blank. The rest of a line after its numbers is ignored.
pub(super) struct Text<'a> {
    lines: Lines<'a>,
    line: &'a [u8],
}

impl<'a> Text<'a> {
    pub(super) fn new(bytes: &'a [u8], line: usize) -> Self {
        Self { lines: Lines::new(bytes, line), line: &[] }
    }

    fn next(&mut self) -> Result<&'a [u8], String> {
        split_word(&mut self.line)
            .ok_or_else(|| "the line has fewer numbers than the header says".to_owned())
    }
}

impl Values for Text<'_> {
    fn begin(&mut self) -> Result<(), String> {
        let next = self.lines.find(|(_, line)| !line.trim_ascii().is_empty());
        self.line = next.ok_or("the file is cut off")?.1;
        Ok(())
    }

    fn place(&self) -> String {
        format!("line {}", self.lines.number())
    }

    fn left(&self) -> usize {
        self.lines.rest().len()
    }

    fn finish(&mut self) -> Result<(), String> {
        if self.begin().is_err() {
            return Ok(());
        }
        let rest = Lines::new(self.lines.rest(), 1);
        let more = 1 + rest.filter(|(_, line)| !line.trim_ascii().is_empty()).count();
        Err(format!("{more} more lines, starting with {},", quote(self.line.trim_ascii())))
    }

    fn coordinate(&mut self, scalar: Scalar) -> Result<f32, String> {
        let word = self.next()?;
        // A number that is declared as double is rounded twice, as in a binary file.
        if scalar == Scalar::F64 { to_coordinate(number(word)?) } else { coordinate(word) }
    }

    fn whole(&mut self, _: Scalar) -> Result<u32, String> {
        to_whole(number(self.next()?)?)
    }

    fn skip(&mut self, _: Scalar, count: u32) -> Result<(), String> {
        for _ in 0..count {
            self.next()?;
        }
        Ok(())
    }
}

/// Values without separators.
pub(super) struct Binary<'a> {
    bytes: &'a [u8],
    /// The start of the item, and of the next value.
    start: usize,
    at: usize,
    big: bool,
}

impl<'a> Binary<'a> {
    pub(super) fn new(bytes: &'a [u8], start: usize, encoding: Encoding) -> Self {
        Self { bytes, start, at: start, big: encoding == Encoding::BigEndian }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let left = self.left();
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = rest.get(..count).ok_or_else(|| {
            format!("the file is cut off: {count} bytes belong here, and {left} are left")
        })?;
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        if self.big {
            array.reverse();
        }
        Ok(array)
    }

    fn number(&mut self, scalar: Scalar) -> Result<f64, String> {
        Ok(match scalar {
            Scalar::I8 => i8::from_le_bytes(self.array()?).into(),
            Scalar::U8 => u8::from_le_bytes(self.array()?).into(),
            Scalar::I16 => i16::from_le_bytes(self.array()?).into(),
            Scalar::U16 => u16::from_le_bytes(self.array()?).into(),
            Scalar::I32 => i32::from_le_bytes(self.array()?).into(),
            Scalar::U32 => u32::from_le_bytes(self.array()?).into(),
            Scalar::F32 => f32::from_le_bytes(self.array()?).into(),
            Scalar::F64 => f64::from_le_bytes(self.array()?),
        })
    }
}

impl Values for Binary<'_> {
    fn begin(&mut self) -> Result<(), String> {
        self.start = self.at;
        Ok(())
    }

    fn place(&self) -> String {
        format!("byte {}", self.start)
    }

    fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    fn finish(&mut self) -> Result<(), String> {
        self.start = self.at;
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        // Line ends and padding after the last item are accepted.
        if rest.iter().all(|byte| *byte == 0 || byte.is_ascii_whitespace()) {
            return Ok(());
        }
        Err(format!("{} more bytes", rest.len()))
    }

    fn coordinate(&mut self, scalar: Scalar) -> Result<f32, String> {
        to_coordinate(self.number(scalar)?)
    }

    fn whole(&mut self, scalar: Scalar) -> Result<u32, String> {
        to_whole(self.number(scalar)?)
    }

    fn skip(&mut self, scalar: Scalar, count: u32) -> Result<(), String> {
        self.take((count as usize).saturating_mul(scalar.size())).map(drop)
    }
}
