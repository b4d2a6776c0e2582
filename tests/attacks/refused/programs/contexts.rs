mod buffers_of_what_stays {
    //! Sends a buffer to another thread through a guard that must stay where it is.
    //!
    //! - row: all types may go to other threads that their contents allow
    //! - targets: `UnifiedBuffer::host`, `UnifiedBuffer::pinned`

    use std::cell::Cell;

    use cuda_safe::{HostRef, Result, Stream, UnifiedBuffer};

    pub fn attack(stream: &Stream, cells: HostRef<'_, Cell<u32>>) -> Result<()> {
        let buffer = UnifiedBuffer::<u32>::pinned(stream, 8)?;
        let seen = buffer.host()?;
        std::thread::scope(|scope| {
            scope.spawn(|| cells.len()); //~ refused
            scope.spawn(|| seen.len());
        });
        Ok(())
    }
}

mod futures_of_what_stays {
    //! Shares a pinned buffer of cells with another thread, and sends a buffer of the host's guards there.
    //!
    //! - row: all types may go to other threads that their contents allow
    //! - targets: `PinnedBuffer::close`

    use std::cell::Cell;
    use std::rc::Rc;

    use cuda_safe::{HostMut, PinnedBuffer, Transfer};

    pub fn attack(pinned: PinnedBuffer<Cell<u32>>, guard: HostMut<'_, Rc<u32>>, transfer: Transfer<u32>) {
        std::thread::scope(|scope| {
            scope.spawn(|| pinned.len()); //~ refused
            scope.spawn(move || guard.len()); //~ refused
            scope.spawn(move || drop(transfer));
        });
        let _ = pinned.len();
        let close = PinnedBuffer::<u32>::close;
        let _ = close;
    }
}

mod handles_of_others {
    //! Adopts streams, contexts and events by their handles, and enqueues by other means.
    //!
    //! - row: `Stream::from_raw`
    //! - row: `Context::from_raw`
    //! - row: `Event::from_raw`
    //! - row: `Stream::enqueue`
    //! - targets: `Stream::from_raw`, `Context::from_raw`, `Event::from_raw`, `Stream::enqueue`

    use cuda_safe::{Context, Driver, Event, Stream};

    pub fn attack(driver: Driver, context: &Context, stream: &Stream) {
        let _ = Stream::from_raw(context, std::ptr::null_mut(), ()); //~ refused
        let _ = Context::from_raw(driver, std::ptr::null_mut(), ()); //~ refused
        let _ = Event::from_raw(context, std::ptr::null_mut(), false); //~ refused
        let _ = stream.enqueue((), |_| ()); //~ refused
        let _ = (driver, context, stream);
    }
}

mod streams_that_are_lent {
    //! Uses the streams that a buffer and a mark lend after dropping both.
    //!
    //! - row: all types may go to other threads that their contents allow
    //! - targets: `DeviceBuffer::home_stream`, `Mark::stream`

    use cuda_safe::{DeviceBuffer, Mark, Result};

    pub fn attack(x: DeviceBuffer<u32>, mark: Mark) -> Result<bool> {
        let (home, of_mark) = (x.home_stream(), mark.stream());
        drop(x); //~ refused
        drop(mark); //~ refused
        Ok(home == of_mark)
    }
}

mod borrows {
    //! Gives a host function what it may outlive, and what must stay on its thread.
    //!
    //! - row: a function owns what it uses
    //! - targets: `Stream::host_function`

    use cuda_safe::{Result, Stream};

    pub fn attack(stream: &Stream) -> Result<()> {
        let text = String::from("here");
        let seen = &text; //~ refused
        stream.host_function(move || println!("{seen}"))?;
        stream.host_function(move || println!("{}", 1))
    }
}

mod not_send {
    //! Gives a host function what must stay on its thread.
    //!
    //! - row: a function owns what it uses
    //! - targets: `Stream::host_function_mut`

    use std::rc::Rc;

    use cuda_safe::{Result, Stream};

    pub fn attack(stream: &Stream) -> Result<()> {
        let count = Rc::new(1);
        let other = count.clone();
        stream.host_function_mut(move || println!("{other}"))?; //~ refused
        println!("{count}");
        Ok(())
    }
}

mod reads_through_a_guard {
    //! Gives a host function a guard of memory that the device may write by then.
    //!
    //! - row: a function owns what it uses
    //! - row: while a guard lives nothing that conflicts
    //! - targets: `Stream::host_function`, `UnifiedBuffer::host`

    use cuda_safe::{Result, Stream, UnifiedBuffer};

    pub fn attack(stream: &Stream) -> Result<()> {
        let x = UnifiedBuffer::<u32>::pinned(stream, 4)?;
        let seen = x.host()?; //~ refused
        stream.host_function(move || println!("{}", seen[0]))?;
        Ok(())
    }
}

mod a_driver_of_any_path {
    //! Loads any library as the driver: its constructor runs, and its functions are called by their names.
    //!
    //! - row: safe code loads no library by a path
    //! - row: `Driver::load_from`, `Nvrtc::at`
    //! - targets: `Driver::load_from`, `Driver::load`

    use cuda_safe::{Driver, Result};

    pub fn attack() -> Result<Driver> {
        let _ = Driver::load_from("libevil.so"); //~ refused
        Driver::load()
    }
}

mod an_nvrtc_of_any_path {
    //! Loads a compiler from a path.
    //!
    //! - row: safe code loads no library by a path
    //! - targets: `Nvrtc::find`

    use nvrtc::{Error, Nvrtc};

    pub fn attack() -> Result<[Nvrtc; 1], Error> {
        let found = Nvrtc::find()?;
        Nvrtc::at("./libnvrtc.so")?; //~ refused
        Nvrtc::load_from("/tmp/libnvrtc.so")?; //~ refused
        Ok([found])
    }
}

fn main() {}
