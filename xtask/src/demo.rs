//! `cargo xtask demo`: the project's main job, on this machine.

use xtask::Error;

use crate::process;
use crate::setup::{self, Major};

/// The exit code by which an example says that it found no device.
pub(crate) const NO_DEVICE: i32 = 3;

/// The kernels of the example, for where they can only be compiled.
const KERNELS: &str = "examples/saxpy/src/saxpy.cu";

/// Sets up, then builds and runs `examples/saxpy`; without a device, compiles its kernels.
///
/// # Errors
/// The setup failed, or cargo could not be run.
pub(crate) fn demo() -> Result<bool, Error> {
    setup::setup(Major::choose(None))?;
    let mut example = process::cargo();
    example.args(["run", "--release", "--package", "saxpy"]);
    setup::name_nvrtc(&mut example)?;
    let status = process::status(&mut example)?;
    if status.code() != Some(NO_DEVICE) {
        return Ok(status.success());
    }
    println!("\nnot run: there is no device here. What can be done without one: compiling");
    let mut compile = process::cargo();
    compile.args(["run", "--release", "--quiet", "--package", "nvrtc", "--example", "compile"]);
    setup::name_nvrtc(compile.args(["--", KERNELS]))?;
    Ok(process::status(&mut compile)?.success())
}
