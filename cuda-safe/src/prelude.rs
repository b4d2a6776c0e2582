//! The items that most programs need: `use cuda_safe::prelude::*;`.
//!
//! [`Result`](crate::Result) is not here, so that `Result<T, E>` keeps its meaning.

pub use crate::{
    Context, DeviceBuffer, DeviceSlice, DeviceSliceMut, Event, GraphExec, LaunchConfig, Module,
    PinnedBuffer, Stream, UnifiedBuffer, include_cuda, kernels, launch,
};
