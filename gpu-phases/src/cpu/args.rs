//! Type-erased arguments of kernels.

use std::fmt;

use crate::cpu::raise::Raised;
use crate::device::Device;
use crate::kernel::CpuArg;
use crate::raw::{self, Atomic, AtomicElement, NotElements};
use crate::structure::Structure;

/// Returns the arguments of a kernel with `N` parameters. Refuses the launch if their number differs.
pub fn args<'b, 'a, const N: usize>(args: &'b mut [CpuArg<'a>]) -> &'b mut [CpuArg<'a>; N] {
    let len = args.len();
    match args.try_into() {
        Ok(args) => args,
        Err(_) => {
            Raised::Refused(format!("it has {N} parameters, but {len} arguments are given")).throw()
        }
    }
}

/// Returns an argument by value. Refuses the launch if it is not a `T`.
#[must_use]
pub fn value<T: Device>(arg: &CpuArg<'_>) -> T {
    match arg {
        CpuArg::Value(bytes) => {
            match raw::elements(bytes).map_err(|error| refusal::<T>(error, bytes.len())) {
                Ok([value]) => *value,
                Ok(_) => refuse::<T>("a value", arg),
                Err(message) => Raised::Refused(message).throw(),
            }
        }
        _ => refuse::<T>("a value", arg),
    }
}

/// Returns elements to read. Refuses the launch if they are not of type `T`.
#[must_use]
pub fn read<'b, T: Device>(arg: &'b CpuArg<'_>) -> &'b [T] {
    match arg {
        CpuArg::Read(bytes) => raw::elements(bytes)
            .unwrap_or_else(|error| Raised::Refused(refusal::<T>(error, bytes.len())).throw()),
        _ => refuse::<T>("elements to read", arg),
    }
}

/// Returns elements to write. Refuses the launch if they are not of type `T`.
#[must_use]
pub fn write<'b, T: Device>(arg: &'b mut CpuArg<'_>) -> &'b mut [T] {
    match arg {
        CpuArg::Write(bytes) => {
            let len = bytes.len();
            raw::elements_mut(bytes)
                .unwrap_or_else(|error| Raised::Refused(refusal::<T>(error, len)).throw())
        }
        _ => refuse::<T>("elements to write", arg),
    }
}

/// Returns elements that threads share. Refuses the launch if they are not of type `T`.
#[must_use]
pub fn shared<'b, T: AtomicElement>(arg: &'b mut CpuArg<'_>) -> &'b Atomic<[T]> {
    Atomic::from_mut(write(arg))
}

/// Returns a structure. Refuses the launch if it is no `S`.
#[must_use]
pub fn structure<'b, S: Structure>(arg: &'b CpuArg<'_>) -> &'b S {
    match arg {
        CpuArg::Structure(structure) => structure.downcast_ref(),
        _ => None,
    }
    .unwrap_or_else(|| mismatch("a structure", &S::rust_name(), arg))
}

#[cold]
fn refuse<T: Device>(wanted: &str, arg: &CpuArg<'_>) -> ! {
    mismatch(wanted, &T::rust_name(), arg)
}

#[cold]
fn mismatch(wanted: &str, name: &str, arg: &CpuArg<'_>) -> ! {
    let (given, len) = match arg {
        CpuArg::Value(bytes) => ("a value", bytes.len()),
        CpuArg::Read(bytes) => ("elements to read", bytes.len()),
        CpuArg::Write(bytes) => ("elements to write", bytes.len()),
        CpuArg::Structure(other) => ("a structure", size_of_val(*other)),
    };
    Raised::Refused(format!(
        "it takes {wanted} of type {name}, but {given} of {len} bytes is given"
    ))
    .throw()
}

fn refusal<T: Device>(error: NotElements, len: usize) -> String {
    format!("{len} bytes are no elements of type {}: {error}", T::rust_name())
}

impl fmt::Display for NotElements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsized => f.write_str("the type has no size"),
            Self::Length => f.write_str("the length is no multiple of the element's size"),
            Self::Alignment => f.write_str("the address is not aligned"),
            Self::Invalid(index) => write!(f, "element {index} is no value of the type"),
        }
    }
}

/// A copy of bytes at an aligned address.
#[derive(Debug, Clone)]
pub(crate) struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// Copies bytes to an address that is a multiple of `align`, a power of two.
    pub(crate) fn new(bytes: &[u8], align: usize) -> Self {
        let mut memory = vec![0; bytes.len().saturating_add(align)];
        let start = memory.as_ptr().align_offset(align).min(align);
        memory[start..start + bytes.len()].copy_from_slice(bytes);
        Self { memory, start, len: bytes.len() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}
