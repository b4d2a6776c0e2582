//! A declaration is one kernel that returns nothing, under a name that is free.

use cuda_safe::kernels;

const SOURCE: &str = "";

kernels! {
    unsafe in SOURCE {
        safe fn result(a: f32) -> f32;
        safe fn generic<T>(a: T);
        safe fn body(a: f32) {}
        safe unsafe fn undecided();
        safe fn load();
        safe fn from_module();
        safe fn module();
        safe fn scale();
        safe fn scale_kernel();
        safe fn scale();
        #[name(scale)]
        safe fn unnamed();
        #[name = "a"]
        #[name = "b"]
        safe fn two_names();
    }
}

kernels! {
    struct Two;
    unsafe in SOURCE { safe fn a(); }
    unsafe in SOURCE { safe fn b(); }
}

kernels! {
    struct Generic<T>;
    unsafe in SOURCE { safe fn a(); }
}

fn main() {}
