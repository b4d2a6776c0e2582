//! Says of a launch by its fields, without a promise, that it may overlap with the one before.
//!
//! - row: a programmatic launch is the caller
//! - row: `Launch::programmatic`
//! - targets: `Launch::is_programmatic`, `Launch::shared`
//! - must: not compile E0616 "private"

use cuda_safe::Launch;

pub fn attack(launch: Launch) -> bool {
    let mut launch = launch.shared(4);
    launch.programmatic = true; //~ refused
    launch.priority = Some(1);
    launch.is_programmatic()
}
