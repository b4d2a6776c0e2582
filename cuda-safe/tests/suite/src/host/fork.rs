//! CUDA does not survive `fork`: in the child every call says so, and drops are quiet.

use test_harness::Case;

#[cfg(not(unix))]
pub(super) fn cases() -> Vec<Case> {
    Vec::new()
}

#[cfg(unix)]
pub(super) fn cases() -> Vec<Case> {
    vec![Case::host("fork::child", unix::child), Case::host("fork::parent", unix::parent)]
}

#[cfg(unix)]
pub(super) mod unix {
    use std::sync::Arc;

    use cuda_safe::{
        Context, DeviceBuffer, Driver, ErrorKind, Event, Kernel, LaunchConfig, Stream,
    };

    use test_harness::lab::Lab;
    use test_harness::table::driver_without;
    use test_harness::{Failure, TestResult, ensure, ensure_eq};

    struct Things {
        lab: Lab,
        stream: Stream,
        event: Event,
        kernel: Kernel,
        buffer: DeviceBuffer<u8>,
    }

    fn things() -> Result<Things, Failure> {
        let lab = Lab::new()?;
        let (stream, other) = (lab.context.stream()?, lab.context.stream()?);
        let event = Event::timing(&lab.context)?;
        event.record(&stream)?;
        let kernel = lab.kernel("one")?;
        let buffer = DeviceBuffer::from_slice(&stream, &[1; 100])?;
        // SAFETY: nothing runs on this driver.
        unsafe { kernel.launch(&other, (1, 1), (0u64, &buffer)) }?;
        Ok(Things { lab, stream, event, kernel, buffer })
    }

    /// Runs `act` in a forked child; the answer is its exit status.
    pub(in crate::host) fn forked(act: impl FnOnce() -> i32) -> Result<i32, Failure> {
        // SAFETY: the child runs `act` and leaves by `_exit`, without unwinding or running what
        // the parent registered for its own exit. It takes no lock that another thread of the
        // parent could have held: the recorder is this test's own, and glibc's allocator is made
        // usable in the child by `fork` itself.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).unwrap_or(99);
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(status) };
        }
        ensure!(child > 0, "fork: {}", std::io::Error::last_os_error());
        let mut status = 0;
        // SAFETY: `child` is a child of this process, and `status` a valid place for an int.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        ensure_eq!(waited, child);
        ensure!(libc::WIFEXITED(status), "the child was killed: {status:#x}");
        Ok(libc::WEXITSTATUS(status))
    }

    pub(super) fn child() -> TestResult {
        let things = things()?;
        things.lab.recorder.take();
        let status = forked(|| in_child(things))?;
        match status {
            0 => Ok(()),
            97 => Err(Failure::new("a call asked the driver")),
            98 => Err(Failure::new("a drop asked the driver")),
            99 => Err(Failure::new("the child panicked")),
            step => Err(Failure::new(format!("step {step} is not Err(Forked)"))),
        }
    }

    /// 0, or what is wrong.
    fn in_child(things: Things) -> i32 {
        let Things { lab, stream, event, kernel, mut buffer } = things;
        let recorder = Arc::clone(&lab.recorder);
        let device = lab.context.device();
        let steps: [&mut dyn FnMut() -> cuda_safe::Result<()>; 18] = [
            &mut || Driver::from_sys(lab.context.driver().as_sys()).map(drop),
            &mut || Driver::from_sys(driver_without(&[])).map(drop),
            &mut || device.context().map(drop),
            &mut || lab.context.stream().map(drop),
            &mut || lab.context.synchronize(),
            &mut || lab.context.free_deferred(),
            &mut || stream.synchronize(),
            &mut || stream.is_done().map(drop),
            &mut || stream.host_function(|| ()),
            &mut || event.record(&stream),
            &mut || event.is_done().map(drop),
            &mut || stream.wait_event(&event),
            &mut || buffer.to_vec(&stream).map(drop),
            // SAFETY: nothing runs on this driver.
            &mut || unsafe { kernel.launch(&stream, LaunchConfig::new(1, 1), (0u64, &buffer)) },
            &mut || DeviceBuffer::<u8>::zeroed(&stream, 1).map(drop),
            &mut || device.name().map(drop),
            &mut || device.total_memory().map(drop),
            // SAFETY: the context outlives the handle.
            &mut || unsafe {
                Context::from_raw(lab.context.driver(), lab.context.as_raw(), ()).map(drop)
            },
        ];
        recorder.take();
        for (number, step) in steps.into_iter().enumerate() {
            let forked = match step() {
                Err(error) => matches!(error.kind(), ErrorKind::Forked),
                Ok(()) => false,
            };
            if !forked {
                return i32::try_from(number).unwrap_or(96) + 1;
            }
        }
        if buffer.upload(&stream, &[2; 100]).is_ok() {
            return 95;
        }
        // Making a table asks for the version once, before anything is initialised.
        if recorder.names().iter().any(|name| *name != "cuDriverGetVersion") {
            return 97;
        }
        drop((buffer, kernel, event, stream, lab));
        if recorder.count() > 0 {
            return 98;
        }
        0
    }

    /// The parent is not disturbed.
    pub(super) fn parent() -> TestResult {
        let things = things()?;
        ensure_eq!(forked(|| 0)?, 0);
        let Things { lab, stream, event, kernel, buffer } = things;
        ensure_eq!(buffer.to_vec(&stream)?.len(), 100);
        drop((buffer, kernel, event, stream));
        lab.close()
    }
}
