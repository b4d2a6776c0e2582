//! Implements what an argument of a kernel is, with any address in it.
//!
//! - row: `DeviceRepr`
//! - targets: `Kernel::name`
//! - must: not compile E0200 "requires an `unsafe impl`"

use cuda_safe::{DeviceRepr, Kernel};

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Wild(pub u64);

impl DeviceRepr for Wild {} //~ refused

pub fn attack(kernel: &Kernel) -> &'static str {
    fn is_argument<T: DeviceRepr>() {}
    is_argument::<u64>();
    kernel.name()
}
