//! Safe NCCL for [`cuda_safe`].
//!
#![doc = include_str!("../README.md")]

mod abort;
mod call;
mod checked;
mod clique;
mod collectives;
mod communicator;
mod config;
mod create;
mod driver;
mod element;
mod error;
mod group;
mod handle;
mod id;
mod list;
mod log;
pub mod raw;
mod signature;
mod slot;
mod sync;
mod teardown;
mod watch;

pub use abort::Abort;
pub use communicator::Communicator;
pub use config::Config;
pub use element::{DataType, Element, ReduceOp};
pub use error::{Error, Result};
pub use group::{Group, GroupRank};
pub use id::UniqueId;
pub use raw::{LoadError, MissingSymbol, Nccl};
