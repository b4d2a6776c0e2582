//! What a process has once: its configuration, its device, its observer and its end. Each test has a process of its own.

mod common;

mod config {
    //! The effects of the configuration: devices, memory, failures, the call log, the ledger.

    use std::ptr;

    use cuda_emu::{Config, Ledger, ledger};
    use cuda_sys::{CUdevice_attribute, CUresult};

    use crate::common::{allocate, call, context, event, fails, ok, stream, words};

    /// One test: a process has one configuration.
    #[test]
    fn two_small_devices_of_another_kind_that_fail_and_tell() {
        crate::common::apart!(two_small_devices_of_another_kind_that_fail_and_tell);
        let log = std::env::temp_dir().join(format!("cuda-emu-{}.log", std::process::id()));
        let config = Config::new()
            .devices(2)
            .compute_capability(8, 6)
            .multiprocessors(3)
            .memory(1 << 20)
            .workers(1)
            .fail("cuEventCreate", 2, CUresult::CUDA_ERROR_OUT_OF_MEMORY)
            .fail("cuMemAlloc", 3, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS)
            .log(&log);
        assert_eq!(ledger(), Ledger::default());
        assert!(config.install());
        let first = context();
        assert!(!Config::new().install(), "too late");

        let (mut count, mut value) = (0, 0);
        ok!(cuDeviceGetCount(&raw mut count));
        assert_eq!(count, 2);
        let major = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
        ok!(cuDeviceGetAttribute(&raw mut value, major, 1));
        assert_eq!(value, 8);
        let multiprocessors = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        ok!(cuDeviceGetAttribute(&raw mut value, multiprocessors, 1));
        assert_eq!(value, 3);
        fails!(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetAttribute(&raw mut value, major, 2));
        let mut name = [0_u8; 100];
        ok!(cuDeviceGetName(name.as_mut_ptr().cast(), 100, 0));
        assert!(String::from_utf8_lossy(&name).contains("software"));

        let alive = event();
        let mut failed = ptr::null_mut();
        fails!(CUDA_ERROR_OUT_OF_MEMORY, cuEventCreate(&raw mut failed, 0));
        assert!(failed.is_null());
        ok!(cuEventCreate(&raw mut failed, 0));

        // Device 0 is full with the first; the other device has its own memory.
        let here = allocate(1 << 20);
        let mut none = 0;
        fails!(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&raw mut none, 1));
        fails!(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc_v2(&raw mut none, 1));
        let mut second = ptr::null_mut();
        ok!(cuDevicePrimaryCtxRetain(&raw mut second, 1));
        ok!(cuCtxSetCurrent(second));
        let there = allocate(1000);
        ok!(cuCtxEnablePeerAccess(first, 0));
        fails!(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(first, 0));
        ok!(cuMemsetD32_v2(there, 6, 250));
        ok!(cuMemcpyPeer(here, first, there, second, 1000));
        ok!(cuCtxSynchronize());
        ok!(cuCtxSetCurrent(first));
        assert_eq!(words(here, 250), [6; 250]);

        let stream = stream(0);
        let all = ledger();
        assert_eq!((all.contexts, all.streams, all.events), (2, 1, 2));
        assert_eq!(all.device_memory, (2, (1 << 20) + 1000));
        ok!(cuStreamDestroy_v2(stream));
        ok!(cuEventDestroy_v2(alive));
        ok!(cuEventDestroy_v2(failed));
        ok!(cuMemFree_v2(here));
        ok!(cuDevicePrimaryCtxRelease_v2(1));
        ok!(cuDevicePrimaryCtxRelease_v2(0));
        assert_eq!(ledger(), Ledger::default(), "a context takes its memory with it");
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), CUresult::CUDA_ERROR_INVALID_CONTEXT);

        let text = std::fs::read_to_string(&log).expect("a log");
        std::fs::remove_file(&log).expect("it was there");
        let failed = text.lines().filter(|line| line.ends_with("-> 2 CUDA_ERROR_OUT_OF_MEMORY"));
        assert_eq!(failed.count(), 2);
        assert!(text.contains("cuMemAlloc_v2(address=0x"), "{text}");
        assert!(text.lines().all(|line| line.starts_with("ThreadId(")));
    }
}

mod fault {
    //! A kernel that fails takes the device from the process.

    use core::ffi::c_void;
    use std::ptr;
    use std::sync::atomic::{AtomicBool, Ordering};

    use cuda_sys::CUresult;

