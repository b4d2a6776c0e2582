//! The order in which queries run.

/// The order in which queries run. Results are in the caller's order in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum QueryOrder {
    /// Sorted by position if that pays: from 32,768 queries on.
    #[default]
    Auto,
    /// In the given order: for queries that are already sorted.
    Given,
    /// Sorted: by the cells of a hash grid, or along a Morton curve through the bounds of a mesh or a hierarchy.
    Sorted,
}

/// The number of queries from which on sorting pays.
const SORTED_FROM: usize = 32_768;

impl QueryOrder {
    /// Returns whether `n` queries are sorted.
    pub(crate) fn sorts(self, n: usize) -> bool {
        match self {
            Self::Auto => n >= SORTED_FROM,
            Self::Given => false,
            Self::Sorted => n > 0,
        }
    }
}
