//! Passes references of the host, buffers of other elements, and what a visitor was shown, to kernels.
//!
//! - row: `KernelArg`
//! - row: `KernelArgs`
//! - row: arguments have the number, sizes, classes
//! - targets: `EachArg::each`, `kernels!`
//! - must: not compile E0277 "passed to a kernel by value"

use cuda_safe::{DeviceBuffer, KernelArg, Result, Stream, kernels, arg::{ArgVisitor, EachArg, KernelArgs}};

kernels! {
    pub struct Kernels;
    unsafe in "" {
        safe fn fill(x: &mut [u32], n: u32) where n <= x.len();
    }
}

pub struct Visits;

impl ArgVisitor for Visits {
    fn visit<A: KernelArg>(&mut self, _: usize, _: &A) -> Result<()> {
        Ok(())
    }
}

pub fn attack(k: &Kernels, stream: &Stream, mut x: DeviceBuffer<u32>, mut host: Vec<u32>) -> Result<()> {
    fn are_arguments<T: KernelArgs>(_: T) {}
    are_arguments((&mut host,)); //~ refused
    are_arguments((&host[0],)); //~ refused
    are_arguments(("text", 1u8)); //~ refused
    k.fill(stream, (1, 32), &mut host, 1)?; //~ refused
    host.clear();
    are_arguments((&x, 1u32));
    (&mut x, 4u32).each(&mut Visits)
}
