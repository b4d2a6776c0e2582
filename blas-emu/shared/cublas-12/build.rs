//! Gives the library its soname.

const SONAME: &str = "libcublas.so.12";

include!("../soname.rs");
