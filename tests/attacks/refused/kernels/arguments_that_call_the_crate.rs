//! Implements an argument whose `abi` and `uses` call the crate, which holds locks then.
//!
//! - row: the closures of `Stream::enqueue`
//! - row: `KernelArg`
//! - targets: `Stream::synchronize`
//! - must: not compile E0200 "requires an `unsafe impl`"

use cuda_safe::{KernelArg, Result, Stream, arg::{ArgType, UseVisitor}};

pub struct Reenters(pub Stream);

impl KernelArg for Reenters { //~ refused
    type Abi = u64; //~ refused
    const TYPE: ArgType = ArgType::value::<u64>(); //~ refused
    fn abi(&self) -> u64 { //~ refused
        u64::from(self.0.synchronize().is_ok()) //~ refused
    } //~ refused
    fn uses<V: UseVisitor>(&self, _: &mut V) -> Result<()> { //~ refused
        self.0.synchronize() //~ refused
    } //~ refused
} //~ refused

pub fn attack<A: KernelArg>(argument: &A, asks: &mut impl UseVisitor, own: &Stream) -> Result<ArgType> {
    argument.uses(asks)?;
    own.synchronize()?;
    Ok(A::TYPE)
}
