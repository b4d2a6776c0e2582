//! cuBLAS: products of matrices and vectors.

mod batched;
pub(crate) mod call;
mod compute;
pub(crate) mod gemm;
mod level1;
mod level2;
mod level3;
pub(crate) mod pool;
mod raw;
pub(crate) mod scalar;

use std::sync::{Arc, Mutex};

use cuda_safe::{Context, Stream};

pub use batched::Group;
pub use compute::{Compute, Multiply, marker};
pub use level3::{Diagonal, Side, Triangle};
pub use raw::{Float, Numeric};
pub use scalar::{DeviceScalar, Scalar};

use crate::error::Result;
use crate::load::CublasLibrary;
use pool::Pool;

/// cuBLAS for one context. Cloning it is cheap; clones share handles and workspaces, and may be used by several threads.
///
/// Each call is ordered like a launch: behind earlier uses of its memory on other streams, and before later ones. On a
/// stream that records it becomes part of the graph. Matrices and vectors belong to the context. While a framework captures
/// the stream that it has lent, calls fail unless [`Config::workspace_bytes`] is 0: such a graph can't keep a workspace.
///
/// # Handles and workspaces
/// The first `Blas` of a context creates a handle, which takes cuBLAS some milliseconds. A call takes an idle handle, or
/// creates one if all are in use by other threads, so a handle is never shared by two threads at once.
///
/// Each stream has a workspace of [`Config::workspace_bytes`], up to [`Config::workspaces`] of them. Further streams share
/// them, so that products of two such streams run one after the other. If at some moment more threads than that call, each
/// of them has a workspace that is freed after its call. A graph has workspaces of its own, one for each recorded stream,
/// which it keeps.
///
/// Dropping the last clone frees the workspaces in the order of their streams and parks the handles for the next `Blas` of
/// the context; it never waits. [`close`](Self::close) destroys the handles.
#[derive(Debug, Clone)]
pub struct Blas {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    library: CublasLibrary,
    context: Context,
    config: Config,
    driver: &'static cuda_sys::Driver,
    /// Allocates the workspaces of graphs, outside of their captures.
    helper: Stream,
    pool: Mutex<Pool>,
}

/// Options of a [`Blas`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Config {
    library: Option<CublasLibrary>,
    workspace_bytes: Option<usize>,
    workspaces: Option<usize>,
}

/// The default of [`Config::workspaces`].
const WORKSPACES: usize = 4;

impl Config {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the library. The default is [`CublasLibrary::load`].
    #[must_use]
    pub fn library(self, library: CublasLibrary) -> Self {
        Self { library: Some(library), ..self }
    }

    /// Sets the size of a workspace. The default is what NVIDIA recommends: 32 MiB on devices of compute capability 9.0 and
    /// later, 4 MiB on others. With 0, cuBLAS uses only algorithms that need no workspace.
    #[must_use]
    pub fn workspace_bytes(self, bytes: usize) -> Self {
        Self { workspace_bytes: Some(bytes), ..self }
    }

    /// Sets how many streams have a separate workspace, at least 1. The default is 4.
    #[must_use]
    pub fn workspaces(self, count: usize) -> Self {
        Self { workspaces: Some(count), ..self }
    }
}

impl Blas {
    /// Finds and loads cuBLAS, and creates a handle in the context.
    ///
    /// # Errors
    /// As [`CublasLibrary::load`]; the error of cuBLAS when a handle is created.
    pub fn new(context: &Context) -> Result<Self> {
        Self::with(context, &Config::new())
    }

    /// Works like [`new`](Self::new), with options.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(context: &Context, config: &Config) -> Result<Self> {
        cuda_safe::check_caller()?;
        let library = match config.library {
            Some(library) => library,
            None => CublasLibrary::load()?,
        };
        library.is_for(context)?;
        let major = context.device().compute_capability()?.0;
        let bytes = config.workspace_bytes.unwrap_or(if major >= 9 { 32 << 20 } else { 4 << 20 });
        let workspaces = config.workspaces.unwrap_or(WORKSPACES).max(1);
        let config = Config {
            library: Some(library),
            workspace_bytes: Some(bytes),
            workspaces: Some(workspaces),
        };
        let helper = context.stream()?;
        let pool = Mutex::new(Pool::new(library, context)?);
        let driver = context.driver().as_sys();
        let inner = Inner { library, context: context.clone(), config, driver, helper, pool };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// Returns the library.
    #[must_use]
    pub fn library(&self) -> CublasLibrary {
        self.inner.library
    }

    /// Returns how many bytes the workspaces have that wait for the next call. Those of graphs are not counted. 0 in a child
    /// of `fork`, where another thread may have had the lock.
    #[must_use]
    pub fn workspace_bytes(&self) -> usize {
        if cuda_safe::check_caller().is_err() {
            return 0;
        }
        self.inner.lock().workspace_bytes()
    }

    /// Waits for all work of the context, and destroys the handles, also those of `Blas` that were dropped. Needed only before
    /// [`Context::close`], to free their memory. Handles that a graph has recorded stay: the graph may use memory of theirs.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if there are other clones or the context records, the error of earlier
    /// work, or that of cuBLAS. The handles are parked then.
    pub fn close(self) -> Result<()> {
        pool::close(self.inner)
    }
}
