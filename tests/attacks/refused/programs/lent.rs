mod allocator_without_unsafe {
    //! Gives memory for buffers that nobody has allocated.
    //!
    //! - row: `Allocator`
    //! - targets: `LentStream::set_allocator`

    use cuda_safe::sys::CUstream;
    use cuda_safe::{Allocator, Context, ForeignMemory, LentStream, Result};

    pub struct Nowhere;

    impl Allocator for Nowhere { //~ refused
        fn allocate(&self, _: &Context, _: usize, _: CUstream) -> Result<ForeignMemory> {
            Ok(ForeignMemory { start: 4096, token: Box::new(()) })
        }
    }

    pub fn attack(lent: &LentStream) {
        let _ = lent;
        #[cfg(any())]
        lent.set_allocator(Nowhere);
    }
}

mod stream_to_another_thread {
    //! Uses a lent stream's views in another thread, which the call does not wait for.
    //!
    //! - row: a lent stream is used inside its call alone
    //! - targets: `LentStream::view_mut`

    use cuda_safe::dlpack::Tensor;
    use cuda_safe::{LentStream, Result};

    pub fn attack(lent: &LentStream, tensor: &Tensor) -> Result<()> {
        let mut view = lent.view_mut::<f32>(tensor)?;
        std::thread::scope(|scope| {
            scope.spawn(|| lent.is_recording()); //~ refused
        });
        view.fill(lent, 1.0)
    }
}

mod strided_view_of_a_tensor_that_is_gone {
    //! Reads the elements of a tensor with strides after its deleter has run.
    //!
    //! - row: lent memory is not used after its call
    //! - targets: `LentStream::view_strided`, `StridedSlice::data`

    use cuda_safe::dlpack::Tensor;
    use cuda_safe::{LentStream, Result};

    pub fn attack(lent: &LentStream, tensor: Tensor) -> Result<Vec<f32>> {
        let view = lent.view_strided::<f32>(&tensor)?.data();
        drop(tensor); //~ refused
        view.to_vec(lent)
    }
}

mod tensor_of_booleans {
    //! Takes bytes of other code as `bool`, which not all bytes are.
    //!
    //! - row: no byte of a tensor is read as a type that it may not be
    //! - targets: `LentStream::view`

    use cuda_safe::dlpack::Tensor;
    use cuda_safe::{LentStream, Result};

    pub fn attack(lent: &LentStream, tensor: &Tensor) -> Result<()> {
        let _ = lent.view::<bool>(tensor)?; //~ refused
        Ok(())
    }
}

mod view_of_a_tensor_that_is_gone {
    //! Reads a tensor after its deleter has run.
    //!
    //! - row: lent memory is not used after its call
    //! - targets: `LentStream::view`

    use cuda_safe::dlpack::Tensor;
    use cuda_safe::{LentStream, Result};

    pub fn attack(lent: &LentStream, tensor: Tensor) -> Result<Vec<f32>> {
        let view = lent.view::<f32>(&tensor)?;
        drop(tensor); //~ refused
        view.to_vec(lent)
    }
}

mod without_unsafe {
    //! Takes streams, tensors, memory and allocators of other code without a promise.
    //!
    //! - row: `Context::lend`
    //! - row: `LentStream::slice_from_raw`
    //! - row: `Exchange::from_raw`
    //! - row: `Consumer::from_raw`
    //! - row: `Pool::from_raw`
    //! - targets: `DeviceBuffer::zeroed`

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
}

fn main() {}
