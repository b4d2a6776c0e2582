//! Tangents by functions that a program finds by name.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use cuda_emu::Config;
use cuda_sys::CUresult;

mod common;
use common::{allocate, call, context, function, launch, load, ok, stream};

const PTX: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry scale(.param .u64 x, .param .f64 by)
{
    .reg .b64 %w; .reg .f64 %d<4>;
    ld.param.u64 %w, [x];
    ld.param.f64 %d1, [by];
    ld.global.f64 %d2, [%w];
    mul.rn.f64 %d2, %d2, %d1;
    st.global.f64 [%w], %d2;
    ret;
}
.visible .entry shift(.param .u64 x)
{
    .reg .b64 %w<3>; .reg .f64 %d<4>;
    ld.param.u64 %w1, [x];
    ld.global.b64 %w2, [%w1];
    shl.b64 %w2, %w2, 1;
    mov.b64 %d1, %w2;
    add.rn.f64 %d1, %d1, %d1;
    st.global.f64 [%w1], %d1;
    ret;
}
";

const F64: u32 = 3;

type Set = unsafe extern "C" fn(u64, u32, usize, *const f64) -> CUresult;
type Get = unsafe extern "C" fn(u64, u32, usize, *mut f64) -> CUresult;
type SetArgument = unsafe extern "C" fn(*const c_char, usize, u32, f64) -> CUresult;
type ClearArguments = unsafe extern "C" fn(*const c_char) -> CUresult;
type Lost = unsafe extern "C" fn(*mut usize, *mut c_char, c_int) -> CUresult;

fn find(name: &CStr) -> *mut c_void {
    let mut address = ptr::null_mut();
    ok!(cuGetProcAddress_v2(name.as_ptr(), &raw mut address, 12000, 0, ptr::null_mut()));
    assert_eq!(address.cast_const(), cuda_emu::resolve(name));
    assert!(!address.is_null());
    address
}

/// One test: a process has one configuration.
#[test]
fn functions_found_by_name_set_and_return_tangents() {
    assert!(Config::new().tangents(true).install());
    // SAFETY: the functions have these types.
    let (set, get, set_argument, clear, lost) = unsafe {
        (
            std::mem::transmute::<*mut c_void, Set>(find(c"cuEmuTangentsSet")),
            std::mem::transmute::<*mut c_void, Get>(find(c"cuEmuTangentsGet")),
            std::mem::transmute::<*mut c_void, SetArgument>(find(c"cuEmuTangentsSetArgument")),
            std::mem::transmute::<*mut c_void, ClearArguments>(find(
                c"cuEmuTangentsClearArguments",
            )),
            std::mem::transmute::<*mut c_void, Lost>(find(c"cuEmuTangentsLost")),
        )
    };
    let none = ptr::null_mut::<f64>();
    // SAFETY: no place is needed for nothing.
    assert_eq!(unsafe { get(0, F64, 0, none) }, CUresult::CUDA_ERROR_NOT_INITIALIZED);
    context();
    let x = allocate(16);
    let get = |count: usize| {
        ok!(cuCtxSynchronize());
        let mut values = vec![f64::NAN; count];
        // SAFETY: there is room for so many.
        assert_eq!(unsafe { get(x, F64, count, values.as_mut_ptr()) }, common::SUCCESS);
        values
    };
    let values = [5.0f64, 7.0];
    let upload = || {
        ok!(cuMemcpyHtoD_v2(x, values.as_ptr().cast(), 16));
        ok!(cuCtxSynchronize());
    };
    upload();
    assert_eq!(get(2), [0.0; 2]);
    // SAFETY: two numbers are read.
    assert_eq!(unsafe { set(x, F64, 2, [1.0, 2.0].as_ptr()) }, common::SUCCESS);
    assert_eq!(get(2), [1.0, 2.0]);
    assert!(get(0).is_empty());

    let module = load(PTX);
    let (scale, shift) = (function(module, "scale"), function(module, "shift"));
    let (mut at, mut by) = (x, 3.0f64);
    let mut arguments = [(&raw mut at).cast(), (&raw mut by).cast()];
    // SAFETY: a text with a NUL.
    assert_eq!(unsafe { set_argument(c"scale".as_ptr(), 8, F64, 10.0) }, common::SUCCESS);
    let stream = stream(0);
    assert_eq!(launch(scale, stream, &mut arguments), common::SUCCESS);
    // 3 dx + x dby
    assert_eq!(get(1), [53.0]);
    upload();
    // SAFETY: as above.
    assert_eq!(unsafe { clear(c"scale".as_ptr()) }, common::SUCCESS);
    assert_eq!(launch(scale, stream, &mut arguments), common::SUCCESS);
    assert_eq!(get(1), [0.0]);

    let mut text = [1 as c_char; 200];
    let mut lose = |expected: usize| {
        let mut count = usize::MAX;
        // SAFETY: the places are ours, and the text has room for so many bytes.
        let code = unsafe { lost(&raw mut count, text.as_mut_ptr(), 200) };
        assert_eq!((code, count), (common::SUCCESS, expected));
        // SAFETY: a text with a NUL was written.
        unsafe { CStr::from_ptr(text.as_ptr()) }.to_str().expect("text").to_owned()
    };
    assert_eq!(lose(0), "");
    // SAFETY: one number is read.
    assert_eq!(unsafe { set(x, F64, 1, [1.0].as_ptr()) }, common::SUCCESS);
    assert_eq!(launch(shift, stream, &mut arguments[..1]), common::SUCCESS);
    assert!(get(1)[0].is_nan());
    let told = lose(1);
    assert!(told.contains("shift") && told.contains("line"), "{told}");
    assert_eq!(lose(0), "");

    // What makes no sense changes nothing.
    let wrong = [
        // SAFETY: null is refused; the others read one number that there is.
        unsafe { set(x, F64, 1, ptr::null()) },
        // SAFETY: as above.
        unsafe { set(x, 9, 1, [1.0].as_ptr()) },
        // SAFETY: as above.
        unsafe { set(x, F64, 1, [f64::NAN].as_ptr()) },
        // SAFETY: as above.
        unsafe { set(x + 16, F64, 1, [1.0].as_ptr()) },
        // SAFETY: as above.
        unsafe { set(x + 4, F64, 1, [1.0].as_ptr()) },
        // SAFETY: null is refused.
        unsafe { set_argument(ptr::null(), 8, F64, 1.0) },
        // SAFETY: a text with a NUL.
        unsafe { set_argument(c"scale".as_ptr(), 1 << 20, F64, 1.0) },
    ];
    let misaligned = CUresult::CUDA_ERROR_MISALIGNED_ADDRESS;
    for (at, code) in wrong.into_iter().enumerate() {
        let wanted = if at == 4 { misaligned } else { CUresult::CUDA_ERROR_INVALID_VALUE };
        assert_eq!(code, wanted, "{at}");
    }
    assert_eq!(call!(cuCtxSynchronize()), common::SUCCESS);
}
