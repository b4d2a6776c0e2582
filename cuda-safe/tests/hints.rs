//! Hints of errors that graphs meet. The driver is the no-op one, but for functions that fail.

use std::ffi::{CStr, c_void};

use cuda_safe::sys::{CUgraph, CUresult, noop};
use cuda_safe::{Context, DeviceBuffer, Driver, Error, Result};

unsafe extern "C" fn refuses(_: *mut CUgraph, _: CUgraph) -> CUresult {
    CUresult::CUDA_ERROR_NOT_SUPPORTED
}

/// On a driver that clones no graphs.
fn context() -> Result<Context> {
    let resolve = |name: &CStr| -> *const c_void {
        if name == c"cuGraphClone" {
            let function: unsafe extern "C" fn(*mut CUgraph, CUgraph) -> CUresult = refuses;
            return function as *const c_void;
        }
        noop::resolve(name)
    };
    // SAFETY: the functions are those of the no-op driver, and one of the type that its name has. They last
    // as long as the program.
    let sys = unsafe { cuda_safe::sys::Driver::from_resolver(&resolve) };
    Driver::from_sys(sys)?.device(0)?.context()
}

#[test]
fn a_graph_that_allocates_says_what_drivers_refuse() -> Result<()> {
    let context = context()?;
    let stream = context.stream()?;
    let data = DeviceBuffer::<u32>::zeroed(&stream, 10)?;
    let mut allocates = context.capture(data, |stream, data| {
        let scratch = DeviceBuffer::<u32>::zeroed(stream, 10)?;
        data.copy_from(stream, &scratch)
    })?;
    let text = |error: Error| format!("{error} {error:?}");
    let error = allocates.try_clone(()).map(drop).expect_err("the driver refuses");
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_NOT_SUPPORTED));
    assert!(text(error).contains("before the capture"), "it says what to do");
    let data = DeviceBuffer::<u32>::zeroed(&stream, 10)?;
    let mut plain = context.capture(data, |stream, data| data.fill(stream, 1))?;
    let error = plain.try_clone(()).map(drop).expect_err("the driver refuses");
    assert!(!text(error).contains("before the capture"), "this graph allocates nothing");
    Ok(())
}

#[test]
fn last_node_says_when_to_call_it() -> Result<()> {
    let context = context()?;
    let stream = context.stream()?;
    let mut data = DeviceBuffer::<u32>::zeroed(&stream, 10)?;
    let named = context.capture((), |stream, ()| {
        data.fill(stream, 1)?;
        stream.last_node().map(drop)
    });
    let error = named.map(drop).expect_err("a fill can't be changed");
    let text = format!("{error} {error:?}");
    assert!(text.contains("right after the launch"), "{text}");
    Ok(())
}
