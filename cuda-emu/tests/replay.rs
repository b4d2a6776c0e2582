//! The same calls with the same seed give the same order, in another process, too.

use core::ffi::c_void;
use std::process::Command;
use std::ptr;
use std::sync::Mutex;

mod common;
use common::{context, ok, stream};

static ORDER: Mutex<Vec<usize>> = Mutex::new(Vec::new());

extern "C" fn note(which: *mut c_void) {
    ORDER.lock().expect("nobody panics with it").push(which.addr());
}

/// The child process: prints the order that it saw. Without the variable it is not a child.
#[test]
fn child() {
    if std::env::var_os("EMU_TEST_CHILD").is_none() {
        return;
    }
    context();
    let streams = [stream(1), stream(1), stream(0), ptr::null_mut()];
    for which in 0..40_usize {
        ok!(cuLaunchHostFunc(streams[which % 4], Some(note), ptr::without_provenance_mut(which)));
    }
    ok!(cuCtxSynchronize());
    println!("order: {:?}", ORDER.lock().expect("nobody panics with it"));
}

fn order(seed: &str) -> String {
    let output = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "child", "--nocapture"])
        .env("EMU_TEST_CHILD", "1")
        .env("CUDA_EMU_SEED", seed)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.split_once("order: "));
    line.unwrap_or_else(|| panic!("no order in {text}")).1.to_owned()
}

#[test]
fn a_seed_replays_exactly() {
    let first = order("11");
    assert_eq!(first.matches(',').count(), 39);
    for _ in 0..3 {
        assert_eq!(order("11"), first);
    }
    assert_ne!(order("12"), first);
}
