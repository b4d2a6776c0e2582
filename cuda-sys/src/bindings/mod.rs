//! What `cargo xtask bindgen` wrote. Do not edit the files in this folder; see UPGRADE.md.

use crate::table::{codes, table, zeroed};

#[rustfmt::skip]
#[allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::missing_errors_doc,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "generated: NVIDIA's names and documentation; the policy is on `Driver`"
)]
pub(crate) mod driver;
#[rustfmt::skip]
#[allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::missing_errors_doc,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "generated: NVIDIA's names and documentation; the policy is on `Nvrtc`"
)]
pub(crate) mod nvrtc;
#[cfg(feature = "libraries")]
#[rustfmt::skip]
#[allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::missing_errors_doc,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "generated: NVIDIA's names and documentation; the policy is on `Cublas`"
)]
pub(crate) mod cublas;
#[cfg(feature = "libraries")]
#[rustfmt::skip]
#[allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::missing_errors_doc,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "generated: NVIDIA's names and documentation; the policy is on `Cufft`"
)]
pub(crate) mod cufft;
#[cfg(feature = "libraries")]
#[rustfmt::skip]
#[allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::missing_errors_doc,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "generated: NVIDIA's names and documentation; the policy is on `Cublas`"
)]
pub(crate) mod library_types;
#[cfg(feature = "libraries")]
#[rustfmt::skip]
#[allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::missing_errors_doc,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "generated: NVIDIA's names and documentation; the policy is on `CublasLt`"
)]
pub(crate) mod cublaslt;
#[cfg(feature = "libraries")]
#[rustfmt::skip]
#[allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::missing_errors_doc,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "generated: NVIDIA's names and documentation; the policy is on `Curand`"
)]
pub(crate) mod curand;
