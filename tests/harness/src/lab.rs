//! What most host tests start with: a recording driver, its context, and kernels to launch.

use std::sync::Arc;

use cuda_safe::{Context, Driver, Kernel, Module};

use crate::Failure;
use crate::table::{Behaviour, Installed, Recorder, driver_without};

/// Kernels that do nothing: nothing runs on this driver. The numbers in the names are how many
/// addresses they take after the first parameter.
pub const PTX: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry saxpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u64 out, .param .u64 n)
{ ret; }
.visible .entry one(.param .u64 id, .param .u64 a) { ret; }
.visible .entry two(.param .u64 id, .param .u64 a, .param .u64 b) { ret; }
.visible .entry nothing() { ret; }
";

pub struct Lab {
    pub context: Context,
    pub recorder: Arc<Recorder>,
    // Last: what the fields above do when they are dropped is still recorded.
    pub installed: Installed,
}

impl Lab {
    pub fn new() -> Result<Self, Failure> {
        Self::with(Behaviour::default(), &[])
    }

    /// With a driver that lacks the functions in `without`.
    pub fn with(behaviour: Behaviour, without: &[&str]) -> Result<Self, Failure> {
        let recorder = Recorder::new(behaviour);
        let installed = recorder.install();
        let driver = Driver::from_sys(driver_without(without))?;
        let context = driver.device(0)?.context()?;
        Ok(Self { context, recorder, installed })
    }

    /// A kernel of [`PTX`].
    pub fn kernel(&self, name: &str) -> Result<Kernel, Failure> {
        Ok(Module::from_ptx(&self.context, PTX)?.kernel(name)?)
    }

    /// The names of the calls that `act` makes.
    pub fn calls<R>(
        &self,
        act: impl FnOnce() -> cuda_safe::Result<R>,
    ) -> Result<(Vec<&'static str>, R), Failure> {
        self.recorder.take();
        let value = act()?;
        Ok((self.recorder.names(), value))
    }

    /// Closes the context; then everything must have been given back, once.
    pub fn close(self) -> Result<(), Failure> {
        let errors = self.context.take_drop_errors();
        if !errors.is_empty() {
            return Err(Failure::new(format!("drops met errors: {errors:?}")));
        }
        self.context.close().map_err(|error| Failure::new(format!("close: {error}")))?;
        let alive = self.recorder.alive();
        if !alive.is_empty() {
            return Err(Failure::new(format!("not given back: {alive:?}")));
        }
        let twice = self.recorder.undone_twice();
        if !twice.is_empty() {
            return Err(Failure::new(format!("given back twice: {twice:?}")));
        }
        Ok(())
    }
}
