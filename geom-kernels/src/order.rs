//! The order in which queries run.

/// The order in which queries run. Results are in the caller's order in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum QueryOrder {
    /// Sorted by position where that pays: from 32,768 queries on.
    #[default]
    Auto,
    /// As they are given: for queries that are sorted already.
    Given,
    /// Sorted: by the cells of a hash grid, or along a curve through the bounds of a mesh.
    Sorted,
}
