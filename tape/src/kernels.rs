//! The tape's own kernels, from PTX that is part of this crate.

use std::sync::OnceLock;

use cuda_safe::nvrtc::Program;
use cuda_safe::{Context, Kernel, Module, Result};

const PTX: &str = include_str!("../ptx/tape.ptx");

/// The PTX of the crate's own kernels. For this project's tests.
#[cfg(feature = "internals")]
#[must_use]
pub fn ptx() -> &'static str {
    PTX
}

/// The device header `geom/tape.cuh`: the name under which it is included, and its text.
pub const HEADER: (&str, &str) = ("geom/tape.cuh", include_str!("../device/geom/tape.cuh"));

/// The headers that adjoints need.
const HEADERS: &[(&str, &str)] = &[cuda_safe::arg::LAYOUT_HEADER, HEADER];

/// The device headers of this crate: the names under which they are included, and their texts. They need
/// no header of CUDA.
#[must_use]
pub fn headers() -> &'static [(&'static str, &'static str)] {
    HEADERS
}

/// A program of this CUDA C++ text, which can `#include <geom/tape.cuh>`.
pub fn program(source: impl Into<String>) -> Program {
    HEADERS.iter().fold(Program::new(source), |program, (name, text)| program.header(*name, *text))
}

/// The kernels of `device/kernels/tape.cu`.
pub(crate) struct Kernels {
    pub(crate) add_f32: Kernel,
    pub(crate) add_f64: Kernel,
    pub(crate) zero: Kernel,
    pub(crate) copy: Kernel,
    pub(crate) sum_partials: Kernel,
    pub(crate) note: Kernel,
    pub(crate) take: Kernel,
    pub(crate) log_insert: Kernel,
    pub(crate) log_add: Kernel,
    pub(crate) log_apply: Kernel,
}

/// Threads in a block of each of them.
pub(crate) const BLOCK: u32 = 256;

/// Loaded when they are first needed.
pub(crate) struct Lazy {
    context: Context,
    kernels: OnceLock<Kernels>,
}

impl Lazy {
    pub(crate) fn new(context: Context) -> Self {
        Self { context, kernels: OnceLock::new() }
    }

    pub(crate) fn get(&self) -> Result<&Kernels> {
        if let Some(kernels) = self.kernels.get() {
            return Ok(kernels);
        }
        let module = Module::from_ptx(&self.context, PTX)?;
        let kernels = Kernels {
            add_f32: module.kernel("tape_add_f32")?,
            add_f64: module.kernel("tape_add_f64")?,
            zero: module.kernel("tape_zero")?,
            copy: module.kernel("tape_copy")?,
            sum_partials: module.kernel("tape_sum_partials")?,
            note: module.kernel("tape_note")?,
            take: module.kernel("tape_take")?,
            log_insert: module.kernel("tape_log_insert")?,
            log_add: module.kernel("tape_log_add")?,
            log_apply: module.kernel("tape_log_apply")?,
        };
        Ok(self.kernels.get_or_init(|| kernels))
    }
}
