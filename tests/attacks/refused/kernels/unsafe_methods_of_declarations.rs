//! Calls an `unsafe fn` of `kernels!`, and makes its struct of any module and of any source.
//!
//! - row: an `unsafe fn` of `kernels!`
//! - row: `from_module` of `kernels!`
//! - row: `load_from` of `kernels!`
//! - targets: `kernels!`, `LaunchConfig::cover`
//! - must: not compile E0133 "is unsafe"

use cuda_safe::{DeviceBuffer, LaunchConfig, Module, Result, Stream, kernels};

kernels! {
    pub struct Checked;
    unsafe in "" {
        unsafe fn fill(x: &mut [u32], n: u32);
    }
}

pub fn attack(k: &Checked, module: &Module, stream: &Stream, x: &mut DeviceBuffer<u32>) -> Result<()> {
    k.fill(stream, LaunchConfig::cover(32, 32), &mut *x, 99)?; //~ refused
    let _ = Checked::from_module(module); //~ refused
    let _ = Checked::load_from(&module.context(), ""); //~ refused
    stream.synchronize()
}
