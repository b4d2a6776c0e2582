//! `unsafe in` is unsafe code, and lints see it where it is written.

#![deny(unsafe_code)]

use cuda_safe::kernels;

const SOURCE: &str = "";

kernels! {
    struct Promised;
    unsafe in SOURCE {
        safe fn scale(a: f32);
    }
}

fn main() {
    let _ = Promised::load;
}
