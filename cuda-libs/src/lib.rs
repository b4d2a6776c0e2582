//! Safe calls of NVIDIA's libraries for [`cuda_safe`].
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(all(feature = "cublaslt", feature = "cufft", feature = "curand")),
    allow(dead_code, unused_imports, reason = "each library uses a part of what they share")
)]

#[cfg(feature = "cublas")]
pub mod blas;
mod element;
mod error;
#[cfg(feature = "cufft")]
pub mod fft;
mod load;
#[cfg(feature = "cublaslt")]
pub mod lt;
pub mod mat;
mod park;
#[cfg(feature = "curand")]
pub mod rand;
#[cfg(feature = "tape")]
pub mod tape;
mod uses;

#[cfg(feature = "cublas")]
pub use blas::{Blas, Config};
pub use element::{Complex, DataType, E4m3, E5m2, Element, bf16, f16};
pub use error::{Error, Result};
#[cfg(feature = "cufft")]
pub use fft::Fft;
#[cfg(feature = "cublas")]
pub use load::CublasLibrary;
#[cfg(feature = "cublaslt")]
pub use load::CublasLtLibrary;
#[cfg(feature = "cufft")]
pub use load::CufftLibrary;
#[cfg(feature = "curand")]
pub use load::CurandLibrary;
pub use load::{Library, Table};
#[cfg(feature = "cublaslt")]
pub use lt::Lt;
pub use mat::{Layout, Mat, MatMut, Order, Vector, VectorMut};
#[cfg(feature = "curand")]
pub use rand::{Generator, Sequence};
