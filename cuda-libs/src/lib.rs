//! Safe calls of NVIDIA's libraries for [`cuda_safe`].
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "cublas"), allow(dead_code, reason = "the libraries read the views"))]

#[cfg(feature = "cublas")]
pub mod blas;
mod element;
mod error;
mod load;
pub mod mat;
#[cfg(feature = "tape")]
pub mod tape;
mod uses;

#[cfg(feature = "cublas")]
pub use blas::{Blas, Config};
pub use element::{Complex, DataType, Element, bf16, f16};
pub use error::{Error, Result};
#[cfg(feature = "cublas")]
pub use load::CublasLibrary;
pub use load::{Library, Table};
pub use mat::{Layout, Mat, MatMut, Order, Vector, VectorMut};
