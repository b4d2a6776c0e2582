//! The same functions for Python objects, whose framework has an exchange table (DLPack 1.2), such as PyTorch 2.11.
//!
//! Python's headers are not needed: the framework's table reads the objects, and they live until the call returns, because
//! the caller holds them. The calling thread holds the interpreter's lock, so `ctypes` calls these functions through
//! `PyDLL`. If a function of the table fails, it has set a Python exception, which `PyDLL` raises.

use std::ffi::{c_int, c_void};

use cuda_safe::dlpack::Exchange;
use cuda_safe::dlpack::abi::DLPackExchangeAPI;

use crate::c::code;
use crate::operators::{self, Argument, Caller, Query};

/// A pointer to a Python object (`PyObject *`).
type Object = *mut c_void;

/// Computes `out = a x + y`.
///
/// # Safety
/// - `api` is the exchange table of the objects' type, and the calling thread holds the interpreter's lock.
/// - The objects live until this returns. No capture of the current stream begins or ends meanwhile, and other uses of the
///   memory are ordered with that stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torch_op_axpy_objects(
    api: *const DLPackExchangeAPI,
    a: f32,
    x: Object,
    y: Object,
    out: Object,
) -> c_int {
    let run = || {
        // SAFETY: the caller's promise.
        let (exchange, x, y, out) = unsafe {
            let exchange = Exchange::from_raw(api)?;
            (exchange, exchange.borrow(x)?, exchange.borrow(y)?, exchange.borrow(out)?)
        };
        let tensors = [Argument::new("x", &x), Argument::new("y", &y), Argument::new("out", &out)];
        operators::axpy(&Caller::Framework(exchange), a, tensors)
    };
    code(run())
}

/// Computes the signed distance of each point.
///
/// # Safety
/// As for [`torch_op_axpy_objects`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torch_op_signed_distance_objects(
    api: *const DLPackExchangeAPI,
    points: Object,
    vertices: Object,
    faces: Object,
    distances: Object,
) -> c_int {
    let run = || {
        // SAFETY: the caller's promise.
        let (exchange, points, vertices, faces, distances) = unsafe {
            let exchange = Exchange::from_raw(api)?;
            let (points, vertices) = (exchange.borrow(points)?, exchange.borrow(vertices)?);
            (exchange, points, vertices, exchange.borrow(faces)?, exchange.borrow(distances)?)
        };
        let query = Query {
            points: Argument::new("points", &points),
            vertices: Argument::new("vertices", &vertices),
            faces: Argument::new("faces", &faces),
        };
        let distances = Argument::new("distances", &distances);
        operators::signed_distance(&Caller::Framework(exchange), &query, distances)
    };
    code(run())
}

/// Computes the gradients of signed distances by points and vertices.
///
/// # Safety
/// As for [`torch_op_axpy_objects`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torch_op_signed_distance_backward_objects(
    api: *const DLPackExchangeAPI,
    g: Object,
    points: Object,
    vertices: Object,
    faces: Object,
    by_points: Object,
    by_vertices: Object,
    deterministic: c_int,
) -> c_int {
    let run = || {
        // SAFETY: the caller's promise.
        let (exchange, [g, points, vertices, faces, by_points, by_vertices]) = unsafe {
            let exchange = Exchange::from_raw(api)?;
            let tensors = [
                exchange.borrow(g)?,
                exchange.borrow(points)?,
                exchange.borrow(vertices)?,
                exchange.borrow(faces)?,
                exchange.borrow(by_points)?,
                exchange.borrow(by_vertices)?,
            ];
            (exchange, tensors)
        };
        let query = Query {
            points: Argument::new("points", &points),
            vertices: Argument::new("vertices", &vertices),
            faces: Argument::new("faces", &faces),
        };
        let by =
            [Argument::new("by_points", &by_points), Argument::new("by_vertices", &by_vertices)];
        let (caller, g) = (Caller::Framework(exchange), Argument::new("g", &g));
        operators::signed_distance_backward(&caller, &query, g, by, deterministic != 0)
    };
    code(run())
}
