mod elements {
    //! Elements are plain data: what goes up has no padding, what comes down may hold any bits.

    use std::num::NonZeroU32;

    use cuda_safe::{DeviceBuffer, Stream};

    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Padded {
        small: u8,
        large: u32,
    }

    fn strings(stream: &Stream) {
        let _ = DeviceBuffer::from_slice(stream, &[String::new()]);
    }

    fn references(stream: &Stream) {
        let _ = DeviceBuffer::from_slice(stream, &["text"]);
    }

    fn boxes(buffer: &DeviceBuffer<Box<u8>>, stream: &Stream) {
        let _ = buffer.to_vec(stream);
    }

    fn padding(stream: &Stream) {
        let _ = DeviceBuffer::from_slice(stream, &[Padded { small: 1, large: 2 }]);
    }

    fn zero_where_it_is_no_value(stream: &Stream) {
        let _ = DeviceBuffer::<NonZeroU32>::zeroed(stream, 8);
    }

    fn any_bits_where_they_are_no_value(buffer: &DeviceBuffer<bool>, stream: &Stream) {
        let _ = buffer.to_vec(stream);
    }
}

mod views_copied {
    //! A view for writing is neither copied nor written through a shared reference.

    use cuda_safe::{DeviceBuffer, DeviceSliceMut, Stream};

    fn cloned<'a>(view: &DeviceSliceMut<'a, f32>) -> DeviceSliceMut<'a, f32> {
        view.clone()
    }

    fn written_where_shared(buffer: &DeviceBuffer<f32>, stream: &Stream) {
        let _ = buffer.as_slice().fill(stream, 1.0);
        let _ = buffer.as_slice().upload(stream, &[1.0]);
    }
}

mod views_twice {
    //! Memory that is written is written through one view at a time.

    use cuda_safe::{DeviceBuffer, Kernel, LaunchConfig, Result, Stream};

    fn two_for_writing(buffer: &mut DeviceBuffer<f32>, stream: &Stream) -> Result<()> {
        let mut first = buffer.slice_mut(..4)?;
        let mut second = buffer.slice_mut(4..)?;
        first.fill(stream, 1.0)?;
        second.fill(stream, 2.0)
    }

    fn one_for_each(buffer: &mut DeviceBuffer<f32>, stream: &Stream) -> Result<()> {
        let read = buffer.as_slice();
        buffer.as_slice_mut().copy_from(stream, read)
    }

    fn parts_and_whole(buffer: &mut DeviceBuffer<f32>, stream: &Stream) -> Result<()> {
        let (mut low, _high) = buffer.split_at_mut(4)?;
        buffer.upload(stream, &[0.0; 8])?;
        low.fill(stream, 1.0)
    }

    fn two_arguments(kernel: &Kernel, stream: &Stream, buffer: &mut DeviceBuffer<f32>) -> Result<()> {
        // SAFETY: does not compile.
        unsafe { kernel.launch(stream, LaunchConfig::new(1, 1), (&*buffer, &mut *buffer)) }
    }

    fn consumed(buffer: &mut DeviceBuffer<f32>, stream: &Stream) -> Result<()> {
        let mut view = buffer.as_slice_mut();
        let (_low, _high) = view.split_at_mut(4)?;
        view.fill(stream, 1.0)
    }
}

mod view_outlives_buffer {
    //! A view borrows its buffer.

    use cuda_safe::{DeviceBuffer, DeviceSlice, DeviceSliceMut, Result, Stream};

    fn returned(stream: &Stream) -> Result<DeviceSlice<'static, f32>> {
        let buffer = DeviceBuffer::zeroed(stream, 8)?;
        buffer.slice(..4)
    }

    fn kept(stream: &Stream) -> Result<Vec<f32>> {
        let view;
        {
            let buffer = DeviceBuffer::<f32>::zeroed(stream, 8)?;
            view = buffer.as_slice();
        }
        view.to_vec(stream)
    }

    fn dropped(buffer: DeviceBuffer<f32>, stream: &Stream) -> Result<()> {
        let view = buffer.as_slice();
        drop(buffer);
        view.to_vec(stream).map(drop)
    }

    fn cast<'a>(mut view: DeviceSliceMut<'a, u64>) -> Result<DeviceSliceMut<'a, u32>> {
        view.reborrow().cast_mut()
    }
}

mod buffers_not_send {
    //! A buffer goes to other threads as a `Vec` of its elements would.

    use cuda_safe::{DeviceBuffer, DeviceSliceMut, PinnedBuffer};

    fn send<T: Send>() {}
    fn sync<T: Sync>() {}

    fn buffers() {
        send::<DeviceBuffer<*const u8>>();
        sync::<DeviceBuffer<std::cell::Cell<u8>>>();
        send::<DeviceSliceMut<'static, *const u8>>();
        send::<PinnedBuffer<*const u8>>();
    }

    fn main() {
        send::<DeviceBuffer<f32>>();
        sync::<DeviceBuffer<f32>>();
    }
}

mod global_views {
    //! A global is shared by all of its handles, so it is read and written by copies alone: it gives out
    //! no views, of which there could be two, and no kernel takes it.

    use cuda_safe::{DeviceSliceMut, Global, Kernel, LaunchConfig, Module, Result, Stream};

    fn two_views(stream: &Stream, module: &Module) -> Result<()> {
        let mut one = module.global::<f32>(stream, "weights")?;
        let mut two = module.global::<f32>(stream, "weights")?;
        let first = one.as_slice_mut();
        let second = two.slice_mut(..)?;
        drop((first, second));
        Ok(())
    }

    fn converted(global: &mut Global<f32>) -> DeviceSliceMut<'_, f32> {
        DeviceSliceMut::from(global)
    }

    fn given_to_a_kernel(stream: &Stream, kernel: &Kernel, mut global: Global<f32>) -> Result<()> {
        unsafe { kernel.launch(stream, LaunchConfig::new(1, 32), (&mut global,)) }
    }
}

mod global_guards {
    //! The host's guards of a managed variable borrow its handle.

    use cuda_safe::{Global, HostRef, Result};

    fn two_guards(global: &mut Global<f32>) -> Result<()> {
        let reads = global.host()?;
        global.host_mut()?[0] = 1.0;
        drop(reads);
        Ok(())
    }

    fn outlives<'a>(global: Global<f32>) -> Result<HostRef<'a, f32>> {
        global.host()
    }
}

fn main() {}
