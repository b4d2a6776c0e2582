//! What `kernels!` generates for kernels with `#[gradient]`. Not public API: it changes without notice.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use cuda_safe::{DeviceRepr, Error, Kernel, KernelArg, Result, nvrtc::Program};

use crate::element::{Differentiable, Element};
use crate::spec::{Derivation, Op, OpSpec};
use crate::variable::Variable;

/// A value for an `#[active]` parameter of a kernel: a `T`, or the [`Variable`] of one, whose gradient is wanted.
#[diagnostic::on_unimplemented(
    message = "the kernel takes an active `{T}` here",
    label = "`{Self}` is no `{T}`, and no `Variable` of one",
    note = "pass the value, or `&variable` if its gradient is wanted"
)]
pub trait Active<T>: KernelArg<Abi = T> {}

impl<T: DeviceRepr> Active<T> for T {}
impl<T: Differentiable + DeviceRepr> Active<T> for &Variable<T> {}

/// The operation of declaration number `I` of the struct `S`. It is made when it is first recorded.
pub struct DeclaredGradient<S, const I: usize> {
    op: Arc<OnceLock<Op>>,
    of: PhantomData<fn(S) -> S>,
}

impl<S, const I: usize> DeclaredGradient<S, I> {
    /// Returns the operation.
    ///
    /// # Errors
    /// The program is not known, does not compile, or the kernel has no correct adjoint.
    ///
    /// # Safety
    /// As for [`OpSpec::differentiate`], of launches that pass the checks of the declaration. `kernel` was compiled
    /// from the program.
    #[inline]
    pub unsafe fn op(
        &self,
        kernel: &Kernel,
        program: impl FnOnce() -> Option<Program>,
        spec: impl FnOnce() -> OpSpec,
    ) -> Result<&Op> {
        match self.op.get() {
            Some(op) => Ok(op),
            None => {
                let program = program().ok_or_else(|| unknown(kernel))?;
                let op = spec().differentiate_kernel(kernel.clone(), &program)?;
                Ok(self.op.get_or_init(|| op))
            }
        }
    }
}

/// Returns how an operation was generated.
///
/// # Errors
/// It was not generated.
pub fn derivation(op: &Op) -> Result<&Derivation> {
    op.derivation().ok_or_else(|| Error::invalid("the adjoint was not generated"))
}

#[cold]
fn unknown(kernel: &Kernel) -> Error {
    Error::invalid(format!(
        "the text that `{}` was compiled from is not known, so it can't be differentiated",
        kernel.name()
    ))
    .with_hint(
        "make the struct by `load` or `load_from`, from a text or a `Program`; of PTX, `OpSpec::differentiate_ptx` makes an \
         operation",
    )
}

impl<S, const I: usize> Default for DeclaredGradient<S, I> {
    fn default() -> Self {
        Self { op: Arc::default(), of: PhantomData }
    }
}

impl<S, const I: usize> Clone for DeclaredGradient<S, I> {
    fn clone(&self) -> Self {
        Self { op: self.op.clone(), of: PhantomData }
    }
}

impl<S, const I: usize> fmt::Debug for DeclaredGradient<S, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.op.get().fmt(f)
    }
}

/// The elements of a type: its own constant if the type has gradients, else that of [`OtherElement`].
#[derive(Debug)]
pub struct ElementOf<T>(PhantomData<T>);

impl<T: Differentiable> ElementOf<T> {
    /// The description.
    pub const ELEMENT: Element = T::ELEMENT;
}

/// The elements of a type without gradients.
pub trait OtherElement {
    /// The description.
    const ELEMENT: Element;
}

impl<T> OtherElement for ElementOf<T> {
    const ELEMENT: Element = Element::bytes(size_of::<T>());
}
