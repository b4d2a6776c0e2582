//! Changes to grids that know what they change, each of which can be taken back.

use crate::nvdb::layouts::{self, head};
use crate::nvdb::samples::{Active, Field, Group, Kind, Sample};

/// Marsaglia's xorshift: fast, and the same everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len())])
    }
}

/// Bytes that a mutant can have more than its sample.
const SLACK: usize = 4096;

/// A sample, and what was changed in it.
#[derive(Debug)]
pub struct Mutant<'a> {
    pub sample: &'a Sample,
    bytes: Vec<u8>,
    len: usize,
    /// Where something was changed, and what was there.
    undo: Vec<(usize, Vec<u8>)>,
    /// Fields of the head and the tree, of the root and of blind data, and of nodes.
    groups: [Vec<Field>; 3],
}

impl<'a> Mutant<'a> {
    pub fn new(sample: &'a Sample) -> Self {
        let mut bytes = sample.bytes.clone();
        bytes.resize(sample.bytes.len() + SLACK, 0);
        let of = |groups: &[Group]| -> Vec<Field> {
            let fields = sample.fields.iter().filter(|(group, _)| groups.contains(group));
            fields.map(|(_, field)| *field).collect()
        };
        let groups = [
            of(&[Group::Head, Group::Tree]),
            of(&[Group::Root, Group::Blind, Group::Tree]),
            of(&[Group::Node]),
        ];
        Self { sample, bytes, len: sample.bytes.len(), undo: Vec::new(), groups }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Back to the sample.
    pub fn restore(&mut self) {
        self.len = self.sample.bytes.len();
        while let Some((at, bytes)) = self.undo.pop() {
            self.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// Changes something in the head, or with it what lies behind it.
    pub fn mutate_head(&mut self, random: &mut Random) {
        for _ in 0..=random.below(8).saturating_sub(5) {
            self.field(random, usize::from(random.clone().one_in(4)));
        }
        self.sum_again(random);
    }

    /// Changes something anywhere.
    pub fn mutate(&mut self, random: &mut Random) {
        for _ in 0..=random.below(8).saturating_sub(5) {
            match random.below(20) {
                0..=2 => self.field(random, 0),
                3..=6 => self.field(random, 1),
                7..=11 => self.field(random, 2),
                12 if random.one_in(10) => self.shift(random),
                12 => self.bit(random),
                13 => self.length(random),
                14 => self.splice(random),
                15 => self.swap_children(random),
                16 => self.swap_tiles(random),
                17 | 18 => self.activate(random),
                _ => self.adopt(random),
            }
        }
        self.sum_again(random);
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let Some(to) = self.bytes.get_mut(at..at + bytes.len()) else { return };
        self.undo.push((at, to.to_vec()));
        to.copy_from_slice(bytes);
    }

    fn u64(&self, at: usize) -> u64 {
        self.bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
    }

    fn u32(&self, at: usize) -> u32 {
        self.bytes[at..at + 4].try_into().map_or(0, u32::from_le_bytes)
    }

    /// Another value in a field of a group.
    fn field(&mut self, random: &mut Random, group: usize) {
        let Some(field) = random.pick(&self.groups[group]) else { return };
        let at = field.at;
        match field.kind {
            Kind::U32 => {
                let value = self.integer(random, u64::from(self.u32(at)), group);
                self.put(at, &(value as u32).to_le_bytes());
            }
            Kind::U64 => {
                let value = self.integer(random, self.u64(at), group);
                self.put(at, &value.to_le_bytes());
            }
            Kind::Index(count) => {
                // The end of the leaf's indices is about that of all.
                let most = self.u64(head::VALUE_COUNT).wrapping_sub(count);
                let near = most.wrapping_add(2).wrapping_sub(random.below(4) as u64);
                let any = self.integer(random, self.u64(at), group);
                let value = if random.one_in(4) { any } else { near };
                self.put(at, &value.to_le_bytes());
            }
            Kind::F32 => {
                let now = f32::from_bits(self.u32(at));
                let special = [f32::NAN, f32::INFINITY, 0.0, -now, now * 1.5, now + 1e-7];
                let value = random.pick(&special).unwrap_or(now);
                self.put(at, &value.to_le_bytes());
            }
            Kind::F64 => {
                let now = f64::from_bits(self.u64(at));
                let special = [f64::NAN, f64::INFINITY, 0.0, -now, now * 1.5, now + 1e-15];
                let value = random.pick(&special).unwrap_or(now);
                self.put(at, &value.to_le_bytes());
            }
            Kind::Mask => {
                let now = self.u64(at);
                let bit = 1 << random.below(64);
                let special = [0, u64::MAX, !now, now ^ bit, now | bit, now & now.wrapping_sub(1)];
                let value = random.pick(&special).unwrap_or(now);
                self.put(at, &value.to_le_bytes());
            }
            Kind::Bytes(len) => {
                let at = at + random.below(len);
                if random.one_in(8) {
                    self.put(field.at, &vec![0x41; len]);
                } else {
                    self.put(at, &[random.next() as u8]);
                }
            }
        }
    }

    /// An integer that is near another, at an edge, or means something elsewhere.
    fn integer(&self, random: &mut Random, now: u64, group: usize) -> u64 {
        let layout = self.sample.layout;
        let len = self.len as u64;
        let sizes = [32, 8, 1, 4096, 128].map(|size| size as u64);
        let nodes = [layout.leaf_size, layout.lower_size, layout.upper_size, layout.tile_size];
        let by = match random.below(3) {
            0 => random.pick(&sizes).unwrap_or(1),
            1 => random.pick(&nodes).unwrap_or(1) as u64,
            _ => 32 * random.next() % len.max(1),
        };
        match random.below(10) {
            0 | 1 => now.wrapping_add(by),
            2 | 3 => now.wrapping_sub(by),
            4 => random
                .pick(&[0, 1, 2, u64::MAX, 1 << 63, 1 << 31, 1 << 32, 0x7fff_ffff])
                .unwrap_or(0),
            5 => random.pick(&[len, len - 1, len - 32, len + 32, len.wrapping_neg()]).unwrap_or(0),
            6 => random.below(32) as u64,
            7 => random.next(),
            8 => now ^ 1 << random.below(64),
            _ => {
                // The value of another field.
                let other = random.pick(&self.groups[group]).map_or(0, |field| field.at);
                self.u64(other.min(self.len.saturating_sub(8)))
            }
        }
    }

    fn bit(&mut self, random: &mut Random) {
        let at = random.below(self.sample.bytes.len());
        let byte = self.bytes[at] ^ 1 << random.below(8);
        self.put(at, &[byte]);
    }

    /// Shorter or longer, which the head mostly says.
    fn length(&mut self, random: &mut Random) {
        let len = self.sample.bytes.len();
        self.len = match random.below(4) {
            0 => random.below(len + 1),
            1 => len - random.below(64).min(len),
            2 => len + random.below(SLACK),
            _ => len + 32 * random.below(SLACK / 32),
        };
        if !random.one_in(4) {
            let size = self.len as u64;
            self.put(head::GRID_SIZE, &size.to_le_bytes());
        }
    }

    /// All behind the head lies later, as the head says. It may not be aligned there.
    fn shift(&mut self, random: &mut Random) {
        let by = random.pick(&[1, 4, 8, 16, 32, 32, 64]).unwrap_or(32);
        let behind = self.bytes[head::SIZE..self.sample.bytes.len()].to_vec();
        self.len = self.sample.bytes.len() + by;
        self.put(head::SIZE + by, &behind);
        self.put(head::SIZE, &behind[..by]);
        let offsets = (0..4).map(|n| head::TREE + 8 * n);
        for at in offsets.chain([head::GRID_SIZE, head::BLIND_OFFSET]) {
            let offset = self.u64(at);
            if offset != 0 {
                self.put(at, &offset.wrapping_add(by as u64).to_le_bytes());
            }
        }
    }

    /// Bytes from elsewhere.
    fn splice(&mut self, random: &mut Random) {
        let all = self.sample.bytes.len();
        let len = 1 << random.below(8);
        let from = random.below(all - len);
        let to = match random.pick(&self.sample.leaves) {
            Some(leaf) if random.one_in(2) => leaf + random.below(96),
            _ => random.below(all - len),
        };
        let bytes = self.bytes[from..from + len].to_vec();
        self.put(to, &bytes);
    }

    /// Two children change parents.
    fn swap_children(&mut self, random: &mut Random) {
        let children = &self.sample.children;
        let (Some(one), Some(other)) = (random.pick(children), random.pick(children)) else {
            return;
        };
        let (first, second) = (self.u64(one), self.u64(other));
        self.put(one, &second.to_le_bytes());
        if !random.one_in(3) {
            self.put(other, &first.to_le_bytes());
        }
    }

    /// Entries of the root change places, which does no harm, or one is there twice.
    fn swap_tiles(&mut self, random: &mut Random) {
        let tiles = &self.sample.tiles;
        let (Some(one), Some(other)) = (random.pick(tiles), random.pick(tiles)) else { return };
        let size = self.sample.layout.tile_size;
        let [first, second] = [one, other].map(|at| self.bytes[at..at + size].to_vec());
        self.put(one, &second);
        if !random.one_in(3) {
            self.put(other, &first);
        }
    }

    /// A voxel or a tile more or less, which the head mostly says.
    fn activate(&mut self, random: &mut Random) {
        let Some(Active { mask, bits, voxels }) = random.pick(&self.sample.active) else { return };
        let bit = random.below(bits);
        let (at, bit) = (mask + bit / 8, 1 << (bit % 8));
        let byte = self.bytes[at] ^ bit;
        self.put(at, &[byte]);
        if !random.one_in(4) {
            let change = if byte & bit == 0 { voxels.wrapping_neg() } else { voxels };
            let now = self.u64(head::VOXEL_COUNT).wrapping_add(change);
            self.put(head::VOXEL_COUNT, &now.to_le_bytes());
        }
    }

    /// A node gets another, which is somebody's already, or is nothing.
    fn adopt(&mut self, random: &mut Random) {
        let Some(child) = random.pick(&self.sample.children) else { return };
        let by = match random.below(3) {
            0 => self.sample.layout.leaf_size as u64,
            1 => self.sample.layout.lower_size as u64,
            _ => 32 * random.next() % self.len.max(1) as u64,
        };
        let now = self.u64(child);
        let offset = if random.one_in(2) { now.wrapping_add(by) } else { now.wrapping_sub(by) };
        self.put(child, &offset.to_le_bytes());
    }

    /// Most mutants have the checksum that they should have, if they have one.
    fn sum_again(&mut self, random: &mut Random) {
        if self.sample.bytes[head::CHECKSUM..head::CHECKSUM + 8] != [0xff; 8] && !random.one_in(8) {
            let before = self.bytes[head::CHECKSUM..head::CHECKSUM + 8].to_vec();
            self.undo.push((head::CHECKSUM, before));
            sum(&mut self.bytes[..self.len]);
        }
    }
}

/// Puts the checksum of the head where it belongs. Up to version 32.6.0 the root is part of it.
pub fn sum(bytes: &mut [u8]) {
    let word = |at: usize| {
        bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    };
    let mut end = head::SIZE;
    if let Some(layout) = layouts::of(word(head::TYPE))
        && word(head::VERSION) <= 32 << 21 | 6 << 10
    {
        let root = head::TREE + word(head::TREE + 24) as usize;
        let tiles = word(root.saturating_add(24)) as usize;
        end = root + layout.root_size + tiles * layout.tile_size;
    }
    // A mutant's root can be anywhere.
    let Some(part) = bytes.get(16..end.min(16_384)) else { return };
    let crc = crc32(part);
    bytes[head::CHECKSUM..head::CHECKSUM + 4].copy_from_slice(&crc.to_le_bytes());
    bytes[head::CHECKSUM + 4..head::CHECKSUM + 8].copy_from_slice(&[0xff; 4]);
}

/// The CRC-32 of zip and PNG, four bytes at a time.
fn crc32(bytes: &[u8]) -> u32 {
    /// Of a byte with so many zeros behind it.
    const TABLES: [[u32; 256]; 4] = {
        let mut tables = [[0; 256]; 4];
        let mut n = 0;
        while n < 4 * 256 {
            let mut crc = if n < 256 { n as u32 } else { tables[n / 256 - 1][n % 256] };
            let mut bit = 0;
            while bit < 8 {
                crc = (crc >> 1) ^ ((crc & 1) * 0xedb8_8320);
                bit += 1;
            }
            tables[n / 256][n % 256] = crc;
            n += 1;
        }
        tables
    };
    let (words, rest) = bytes.as_chunks::<4>();
    let crc = words.iter().fold(!0, |crc: u32, word| {
        let [a, b, c, d] = (crc ^ u32::from_le_bytes(*word)).to_le_bytes().map(usize::from);
        TABLES[3][a] ^ TABLES[2][b] ^ TABLES[1][c] ^ TABLES[0][d]
    });
    !rest.iter().fold(crc, |crc, byte| (crc >> 8) ^ TABLES[0][usize::from(crc as u8 ^ byte)])
}
