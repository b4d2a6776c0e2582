//! Operators for PyTorch, in a library of C functions: `axpy`, and the signed distance to a triangle mesh with its
//! gradients. `README.md` shows how to build and use them.
//!
//! - `operators` has the operators. They take tensors as DLPack describes them, on the caller's stream.
//! - `c` has the functions for C, and for any tensor with a `__dlpack__` capsule: `torch_op.h` declares them.
//! - `python` has the same functions for Python objects. They are faster, because the library reads the tensors and the
//!   current stream through the framework's exchange table.

pub mod c;
mod operators;
pub mod python;
