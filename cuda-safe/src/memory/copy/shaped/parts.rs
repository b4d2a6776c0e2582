//! Boxes in bytes, and the pieces that copies bring over one after another.

use std::ops::Range;

use super::layout::Extent;

/// Distances of rows and slices in bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Pitches {
    pub(super) row: usize,
    pub(super) slice: usize,
}

/// A part of a box, or all of it: where it begins and how large it is. Widths are in bytes.
#[derive(Clone, Copy)]
pub(super) struct Part {
    x: usize,
    y: usize,
    z: usize,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) depth: usize,
}

impl Part {
    /// Creates a whole box. Slices of one row each become the rows of one slice: a plane across a volume is one copy.
    pub(super) fn whole(extent: Extent, size: usize) -> Self {
        let (width, (height, depth)) = match extent {
            Extent { width, height: 1, depth } => (width, (depth, 1)),
            Extent { width, height, depth } => (width, (height, depth)),
        };
        Self { x: 0, y: 0, z: 0, width: width * size, height, depth }
    }

    pub(super) fn bytes(&self) -> usize {
        self.width * self.height * self.depth
    }

    /// Returns where it begins in memory with these pitches.
    pub(super) fn start(&self, pitches: Pitches) -> usize {
        self.z * pitches.slice + self.y * pitches.row + self.x
    }

    /// Returns whether the distance between rows is of any consequence.
    pub(super) fn rows_matter(&self) -> bool {
        self.height > 1 || self.depth > 1
    }

    /// Pieces of at most `most` bytes: several slices, several rows of one, or part of one row.
    pub(super) fn pieces(&self, most: usize) -> Pieces {
        let slice = self.width * self.height;
        let height = if slice <= most { self.height } else { (most / self.width).max(1) };
        let depth = (most / slice).clamp(1, self.depth);
        Pieces { whole: *self, width: self.width.min(most), height, depth, next: (0, 0, 0) }
    }

    /// Returns each slice by itself.
    pub(super) fn slices(&self) -> Pieces {
        Pieces { whole: *self, width: self.width, height: self.height, depth: 1, next: (0, 0, 0) }
    }

    /// Returns each row by itself, in pieces of at most `most` bytes.
    pub(super) fn rows(&self, most: usize) -> Pieces {
        Pieces { whole: *self, width: self.width.min(most), height: 1, depth: 1, next: (0, 0, 0) }
    }

    /// Returns the ranges of host memory that it covers, each with the next bytes of a compact copy.
    pub(super) fn runs(self, pitches: Pitches) -> impl Iterator<Item = Range<usize>> {
        // Rows without gaps between them are one run.
        let joined = self.height == 1 || pitches.row == self.width;
        let (rows, bytes) =
            if joined { (1, self.width * self.height) } else { (self.height, self.width) };
        (0..self.depth).flat_map(move |z| {
            (0..rows).map(move |y| {
                let start = self.start(pitches) + z * pitches.slice + y * pitches.row;
                start..start + bytes
            })
        })
    }
}

/// A box in pieces of at most this width, height and depth, in the order of memory.
pub(super) struct Pieces {
    whole: Part,
    width: usize,
    height: usize,
    depth: usize,
    /// Where the next one begins in the box.
    next: (usize, usize, usize),
}

impl Iterator for Pieces {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        let (whole, (x, y, z)) = (&self.whole, self.next);
        if z == whole.depth {
            return None;
        }
        let width = self.width.min(whole.width - x);
        let height = self.height.min(whole.height - y);
        let depth = self.depth.min(whole.depth - z);
        self.next = if x + width < whole.width {
            (x + width, y, z)
        } else if y + height < whole.height {
            (0, y + height, z)
        } else {
            (0, 0, z + depth)
        };
        Some(Part { x, y, z, width, height, depth })
    }
}
