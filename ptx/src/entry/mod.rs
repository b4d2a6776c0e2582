//! The signatures of a PTX text's kernels (`.entry`), found in one pass that skips everything else.

use std::collections::HashMap;
use std::fmt;

use crate::{Error, mangled};

/// A kernel: its name in the image and its parameters in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The name as the driver knows it; mangled for a C++ function without `extern "C"`.
    pub name: String,
    /// The parameters in order.
    pub params: Vec<Param>,
    /// The parameters' types in C++, in order, as far as they are known: from the mangled name, or from a compiler for
    /// a kernel whose name does not state them.
    pub types: Vec<mangled::Type>,
}

impl Signature {
    /// Returns the bytes of all parameters together, up to the end of the last.
    #[must_use]
    pub fn param_bytes(&self) -> usize {
        self.params.last().map_or(0, |p| p.offset + p.size)
    }
}

/// One parameter of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    /// The element type. A structure passed by value is an array of `.b8`.
    pub ty: ParamType,
    /// Bytes.
    pub size: usize,
    /// Alignment in bytes, a power of two.
    pub align: usize,
    /// Where it begins in the parameter block, in bytes: C's natural layout.
    pub offset: usize,
    /// Whether it was declared with `[n]`.
    pub array: bool,
}

impl Param {
    /// Returns the class: integer, float or bytes.
    #[must_use]
    pub fn class(&self) -> Class {
        if self.array {
            return Class::Bytes;
        }
        match self.ty.letter() {
            b'f' => Class::Float,
            b'b' => Class::Bits,
            _ => Class::Int,
        }
    }
}

/// The kind of value that a parameter holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// An integer, a pointer or a handle.
    Int,
    /// A floating-point number.
    Float,
    /// A structure or an array passed by value.
    Bytes,
    /// A scalar declared as bare bits (`.b32`): its size is known, its kind is not.
    Bits,
}

macro_rules! param_types {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $size:literal;)*) => {
        /// A fundamental type of PTX, as in a `.param` declaration.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ParamType {
            $($(#[$doc])* $variant,)*
        }

        impl ParamType {
            /// Its name in PTX, with the dot.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Bytes of one element.
            #[must_use]
            pub fn size(self) -> usize {
                match self { $(Self::$variant => $size,)* }
            }

            fn from_name(name: &[u8]) -> Option<Self> {
                $(if name == $name.as_bytes() { return Some(Self::$variant); })*
                None
            }
        }
    };
}

param_types! {
    /// 8 bits.
    B8 = ".b8", 1;
    /// 16 bits.
    B16 = ".b16", 2;
    /// 32 bits.
    B32 = ".b32", 4;
    /// 64 bits.
    B64 = ".b64", 8;
    /// 128 bits.
    B128 = ".b128", 16;
    /// Unsigned, 8 bits.
    U8 = ".u8", 1;
    /// Unsigned, 16 bits.
    U16 = ".u16", 2;
    /// Unsigned, 32 bits.
    U32 = ".u32", 4;
    /// Unsigned, 64 bits; pointers too.
    U64 = ".u64", 8;
    /// Signed, 8 bits.
    S8 = ".s8", 1;
    /// Signed, 16 bits.
    S16 = ".s16", 2;
    /// Signed, 32 bits.
    S32 = ".s32", 4;
    /// Signed, 64 bits.
    S64 = ".s64", 8;
    /// Half precision.
    F16 = ".f16", 2;
    /// Two halves.
    F16x2 = ".f16x2", 4;
    /// Single precision.
    F32 = ".f32", 4;
    /// Double precision.
    F64 = ".f64", 8;
    /// A texture reference.
    TexRef = ".texref", 8;
    /// A sampler reference.
    SamplerRef = ".samplerref", 8;
    /// A surface reference.
    SurfRef = ".surfref", 8;
}

impl ParamType {
    fn letter(self) -> u8 {
        self.name().as_bytes()[1]
    }
}

