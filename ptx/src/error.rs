//! Errors in a PTX text, with their position.

use std::fmt;

/// A place in a PTX text that could not be understood.
///
/// `Display` shows the line with a caret under the place.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 1.
    pub column: usize,
    /// The message, with the text that was expected or found there.
    pub message: String,
    /// The line as it stands in the text; of a very long one the part around the place.
    pub source_line: String,
    /// Where the caret stands: characters of `source_line` before the place.
    caret: usize,
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The bytes of a longer line that are kept on either side of the place.
const KEPT: usize = 100;

impl Error {
    /// Returns the error at byte `offset` of `text`. Lines are counted only here, so that reading a correct text does
    /// not pay for them.
    pub(crate) fn at(text: &[u8], offset: usize, message: impl Into<String>) -> Self {
        let offset = offset.min(text.len());
        let before = &text[..offset];
        let start = before.iter().rposition(|&b| b == b'\n').map_or(0, |i| i + 1);
        let end =
            text[offset..].iter().position(|&b| b == b'\n').map_or(text.len(), |i| offset + i);
        let (from, to) = (start.max(offset.saturating_sub(KEPT)), end.min(offset + KEPT));
        let shown = |bytes: &[u8]| -> String {
            String::from_utf8_lossy(bytes)
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect()
        };
        let (left, right) = (shown(&text[from..offset]), shown(&text[offset..to]));
        Self {
            line: before.iter().filter(|&&b| b == b'\n').count() + 1,
            column: offset - start + 1,
            message: message.into(),
            caret: left.chars().count(),
            source_line: (left + &right).trim_end().to_owned(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, message, source_line, caret } = self;
        write!(f, "PTX line {line}, column {column}: {message}")?;
        if source_line.is_empty() {
            return Ok(());
        }
        let number = line.to_string();
        let gap = number.len();
        write!(f, "\n{number} | {source_line}\n{:gap$} | {:caret$}^", "", "")
    }
}

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn an_error_shows_its_line_with_a_caret() {
        let error = Error::at(b"one\n\tadd.u32 x;\n", 13, "unknown register");
        assert_eq!(
            error.to_string(),
            "PTX line 2, column 10: unknown register\n2 |  add.u32 x;\n  |          ^"
        );
    }

    #[test]
    fn a_very_long_line_is_cut_around_the_place() {
        let text = vec![b'x'; 100_000];
        let error = Error::at(&text, 50_000, "too long");
        assert_eq!(error.column, 50_001);
        assert_eq!(error.source_line.len(), 200);
    }
}
