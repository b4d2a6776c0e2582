//! Tests of `geom-kernels`.

mod boxes;
mod exact;
mod flags;
mod hash_grid;
mod headers;
mod maths;
mod oracle;
mod sort;

use crate::harness::Case;

pub(crate) fn cases() -> Vec<Case> {
    [
        headers::cases(),
        exact::cases(),
        maths::cases(),
        boxes::cases(),
        sort::cases(),
        hash_grid::cases(),
    ]
    .concat()
}
