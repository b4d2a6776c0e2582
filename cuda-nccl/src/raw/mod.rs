//! NCCL's C interface: its types and a table of its functions, which is loaded at run time.
//!
//! The declarations are written by hand from `nccl.h` of NCCL 2.18 to 2.28. NCCL exports each function under one name,
//! whose ABI it has never changed: a new version adds functions, and fields at the end of [`ncclConfig_t`].

mod load;
mod table;

#[doc(no_inline)]
pub use cuda_sys::nccl::*;
pub use load::{LoadError, MissingSymbol, Nccl, OLDEST, version_text};
pub use table::NcclFns;
