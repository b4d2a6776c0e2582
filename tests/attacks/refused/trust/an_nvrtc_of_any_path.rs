//! Loads a compiler from a path.
//!
//! - row: safe code loads no library by a path
//! - targets: `Nvrtc::find`
//! - must: not compile E0133 "unsafe"

use nvrtc::{Error, Nvrtc};

pub fn attack() -> Result<[Nvrtc; 1], Error> {
    let found = Nvrtc::find()?;
    Nvrtc::at("./libnvrtc.so")?; //~ refused
    Nvrtc::load_from("/tmp/libnvrtc.so")?; //~ refused
    Ok([found])
}
