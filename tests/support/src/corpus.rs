//! The corpora of the fuzzers: a folder has a pack, which is one file with many inputs, and files with names of their own.

use std::fs;
use std::io;
use std::path::Path;

/// The pack of a folder: for each input its length, as four bytes that begin with the lowest, and its bytes.
const PACK: &str = "inputs.pack";

/// An input.
#[derive(Debug)]
pub struct Input {
    /// The file's name; of an input in the pack `input-` and its number.
    pub name: String,
    pub is_packed: bool,
    pub data: Vec<u8>,
}

/// Returns the inputs of a folder: those of its pack, then the files by name.
pub fn read(folder: &Path) -> io::Result<Vec<Input>> {
    let (mut packed, mut files) = (Vec::new(), Vec::new());
    let failed =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let data = fs::read(&path)?;
        if name == PACK {
            packed = unpacked(&data)?;
        } else {
            files.push(Input { name, is_packed: false, data });
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    packed.extend(files);
    Ok(packed)
}

fn unpacked(mut pack: &[u8]) -> io::Result<Vec<Input>> {
    let mut inputs = Vec::new();
    while !pack.is_empty() {
        let cut_off = || io::Error::new(io::ErrorKind::UnexpectedEof, "the pack is cut off");
        let (length, rest) = pack.split_first_chunk().ok_or_else(cut_off)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (data, rest) = rest.split_at_checked(length).ok_or_else(cut_off)?;
        let (name, data) = (format!("input-{}", inputs.len()), data.to_vec());
        inputs.push(Input { name, is_packed: true, data });
        pack = rest;
    }
    Ok(inputs)
}

/// Writes the pack of a folder, in place of what it held.
pub fn write_pack(folder: &Path, inputs: &[Vec<u8>]) -> io::Result<()> {
    let mut pack = Vec::new();
    for data in inputs {
        let length = u32::try_from(data.len()).map_err(io::Error::other)?;
        pack.extend_from_slice(&length.to_le_bytes());
        pack.extend_from_slice(data);
    }
    fs::write(folder.join(PACK), pack)
}
