//! Tensors of other frameworks by [DLPack](https://dmlc.github.io/dlpack) 1.x, without a copy or a wait.
//!
//! - A framework's tensor comes in as a [`Tensor`] (a managed tensor, from a capsule) or a [`TensorRef`].
//!   [`LentStream::view`](crate::LentStream::view) and its siblings show its elements for a call, and
//!   [`Tensor::into_buffer`] keeps them for longer.
//! - A buffer goes out by [`DeviceBuffer::into_dlpack`](crate::DeviceBuffer::into_dlpack).
//! - [`Exchange`] is a framework's table of functions: its tensors, current stream and allocator, without Python's
//!   headers.
//!
//! ```no_run
//! # use cuda_safe::{Context, DeviceBuffer, LaunchConfig, Result, kernels};
//! # use cuda_safe::dlpack::{Consumer, Exchange, abi::DLPackExchangeAPI};
//! # kernels! { struct Kernels;
//! #     unsafe in "" { safe fn axpy(a: f32, x: &[f32], y: &mut [f32], n: usize) where n <= x.len(), n <= y.len(); } }
//! # unsafe fn run(context: &Context, kernels: &Kernels, api: *const DLPackExchangeAPI, x: *mut std::ffi::c_void,
//! #     y: *mut std::ffi::c_void) -> Result<()> {
//! // SAFETY: the framework's table, and objects of its tensor type that live until this returns.
//! unsafe {
//!     let exchange = Exchange::from_raw(api)?;
//!     let (x, y) = (exchange.borrow(x)?, exchange.borrow(y)?);
//!     context.lend(exchange.current_stream(context)?, |lent| {
//!         let x = lent.view::<f32>(&x)?;
//!         let y = lent.view_mut::<f32>(&y)?;
//!         let n = y.len();
//!         kernels.axpy(lent, LaunchConfig::cover(n, 256), 2.0, x, y, n)
//!     })
//! }
//! # }
//! ```

pub mod abi;
mod element;
mod exchange;
mod export;
mod tensor;
mod view;

pub use element::{Scalars, TensorElement, TensorNumber};
pub use exchange::{BorrowedTensor, Exchange, ExchangeAllocator};
pub use export::Consumer;
pub use tensor::{Tensor, TensorRef};
pub use view::StridedSlice;
