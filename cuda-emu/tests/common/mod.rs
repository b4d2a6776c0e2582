//! Helpers for tests of the driver: the table, a context, kernels.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test takes what it needs")]

use core::ffi::c_void;
use core::ptr;
use std::cell::RefCell;
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cuda_sys::{
    CUcontext, CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUgraphNodeType, CUmodule,
    CUresult, CUstream, CUstreamCaptureMode, Driver,
};

/// Kernels: `fill(address, count, value)` by one thread, `trap`, and one that does nothing.
/// (The comment at the top is read by nobody but a stand-in for the executor.)
pub(crate) const PTX: &str = r#"/*
kernel fill
kernel trap
kernel nothing
*/
.version 8.0
.target sm_75
.address_size 64

.visible .global .align 4 .b8 variable[16];

.visible .entry fill(.param .u64 p0, .param .u32 p1, .param .u32 p2)
{
	.reg .pred %p<2>;
	.reg .b32 %r<4>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [p0];
	ld.param.u32 %r1, [p1];
	ld.param.u32 %r2, [p2];
	cvta.to.global.u64 %rd1, %rd1;
	mov.u32 %r3, 0;
loop:
	setp.ge.u32 %p1, %r3, %r1;
	@%p1 bra done;
	st.global.u32 [%rd1], %r2;
	add.s64 %rd1, %rd1, 4;
	add.u32 %r3, %r3, 1;
	bra.uni loop;
done:
	ret;
}

.visible .entry trap()
{
	trap;
	ret;
}

.visible .entry nothing()
{
	ret;
}
"#;

pub(crate) fn driver() -> &'static Driver {
    static DRIVER: OnceLock<&'static Driver> = OnceLock::new();
    // SAFETY: each address belongs to the function with this name.
    DRIVER.get_or_init(|| unsafe { Driver::from_resolver(&cuda_emu::resolve) })
}

/// Runs the rest of a test, whose name is given, in a process of its own.
macro_rules! apart {
    ($test:ident) => {
        if $crate::common::has_run_apart(concat!(module_path!(), "::", stringify!($test))) {
            return;
        }
    };
}

/// The variable that is set in the process of a test.
const APART: &str = "EMU_TEST_APART";

/// Returns whether another process has run the test, which passed: this program again, where it returns `false`.
pub(crate) fn has_run_apart(path: &str) -> bool {
    if std::env::var_os(APART).is_some() {
        return false;
    }
    // Without the crate's name.
    let test = path.split_once("::").map_or(path, |(_, test)| test);
    let output = std::process::Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", test, "--nocapture"])
        .env(APART, test)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    true
}

/// Calls a function of the driver and gives its code.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the tests pass places and handles of their own.
        unsafe { $crate::common::driver().$name($($argument),*) }.expect("the function is there")
    };
}

/// Calls a function that must succeed.
macro_rules! ok {
    ($name:ident($($argument:expr),* $(,)?)) => {
        assert_eq!(
            $crate::common::call!($name($($argument),*)),
            cuda_sys::CUresult::CUDA_SUCCESS,
            stringify!($name)
        )
    };
}

/// Calls a function that must return this code.
macro_rules! fails {
    ($code:ident, $name:ident($($argument:expr),* $(,)?)) => {
        assert_eq!(
            $crate::common::call!($name($($argument),*)),
            cuda_sys::CUresult::$code,
            stringify!($name)
        )
    };
}

pub(crate) use {apart, call, fails, ok};

pub(crate) const SUCCESS: CUresult = CUresult::CUDA_SUCCESS;

/// Whose turn it is: waiting for the context, as most tests do, ends what others capture in it.
static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    /// Held until the test's thread ends.
    static MINE: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// Retains the primary context and makes it current on this thread, which no other test uses
/// meanwhile.
pub(crate) fn context() -> CUcontext {
    MINE.with_borrow_mut(|mine| {
        mine.get_or_insert_with(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    });
    ok!(cuInit(0));
    let mut context = ptr::null_mut();
    ok!(cuDevicePrimaryCtxRetain(&raw mut context, 0));
    ok!(cuCtxSetCurrent(context));
    context
}

pub(crate) fn stream(flags: u32) -> CUstream {
    let mut stream = ptr::null_mut();
    ok!(cuStreamCreate(&raw mut stream, flags));
    stream
}

pub(crate) fn event() -> CUevent {
    let mut event = ptr::null_mut();
    ok!(cuEventCreate(&raw mut event, 0));
    event
}

pub(crate) fn module() -> CUmodule {
    load(PTX)
}

pub(crate) fn load(text: &str) -> CUmodule {
    let text = CString::new(text).expect("no NUL");
    let mut module = ptr::null_mut();
    ok!(cuModuleLoadData(&raw mut module, text.as_ptr().cast()));
    module
}

pub(crate) fn function(module: CUmodule, name: &str) -> CUfunction {
    let name = CString::new(name).expect("no NUL");
    let mut function = ptr::null_mut();
    ok!(cuModuleGetFunction(&raw mut function, module, name.as_ptr()));
    function
}

pub(crate) fn allocate(bytes: usize) -> u64 {
    let mut address = 0;
    ok!(cuMemAlloc_v2(&raw mut address, bytes));
    address
}

/// Begins a relaxed capture: the tests of a file run at the same time.
pub(crate) fn begin(stream: CUstream) {
    ok!(cuStreamBeginCapture_v2(stream, CUstreamCaptureMode(2)));
}

pub(crate) fn end(stream: CUstream) -> CUgraph {
    let mut graph = ptr::null_mut();
    ok!(cuStreamEndCapture(stream, &raw mut graph));
    graph
}

pub(crate) fn instantiate(graph: CUgraph) -> CUgraphExec {
    let mut exec = ptr::null_mut();
    ok!(cuGraphInstantiateWithFlags(&raw mut exec, graph, 0));
    exec
}

/// Launches a graph and waits for it.
pub(crate) fn run(exec: CUgraphExec, stream: CUstream) {
    ok!(cuGraphLaunch(exec, stream));
    ok!(cuStreamSynchronize(stream));
}

pub(crate) fn nodes(graph: CUgraph) -> Vec<CUgraphNode> {
    let mut count = 0;
    ok!(cuGraphGetNodes(graph, ptr::null_mut(), &raw mut count));
    let mut nodes = vec![ptr::null_mut(); count];
    ok!(cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count));
    nodes
}

pub(crate) fn kind(node: CUgraphNode) -> CUgraphNodeType {
    let mut kind = CUgraphNodeType(99);
    ok!(cuGraphNodeGetType(node, &raw mut kind));
    kind
}

/// Launches a kernel with one thread.
pub(crate) fn launch(
    function: CUfunction,
    stream: CUstream,
    arguments: &mut [*mut c_void],
) -> CUresult {
    let list = if arguments.is_empty() { ptr::null_mut() } else { arguments.as_mut_ptr() };
    call!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, list, ptr::null_mut()))
}

/// Launches `fill`.
pub(crate) fn fill(
    function: CUfunction,
    stream: CUstream,
    address: u64,
    count: u32,
    value: u32,
) -> CUresult {
    let (mut address, mut count, mut value) = (address, count, value);
    let mut arguments =
        [(&raw mut address).cast::<c_void>(), (&raw mut count).cast(), (&raw mut value).cast()];
    launch(function, stream, &mut arguments)
}

/// Returns `count` words of the device, after waiting for the NULL stream.
pub(crate) fn words(address: u64, count: usize) -> Vec<u32> {
    let mut words = vec![0_u32; count];
    ok!(cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), address, count * 4));
    words
}