impl fmt::Display for ParamType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the kernels of a PTX text, in order. A kernel declared and later defined is listed once.
///
/// Comments and strings are skipped; nothing but the signatures is checked. The time is linear in
/// the text's length, whatever it holds.
///
/// # Errors
/// A signature that cannot be read, or a comment or string without an end.
pub fn entries(text: &str) -> Result<Vec<Signature>, Error> {
    let mut scanner = Scanner { text: text.as_bytes(), at: 0, depth: 0 };
    let mut found: Vec<Signature> = Vec::new();
    let mut index: HashMap<String, usize> = HashMap::new();
    while scanner.next_entry()? {
        let signature = scanner.signature()?;
        match index.get(&signature.name) {
            Some(&known) => found[known] = signature,
            None => {
                index.insert(signature.name.clone(), found.len());
                found.push(signature);
            }
        }
    }
    Ok(found)
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// How many braces are open.
    depth: usize,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%') || byte >= 0x80
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn error(&self, message: impl Into<String>) -> Error {
        Error::at(self.text, self.at, message)
    }

    /// Moves past the next `.entry` outside of functions. Returns false at the text's end.
    fn next_entry(&mut self) -> Result<bool, Error> {
        while let Some(byte) = self.peek() {
            match byte {
                b'/' => {
                    if !self.comment()? {
                        self.at += 1;
                    }
                }
                b'"' => self.string()?,
                b'.' => {
                    if self.directive() == b".entry" && self.depth == 0 {
                        return Ok(true);
                    }
                }
                b'{' => {
                    self.depth += 1;
                    self.at += 1;
                }
                b'}' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
        Ok(false)
    }

    /// Takes a dot and the letters after it. A `%` begins the next word.
    fn directive(&mut self) -> &'a [u8] {
        let start = self.at;
        self.at += 1;
        while self.peek().is_some_and(|byte| is_word(byte) && byte != b'%') {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// Skips a comment if one begins here.
    fn comment(&mut self) -> Result<bool, Error> {
        let rest = &self.text[self.at..];
        if rest.starts_with(b"//") {
            self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
            Ok(true)
        } else if rest.starts_with(b"/*") {
            let end = rest[2..].windows(2).position(|w| w == b"*/");
            let end = end.ok_or_else(|| self.error("this comment has no end"))?;
            self.at += end + 4;
            Ok(true)
        } else {
            Ok(false)
        }
    }

    fn string(&mut self) -> Result<(), Error> {
        let start = self.at;
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'"' => return Ok(()),
                b'\\' => self.at += 1,
                b'\n' => break,
                _ => {}
            }
        }
        Err(Error::at(self.text, start, "this string has no end"))
    }

    fn space(&mut self) -> Result<(), Error> {
        while let Some(byte) = self.peek() {
            if byte.is_ascii_whitespace() {
                self.at += 1;
            } else if byte != b'/' || !self.comment()? {
                break;
            }
        }
        Ok(())
    }

    /// Takes `byte`, with the space before it, if it comes next.
    fn eat(&mut self, byte: u8) -> Result<bool, Error> {
        self.space()?;
        let here = self.peek() == Some(byte);
        self.at += usize::from(here);
        Ok(here)
    }

    fn require(&mut self, byte: u8) -> Result<(), Error> {
        if self.eat(byte)? {
            Ok(())
        } else {
            Err(self.error(format!("expected '{}'", char::from(byte))))
        }
    }

    fn word(&mut self, what: &str) -> Result<&'a [u8], Error> {
        self.space()?;
        let start = self.at;
        while self.peek().is_some_and(is_word) {
            self.at += 1;
        }
        if start == self.at {
            return Err(self.error(format!("expected {what}")));
        }
        Ok(&self.text[start..self.at])
    }

    /// Parses an integer constant: decimal, 0x, 0b or octal, with an optional U.
    fn number(&mut self) -> Result<usize, Error> {
        self.space()?;
        let start = self.at;
        let word = self.word("a number")?;
        let word = word.strip_suffix(b"U").unwrap_or(word);
        let (digits, radix) = match word {
            [b'0', b'x' | b'X', digits @ ..] => (digits, 16),
            [b'0', b'b' | b'B', digits @ ..] => (digits, 2),
            [b'0', digits @ ..] if !digits.is_empty() => (digits, 8),
            digits => (digits, 10),
        };
        std::str::from_utf8(digits)
            .ok()
            .and_then(|d| usize::from_str_radix(d, radix).ok())
            .ok_or_else(|| Error::at(self.text, start, "expected a number"))
    }

    /// Returns the name and the parameters after `.entry`.
    fn signature(&mut self) -> Result<Signature, Error> {
        let name = self.word("the kernel's name")?;
        let name = String::from_utf8_lossy(name).into_owned();
        let mut signature =
            Signature { types: mangled::parameters(&name), name, params: Vec::new() };
        if !self.eat(b'(')? || self.eat(b')')? {
            return Ok(signature);
        }
        let mut end = 0;
        loop {
            let param = self.param(end)?;
            end = param.offset + param.size;
            signature.params.push(param);
            if self.eat(b')')? {
                return Ok(signature);
            }
            self.require(b',')?;
        }
    }

    /// `.param [.align n] .type [.ptr [.space] [.align n]] name [n]…`, where `end` is the end of the
    /// parameter before it.
    fn param(&mut self, end: usize) -> Result<Param, Error> {
        self.space()?;
        if self.peek() != Some(b'.') || self.directive() != b".param" {
            return Err(self.error("expected .param"));
        }
        let start = self.at;
        let (mut ty, mut lanes, mut align, mut pointer) = (None, 1, None, false);
        loop {
            self.space()?;
            if self.peek() != Some(b'.') {
                break;
            }
            let directive_at = self.at;
            match self.directive() {
                // After `.ptr` the alignment is the pointee's.
                b".align" => {
                    let value = self.number()?;
                    if !value.is_power_of_two() {
                        return Err(self.error("an alignment is a power of two"));
                    }
                    if !pointer {
                        align = Some(value);
                    }
                }
                b".ptr" => pointer = true,
                b".v2" => lanes = 2,
                b".v4" => lanes = 4,
                b".const" | b".global" | b".local" | b".shared" if pointer => {}
                name => {
                    let known = ParamType::from_name(name).filter(|_| ty.is_none());
                    ty = Some(known.ok_or_else(|| {
                        let name = String::from_utf8_lossy(name);
                        Error::at(
                            self.text,
                            directive_at,
                            format!("unexpected {name} in a parameter"),
                        )
                    })?);
                }
            }
        }
        let ty = ty.ok_or_else(|| self.error("expected the parameter's type"))?;
        self.word("the parameter's name")?;
        let element = ty.size() * lanes;
        let (mut size, mut array) = (Some(element), false);
        while self.eat(b'[')? {
            array = true;
            let count = self.number()?;
            self.require(b']')?;
            size = size.and_then(|s| s.checked_mul(count));
        }
        let align = align.unwrap_or(element);
        // Kernel parameters end at 32 KiB; a bound far above keeps every later sum from overflowing.
        let limit = u32::MAX as usize;
        size.filter(|&size| size <= limit && align <= limit)
            .and_then(|size| {
                let offset = end.checked_next_multiple_of(align)?;
                offset.checked_add(size).filter(|&end| end <= limit)?;
                Some(Param { ty, size, align, offset, array })
            })
            .ok_or_else(|| Error::at(self.text, start, "this parameter is too large"))
    }
}

#[cfg(test)]
mod tests;
