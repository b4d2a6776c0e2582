//! The place in a kernel of a fault, of a finding or of a lost tangent.

use std::fmt;

/// The place and the reason of a launch's failure. `Display` writes it in several lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Report {
    /// The kernel's name in the image; `Display` writes its name in C++.
    pub kernel: String,
    /// The function it was in, where that is another.
    pub function: Option<String>,
    /// `blockIdx` and `threadIdx` of the first thread that failed.
    pub block: [u32; 3],
    /// See `block`.
    pub thread: [u32; 3],
    /// The address, if the fault is an access of memory.
    pub address: Option<u64>,
    /// The description, with the nearest allocation of an address.
    pub what: String,
    /// The line of the PTX; 0 when unknown.
    pub ptx_line: u32,
    /// File, line and column of the source, if the PTX has them.
    pub source: Option<(String, u32, u32)>,
}

impl Report {
    /// Returns the line of the source, or of the PTX.
    pub(crate) fn line(&self) -> String {
        match (&self.source, self.ptx_line) {
            (Some((file, line, column)), _) => format!("{file}:{line}:{column}"),
            (None, line) => format!("PTX line {line}"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        writeln!(f, "{}", self.what)?;
        if self.kernel.is_empty() {
            return Ok(());
        }
        // The name is the source's, if the symbol can be decoded.
        let name =
            |symbol: &str| ptx::mangled::function(symbol).unwrap_or_else(|| symbol.to_owned());
        write!(f, "  in kernel {}", name(&self.kernel))?;
        if let Some(function) = &self.function {
            write!(f, ", function {}", name(function))?;
        }
        write!(f, ", block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz})")?;
        match (&self.source, self.ptx_line) {
            (Some((file, line, column)), _) => write!(f, "\n  at {file}:{line}:{column}"),
            (None, 0) => Ok(()),
            (None, line) => write!(f, "\n  at PTX line {line}"),
        }
    }
}
