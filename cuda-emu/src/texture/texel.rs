//! Texels: from their bytes to the words of a result, and back.

use crate::arith::{F16, RZ};
use crate::exec::load_bytes;

/// The type of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    U8,
    U16,
    U32,
    S8,
    S16,
    S32,
    F16,
    F32,
}

/// The format of a texel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) channel: Channel,
    /// 1, 2 or 4.
    pub(crate) channels: u32,
}

impl Channel {
    /// Bytes.
    pub(crate) const fn bytes(self) -> u64 {
        match self {
            Self::U8 | Self::S8 => 1,
            Self::U16 | Self::S16 | Self::F16 => 2,
            Self::U32 | Self::S32 | Self::F32 => 4,
        }
    }

    pub(crate) const fn is_integer(self) -> bool {
        !matches!(self, Self::F16 | Self::F32)
    }

    pub(crate) const fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32)
    }
}

impl Format {
    /// Bytes of a texel.
    pub(crate) const fn bytes(self) -> u64 {
        self.channel.bytes() * self.channels as u64
    }

    /// Reads the channels of a texel, sign-extended or zero-extended; halves as they are. The others are zeros.
    ///
    /// # Safety
    /// The address is of a texel in live device memory.
    #[inline]
    pub(crate) unsafe fn read(self, address: u64) -> [u32; 4] {
        let bytes = self.channel.bytes();
        let mut words = [0; 4];
        for (at, word) in (0..u64::from(self.channels)).zip(&mut words) {
            // SAFETY: the caller's promise.
            let bits = unsafe { load_bytes(address + at * bytes, bytes) } as u32;
            *word = match self.channel {
                Channel::S8 => bits as u8 as i8 as u32,
                Channel::S16 => bits as u16 as i16 as u32,
                _ => bits,
            };
        }
        words
    }
}

/// Returns a channel's number: floats as they are, integers of 8 and 16 bits in [0, 1] or [-1, 1].
#[inline]
pub(crate) fn number(channel: Channel, bits: u32) -> f32 {
    match channel {
        Channel::U8 => (bits & 0xff) as f32 / 255.0,
        Channel::U16 => (bits & 0xffff) as f32 / 65_535.0,
        Channel::S8 => (bits as i32 as f32 / 127.0).max(-1.0),
        Channel::S16 => (bits as i32 as f32 / 32_767.0).max(-1.0),
        Channel::F16 => F16::to_f32(bits as u16),
        Channel::F32 | Channel::U32 | Channel::S32 => f32::from_bits(bits),
    }
}

/// Returns a channel as a linear filter adds it up: integers with 16 bits, of which 65,535 or 32,767 are one.
pub(crate) fn widened(channel: Channel, bits: u32) -> i32 {
    match channel {
        Channel::U8 => (bits & 0xff) as i32 * 257,
        Channel::U16 => (bits & 0xffff) as i32,
        Channel::S8 => (bits as i32).max(-127) * 258,
        _ => (bits as i32).max(-32_767),
    }
}

/// Returns the number of a sum of channels that were widened.
pub(crate) fn narrowed(channel: Channel, sum: i32) -> f32 {
    if channel.is_signed() { sum as f32 / 32_767.0 } else { sum as f32 / 65_535.0 }
}

/// Returns a border's channel in the format of the texels, as a GPU keeps it.
pub(crate) fn of_border(channel: Channel, value: f32, integers: bool) -> u32 {
    let bits = value.to_bits();
    let scaled = |most: f32, least: f32| {
        let value = if value.is_nan() { 0.0 } else { value.clamp(least, 1.0) };
        (f64::from(value) * f64::from(most) + 0.5).floor() as i32 as u32
    };
    match channel {
        Channel::U8 if integers => bits & 0xff,
        Channel::U16 if integers => bits & 0xffff,
        Channel::S8 if integers => bits as u8 as i8 as u32,
        Channel::S16 if integers => bits as u16 as i16 as u32,
        Channel::U8 => scaled(255.0, 0.0),
        Channel::U16 => scaled(65_535.0, 0.0),
        Channel::S8 => scaled(127.0, -1.0),
        Channel::S16 => scaled(32_767.0, -1.0),
        Channel::F16 => u32::from(F16::from_f32::<RZ>(value)),
        Channel::U32 | Channel::S32 | Channel::F32 => bits,
    }
}

/// Returns the number of an sRGB value.
pub(crate) fn linear_of_srgb(value: f32) -> f32 {
    let value = f64::from(value);
    let linear = if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) };
    linear as f32
}

/// Returns a number as a formatted store keeps it in a half: cut off, and never infinite.
fn half(value: f32) -> u32 {
    if value.is_nan() {
        // The first bits of the payload stay; one of zeros would be an infinity.
        let bits = value.to_bits();
        return bits >> 16 & 0x8000 | 0x7c00 | (bits >> 13 & 0x3ff).max(1);
    }
    let most = 65_504.0;
    u32::from(F16::from_f32::<RZ>(value.clamp(-most, most)))
}

/// Returns the channel that a formatted store writes for a word of a register.
pub(crate) fn pack(channel: Channel, word: u32) -> u32 {
    let unsigned = |most: u32| word.min(most);
    let signed = |least: i32, most: i32| (word as i32).clamp(least, most) as u32;
    match channel {
        Channel::U8 => unsigned(0xff),
        Channel::U16 => unsigned(0xffff),
        Channel::S8 => signed(-128, 127) & 0xff,
        Channel::S16 => signed(-32_768, 32_767) & 0xffff,
        Channel::F16 => half(f32::from_bits(word)),
        Channel::U32 | Channel::S32 | Channel::F32 => word,
    }
}
