//! Operations on lanes: each computes all 32 and keeps those of the mask.

pub(crate) mod bits;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod float;
pub(crate) mod half;
pub(crate) mod int;
pub(crate) mod lane;
pub(crate) mod matrix;
pub(crate) mod moves;
pub(crate) mod special;
