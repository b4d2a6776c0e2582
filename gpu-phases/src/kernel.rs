//! The description of a kernel, which `#[kernel]` generates.

use std::any::Any;
use std::fmt;

use crate::device::{Device, Float};
use crate::fault::Fault;
use crate::structure::{Source, Structure};
use crate::text::Text;
use crate::trust::{EmbeddedPack, Trusted};

/// How a kernel takes a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ParamKind {
    /// By value.
    Value,
    /// `&[T]`: elements to read.
    Read,
    /// `&mut [T]`: elements to write, each by one thread.
    Write,
    /// `&Atomic<[T]>`: elements that all threads share.
    Shared,
    /// `&S`: a [`Structure`].
    Structure,
}

/// A parameter of a kernel.
#[derive(Clone, Copy)]
pub struct Param {
    /// Its name in the source.
    pub name: &'static str,
    /// How it is taken.
    pub kind: ParamKind,
    /// The size of the value, of an element, or of a structure's C++ parameter, in bytes.
    pub size: usize,
    /// Its alignment in bytes.
    pub align: usize,
    /// Whether it is a value that is passed as lengths are.
    pub length: bool,
    /// Returns the Rust name of the type of the value, the element or the structure, which names the instance of a generic
    /// kernel.
    pub type_name: fn() -> String,
    /// Passes the offset in bytes, plus the first argument, and the type of each float in the value, or in an element.
    pub floats: fn(usize, &mut dyn FnMut(usize, Float)),
    /// As [`Structure::SOURCES`].
    pub sources: &'static [Source],
    /// Whether the floats in it, or those of a structure's sources, have a gradient, in a kernel with
    /// `#[kernel(gradient)]`.
    pub active: bool,
    /// Whether its length is the extent of a loop of one dimension: it is an output, or a condition says so.
    pub whole: bool,
}

impl Param {
    /// Describes a parameter whose value, or element, is a `T`.
    ///
    /// # Panics
    /// The type has no defined layout. In a constant, this is an error of the compiler.
    #[must_use]
    pub const fn new<T: Device>(name: &'static str, kind: ParamKind) -> Self {
        assert!(
            T::STORED,
            "parameters of kernels are no tuples, `Option`s, enums with values and empty types: \
             derive `Device` for a structure"
        );
        Self {
            name,
            kind,
            size: size_of::<T>(),
            align: align_of::<T>(),
            length: T::LENGTH.is_some() && matches!(kind, ParamKind::Value),
            type_name: T::rust_name,
            floats: T::floats,
            sources: &[],
            active: false,
            whole: false,
        }
    }

    /// Says that the floats in it have a gradient.
    ///
    /// # Panics
    /// `marked`, and `T` has no floats. In a constant, this is an error of the compiler.
    #[must_use]
    pub const fn active<T: Device>(mut self, marked: bool) -> Self {
        assert!(
            !marked || T::FLOATS > 0,
            "an `#[active]` parameter has no floats: only floats have gradients"
        );
        self.active = T::FLOATS > 0;
        self
    }

    /// Says that its length is the extent.
    #[must_use]
    pub const fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    /// Returns the size of the C++ parameter of a value or a structure. `len64`: lengths have 64 bits.
    #[must_use]
    pub const fn passed_size(&self, len64: bool) -> usize {
        if self.length && !len64 { 4 } else { self.size }
    }

    /// Describes a parameter that is a structure.
    #[must_use]
    pub const fn structure<S: Structure>(name: &'static str) -> Self {
        Self {
            name,
            kind: ParamKind::Structure,
            size: S::SIZE,
            align: S::ALIGN,
            length: false,
            type_name: S::rust_name,
            floats: |_, _| {},
            sources: S::SOURCES,
            active: false,
            whole: false,
        }
    }

    /// Says that a structure's sources have a gradient.
    ///
    /// # Panics
    /// `marked`, and the structure has none. In a constant, this is an error of the compiler.
    #[must_use]
    pub const fn active_sources(mut self, marked: bool) -> Self {
        assert!(
            !marked || !self.sources.is_empty(),
            "this structure has no gradient: leave out `#[active]`"
        );
        self.active = !self.sources.is_empty();
        self
    }
}

impl fmt::Debug for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} {}", self.name, self.kind, (self.type_name)())
    }
}

/// The elements that a launch runs a thread for: as many as the output has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The number of dimensions: 1, 2 or 3.
    pub dimensions: u32,
    /// The elements in each dimension, the first one varies fastest; 1 in those beyond `dimensions`. Of a kernel over
    /// blocks, the number of blocks: in two dimensions of one with tiles, unless there are more than 65,535 rows of them.
    pub size: [u64; 3],
    /// The threads of a block, of a kernel over blocks; else 0.
    pub threads: u32,
    /// The bytes of shared memory that a block needs besides arrays of fixed length: dynamic shared memory of the launch.
    pub shared: u32,
}

impl Extent {
    /// The number of elements, or `None` if 64 bits do not hold it.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        let [x, y, z] = self.size;
        x.checked_mul(y)?.checked_mul(z)
    }
}

