//! Makes ranks whose calls nothing compares, records calls, and takes functions for NCCL's, without a promise.
//!
//! - row: NCCL is never called by ranks of one process that disagree
//! - row: NCCL is given no handle of another driver
//! - targets: `Communicator::new`, `Communicator::new_with`, `Communicator::allow_recording`, `Nccl::load_from`,
//!   `Nccl::from_resolver`
//! - must: not compile E0133 "is unsafe"

use cuda_nccl::{Communicator, Config, Nccl, Result, UniqueId};
use cuda_safe::Context;

pub fn attack(context: &Context, rank: &mut Communicator, config: &Config) -> Result<()> {
    let id = UniqueId::new()?;
    Communicator::new(id, 2, 0, context)?; //~ refused
    Communicator::new_with(id, 2, 0, context, config)?; //~ refused
    rank.allow_recording(); //~ refused
    Nccl::load_from("libnccl.so.2")?; //~ refused
    Nccl::from_resolver(&|_| std::ptr::null())?; //~ refused
    rank.check()
}
