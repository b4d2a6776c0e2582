//! The linker of the driver: results, logs and return codes.

use core::ffi::{CStr, c_void};
use std::ffi::CString;
use std::ptr;

use cuda_sys::*;
use test_support::fatbin::{Entry, Packing, write};

mod common;
use common::*;

const HEAD: &str = ".version 8.0\n.target sm_75\n.address_size 64\n";

/// `k(address)` writes `f(counter)`.
const CALLER: &str = ".extern .func (.param .b32 r) f (.param .b32 a);
.extern .global .align 4 .b32 counter;
.visible .entry k(.param .u64 p) {
.reg .b32 %r<3>; .reg .b64 %rd<2>;
ld.param.u64 %rd1, [p];
ld.global.u32 %r1, [counter];
{ .param .b32 a; st.param.b32 [a], %r1; .param .b32 r;
call.uni (r), f, (a); ld.param.b32 %r2, [r]; }
st.global.u32 [%rd1], %r2; ret; }";

/// `f(a)` is `a + own`, where `own` is this text's.
fn callee(counter: u32, own: u32) -> String {
    format!(
        ".visible .global .align 4 .b32 counter = {counter};\n.global .align 4 .b32 own = {own};\n\
         .visible .func (.param .b32 r) f (.param .b32 a) {{ .reg .b32 %r<3>; ld.param.b32 %r1, [a]; \
         ld.global.u32 %r2, [own]; add.s32 %r1, %r1, %r2; st.param.b32 [r], %r1; ret; }}"
    )
}

const PTX_INPUT: CUjitInputType = CUjitInputType::CU_JIT_INPUT_PTX;

/// A link with an error log.
struct Link {
    state: CUlinkState,
    log: Box<[u8]>,
    // The driver keeps the addresses of the options.
    _keys: Box<[CUjit_option]>,
    _values: Box<[*mut c_void]>,
}

impl Link {
    fn new() -> Self {
        Self::with_registers(0)
    }

    /// A link with a limit on the registers of a thread; 0 for none.
    fn with_registers(most: usize) -> Self {
        let mut log = vec![0_u8; 600].into_boxed_slice();
        let mut keys = Box::new([
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            CUjit_option::CU_JIT_MAX_REGISTERS,
        ]);
        let size = ptr::without_provenance_mut(log.len());
        let most = ptr::without_provenance_mut(most);
        let mut values: Box<[*mut c_void; 3]> = Box::new([log.as_mut_ptr().cast(), size, most]);
        let mut state = ptr::null_mut();
        ok!(cuLinkCreate_v2(3, keys.as_mut_ptr(), values.as_mut_ptr(), &raw mut state));
        Self { state, log, _keys: keys, _values: values }
    }

    fn add(&self, kind: CUjitInputType, bytes: &[u8], name: &CStr) -> CUresult {
        let (data, none, nothing) =
            (bytes.as_ptr().cast_mut().cast(), ptr::null_mut(), ptr::null_mut());
        let (state, name) = (self.state, name.as_ptr());
        call!(cuLinkAddData_v2(state, kind, data, bytes.len(), name, 0, none, nothing))
    }

    fn ptx(&self, text: &str, name: &CStr) -> CUresult {
        self.add(PTX_INPUT, format!("{HEAD}{text}").as_bytes(), name)
    }

    fn complete(&self) -> (CUresult, Vec<u8>) {
        let (mut image, mut size) = (ptr::null_mut(), 0);
        let code = call!(cuLinkComplete(self.state, &raw mut image, &raw mut size));
        if code != SUCCESS {
            return (code, Vec::new());
        }
        // SAFETY: the image has `size` bytes until the link is destroyed.
        (code, unsafe { core::slice::from_raw_parts(image.cast::<u8>(), size) }.to_vec())
    }

    fn log(&self) -> String {
        CStr::from_bytes_until_nul(&self.log).expect("a NUL").to_string_lossy().into_owned()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        ok!(cuLinkDestroy(self.state));
    }
}

/// The number that `k` of an image writes.
fn result(image: &[u8]) -> u32 {
    let mut module = ptr::null_mut();
    ok!(cuModuleLoadData(&raw mut module, image.as_ptr().cast()));
    let (function, target) = (function(module, "k"), allocate(4));
    let mut parameter = target;
    let mut parameters = [(&raw mut parameter).cast::<c_void>()];
    let (stream, none) = (ptr::null_mut(), ptr::null_mut());
    ok!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters.as_mut_ptr(), none));
    ok!(cuCtxSynchronize());
    ok!(cuModuleUnload(module));
    words(target, 1)[0]
}

