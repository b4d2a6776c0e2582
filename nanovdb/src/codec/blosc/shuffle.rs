//! Blosc's filters: the bytes, or the bits, of values sorted by significance.
//!
//! Sorted bytes: all first bytes, all second bytes and so on, then the bytes that are not a whole
//! value. Sorted bits: for each byte of a value and each bit of it, from the least on, that bit of
//! all values, eight of them in a byte (K. Masui et al., A compression scheme for radio data in high
//! performance computing, Astronomy and Computing 12, 2015). Only blocks of a multiple of eight
//! values are sorted so: c-blosc leaves others as they are.
//!
//! In all functions `from` and `to` have the same length, and `value` is the size of a value.

/// Sorts the bytes of values of four. Nothing else is written.
pub(super) fn shuffle(from: &[u8], to: &mut [u8]) {
    let (values, rest) = from.as_chunks::<4>();
    let (planes, behind) = to.split_at_mut(from.len() - rest.len());
    behind.copy_from_slice(rest);
    for (k, plane) in planes.chunks_exact_mut(values.len().max(1)).enumerate() {
        for (to, from) in plane.iter_mut().zip(values) {
            *to = (u32::from_le_bytes(*from) >> (8 * k)) as u8;
        }
    }
}

/// Puts sorted bytes back.
pub(super) fn unshuffle(value: usize, from: &[u8], to: &mut [u8]) {
    match value {
        // The case that NanoVDB writes, in one pass.
        4 => unshuffle_4(from, to),
        _ => {
            let count = from.len() / value.max(1);
            let (planes, rest) = from.split_at(count * value);
            let (values, behind) = to.split_at_mut(planes.len());
            behind.copy_from_slice(rest);
            for (k, plane) in planes.chunks_exact(count.max(1)).enumerate() {
                for (to, from) in values.iter_mut().skip(k).step_by(value).zip(plane) {
                    *to = *from;
                }
            }
        }
    }
}

fn unshuffle_4(from: &[u8], to: &mut [u8]) {
    let (values, behind) = to.as_chunks_mut::<4>();
    let (first, rest) = from.split_at(values.len());
    let (second, rest) = rest.split_at(values.len());
    let (third, rest) = rest.split_at(values.len());
    let (fourth, rest) = rest.split_at(values.len());
    behind.copy_from_slice(rest);
    let bytes = first.iter().zip(second).zip(third.iter().zip(fourth));
    for (to, ((first, second), (third, fourth))) in values.iter_mut().zip(bytes) {
        *to = [*first, *second, *third, *fourth];
    }
}

/// Puts sorted bits back.
pub(super) fn bit_unshuffle(value: usize, from: &[u8], to: &mut [u8]) {
    let count = from.len() / value.max(1);
    if !count.is_multiple_of(8) || count == 0 {
        to.copy_from_slice(from);
        return;
    }
    let (planes, rest) = from.split_at(count * value);
    let (values, behind) = to.split_at_mut(planes.len());
    behind.copy_from_slice(rest);
    // Eight planes have the bits of one byte of all values.
    for (byte, planes) in planes.chunks_exact(count).enumerate() {
        for (group, values) in values.chunks_exact_mut(8 * value).enumerate() {
            let mut bits = [0; 8];
            for (to, from) in bits.iter_mut().zip(planes.iter().skip(group).step_by(count / 8)) {
                *to = *from;
            }
            let bytes = transposed(u64::from_le_bytes(bits)).to_le_bytes();
            for (to, from) in values.iter_mut().skip(byte).step_by(value).zip(bytes) {
                *to = from;
            }
        }
    }
}

/// Returns the transpose of 8 x 8 bits: bit 8i + j becomes bit 8j + i. Halves of blocks change places, from
/// small blocks to large ones (H. S. Warren, Hacker's Delight, 2013, section 7-3).
fn transposed(bits: u64) -> u64 {
    let swap = |bits: u64, mask: u64, by: u32| {
        let change = (bits ^ (bits >> by)) & mask;
        bits ^ change ^ (change << by)
    };
    let bits = swap(bits, 0x00aa_00aa_00aa_00aa, 7);
    let bits = swap(bits, 0x0000_cccc_0000_cccc, 14);
    swap(bits, 0x0000_0000_f0f0_f0f0, 28)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_bytes_come_back() {
        let from: Vec<u8> = (0..1031_u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let (mut sorted, mut fast, mut plain) = (vec![0; 1031], vec![0; 1031], vec![0; 1031]);
        for len in [0, 1, 3, 4, 5, 31, 32, 33, 1031] {
            shuffle(&from[..len], &mut sorted[..len]);
            unshuffle(4, &sorted[..len], &mut fast[..len]);
            assert_eq!(fast[..len], from[..len]);
        }
        // Values of any size are sorted by definition.
        for value in [1_usize, 2, 3, 4, 7, 16, 255] {
            let count = from.len() / value;
            for (i, to) in sorted.iter_mut().enumerate() {
                *to = if i < count * value { from[i % count * value + i / count] } else { from[i] };
            }
            unshuffle(value, &sorted, &mut plain);
            assert_eq!(plain, from, "{value}");
        }
    }

    #[test]
    fn sorted_bits_come_back() {
        for (value, count) in [(1_usize, 8_usize), (1, 256), (2, 16), (3, 24), (4, 8), (255, 40)] {
            // A byte that is no whole value is left where there can be one.
            let len = value * count + usize::from(value > 1);
            let from: Vec<u8> = (0..len).map(|i| (i * 37 + i / 256) as u8).collect();
            let mut sorted = vec![0; len];
            sorted[value * count..].copy_from_slice(&from[value * count..]);
            for bit in 0..8 * value * count {
                let (plane, i) = (bit / count, bit % count);
                let of = from[i * value + plane / 8] >> (plane % 8) & 1;
                sorted[bit / 8] |= of << (bit % 8);
            }
            let mut to = vec![0; len];
            bit_unshuffle(value, &sorted, &mut to);
            assert_eq!(to, from, "{count} values of {value}");
        }
        // Seven values stay as they are.
        let mut to = [0; 29];
        let from: [u8; 29] = std::array::from_fn(|i| i as u8);
        bit_unshuffle(4, &from, &mut to);
        assert_eq!(to, from);
    }
}