    use crate::common::{self, context, event, fails, function, launch, module, ok, stream};

    static CALLED: AtomicBool = AtomicBool::new(false);

    extern "C" fn called(_: *mut c_void) {
        CALLED.store(true, Ordering::SeqCst);
    }

    /// One test: there is one process, and it loses its device once.
    #[test]
    fn after_a_trap_every_call_answers_with_it() {
        crate::common::apart!(after_a_trap_every_call_answers_with_it);
        let primary = context();
        let mut other = ptr::null_mut();
        ok!(cuCtxCreate_v2(&raw mut other, 0, 0));
        ok!(cuCtxPopCurrent_v2(ptr::null_mut()));
        let (stream, event, module) = (stream(1), event(), module());
        let trap = function(module, "trap");
        assert!(cuda_emu::fault_report().is_none());
        assert_eq!(launch(trap, stream, &mut []), CUresult::CUDA_SUCCESS, "faults come later");
        // The fault may be there before this is enqueued; it must not be called either way.
        // SAFETY: the function takes no data.
        let enqueued =
            unsafe { common::driver().cuLaunchHostFunc(stream, Some(called), ptr::null_mut()) };
        assert!(enqueued.is_ok());
        fails!(CUDA_ERROR_LAUNCH_FAILED, cuStreamSynchronize(stream));
        let report = cuda_emu::fault_report().expect("a report");
        assert!(report.contains("trap"), "{report}");

        let (mut address, mut new, mut count) = (0, ptr::null_mut(), 0);
        fails!(CUDA_ERROR_LAUNCH_FAILED, cuMemAlloc_v2(&raw mut address, 8));
        fails!(CUDA_ERROR_LAUNCH_FAILED, cuEventRecord(event, stream));
        fails!(CUDA_ERROR_LAUNCH_FAILED, cuEventQuery(event));
        fails!(CUDA_ERROR_LAUNCH_FAILED, cuCtxSynchronize());
        fails!(CUDA_ERROR_LAUNCH_FAILED, cuStreamDestroy_v2(stream));
        ok!(cuCtxPushCurrent_v2(other));
        fails!(CUDA_ERROR_LAUNCH_FAILED, cuMemAlloc_v2(&raw mut address, 8));
        ok!(cuCtxPopCurrent_v2(ptr::null_mut()));
        fails!(CUDA_ERROR_LAUNCH_FAILED, cuDevicePrimaryCtxRetain(&raw mut new, 0));
        ok!(cuDeviceGetCount(&raw mut count));
        ok!(cuDevicePrimaryCtxRelease_v2(0));
        ok!(cuDevicePrimaryCtxReset_v2(0));
        fails!(CUDA_ERROR_LAUNCH_FAILED, cuDevicePrimaryCtxRetain(&raw mut new, 0));
        assert!(!primary.is_null());
        assert!(!CALLED.load(Ordering::SeqCst));
    }
}

mod observation {
    //! While kernels are observed, their faults do not lose the device.

    use std::ptr;

    use cuda_emu::{Checks, Config, ObserveError, fault_report, observe};
    use cuda_sys::CUresult;

    use crate::common::{context, fails, function, launch, module, ok, stream};

