//! A kernel that prints from the GPU, behind a C function: how C, Python or anything else that can
//! call a shared library gets at CUDA kernels written for Rust. See `hello.c` and `hello.py`.

use std::ffi::{CString, c_char, c_int};
use std::sync::Mutex;

use cuda_safe::{Context, LaunchConfig, Result, kernels};

kernels! {
    struct Kernels;
    // SAFETY: the kernel touches no memory.
    unsafe in r#"
        extern "C" __global__ void hello() {
            printf("hello from block %u, thread %u\n", blockIdx.x, threadIdx.x);
        }
    "# {
        safe fn hello();
    }
}

/// The last error, for [`hello_error`].
static ERROR: Mutex<Option<CString>> = Mutex::new(None);

fn run(blocks: u32, threads: u32) -> Result<()> {
    let context = Context::new(0)?;
    let stream = context.stream()?;
    Kernels::load(&context)?.hello(&stream, LaunchConfig::new(blocks, threads))?;
    // Output of kernels appears when the host waits for them.
    stream.synchronize()
}

/// Prints a line from each thread of `blocks` blocks of `threads` threads. Returns 0, or 1 if it
/// failed: then [`hello_error`] says why.
#[unsafe(no_mangle)]
pub extern "C" fn hello(blocks: u32, threads: u32) -> c_int {
    let Err(error) = run(blocks, threads) else { return 0 };
    // The text has no NUL inside: the driver's and the compiler's messages are C strings.
    let text = CString::new(error.to_string()).unwrap_or_default();
    if let Ok(mut last) = ERROR.lock() {
        *last = Some(text);
    }
    1
}

/// Why the last call failed; null if none did. Valid until the next call that fails.
#[unsafe(no_mangle)]
pub extern "C" fn hello_error() -> *const c_char {
    match ERROR.lock() {
        Ok(last) => last.as_ref().map_or(std::ptr::null(), |text| text.as_ptr()),
        Err(_) => std::ptr::null(),
    }
}
