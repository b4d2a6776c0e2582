//! The kernels over blocks in C++ by hand, declared for launches.

use cuda_safe::kernels;
use cuda_safe::nvrtc::{Options, Program};
use cuda_safe::{Context, Result};

/// The C++.
pub(crate) const SOURCE: &str = include_str!("blocks.cu");

kernels! {
    pub(crate) struct BlockTwins;
    // SAFETY: the clauses say that the grids have the blocks which the lengths need; each thread compares what it reads
    // and writes with them. All threads of a block meet its barriers. All lengths fit in 32 bits.
    unsafe in SOURCE {
        pub(crate) safe fn reduction(x: &[f32], n: u32 = x.len(), sums: &mut [f32]) over sums.len() * 256 by 256
            where n < 2147483648, 1 <= sums.len(), sums.len() * 4096 < 2147483648;
        /// # Safety
        /// `state` is all zero: else the kernel may not end.
        pub(crate) unsafe fn scan(x: &[u32], n: u32 = x.len(), out: &mut [u32], state: &mut [u64])
            over (n + 4095) / 4096 * 256 by 256
            where n < 2147483648, out.len() == n, state.len() == (n + 4095) / 4096 + 1;
        pub(crate) safe fn histogram(data: &[u32], n: u32 = data.len(), bins: &mut [u32])
            over (n + 32767) / 32768 * 256 by 256 where n < 2147483648, bins.len() == 256;
        pub(crate) safe fn transpose(rows: u32, columns: u32, x: &[f32], out: &mut [f32])
            over [columns, (rows + 31) / 32 * 8] by [32, 8]
            where rows < 65536, columns < 65536, x.len() == rows * columns, out.len() == rows * columns;
        pub(crate) safe fn heat(rate: f32, rows: u32, columns: u32, now: &[f32], next: &mut [f32])
            over [columns, rows] by [32, 8]
            where rows < 32768, columns < 32768, now.len() == rows * columns, next.len() == rows * columns;
        pub(crate) safe fn softmax(rows: u32 = x.len() / columns, columns: u32, x: &[f32], out: &mut [f32])
            over (rows + 3) / 4 * 128 by 128
            where 1 <= columns, columns < 65536, rows < 32768, x.len() == rows * columns, out.len() == x.len();
        pub(crate) safe fn layer_norm(
            rows: u32 = x.len() / columns, columns: u32, x: &[f32], scale: &[f32], shift: &[f32], out: &mut [f32]
        )
            over (rows + 3) / 4 * 128 by 128
            where 1 <= columns, columns < 65536, rows < 32768, x.len() == rows * columns, out.len() == x.len(),
                scale.len() == columns, shift.len() == columns;
        pub(crate) safe fn sort_chunks(x: &[u32], n: u32 = x.len(), out: &mut [u32])
            over (n + 1023) / 1024 * 512 by 512 where n < 2147483648, out.len() == n;
        /// # Safety
        /// `state` is all zero, and `kept` has as many elements as `x` has that are less than `limit`.
        pub(crate) unsafe fn keep_less(
            limit: u32, x: &[u32], n: u32 = x.len(), kept: &mut [u32], count: &mut [u32], state: &mut [u64]
        )
            over (n + 4095) / 4096 * 256 by 256
            where n < 2147483648, count.len() == 1, state.len() == (n + 4095) / 4096 + 1;
        pub(crate) safe fn tiled(m: u32, n: u32, k: u32, a: &[f32], b: &[f32], c: &mut [f32])
            over [n, m] by [32, 32]
            where m < 65536, n < 65536, k < 65536, a.len() == m * k, b.len() == k * n, c.len() == m * n;
        pub(crate) safe fn gemm(m: u32, n: u32, k: u32, a: &[f32], b: &[f32], c: &mut [f32])
            over [n / 128 * 16, m / 128 * 16] by [16, 16]
            where m < 65536, n < 65536, k < 65536, m == m / 128 * 128, n == n / 128 * 128, k == k / 8 * 8,
            a.len() == m * k, b.len() == k * n, c.len() == m * n;
    }
}

impl BlockTwins {
    /// Compiles them with `--fmad=false`.
    pub(crate) fn without_contraction(context: &Context) -> Result<Self> {
        let program = Program::new(SOURCE).options(Options::new().fmad(false));
        // SAFETY: the source is that of the declaration, and the option changes the results of floats alone.
        unsafe { Self::load_from(context, program) }
    }
}
