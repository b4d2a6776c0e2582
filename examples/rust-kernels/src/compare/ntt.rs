//! Number-theoretic transforms beside their twins.

use cuda_safe::nvrtc::{Options, Program};
use cuda_safe::{DeviceBuffer, kernels};
use rust_kernels::ntt::{LENGTH, MODULUS, Root, forward, inverse, roots};
use rust_kernels_checked::ntt as checked;

use super::cases::Rows;
use super::{Bench, Case, Variant};
use crate::data::Random;

const SOURCE: &str = include_str!("ntt.cu");

kernels! {
    struct Twin;
    // SAFETY: a block has 1,024 values, of which the arrays have whole blocks, and indices of roots are below 1,024.
    // All threads of a block meet its barriers. The caller promises arrays at multiples of 16 bytes.
    unsafe in SOURCE {
        unsafe fn forward(roots: &[Root], x: &[u32], out: &mut [u32]) over out.len() / 4 by 256
            where roots.len() == 1024, x.len() == out.len(), out.len() % 1024 == 0, out.len() < 2147483648;
        unsafe fn inverse(roots: &[Root], x: &[u32], out: &mut [u32]) over out.len() / 4 by 256
            where roots.len() == 1024, x.len() == out.len(), out.len() % 1024 == 0, out.len() < 2147483648;
    }
}

pub(super) fn measure(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let n = bench.size(1 << 15, 20) * LENGTH;
    let mut random = Random::new(7);
    let x: Vec<u32> = (0..n).map(|_| random.below(MODULUS as usize) as u32).collect();
    let x = DeviceBuffer::from_slice(on, &x)?;
    let there = DeviceBuffer::from_slice(on, &roots(false))?;
    let back = DeviceBuffer::from_slice(on, &roots(true))?;
    let twin = Twin::load(&on.context())?;
    let program = Program::new(SOURCE).options(Options::new().fmad(false));
    // SAFETY: the source is that of the declaration, and the option changes the results of floats alone.
    let twin_plain = unsafe { Twin::load_from(&on.context(), program) }?;

    let to = Case::new(bench, "ntt", n)
        .uncontracted()
        .rust(Variant::Rust, forward::kernel(), |out| forward::launch(on, &there, &x, out))?
        .rust(Variant::Checked, checked::forward::kernel(), |out| {
            checked::forward::launch(on, &there, &x, out)
        })?
        .other(Variant::Twin, twin.forward_kernel(), |out| {
            // SAFETY: whole buffers begin at multiples of 256 bytes.
            unsafe { twin.forward(on, &there, &x, out) }
        })?
        .other(Variant::TwinPlain, twin_plain.forward_kernel(), |out| {
            // SAFETY: as above.
            unsafe { twin_plain.forward(on, &there, &x, out) }
        })?
        .copy(&x)
        .measure()?;
    let from = Case::new(bench, "inverse ntt", n)
        .uncontracted()
        .rust(Variant::Rust, inverse::kernel(), |out| inverse::launch(on, &back, &x, out))?
        .rust(Variant::Checked, checked::inverse::kernel(), |out| {
            checked::inverse::launch(on, &back, &x, out)
        })?
        .other(Variant::Twin, twin.inverse_kernel(), |out| {
            // SAFETY: as above.
            unsafe { twin.inverse(on, &back, &x, out) }
        })?
        .other(Variant::TwinPlain, twin_plain.inverse_kernel(), |out| {
            // SAFETY: as above.
            unsafe { twin_plain.inverse(on, &back, &x, out) }
        })?
        .copy(&x)
        .measure()?;
    Ok(vec![to, from])
}
