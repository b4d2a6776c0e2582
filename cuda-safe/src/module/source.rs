//! Where kernels come from: anything that can be made a module.

use crate::context::Context;
use crate::error::Result;
use crate::module::Module;
use crate::trace::timed;

/// Something that [`kernels!`](crate::kernels) and [`Module::compile`] make a module of.
///
/// CUDA C++ text is compiled for the context's device, with the cache of `nvrtc`; an
/// [`nvrtc::Program`] likewise, with its options and headers; an [`nvrtc::Image`] is loaded.
pub trait KernelSource {
    /// Makes a module that has the kernels `names`: plain names, or name expressions such as
    /// `axpy<float>`, which are passed to the compiler.
    ///
    /// # Errors
    /// The error that compiling or loading returns.
    fn load_kernels(self, context: &Context, names: &[&str]) -> Result<Module>;
}

impl KernelSource for &str {
    fn load_kernels(self, context: &Context, names: &[&str]) -> Result<Module> {
        nvrtc::Program::new(self).load_kernels(context, names)
    }
}

impl KernelSource for &String {
    fn load_kernels(self, context: &Context, names: &[&str]) -> Result<Module> {
        self.as_str().load_kernels(context, names)
    }
}

impl KernelSource for nvrtc::Program {
    fn load_kernels(mut self, context: &Context, names: &[&str]) -> Result<Module> {
        for name in names.iter().filter(|name| is_expression(name)) {
            self = self.name_expression(*name);
        }
        (&self).load_kernels(context, &[])
    }
}

impl KernelSource for &nvrtc::Program {
    /// Loads the kernels. The program must have been created with the name expressions.
    fn load_kernels(self, context: &Context, _: &[&str]) -> Result<Module> {
        let arch = context.device().arch()?;
        let driver = context.driver().version()?;
        let image = timed!(INFO, [%arch, "compile"], self.compile_for_driver(arch, driver))?;
        Module::load(context, &image)
    }
}

impl KernelSource for &nvrtc::Image {
    fn load_kernels(self, context: &Context, _: &[&str]) -> Result<Module> {
        Module::load(context, self)
    }
}

/// Returns whether a kernel's name is an expression for the compiler rather than a plain or mangled name.
fn is_expression(name: &str) -> bool {
    name.contains(['<', ':', '&', '('])
}
