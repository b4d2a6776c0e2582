//! `cargo xtask demo`: the project's main job, on this machine.

use xtask::Error;

use crate::process;
use crate::setup::{self, Major};

/// The exit code by which an example says that it compiled its kernel and found no device.
pub(crate) const NO_DEVICE: i32 = 3;

/// Sets up, then builds and runs `examples/saxpy`.
///
/// # Errors
/// The setup failed, or cargo could not be run.
pub(crate) fn demo() -> Result<bool, Error> {
    setup::setup(Major::choose(None))?;
    let mut example = process::cargo();
    example.args(["run", "--release", "--package", "saxpy"]);
    setup::name_nvrtc(&mut example)?;
    let status = process::status(&mut example)?;
    if status.code() == Some(NO_DEVICE) {
        println!("not run: there is no device here; the kernel was compiled, and not launched");
        return Ok(true);
    }
    Ok(status.success())
}
