//! The argument of an attack: the software device, and the operations that need unsafe code.

use std::cell::{Cell, OnceCell};
use std::fmt::Display;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use cuda_libs::{Blas, Config, CublasLibrary, CublasLtLibrary, CufftLibrary, CurandLibrary, Lt};
use cuda_nccl::Nccl;
use cuda_safe::{Context, DeviceBuffer, Driver, LaunchConfig, Stream, kernels};
use test_harness::{Failure, Outcome, TestResult, ensure, ensure_eq, limited_to, spawn_self};

use crate::attack::COMMAND;
use crate::framework::Framework;
use crate::witness;

kernels! {
    struct Kernels;
    // SAFETY: thread i writes element i of x, and only if i < n.
    unsafe in r#"
        extern "C" __global__ void after_the_attack(unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] = i + 1;
        }
    "# {
        safe fn after_the_attack(x: &mut [u32], n: u32) where n <= x.len();
    }
}

/// The device under attack.
pub(crate) struct Lab {
    driver: Driver,
    contexts: Vec<OnceCell<Context>>,
    refusals: Cell<usize>,
    /// How many communicators the attack leaks.
    kept: Cell<usize>,
    variant: String,
    step: String,
    name: String,
}

impl Lab {
    /// Opens the software device.
    pub(crate) fn new(name: &str, variant: &str, step: &str) -> Result<Self, Failure> {
        let driver = Driver::from_sys(cuda_emu::driver())?;
        let contexts = (0..driver.device_count()).map(|_| OnceCell::new()).collect();
        let (variant, step, name) = (variant.to_owned(), step.to_owned(), name.to_owned());
        let (refusals, kept) = (Cell::new(0), Cell::new(0));
        Ok(Self { driver, contexts, refusals, kept, variant, step, name })
    }

    /// Returns the context of the first device.
    pub(crate) fn context(&self) -> Result<Context, Failure> {
        self.context_of(0)
    }

    /// Returns the context of a device. An attack on more than one is listed with `.devices(2)`.
    pub(crate) fn context_of(&self, ordinal: usize) -> Result<Context, Failure> {
        let place = self.contexts.get(ordinal);
        let place = place.ok_or_else(|| Failure::new(format!("there is no device {ordinal}")))?;
        if let Some(context) = place.get() {
            return Ok(context.clone());
        }
        let context = self.driver.device(ordinal)?.context()?;
        Ok(place.get_or_init(|| context).clone())
    }

    /// Returns a new stream of the first device.
    pub(crate) fn stream(&self) -> Result<Stream, Failure> {
        Ok(self.context()?.stream()?)
    }

    /// Returns a stand-in for a framework on the first device, with a stream of its own or the legacy stream.
    pub(crate) fn framework(&self, legacy: bool) -> Result<Framework, Failure> {
        Framework::new(self.context()?, legacy)
    }

