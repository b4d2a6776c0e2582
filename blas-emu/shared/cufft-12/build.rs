//! Gives the library its soname.

const SONAME: &str = "libcufft.so.12";

include!("../soname.rs");
