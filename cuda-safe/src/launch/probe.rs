//! The type of an argument, for `check` of [`kernels!`](crate::kernels), as far as it is a kernel argument.
//!
//! For a type that is none, the launch has the error, and a second one would say no more. So the bound is on a trait's
//! impl, and another trait, which a method call considers later, has the fallback.

use std::any::type_name;
use std::marker::PhantomData;

use super::args::{ArgType, KernelArg};

/// Stands for a value of type `A`: `(&Probe::<A>::new()).arg()`.
#[derive(Debug)]
pub struct Probe<A>(PhantomData<fn() -> A>);

impl<A> Probe<A> {
    /// Returns the probe.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "generated code calls it")]
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

/// Kernel arguments.
pub trait Known {
    /// Returns what a launch compares with the parameter.
    fn arg(&self) -> Option<ArgType>;
}

impl<A: KernelArg> Known for Probe<A> {
    fn arg(&self) -> Option<ArgType> {
        Some(ArgType { name: type_name::<A>, ..A::TYPE })
    }
}

/// Everything else.
pub trait Fallback {
    /// Returns nothing.
    fn arg(&self) -> Option<ArgType>;
}

impl<A> Fallback for &Probe<A> {
    fn arg(&self) -> Option<ArgType> {
        None
    }
}

#[cfg(test)]
#[allow(clippy::needless_borrow, reason = "the fallback is found by the reference")]
mod tests {
    use super::*;
    use crate::launch::DeviceRepr;
    use crate::memory::{DeviceSlice, DeviceSliceMut, UseVisitor};

    struct Prepared<'a>(&'a u64);

    // SAFETY: a number, and no memory.
    unsafe impl KernelArg for &Prepared<'_> {
        type Abi = u64;
        const TYPE: ArgType = ArgType::value::<u64>();

        fn abi(&self) -> u64 {
            *self.0
        }

        fn uses<V: UseVisitor>(&self, _: &mut V) -> crate::Result<()> {
            Ok(())
        }
    }

    fn size_in_generic_code<T: DeviceRepr>() -> Option<usize> {
        (&Probe::<DeviceSlice<'static, T>>::new()).arg()?;
        (&Probe::<T>::new()).arg().map(|arg| arg.size)
    }

    #[test]
    fn kernel_arguments_are_known_and_others_are_not() {
        let sizes = [
            (&Probe::<f32>::new()).arg().map(|arg| arg.size),
            (&Probe::<DeviceSliceMut<'static, u8>>::new()).arg().map(|arg| arg.size),
            (&Probe::<&Prepared<'_>>::new()).arg().map(|arg| arg.size),
            size_in_generic_code::<u16>(),
        ];
        assert_eq!(sizes, [Some(4), Some(8), Some(8), Some(2)]);
        let name = (&Probe::<f32>::new()).arg().map(|arg| (arg.name)());
        assert_eq!(name, Some("f32"));
        assert!((&Probe::<String>::new()).arg().is_none());
        assert!((&Probe::<(f32, f32)>::new()).arg().is_none());
    }
}
