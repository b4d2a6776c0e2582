//! Methods of numbers whose results Rust leaves open in part, with one result.

/// The methods that expansions call in place of Rust's.
pub trait Defined: Sized {
    /// The smaller one.
    fn phases_min(self, other: Self) -> Self;
    /// The greater one.
    fn phases_max(self, other: Self) -> Self;
}
