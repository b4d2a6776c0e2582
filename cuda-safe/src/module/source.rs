//! Where kernels come from: anything that can be made a module.

use std::borrow::Cow;

use crate::caller;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::module::{KernelSignatures, Linker, Module};
use crate::trace::timed;

/// Something that [`kernels!`](crate::kernels) and [`Module::compile`] make a module of.
///
/// CUDA C++ text is compiled for the context's device, with the cache of `nvrtc`; an
/// [`nvrtc::Program`] likewise, with its options and headers; an [`nvrtc::Image`] is loaded.
///
/// An array of programs is a program of several files, as `nvcc -rdc=true a.cu b.cu` makes it: each is compiled as
/// relocatable code, and [`Linker`] links them. Kernels may be in any file; instances of templates are those of the first
/// one.
///
/// ```
/// use cuda_safe::kernels;
/// use cuda_safe::nvrtc::Program;
///
/// const KERNELS: &str = "__device__ float half(float x);
///     __global__ void halve(float* x) { x[threadIdx.x] = half(x[threadIdx.x]); }";
/// const FUNCTIONS: &str = "__device__ float half(float x) { return 0.5f * x; }";
///
/// kernels! {
///     struct Kernels;
///     // SAFETY: thread i touches element i alone, and there are as many threads as elements.
///     unsafe in [Program::new(KERNELS).name("kernels.cu"), Program::new(FUNCTIONS).name("functions.cu")] {
///         safe fn halve(x: &mut [f32]) where grid.x == 1, block.x == x.len();
///     }
/// }
/// # fn main() {}
/// ```
pub trait KernelSource {
    /// Makes a module that has the kernels `names`: plain names, or name expressions such as
    /// `axpy<float>`, which are passed to the compiler.
    ///
    /// # Errors
    /// The error that compiling or loading returns.
    fn load_kernels(self, context: &Context, names: &[&str]) -> Result<Module>;

    /// Makes a module as [`load_kernels`](Self::load_kernels) does, if possible with line information, so that reports of
    /// checkers name lines of the source. `test_launches` of the structs of [`kernels!`](crate::kernels) uses it. Unless
    /// the source implements this function, it is `load_kernels`.
    ///
    /// # Errors
    /// As `load_kernels`.
    fn load_with_lines(self, context: &Context, names: &[&str]) -> Result<Module>
    where
        Self: Sized,
    {
        self.load_kernels(context, names)
    }

    /// Returns the program that NVRTC compiles, if the source is one: gradients of kernels with `#[gradient]` are
    /// generated from it.
    fn program(&self) -> Option<nvrtc::Program> {
        None
    }

    /// Returns the kernels that a module for `arch` has, without a device or a driver: text is compiled, by the NVRTC
    /// that [`nvrtc::Nvrtc::find`] finds unless the program has one. `check` of the structs of
    /// [`kernels!`](crate::kernels) compares them with the declarations.
    ///
    /// # Errors
    /// The error that compiling returns; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if an image is not for
    /// `arch`, or if the source does not implement this function.
    fn signatures(self, arch: nvrtc::Arch, names: &[&str]) -> Result<KernelSignatures>
    where
        Self: Sized,
    {
        let _ = names;
        let source = std::any::type_name::<Self>();
        Err(Error::invalid(format!(
            "kernels of a {source} can't be checked for {arch} without a device"
        ))
        .with_hint("implement `KernelSource::signatures` for the type"))
    }
}

impl KernelSource for &str {
    fn program(&self) -> Option<nvrtc::Program> {
        Some(nvrtc::Program::new(*self))
    }

    fn load_kernels(self, context: &Context, names: &[&str]) -> Result<Module> {
        nvrtc::Program::new(self).load_kernels(context, names)
    }

    fn load_with_lines(self, context: &Context, names: &[&str]) -> Result<Module> {
        nvrtc::Program::new(self).load_with_lines(context, names)
    }

    fn signatures(self, arch: nvrtc::Arch, names: &[&str]) -> Result<KernelSignatures> {
        nvrtc::Program::new(self).signatures(arch, names)
    }
}

impl KernelSource for &String {
    fn program(&self) -> Option<nvrtc::Program> {
        Some(nvrtc::Program::new(self.as_str()))
    }

    fn load_kernels(self, context: &Context, names: &[&str]) -> Result<Module> {
        self.as_str().load_kernels(context, names)
    }

    fn load_with_lines(self, context: &Context, names: &[&str]) -> Result<Module> {
        self.as_str().load_with_lines(context, names)
    }

    fn signatures(self, arch: nvrtc::Arch, names: &[&str]) -> Result<KernelSignatures> {
        self.as_str().signatures(arch, names)
    }
}

impl KernelSource for nvrtc::Program {
    fn program(&self) -> Option<nvrtc::Program> {
        Some(self.clone())
    }

