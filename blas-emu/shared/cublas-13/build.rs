//! Gives the library its soname.

const SONAME: &str = "libcublas.so.13";

include!("../soname.rs");
