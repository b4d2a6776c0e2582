//! Gives the library its soname.

const SONAME: &str = "libcurand.so.10";

include!("../soname.rs");
