mod pinned_moved {
    //! A pinned buffer belongs to its transfer until that is waited for.

    use cuda_safe::{Context, DeviceBuffer, PinnedBuffer, Result, Stream};

    fn read_while_it_is_written(
        context: &Context,
        stream: &Stream,
        buffer: &DeviceBuffer<f32>,
    ) -> Result<f32> {
        let target = PinnedBuffer::<f32>::zeroed(context, 8)?;
        let transfer = buffer.as_slice().download_pinned(stream, target)?;
        let early = target[0];
        transfer.wait()?;
        Ok(early)
    }

    fn written_while_it_is_read(
        stream: &Stream,
        buffer: &mut DeviceBuffer<f32>,
        mut source: PinnedBuffer<f32>,
    ) -> Result<()> {
        let transfer = buffer.as_slice_mut().upload_pinned(stream, source)?;
        source[0] = 1.0;
        transfer.wait().map(drop)
    }

    fn waited_for_twice(
        stream: &Stream,
        buffer: &mut DeviceBuffer<f32>,
        source: PinnedBuffer<f32>,
    ) -> Result<()> {
        let transfer = buffer.as_slice_mut().upload_pinned(stream, source)?;
        transfer.wait()?;
        transfer.wait().map(drop)
    }
}

mod pinned_slices {
    //! A copy that goes on after the call owns its pinned buffer: a slice of one would be seen, or gone,
    //! while the device uses it.

    use cuda_safe::{DeviceBuffer, PinnedBuffer, Result, Stream};

    fn into_a_slice(
        stream: &Stream,
        buffer: &DeviceBuffer<f32>,
        mut pinned: PinnedBuffer<f32>,
    ) -> Result<()> {
        buffer.as_slice().download_pinned(stream, &mut pinned[..])?;
        Ok(())
    }

    fn from_a_slice(
        stream: &Stream,
        buffer: &mut DeviceBuffer<f32>,
        pinned: PinnedBuffer<f32>,
    ) -> Result<()> {
        buffer.as_slice_mut().upload_pinned(stream, &pinned[..])?;
        Ok(())
    }

    fn into_a_borrowed_buffer(
        stream: &Stream,
        buffer: &DeviceBuffer<f32>,
        mut pinned: PinnedBuffer<f32>,
    ) -> Result<()> {
        buffer.download_pinned(stream, &mut pinned)?;
        Ok(())
    }
}

mod transfer_future {
    //! An awaited transfer owns its buffer until it is done, and for good if it is dropped before.

    use cuda_safe::{DeviceBuffer, PinnedBuffer, Result, Stream};

    async fn touched_while_in_flight(
        stream: &Stream,
        buffer: &DeviceBuffer<f32>,
        target: PinnedBuffer<f32>,
    ) -> Result<f32> {
        let transfer = buffer.download_pinned(stream, target)?;
        let early = target[0];
        transfer.await?;
        Ok(early)
    }

    fn dropped_in_flight_and_read(
        stream: &Stream,
        buffer: &DeviceBuffer<f32>,
        target: PinnedBuffer<f32>,
    ) -> Result<f32> {
        let transfer = buffer.download_pinned(stream, target)?;
        drop(transfer);
        Ok(target[0])
    }

    async fn dropped_in_flight_and_used_again(
        stream: &Stream,
        buffer: &mut DeviceBuffer<f32>,
        source: PinnedBuffer<f32>,
    ) -> Result<()> {
        drop(buffer.upload_pinned(stream, source)?);
        buffer.upload_pinned(stream, source)?.await.map(drop)
    }

    async fn awaited_twice(
        stream: &Stream,
        buffer: &DeviceBuffer<f32>,
        target: PinnedBuffer<f32>,
    ) -> Result<()> {
        let transfer = buffer.download_pinned(stream, target)?;
        transfer.await?;
        transfer.await.map(drop)
    }
}

mod unified_guards {
    //! During a host borrow the buffer stays, and no device write of it can be enqueued.

    use cuda_safe::{HostRef, Kernel, LaunchConfig, Result, Stream, UnifiedBuffer};

    fn guard_outlives_its_buffer(stream: &Stream) -> Result<HostRef<'static, u32>> {
        let buffer = UnifiedBuffer::<u32>::pinned(stream, 10)?;
        buffer.host()
    }

    fn vector_taken_under_a_guard(buffer: UnifiedBuffer<u32>) {
        let seen = buffer.host().unwrap();
        let vector = buffer.into_vec();
        drop((seen, vector));
    }

    fn written_while_the_host_reads(stream: &Stream, kernel: &Kernel) -> Result<()> {
        let mut buffer = UnifiedBuffer::<u32>::pinned(stream, 10)?;
        let seen = buffer.host()?;
        unsafe { kernel.launch(stream, LaunchConfig::new(1, 32), (&mut buffer,))? };
        assert_eq!(seen[0], 0);
        Ok(())
    }

    fn read_while_the_host_writes(stream: &Stream, kernel: &Kernel) -> Result<()> {
        let mut buffer = UnifiedBuffer::<u32>::pinned(stream, 10)?;
        let mut words = buffer.host_mut()?;
        unsafe { kernel.launch(stream, LaunchConfig::new(1, 32), (&buffer,))? };
        words[0] = 1;
        Ok(())
    }
}

fn main() {}
