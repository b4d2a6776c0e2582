mod bool_from_a_transfer {
    //! Downloads what may be no `bool` to pinned memory.
    //!
    //! - row: no byte is read as a type that it may not be
    //! - targets: `DeviceBuffer::download_pinned`

    use cuda_safe::{DeviceBuffer, PinnedBuffer, Result, Stream};

    pub fn attack(stream: &Stream, x: &DeviceBuffer<bool>, target: PinnedBuffer<bool>) -> Result<()> {
        x.download_pinned(stream, target)?.wait()?; //~ refused
        stream.synchronize()
    }
}

mod read_in_flight {
    //! Reads a pinned buffer that a transfer writes.
    //!
    //! - row: the host can't touch a pinned buffer
    //! - targets: `DeviceBuffer::download_pinned`, `PinnedBuffer::zeroed`

    use cuda_safe::{Context, DeviceBuffer, PinnedBuffer, Result, Stream};

    pub fn attack(context: &Context, stream: &Stream, x: &DeviceBuffer<f32>) -> Result<()> {
        let target = PinnedBuffer::<f32>::zeroed(context, 8)?;
        let transfer = x.download_pinned(stream, target)?;
        println!("{}", target[0]); //~ refused
        transfer.wait().map(drop)
    }
}

mod waited_for_twice {
    //! Takes the buffer of a transfer twice.
    //!
    //! - row: the host can't touch a pinned buffer
    //! - targets: `Transfer::wait`, `Transfer::is_done`

    use cuda_safe::{PinnedBuffer, Result, Transfer};

    pub fn attack(transfer: Transfer<f32>) -> Result<PinnedBuffer<f32>> {
        let buffer = transfer.wait()?;
        let _ = transfer.is_done()?; //~ refused
        let _ = transfer.wait()?;
        Ok(buffer)
    }
}

mod a_guard_outlives {
    //! Reads through a guard of a buffer that was dropped.
    //!
    //! - row: while a guard lives nothing that conflicts
    //! - targets: `UnifiedBuffer::host`

    use cuda_safe::{Result, UnifiedBuffer};

    pub fn attack(x: UnifiedBuffer<u32>) -> Result<u32> {
        let seen = x.host()?;
        drop(x); //~ refused
        Ok(seen[0])
    }
}

mod a_vector_taken_back_under_a_guard {
    //! Takes a registered vector back while a guard reads it.
    //!
    //! - row: a registered vector comes back only
    //! - targets: `UnifiedBuffer::into_vec`, `UnifiedBuffer::host`

    use cuda_safe::{Result, UnifiedBuffer};

    pub fn attack(x: UnifiedBuffer<u32>) -> Result<u32> {
        let seen = x.host()?;
        let _ = x.into_vec().is_ok(); //~ refused
        Ok(seen[0])
    }
}

mod read_by_the_device_under_a_guard {
    //! Lets the device read a buffer that the host writes.
    //!
    //! - row: when the host reads, all writes are done
    //! - targets: `UnifiedBuffer::host_mut`, `UnifiedBuffer::as_slice`

    use cuda_safe::{Result, Stream, UnifiedBuffer};

    pub fn attack(stream: &Stream, x: &mut UnifiedBuffer<u32>) -> Result<()> {
        let mut guard = x.host_mut()?;
        let _ = x.as_slice().to_vec(stream)?; //~ refused
        guard[0] = 1;
        Ok(())
    }
}

mod two_guards_to_write {
    //! Takes a second guard, and gives the buffer to the device, while a guard for writing lives.
    //!
    //! - row: while a guard lives nothing that conflicts
    //! - targets: `UnifiedBuffer::host_mut`

    use cuda_safe::{Result, UnifiedBuffer};

    pub fn attack(x: &mut UnifiedBuffer<u32>) -> Result<()> {
        let mut one = x.host_mut()?;
        let mut two = x.host_mut()?; //~ refused
        two[0] = 2;
        one[0] = 1;
        Ok(())
    }
}

mod written_under_a_guard {
    //! Lets the device write a buffer that the host reads.
    //!
    //! - row: while a guard lives nothing that conflicts
    //! - targets: `UnifiedBuffer::host`, `UnifiedBuffer::as_slice_mut`

    use cuda_safe::{Result, Stream, UnifiedBuffer};

    pub fn attack(stream: &Stream, mut x: UnifiedBuffer<u32>) -> Result<u32> {
        let seen = x.host()?;
        x.as_slice_mut().fill(stream, 1)?; //~ refused
        Ok(seen[0])
    }
}

fn main() {}
