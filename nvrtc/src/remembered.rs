//! Finding a cached image without a compiler: which one compiled a program last.
//!
//! An image's key names the compiler. So beside each image lies a record, under a key of what the program alone says,
//! with the compiler's version and build and the folders of its headers. With them the image's key is made as if the
//! compiler were there: the files that the program includes must still be the same.

use std::path::PathBuf;

use crate::codec::{Hash, Reader, Writer};
use crate::library::Facts;
use crate::{Arch, NvrtcVersion};

/// The contents of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) version: NvrtcVersion,
    pub(crate) build: Hash,
    /// The architecture that the compiler took for the one asked for.
    pub(crate) arch: Arch,
    /// The folders of CUDA's headers around the compiler, as far as the program searches them.
    pub(crate) folders: Vec<PathBuf>,
}

impl Record {
    /// Returns the facts that an image's key needs.
    pub(crate) fn facts(&self) -> Facts {
        Facts { version: self.version, archs: Vec::new(), build: Some(self.build) }
    }

    /// Returns the record's bytes; `None` if a folder's name is not UTF-8.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let mut writer = Writer::default();
        writer.u32(self.version.major);
        writer.u32(self.version.minor);
        writer.bytes(&self.build);
        writer.bytes(self.arch.to_string().as_bytes());
        writer.count(self.folders.len());
        for folder in &self.folders {
            writer.bytes(folder.to_str()?.as_bytes());
        }
        Some(writer.0)
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut reader = Reader(payload);
        let version = NvrtcVersion { major: reader.u32()?, minor: reader.u32()? };
        let build = reader.bytes()?.try_into().ok()?;
        let arch = reader.text()?.parse().ok()?;
        let folders = (0..reader.count()?)
            .map(|_| reader.text().map(PathBuf::from))
            .collect::<Option<_>>()?;
        reader.0.is_empty().then_some(Self { version, build, arch, folders })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_written_and_cut_ones_are_not() {
        let record = Record {
            version: NvrtcVersion { major: 13, minor: 0 },
            build: [7; 32],
            arch: Arch::sm(9, 0).specific(),
            folders: vec!["/usr/include".into(), "é".into()],
        };
        let bytes = record.encode().unwrap_or_default();
        assert_eq!(Record::decode(&bytes), Some(record));
        for length in 0..bytes.len() {
            assert_eq!(Record::decode(&bytes[..length]), None, "{length}");
        }
    }
}
