#![doc = include_str!("../README.md")]
#![allow(non_snake_case, reason = "the header's names")]

pub mod array;
pub mod bindings;
mod call;
mod context;
pub mod copy;
pub mod device;
pub mod error;
pub mod function;
pub mod graph;
pub mod graph_params;
pub mod ipc;
pub mod launch;
pub mod linear;
mod link;
pub mod memory;
pub mod pool;
mod properties;
mod registry;
pub mod stream;
pub mod texture;
pub mod unsupported;

#[doc(hidden)]
pub use call::{CudaResult, Sync, check, guard, own, pass, put, ready};
#[doc(hidden)]
pub use device::{entry_point, own_stream};
#[doc(hidden)]
pub use graph_params::add_any;
#[doc(hidden)]
pub use properties::{of_12, of_13};
#[doc(hidden)]
pub use unsupported::refuse;

/// The tables of names, with what they are about.
#[doc(hidden)]
pub const TABLES: &[(&str, &[&str])] = &[
    ("Registration and launches", launch::OTHERS),
    ("Registration and launches", launch::TABLE),
    ("Errors", error::OTHERS),
    ("Devices", device::TABLE),
    ("Memory", memory::TABLE),
    ("Copies and fills", copy::TABLE),
    ("Copies and fills", linear::TABLE),
    ("Stream-ordered memory", pool::TABLE),
    ("Streams, events and captures", stream::TABLE),
    ("Kernels, occupancy and libraries", function::TABLE),
    ("Graphs", graph::TABLE),
    ("Parameters of graph nodes", graph_params::TABLE),
    ("Arrays", array::TABLE),
    ("Arrays", array::OTHERS),
    ("Textures and surfaces", texture::TABLE),
    ("Memory of other processes", ipc::TABLE),
    ("Not supported", unsupported::TABLE),
];
