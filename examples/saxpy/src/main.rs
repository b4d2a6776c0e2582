//! CUDA C++ text, compiled at run time, launched on a GPU over typed buffers, checked on the host.

use cuda_safe::vector::Float4;
use cuda_safe::{Context, DeviceBuffer, Event, LaunchConfig, Result, Stream, kernels};

const BLOCK: u32 = 512;

kernels! {
    struct Kernels;
    // SAFETY: thread i touches element i of each array, and only if i < n.
    unsafe in include_str!("saxpy.cu") {
        safe fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32], n: usize = x.len()) over n
            where y.len() == n, out.len() == n;
        // Without `over`, the caller chooses the launch.
        safe fn saxpy4(
            a: f32, x: &[Float4], y: &[Float4], out: &mut [Float4], n: usize = x.len(),
        ) where y.len() == n, out.len() == n;
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let context = Context::new(0).unwrap_or_else(|error| {
        eprintln!("no device to run on: {error}");
        std::process::exit(3)
    });
    let device = context.device().name()?;
    println!("device: {device}");
    run(&context, device.contains("software"))?;
    // Optional: frees what the context keeps for reuse, which otherwise the process's end does.
    Ok(context.close()?)
}

fn run(context: &Context, software: bool) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let stream = context.stream()?;
    let kernels = Kernels::load(context)?;

    // How fast a software device is says nothing about a GPU, so little is enough there.
    let (n, launches) = if software { (1 << 20, 1) } else { (1 << 24, 20) };
    let a = 2.5;
    let x: Vec<f32> = (0..n).map(|i| (i % 1000) as f32 * 0.001).collect();
    let y: Vec<f32> = (0..n).map(|i| (i % 777) as f32 * 0.01).collect();
    let dx = DeviceBuffer::from_slice(&stream, &x)?;
    let dy = DeviceBuffer::from_slice(&stream, &y)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;

    // A copy reads one array and writes one; saxpy moves three arrays' worth of bytes.
    let copy = time(&stream, launches, || out.copy_from(&stream, &dx))? * 1.5;
    let copy = (!software).then_some(copy);
    if let Some(copy) = copy {
        println!("device copy of as many bytes: {copy:.4} ms");
    }

    out.fill(&stream, f32::NAN)?;
    let ms = time(&stream, launches, || kernels.saxpy(&stream, a, &dx, &dy, &mut out))?;
    verify(a, &x, &y, &out.to_vec(&stream)?)?;
    report("one float a thread", n, ms, copy);

    out.fill(&stream, f32::NAN)?;
    let (dx4, dy4) = (dx.as_slice().cast()?, dy.as_slice().cast()?);
    let ms = time(&stream, launches, || {
        let launch = LaunchConfig::cover(n / 4, BLOCK);
        kernels.saxpy4(&stream, launch, a, dx4, dy4, out.as_slice_mut().cast_mut()?)
    })?;
    verify(a, &x, &y, &out.to_vec(&stream)?)?;
    report("one float4 a thread", n, ms, copy);
    Ok(())
}

/// Milliseconds of one run: the mean over several between two events, after one to warm up.
fn time(stream: &Stream, launches: u32, mut run: impl FnMut() -> Result<()>) -> Result<f32> {
    let (start, end) = (Event::timing(&stream.context())?, Event::timing(&stream.context())?);
    run()?;
    start.record(stream)?;
    (0..launches).try_for_each(|_| run())?;
    end.record(stream)?;
    Ok(start.elapsed_ms(&end)? / launches as f32)
}

/// Compares with the host. The compiler may round the product before the sum, or not.
fn verify(a: f32, x: &[f32], y: &[f32], out: &[f32]) -> std::result::Result<(), String> {
    for (i, ((x, y), out)) in x.iter().zip(y).zip(out).enumerate() {
        if *out != a * x + y && *out != a.mul_add(*x, *y) {
            return Err(format!("element {i} is {out}, not {}", a * x + y));
        }
    }
    Ok(())
}

fn report(name: &str, n: usize, ms: f32, copy: Option<f32>) {
    let speed = copy.map_or(String::new(), |copy| {
        let (speed, share) = (12.0 * n as f32 / ms / 1e6, copy / ms * 100.0);
        format!("{ms:.4} ms, {speed:.0} GB/s, {share:.1}% of the copy; ")
    });
    println!("saxpy, {name}: {speed}all {n} right");
}
