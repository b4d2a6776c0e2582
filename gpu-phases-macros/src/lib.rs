//! The attribute `#[kernel]`.
