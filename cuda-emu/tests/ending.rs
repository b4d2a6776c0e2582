//! Calls by threads that end: in destructors of thread-local values and in handlers of `atexit`.

use std::cell::RefCell;
use std::process::Command;
use std::ptr;
use std::sync::mpsc;

use cuda_sys::*;

mod common;
use common::*;

/// Uses what a thread has of its own: its current context, its stream, the thread of a capture.
fn use_the_thread() -> u32 {
    let (mut context, mut current) = (ptr::null_mut(), ptr::null_mut());
    ok!(cuDevicePrimaryCtxRetain(&raw mut context, 0));
    ok!(cuCtxPushCurrent_v2(context));
    ok!(cuCtxGetCurrent(&raw mut current));
    assert_eq!(current, context);
    let per_thread = CU_STREAM_PER_THREAD;
    let address = allocate(64);
    ok!(cuMemsetD32Async(address, 5, 16, per_thread));
    ok!(cuStreamSynchronize(per_thread));
    let fill = function(module(), "fill");
    let captured = stream(1);
    ok!(cuStreamBeginCapture_v2(captured, CUstreamCaptureMode(1)));
    assert_eq!(common::fill(fill, captured, address, 3, 7), SUCCESS);
    let exec = instantiate(end(captured));
    run(exec, captured);
    let sum = words(address, 5).iter().sum();
    ok!(cuCtxPopCurrent_v2(ptr::null_mut()));
    sum
}

const SUM: u32 = 3 * 7 + 2 * 5;

struct AtTheEnd(mpsc::Sender<u32>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        self.0.send(use_the_thread()).expect("the test waits");
    }
}

thread_local! {
    /// Made before the driver's thread-locals, and so dropped after them.
    static KEPT: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
}

#[test]
fn destructors_of_thread_local_values_use_the_device() {
    let (sender, sums) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        KEPT.set(Some(AtTheEnd(sender)));
        context();
        assert_eq!(use_the_thread(), SUM);
        let (mut context, mut pushed) = (ptr::null_mut(), 0);
        ok!(cuDevicePrimaryCtxRetain(&raw mut context, 0));
        // More contexts than the part of the stack without a destructor holds.
        while pushed < 40 {
            ok!(cuCtxPushCurrent_v2(context));
            pushed += 1;
        }
        for _ in 0..pushed {
            ok!(cuCtxPopCurrent_v2(ptr::null_mut()));
        }
    });
    thread.join().expect("no panic");
    assert_eq!(sums.iter().collect::<Vec<_>>(), [SUM]);
}

#[test]
fn handlers_of_atexit_use_the_device() {
    const NAME: &str = "handlers_of_atexit_use_the_device";
    extern "C" fn at_exit() {
        if std::panic::catch_unwind(use_the_thread).is_ok_and(|sum| sum == SUM) {
            println!("right at the end");
        }
    }
    if std::env::var_os("EMU_TEST_CHILD").is_some() {
        context();
        // SAFETY: the handler returns, and does not unwind.
        unsafe { libc::atexit(at_exit) };
        return;
    }
    let output = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", NAME, "--nocapture"])
        .env("EMU_TEST_CHILD", NAME)
        .output()
        .expect("it runs");
    let (text, report) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("right at the end"), "{text}{report}");
}
