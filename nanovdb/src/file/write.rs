//! Writing files.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::bytes::Fields;
use crate::check::{MAGIC_FILE, MAGIC_GRID, MAGIC_OLD};
use crate::codec::{Codec, compress};
use crate::error::{Result, input};
use crate::file::info::describe;
use crate::file::mode_or;
use crate::grid::Grid;
use crate::layout::head;
use crate::{ChecksumMode, Version};

/// The version of the format of grids in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// Keeps each grid's version: its bytes are written unchanged. Grids that this crate has built are
    /// [`Compatible`](Self::Compatible) if possible.
    #[default]
    Keep,
    /// 32.3.3, `NanoVDB0`: libraries of all versions of ABI 32 read it (NanoVDB of OpenVDB 9 to 13, and
    /// what is built on it). It does not have indices and `u8`.
    Compatible,
    /// 32.8.0, `NanoVDB2` with grids of `NanoVDB1`: libraries before 32.6 refuse it.
    Current,
}

/// Options for writing files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteOptions {
    codec: Codec,
    format: Format,
    checksum: Option<ChecksumMode>,
}

impl WriteOptions {
    /// Sets how grids are compressed: not at all by default. Many readers are built without codecs.
    #[must_use]
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// Sets the version of the format.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Computes checksums; otherwise grids keep the kind that they have.
    ///
    /// Grids built by this crate have a checksum of their head only. For [`Compatible`](Format::Compatible) grids that
    /// is the only kind on which libraries agree: libraries since 32.6 compute another checksum of nodes than earlier
    /// ones on Linux, and this crate writes the earlier one.
    #[must_use]
    pub fn checksum(mut self, mode: ChecksumMode) -> Self {
        self.checksum = Some(mode);
        self
    }
}

/// Returns a file of grids. Reading it gives the same grids, bytes for bytes, but for the head where the
/// options ask for something else, or where a grid was one of several in a buffer: in a file each is on its
/// own.
///
/// # Errors
/// No grids; types that the format does not have; a codec that is not built in.
pub fn write(grids: &[Grid], options: &WriteOptions) -> Result<Vec<u8>> {
    if grids.is_empty() {
        return Err(input("file-grid-count", "a file needs a grid"));
    }
    let mut file = Vec::new();
    for grids in grids.chunks(usize::from(u16::MAX)) {
        segment(grids, options, &mut file)?;
    }
    Ok(file)
}

/// Writes a file of grids. It is there as a whole or not at all: it is written beside and renamed.
///
/// The file beside it is always a new one: in a folder that others may write to, a link of theirs is not followed.
///
/// # Errors
/// As [`write()`], and [`Error::Io`](crate::Error::Io).
pub fn write_file(path: impl AsRef<Path>, grids: &[Grid], options: &WriteOptions) -> Result<()> {
    let path = path.as_ref();
    let data = write(grids, options)?;
    let (mut file, part) = beside(path)?;
    let written = file.write_all(&data).and_then(|()| std::fs::rename(&part, path));
    if written.is_err() {
        // Remove the incomplete file; a failure to do so is not the error to report.
        let _ = std::fs::remove_file(&part);
    }
    Ok(written?)
}

/// Makes a new file beside one, named after it.
fn beside(path: &Path) -> std::io::Result<(File, PathBuf)> {
    const ATTEMPTS: u32 = 1000;
    let mut attempt = 0;
    loop {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}-{attempt}.part", std::process::id()));
        let part = path.with_file_name(name);
        match OpenOptions::new().write(true).create_new(true).open(&part) {
            Ok(file) => return Ok((file, part)),
            // A file of another thread, a leftover of an earlier process with this number, or an attack.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < ATTEMPTS => {
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

fn segment(grids: &[Grid], options: &WriteOptions, file: &mut Vec<u8>) -> Result<()> {
    let converted = grids.iter().map(|grid| convert(grid, options)).collect::<Result<Vec<_>>>()?;
    let grids = || grids.iter().zip(&converted).map(|(grid, new)| new.as_ref().unwrap_or(grid));
    let old = grids().all(|grid| grid.bytes().u64(head::MAGIC) == MAGIC_OLD);
    let magic = if old { MAGIC_OLD } else { MAGIC_FILE };
    let version = grids().map(Grid::version).max().unwrap_or(Version::COMPATIBLE);
    let count = u16::try_from(converted.len()).unwrap_or(u16::MAX);

    file.extend_from_slice(&magic.to_le_bytes());
    file.extend_from_slice(&version.code().to_le_bytes());
    file.extend_from_slice(&count.to_le_bytes());
    file.extend_from_slice(&options.codec.code().to_le_bytes());
    if options.codec == Codec::None {
        for grid in grids() {
            file.extend(describe(grid, grid.bytes().len(), version, Codec::None));
        }
        for grid in grids() {
            file.extend_from_slice(grid.bytes());
        }
        return Ok(());
    }
    let mut payloads = Vec::new();
    for grid in grids() {
        let payload = compress(options.codec, grid.bytes())?;
        file.extend(describe(grid, payload.len(), version, options.codec));
        payloads.push(payload);
    }
    payloads.iter().for_each(|payload| file.extend_from_slice(payload));
    Ok(())
}

/// Returns the grid in the file's form, `None` if it has that form already.
fn convert(grid: &Grid, options: &WriteOptions) -> Result<Option<Grid>> {
    let bytes = grid.bytes();
    let (magic, version) = match options.format {
        Format::Keep => (bytes.u64(head::MAGIC), grid.version()),
        Format::Compatible if grid.value_type().is_in_version_3() => {
            (MAGIC_OLD, Version::COMPATIBLE)
        }
        Format::Compatible => {
            let what = format!("values of type {} need Format::Current", grid.value_type());
            return Err(input("format", what));
        }
        Format::Current => (MAGIC_GRID, Version::CURRENT),
    };
    let alone = bytes.u32(head::GRID_INDEX) == 0 && bytes.u32(head::GRID_COUNT) == 1;
    let same = magic == bytes.u64(head::MAGIC) && version == grid.version();
    if alone && same && options.checksum.is_none() {
        return Ok(None);
    }
    grid.with_head(magic, version, mode_or(options.checksum, grid)).map(Some)
}
