//! Functions that this device does not have, by theme: they return `CUDA_ERROR_NOT_SUPPORTED`.

pub(super) mod arrays;
pub(super) mod contexts;
pub(super) mod diagnostics;
pub(super) mod graphs;
pub(super) mod kernels;
pub(super) mod memory;
pub(super) mod other_headers;
pub(super) mod sharing;
