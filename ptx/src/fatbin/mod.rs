//! Reads fat binaries: PTX and machine code for several architectures in one file, as `nvcc -fatbin` and NVIDIA's
//! `fatbinary` write them.
//!
//! NVIDIA does not document the format. This module reads what `fatbinary` of CUDA 11 to 13 writes: a header of 16
//! bytes, then entries, each with a header. The contents of an entry are plain, or compressed with LZ4 or
//! zstd.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let bytes = std::fs::read("kernels.fatbin")?;
//! let fatbin = ptx::fatbin::Fatbin::parse(&bytes)?;
//! let entry = fatbin.ptx_for(90)?;
//! let text = entry.ptx(64 << 20)?;
//! println!("PTX for compute_{}: {} bytes", entry.arch, text.len());
//! # Ok(())
//! # }
//! ```

mod choose;
mod unpack;

use std::borrow::Cow;

pub use choose::{Arch, NoImage, Specific};

/// The first bytes of a fat binary: the number 0xBA55ED50, little-endian.
pub const MAGIC: [u8; 4] = [0x50, 0xed, 0x55, 0xba];

/// The first bytes of the structure in a program's memory that points to a fat binary (`__fatBinC_Wrapper_t`).
pub const WRAPPER_MAGIC: [u8; 4] = [0xb1, 0x43, 0x62, 0x46];

/// The smallest size of the fat binary's header, and the part of an entry's header that every version has.
const SMALLEST: u64 = 16;

/// Flags of an entry.
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
const ENCODED: u64 = 0x1_0000;
const ARCH_SPECIFIC: u64 = 0x10_0000;
const FAMILY_SPECIFIC: u64 = 0x20_0000;

/// A failure to read a fat binary.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FatbinError {
    /// The bytes do not begin with [`MAGIC`].
    #[error("not a fatbin: it does not begin with 50 ed 55 ba")]
    Magic,
    /// The header is of a version that this crate does not read.
    #[error(
        "a fatbin of version {version} with a header of {header} bytes: known is version 1, whose header has {SMALLEST}"
    )]
    Version {
        /// The version in the header.
        version: u16,
        /// The size in the header.
        header: u16,
    },
    /// A part ends after the end of the bytes.
    #[error("truncated fatbin: {what} reaches to byte {end} of {length}")]
    Truncated {
        /// The part.
        what: String,
        /// Where it ends.
        end: u64,
        /// How many bytes there are.
        length: usize,
    },
    /// A size or a header makes no sense.
    #[error("corrupt fatbin: {0}")]
    Corrupt(String),
    /// The contents of an entry could not be decompressed.
    #[error("entry {entry} of the fatbin: {why}")]
    Contents {
        /// The number of the entry, from 0.
        entry: usize,
        /// The reason.
        why: String,
    },
}

impl std::fmt::Debug for FatbinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// PTX text.
    Ptx,
    /// Machine code: a cubin.
    Cubin,
    /// NVVM IR for link-time optimisation (LTO-IR).
    LtoIr,
    /// Any other number.
    Other(u16),
}

/// The compression of an entry's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// The contents are plain.
    None,
    /// A block of LZ4 without a frame.
    Lz4,
    /// A frame of zstd.
    Zstd,
}

/// An image in a fat binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The position in the fat binary, from 0.
    pub index: usize,
    /// The kind.
    pub kind: Kind,
    /// The architecture and whether the image is specific to it.
    pub arch: Arch,
    /// The compression of [`stored`](Self::stored).
    pub compression: Compression,
    /// The bytes as the file has them, with padding.
    pub stored: &'a [u8],
    header: &'a [u8],
    /// Bytes of `stored` without padding, if it is compressed.
    packed: u64,
    /// Bytes after decompression.
    unpacked: u64,
}

/// A fat binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fatbin<'a> {
    entries: Vec<Entry<'a>>,
}

impl<'a> Fatbin<'a> {
    /// Reads the headers of a fat binary. Nothing is decompressed. Bytes after its end are ignored.
    ///
    /// # Errors
    /// The bytes are no fat binary, or a size in a header reaches over the end of the bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FatbinError> {
        if !bytes.starts_with(&MAGIC) {
            return Err(FatbinError::Magic);
        }
        let header = range(bytes, || "the header".to_owned(), 0, SMALLEST)?;
        let (version, header_size) = (half(header, 4), half(header, 6));
        if version != 1 || u64::from(header_size) < SMALLEST {
            return Err(FatbinError::Version { version, header: header_size });
        }
        let mut at = u64::from(header_size);
        let what = || "its contents".to_owned();
        let contents = range(bytes, what, at, wide(header, 8))?;
        let end = at + contents.len() as u64;
        let bytes = range(bytes, what, 0, end)?;

