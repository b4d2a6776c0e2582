//! The order in which parts of the numbers are searched.

use std::ops::Range;

/// A part of the numbers that are searched.
pub(super) struct Part {
    pub(super) excess: f64,
    pub(super) range: Range<usize>,
}

impl Ord for Part {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // Among equal parts, the smaller one comes first, then the one with lower indices.
        let size = |part: &Self| part.range.len();
        self.excess
            .total_cmp(&other.excess)
            .then(size(other).cmp(&size(self)))
            .then(other.range.start.cmp(&self.range.start))
    }
}

impl PartialOrd for Part {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Part {}
