//! The CPU as a target of launches.

use std::any::Any;

use super::args::Aligned;
use crate::device::Device;
use crate::kernel::{CpuArg, CpuError, Extent, Kernel};
use crate::raw;
use crate::replay::Recorder;
use crate::structure::Structure;
use crate::target::{Args, Elements, Queries, Reads, Shares, Target, Visit, Writes};
use crate::trust::Checked;

/// The CPU: a launch runs the kernel on all threads of rayon's pool, and returns when it has ended.
///
/// Memory is slices, arrays and `Vec`s. To get faults as errors, build the program with unwinding (`panic =
/// "unwind"`, the default); otherwise a fault aborts it with the fault's message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Cpu;

impl<T> Elements for &[T] {
    fn len(&self) -> usize {
        <[T]>::len(self)
    }
}

impl<T> Elements for &mut [T] {
    fn len(&self) -> usize {
        <[T]>::len(self)
    }
}

// SAFETY: the description of the kernel runs it, and checks the arguments again.
#[allow(unsafe_code, reason = "a target is given tokens")]
unsafe impl Target for Cpu {
    type Error = CpuError;
    type Read<'a, T: Device> = &'a [T];
    type Write<'a, T: Device> = &'a mut [T];
    type Shared<'a, T: Device> = &'a mut [T];
    type Structure<'a, S: Structure> = &'a S;

    fn launch<'a, A: Args<'a, Self>>(
        self,
        kernel: &'static Kernel,
        _: Extent,
        args: A,
        _: Checked,
    ) -> Result<(), CpuError> {
        let mut held = Collected::new(kernel);
        args.visit(&mut held)?;
        held.call(kernel)
    }
}

/// An argument that owns the bytes of a value, or borrows elements.
#[derive(Debug)]
pub(crate) enum Held<'a> {
    Value(Aligned),
    Read(&'a [u8]),
    Write(&'a mut [u8]),
    Structure(&'a (dyn Any + Send + Sync)),
}

impl Held<'_> {
    /// Returns the bytes; of a structure none.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Value(value) => value.bytes(),
            Self::Read(bytes) => bytes,
            Self::Write(bytes) => bytes,
            Self::Structure(_) => &[],
        }
    }

    fn arg(&mut self) -> CpuArg<'_> {
        match self {
            Self::Value(value) => CpuArg::Value(value.bytes()),
            Self::Read(bytes) => CpuArg::Read(bytes),
            Self::Write(bytes) => CpuArg::Write(bytes),
            Self::Structure(structure) => CpuArg::Structure(*structure),
        }
    }
}

/// The arguments of a launch, without their types.
#[derive(Debug)]
pub(crate) struct Collected<'a>(pub(crate) Vec<Held<'a>>);

impl Collected<'_> {
    pub(crate) fn new(kernel: &'static Kernel) -> Self {
        Self(Vec::with_capacity(kernel.params.len()))
    }

    /// Runs the kernel.
    pub(crate) fn call(&mut self, kernel: &'static Kernel) -> Result<(), CpuError> {
        let mut args: Vec<_> = self.0.iter_mut().map(Held::arg).collect();
        (kernel.cpu)(&mut args)
    }
}

macro_rules! visits {
    ([$($lifetime:lifetime)?] $target:ty) => {
        #[allow(unsafe_code, reason = "a launch is checked")]
        impl<'a $(, $lifetime)?> Visit<'a, $target> for Collected<'a> {
            fn value<T: Device>(&mut self, value: T) -> Result<(), CpuError> {
                let bytes = raw::bytes(std::slice::from_ref(&value));
                self.0.push(Held::Value(Aligned::new(bytes, align_of::<T>())));
                Ok(())
            }

            fn read<T: Device>(&mut self, view: &'a [T]) -> Result<(), CpuError> {
                self.0.push(Held::Read(raw::bytes(view)));
                Ok(())
            }

            fn write<T: Device>(&mut self, view: &'a mut [T]) -> Result<(), CpuError> {
                // SAFETY: the kernel writes values of its parameter's type, which is `T`: the launch is `Checked`.
                self.0.push(Held::Write(unsafe { raw::bytes_mut(view) }));
                Ok(())
            }

            fn shared<T: Device>(&mut self, view: &'a mut [T]) -> Result<(), CpuError> {
                Visit::<'a, $target>::write(self, view)
            }

            fn structure<S: Structure>(&mut self, structure: &'a S) -> Result<(), CpuError> {
                self.0.push(Held::Structure(structure));
                Ok(())
            }
        }
    };
}

visits!([] Cpu);
visits!(['r] &'r Recorder);

impl<'a, S: Structure> Queries<'a, S, &'a S> for Cpu {
    fn query(self, structure: &'a S) -> &'a S {
        structure
    }
}

macro_rules! memory {
    ($([$($generics:tt)*] $memory:ty),* $(,)?) => {$(
        impl<'a, T: Device $($generics)*> Reads<'a, T, &'a $memory> for Cpu {
            fn read(self, memory: &'a $memory) -> &'a [T] {
                memory
            }
        }

        impl<'a, T: Device $($generics)*> Reads<'a, T, &'a mut $memory> for Cpu {
            fn read(self, memory: &'a mut $memory) -> &'a [T] {
                memory
            }
        }

        impl<'a, T: Device $($generics)*> Writes<'a, T, &'a mut $memory> for Cpu {
            fn write(self, memory: &'a mut $memory) -> &'a mut [T] {
                memory
            }
        }

        impl<'a, T: Device $($generics)*> Shares<'a, T, &'a mut $memory> for Cpu {
            fn share(self, memory: &'a mut $memory) -> &'a mut [T] {
                memory
            }
        }
    )*};
}

memory!([] [T], [] Vec<T>, [] Box<[T]>, [, const N: usize] [T; N]);

#[cfg(test)]
#[path = "target_tests.rs"]
pub(crate) mod tests;
