//! The launch that a method takes which [`kernels!`](crate::kernels) generates.

use super::{Dim3, LaunchConfig};
use crate::error::{Error, ErrorKind, Result};

/// A launch configuration: a [`LaunchConfig`], or a pair of grid and block.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no shape of a launch: pass a `LaunchConfig`, such as `LaunchConfig::cover(n, 256)`, \
               or `(grid, block)`",
    label = "neither a `LaunchConfig` nor `(grid, block)`"
)]
pub trait IntoLaunchConfig {
    /// Returns the launch.
    fn into_launch_config(self) -> LaunchConfig;
}

#[diagnostic::do_not_recommend]
impl IntoLaunchConfig for LaunchConfig {
    #[inline]
    fn into_launch_config(self) -> LaunchConfig {
        self
    }
}

impl<G: Into<Dim3>, B: Into<Dim3>> IntoLaunchConfig for (G, B) {
    #[inline]
    fn into_launch_config(self) -> LaunchConfig {
        self.into()
    }
}

/// Refuses launches that are larger than 1 in y or z, each where asked to. Most kernels compute
/// their index from x alone: two threads that differ in y would do the same work, and race.
///
/// # Errors
/// [`ErrorKind::Precondition`] names the first extent that is not 1.
#[inline]
pub fn in_x_alone(kernel: &'static str, launch: &LaunchConfig, y: bool, z: bool) -> Result<()> {
    let LaunchConfig { grid, block, .. } = launch;
    if (y && (block.y != 1 || grid.y != 1)) || (z && (block.z != 1 || grid.z != 1)) {
        return Err(beyond_x(kernel, launch, y));
    }
    Ok(())
}

/// Returns the error for the first extent that is not 1; those in z count if none in y does.
#[cold]
fn beyond_x(kernel: &'static str, launch: &LaunchConfig, y: bool) -> Error {
    let LaunchConfig { grid, block, .. } = launch;
    let (clause, name, value) = match (y && block.y != 1, y && grid.y != 1, block.z != 1) {
        (true, ..) => ("block.y == 1", "block.y", block.y),
        (false, true, _) => ("grid.y == 1", "grid.y", grid.y),
        (false, false, true) => ("block.z == 1", "block.z", block.z),
        (false, false, false) => ("grid.z == 1", "grid.z", grid.z),
    };
    let values = vec![(name, value.into())];
    Error::new(ErrorKind::Precondition { kernel, clause, values })
        .with_hint("it is launched in x alone, but for dimensions that its `where` names")
}
