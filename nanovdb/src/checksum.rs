//! Checksums of grids: a CRC-32 of the head and one of the rest.
//!
//! Up to version 32.6.0 the head goes to the end of the root, and the second CRC is one over the CRCs
//! of all nodes, upper ones first, each CRC in as many bytes as C++ has for `uint_fast32_t`: 8 with
//! glibc, 4 elsewhere and in newer libraries. Newer versions have the first one end before the root, and the
//! second one is over the CRCs of blocks of 4096 bytes, the last of which takes in what is left.
//! A CRC of which all bits are set means none.

use crate::Version;
use crate::bytes::Fields;
use crate::error::Level;
use crate::layout::head;
use crate::tree::Tree;

/// The part of a grid that a checksum covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ChecksumMode {
    /// There is none.
    Disabled,
    /// The head. All versions of all libraries agree on it.
    #[default]
    Head,
    /// Everything.
    Full,
}

const NONE: u32 = u32::MAX;
const HEAD_BEGIN: usize = 16;
const BLOCK: usize = 4096;

pub(crate) fn mode(checksum: u64) -> ChecksumMode {
    match (checksum as u32, (checksum >> 32) as u32) {
        (NONE, NONE) => ChecksumMode::Disabled,
        (_, NONE) => ChecksumMode::Head,
        _ => ChecksumMode::Full,
    }
}

/// Returns the checksum as the grid's version has it.
pub(crate) fn compute(tree: Tree<'_>, mode: ChecksumMode) -> u64 {
    let tail = match mode {
        ChecksumMode::Disabled => return u64::MAX,
        ChecksumMode::Head => NONE,
        ChecksumMode::Full => tail(tree, 8),
    };
    u64::from(tail) << 32 | u64::from(head(tree))
}

pub(crate) fn verify(tree: Tree<'_>, checksum: u64) -> bool {
    let (first, second) = (checksum as u32, (checksum >> 32) as u32);
    match mode(checksum) {
        ChecksumMode::Disabled => true,
        ChecksumMode::Head => head(tree) == first,
        ChecksumMode::Full => {
            let tails = if is_by_nodes(tree) { &[8, 4][..] } else { &[8][..] };
            head(tree) == first && tails.iter().any(|width| tail(tree, *width) == second)
        }
    }
}

fn is_by_nodes(tree: Tree<'_>) -> bool {
    Version::from_code(tree.bytes.u32(head::VERSION)) <= Version::NODE_CHECKSUM
}

fn head(tree: Tree<'_>) -> u32 {
    let end = match is_by_nodes(tree) {
        true => tree.node(Level::Root, tree.shape.count[3]),
        false => head::SIZE,
    };
    crc32(tree.bytes.get(HEAD_BEGIN..end).unwrap_or_default())
}

fn tail(tree: Tree<'_>, width: usize) -> u32 {
    if !is_by_nodes(tree) {
        return crc32_blocks(tree.bytes.get(head::SIZE..).unwrap_or_default());
    }
    if tree.shape.count[3] == 0 {
        return NONE;
    }
    let mut crc = Crc::new();
    for level in [Level::Upper, Level::Lower, Level::Leaf] {
        let size = tree.layout.node_size(level);
        for at in tree.nodes(level) {
            let node = crc32(tree.bytes.get(at..at + size).unwrap_or_default());
            let padded = u64::from(node).to_le_bytes();
            crc.update(padded.get(..width).unwrap_or(&padded));
        }
    }
    crc.finish()
}

fn crc32_blocks(bytes: &[u8]) -> u32 {
    if bytes.is_empty() {
        return NONE;
    }
    let count = bytes.len() / BLOCK;
    let mut crc = Crc::new();
    for n in 0..count {
        let end = if n + 1 == count { bytes.len() } else { (n + 1) * BLOCK };
        let block = bytes.get(n * BLOCK..end).unwrap_or_default();
        crc.update(&crc32(block).to_le_bytes());
    }
    crc.finish()
}

/// Returns the CRC-32 of [ISO 3309](https://www.w3.org/TR/png/#D-CRCAppendix), as in PNG and zip.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.finish()
}

struct Crc(u32);

/// `TABLES[k][b]` is the CRC of byte `b` with `k` zeros behind it, for eight bytes at a time.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ ((crc & 1) * 0xedb8_8320);
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[k - 1][byte];
            tables[k][byte] = (before >> 8) ^ tables[0][(before & 255) as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
}

impl Crc {
    fn new() -> Self {
        Self(u32::MAX)
    }

    fn update(&mut self, bytes: &[u8]) {
        let (eights, rest) = bytes.as_chunks::<8>();
        for eight in eights {
            let word = u64::from_le_bytes(*eight) ^ u64::from(self.0);
            let bytes = word.to_le_bytes();
            self.0 = bytes
                .iter()
                .zip(TABLES.iter().rev())
                .fold(0, |crc, (byte, table)| crc ^ table[usize::from(*byte)]);
        }
        for byte in rest {
            self.0 = (self.0 >> 8) ^ TABLES[0][usize::from(self.0 as u8 ^ byte)];
        }
    }

    fn finish(self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{crc32, crc32_blocks};

    #[test]
    fn crc_is_that_of_png() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"IEND"), 0xae42_6082);
    }

    #[test]
    fn blocks_take_in_what_is_left() {
        let bytes: Vec<u8> = (0..9000u32).map(|i| ((i * 7) >> 3) as u8).collect();
        let first = crc32(&bytes[..4096]).to_le_bytes();
        let second = crc32(&bytes[4096..]).to_le_bytes();
        assert_eq!(crc32_blocks(&bytes), crc32(&[first, second].concat()));
        // Less than a block is in no block.
        assert_eq!(crc32_blocks(&bytes[..4095]), 0);
    }
}
