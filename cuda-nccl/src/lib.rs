//! NCCL for `cuda-safe`.

pub mod raw;
