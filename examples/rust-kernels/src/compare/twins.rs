//! The kernels in C++ by hand, declared for safe launches.

use cuda_safe::kernel::vector::Vec3;
use cuda_safe::kernels;
use cuda_safe::nvrtc::{Options, Program};
use cuda_safe::vector::Float4;
use cuda_safe::{Context, Result};
use rust_kernels::integrate::Oscillator;

/// The C++.
pub(crate) const SOURCE: &str = include_str!("twins.cu");

kernels! {
    pub(crate) struct Twins;
    // SAFETY: each thread reads elements below the lengths that the declarations compare, and writes the one with its
    // own index, which it compares with the number of elements. What `spmv` cannot compare, its caller promises. All
    // lengths fit in 32 bits.
    unsafe in SOURCE {
        pub(crate) safe fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32], n: u32 = x.len()) over n by 256
            where y.len() == n, out.len() == n;
        pub(crate) safe fn saxpy4(a: f32, x: &[Float4], y: &[Float4], out: &mut [Float4], n: u32 = x.len())
            over n by 256 where y.len() == n, out.len() == n;
        pub(crate) safe fn copy(a: &[f64], c: &mut [f64], n: u32 = a.len()) over n by 256 where c.len() == n;
        pub(crate) safe fn mul(scalar: f64, c: &[f64], b: &mut [f64], n: u32 = c.len()) over n by 256
            where b.len() == n;
        pub(crate) safe fn add(a: &[f64], b: &[f64], c: &mut [f64], n: u32 = a.len()) over n by 256
            where b.len() == n, c.len() == n;
        pub(crate) safe fn triad(scalar: f64, b: &[f64], c: &[f64], a: &mut [f64], n: u32 = a.len()) over n by 256
            where b.len() == n, c.len() == n;
        pub(crate) safe fn dot(
            a: &[f64], b: &[f64], n: u32 = a.len(), sums: &mut [f64], stride: u32 = sums.len(),
        ) over stride by 256 where b.len() == n;
        pub(crate) safe fn mandelbrot(width: u32, height: u32, #[any] limit: u32, counts: &mut [u32])
            over [width, height] by [32, 8] where counts.len() == width * height;
        pub(crate) safe fn nbody(positions: &[Vec3], forces: &mut [Vec3], n: u32 = positions.len()) over n by 256
            where forces.len() == n;
        pub(crate) safe fn matmul(n: u32, a: &[f32], b: &[f32], c: &mut [f32]) over [n, n] by [32, 8]
            where n < 65536, a.len() == n * n, b.len() == n * n, c.len() == n * n;
        // The caller promises offsets that do not fall and are at most the number of columns, and columns below the
        // length of `x`.
        pub(crate) unsafe fn spmv(
            offsets: &[u32], columns: &[u32], values: &[f32], x: &[f32], y: &mut [f32], rows: u32 = y.len(),
        ) over rows by 256 where offsets.len() == rows + 1, columns.len() == values.len();
        pub(crate) safe fn integrate(dt: f32, start: &[Oscillator], end: &mut [Oscillator], n: u32 = start.len())
            over n by 256 where end.len() == n;
    }
}

impl Twins {
    /// Compiles them with `--fmad=false`.
    pub(crate) fn without_contraction(context: &Context) -> Result<Self> {
        let program = Program::new(SOURCE).options(Options::new().fmad(false));
        // SAFETY: the source is that of the declaration, and the option changes the results of floats alone.
        unsafe { Self::load_from(context, program) }
    }
}
