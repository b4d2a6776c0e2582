//! Takes streams, tensors, memory and allocators of other code without a promise.
//!
//! - row: `Context::lend`
//! - row: `LentStream::slice_from_raw`
//! - row: `Exchange::from_raw`
//! - row: `Consumer::from_raw`
//! - row: `Pool::from_raw`
//! - targets: `DeviceBuffer::zeroed`
//! - must: not compile E0133 "is unsafe"

use std::ffi::c_void;

use cuda_safe::dlpack::abi::{DLManagedTensorVersioned, DLPackExchangeAPI};
use cuda_safe::dlpack::{Consumer, Exchange, Tensor};
use cuda_safe::sys::{CUmemoryPool, CUstream};
use cuda_safe::{Context, DeviceBuffer, LentStream, Pool, Result, pluggable};

pub fn attack(
    context: &Context,
    lent: &LentStream,
    (stream, pool): (CUstream, CUmemoryPool),
    (tensor, api): (*mut DLManagedTensorVersioned, *const DLPackExchangeAPI),
) -> Result<()> {
    let _ = context.lend(stream, |lent| DeviceBuffer::<u8>::zeroed(lent, 4)); //~ refused
    let _ = lent.slice_from_raw::<u8>(4096, 4); //~ refused
    let _ = lent.slice_from_raw_mut::<u8>(4096, 4); //~ refused
    let _ = Tensor::from_versioned(tensor); //~ refused
    let _ = Exchange::from_raw(api); //~ refused
    let _ = Consumer::from_raw(77); //~ refused
    let _ = Pool::from_raw(context, pool, ()); //~ refused
    let _: *mut c_void = pluggable::alloc(4, 0, stream); //~ refused
    DeviceBuffer::<u8>::zeroed(lent, 4).map(drop)
}