        let mut entries = Vec::new();
        while at < end {
            let index = entries.len();
            let (entry, next) = Entry::parse(bytes, index, at)?;
            entries.push(entry);
            at = next;
        }
        Ok(Self { entries })
    }

    /// Returns the size of a fat binary by its first 16 bytes, the header included; `None` if they are no header of a
    /// fat binary.
    #[must_use]
    pub fn size(header: &[u8; 16]) -> Option<u64> {
        let known = header.starts_with(&MAGIC) && half(header, 4) == 1;
        if !known || u64::from(half(header, 6)) < SMALLEST {
            return None;
        }
        u64::from(half(header, 6)).checked_add(wide(header, 8))
    }

    /// Returns the images, in the order of the file.
    #[must_use]
    pub fn entries(&self) -> &[Entry<'a>] {
        &self.entries
    }

    /// Returns the LTO-IR that links to code for a device of compute capability `device` (90 for 9.0): the one for the
    /// highest architecture that the device can run, as [`ptx_for`](Self::ptx_for) chooses.
    #[must_use]
    pub fn lto_ir_for(&self, device: u32) -> Option<&Entry<'a>> {
        choose::best(&self.entries, Kind::LtoIr, device)
    }

    /// Returns the PTX for a device of compute capability `device` (90 for 9.0): the one for the highest architecture
    /// that the device can run. PTX that is specific to this device is preferred to PTX of the same number that is not.
    ///
    /// # Errors
    /// No PTX is for this device. The error names the images that there are and the option of nvcc that adds one.
    pub fn ptx_for(&self, device: u32) -> Result<&Entry<'a>, NoImage> {
        choose::ptx_for(&self.entries, device)
    }
}

impl<'a> Entry<'a> {
    /// Reads the entry at byte `at`, and returns where the next one begins.
    fn parse(bytes: &'a [u8], index: usize, at: u64) -> Result<(Self, u64), FatbinError> {
        let what = || format!("the header of entry {index}");
        let header = range(bytes, what, at, SMALLEST)?;
        let size = u64::from(word(header, 4));
        if size < SMALLEST {
            return Err(FatbinError::Corrupt(format!(
                "entry {index} has a header of {size} bytes"
            )));
        }
        let header = range(bytes, what, at, size)?;
        let start = at + size;
        let stored = range(bytes, || format!("entry {index}"), start, wide(header, 8))?;
        let flags = wide(header, 0x28);
        let compression = match (flags & LZ4 != 0, flags & ZSTD != 0) {
            (false, false) => Compression::None,
            (true, false) => Compression::Lz4,
            (false, true) => Compression::Zstd,
            (true, true) => {
                let why = format!("entry {index} is compressed with both LZ4 and zstd");
                return Err(FatbinError::Corrupt(why));
            }
        };
        let kind = match half(header, 0) {
            1 => Kind::Ptx,
            2 => Kind::Cubin,
            8 => Kind::LtoIr,
            other => Kind::Other(other),
        };
        let specific = if flags & ARCH_SPECIFIC != 0 {
            Specific::Architecture
        } else if flags & FAMILY_SPECIFIC != 0 {
            Specific::Family
        } else {
            Specific::No
        };
        let entry = Self {
            index,
            kind,
            arch: Arch { number: word(header, 0x1c), specific },
            compression,
            stored,
            header,
            packed: u64::from(word(header, 0x10)),
            unpacked: wide(header, 0x38),
        };
        Ok((entry, start + stored.len() as u64))
    }

