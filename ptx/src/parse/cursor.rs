//! The parser's place in the text: one token ahead, with what every rule needs.

use crate::Error;
use crate::lex::{Kind, Lexer, Token};

pub(super) type Result<T> = std::result::Result<T, Error>;

/// A number as it was written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    /// An integer; `-` has been applied, in two's complement.
    Int(u64),
    /// `0f…` or `0d…` or a decimal fraction.
    Float(f64),
    /// `0f…`: the bits, kept apart because NaNs do not survive a conversion.
    Float32(u32),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    lexer: Lexer<'a>,
    /// The next token.
    token: Token,
    /// Its line.
    line: u32,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self> {
        let mut lexer = Lexer::new(text);
        let token = lexer.next()?;
        let line = lexer.line();
        Ok(Self { lexer, token, line })
    }

    pub(super) fn kind(&self) -> Kind {
        self.token.kind
    }

    /// Bytes of the whole text.
    pub(super) fn len(&self) -> usize {
        self.lexer.text().len()
    }

    /// Line of the next token.
    pub(super) fn line(&self) -> u32 {
        self.line
    }

    /// Returns where the next token begins.
    pub(super) fn offset(&self) -> usize {
        self.token.start
    }

    /// Returns the next token's text.
    pub(super) fn text(&self) -> &'a str {
        &self.lexer.text()[self.token.start..self.token.end]
    }

    pub(super) fn advance(&mut self) -> Result<()> {
        self.token = self.lexer.next()?;
        self.line = self.lexer.line();
        Ok(())
    }

    /// An error at the next token.
    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        self.error_at(self.token.start, message)
    }

    pub(super) fn error_at(&self, offset: usize, message: impl Into<String>) -> Error {
        Error::at(self.lexer.text().as_bytes(), offset, message)
    }

    /// Returns an error that names the current token.
    pub(super) fn expected(&self, what: &str) -> Error {
        if self.token.kind == Kind::End {
            return self.error(format!("expected {what}, found the end of the text"));
        }
        let met: String = self.text().chars().take(40).collect();
        self.error(format!("expected {what}, met `{met}`"))
    }

    pub(super) fn at(&self, punct: u8) -> bool {
        self.token.kind == Kind::Punct(punct)
    }

    /// Passes `punct` if it is next.
    pub(super) fn eat(&mut self, punct: u8) -> Result<bool> {
        let met = self.at(punct);
        if met {
            self.advance()?;
        }
        Ok(met)
    }

    pub(super) fn require(&mut self, punct: u8) -> Result<()> {
        if self.eat(punct)? { Ok(()) } else { Err(self.expected(&format!("`{}`", punct as char))) }
    }

    /// A comma if more follows, `end` if not: whether more follows.
    pub(super) fn comma_or(&mut self, end: u8) -> Result<bool> {
        if self.eat(b',')? {
            return Ok(true);
        }
        self.require(end)?;
        Ok(false)
    }

    pub(super) fn word(&mut self, what: &str) -> Result<&'a str> {
        if self.token.kind != Kind::Word {
            return Err(self.expected(what));
        }
        let word = self.text();
        self.advance()?;
        Ok(word)
    }

    /// Returns the next token, without its dot, if it is a dotted word.
    pub(super) fn peek_dotted(&self) -> Option<&'a str> {
        (self.token.kind == Kind::Dotted).then(|| &self.text()[1..])
    }

    pub(super) fn dotted(&mut self, what: &str) -> Result<&'a str> {
        let Some(word) = self.peek_dotted() else { return Err(self.expected(what)) };
        self.advance()?;
        Ok(word)
    }

    /// Passes `.word` if it is next.
    pub(super) fn eat_dotted(&mut self, word: &str) -> Result<bool> {
        let met = self.peek_dotted() == Some(word);
        if met {
            self.advance()?;
        }
        Ok(met)
    }

    /// Returns the text between the quotes, escapes as they stand.
    pub(super) fn string(&mut self) -> Result<&'a str> {
        if self.token.kind != Kind::String {
            return Err(self.expected("a string"));
        }
        let text = self.text();
        self.advance()?;
        Ok(&text[1..text.len() - 1])
    }

    /// Returns the text from the next token, which must be `{`, to the brace that closes it.
    pub(super) fn raw_block(&mut self) -> Result<&'a str> {
        if !self.at(b'{') {
            return Err(self.expected("`{`"));
        }
        let text = self.lexer.raw_block()?;
        self.advance()?;
        Ok(text)
    }

    /// Returns the text between two offsets of it.
    pub(super) fn slice(&self, from: usize, to: usize) -> &'a str {
        &self.lexer.text()[from..to]
    }

    /// Parses an unsigned number that fits.
    pub(super) fn unsigned<T: TryFrom<u64>>(&mut self, what: &str) -> Result<T> {
        let offset = self.token.start;
        match self.number(what)? {
            Number::Int(n) => {
                T::try_from(n).map_err(|_| self.error_at(offset, format!("{what} is out of range")))
            }
            _ => Err(self.error_at(offset, format!("{what} must be an integer"))),
        }
    }

    /// Parses a number without sign.
    pub(super) fn number(&mut self, what: &str) -> Result<Number> {
        if self.token.kind != Kind::Number {
            return Err(self.expected(what));
        }
        let text = self.text();
        let Some(number) = parse_number(text) else {
            return Err(self.error("not a number, or one too large"));
        };
        self.advance()?;
        Ok(number)
    }

    /// Returns the byte after the next token.
    pub(super) fn byte_after(&self) -> u8 {
        self.lexer.text().as_bytes().get(self.token.end).copied().unwrap_or(0)
    }

    /// Returns whether a word is next that names something: `WARP_SZ` is a number.
    pub(super) fn at_name(&self) -> bool {
        self.token.kind == Kind::Word && self.text() != "WARP_SZ"
    }

    /// Parses a constant expression.
    pub(super) fn constant(&mut self, what: &str) -> Result<Number> {
        super::constant::expression(self, what)
    }
}

