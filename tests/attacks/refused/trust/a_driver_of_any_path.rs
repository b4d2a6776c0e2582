//! Loads any library as the driver: its constructor runs, and its functions are called by their names.
//!
//! - row: safe code loads no library by a path
//! - row: `Driver::load_from`, `Nvrtc::at`
//! - targets: `Driver::load_from`, `Driver::load`
//! - must: not compile E0133 "is unsafe"

use cuda_safe::{Driver, Result};

pub fn attack() -> Result<Driver> {
    let _ = Driver::load_from("libevil.so"); //~ refused
    Driver::load()
}
