//! Words, numbers and punctuation of a PTX text, one at a time.

use crate::Error;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An identifier or opcode, without dots: `ld`, `%r1`, `_`.
    Word,
    /// A dot and a word: `.global`, `.L2::128B`, `.m16n8k16`.
    Dotted,
    /// Begins with a digit.
    Number,
    /// A string in quotes.
    String,
    /// One byte of punctuation.
    Punct(u8),
    /// The end of the text.
    End,
}

/// A token: bytes `start..end` of the text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Reads tokens from a text. Cheap to copy, so that a place can be returned to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// Line of `at`, from 1.
    line: u32,
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

/// Whether each byte can continue a word.
static WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0u8;
    while byte < 128 {
        table[byte as usize] = is_word(byte);
        byte += 1;
    }
    table
};

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0, line: 1 }
    }

    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the line of the token read last, or after it.
    pub(crate) fn line(&self) -> u32 {
        self.line
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    fn error(&self, at: usize, message: &str) -> Error {
        Error::at(self.text.as_bytes(), at, message)
    }

    fn word_end(&self, mut at: usize) -> usize {
        let bytes = self.text.as_bytes();
        while at < bytes.len() && WORD[bytes[at] as usize] {
            at += 1;
        }
        at
    }

    /// Passes blanks and comments.
    fn skip(&mut self) -> Result<(), Error> {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b'\n' => {
                    self.line = self.line.saturating_add(1);
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' | b'\x0b' | b'\x0c' => self.at += 1,
                b'/' if self.byte(self.at + 1) == b'/' => {
                    while self.at < bytes.len() && bytes[self.at] != b'\n' {
                        self.at += 1;
                    }
                }
                b'/' if self.byte(self.at + 1) == b'*' => {
                    let start = self.at;
                    self.at += 2;
                    loop {
                        match bytes.get(self.at) {
                            None => return Err(self.error(start, "comment without its end `*/`")),
                            Some(b'*') if self.byte(self.at + 1) == b'/' => break,
                            Some(b'\n') => self.line = self.line.saturating_add(1),
                            Some(_) => {}
                        }
                        self.at += 1;
                    }
                    self.at += 2;
                }
                b'#' if self.is_line_marker() => {
                    while self.at < bytes.len() && bytes[self.at] != b'\n' {
                        self.at += 1;
                    }
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Returns whether the `#` here begins a line of the C preprocessor's output: `# 5 "x.cu"`, `#line 5`. Other
    /// directives are for the preprocessor, which has to run first.
    fn is_line_marker(&self) -> bool {
        let (before, rest) = self.text.split_at(self.at);
        let before = before.trim_end_matches([' ', '\t']);
        let rest = rest[1..].trim_start_matches([' ', '\t']);
        (before.is_empty() || before.ends_with('\n'))
            && (rest.starts_with("line ") || rest.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Returns the next token.
    pub(crate) fn next(&mut self) -> Result<Token, Error> {
        self.skip()?;
        let start = self.at;
        let token = |kind, end| Token { kind, start, end };
        let Some(&first) = self.text.as_bytes().get(start) else {
            return Ok(token(Kind::End, start));
        };
        let found = match first {
            b'0'..=b'9' => token(Kind::Number, self.number_end(start)),
            // A `%` without a word is the remainder of a constant expression.
            b'%' if WORD[self.byte(start + 1) as usize] => {
                token(Kind::Word, self.word_end(start + 1))
            }
            _ if WORD[first as usize] => token(Kind::Word, self.word_end(start)),
            b'.' if self.fraction_end(start).is_some() => {
                token(Kind::Number, self.fraction_end(start).unwrap_or(start))
            }
            b'.' if WORD[self.byte(start + 1) as usize] => {
                let mut end = self.word_end(start + 1);
                while self.byte(end) == b':'
                    && self.byte(end + 1) == b':'
                    && WORD[self.byte(end + 2) as usize]
                {
                    end = self.word_end(end + 2);
                }
                token(Kind::Dotted, end)
            }
            b'"' => token(Kind::String, self.string_end(start)?),
            _ if first.is_ascii_graphic() => token(Kind::Punct(first), start + 1),
            _ => return Err(self.error(start, "a byte that PTX does not use")),
        };
        self.at = found.end;
        Ok(found)
    }

    /// Digits, letters (`0x`, `0f`, `U`) and for a decimal fraction its dot and exponent's sign.
    fn number_end(&self, start: usize) -> usize {
        let mut end = self.word_end(start);
        let prefixed = self.byte(start) == b'0'
            && matches!(self.byte(start + 1), b'x' | b'X' | b'f' | b'F' | b'd' | b'D');
        if prefixed {
            return end;
        }
        // `5.` is a number, too, but `4.b8` is not one number.
        let next = self.byte(end + 1);
        if self.byte(end) == b'.' && (next.is_ascii_digit() || !WORD[next as usize]) {
            end = self.word_end(end + 1);
        }
        self.exponent_end(end)
    }

    /// Returns the end of `.5` or `.5e-3`, which no directive or modifier looks like.
    fn fraction_end(&self, start: usize) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let digits = bytes[start + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
        let mut end = start + 1 + digits;
        if matches!(self.byte(end), b'e' | b'E') {
            end = self.exponent_end(self.word_end(end));
        }
        (digits > 0 && end == self.word_end(end)).then_some(end)
    }

    /// Passes the sign and digits of an exponent whose `e` ends at `end`.
    fn exponent_end(&self, end: usize) -> usize {
        let is_signed = matches!(self.byte(end - 1), b'e' | b'E')
            && matches!(self.byte(end), b'+' | b'-')
            && self.byte(end + 1).is_ascii_digit();
        if is_signed { self.word_end(end + 1) } else { end }
    }

    fn string_end(&mut self, start: usize) -> Result<usize, Error> {
        let bytes = self.text.as_bytes();
        let mut at = start + 1;
        loop {
            match bytes.get(at) {
                None | Some(b'\n') => return Err(self.error(start, "string without its end")),
                Some(b'"') => return Ok(at + 1),
                Some(b'\\') if bytes.get(at + 1).is_some_and(|&b| b != b'\n') => at += 2,
                Some(_) => at += 1,
            }
        }
    }

    /// Returns the text up to the brace that closes an opening brace just read, which is passed too.
    pub(crate) fn raw_block(&mut self) -> Result<&'a str, Error> {
        let start = self.at;
        let mut depth = 0usize;
        loop {
            let token = self.next()?;
            match token.kind {
                Kind::Punct(b'{') => depth += 1,
                Kind::Punct(b'}') if depth == 0 => return Ok(&self.text[start..token.start]),
                Kind::Punct(b'}') => depth -= 1,
                Kind::End => return Err(self.error(start, "`{` without its `}`")),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Lexer};

    fn words(text: &str) -> Vec<(Kind, &str)> {
        let mut lexer = Lexer::new(text);
        let mut found = Vec::new();
        loop {
            let token = lexer.next().unwrap();
            if token.kind == Kind::End {
                return found;
            }
            found.push((token.kind, &text[token.start..token.end]));
        }
    }

    #[test]
    fn opcodes_numbers_and_registers_are_told_apart() {
        assert_eq!(
            words("ld.L2::128B %v.x, [a+-4], 0f3F800000 1.5e-3 0x1FU // no"),
            [
                (Kind::Word, "ld"),
                (Kind::Dotted, ".L2::128B"),
                (Kind::Word, "%v"),
                (Kind::Dotted, ".x"),
                (Kind::Punct(b','), ","),
                (Kind::Punct(b'['), "["),
                (Kind::Word, "a"),
                (Kind::Punct(b'+'), "+"),
                (Kind::Punct(b'-'), "-"),
                (Kind::Number, "4"),
                (Kind::Punct(b']'), "]"),
                (Kind::Punct(b','), ","),
                (Kind::Number, "0f3F800000"),
                (Kind::Number, "1.5e-3"),
                (Kind::Number, "0x1FU"),
            ]
        );
    }

    #[test]
    fn fractions_remainders_and_line_markers() {
        let kinds = |text: &str| words(text).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>();
        for number in ["5.", ".5", ".5e-3", "1.5e+3"] {
            assert_eq!(words(number), [(Kind::Number, number)]);
        }
        assert_eq!(kinds("4.b8 .1d"), [Kind::Number, Kind::Dotted, Kind::Dotted]);
        assert_eq!(
            words("7 % 3 %3")[1..],
            [(Kind::Punct(b'%'), "%"), (Kind::Number, "3"), (Kind::Word, "%3")]
        );
        assert_eq!(words("a\n  # 5 \"x.cu\"\n#line 6\nb"), [(Kind::Word, "a"), (Kind::Word, "b")]);
        assert_eq!(words("#include").len(), 2);
        assert_eq!(words("a # 5").len(), 3);
    }

    #[test]
    fn unended_things_are_errors() {
        for text in ["/* x", "\"abc", "\"abc\n\"", "\u{e9}"] {
            let mut lexer = Lexer::new(text);
            assert!(lexer.next().is_err(), "{text:?}");
        }
    }
}