fn parse_number(text: &str) -> Option<Number> {
    let bytes = text.as_bytes();
    if let [b'0', b'f' | b'F', digits @ ..] = bytes {
        let bits = u32::from_str_radix(text.get(2..)?, 16).ok()?;
        return (digits.len() == 8).then_some(Number::Float32(bits));
    }
    if let [b'0', b'd' | b'D', digits @ ..] = bytes {
        let bits = u64::from_str_radix(text.get(2..)?, 16).ok()?;
        return (digits.len() == 16).then_some(Number::Float(f64::from_bits(bits)));
    }
    let hex = matches!(bytes, [b'0', b'x' | b'X', ..]);
    if !hex && bytes.iter().any(|b| matches!(b, b'.' | b'e' | b'E')) {
        return text.parse().ok().map(Number::Float);
    }
    let text = text.strip_suffix(['U', 'u']).unwrap_or(text);
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', b'b' | b'B', ..] => (&text[2..], 2),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    u64::from_str_radix(digits, radix).ok().map(Number::Int)
}

#[cfg(test)]
mod tests {
    use super::{Number, parse_number};

    #[test]
    fn numbers_of_every_notation_are_read() {
        assert_eq!(parse_number("0x1FU"), Some(Number::Int(31)));
        assert_eq!(parse_number("017"), Some(Number::Int(15)));
        assert_eq!(parse_number("0b101"), Some(Number::Int(5)));
        assert_eq!(parse_number("18446744073709551615"), Some(Number::Int(u64::MAX)));
        assert_eq!(parse_number("0F3f800000"), Some(Number::Float32(0x3f80_0000)));
        assert_eq!(parse_number("0d3FF0000000000000"), Some(Number::Float(1.0)));
        assert_eq!(parse_number("1.5e-3"), Some(Number::Float(0.0015)));
        for wrong in ["18446744073709551616", "0f3F80", "0xG", "08", "12a"] {
            assert_eq!(parse_number(wrong), None, "{wrong}");
        }
    }
}