    fn load_kernels(self, context: &Context, names: &[&str]) -> Result<Module> {
        (&with_names(self, names)).load_kernels(context, &[])
    }

    fn load_with_lines(self, context: &Context, names: &[&str]) -> Result<Module> {
        self.with_options(|options| options.lineinfo(true)).load_kernels(context, names)
    }

    fn signatures(self, arch: nvrtc::Arch, names: &[&str]) -> Result<KernelSignatures> {
        (&with_names(self, names)).signatures(arch, &[])
    }
}

impl KernelSource for &nvrtc::Program {
    fn program(&self) -> Option<nvrtc::Program> {
        Some((*self).clone())
    }

    /// Loads the kernels. The program must have been created with the name expressions.
    fn load_kernels(self, context: &Context, _: &[&str]) -> Result<Module> {
        caller::check_caller()?;
        let driver = context.driver().version()?;
        let (program, arch) = for_context(Cow::Borrowed(self), context)?;
        let image = timed!(INFO, [%arch, "compile"], program.compile_for_driver(arch, driver))?;
        Module::load(context, &image)
    }

    fn load_with_lines(self, context: &Context, names: &[&str]) -> Result<Module> {
        self.clone().load_with_lines(context, names)
    }

    fn signatures(self, arch: nvrtc::Arch, _: &[&str]) -> Result<KernelSignatures> {
        // The compiler has locks, which a forked child can't wait for.
        caller::check_caller()?;
        let image = timed!(INFO, [%arch, "compile"], self.compile(arch))?;
        Ok((&image).into())
    }
}

impl<const N: usize> KernelSource for [nvrtc::Program; N] {
    fn load_kernels(self, context: &Context, names: &[&str]) -> Result<Module> {
        caller::check_caller()?;
        let driver = context.driver().version()?;
        let mut linker = Linker::new(context);
        for program in relocatable(self, names) {
            let (program, arch) = for_context(Cow::Owned(program), context)?;
            let image = timed!(INFO, [%arch, "compile"], program.compile_for_driver(arch, driver))?;
            linker = linker.image(program.source_name(), &image);
        }
        Module::load(context, &linker.link()?)
    }

    /// Returns the kernels of the linked programs. The link is one of PTX, which needs no library.
    fn signatures(self, arch: nvrtc::Arch, names: &[&str]) -> Result<KernelSignatures> {
        caller::check_caller()?;
        let (major, minor) = arch.capability();
        let mut linker = nvrtc::Linker::new(nvrtc::Arch::compute(major, minor));
        for program in relocatable(self, names) {
            let image = timed!(INFO, [%arch, "compile"], program.compile(arch))?;
            linker = linker.image(program.source_name(), &image);
        }
        Ok((&linker.link()?).into())
    }
}

/// Returns the programs as those of a link, the first one with the name expressions.
fn relocatable<const N: usize>(
    programs: [nvrtc::Program; N],
    names: &[&str],
) -> impl Iterator<Item = nvrtc::Program> {
    programs.into_iter().enumerate().map(move |(at, program)| {
        with_names(program.relocatable(true), if at == 0 { names } else { &[] })
    })
}

impl KernelSource for &nvrtc::Image {
    fn load_kernels(self, context: &Context, _: &[&str]) -> Result<Module> {
        Module::load(context, self)
    }

    fn signatures(self, arch: nvrtc::Arch, _: &[&str]) -> Result<KernelSignatures> {
        match &self.ptx {
            Some(ptx) => {
                let KernelSignatures { kernels, globals, .. } =
                    KernelSignatures::from_ptx(ptx, arch)?;
                Ok(KernelSignatures::new(kernels, self.lowered.clone(), globals))
            }
            None => Ok(self.into()),
        }
    }
}

/// Returns the program, and the architecture to compile it for. On a software device the program has line information,
/// which its reports name, and is compiled to PTX alone: machine code, which it does not run, takes a third of the compiler's
/// time.
fn for_context<'p>(
    program: Cow<'p, nvrtc::Program>,
    context: &Context,
) -> Result<(Cow<'p, nvrtc::Program>, nvrtc::Arch)> {
    let arch = context.device().arch()?;
    if !context.driver().is_software()? {
        return Ok((program, arch));
    }
    let (major, minor) = arch.capability();
    let program = program.into_owned().with_options(|options| options.lineinfo(true));
    Ok((Cow::Owned(program), nvrtc::Arch::compute(major, minor)))
}

/// Names the kernels: expressions are instantiated, and the types of the others do not depend on their linkage.
pub(super) fn with_names(program: nvrtc::Program, names: &[&str]) -> nvrtc::Program {
    names.iter().fold(program, |program, name| match is_expression(name) {
        true => program.name_expression(*name),
        false => program.kernel(*name),
    })
}

/// Returns whether a kernel's name is an expression for the compiler rather than a plain or mangled name.
fn is_expression(name: &str) -> bool {
    name.contains(['<', ':', '&', '('])
}
