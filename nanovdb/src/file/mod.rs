//! Files and buffers of grids.
//!
//! A file is made of segments, one behind the other: a header of 16 bytes (magic number, version,
//! number of grids, codec), for each grid 176 bytes that say what it is and its name, then the
//! grids, compressed each on its own. Besides, grids can lie in a file as they lie in memory, one
//! behind the other. Both kinds are distinguished by their first bytes; before version 32.6 these were the same,
//! and where the version is decides.

mod info;
mod write;

use std::path::Path;

use crate::bytes::Fields;
use crate::check::{MAGIC_FILE, MAGIC_GRID, MAGIC_OLD, grid_size};
use crate::codec::{Codec, decompress};
use crate::error::{Error, Flaw, Result};
use crate::grid::Grid;
use crate::layout::head;
use crate::{ChecksumMode, Version};

pub use info::FileInfo;
pub use write::{Format, WriteOptions, write, write_file};

const HEADER_SIZE: usize = 16;
const META_SIZE: usize = 176;

/// Options for reading files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    limit: u64,
    checksum: bool,
}

impl Default for ReadOptions {
    /// Checksums are checked; a file may claim grids of 64 GiB.
    fn default() -> Self {
        Self { limit: 64 << 30, checksum: true }
    }
}

impl ReadOptions {
    /// Sets the most bytes of grids that a file may claim, all of them together, decompressed. Memory is
    /// taken for what there is data for, never for a claim alone; this is against data that decompresses
    /// to a lot.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// Accepts grids with a wrong checksum.
    #[must_use]
    pub fn ignore_checksums(mut self) -> Self {
        self.checksum = false;
        self
    }
}

/// Returns the grids of a file, or of a buffer of grids one behind the other.
///
/// # Errors
/// See [`Grid::from_bytes`]; besides, checks of what is around the grids, whose names begin with `file`,
/// and [`Error::Codec`] and [`Error::Limit`].
pub fn read(data: &[u8]) -> Result<Vec<Grid>> {
    read_with(data, &ReadOptions::default())
}

/// Reads grids as [`read`] does, with options.
///
/// # Errors
/// As [`read`].
pub fn read_with(data: &[u8], options: &ReadOptions) -> Result<Vec<Grid>> {
    let mut grids = Vec::new();
    match kind(data)? {
        Kind::Grids => {
            if data.len() as u64 > options.limit {
                return Err(Error::Limit { claimed: data.len() as u64, limit: options.limit });
            }
            split(data, options, &mut grids)?;
            let counts = [head::GRID_INDEX, head::GRID_COUNT];
            for (n, grid) in grids.iter().enumerate() {
                let [index, count] = counts.map(|at| grid.bytes().u32(at) as usize);
                if index != n || count != grids.len() {
                    let what = format!("grid {index} of {count} is number {n} of {}", grids.len());
                    return Err(Flaw::new("file-grid-count", what).into());
                }
            }
        }
        Kind::Segments => {
            let mut left = options.limit;
            for segment in Segments::new(data) {
                for (info, payload) in segment? {
                    let len = info.size;
                    left = left.checked_sub(len).ok_or_else(|| Error::Limit {
                        claimed: len.saturating_add(options.limit - left),
                        limit: options.limit,
                    })?;
                    // Uncompressed data needs no copy.
                    if info.codec == Codec::None && payload.len() as u64 == len {
                        split(payload, options, &mut grids)?;
                    } else {
                        let bytes = decompress(info.codec, payload, len, len)?;
                        split(&bytes, options, &mut grids)?;
                    }
                }
            }
        }
    }
    Ok(grids)
}

/// Returns the grids of a file. The file is read as a whole.
///
/// # Errors
/// As [`read`], and [`Error::Io`].
pub fn read_file(path: impl AsRef<Path>) -> Result<Vec<Grid>> {
    read_file_with(path, &ReadOptions::default())
}

/// Reads a file as [`read_file`] does, with options.
///
/// # Errors
/// As [`read_file`].
pub fn read_file_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Vec<Grid>> {
    read_with(&std::fs::read(path)?, options)
}

/// Returns the metadata of the grids in a file without reading the grids. For grids as they lie in memory it comes from
/// their heads. The only check is that it is complete.
///
/// # Errors
/// [`Error::Invalid`]: it is no file.
pub fn read_info(data: &[u8]) -> Result<Vec<FileInfo>> {
    let mut infos = Vec::new();
    match kind(data)? {
        Kind::Grids => {
            let mut rest = data;
            while !rest.is_empty() {
                let size = grid_size(rest)?;
                infos.push(FileInfo::of_head(rest));
                rest = rest.get(size..).unwrap_or_default();
            }
        }
        Kind::Segments => {
            for segment in Segments::new(data) {
                infos.extend(segment?.into_iter().map(|(info, _)| info));
            }
        }
    }
    Ok(infos)
}

