//! Somebody writes the `unsafe` that makes the generated methods safe.

use cuda_safe::kernels;

const SOURCE: &str = "";

kernels! {
    safe fn scale(a: f32);
}

kernels! {
    struct WithoutUnsafe;
    in SOURCE {
        safe fn scale(a: f32);
    }
}

kernels! {
    struct NeitherSafeNorUnsafe;
    unsafe in SOURCE {
        fn scale(a: f32);
    }
}

fn main() {}
