//! Safe code can put no other kernel into a struct that `kernels!` has made, nor make one by itself.

use cuda_safe::{Kernel, Module, kernels};

const SOURCE: &str = "";

kernels! {
    pub struct Checked;
    unsafe in SOURCE {
        safe fn fill(x: &mut [u32], n: u32) where n <= x.len();
        safe fn clear(x: &mut [u32], n: u32) where n <= x.len();
    }
}

kernels! {
    pub struct Other;
    unsafe in SOURCE {
        safe fn fill(x: &mut [u32]) where 1 <= x.len();
    }
}

fn another_kernel(kernels: &mut Checked, evil: Kernel) {
    kernels.fill = evil;
}

fn the_kernel_of_another_declaration(kernels: &mut Checked) {
    kernels.fill = kernels.clear.clone();
    std::mem::swap(&mut kernels.fill, &mut kernels.clear);
}

fn the_kernel_of_another_struct(kernels: &mut Checked, other: Other) {
    kernels.fill = other.fill;
}

fn made_by_hand(evil: Kernel, module: Module) -> Checked {
    Checked { fill: evil.clone(), clear: evil, module }
}

fn another_module(kernels: &mut Checked, module: Module) {
    kernels.module = module;
}

fn found_by_hand(module: &Module) -> Checked {
    use cuda_safe::__private::{Declared, DeclaredIn};
    Checked {
        fill: Declared::find(module, "evil").unwrap(),
        clear: Declared::find(module, "evil").unwrap(),
        module: DeclaredIn::new(module),
    }
}

fn taken_apart(kernels: &mut Checked, evil: Kernel) {
    kernels.fill.kernel = evil;
    *kernels.fill_kernel() = evil;
}

fn inside_a_function(evil: Kernel) {
    kernels! {
        struct Inner;
        unsafe in SOURCE { safe fn fill(x: &mut [u32]) where 1 <= x.len(); }
    }
    let set = |inner: &mut Inner| inner.fill = evil;
    let _ = set;
}

fn main() {}
