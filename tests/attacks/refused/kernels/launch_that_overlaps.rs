//! Says of a launch by its fields, without a promise, that it may overlap with the one before.
//!
//! - row: a programmatic launch is the caller
//! - row: `LaunchConfig::programmatic`
//! - targets: `LaunchConfig::is_programmatic`, `LaunchConfig::dynamic_shared_bytes`
//! - must: not compile E0616 "private"

use cuda_safe::LaunchConfig;

pub fn attack(launch: LaunchConfig) -> bool {
    let mut launch = launch.dynamic_shared_bytes(4);
    launch.programmatic = true; //~ refused
    launch.priority = Some(1);
    launch.is_programmatic()
}
