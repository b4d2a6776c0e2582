//! Measures what this crate adds to NVRTC: cold compiles beside the bare calls, interleaved in one
//! process, and the time from source to image in fresh processes that find it in the cache.
//!
//! `cargo run --release -p nvrtc --example timing [path to NVRTC]`

use std::error::Error;
use std::ffi::{CStr, c_char};
use std::process::Command;
use std::ptr;
use std::time::{Duration, Instant};

use cuda_safe_nvrtc::{Arch, Cache, CacheStatus, Nvrtc, Program};

const SOURCE: &str = "extern \"C\" __global__ void saxpy(float a, const float* x, const float* y, float* out, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}";
const ROUNDS: usize = 21;
/// Set for the fresh processes: the cache's folder.
const CHILD: &str = "NVRTC_TIMING_CACHE";

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1);
    let library = || match &path {
        None => Nvrtc::find(),
        // SAFETY: the user who passes the path says that it is an NVRTC.
        Some(path) => unsafe { Nvrtc::at(path) },
    };
    if let Some(folder) = std::env::var_os(CHILD) {
        let begin = Instant::now();
        let image = Program::new(SOURCE)
            .library(&library()?)
            .cache(&Cache::at(folder))
            .compile(Arch::sm(9, 0))?;
        println!("{} {}", begin.elapsed().as_nanos(), image.cache == CacheStatus::Hit);
        return Ok(());
    }

    let library = library()?;
    library.version()?;
    let file = library.path().ok_or("no file")?;
    println!("NVRTC {} at {}", library.version()?, file.display());
    // SAFETY: the NVRTC that was loaded above.
    let raw = unsafe { cuda_sys::Nvrtc::load_from(file) }?;
    let folder = tempfile::tempdir()?;
    let caches = [Cache::off(), Cache::at(folder.path())];
    let mut times: [Vec<Duration>; 3] = Default::default();
    for round in 0..ROUNDS {
        // A new text each time, or the caching cache would find it.
        let source = format!("{SOURCE}\n// {round}");
        let begin = Instant::now();
        compile_bare(raw, &format!("{source}\0"))?;
        times[0].push(begin.elapsed());
        for (cache, times) in caches.iter().zip(&mut times[1..]) {
            let begin = Instant::now();
            Program::new(&*source).library(&library).cache(cache).compile(Arch::sm(9, 0))?;
            times.push(begin.elapsed());
        }
    }
    let [bare, off, on] = times.map(median);
    let percent = |t: Duration| (t.as_secs_f64() / bare.as_secs_f64() - 1.0) * 100.0;
    println!(
        "bare calls {bare:.2?}; cache off {off:.2?} ({:+.2} %); cache filled {on:.2?} ({:+.2} %)",
        percent(off),
        percent(on)
    );

    Program::new(SOURCE).library(&library).cache(&caches[1]).compile(Arch::sm(9, 0))?;
    let mut hits = Vec::new();
    for _ in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe()?);
        let output = child.args(std::env::args_os().skip(1)).env(CHILD, folder.path()).output()?;
        let text = String::from_utf8(output.stdout)?;
        let (nanos, hit) = text.trim().split_once(' ').ok_or("the child failed")?;
        assert_eq!(hit, "true", "the image was not in the cache");
        hits.push(Duration::from_nanos(nanos.parse()?));
    }
    let slowest = hits.iter().max().copied().unwrap_or_default();
    println!("from the cache, fresh process: median {:.0?}, slowest {slowest:.0?}", median(hits));
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// `nvrtcCreateProgram` to `nvrtcGetCUBIN` and `nvrtcGetPTX`, as a C program would.
fn compile_bare(raw: &cuda_sys::Nvrtc, source: &str) -> Result<usize, Box<dyn Error>> {
    let source = CStr::from_bytes_with_nul(source.as_bytes())?;
    let flags: [*const c_char; 1] = [c"--gpu-architecture=sm_90".as_ptr()];
    let mut program = ptr::null_mut();
    let (mut cubin_size, mut ptx_size) = (0, 0);
    // SAFETY: strings end with NUL and outlive the calls; the counts are those of the arrays; the
    // buffers are as large as NVRTC says; the program is used only between its creation and its end.
    let codes = unsafe {
        let create = raw.nvrtcCreateProgram(
            &raw mut program,
            source.as_ptr(),
            c"a.cu".as_ptr(),
            0,
            ptr::null(),
            ptr::null(),
        )?;
        let compile = raw.nvrtcCompileProgram(program, 1, flags.as_ptr())?;
        raw.nvrtcGetCUBINSize(program, &raw mut cubin_size)?;
        raw.nvrtcGetPTXSize(program, &raw mut ptx_size)?;
        let (mut cubin, mut ptx) = (vec![0_u8; cubin_size], vec![0_u8; ptx_size]);
        let get_cubin = raw.nvrtcGetCUBIN(program, cubin.as_mut_ptr().cast())?;
        let get_ptx = raw.nvrtcGetPTX(program, ptx.as_mut_ptr().cast())?;
        raw.nvrtcDestroyProgram(&raw mut program)?;
        [create, compile, get_cubin, get_ptx]
    };
    match codes.iter().find(|code| code.0 != 0) {
        Some(code) => Err(format!("{code:?}").into()),
        None => Ok(cubin_size + ptx_size),
    }
}
