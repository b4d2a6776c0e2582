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
        Module::load(context, &compile(Cow::Borrowed(self), context)?)
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
        let mut linker = Linker::new(context);
        for program in relocatable(self, names) {
            let name = program.source_name().to_owned();
            linker = linker.image(&name, &compile(Cow::Owned(program), context)?);
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

/// Compiles a program for the device of a context. On a software device it has line information, which the device's reports
/// name, and becomes PTX alone: machine code, which is not run there, would take a third of the compiler's time.
fn compile(program: Cow<'_, nvrtc::Program>, context: &Context) -> Result<nvrtc::Image> {
    let (real, driver) = (context.device().arch()?, context.driver().version()?);
    let compile = |program: &nvrtc::Program, arch| -> Result<nvrtc::Image> {
        Ok(timed!(INFO, [%arch, "compile"], program.compile_for_driver(arch, driver))?)
    };
    if !context.driver().is_software()? {
        return compile(&program, real);
    }
    let program = program.into_owned().with_options(|options| options.lineinfo(true));
    let (major, minor) = real.capability();
    let image = compile(&program, nvrtc::Arch::compute(major, minor))?;
    match image.ptx.as_deref().map(shared_bytes) {
        Some(Some(0..=STATIC_SHARED)) => Ok(image),
        // The compiler may refuse the machine code: what fails on a GPU must fail here.
        _ => compile(&program, real),
    }
}

/// The most static shared memory of a kernel that the compiler of machine code takes, in bytes. The driver takes more.
const STATIC_SHARED: u64 = 48 << 10;

/// Returns the bytes of all static shared variables of a text as NVRTC writes it, a declaration a line; `None` if one is
/// spelled in another way.
fn shared_bytes(ptx: &str) -> Option<u64> {
    let declared = ptx.lines().filter_map(|line| line.trim_start().split_once(".shared "));
    let own = declared.filter(|(before, _)| matches!(*before, "" | ".visible " | ".weak "));
    own.map(|(_, variable)| {
        let mut words = variable.trim_end().strip_suffix(';')?.split(' ');
        let (name, ty) = (words.next_back()?, words.next_back()?);
        let width: u64 = ty.trim_start_matches(['.', 'b', 'u', 's', 'f']).parse().ok()?;
        let count = match name.split_once('[') {
            Some((_, count)) => count.strip_suffix(']')?.parse().ok()?,
            None => 1,
        };
        width.div_ceil(8).checked_mul(count)
    })
    .try_fold(0u64, |sum, bytes| sum.checked_add(bytes?))
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

#[cfg(test)]
mod tests {
    use super::shared_bytes;

    #[test]
    fn static_shared_variables_are_counted() {
        let text = ".extern .shared .align 16 .b8 dynamic[];\n.visible .shared .align 4 .u32 one;\n\
            .visible .entry k()\n{\n\t// demoted variable\n\t.shared .align 8 .b8 _ZZ1kvE1a[4096];\n\
            \tst.shared.u32 \t[one], %r1;\n\tcvta.shared.u64 %rd1, %rd2;\n}\n";
        assert_eq!(shared_bytes(text), Some(4 + 4096));
        assert_eq!(shared_bytes(""), Some(0));
        for other in [
            ".shared .b8 a[2], b[3];",
            ".shared .b8 a[2][3];",
            ".shared .b8 a[99999999999999999999];",
        ] {
            assert_eq!(shared_bytes(other), None, "{other}");
        }
    }
}
