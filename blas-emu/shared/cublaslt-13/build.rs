//! Gives the library its soname.

const SONAME: &str = "libcublasLt.so.13";

include!("../soname.rs");
