//! A kernel that prints from the GPU, behind a C function: how C, Python or anything else that can call a shared library
//! uses CUDA kernels of a Rust crate. `hello.h` declares the functions; `hello.c`, `hello.py` (ctypes) and
//! `hello_cython.pyx` call them. `examples/torch-op` is such a library for tensors of PyTorch.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};

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

thread_local! {
    /// The text of this thread's last error. Threads that call at the same time do not see each other's.
    static ERROR: RefCell<CString> = RefCell::default();
}

fn run(blocks: u32, threads: u32) -> Result<()> {
    let context = Context::new(0)?;
    let stream = context.stream()?;
    Kernels::load(&context)?.hello(&stream, LaunchConfig::new(blocks, threads))?;
    // Output of kernels appears when the host waits for them.
    stream.synchronize()
}

/// Prints a line from each thread of `blocks` blocks of `threads` threads. Returns 0, or 1 if it failed: then
/// [`hello_error`] returns the reason.
#[unsafe(no_mangle)]
pub extern "C" fn hello(blocks: u32, threads: u32) -> c_int {
    let Err(error) = run(blocks, threads) else { return 0 };
    // A C string ends at its first NUL; messages of the driver and the compiler have none.
    let text = CString::new(error.to_string()).unwrap_or_default();
    // Fails only while the thread ends.
    let _ = ERROR.try_with(|last| last.replace(text));
    1
}

/// Returns the text of the calling thread's last error; empty if there was none. It is valid until the thread's next error.
#[unsafe(no_mangle)]
pub extern "C" fn hello_error() -> *const c_char {
    ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
