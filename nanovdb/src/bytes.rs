//! Reading and writing fields of byte slices, little-endian, without a way to panic, and memory
//! for grids.

use bytemuck::{Pod, Zeroable};

use crate::error::{Error, Result};

/// The alignment of grids, in bytes.
pub const ALIGNMENT: usize = 32;

/// Fields of bytes, by their offsets. Reads outside return 0 and writes outside do nothing: offsets are checked before,
/// and a gap in a check leads to a wrong number at worst.
pub(crate) trait Fields {
    fn array<const N: usize>(&self, at: usize) -> [u8; N];

    fn u8(&self, at: usize) -> u8 {
        u8::from_le_bytes(self.array(at))
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    fn i32(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.array(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    fn i64(&self, at: usize) -> i64 {
        i64::from_le_bytes(self.array(at))
    }

    fn f32(&self, at: usize) -> f32 {
        f32::from_le_bytes(self.array(at))
    }

    fn f64(&self, at: usize) -> f64 {
        f64::from_le_bytes(self.array(at))
    }

    /// Three integers one behind the other.
    fn coord(&self, at: usize) -> [i32; 3] {
        [0, 4, 8].map(|i| self.i32(at.saturating_add(i)))
    }

    /// Three floats one behind the other.
    fn vector(&self, at: usize) -> [f64; 3] {
        [0, 8, 16].map(|i| self.f64(at.saturating_add(i)))
    }

    /// Bit `n` of a mask that begins at `at`.
    fn bit(&self, at: usize, n: usize) -> bool {
        self.u8(at.saturating_add(n / 8)) >> (n % 8) & 1 != 0
    }
}

impl Fields for [u8] {
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        self.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }
}

/// Writing fields.
pub(crate) trait FieldsMut: Fields {
    fn put(&mut self, at: usize, bytes: &[u8]);

    fn put_u32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    fn put_u64(&mut self, at: usize, value: u64) {
        self.put(at, &value.to_le_bytes());
    }

    fn put_f64(&mut self, at: usize, value: f64) {
        self.put(at, &value.to_le_bytes());
    }

    fn put_coord(&mut self, at: usize, value: [i32; 3]) {
        self.put(at, bytemuck::bytes_of(&value));
    }

    fn put_vector(&mut self, at: usize, value: [f64; 3]) {
        self.put(at, bytemuck::bytes_of(&value));
    }

    fn set_bit(&mut self, at: usize, n: usize) {
        let at = at.saturating_add(n / 8);
        let byte = self.u8(at) | 1 << (n % 8);
        self.put(at, &[byte]);
    }
}

impl FieldsMut for [u8] {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let place = at.checked_add(bytes.len()).and_then(|end| self.get_mut(at..end));
        if let Some(place) = place {
            place.copy_from_slice(bytes);
        }
    }
}

/// Returns the set bits of a mask of `bits` bits at `at`, ascending.
pub(crate) fn set_bits(bytes: &[u8], at: usize, bits: usize) -> impl Iterator<Item = usize> + '_ {
    (0..bits / 64).flat_map(move |word| {
        let mut left = bytes.u64(at.saturating_add(8 * word));
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (bit < 64).then_some(64 * word + bit)
        })
    })
}

/// Returns how many bits of a mask of `bits` bits are set.
pub(crate) fn count_bits(bytes: &[u8], at: usize, bits: usize) -> u64 {
    (0..bits / 64).map(|word| u64::from(bytes.u64(at + 8 * word).count_ones())).sum()
}

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(32))]
struct Block([u8; ALIGNMENT]);

/// Bytes at an address that is a multiple of 32.
#[derive(Debug, Clone)]
pub(crate) struct Aligned {
    blocks: Vec<Block>,
    len: usize,
}

impl Aligned {
    /// `len` zeros. That there is no memory for them is an error.
    pub(crate) fn zeroed(len: usize) -> Result<Self> {
        let mut blocks = Vec::new();
        let count = len.div_ceil(ALIGNMENT);
        blocks.try_reserve_exact(count).map_err(|_| Error::Memory { len: len as u64 })?;
        blocks.resize(count, Block([0; ALIGNMENT]));
        Ok(Self { blocks, len })
    }

    /// Creates a copy of bytes.
    pub(crate) fn copy(bytes: &[u8]) -> Result<Self> {
        let mut copy = Self::zeroed(bytes.len())?;
        copy.as_mut_slice().put(0, bytes);
        Ok(copy)
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        let all: &[u8] = bytemuck::cast_slice(&self.blocks);
        all.get(..self.len).unwrap_or(all)
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.blocks);
        let len = self.len.min(all.len());
        &mut all[..len]
    }
}
