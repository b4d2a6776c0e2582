//! Writes fat binaries as NVIDIA's `fatbinary` does.

/// Fat binaries of CUDA 13.0 with LTO-IR: `nvcc -rdc=true -arch=sm_90 -dlto -fatbin` of a file with the function
/// `weight`, and `-gencode arch=compute_80,code=lto_80` of one with a kernel that calls it, also without compression. The
/// texts are those of nvrtc's tests of the linker.
pub const LTO: [&[u8]; 3] = [
    include_bytes!("../data/weight_sm_90_dlto.fatbin"),
    include_bytes!("../data/apply_lto_80.fatbin"),
    include_bytes!("../data/apply_lto_80_plain.fatbin"),
];

/// An entry, before it is written.
#[derive(Debug, Clone)]
pub struct Entry {
    /// 1 is PTX, 2 machine code, 8 LTO-IR.
    pub kind: u16,
    pub sm: u32,
    /// `"a"`, `"f"` or nothing.
    pub suffix: &'static str,
    pub packing: Packing,
    pub contents: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    Plain,
    Lz4,
    Zstd,
}

impl Entry {
    pub fn ptx(sm: u32, text: &str, packing: Packing) -> Self {
        Self { kind: 1, sm, suffix: "", packing, contents: text.as_bytes().to_vec() }
    }

    fn write(&self, file: &mut Vec<u8>) {
        let (flag, mut stored) = match self.packing {
            Packing::Plain => (0, self.contents.clone()),
            Packing::Lz4 => (0x2000, lz4_flex::block::compress(&self.contents)),
            Packing::Zstd => {
                use ruzstd::encoding::{CompressionLevel, compress_to_vec};
                (0x8000, compress_to_vec(&self.contents[..], CompressionLevel::Fastest))
            }
        };
        let specific = match self.suffix {
            "a" => 0x10_0000,
            "f" => 0x20_0000,
            _ => 0,
        };
        let (packed, unpacked) = match self.packing {
            Packing::Plain => (0, 0),
            _ => (stored.len() as u32, self.contents.len() as u64),
        };
        stored.resize(stored.len().next_multiple_of(8), 0);
        let flags: u64 = 0x11 | flag | specific;
        file.extend(self.kind.to_le_bytes());
        file.extend(0x0101_u16.to_le_bytes());
        // The header of PTX is followed by ptxas's options, of which there are none. nvJitLink reads them without a check.
        let options: &[u64] = if self.kind == 1 { &[0x48, 0] } else { &[] };
        let header = 64 + 8 * options.len() as u32;
        file.extend(header.to_le_bytes());
        file.extend((stored.len() as u64).to_le_bytes());
        file.extend(packed.to_le_bytes());
        file.extend(if options.is_empty() { 0_u32 } else { 64 }.to_le_bytes());
        file.extend(0x0008_0000_u32.to_le_bytes());
        file.extend(self.sm.to_le_bytes());
        file.extend(0_u64.to_le_bytes());
        file.extend(flags.to_le_bytes());
        file.extend(0_u64.to_le_bytes());
        file.extend(unpacked.to_le_bytes());
        file.extend(options.iter().flat_map(|word| word.to_le_bytes()));
        file.extend(stored);
    }
}

/// Writes a fat binary.
pub fn write(entries: &[Entry]) -> Vec<u8> {
    let mut contents = Vec::new();
    for entry in entries {
        entry.write(&mut contents);
    }
    let mut file = b"\x50\xed\x55\xba\x01\x00\x10\x00".to_vec();
    file.extend((contents.len() as u64).to_le_bytes());
    file.extend(contents);
    file
}
