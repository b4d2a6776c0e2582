//! Seeded texture fetches and surface accesses, over raw calls of a driver.
//!
//! A [`Mode`] says what texture there is and how a kernel reads it. [`run`] builds the texture on a device, fetches
//! from it at [`FETCHES`] seeded coordinates, and returns the raw words. The program `texture-capture` records the
//! words on a GPU; a test of `cuda-emu` compares the software device with the recording. Both use the same modes, texels
//! and coordinates.

mod compare;
mod device;
mod goldens;
mod inputs;
mod kernel;
mod list;
mod modes;
mod probes;
mod random;

pub use compare::{Difference, describe, difference};
pub use device::{Call, Device, Mistake, run, run_wrong};
pub use goldens::{Golden, hash, pack, unpack};
pub use inputs::{FETCHES, INPUTS, inputs, texels};
pub use kernel::ptx;
pub use list::{mistakes, modes};
pub use modes::{Access, Content, Coordinates, Format, Geometry, Memory, Mode, Operation};
pub use probes::probes;
