//! `printf` of kernels: C's formats, with arguments as the compiler lays them out.

use std::ffi::{CString, c_int};

use crate::exec::inst::Inst;
use crate::exec::machine::Machine;

/// A conversion of a format.
#[derive(Debug, PartialEq, Eq)]
struct Conversion {
    /// Flags, as written.
    flags: Vec<u8>,
    width: Size,
    precision: Size,
    /// Bytes of an integer argument: 4 or 8, and to how many it is cut.
    wide: bool,
    kept: u32,
    letter: u8,
}

/// A width or precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    None,
    Given(i32),
    Argument,
}

/// Reads a conversion after its `%`. `None` if it is none: it is printed unchanged.
fn conversion(text: &[u8]) -> Option<(Conversion, usize)> {
    let mut at = 0;
    let flags: Vec<u8> = text.iter().copied().take_while(|b| b"-+ #0".contains(b)).collect();
    at += flags.len();
    let size = |at: &mut usize| {
        if text.get(*at) == Some(&b'*') {
            *at += 1;
            return Size::Argument;
        }
        let start = *at;
        let mut value = 0i32;
        while let Some(digit) = text.get(*at).filter(|b| b.is_ascii_digit()) {
            value = value.saturating_mul(10).saturating_add(i32::from(digit - b'0'));
            *at += 1;
        }
        if *at == start { Size::None } else { Size::Given(value) }
    };
    let width = size(&mut at);
    let mut precision = Size::None;
    if text.get(at) == Some(&b'.') {
        at += 1;
        precision = match size(&mut at) {
            Size::None => Size::Given(0),
            size => size,
        };
    }
    let (mut wide, mut kept) = (false, 32);
    loop {
        match text.get(at)? {
            b'h' => kept = if kept == 16 { 8 } else { 16 },
            b'l' | b'z' | b'j' | b't' | b'q' => (wide, kept) = (true, 64),
            b'L' => {}
            letter @ (b'd' | b'i' | b'u' | b'o' | b'x' | b'X' | b'c' | b's' | b'p' | b'f'
            | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A') => {
                let letter = *letter;
                return Some((Conversion { flags, width, precision, wide, kept, letter }, at + 1));
            }
            _ => return None,
        }
        at += 1;
    }
}

/// The longest field that is written: C's widths are bounded by nothing.
const LONGEST: i32 = 4095;

/// A value for `snprintf`.
enum Value {
    Int(i64),
    Float(f64),
    Char(c_int),
}

/// Writes one value with C's own conversion.
fn c_format(
    spec: &Conversion,
    width: Option<i32>,
    precision: Option<i32>,
    value: &Value,
) -> Vec<u8> {
    let mut format = vec![b'%'];
    format.extend_from_slice(&spec.flags);
    if let Some(width) = width {
        if width < 0 {
            format.push(b'-');
        }
        format.extend_from_slice(width.unsigned_abs().min(LONGEST as u32).to_string().as_bytes());
    }
    if let Some(precision) = precision.filter(|&p| p >= 0) {
        format.extend_from_slice(format!(".{}", precision.min(LONGEST)).as_bytes());
    }
    if matches!(value, Value::Int(_)) {
        format.extend_from_slice(b"ll");
    }
    format.push(spec.letter);
    let Ok(format) = CString::new(format) else { return Vec::new() };
    let mut out = vec![0u8; 8 << 10];
    // SAFETY: the buffer has the length that is given, and the format has one conversion, for a
    // value of exactly the type that is passed.
    let written = unsafe {
        match *value {
            Value::Int(v) => libc::snprintf(out.as_mut_ptr().cast(), out.len(), format.as_ptr(), v),
            Value::Float(v) => {
                libc::snprintf(out.as_mut_ptr().cast(), out.len(), format.as_ptr(), v)
            }
            Value::Char(v) => {
                libc::snprintf(out.as_mut_ptr().cast(), out.len(), format.as_ptr(), v)
            }
        }
    };
    out.truncate(usize::try_from(written).unwrap_or(0).min(8 << 10));
    out
}

/// A text in a field.
fn text_format(
    spec: &Conversion,
    width: Option<i32>,
    precision: Option<i32>,
    mut text: Vec<u8>,
) -> Vec<u8> {
    if let Some(precision) = precision.and_then(|p| usize::try_from(p).ok()) {
        text.truncate(precision);
    }
    let width = width.unwrap_or(0);
    let left = spec.flags.contains(&b'-') || width < 0;
    let missing = (width.unsigned_abs() as usize).min(LONGEST as usize).saturating_sub(text.len());
    if left {
        text.resize(text.len() + missing, b' ');
        text
    } else {
        let mut out = vec![b' '; missing];
        out.extend_from_slice(&text);
        out
    }
}

impl Machine<'_> {
    /// `vprintf(format, arguments)` of one lane: the number of arguments, or -1 without a format;
    /// `None` is a fault.
    pub(super) fn printf(&mut self, i: &Inst, lane: usize, format: u64, args: u64) -> Option<u64> {
        if format == 0 {
            return Some(u64::from(u32::MAX));
        }
        let format = self.read_string(i, lane, format)?;
        let (mut out, mut next, mut count) = (Vec::new(), args, 0u64);
        let mut at = 0;
        while let Some(&byte) = format.get(at) {
            at += 1;
            if byte != b'%' {
                out.push(byte);
                continue;
            }
            if format.get(at) == Some(&b'%') {
                out.push(b'%');
                at += 1;
                continue;
            }
            let Some((spec, used)) = conversion(&format[at..]) else {
                out.push(b'%');
                continue;
            };
            at += used;
            let mut argument = |m: &mut Self, bytes: u64| {
                next = next.next_multiple_of(bytes);
                let value = m.read(i, lane, next, bytes);
                next += bytes;
                count += 1;
                value
            };
            let mut size = |m: &mut Self, size: Size| match size {
                Size::None => Some(None),
                Size::Given(n) => Some(Some(n)),
                Size::Argument => argument(m, 4).map(|n| Some(n as u32 as i32)),
            };
            let width = size(self, spec.width)?;
            let precision = size(self, spec.precision)?;
            let piece = match spec.letter {
                b's' => {
                    let address = argument(self, 8)?;
                    let text = if address == 0 {
                        b"(null)".to_vec()
                    } else {
                        self.read_string(i, lane, address)?
                    };
                    text_format(&spec, width, precision, text)
                }
                b'p' => {
                    let address = argument(self, 8)?;
                    let text =
                        if address == 0 { "(nil)".to_owned() } else { format!("{address:#x}") };
                    text_format(&spec, width, None, text.into_bytes())
                }
                b'c' => {
                    let value = argument(self, 4)?;
                    c_format(&spec, width, None, &Value::Char(value as u8 as c_int))
                }
                b'd' | b'i' => {
                    let bits = argument(self, if spec.wide { 8 } else { 4 })?;
                    let shift = 64 - spec.kept;
                    let value = (bits << shift).cast_signed() >> shift;
                    c_format(&spec, width, precision, &Value::Int(value))
                }
                b'u' | b'o' | b'x' | b'X' => {
                    let bits = argument(self, if spec.wide { 8 } else { 4 })?;
                    let shift = 64 - spec.kept;
                    let value = (bits << shift >> shift).cast_signed();
                    c_format(&spec, width, precision, &Value::Int(value))
                }
                _ => {
                    let value = f64::from_bits(argument(self, 8)?);
                    c_format(&spec, width, precision, &Value::Float(value))
                }
            };
            out.extend_from_slice(&piece);
        }
        (self.job.env.printf)(&out);
        Some(count)
    }
}
