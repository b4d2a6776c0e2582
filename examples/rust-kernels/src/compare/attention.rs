//! Attention beside its twin, whose `exp2f` is the device's approximation.

use cuda_safe::nvrtc::{Options, Program};
use cuda_safe::{DeviceBuffer, kernels};
use half::f16;
use rust_kernels::attention::{HEAD, attention};
use rust_kernels_checked::attention::attention as checked;

use super::cases::Rows;
use super::{Bench, Case, Variant};
use crate::data::halves;

const SOURCE: &str = include_str!("attention.cu");

kernels! {
    struct Twin;
    // SAFETY: a block has a tile of 64 queries of a head, and the blocks in x are the heads; threads read and write
    // rows below `n`. All threads of a block meet its barriers. All lengths fit in 32 bits.
    unsafe in SOURCE {
        // The caller promises arrays at multiples of 16 bytes.
        unsafe fn attention(
            n: u32, heads: u32, causal: bool, q: &[f16], k: &[f16], v: &[f16], out: &mut [f32],
        ) over [heads * 16, (n + 63) / 64 * 16] by [16, 16]
            where heads * 64 * n == out.len(), q.len() == out.len(), k.len() == out.len(), v.len() == out.len(),
                  out.len() < 2147483648;
    }
}

pub(super) fn measure(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let (n, heads) = (bench.size(4000, 70), if bench.software { 2 } else { 16 });
    let len = n * heads * HEAD;
    let buffer = |seed| DeviceBuffer::from_slice(on, &halves(seed, len, 3.0));
    let (q, k, v) = (buffer(1)?, buffer(2)?, buffer(3)?);
    let twin = Twin::load(&on.context())?;
    let program = Program::new(SOURCE).options(Options::new().fmad(false));
    // SAFETY: the source is that of the declaration, and the option changes the results of floats alone.
    let twin_plain = unsafe { Twin::load_from(&on.context(), program) }?;
    let mut rows = Vec::new();
    for (name, causal) in [("attention", false), ("causal", true)] {
        rows.push(
            Case::new(bench, name, len)
                .rust(Variant::Rust, attention::kernel(), |out| {
                    attention::launch(on, n, heads, causal, &q, &k, &v, out)
                })?
                .rust(Variant::Checked, checked::kernel(), |out| {
                    checked::launch(on, n, heads, causal, &q, &k, &v, out)
                })?
                .other(Variant::Twin, twin.attention_kernel(), |out| {
                    // SAFETY: whole buffers begin at multiples of 256 bytes.
                    unsafe { twin.attention(on, n as u32, heads as u32, causal, &q, &k, &v, out) }
                })?
                .other(Variant::TwinPlain, twin_plain.attention_kernel(), |out| {
                    // SAFETY: as above.
                    unsafe {
                        twin_plain.attention(on, n as u32, heads as u32, causal, &q, &k, &v, out)
                    }
                })?
                .measure()?,
        );
    }
    Ok(rows)
}
