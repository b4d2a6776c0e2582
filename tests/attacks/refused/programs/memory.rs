mod a_view_of_an_allocation {
    //! Takes a view of memory by a handle to its allocation, which borrows no buffer, as elements of any type.
    //!
    //! - row: `Allocation::view`
    //! - targets: `DeviceBuffer::allocation`, `DeviceBuffer::fill`

    use cuda_safe::{DeviceBuffer, Result, Stream};

    pub fn attack(stream: &Stream, x: &mut DeviceBuffer<u32>) -> Result<()> {
        let memory = x.allocation().clone();
        let view = memory.view::<bool>(0..4)?; //~ refused
        x.fill(stream, 7)?;
        drop(view);
        Ok(())
    }
}

mod bool_from_bytes {
    //! Reads bytes of the device as `bool`, which not all bytes are.
    //!
    //! - row: no byte is read as a type that it may not be
    //! - targets: `DeviceSlice::cast`, `DeviceBuffer::as_slice`

    use cuda_safe::{DeviceBuffer, Result, Stream};

    pub fn attack(stream: &Stream, bytes: &DeviceBuffer<u8>) -> Result<()> {
        let _ = bytes.as_slice().cast::<bool>()?; //~ refused
        bytes.to_vec(stream).map(drop)
    }
}

mod halves_and_the_whole {
    //! Goes on using a view that was split.
    //!
    //! - row: a view does not outlive its buffer
    //! - targets: `DeviceSliceMut::split_at_mut`, `DeviceBuffer::as_slice_mut`

    use cuda_safe::{DeviceBuffer, Result, Stream};

    pub fn attack(stream: &Stream, x: &mut DeviceBuffer<f32>) -> Result<()> {
        let whole = x.as_slice_mut();
        let (mut left, _right) = whole.split_at_mut(4)?;
        let _ = whole.to_vec(stream)?; //~ refused
        left.fill(stream, 2.0)
    }
}

mod memory_not_yet_written {
    //! Reads memory that is not written yet, as bytes and as elements.
    //!
    //! - row: no byte is read as a type that it may not be
    //! - targets: `DeviceBuffer::uninit`, `DeviceBuffer::to_vec`, `DeviceSlice::cast`

    use std::mem::MaybeUninit;

    use cuda_safe::{DeviceBuffer, Result, Stream};

    pub fn attack(stream: &Stream) -> Result<()> {
        let x = DeviceBuffer::<MaybeUninit<f32>>::uninit(stream, 16)?;
        let _ = x.as_slice().cast::<u8>()?.to_vec(stream)?; //~ refused
        x.try_clone(stream).map(drop)
    }
}

mod memory_of_any_address {
    //! Makes buffers of an address, and takes memory for written that is not.
    //!
    //! - row: `DeviceBuffer::from_raw`
    //! - row: `DeviceBuffer::assume_init`
    //! - targets: `DeviceBuffer::from_raw`, `DeviceBuffer::assume_init`, `DeviceBuffer::uninit`

    use cuda_safe::{DeviceBuffer, Result, Stream};

    pub fn attack(stream: &Stream) -> Result<()> {
        let memory = DeviceBuffer::<std::mem::MaybeUninit<f32>>::uninit(stream, 16)?;
        let _ = memory.assume_init(); //~ refused
        let _ = DeviceBuffer::<f32>::from_raw(stream, 0x1000, 8, None); //~ refused
        Ok(())
    }
}

mod padding_sent {
    //! Uploads elements with padding, and references.
    //!
    //! - row: no byte is read as a type that it may not be
    //! - targets: `DeviceBuffer::from_slice`, `DeviceSliceMut::fill`

    use cuda_safe::{DeviceBuffer, Result, Stream};

    #[derive(Clone, Copy)]
    #[repr(C)]
    pub struct Padded(pub u8, pub u32);

    pub fn attack(stream: &Stream, x: &mut DeviceBuffer<Padded>, y: &DeviceBuffer<Padded>) -> Result<()> {
        let _ = DeviceBuffer::from_slice(stream, &[Padded(1, 2)])?; //~ refused
        let _ = DeviceBuffer::from_slice(stream, &[&1u32])?; //~ refused
        x.as_slice_mut().fill(stream, Padded(1, 2))?; //~ refused
        x.copy_from(stream, y)
    }
}

mod two_views_to_write {
    //! Takes two views of the same bytes that can both be written.
    //!
    //! - row: a view does not outlive its buffer
    //! - targets: `DeviceBuffer::as_slice_mut`, `DeviceBuffer::slice_mut`

    use cuda_safe::{DeviceBuffer, Result, Stream};

    pub fn attack(stream: &Stream) -> Result<()> {
        let mut buffer = DeviceBuffer::<f32>::zeroed(stream, 16)?;
        let mut one = buffer.as_slice_mut();
        let mut two = buffer.slice_mut(4..8)?; //~ refused
        one.fill(stream, 1.0)?;
        two.fill(stream, 2.0)?;
        Ok(())
    }
}

mod view_outlives_buffer {
    //! Reads through a view of a buffer that was dropped.
    //!
    //! - row: device memory is freed after the last work
    //! - targets: `DeviceBuffer::as_slice`

    use cuda_safe::{DeviceBuffer, Result, Stream};

    pub fn attack(stream: &Stream) -> Result<Vec<f32>> {
        let buffer = DeviceBuffer::<f32>::zeroed(stream, 16)?;
        let view = buffer.as_slice();
        drop(buffer); //~ refused
        view.to_vec(stream)
    }
}

mod written_while_read {
    //! Writes a buffer while a view that was cut and cast reads it.
    //!
    //! - row: a view does not outlive its buffer
    //! - targets: `DeviceBuffer::slice`, `DeviceSlice::cast`, `DeviceSlice::split_at`

    use cuda_safe::{DeviceBuffer, Result, Stream};

    pub fn attack(stream: &Stream, x: &mut DeviceBuffer<u32>) -> Result<Vec<u8>> {
        let part = x.slice(1..5)?.cast::<u8>()?.split_at(8)?.1;
        x.fill(stream, 1)?; //~ refused
        part.to_vec(stream)
    }
}

mod a_view_in_another_thread {
    //! Sends a view to a thread that may outlive its buffer.
    //!
    //! - row: a view does not outlive its buffer
    //! - targets: `DeviceBuffer::as_slice`

    use cuda_safe::{DeviceBuffer, Result, Stream};

    pub fn attack(stream: &Stream) -> Result<()> {
        let x = DeviceBuffer::<f32>::zeroed(stream, 16)?;
        let (view, own) = (x.as_slice(), stream.clone()); //~ refused
        let thread = std::thread::spawn(move || view.to_vec(&own));
        drop(thread);
        stream.synchronize()
    }
}

fn main() {}
