//! Errors before a function is called: no library, or no such function in it.

use core::fmt;
use std::path::{Path, PathBuf};

/// The loaded library does not have the function that was called.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub struct MissingSymbol {
    /// The exported name.
    pub name: &'static str,
    /// The CUDA release that introduced it (12050 is 12.5), where that is known.
    pub needs: Option<i32>,
    /// The release of the loaded library, if it reported one.
    pub driver: Option<i32>,
}

impl std::fmt::Debug for MissingSymbol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for MissingSymbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let library = if self.name.starts_with("nvrtc") {
            "NVRTC"
        } else if self.name.starts_with("nvJitLink") {
            "nvJitLink"
        } else if self.name.starts_with("cublasLt") {
            "cuBLASLt"
        } else if self.name.starts_with("cublas") {
            "cuBLAS"
        } else if self.name.starts_with("cufft") {
            "cuFFT"
        } else if self.name.starts_with("curand") {
            "cuRAND"
        } else {
            "CUDA driver"
        };
        write!(f, "this {library}")?;
        if let Some(driver) = self.driver {
            write!(f, " ({})", Release(driver))?;
        }
        write!(f, " has no {}", self.name)?;
        match self.needs {
            Some(needs) => write!(f, ", which came with CUDA {}", Release(needs)),
            None => Ok(()),
        }
    }
}

/// 12050 as `12.5`.
struct Release(i32);

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

/// A library that was tried and why it did not load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub(crate) name: PathBuf,
    pub(crate) reason: String,
}

impl Attempt {
    /// Returns the name or path as it was given to the system.
    #[must_use]
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Returns what the system said.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// No library could be loaded.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub struct MissingLibrary {
    pub(crate) title: &'static str,
    pub(crate) tried: Vec<Attempt>,
}

impl std::fmt::Debug for MissingLibrary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl MissingLibrary {
    /// Returns everything that was tried, in order.
    #[must_use]
    pub fn tried(&self) -> &[Attempt] {
        &self.tried
    }
}

impl fmt::Display for MissingLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} could not be loaded; tried", self.title)?;
        for (index, attempt) in self.tried.iter().enumerate() {
            let separator = if index == 0 { " " } else { "; " };
            write!(f, "{separator}{}: {}", attempt.name.display(), attempt.reason)?;
        }
        Ok(())
    }
}
