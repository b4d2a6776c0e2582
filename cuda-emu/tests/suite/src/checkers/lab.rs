//! The driver, called as a program in C would: nothing stands between the programs and what a checker
//! sees.

use std::ffi::{CString, c_void};
use std::ptr;

use cuda_safe::sys::{CUcontext, CUfunction, CUmodule, CUresult, CUstream, Driver, MissingSymbol};

use test_harness::{Failure, TestResult};

/// A context of a driver, current on this thread.
pub(super) struct Lab {
    driver: &'static Driver,
    context: CUcontext,
}

/// Fails with the driver's answer unless that is success.
#[track_caller]
fn success(answer: Result<CUresult, MissingSymbol>) -> TestResult {
    match answer? {
        CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(Failure::new(format!("the driver returned {code:?}"))),
    }
}

impl Lab {
    /// On the first device of the driver.
    pub(super) fn new(driver: &'static Driver) -> Result<Self, Failure> {
        let (mut device, mut context) = (0, ptr::null_mut());
        // SAFETY: both are valid places for what is written, and the flags are none.
        unsafe {
            success(driver.cuInit(0))?;
            success(driver.cuDeviceGet(&raw mut device, 0))?;
            success(driver.cuCtxCreate_v2(&raw mut context, 0, device))?;
        }
        Ok(Self { driver, context })
    }

    /// Destroys the context, with whatever is left in it.
    pub(super) fn close(self) -> TestResult {
        // SAFETY: the context is alive, and nothing of it is used from here on.
        success(unsafe { self.driver.cuCtxDestroy_v2(self.context) })
    }

    /// Memory of so many words, with nothing in it.
    pub(super) fn memory(&self, words: usize) -> Result<u64, Failure> {
        let mut at = 0;
        // SAFETY: `at` is a valid place for an address.
        success(unsafe { self.driver.cuMemAlloc_v2(&raw mut at, words * 4) })?;
        Ok(at)
    }

    /// Memory of so many words, all zero.
    pub(super) fn zeros(&self, words: usize) -> Result<u64, Failure> {
        let at = self.memory(words)?;
        // SAFETY: the memory has that many words.
        success(unsafe { self.driver.cuMemsetD32_v2(at, 0, words) })?;
        Ok(at)
    }

    /// Writes words to where `at` is.
    pub(super) fn upload(&self, at: u64, words: &[u32]) -> TestResult {
        // SAFETY: the source is a slice; the driver refuses what does not fit the memory.
        success(unsafe {
            self.driver.cuMemcpyHtoD_v2(at, words.as_ptr().cast(), size_of_val(words))
        })
    }

    /// Reads so many words.
    pub(super) fn download(&self, at: u64, words: usize) -> Result<Vec<u32>, Failure> {
        let mut read = vec![0_u32; words];
        // SAFETY: as above.
        success(unsafe { self.driver.cuMemcpyDtoH_v2(read.as_mut_ptr().cast(), at, words * 4) })?;
        Ok(read)
    }

    pub(super) fn free(&self, at: u64) -> TestResult {
        // SAFETY: the programs free what they have allocated, once.
        success(unsafe { self.driver.cuMemFree_v2(at) })
    }

    /// Runs the kernel of a text, in so many blocks and threads, to its end.
    pub(super) fn launch(
        &self,
        ptx: &str,
        (blocks, threads): (u32, u32),
        mut arguments: [u64; 2],
    ) -> TestResult {
        let text = CString::new(ptx)?;
        let (mut module, mut kernel): (CUmodule, CUfunction) = (ptr::null_mut(), ptr::null_mut());
        let [out, input] = &mut arguments;
        let mut list: [*mut c_void; 2] = [(&raw mut *out).cast(), (&raw mut *input).cast()];
        // SAFETY: the text ends in a zero; each kernel of `programs/` is called `program` and takes
        // two addresses. The module is unloaded when nothing of it runs any more.
        unsafe {
            success(self.driver.cuModuleLoadData(&raw mut module, text.as_ptr().cast()))?;
            success(self.driver.cuModuleGetFunction(&raw mut kernel, module, c"program".as_ptr()))?;
            success(self.driver.cuLaunchKernel(
                kernel,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                ptr::null_mut(),
                list.as_mut_ptr(),
                ptr::null_mut(),
            ))?;
            success(self.driver.cuCtxSynchronize())?;
            success(self.driver.cuModuleUnload(module))
        }
    }

    /// A stream.
    pub(super) fn stream(&self) -> Result<CUstream, Failure> {
        let mut stream = ptr::null_mut();
        // SAFETY: `stream` is a valid place for a handle.
        success(unsafe { self.driver.cuStreamCreate(&raw mut stream, 0) })?;
        Ok(stream)
    }
}
