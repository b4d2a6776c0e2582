//! Safe NCCL for [`cuda_safe`].
//!
#![doc = include_str!("../README.md")]

mod call;
mod communicator;
mod config;
mod driver;
mod element;
mod error;
mod id;
mod life;
pub mod raw;
mod sync;

pub use call::group::{Group, GroupRank};
pub use communicator::Communicator;
pub use config::Config;
pub use element::{DataType, NcclElement, ReduceOp};
pub use error::{Error, Result};
pub use id::UniqueId;
pub use life::abort::Abort;
pub use raw::{LoadError, MissingSymbol, Nccl};