enum Kind {
    Segments,
    Grids,
}

/// Detects the kind of data. Old files and old grids begin alike: with a version at byte 8 it is a file, with one at
/// byte 16 a grid. A file has a codec behind the version, where a grid has the upper half of its checksum.
fn kind(data: &[u8]) -> Result<Kind> {
    let version = |at: usize| Version::from_code(data.u32(at)).is_supported();
    let what = match data.u64(0) {
        MAGIC_FILE => return Ok(Kind::Segments),
        MAGIC_GRID => return Ok(Kind::Grids),
        MAGIC_OLD if version(8) && data.u16(12) > 0 && Codec::from_code(data.u16(14)).is_ok() => {
            return Ok(Kind::Segments);
        }
        MAGIC_OLD if version(16) => return Ok(Kind::Grids),
        MAGIC_OLD => {
            let version = Version::from_code(data.u32(8));
            let what = format!("version {version}, where 32 is supported");
            return Err(Flaw::new("file-version", what).at(8).into());
        }
        magic if [MAGIC_OLD, MAGIC_GRID, MAGIC_FILE].contains(&magic.swap_bytes()) => {
            "the file is big-endian"
        }
        magic if magic as u32 == u32::from_le_bytes(*b" BDV") => {
            "an OpenVDB file, not a NanoVDB file"
        }
        _ => "no NanoVDB file",
    };
    Err(Flaw::new("file-magic", what).at(0).into())
}

/// Grids one behind the other.
fn split(mut data: &[u8], options: &ReadOptions, grids: &mut Vec<Grid>) -> Result<()> {
    loop {
        let (first, rest) = data.split_at_checked(grid_size(data)?).unwrap_or((data, &[]));
        grids.push(match options.checksum {
            true => Grid::from_bytes(first)?,
            false => Grid::from_bytes_without_checksum(first)?,
        });
        if rest.is_empty() {
            return Ok(());
        }
        data = rest;
    }
}

/// The segments of a file.
struct Segments<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Segments<'a> {
    fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0 }
    }

    /// Returns the next `len` bytes.
    fn take(&mut self, len: u64, what: &str) -> Result<&'a [u8]> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        let bytes = end.and_then(|end| self.data.get(self.at..end));
        let Some(bytes) = bytes else {
            let left = self.data.len().saturating_sub(self.at);
            let what = format!("{what} of {len} bytes, where {left} are left");
            return Err(Flaw::new("file-size", what).at(self.at).into());
        };
        self.at += bytes.len();
        Ok(bytes)
    }

    fn segment(&mut self) -> Result<Vec<(FileInfo, &'a [u8])>> {
        let begin = self.at;
        let header = self.take(HEADER_SIZE as u64, "a header")?;
        if ![MAGIC_OLD, MAGIC_FILE].contains(&header.u64(0)) {
            return Err(Flaw::new("file-magic", "no segment of a NanoVDB file").at(begin).into());
        }
        let version = Version::from_code(header.u32(8));
        if !version.is_supported() {
            let what = format!("version {version}, where 32 is supported");
            return Err(Flaw::new("file-version", what).at(begin + 8).into());
        }
        let count = header.u16(12);
        if count == 0 {
            return Err(Flaw::new("file-grid-count", "a segment without grids")
                .at(begin + 12)
                .into());
        }
        let codec = Codec::from_code(header.u16(14))?;
        let mut infos = Vec::new();
        for _ in 0..count {
            let meta = self.take(META_SIZE as u64, "a grid's description")?;
            let name = self.take(u64::from(FileInfo::name_size(meta)), "a grid's name")?;
            infos.push(FileInfo::of_meta(meta, name, version, codec));
        }
        infos
            .into_iter()
            .map(|info| {
                let payload = self.take(info.stored_size, "a grid")?;
                Ok((info, payload))
            })
            .collect()
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = Result<Vec<(FileInfo, &'a [u8])>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.data.len() {
            return None;
        }
        let segment = self.segment();
        if segment.is_err() {
            self.at = self.data.len();
        }
        Some(segment)
    }
}

/// Kept by a conversion, unless it is asked to be another one.
fn mode_or(mode: Option<ChecksumMode>, grid: &Grid) -> ChecksumMode {
    mode.unwrap_or_else(|| grid.checksum_mode())
}
