//! Matrix instructions as pure functions ("Warp Level Matrix Instructions"): the element of a matrix in each register
//! of each lane, and the product. `mma.sync` has the layouts of the manual; those of `wmma` fragments are opaque and
//! only agree with one another.

mod block;
mod layout;
mod product;

pub(crate) use block::{ldmatrix, movmatrix, stmatrix};
pub(crate) use layout::{Role, Tile};
pub(crate) use product::Product;

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;
