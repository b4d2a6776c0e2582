//! Instructions of textures and surfaces: `tex`, `tld4`, `suld`, `sust`, `sured`, `istypep`.

mod access;
mod fetch;
mod surface;

pub(crate) use access::{Access, Dims, Outside, Result, What};
pub(crate) use fetch::Textures;
