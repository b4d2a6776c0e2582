//! The device headers, for programs that users compile with NVRTC.

/// The headers by the names under which they are included, such as `geom/math/exact.cuh`.
///
/// They need no header of CUDA or of the host, and compile under every NVRTC from 12.0, with any
/// options. [`program`] has them all; this is for those who give them to another compiler.
#[must_use]
pub fn headers() -> &'static [(&'static str, &'static str)] {
    HEADERS
}

/// A program of this CUDA C++ text, which can `#include <geom/...>`.
///
/// ```no_run
/// let program = geom_kernels::program(
///     "#include <geom/math/exact.cuh>
///      extern \"C\" __global__ void twice(float* x) { *x = geom::exact::add(*x, *x); }",
/// );
/// let image = program.compile(cuda_safe::nvrtc::Arch::sm(9, 0))?;
/// # Ok::<(), cuda_safe::nvrtc::Error>(())
/// ```
pub fn program(source: impl Into<String>) -> cuda_safe::nvrtc::Program {
    let program = cuda_safe::nvrtc::Program::new(source);
    HEADERS.iter().fold(program, |program, (name, text)| program.header(*name, *text))
}

macro_rules! texts {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../device/", $name)))),+]
    };
}

const HEADERS: &[(&str, &str)] = texts![
    "geom/math/exact.cuh",
];
