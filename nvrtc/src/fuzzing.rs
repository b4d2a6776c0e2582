//! Functions for fuzzing: the readers of bytes that others may have written, and their writers. Not part of the public
//! interface.

use crate::cache::{Kind, entry};
use crate::library::Facts;
use crate::remembered::Record;
use crate::{Diagnostic, Image};

/// Returns the diagnostics of a compiler's log.
#[must_use]
pub fn diagnostics(log: &str) -> Vec<Diagnostic> {
    crate::diagnostic::parse(log)
}

/// The contents of a file of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// An image.
    Image,
    /// The facts about a compiler.
    Library,
    /// The compiler of a program's image.
    Record,
}

impl EntryKind {
    fn kind(self) -> Kind {
        match self {
            Self::Image => Kind::Image,
            Self::Library => Kind::Library,
            Self::Record => Kind::Record,
        }
    }
}

/// Returns the bytes of a cache's file.
#[must_use]
pub fn write_entry(kind: EntryKind, key: &[u8; 32], payload: &[u8]) -> Vec<u8> {
    entry::encode(kind.kind(), key, payload)
}

/// Returns the payload of a cache's file, if the file is as it was written.
#[must_use]
pub fn read_entry(kind: EntryKind, key: &[u8; 32], file: Vec<u8>) -> Option<Vec<u8>> {
    entry::decode(kind.kind(), key, file)
}

/// Returns the payload of an image.
#[must_use]
pub fn write_image(image: &Image) -> Vec<u8> {
    image.encode()
}

/// Returns the image of a payload.
#[must_use]
pub fn read_image(payload: &[u8]) -> Option<Image> {
    Image::decode(payload)
}

/// Reads the record of an image's compiler, and writes it again.
#[must_use]
pub fn rewrite_record(payload: &[u8]) -> Option<Vec<u8>> {
    Record::decode(payload).and_then(|record| record.encode())
}

/// Reads the facts about a compiler, and writes them again.
#[must_use]
pub fn rewrite_library(payload: &[u8]) -> Option<Vec<u8>> {
    Facts::decode(payload).map(|facts| facts.encode())
}