/// An argument of a kernel on the CPU, without its type.
///
/// The bytes are aligned for their type, and their length is a multiple of its size.
#[derive(Debug)]
pub enum CpuArg<'a> {
    /// A value's bytes.
    Value(&'a [u8]),
    /// The bytes of elements to read.
    Read(&'a [u8]),
    /// The bytes of elements to write, or that threads share.
    Write(&'a mut [u8]),
    /// A [`Structure`].
    Structure(&'a (dyn Any + Send + Sync)),
}

/// A kernel, or an instance of a generic one.
///
/// Its C++ is a function
/// ```text
/// extern "C" __global__ void ENTRY(phases::fault* fault, PARAMETERS, phases::len sx, phases::len sy, phases::len sz)
/// ```
/// `ENTRY` is [`Kernel::entry`], the name that profilers show. A parameter by value is that value, a structure its C++ type by value;
/// each other one is two C++ parameters: a pointer to the elements, and their number as a `phases::len`. That is `uint32_t`, or `uint64_t` if the macro `PHASES_LEN64` is defined, which a launch needs if a length
/// or the number of elements is 2^32 or more. The last three are the extent. Blocks have 256 threads: 256 in x if
/// the extent has one dimension, else 32 in x and 8 in y. The grid covers the extent. Of a kernel over blocks, blocks have
/// [`Extent::threads`] threads in x and [`Extent::shared`] bytes of dynamic shared memory, and the grid has the extent's
/// first two sizes as blocks in x and y.
/// `fault` is a slot in memory that the host reads: [`FaultSlot`].
///
/// If [`Kernel::carries`] is not 0, another parameter follows the extent, a pointer to [`Kernel::carry_bytes`] bytes of
/// global memory, aligned to 8. They are zero before their first launch, and what the last launch has left before any
/// other, of this or another kernel. No two launches use them at the same time. At most 2^32 - 2 use them one after the
/// other, unless all are of the same kernel with the same number of blocks.
#[derive(Debug)]
pub struct Kernel {
    /// The function's name.
    pub name: &'static str,
    /// The module that defines it, as `module_path!()` names it.
    pub module: &'static str,
    /// The file that defines it, as `file!()` names it.
    pub file: &'static str,
    /// The line of its `fn`.
    pub line: u32,
    /// Its parameters.
    pub params: &'static [Param],
    /// Identifies the instance of a generic kernel: one function for each. Equal for equal instances.
    pub instance: fn() -> String,
    /// Writes its C++ and everything that this needs.
    pub write: fn(&mut Text),
    /// Returns whether integer overflows are checked, on all targets: as rustc has compiled the crate that defines the kernel.
    pub overflow_checks: fn() -> bool,
    /// Runs it on the CPU. Host conditions (`assert!` before the loop) are checked again.
    ///
    /// Returns the fault of the first thread, by index, that failed.
    pub cpu: fn(&mut [CpuArg<'_>]) -> Result<(), CpuError>,
    /// How many values the blocks of the kernel pass on in their order, by [`Block::carry`](crate::Block::carry).
    pub carries: u32,
    /// The file that may have images of the kernel for devices, compiled before the program was built.
    pub pack: Option<&'static EmbeddedPack>,
    /// Says that all this is true, so that safe code can launch the kernel.
    pub trusted: Trusted,
}

impl Kernel {
    /// Returns the size of the memory by which so many blocks of a launch pass values on; 0 if they pass on none.
    #[must_use]
    pub fn carry_bytes(&self, blocks: u64) -> u64 {
        if self.carries == 0 {
            return 0;
        }
        // For each block, each whole group of 32, and so on, words of 8 bytes, of which 4 are a part of the value.
        let levels = std::iter::successors(Some(blocks), |count| Some(count / 32));
        let values: u64 = levels.take_while(|count| *count > 0).sum();
        16 + u64::from(self.carries) * values * 2 * crate::blocks::LARGEST as u64
    }

    /// Returns the name of its function in C++: `phases_` and the name, with `_` for each byte that is no letter, digit or
    /// underscore of ASCII.
    #[must_use]
    pub fn entry(&self) -> String {
        let plain = |byte: u8| {
            if byte.is_ascii_alphanumeric() { char::from(byte) } else { '_' }
        };
        ["phases_".to_owned(), self.name.bytes().map(plain).collect()].concat()
    }
}

/// Why a kernel did not run, or did not finish, on the CPU.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CpuError {
    /// The arguments do not fit.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A check failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Code of the kernel panicked with another message.
    #[error("kernel `{kernel}` panicked: {message}")]
    Panic {
        /// The kernel.
        kernel: &'static str,
        /// What the panic said.
        message: String,
    },
}

// `main() -> Result` and `unwrap` print Debug: a person reads it.
impl fmt::Debug for CpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Arguments that do not satisfy the kernel's conditions. Nothing was launched.
#[derive(Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("kernel `{kernel}`: {message}")]
pub struct Refused {
    /// The kernel.
    pub kernel: &'static str,
    /// What is wrong: the condition of the `assert!` as written with the values in it, or the argument and its length.
    pub message: String,
}

// `main() -> Result` and `unwrap` print Debug: a person reads it.
impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a kernel writes into if a check fails; the C++ has the same structure. All zero before a launch.
///
/// The first thread that fails takes `state` from 0 to 1 (`atomicCAS`), writes the rest, issues
/// `__threadfence_system`, and writes 2 to `state`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FaultSlot {
    /// 0: no fault. 1: being written. 2: complete.
    pub state: u32,
    /// A [`FaultKind`](crate::FaultKind).
    pub kind: u32,
    /// The line of the check.
    pub line: u32,
    /// The number of its file among the texts' files; [`Text::files`].
    pub file: u32,
    /// The kernel, as the launcher numbered it in [`Text::kernel_number`].
    pub kernel: u32,
    /// 1 more than the block, of a kernel over blocks; else 0.
    pub block: u32,
    /// As [`Fault::index`].
    pub index: u64,
    /// As [`Fault::len`].
    pub len: u64,
    /// As [`Fault::element`].
    pub element: [u64; 3],
}