#[test]
fn texts_and_fat_binaries_link_to_an_image_that_runs() {
    context();
    let link = Link::new();
    assert_eq!(link.ptx(CALLER, c"caller.ptx"), SUCCESS, "{}", link.log());
    let text = format!("{HEAD}{}", callee(40, 2));
    let fatbin = write(&[Entry::ptx(75, &text, Packing::Zstd)]);
    assert_eq!(link.add(CUjitInputType::CU_JIT_INPUT_FATBINARY, &fatbin, c"callee"), SUCCESS);
    // Another text with a name of its own that the callee has, too.
    let other = ".global .align 4 .b32 own = 1000;\n.visible .entry other() { ret; }";
    assert_eq!(link.ptx(other, c"other.ptx"), SUCCESS);
    let (code, image) = link.complete();
    assert_eq!((code, link.log()), (SUCCESS, String::new()));
    assert_eq!(image.last(), Some(&0));
    assert_eq!(result(&image), 42);
    assert_eq!(link.ptx(other, c"late.ptx"), CUresult::CUDA_ERROR_INVALID_VALUE);
}

/// Kernels with 40 values of 64 bits, which return before they load them: `free` has 82 registers, `bound` 24.
fn with_registers() -> String {
    let loads = (0..40).map(|n| format!("ld.global.b64 %v{n}, [%p+{}];", 8 * n));
    let stores = (0..40).map(|n| format!("st.global.b64 [%p+{}], %v{};", 8 * n, 39 - n));
    let body: String = loads.chain(stores).collect();
    let kernel = |name: &str, bound: &str| {
        format!(
            ".visible .entry {name}(.param .u64 a) {bound} {{ .reg .b64 %p; .reg .b64 %v<40>; ld.param.u64 %p, [a]; ret; {body} ret; }}\n"
        )
    };
    kernel("free", "") + &kernel("bound", ".maxnreg 24")
}

fn registers(function: CUfunction) -> i32 {
    let (mut value, which) = (0, CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS);
    ok!(cuFuncGetAttribute(&raw mut value, which, function));
    value
}

/// The limit is the image's, which is loaded without options: as for machine code.
#[test]
fn a_limit_on_registers_is_in_the_image() {
    context();
    let text = with_registers();
    for (most, wanted) in [(0, [82, 24]), (57, [57, 24]), (16, [16, 16])] {
        let link = Link::with_registers(most);
        assert_eq!(link.ptx(&text, c"kernels.ptx"), SUCCESS, "{}", link.log());
        let (code, image) = link.complete();
        assert_eq!((code, link.log()), (SUCCESS, String::new()));
        let mut module = ptr::null_mut();
        ok!(cuModuleLoadData(&raw mut module, image.as_ptr().cast()));
        assert_eq!(
            ["free", "bound"].map(|name| registers(function(module, name))),
            wanted,
            "{most}"
        );
        ok!(cuModuleUnload(module));
    }
}

/// Modules and libraries take the limit as an option. It decides how many blocks a cooperative launch may have.
#[test]
fn a_limit_on_registers_bounds_occupancy() {
    context();
    let text = CString::new(format!("{HEAD}{}", with_registers())).expect("no NUL");
    let mut multiprocessors = 0;
    let which = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    ok!(cuDeviceGetAttribute(&raw mut multiprocessors, which, 0));
    let mut address = 0_u64;
    let mut parameters = [(&raw mut address).cast::<c_void>()];
    let (stream, none, nothing) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    for (most, wanted) in [(0, (82, 3)), (32, (32, 8)), (100, (82, 3)), (1, (8, 8))] {
        let (mut key, mut value) =
            (CUjit_option::CU_JIT_MAX_REGISTERS, ptr::without_provenance_mut(most));
        let (key, value, image) = (&raw mut key, &raw mut value, text.as_ptr().cast());
        let (mut module, mut library, mut kernel) =
            (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        ok!(cuModuleLoadDataEx(&raw mut module, image, 1, key, value));
        ok!(cuLibraryLoadData(&raw mut library, image, key, value, 1, none, nothing, 0));
        ok!(cuLibraryGetKernel(&raw mut kernel, library, c"free".as_ptr()));
        for function in [function(module, "free"), kernel.cast()] {
            let mut blocks = 0;
            ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, function, 256, 0));
            assert_eq!((registers(function), blocks), wanted, "{most}");
            let launch = |grid: i32| {
                let (grid, list) = (grid as u32, parameters.as_mut_ptr());
                call!(cuLaunchCooperativeKernel(function, grid, 1, 1, 256, 1, 1, 0, stream, list))
            };
            let codes = [0, 1].map(|more| blocks * multiprocessors + more).map(launch);
            assert_eq!(codes, [SUCCESS, CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE]);
        }
        ok!(cuLibraryUnload(library));
        ok!(cuModuleUnload(module));
    }
}

