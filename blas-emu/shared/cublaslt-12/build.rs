//! Gives the library its soname.

const SONAME: &str = "libcublasLt.so.12";

include!("../soname.rs");
