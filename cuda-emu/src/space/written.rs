//! Initcheck: the bytes of device memory that were ever written.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of bytes of memory for a chunk of bits.
const CHUNK: u64 = 1 << 20;
/// Words of a chunk: one bit for each byte.
const WORDS: usize = (CHUNK / 64) as usize;

/// A bit for each byte of a range of addresses. Chunks are made as they are needed, so that only
/// memory that is used costs anything.
#[derive(Debug)]
pub(crate) struct Written {
    base: u64,
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

impl Written {
    /// Makes a map of `base..base + bytes` with nothing written.
    pub(crate) fn new(base: u64, bytes: u64) -> Self {
        let chunks = usize::try_from(bytes.div_ceil(CHUNK)).unwrap_or(0);
        let chunks = std::iter::repeat_with(OnceLock::new).take(chunks).collect();
        Self { base, chunks }
    }

    /// Returns the words that hold the bits of `bytes` bytes from `start` on, each with its bits and the
    /// address of its first byte. Bytes outside of the range have no bits.
    fn words(&self, start: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
        let size = self.chunks.len() as u64 * CHUNK;
        let first = start.saturating_sub(self.base).min(size);
        let past = start.saturating_add(bytes).saturating_sub(self.base).min(size);
        // An empty range has no word, even in the middle of one.
        let last = if first < past { past.div_ceil(64) } else { first / 64 };
        (first / 64..last).map(move |word| {
            let (low, high) = (first.max(word * 64), past.min(word * 64 + 64));
            let bits = u64::MAX >> (64 - (high - low)) << (low % 64);
            (word, bits)
        })
    }

    /// Returns the word, if anything of its chunk was ever written.
    fn word(&self, at: u64) -> Option<&AtomicU64> {
        let chunk = self.chunks.get(at as usize / WORDS)?.get()?;
        chunk.get(at as usize % WORDS)
    }

    /// The bytes are written.
    pub(crate) fn mark(&self, start: u64, bytes: u64) {
        for (at, bits) in self.words(start, bytes) {
            let Some(chunk) = self.chunks.get(at as usize / WORDS) else { return };
            let chunk = chunk
                .get_or_init(|| std::iter::repeat_with(AtomicU64::default).take(WORDS).collect());
            let word = &chunk[at as usize % WORDS];
            // Most memory is written repeatedly: the read does not take the cache line from other threads.
            if word.load(Ordering::Relaxed) & bits != bits {
                word.fetch_or(bits, Ordering::Relaxed);
            }
        }
    }

    /// Marks new bytes as unwritten.
    pub(crate) fn clear(&self, start: u64, bytes: u64) {
        for (at, bits) in self.words(start, bytes) {
            if let Some(word) = self.word(at) {
                word.fetch_and(!bits, Ordering::Relaxed);
            }
        }
    }

    /// Returns the address of the first unwritten byte.
    pub(crate) fn first_unwritten(&self, start: u64, bytes: u64) -> Option<u64> {
        self.first(start, bytes, 0)
    }

    /// Returns the address of the first unwritten byte, or, with all ones, of the first written byte.
    fn first(&self, start: u64, bytes: u64, flip: u64) -> Option<u64> {
        self.words(start, bytes).find_map(|(at, bits)| {
            let there = self.word(at).map_or(0, |word| word.load(Ordering::Relaxed));
            let found = bits & !(there ^ flip);
            (found != 0).then(|| self.base + at * 64 + u64::from(found.trailing_zeros()))
        })
    }

    /// Marks copied bytes as written if their sources are. Sources outside of the range count as written.
    pub(crate) fn copy(&self, from: u64, to: u64, bytes: u64) {
        // The gaps are found before anything changes: the two ranges may overlap.
        let (mut gaps, mut at) = (Vec::new(), from);
        let end = from.saturating_add(bytes);
        while let Some(gap) = self.first(at, end - at, 0) {
            at = self.first(gap, end - gap, u64::MAX).unwrap_or(end);
            gaps.push((gap - from, at - gap));
        }
        self.mark(to, bytes);
        gaps.into_iter().for_each(|(offset, bytes)| self.clear(to + offset, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, Written};

    const BASE: u64 = 0x7000_0000;

    #[test]
    fn bytes_are_told_apart() {
        let written = Written::new(BASE, 4 * CHUNK);
        assert_eq!(written.first_unwritten(BASE + 5, 1), Some(BASE + 5));
        written.mark(BASE + 5, 3);
        assert_eq!(written.first_unwritten(BASE + 5, 3), None);
        assert_eq!(written.first_unwritten(BASE + 4, 4), Some(BASE + 4));
        assert_eq!(written.first_unwritten(BASE + 5, 4), Some(BASE + 8));
        assert_eq!(written.first_unwritten(BASE + 5, 0), None);
    }

    #[test]
    fn ranges_cross_words_and_chunks() {
        let written = Written::new(BASE, 4 * CHUNK);
        let (start, bytes) = (BASE + CHUNK - 100, 2 * CHUNK + 137);
        written.mark(start, bytes);
        assert_eq!(written.first_unwritten(start, bytes), None);
        assert_eq!(written.first_unwritten(start - 1, 2), Some(start - 1));
        assert_eq!(written.first_unwritten(start, bytes + 1), Some(start + bytes));
        written.clear(start + 700, 1);
        assert_eq!(written.first_unwritten(start, bytes), Some(start + 700));
    }

    #[test]
    fn a_copy_takes_gaps_along() {
        let written = Written::new(BASE, 2 * CHUNK);
        let (from, to) = (BASE + 10, BASE + CHUNK + 77);
        for (start, bytes) in [(from, 3), (from + 5, 200), (from + 300, 100)] {
            written.mark(start, bytes);
        }
        written.mark(to, 500);
        written.copy(from, to, 400);
        for offset in 0..500 {
            let wanted = !matches!(offset, 3..5 | 205..300);
            let got = written.first_unwritten(to + offset, 1).is_none();
            assert_eq!(got, wanted, "byte {offset}");
        }
        // The copy goes onto the same range, 100 bytes on.
        written.copy(to, to + 100, 400);
        assert_eq!(written.first_unwritten(to + 90, 400), Some(to + 103));
        assert_eq!(written.first_unwritten(to + 105, 200), None);
    }

    #[test]
    fn what_lies_outside_is_not_looked_at() {
        let written = Written::new(BASE, CHUNK);
        written.mark(BASE - 64, 128);
        assert_eq!(written.first_unwritten(BASE - 64, 128), None);
        assert_eq!(written.first_unwritten(BASE + CHUNK, 8), None);
        assert_eq!(written.first_unwritten(u64::MAX - 4, 8), None);
        written.mark(u64::MAX - 4, 8);
    }
}