    /// Returns a stand-in for NCCL, and notes what is wrong about its calls. Each call makes another library.
    pub(crate) fn nccl(&self) -> Result<&'static Nccl, Failure> {
        witness::library()
    }

    /// Returns a new `Blas` of the first device on the stand-in of cuBLAS, with two small workspaces.
    pub(crate) fn blas(&self) -> Result<Blas, Failure> {
        static LIBRARY: OnceLock<Result<CublasLibrary, String>> = OnceLock::new();
        blas_emu::use_driver(self.driver.as_sys());
        // SAFETY: the stand-in has the functions of `cublas_api.h`, and calls the driver of the lab.
        let load = || unsafe { CublasLibrary::from_resolver(&blas_emu::resolve) };
        let library = LIBRARY.get_or_init(|| load().map_err(|error| error.to_string()));
        let library = library.clone().map_err(Failure::new)?;
        let config = Config::new().library(library).workspace_bytes(1 << 16).workspaces(2);
        Ok(Blas::with(&self.context()?, &config)?)
    }

    /// Returns the stand-ins of cuFFT and cuRAND.
    pub(crate) fn transforms(&self) -> Result<(CufftLibrary, CurandLibrary), Failure> {
        blas_emu::use_driver(self.driver.as_sys());
        // SAFETY: the stand-ins have the functions of the headers, and call the driver of the lab.
        let cufft = unsafe { CufftLibrary::from_resolver(&blas_emu::resolve) }?;
        // SAFETY: as above.
        Ok((cufft, unsafe { CurandLibrary::from_resolver(&blas_emu::resolve) }?))
    }

    /// Returns a new `Lt` of the first device on the stand-in of cuBLASLt.
    pub(crate) fn lt(&self) -> Result<Lt, Failure> {
        // SAFETY: the stand-in has the functions of `cublasLt.h`, and calls the driver of the lab.
        let library = unsafe { CublasLtLibrary::from_resolver(&blas_emu::resolve) }?;
        Ok(Lt::with(&self.blas()?, library)?)
    }

    /// Lets kernels of aborted ranks run on for a time, and write to the memory of their peers.
    pub(crate) fn kernels_outlive_aborts(&self) {
        witness::kernels_outlive_aborts();
    }

    /// Says how many communicators the attack leaks.
    pub(crate) fn leaks_communicators(&self, count: usize) {
        self.kept.set(count);
    }

    /// Checks that no rule of NCCL was broken, and that all communicators are gone but those that were leaked.
    pub(crate) fn communicators_are_gone(&self) -> TestResult {
        witness::check(self.kept.get())
    }

    /// Runs a closure in a child that is made by `fork`, and returns whether it returned `true` within 10 s.
    #[cfg(unix)]
    pub(crate) fn in_fork(&self, act: impl FnOnce() -> bool) -> Result<bool, Failure> {
        // SAFETY: the child runs the closure, a program in safe code, and ends without handlers of the exit.
        let child = unsafe { libc::fork() };
        ensure!(child >= 0, "fork failed");
        if child == 0 {
            let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!held.unwrap_or(false))) };
        }
        for _ in 0..2000 {
            let mut status = 0;
            // SAFETY: `status` is valid for the write.
            let ended = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
            ensure!(ended >= 0, "the child is not there");
            if ended == child {
                return Ok(status == 0);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // SAFETY: the child was not waited for, so the number is its own.
        let _ = unsafe {
            (libc::kill(child, libc::SIGKILL), libc::waitpid(child, std::ptr::null_mut(), 0))
        };
        Ok(false)
    }

    /// Returns the variant of the attack that runs.
    pub(crate) fn variant(&self) -> &str {
        &self.variant
    }

    /// Checks that a call was refused, with this text in the error.
    ///
    /// An error code of the driver is no refusal, unless the text names it.
    #[track_caller]
    pub(crate) fn refused<T, E: Display>(&self, result: Result<T, E>, text: &str) -> TestResult {
        let Err(error) = result else { return Err(Failure::new("the call was not refused")) };
        let error = error.to_string();
        if !error.contains(text) {
            return Err(Failure::new(format!("the error has no `{text}`: {error}")));
        }
        if error.contains("CUDA_ERROR_") && !text.contains("CUDA_ERROR_") {
            return Err(Failure::new(format!("the driver refused it, not the crate: {error}")));
        }
        self.refusals.set(self.refusals.get() + 1);
        Ok(())
    }

    /// Runs this attack once more, in a process of its own: there, [`step`](Self::step) returns `step`. The caller
    /// sets folder and variables of the process, and runs it with `limited_to`.
    pub(crate) fn again(&self, step: &str) -> Result<Command, Failure> {
        Ok(spawn_self(&[COMMAND, &self.name, &self.variant, step])?)
    }

    /// Returns the step that [`again`](Self::again) was given; empty in the first process.
    pub(crate) fn step(&self) -> &str {
        &self.step
    }

    /// Makes the context of a device current on this thread, or none, as another library may.
    pub(crate) fn make_current(&self, ordinal: Option<usize>) -> TestResult {
        let raw = match ordinal {
            Some(ordinal) => self.context_of(ordinal)?.as_raw(),
            None => std::ptr::null_mut(),
        };
        // SAFETY: the context lives as long as `self`, which keeps a handle to it, or is null.
        let code = unsafe { self.driver.as_sys().cuCtxSetCurrent(raw) }?;
        ensure_eq!(code, cuda_safe::sys::CUresult::CUDA_SUCCESS);
        Ok(())
    }

    /// Returns the device whose context is current on this thread, if it is one of the lab's.
    pub(crate) fn current(&self) -> Result<Option<usize>, Failure> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the driver writes one handle.
        let code = unsafe { self.driver.as_sys().cuCtxGetCurrent(&raw mut raw) }?;
        ensure_eq!(code, cuda_safe::sys::CUresult::CUDA_SUCCESS);
        let same =
            |place: &OnceCell<Context>| place.get().is_some_and(|context| context.as_raw() == raw);
        match self.contexts.iter().position(same) {
            None if !raw.is_null() => Err(Failure::new("a stranger is current")),
            found => Ok(found),
        }
    }

    /// Returns whether a call was refused.
    pub(crate) fn has_refused(&self) -> bool {
        self.refusals.get() > 0
    }

    /// Checks what holds after every attack: each device launches and copies, and no drop met an error.
    pub(crate) fn finish(&self) -> TestResult {
        self.communicators_are_gone()?;
        let mut met = Vec::new();
        for ordinal in 0..self.contexts.len() {
            let context = self.context_of(ordinal)?;
            context.synchronize()?;
            let stream = context.stream()?;
            let mut x = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
            Kernels::load(&context)?.after_the_attack(
                &stream,
                LaunchConfig::cover(1000, 128),
                &mut x,
                1000,
            )?;
            let seen = x.to_vec(&stream)?;
            ensure!(
                seen.iter().copied().eq(1..=1000),
                "the device is no longer usable: {:?}",
                &seen[..9]
            );
            drop((x, stream));
            context.free_deferred()?;
            met.extend(context.take_drop_errors().iter().map(ToString::to_string));
        }
        ensure!(met.is_empty(), "drops met errors: {met:?}");
        Ok(())
    }
}

/// Builds a library whose constructor makes the file `made`: what loads it runs code.
pub(crate) fn constructor_library(library: &Path, made: &Path) -> TestResult {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("constructor.rs");
    let text = format!(
        "extern \"C\" fn run() {{ let _ = std::fs::write({:?}, \"the constructor ran\"); }}\n\
         #[used]\n\
         #[unsafe(link_section = \".init_array\")]\n\
         static RUN: extern \"C\" fn() = run;\n",
        std::path::absolute(made)?
    );
    std::fs::write(&source, text)?;
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    command.args(["--edition=2024", "--crate-name=constructor", "--crate-type=cdylib"]);
    command.arg("-Cpanic=abort").arg("-o").arg(library).arg(&source);
    let Outcome { status, stdout, stderr } = limited_to(command, 60)?;
    ensure!(status.success(), "the library could not be built: {status}\n{stdout}{stderr}");
    Ok(())
}
