//! cuBLASLt: products of matrices with what follows them, such as a bias and an activation, and of 8-bit floats.
//!
//! ```no_run
//! use cuda_libs::blas::marker::F32;
//! use cuda_libs::lt::{Activation, Extras, Lt, Problem};
//! use cuda_libs::{Blas, Layout, Mat, MatMut};
//! # use cuda_safe::{Context, DeviceBuffer, Stream};
//! # fn run(context: &Context, stream: &Stream, x: &DeviceBuffer<f32>, w: &DeviceBuffer<f32>, bias: &DeviceBuffer<f32>,
//! #     y: &mut DeviceBuffer<f32>) -> cuda_libs::Result<()> {
//! // y = relu(x w + bias): 64 samples of 32 features become 16.
//! let lt = Lt::new(&Blas::new(context)?)?;
//! let problem = Problem::new(Layout::new(64, 32), Layout::new(32, 16), Layout::new(64, 16));
//! let plan = lt.plan::<F32, _, _, _>(&problem.bias().activation(Activation::Relu))?;
//! let (x, w, y) = (Mat::new(x, 64, 32)?, Mat::new(w, 32, 16)?, MatMut::new(y, 64, 16)?);
//! plan.run(stream, (1.0, 0.0), x, w, y, Extras::none().bias(bias))
//! # }
//! ```

mod descriptor;
mod extras;
mod library;
mod plan;
mod precision;
mod problem;

use cuda_safe::nvrtc::Cache;
use cuda_sys::cublaslt::cublasLtHandle_t;

pub use extras::Extras;
pub use plan::Plan;
pub use precision::Precision;
pub use problem::{Activation, Problem};

use crate::blas::Blas;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::load::CublasLtLibrary;

/// cuBLASLt for one context. Cloning it is cheap; clones may be used by several threads.
///
/// It takes the workspaces of a [`Blas`], with their bound. The first one of a context creates a handle of cuBLASLt, which all
/// share. It is not destroyed: the driver frees its device memory with the context.
#[derive(Debug, Clone)]
pub struct Lt {
    pub(crate) blas: Blas,
    pub(super) library: CublasLtLibrary,
    pub(super) handle: Handle,
    pub(super) cache: Cache,
}

/// A handle of cuBLASLt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handle(pub(super) cublasLtHandle_t);

// SAFETY: cuBLASLt allows the use of a handle by several threads at once.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Lt {
    /// Finds and loads cuBLASLt, and creates a handle in the context of `blas`.
    ///
    /// # Errors
    /// As [`Library::load`](crate::Library::load); if its release is not that of cuBLAS; or the error of cuBLASLt.
    pub fn new(blas: &Blas) -> Result<Self> {
        Self::with(blas, CublasLtLibrary::load()?)
    }

    /// Works like [`new`](Self::new), with this library.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(blas: &Blas, library: CublasLtLibrary) -> Result<Self> {
        cuda_safe::check_caller()?;
        library::fits(library, blas)?;
        let handle = library::handle(library, blas.context())?;
        Ok(Self { blas: blas.clone(), library, handle, cache: Cache::user() })
    }

    /// Keeps the chosen algorithms in `cache`. The default is the user's kernel cache, [`Cache::user`].
    #[must_use]
    pub fn cache(self, cache: Cache) -> Self {
        Self { cache, ..self }
    }

    /// Returns the library.
    #[must_use]
    pub fn library(&self) -> CublasLtLibrary {
        self.library
    }

    /// Makes a plan: checks the problem, and chooses an algorithm, whose workspace is at most
    /// [`Config::workspace_bytes`](crate::Config::workspace_bytes).
    ///
    /// cuBLASLt is asked once for each problem, device and version of the library: the kernel cache keeps the algorithm. One
    /// that cuBLASLt does not accept any more is chosen again.
    ///
    /// `M` is a precision of [`blas::marker`](crate::blas::marker).
    ///
    /// # Errors
    /// [`Error::Invalid`] if the shapes do not fit, or cuBLASLt has no algorithm; the error of cuBLASLt.
    pub fn plan<M: Precision<A, B, D>, A: Element, B: Element, D: Element>(
        &self,
        problem: &Problem,
    ) -> Result<Plan<M, A, B, D>> {
        Plan::new(self, problem)
    }

    /// Returns the error of a code, or of a missing function.
    #[cold]
    pub(super) fn failed(&self, call: &'static str, status: crate::blas::call::Status) -> Error {
        match status {
            Ok(status) => crate::blas::call::failed(self.blas.context(), call, status),
            Err(missing) => self.library.lacks(call, missing.name),
        }
    }
}