    /// Returns the contents, decompressed.
    ///
    /// The result has at most `most` bytes, and takes memory only as far as there is data for it.
    ///
    /// # Errors
    /// The contents have more than `most` bytes, or the compressed data is corrupt or [encoded](Self::is_encoded).
    pub fn contents(&self, most: usize) -> Result<Cow<'a, [u8]>, FatbinError> {
        let failed = |why| FatbinError::Contents { entry: self.index, why };
        if self.is_encoded() {
            return Err(failed("it is encoded, and only NVIDIA's linkers read it".to_owned()));
        }
        if self.compression == Compression::None {
            return Ok(Cow::Borrowed(self.stored));
        }
        let packed = usize::try_from(self.packed).ok().and_then(|n| self.stored.get(..n));
        let packed = packed.ok_or_else(|| {
            let stored = self.stored.len();
            failed(format!("{} compressed bytes, of which the file has {stored}", self.packed))
        })?;
        let size = usize::try_from(self.unpacked).ok().filter(|&size| size <= most);
        let size = size.ok_or_else(|| {
            failed(format!("{} bytes after decompression, where {most} are allowed", self.unpacked))
        })?;
        let unpacked = match self.compression {
            Compression::Lz4 => unpack::lz4(packed, size),
            _ => unpack::zstd(packed, size),
        };
        unpacked.map(Cow::Owned).map_err(failed)
    }

    /// Returns whether the contents are encoded in a way that NVIDIA does not document, as the compressed LTO-IR of
    /// nvcc is. [`alone`](Self::alone) gives them to a linker.
    #[must_use]
    pub fn is_encoded(&self) -> bool {
        wide(self.header, 0x28) & ENCODED != 0
    }

    /// Returns a fat binary that has only this entry, as it is stored: for NVIDIA's linkers, which read what
    /// [`contents`](Self::contents) does not, but trust the fields of the header.
    ///
    /// # Errors
    /// A field of the header points outside the entry.
    pub fn alone(&self) -> Result<Vec<u8>, FatbinError> {
        let corrupt = |what: &str| {
            FatbinError::Corrupt(format!("{what} of entry {} are not in it", self.index))
        };
        if self.packed > self.stored.len() as u64 {
            return Err(corrupt("the compressed bytes"));
        }
        // The compiler's options are a string in the header, with a NUL after it: its position and length.
        let place = word(self.header, 0x14) as usize;
        if place != 0 {
            let part = |at: usize, length: usize| {
                self.header.get(at..at.checked_add(length)?).filter(|_| at >= 0x40)
            };
            let ends = part(place, 8).is_some_and(|pair| {
                let (at, length) = (word(pair, 0) as usize, word(pair, 4) as usize);
                length == 0 || part(at, length.saturating_add(1)).is_some_and(|o| o.ends_with(&[0]))
            });
            if !ends {
                return Err(corrupt("the options"));
            }
        }
        let size = self.header.len() + self.stored.len();
        let mut bytes = Vec::with_capacity(16 + size);
        bytes.extend(MAGIC);
        bytes.extend([1, 0, 16, 0]);
        bytes.extend((size as u64).to_le_bytes());
        bytes.extend(self.header);
        bytes.extend(self.stored);
        Ok(bytes)
    }

    /// Returns the text of a PTX entry, decompressed and without the NULs at its end. As to `most` see
    /// [`contents`](Self::contents).
    ///
    /// # Errors
    /// The entry is not PTX or not UTF-8; the contents have more than `most` bytes or cannot be decompressed.
    pub fn ptx(&self, most: usize) -> Result<String, FatbinError> {
        let failed = |why: &str| FatbinError::Contents { entry: self.index, why: why.to_owned() };
        if self.kind != Kind::Ptx {
            return Err(failed("not PTX"));
        }
        let bytes = self.contents(most)?;
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let text = bytes.get(..end).map(str::from_utf8);
        match text {
            Some(Ok(text)) => Ok(text.to_owned()),
            _ => Err(failed("PTX that is not UTF-8")),
        }
    }
}

/// Returns `size` bytes from `offset` on, or the error that they are not there.
fn range(
    bytes: &[u8],
    what: impl Fn() -> String,
    offset: u64,
    size: u64,
) -> Result<&[u8], FatbinError> {
    let Some(end) = offset.checked_add(size) else {
        return Err(FatbinError::Corrupt(format!("{} reaches beyond 2^64", what())));
    };
    let range = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
    let found = range.and_then(|(from, to)| bytes.get(from..to));
    found.ok_or_else(|| FatbinError::Truncated { what: what(), end, length: bytes.len() })
}

/// Returns a field of a header; 0 where a short header of an old version lacks it.
fn field<const N: usize>(header: &[u8], at: usize) -> [u8; N] {
    header.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

fn half(header: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(field(header, at))
}

fn word(header: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(field(header, at))
}

fn wide(header: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(field(header, at))
}