    /// One test: there is one observation in a process.
    #[test]
    fn faults_and_findings_of_observed_kernels_are_kept() {
        crate::common::apart!(faults_and_findings_of_observed_kernels_are_kept);
        Config::new().check(Checks { race: true, init: true, leak: false }).install();
        context();
        let (stream, module) = (stream(1), module());
        let (fill, trap) = (function(module, "fill"), function(module, "trap"));
        let mut address = 0_u64;
        ok!(cuMemAlloc_v2(&raw mut address, 64));
        let write = |mut count: u32| {
            let (mut at, mut value) = (address, 7_u32);
            let mut arguments =
                [(&raw mut at).cast(), (&raw mut count).cast(), (&raw mut value).cast()];
            assert_eq!(launch(fill, stream, &mut arguments), CUresult::CUDA_SUCCESS);
            ok!(cuStreamSynchronize(stream));
        };

        // What was found before is not of the observation.
        let mut word = 0_u32;
        ok!(cuMemcpyDtoH_v2((&raw mut word).cast(), address, 4));
        let observation = observe().expect("the first");
        assert_eq!(observe().err(), Some(ObserveError::Busy));
        assert_eq!(observation.found(), [""; 0]);
        write(16);
        assert_eq!(observation.found(), [""; 0], "the last element is inside");
        write(17);
        let found = observation.found();
        assert!(found.len() == 1 && found[0].contains("ILLEGAL_ADDRESS"), "{found:?}");
        assert!(found[0].contains("in kernel fill"), "{found:?}");
        assert_eq!(launch(trap, stream, &mut []), CUresult::CUDA_SUCCESS);
        write(18);
        assert_eq!(observation.found().len(), 2);
        assert_eq!(observation.found(), [""; 0], "they are returned once");
        assert_eq!(fault_report(), None, "the device is not lost");
        ok!(cuMemFree_v2(address));
        ok!(cuMemAlloc_v2(&raw mut address, 64));
        ok!(cuMemcpyDtoH_v2((&raw mut word).cast(), address, 4));
        let found = observation.found();
        assert!(found.len() == 1 && found[0].contains("nothing has written"), "{found:?}");
        drop(observation);

        drop(observe().expect("the first is gone"));
        assert_eq!(launch(trap, stream, &mut []), CUresult::CUDA_SUCCESS);
        fails!(CUDA_ERROR_LAUNCH_FAILED, cuStreamSynchronize(stream));
        assert!(fault_report().is_some(), "the device is lost");
        let mut none = ptr::null_mut();
        fails!(CUDA_ERROR_LAUNCH_FAILED, cuDevicePrimaryCtxRetain(&raw mut none, 0));
    }
}

mod unchecked {
    //! An observation after the configuration was fixed without checkers: a file of its own, as a process has one configuration.

    use cuda_emu::{Checks, Config, ObserveError, observe};

    use crate::common;

    #[test]
    fn the_error_says_what_to_do() {
        crate::common::apart!(the_error_says_what_to_do);
        common::context();
        let checks = Checks { race: true, init: true, leak: false };
        assert!(
            !Config::new().check(checks).install(),
            "the first call has fixed the configuration"
        );
        let error = observe().expect_err("the checkers are off");
        assert_eq!(error, ObserveError::Unchecked);
        // A test that returns the error prints Debug.
        let (shown, printed) = (error.to_string(), format!("{error:?}"));
        assert_eq!(shown, printed);
        assert!(shown.contains("install one Config"), "{shown}");
    }
}

mod watch {
    //! Calls are counted while somebody watches, and one of them can be made to fail.

    use core::ptr;

    use cuda_emu::{Failure, Moment, ledger, watch};
    use cuda_sys::CUresult;

    use crate::common::{context, fails, ok};

    fn failure(name: &str, nth: u64) -> Failure {
        Failure { name: name.to_owned(), nth, code: CUresult::CUDA_ERROR_OUT_OF_MEMORY }
    }

    /// One test: there is one watch in a process.
    #[test]
    fn a_watch_counts_and_fails_one_call() {
        crate::common::apart!(a_watch_counts_and_fails_one_call);
        context();
        let (mut one, mut two) = (0, 0);
        let before = ledger();
        let all = watch(None).expect("no other watch");
        assert!(watch(None).is_none(), "one at a time");
        ok!(cuMemAlloc_v2(&raw mut one, 64));
        ok!(cuMemFree_v2(one));
        assert_eq!(
            all.calls().into_iter().collect::<Vec<_>>(),
            [("cuMemAlloc_v2", 1), ("cuMemFree_v2", 1)]
        );
        assert!(!all.met());
        drop(all);

        // Counted from here on, by either name; and the call does nothing.
        let second =
            watch(Some((failure("cuMemAlloc", 2), Moment::Before))).expect("the first is gone");
        ok!(cuMemAlloc_v2(&raw mut one, 64));
        assert!(!second.met());
        fails!(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&raw mut two, 64));
        assert!(second.met());
        assert_eq!(ledger().device_memory.0, before.device_memory.0 + 1);
        ok!(cuMemAlloc_v2(&raw mut two, 64));
        drop(second);

        // It works, and then fails.
        let late =
            watch(Some((failure("cuMemFree_v2", 1), Moment::After))).expect("the second is gone");
        fails!(CUDA_ERROR_OUT_OF_MEMORY, cuMemFree_v2(one));
        assert!(late.met());
        ok!(cuMemFree_v2(two));
        drop(late);
        assert_eq!(ledger(), before);

        // A call that fails by itself returns its own code.
        let wrong =
            watch(Some((failure("cuMemFree_v2", 1), Moment::After))).expect("the third is gone");
        fails!(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(one));
        drop(wrong);

