//! What can be wrong with a PTX text, and where.

/// A place in a PTX text that could not be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("PTX line {line}, column {column}: {message}")]
pub struct Error {
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 1.
    pub column: usize,
    /// What was expected or met there.
    pub message: String,
}

impl Error {
    /// The error at byte `offset` of `text`. Lines are counted only here, so that reading a correct
    /// text does not pay for them.
    pub(crate) fn at(text: &[u8], offset: usize, message: impl Into<String>) -> Self {
        let before = &text[..offset.min(text.len())];
        let line_start = before
            .iter()
            .rposition(|&b| b == b'\n')
            .map_or(0, |i| i + 1);
        Self {
            line: before.iter().filter(|&&b| b == b'\n').count() + 1,
            column: before.len() - line_start + 1,
            message: message.into(),
        }
    }
}
