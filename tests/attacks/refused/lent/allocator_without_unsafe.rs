//! Gives memory for buffers that nobody has allocated.
//!
//! - row: `Allocate`
//! - targets: `LentStream::set_allocator`
//! - must: not compile E0200 "unsafe"

use cuda_safe::sys::CUstream;
use cuda_safe::{Allocate, Context, Lease, LentStream, Result};

pub struct Nowhere;

impl Allocate for Nowhere { //~ refused
    fn allocate(&self, _: &Context, _: usize, _: CUstream) -> Result<Lease> { //~ refused
        Ok(Lease { start: 4096, token: Box::new(()) }) //~ refused
    } //~ refused
} //~ refused

pub fn attack(lent: &LentStream) {
    let _ = lent;
    #[cfg(any())]
    lent.set_allocator(Nowhere);
}
