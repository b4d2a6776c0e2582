//! The C++ of kernels, assembled from the sources that rustc has linked to them.

use std::collections::BTreeMap;

/// A text of C++: definitions that are written once each, in the order of their needs, and then kernels.
#[derive(Debug, Default)]
pub struct Text {
    definitions: String,
    /// What has been written, by its key, with the C++ name that it got.
    written: BTreeMap<String, String>,
    files: Vec<&'static str>,
    kernel_number: u32,
}

impl Text {
    /// Returns an empty text for the kernel with this number, which faults carry.
    #[must_use]
    pub fn new(kernel_number: u32) -> Self {
        Self { kernel_number, ..Self::default() }
    }

    /// Returns the number of the kernel.
    #[must_use]
    pub fn kernel_number(&self) -> u32 {
        self.kernel_number
    }

    /// Returns the number of a source file, for [`FaultSlot::file`](crate::kernel::FaultSlot::file).
    pub fn file(&mut self, file: &'static str) -> u32 {
        let at = self.files.iter().position(|known| *known == file).unwrap_or_else(|| {
            self.files.push(file);
            self.files.len() - 1
        });
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Returns the source files that checks in the text are in, by their numbers.
    #[must_use]
    pub fn files(&self) -> &[&'static str] {
        &self.files
    }

    /// Returns the whole text: the header of semantics and all that was written.
    #[must_use]
    pub fn finish(&self) -> String {
        [crate::HEADER, self.definitions.as_str()].concat()
    }
}
