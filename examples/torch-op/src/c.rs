//! The functions that `torch_op.h` declares: tensors as `dlpack.h` describes them, and a stream.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};

use cuda_safe::dlpack::TensorRef;
use cuda_safe::dlpack::abi::DLTensor;
use cuda_safe::sys::CUstream;
use cuda_safe::{Error, ErrorKind, Result};

use crate::operators::{self, Argument, Caller, Query};

thread_local! {
    /// The text of this thread's last error.
    static ERROR: RefCell<CString> = RefCell::default();
}

/// Returns the code of a result: 0, 1 for an argument that does not fit, or 2 for another error. Keeps the error's text.
pub(crate) fn code(result: Result<()>) -> c_int {
    let Err(error) = result else { return 0 };
    let text = CString::new(error.to_string().replace('\0', " ")).unwrap_or_default();
    // The thread's storage is gone only at its end.
    let _ = ERROR.try_with(|last| last.replace(text));
    if matches!(error.kind(), ErrorKind::Invalid(_)) { 1 } else { 2 }
}

/// Returns the text of this thread's last error; empty if there was none. It is valid until the thread's next error.
#[unsafe(no_mangle)]
pub extern "C" fn torch_op_error() -> *const c_char {
    ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Returns an argument of a C function.
///
/// # Safety
/// `tensor` is null or a tensor as `dlpack.h` describes it, which stays valid until the call of the C function returns.
unsafe fn argument<'a>(name: &'static str, tensor: *const DLTensor) -> Result<Argument<'a>> {
    // SAFETY: the caller's promise.
    match unsafe { tensor.as_ref() } {
        // SAFETY: as above. A `DLTensor` has no flag for being read-only; the C functions do not write `const` tensors.
        Some(tensor) => Ok(Argument::new(name, unsafe { TensorRef::new(tensor, false) })),
        None => Err(Error::invalid(format!("argument `{name}` is null"))),
    }
}

/// See `torch_op.h`.
///
/// # Safety
/// The stream belongs to the tensors' device, or is 0 or 1; it and the tensors stay valid until this returns. No capture of
/// the stream begins or ends meanwhile, and other uses of the memory are ordered with the stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torch_op_axpy(
    stream: CUstream,
    a: f32,
    x: *const DLTensor,
    y: *const DLTensor,
    out: *mut DLTensor,
) -> c_int {
    let run = || {
        // SAFETY: the caller's promise.
        let (x, y, out) = unsafe { (argument("x", x)?, argument("y", y)?, argument("out", out)?) };
        operators::axpy(&Caller::Stream(stream), a, [x, y, out])
    };
    code(run())
}

/// See `torch_op.h`.
///
/// # Safety
/// As for [`torch_op_axpy`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torch_op_signed_distance(
    stream: CUstream,
    points: *const DLTensor,
    vertices: *const DLTensor,
    faces: *const DLTensor,
    distances: *mut DLTensor,
) -> c_int {
    let run = || {
        // SAFETY: the caller's promise.
        let (query, distances) =
            unsafe { (query(points, vertices, faces)?, argument("distances", distances)?) };
        operators::signed_distance(&Caller::Stream(stream), &query, distances)
    };
    code(run())
}

/// See `torch_op.h`.
///
/// # Safety
/// As for [`torch_op_axpy`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torch_op_signed_distance_backward(
    stream: CUstream,
    g: *const DLTensor,
    points: *const DLTensor,
    vertices: *const DLTensor,
    faces: *const DLTensor,
    by_points: *mut DLTensor,
    by_vertices: *mut DLTensor,
    deterministic: c_int,
) -> c_int {
    let run = || {
        // SAFETY: the caller's promise.
        let (query, g, by) = unsafe {
            let by = [argument("by_points", by_points)?, argument("by_vertices", by_vertices)?];
            (query(points, vertices, faces)?, argument("g", g)?, by)
        };
        let caller = Caller::Stream(stream);
        operators::signed_distance_backward(&caller, &query, g, by, deterministic != 0)
    };
    code(run())
}

/// # Safety
/// As for [`argument`].
unsafe fn query<'a>(
    points: *const DLTensor,
    vertices: *const DLTensor,
    faces: *const DLTensor,
) -> Result<Query<'a>> {
    // SAFETY: the caller's promise.
    unsafe {
        Ok(Query {
            points: argument("points", points)?,
            vertices: argument("vertices", vertices)?,
            faces: argument("faces", faces)?,
        })
    }
}
