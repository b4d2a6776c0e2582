//! Gives the library its soname.

const SONAME: &str = "libcufft.so.11";

include!("../soname.rs");