#[test]
fn files_are_inputs() {
    context();
    let folder = tempfile::tempdir().expect("a folder");
    let link = Link::new();
    for (name, text) in [("a.ptx", CALLER.to_owned()), ("b.ptx", callee(5, 6))] {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("{HEAD}{text}")).expect("written");
        let path = CString::new(path.to_str().expect("UTF-8")).expect("no NUL");
        let (none, nothing) = (ptr::null_mut(), ptr::null_mut());
        ok!(cuLinkAddFile_v2(link.state, PTX_INPUT, path.as_ptr(), 0, none, nothing));
    }
    assert_eq!(result(&link.complete().1), 11);
    let (none, nothing) = (ptr::null_mut(), ptr::null_mut());
    let missing = c"/no/such/file.ptx".as_ptr();
    fails!(
        CUDA_ERROR_FILE_NOT_FOUND,
        cuLinkAddFile_v2(link.state, PTX_INPUT, missing, 0, none, nothing)
    );
}

#[test]
fn the_log_says_what_is_wrong() {
    context();
    let failure = |texts: &[&str]| {
        let link = Link::new();
        for (text, name) in texts.iter().zip([c"a.ptx", c"b.ptx", c""]) {
            assert_eq!(link.ptx(text, name), SUCCESS);
        }
        let (code, _) = link.complete();
        assert_eq!(code, CUresult::CUDA_ERROR_UNKNOWN);
        link.log()
    };
    let defines = callee(1, 2);
    assert_eq!(failure(&[]), "error   : there is no input to link");
    assert_eq!(
        failure(&[CALLER]),
        "error   : Undefined reference to 'counter' in 'a.ptx'\n\
         error   : Undefined reference to 'f' in 'a.ptx'"
    );
    assert_eq!(
        failure(&[&defines, CALLER, &defines]),
        "error   : Multiple definition of 'f' in '<input 3>', first defined in 'a.ptx'\n\
         error   : Multiple definition of 'counter' in '<input 3>', first defined in 'a.ptx'"
    );
    for (what, one, two) in [
        (
            "Size doesn't match for 'counter' in 'a.ptx', first specified",
            ".b32 counter",
            ".b16 counter",
        ),
        (
            "Memory space doesn't match for 'counter' in 'a.ptx', first specified",
            ".global",
            ".const",
        ),
        (
            "Prototype doesn't match for 'f' in 'a.ptx', first defined",
            "(.param .b32 a)",
            "(.param .b64 a)",
        ),
    ] {
        assert!(defines.contains(one), "{one}");
        let log = failure(&[CALLER, &defines.replace(one, two)]);
        assert!(log.contains(&format!("error   : {what} in 'b.ptx' (")), "{log}");
    }

    let link = Link::new();
    assert_eq!(link.ptx("nonsense", c"bad.ptx"), CUresult::CUDA_ERROR_INVALID_PTX);
    let log = link.log();
    assert!(log.starts_with("ptxas application ptx input, line 4; error   : "), "{log}");
    assert!(log.ends_with("\nptxas fatal   : Ptx assembly aborted due to errors"), "{log}");
    let cubin = CUjitInputType::CU_JIT_INPUT_CUBIN;
    let no_binary = CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU;
    assert_eq!(link.add(cubin, b"\x7fELF\x02\x01\x01\0", c"a.cubin"), no_binary);
    assert!(link.log().contains("a.cubin: the software device links PTX"), "{}", link.log());
    assert_eq!(link.add(CUjitInputType(77), b"x", c"x"), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(link.add(PTX_INPUT, b"", c"x"), CUresult::CUDA_ERROR_INVALID_VALUE);
    // What was refused is no input, and the link goes on.
    assert_eq!(link.ptx(CALLER, c"a"), SUCCESS);
    assert_eq!(link.ptx(&defines, c"b"), SUCCESS);
    assert_eq!(result(&link.complete().1), 3);
}

#[test]
fn handles_are_checked() {
    context();
    let (none, nothing, state) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    fails!(CUDA_ERROR_INVALID_VALUE, cuLinkCreate_v2(0, none, nothing, state));
    fails!(CUDA_ERROR_INVALID_HANDLE, cuLinkDestroy(ptr::dangling_mut()));
    let (mut image, mut size) = (ptr::null_mut(), 0);
    let wrong = ptr::dangling_mut();
    fails!(CUDA_ERROR_INVALID_HANDLE, cuLinkComplete(wrong, &raw mut image, &raw mut size));
    let link = Link::new();
    let (no_image, no_size) = (ptr::null_mut(), ptr::null_mut());
    fails!(CUDA_ERROR_INVALID_VALUE, cuLinkComplete(link.state, no_image, no_size));
}

/// `meet(counts, rounds)`: each block adds to its count, and to those of all blocks what they had before.
const GRID: &str = ".extern .func (.param .b64 h) cudaCGGetIntrinsicHandle (.param .b32 scope);
.extern .func (.param .b32 c) cudaCGSynchronize (.param .b64 h, .param .b32 flags);
.visible .entry meet(.param .u64 counts, .param .u64 codes) {
.reg .b32 %r<12>; .reg .b64 %rd<8>; .reg .pred %p<4>;
ld.param.u64 %rd1, [counts]; ld.param.u64 %rd5, [codes];
{ .param .b32 a; st.param.b32 [a], 1; .param .b64 h;
call.uni (h), cudaCGGetIntrinsicHandle, (a); ld.param.b64 %rd2, [h]; }
mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; mov.u32 %r8, %tid.x;
setp.eq.u32 %p1, %r8, 0;
mad.wide.u32 %rd3, %r1, 4, %rd1;
@%p1 st.global.u32 [%rd3], 7;
{ .param .b64 a; st.param.b64 [a], %rd2; .param .b32 f; st.param.b32 [f], 0; .param .b32 c;
call.uni (c), cudaCGSynchronize, (a, f); ld.param.b32 %r3, [c]; }
add.u32 %r4, %r1, 1; rem.u32 %r4, %r4, %r2;
mad.wide.u32 %rd4, %r4, 4, %rd1;
ld.global.u32 %r5, [%rd4];
add.u32 %r5, %r5, %r3;
mad.wide.u32 %rd6, %r1, 4, %rd5;
@%p1 st.global.u32 [%rd6], %r5;
ret; }";

#[test]
fn the_device_runtime_is_linked_by_the_device() {
    context();
    let library = CUjitInputType::CU_JIT_INPUT_LIBRARY;
    let archive = b"!<arch>\n...\0cudaCGGetIntrinsicHandle\0...";
    for with in
        [None, Some((&archive[..], c"libother.a")), Some((b"!<arch>\n", c"/x/libcudadevrt.a"))]
    {
        let link = Link::new();
        assert_eq!(link.ptx(GRID, c"grid"), SUCCESS);
        if let Some((bytes, name)) = with {
            assert_eq!(link.add(library, bytes, name), SUCCESS, "{name:?}");
        }
        let (code, image) = link.complete();
        assert_eq!(code, SUCCESS, "{}", link.log());
        let text = String::from_utf8(image).expect("a text");
        let kernel = function(load(text.trim_end_matches('\0')), "meet");
        for (blocks, cooperative, wanted) in [(1_u32, true, 7), (33, true, 7), (1, false, 8)] {
            let (mut counts, mut codes) = (allocate(4 * 33), allocate(4 * 33));
            let mut arguments = [(&raw mut counts).cast::<c_void>(), (&raw mut codes).cast()];
            let (list, none) = (arguments.as_mut_ptr(), ptr::null_mut());
            if cooperative {
                ok!(cuLaunchCooperativeKernel(kernel, blocks, 1, 1, 64, 1, 1, 0, none, list));
            } else {
                // Only a cooperative launch has a handle.
                let nothing = ptr::null_mut();
                ok!(cuLaunchKernel(kernel, blocks, 1, 1, 64, 1, 1, 0, none, list, nothing));
            }
            ok!(cuCtxSynchronize());
            assert_eq!(words(codes, blocks as usize), vec![wanted; blocks as usize]);
        }
    }
    // Other libraries are machine code.
    let link = Link::new();
    let code = link.add(library, b"!<arch>\nother", c"libother.a");
    assert_eq!(code, CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    // A text that has the functions itself keeps them.
    let link = Link::new();
    let own = ".visible .func (.param .b64 h) cudaCGGetIntrinsicHandle (.param .b32 s) { st.param.b64 [h], 0; ret; }
        .visible .func (.param .b32 c) cudaCGSynchronize (.param .b64 h, .param .b32 f) { st.param.b32 [c], 5; ret; }";
    assert_eq!((link.ptx(GRID, c"grid"), link.ptx(own, c"own")), (SUCCESS, SUCCESS));
    let (code, image) = link.complete();
    assert_eq!(code, SUCCESS, "{}", link.log());
    assert!(!String::from_utf8(image).expect("a text").contains("%envreg1"));
    // One that has a function itself gets the other.
    let (handle, meet) = own.split_once('\n').expect("two lines");
    for (own, runtime) in [(handle, [false, true]), (meet, [true, false])] {
        let link = Link::new();
        assert_eq!((link.ptx(GRID, c"grid"), link.ptx(own, c"own")), (SUCCESS, SUCCESS));
        let (code, image) = link.complete();
        assert_eq!(code, SUCCESS, "{}", link.log());
        let text = String::from_utf8(image).expect("a text");
        assert_eq!(["%envreg1", "membar.gl"].map(|part| text.contains(part)), runtime);
    }
}
