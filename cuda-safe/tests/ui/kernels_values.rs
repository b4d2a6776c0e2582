//! What is passed by value is plain data that somebody vouches for.

use cuda_safe::kernels;

const SOURCE: &str = "";

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Params {
    gravity: f32,
}

mod shapes {
    #[derive(Clone, Copy)]
    #[repr(C)]
    pub struct Circle<T>(pub T);
}

kernels! {
    unsafe in SOURCE {
        safe fn structure(a: f32, params: Params, #[any] n: u32);
        safe fn generic(shape: shapes::Circle<f32>);
        unsafe fn tuple(a: (f32, f32));
    }
}

fn main() {}
