//! The first program: one Rust function, on a GPU if there is one, else on all cores. It needs no compiler of CUDA.

use std::time::Instant;

use cuda_safe::kernel::{EmbeddedPack, Memory, Place, embed_pack, kernel};
use cuda_safe::{Context, Result};

// PTX of the kernel, so that GPUs need no NVRTC. The test below writes it.
static PACK: EmbeddedPack = embed_pack!("saxpy.pack");

#[kernel(pack = PACK)]
fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len() && y.len() == out.len()); // checked before the launch
    each(out, |i, out| *out = a * x[i] + y[i]); // one thread for each element
}

fn main() -> Result<()> {
    let context = Context::new(0);
    let stream = context.as_ref().ok().map(Context::stream).transpose()?;
    let place = stream.as_ref().map_or(Place::Cpu, Place::Gpu);
    let name = match &context {
        Ok(context) => context.device().name()?,
        Err(_) => "the CPU (this machine has no CUDA device)".to_owned(),
    };

    let n = 1 << 24;
    let x: Vec<f32> = (0..n).map(|i| (i % 1000) as f32 * 0.001).collect();
    let y: Vec<f32> = (0..n).map(|i| (i % 777) as f32 * 0.01).collect();
    let (dx, dy) = (Memory::from_slice(place, &x)?, Memory::from_slice(place, &y)?);
    let mut out = Memory::<f32>::zeroed(place, n)?;
    saxpy::launch(place, 2.5, &dx, &dy, &mut out)?; // the first launch loads the kernel
    place.synchronize()?;
    let start = Instant::now();
    saxpy::launch(place, 2.5, &dx, &dy, &mut out)?;
    place.synchronize()?;
    let seconds = start.elapsed().as_secs_f64();

    let right =
        out.to_vec(place)?.iter().zip(x.iter().zip(&y)).all(|(out, (x, y))| *out == 2.5 * x + y);
    assert!(right, "the results are wrong");
    println!("saxpy on {name}: {n} results are right; {:.1} GB/s", 12.0 * n as f64 / seconds / 1e9);
    Ok(())
}

// Another profile has other C++, with checks of overflows.
#[cfg(not(debug_assertions))]
#[test]
fn the_pack_is_up_to_date() -> Result<()> {
    let mut pack = cuda_safe::kernel::Pack::open("saxpy.pack")?;
    pack.add(saxpy::kernel(), &[cuda_safe::nvrtc::Arch::compute(7, 5)])?;
    assert!(!pack.save("saxpy.pack")?, "saxpy.pack was old: commit it, and build again");
    Ok(())
}
