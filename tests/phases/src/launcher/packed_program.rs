// A program as a user writes it, which `packed.rs` builds: its kernels have a pack.

use phases_tests::cuda_safe::kernel::{EmbeddedPack, Pack, embed_pack, kernel};
use phases_tests::cuda_safe::{self, DeviceBuffer, Driver, nvrtc::Arch};
use phases_tests::cuda_emu;

static PACK: EmbeddedPack = embed_pack!("kernels.pack");

#[kernel(crate = phases_tests::cuda_safe::kernel, pack = PACK)]
fn scale(by: u32, x: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| *out = by * x[i] + 1);
}

#[kernel(crate = phases_tests::cuda_safe::kernel, pack = PACK)]
fn modulo<const N: usize>(out: &mut [u32]) {
    each(out, |i, out| *out = (i % N) as u32);
}

/// What the test of a user's crate does.
fn write() -> cuda_safe::Result<bool> {
    let mut pack = Pack::open("kernels.pack")?;
    for kernel in [scale::kernel(), modulo::kernel::<3>(), modulo::kernel::<5>()] {
        pack.add(kernel, &[Arch::compute(7, 5)])?;
    }
    pack.save("kernels.pack")
}

fn run() -> cuda_safe::Result<Vec<u32>> {
    let stream = Driver::from_sys(cuda_emu::driver())?.device(0)?.context()?.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &[1u32, 2, 3])?;
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 3)?;
    scale::launch(&stream, 10, &x, &mut out)?;
    let mut all = out.to_vec(&stream)?;
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 7)?;
    modulo::launch::<_, _, 3>(&stream, &mut out)?;
    all.extend(out.to_vec(&stream)?);
    modulo::launch::<_, _, 5>(&stream, &mut out)?;
    all.extend(out.to_vec(&stream)?);
    Ok(all)
}

fn main() -> cuda_safe::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("write") => println!("changed: {}", write()?),
        _ => println!("{:?}", run()?),
    }
    Ok(())
}
