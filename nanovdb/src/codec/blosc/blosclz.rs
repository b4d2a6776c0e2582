//! Decompression of BloscLZ.
//!
//! The format is level 2 of [FastLZ](https://ariya.github.io/FastLZ/), under "Block Format" there:
//! commands of a byte and its operands; the byte's upper three bits are the kind of command.
//!
//! - 0: copy the next bytes of the input, as many as the lower five bits say and one.
//! - else a match: copy bytes of the output. The upper bits and two are how many; if they are 7,
//!   the next bytes add to it, until one is not 255. The lower five bits and the next byte are how
//!   far back, less one; if all are ones, the next two bytes, the high one first, add to it.
//!
//! The upper bits of the first command are the level, and it is a copy.

/// Decompresses `src` to the start of `to`: how many bytes that gives. `None` if `src` is no such
/// data, or there is no room for what it gives.
pub(super) fn decompress(mut src: &[u8], to: &mut [u8]) -> Option<usize> {
    let mut made = 0_usize;
    let mut command = byte(&mut src)? & 31;
    loop {
        let low = usize::from(command & 31);
        match usize::from(command >> 5) {
            0 => {
                let literals = src.split_off(..low + 1)?;
                to.get_mut(made..)?.get_mut(..literals.len())?.copy_from_slice(literals);
                made += literals.len();
            }
            high => {
                let mut len = high + 2;
                if high == 7 {
                    loop {
                        let more = byte(&mut src)?;
                        // No more than 255 times the length of a slice of bytes that exist.
                        len = len.checked_add(usize::from(more))?;
                        if more != 255 {
                            break;
                        }
                    }
                }
                let mut back = (low << 8) + usize::from(byte(&mut src)?);
                if back == 0x1fff {
                    back += usize::from(byte(&mut src)?) << 8;
                    back += usize::from(byte(&mut src)?);
                }
                repeat(to, made, back + 1, len)?;
                made += len;
            }
        }
        match byte(&mut src) {
            Some(next) => command = next,
            None => return Some(made),
        }
    }
}

fn byte(src: &mut &[u8]) -> Option<u8> {
    src.split_off_first().copied()
}

/// Writes `len` bytes from `at` on, each the one `back` before it.
fn repeat(to: &mut [u8], at: usize, back: usize, len: usize) -> Option<()> {
    let from = at.checked_sub(back)?;
    let all = to.get_mut(from..)?.get_mut(..back.checked_add(len)?)?;
    // Each copy doubles the bytes that are there.
    let mut done = back;
    while done < all.len() {
        let (have, want) = all.split_at_mut(done);
        let count = have.len().min(want.len());
        want.get_mut(..count)?.copy_from_slice(have.get(..count)?);
        done += count;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_before_the_start_are_refused() {
        assert_eq!(decompress(&[0, 7, 0x20, 0], &mut [0; 4]), Some(4));
        assert_eq!(decompress(&[0, 7, 0x20, 1], &mut [0; 4]), None);
        assert_eq!(decompress(&[], &mut [0; 4]), None);
    }

    #[test]
    fn matches_reach_as_far_as_they_say() {
        // 300 literals in runs, a match of 3 + 255 + 255 + 9 from 300 back, and one from 65 535 + 8192.
        let mut src = Vec::new();
        let text: Vec<u8> = (0..300_u32).map(|i| ((i * i) >> 3) as u8).collect();
        for run in text.chunks(32) {
            src.push(run.len() as u8 - 1);
            src.extend_from_slice(run);
        }
        src.extend_from_slice(&[7 << 5 | 1, 255, 255, 3, (300 - 1 - 256) as u8]);
        let mut expected: Vec<u8> = text.iter().copied().cycle().take(300 + 2 + 7 + 513).collect();
        // As many as it takes to get so far.
        while expected.len() < 73_727 {
            src.extend_from_slice(&[7 << 5 | 1, 0, (300 - 1 - 256) as u8]);
            let at = expected.len();
            expected.extend((at..at + 9).map(|k| text[k % 300]));
        }
        let far = expected.len() - 73_727;
        src.extend_from_slice(&[1 << 5 | 31, 255, 255, 255]);
        expected.extend_from_within(far..far + 3);
        let mut to = vec![0; expected.len()];
        assert_eq!(decompress(&src, &mut to), Some(expected.len()));
        assert!(to == expected);
        // There is no room for the last byte.
        to.pop();
        assert_eq!(decompress(&src, &mut to), None);
    }
}