        // No watcher is set.
        ok!(cuMemAlloc_v2(&raw mut one, 64));
        ok!(cuMemFree_v2(one));
        ok!(cuCtxPopCurrent_v2(ptr::null_mut()));
    }
}

mod leaks {
    //! Reports for people: leaks at the end of the process, values of `CUDA_EMU_CHECK`, hints after a fault.

    use std::process::Command;

    use cuda_safe::{DeviceBuffer, Driver, LaunchConfig, Module, PinnedBuffer, Result};

    use crate::common::PTX;

    /// Runs the test `name` in a process whose checker is `check`, and returns what it writes to standard error.
    fn report(name: &str, check: &str) -> String {
        let output = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", &format!("leaks::{name}"), "--nocapture"])
            .envs([("EMU_TEST_CHILD", name), ("CUDA_EMU_CHECK", check)])
            .output()
            .expect("it runs");
        let report = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}{report}", String::from_utf8_lossy(&output.stdout));
        report
    }

    fn is_child() -> bool {
        std::env::var_os("EMU_TEST_CHILD").is_some()
    }

    /// A correct program; `leaks` forgets a buffer.
    fn program(leaks: bool) -> Result<()> {
        let context = Driver::from_sys(cuda_emu::driver())?.device(0)?.context()?;
        let stream = context.stream()?;
        let module = Module::from_ptx(&context, PTX)?;
        module.kernel("nothing")?.load()?;
        let values = vec![7u32; 1 << 20];
        let buffer = DeviceBuffer::from_slice(&stream, &values)?;
        let mut graph =
            context.capture(DeviceBuffer::<u32>::zeroed(&stream, 9)?, |s, b| b.fill(s, 1))?;
        graph.launch(&stream)?;
        drop(PinnedBuffer::<u32>::zeroed(&context, 1000)?);
        assert_eq!(buffer.to_vec(&stream)?, values);
        context.synchronize()?;
        if leaks {
            std::mem::forget(buffer);
        }
        Ok(())
    }

    #[test]
    fn a_correct_program_has_no_leak() {
        if is_child() {
            return program(false).expect("a correct program");
        }
        let report = report("a_correct_program_has_no_leak", "leak");
        assert!(!report.contains("leak"), "{report}");
    }

    #[test]
    fn a_forgotten_buffer_is_the_one_leak() {
        if is_child() {
            return program(true).expect("a program that leaks");
        }
        let report = report("a_forgotten_buffer_is_the_one_leak", "leak");
        let leaks: Vec<_> = report.lines().filter(|line| line.contains("leak: ")).collect();
        assert!(leaks.len() == 1 && leaks[0].contains("4194304 bytes of"), "{report}");
    }

    #[test]
    fn an_unknown_checker_lists_the_known_ones() {
        if is_child() {
            return program(false).expect("a correct program");
        }
        let report = report("an_unknown_checker_lists_the_known_ones", "races");
        let wanted =
            "CUDA_EMU_CHECK=races is not understood and is ignored; known are race, init and leak";
        assert!(report.contains(wanted), "{report}");
    }

    /// Writes to an address that nothing owns, and returns the error.
    fn fault() -> Result<()> {
        let context = Driver::from_sys(cuda_emu::driver())?.device(0)?.context()?;
        let stream = context.stream()?;
        let fill = Module::from_ptx(&context, PTX)?.kernel("fill")?;
        // SAFETY: the write is a fault of the device, which ends the kernel.
        unsafe { fill.launch(&stream, LaunchConfig::new(1, 1), (16u64, 1u32, 1u32)) }?;
        stream.synchronize()
    }

    #[test]
    fn a_hint_does_not_send_to_the_device_that_the_program_is_on() {
        if is_child() {
            let error = fault().expect_err("an illegal address");
            return eprintln!("error: {error}");
        }
        let report = report("a_hint_does_not_send_to_the_device_that_the_program_is_on", "");
        let error = report.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
        assert!(error.contains("hint: the report of the software device"), "{report}");
        assert!(!error.contains("compute-sanitizer"), "{report}");
    }
}

mod ending {
    //! Calls by threads that end: in destructors of thread-local values and in handlers of `atexit`.

    use std::cell::RefCell;
    use std::process::Command;
    use std::ptr;
    use std::sync::mpsc;

    use cuda_sys::*;

    use crate::common;
    use crate::common::*;

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
        crate::common::apart!(destructors_of_thread_local_values_use_the_device);
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
        const NAME: &str = "ending::handlers_of_atexit_use_the_device";
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
}
