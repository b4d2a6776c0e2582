//! From an image, and from cached source text, to a kernel.

use std::process::Command;
use std::time::Instant;

use cuda_safe::Module;
use nvrtc::{Cache, Program};
use serde_json::{Value, json};

use super::{Bench, Work};
use crate::gpu::{Gpu, SAXPY_CU};
use crate::raw::{check, need};
use crate::report::{Row, Unit};
use crate::stats::median;
use crate::stop::Stop;
use crate::timing::{Paired, once};

pub(super) const WORKS: &[Work] = &[
    Work { names: &["module_load/cubin"], run: module_load },
    Work { names: &["cached_source_to_kernel/saxpy"], run: cached },
    Work { names: &["noop/cached_source_to_kernel/saxpy"], run: cached_noop },
];

fn module_load(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let program = Program::new(SAXPY_CU).name("saxpy.cu").library(&bench.nvrtc()?);
    let image = program.compile(gpu.device.arch()?)?;
    let cubin = image.cubin.as_deref().ok_or_else(|| Stop::NotRun(no_cubin(&image)))?;
    let sys = gpu.driver.as_sys().fns();
    let load = need(sys.cuModuleLoadData, "cuModuleLoadData")?;
    let unload = need(sys.cuModuleUnload, "cuModuleUnload")?;
    let current = need(sys.cuCtxSetCurrent, "cuCtxSetCurrent")?;
    // SAFETY: the context is alive for the run. Ours needs none current and changes none.
    check("cuCtxSetCurrent", unsafe { current(gpu.context.as_raw()) })?;
    let raw = || {
        let mut module = std::ptr::null_mut();
        let (time, ()) = once(|| {
            // SAFETY: `module` takes a handle; the cubin is whole; a context is current.
            let code = unsafe { load(&raw mut module, cubin.as_ptr().cast()) };
            Ok(check("cuModuleLoadData", code)?)
        })?;
        // SAFETY: loaded above, and nothing of it is used.
        check("cuModuleUnload", unsafe { unload(module) })?;
        Ok(time / 1e6)
    };
    let mut ours = || {
        let (time, module) = once(|| Ok(Module::load(&gpu.context, &image)?))?;
        drop(module);
        // Dropping put it into the bin; both ways are measured without old modules about.
        gpu.context.free_deferred()?;
        Ok(time / 1e6)
    };
    let paired = Paired::measure(bench.pairs, &mut ours, &raw)?;
    let kernel = Module::load(&gpu.context, &image)?.kernel("saxpy")?;
    // SAFETY: a thread may have no current context.
    check("cuCtxSetCurrent", unsafe { current(std::ptr::null_mut()) })?;
    let (raw, ratio, aa) = (median(&paired.raw), paired.ratio().median, paired.aa_ratio());
    Ok(vec![
        Row::new("module_load/cubin", Unit::Ms, &paired.ours)
            .figure("raw_ms", raw)
            .figure("ratio", ratio)
            .figure("aa_ratio", aa)
            .note(format!("raw {raw:.4}, ratio {ratio:.3}, A/A {aa:.3}"))
            .check("the kernel is in it")
            .image(gpu.image_of(&kernel)?)
            .device(&gpu.name),
    ])
}

fn no_cubin(image: &nvrtc::Image) -> String {
    format!("this NVRTC gives no cubin for the device, only {}", image.arch)
}

fn cached(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let device = bench.gpu()?.name.clone();
    let row = in_children("cached_source_to_kernel/saxpy", bench, "gpu")?;
    Ok(vec![row.device(device)])
}

/// The same without what the driver's own loading takes.
fn cached_noop(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let row = in_children("noop/cached_source_to_kernel/saxpy", bench, "noop")?;
    Ok(vec![row.device("no-op table")])
}

/// Source text to kernel in fresh processes whose disk cache is warm.
fn in_children(work: &str, bench: &Bench, driver: &str) -> Result<Row, Stop> {
    let folder = tempfile::tempdir()?;
    let run = || -> Result<Value, Stop> {
        let output = Command::new(std::env::current_exe()?)
            .args(["--cached-child", driver, "--device", &bench.ordinal.to_string()])
            .env("CUDA_KERNEL_CACHE", folder.path())
            .output()?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
            return Err(match text.strip_prefix("not run: ") {
                Some(reason) => Stop::NotRun(reason.to_owned()),
                None => Stop::failed(format!("the child ended with {}: {text}", output.status)),
            });
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    // The first one compiles, and leaves image and facts about the compiler in the cache.
    if run()?["hit"] != false {
        return Err(Stop::failed("an empty cache had the image"));
    }
    let (mut times, mut image) = (Vec::new(), String::new());
    for _ in 0..bench.samples {
        let answer = run()?;
        if answer["hit"] != true {
            return Err(Stop::failed("the image was not in the cache"));
        }
        if answer["nvrtc_mapped"] != false {
            return Err(Stop::failed("libnvrtc is mapped in a process that compiled nothing"));
        }
        let time = answer["ns"].as_f64().ok_or_else(|| Stop::failed("the child told no time"))?;
        times.push(time / 1e6);
        image = answer["image"].as_str().unwrap_or_default().to_owned();
    }
    let slowest = times.iter().copied().fold(0.0, f64::max);
    Ok(Row::new(work, Unit::Ms, &times)
        .note(format!("slowest {slowest:.3}"))
        .check("cache hit; libnvrtc not in /proc/self/maps of any child")
        .image(image)
        .at_most("ms", median(&times), 2.0))
}

/// The fresh process: creates a context, and then, timed, a kernel from source text. Prints one JSON object.
///
/// # Errors
/// Whatever does not work.
pub(crate) fn child(driver: &str, ordinal: usize) -> Result<(), Stop> {
    let gpu = if driver == "noop" { Gpu::noop()? } else { Gpu::system(ordinal)? };
    let begin = Instant::now();
    let kernel = Module::compile(&gpu.context, SAXPY_CU)?.kernel("saxpy")?;
    let time = begin.elapsed().as_secs_f64() * 1e9;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let answer = json!({
        "ns": time,
        "hit": Cache::user().stats().hits > 0,
        "nvrtc_mapped": maps.contains("libnvrtc"),
        "image": gpu.image_of(&kernel)?,
    });
    println!("{answer}");
    Ok(())
}
