//! Launches saved to files, and run again on the CPU.
//!
//! A launch is saved with everything that determines its results: the kernel's name, instance and text, its extent
//! and all arguments. As kernels compute the same bits on each target, the run on the CPU reproduces the run on the
//! device: the same fault, the same NaN, for the whole launch or for one element, in a debugger, under Miri, or in a
//! test.
//! ```no_run
//! # #[gpu_phases::kernel]
//! # fn scale(x: &[f32], out: &mut [f32]) {
//! #     each(out, |i, out| *out = 2.0 * x[i]);
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let launch = gpu_phases::replay::SavedLaunch::load("fault.replay")?;
//! let run = launch.run(scale::kernel())?;
//! println!("{launch}: {:?}", run.result);
//! # Ok(())
//! # }
//! ```
//!
//! # The file
//! Numbers are little-endian. A text or byte string is a `u64` length followed by the bytes; texts are UTF-8. A flag
//! is a byte, 0 or 1. The file is
//!
//! 1. the 8 bytes `PHASESRP`; the version, `u32`, 1; `u32` 0; the length of the rest after this header, `u64`; its FNV-1a
//!    checksum of 64 bits, `u64`;
//! 2. the kernel: texts of its name, its instance and its source file; `u32` line; the FNV-1a hash of its C++ text, 128 bits; a
//!    flag, whether overflows are checked;
//! 3. the machine: `u8` bytes of a pointer; a flag, whether arguments are big-endian;
//! 4. the extent: `u32` dimensions, three `u64`, those beyond the dimensions are 1, the `u32` threads of a
//!    block, or 0;
//! 5. a flag, whether a fault was reported; then its `u32` kind, text of the file, `u32` line, `u64` index, `u64` length,
//!    three `u64` of the element, `u64` 1 more than the block, or 0;
//! 6. the `u32` number of arguments; for each a `u8` kind (0 value, 1 read, 2 write, 3 shared), the text of the parameter's
//!    name, the text of the type's name, `u64` size and `u64` alignment of the value or an element, the bytes before the
//!    launch, a flag, and if it is set the bytes after the launch.

mod equality;
mod error;
mod format;
mod recorder;

pub use error::{Mismatch, ReadError, SaveError};
pub use recorder::{Keep, Recorder};

use equality::Equality;
use std::fmt;
use std::path::Path;

use crate::cpu::args::Aligned;
use crate::cpu::raise::Place;
use crate::cpu::run::only;
use crate::fault::{Fault, FaultKind};
use crate::kernel::{CpuArg, CpuError, Extent, Kernel, Param, ParamKind};
use crate::text::Text;

/// A launch with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedLaunch {
    kernel: String,
    instance: String,
    file: String,
    line: u32,
    source_hash: u128,
    overflow_checks: bool,
    pointer_bytes: u8,
    big_endian: bool,
    extent: Extent,
    fault: Option<SavedFault>,
    args: Vec<SavedArg>,
}

/// An argument of a saved launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedArg {
    kind: ParamKind,
    name: String,
    type_name: String,
    size: u64,
    align: u64,
    before: Vec<u8>,
    after: Option<Vec<u8>>,
}

/// The fault that a saved launch reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedFault {
    /// The check that failed.
    pub kind: FaultKind,
    /// The source file of the check.
    pub file: String,
    /// The line of the check.
    pub line: u32,
    /// See [`Fault::index`].
    pub index: u64,
    /// See [`Fault::len`].
    pub len: u64,
    /// See [`Fault::element`].
    pub element: [u64; 3],
    /// As [`Fault::block`].
    pub block: Option<u64>,
}

/// The result of a saved launch that was run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Whether it finished without a fault.
    pub result: Result<(), CpuError>,
    /// The bytes of each argument after the run, in the order of the parameters.
    pub args: Vec<Vec<u8>>,
}

/// An element of an output that differs from that of the saved launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The parameter's name.
    pub name: String,
    /// The element's position.
    pub element: usize,
    /// Its bytes after the saved launch.
    pub saved: Vec<u8>,
    /// Its bytes after the run.
    pub run: Vec<u8>,
    /// How many elements of this parameter differ.
    pub count: usize,
}

impl SavedArg {
    /// Returns how the kernel takes the argument.
    #[must_use]
    pub fn kind(&self) -> ParamKind {
        self.kind
    }

    /// Returns the parameter's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the value's, or of an element's, type.
    #[must_use]
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// Returns its bytes before the launch.
    #[must_use]
    pub fn before(&self) -> &[u8] {
        &self.before
    }

    /// Returns its bytes after the launch, if they were saved.
    #[must_use]
    pub fn after(&self) -> Option<&[u8]> {
        self.after.as_deref()
    }

    fn has_whole_elements(&self) -> bool {
        let len = self.before.len() as u64;
        match self.kind {
            ParamKind::Value => len == self.size,
            ParamKind::Read | ParamKind::Write | ParamKind::Shared => {
                self.size > 0 && len.is_multiple_of(self.size)
            }
            ParamKind::Structure => false,
        }
    }
}

impl SavedLaunch {
    /// Describes a launch with the bytes of its arguments before it, in the order of the parameters.
    ///
    /// # Errors
    /// The arguments do not fit the kernel's parameters.
    pub fn new(
        kernel: &'static Kernel,
        extent: Extent,
        args: Vec<Vec<u8>>,
    ) -> Result<Self, SaveError> {
        let refuse = |message| Err(SaveError { kernel: kernel.name, message });
        if args.len() != kernel.params.len() {
            return refuse(format!(
                "it has {} parameters, but {} arguments are given",
                kernel.params.len(),
                args.len()
            ));
        }
        let mut saved = Vec::with_capacity(args.len());
        for (param, before) in kernel.params.iter().zip(args) {
            let arg = SavedArg::new(param, before);
            if arg.kind == ParamKind::Structure {
                let name = arg.name;
                return refuse(format!("`{name}` is a structure, so the launch can't be saved"));
            }
            if !arg.has_whole_elements() {
                return refuse(format!(
                    "`{}` has {} bytes, elements have {}",
                    arg.name,
                    arg.before.len(),
                    arg.size
                ));
            }
            saved.push(arg);
        }
        Ok(Self {
            kernel: kernel.name.to_owned(),
            instance: (kernel.instance)(),
            file: kernel.file.to_owned(),
            line: kernel.line,
            source_hash: source_hash(kernel),
            overflow_checks: (kernel.overflow_checks)(),
            pointer_bytes: POINTER_BYTES,
            big_endian: cfg!(target_endian = "big"),
            extent,
            fault: None,
            args: saved,
        })
    }

    /// Adds the fault that the launch reported.
    #[must_use]
    pub fn with_fault(mut self, fault: &Fault) -> Self {
        let Fault { kind, file, line, index, len, element, block, .. } = *fault;
        let file = file.to_owned();
        self.fault = Some(SavedFault { kind, file, line, index, len, element, block });
        self
    }

    /// Adds the bytes of an argument after the launch.
    ///
    /// # Errors
    /// The kernel does not write this argument, or its length differs.
    pub fn with_results(
        mut self,
        kernel: &'static Kernel,
        arg: usize,
        after: Vec<u8>,
    ) -> Result<Self, SaveError> {
        match self.args.get_mut(arg) {
            Some(saved)
                if matches!(saved.kind, ParamKind::Write | ParamKind::Shared)
                    && saved.before.len() == after.len() =>
            {
                saved.after = Some(after);
                Ok(self)
            }
            _ => {
                let message = format!("argument {arg} is no output of {} bytes", after.len());
                Err(SaveError { kernel: kernel.name, message })
            }
        }
    }

    /// Returns the kernel's name.
    #[must_use]
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Returns the extent of the launch.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Returns the fault that the launch reported, if it did.
    #[must_use]
    pub fn fault(&self) -> Option<&SavedFault> {
        self.fault.as_ref()
    }

    /// Returns the arguments.
    #[must_use]
    pub fn args(&self) -> &[SavedArg] {
        &self.args
    }

    /// Returns the file's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        format::write(self)
    }

    /// Reads a file's bytes. Any bytes give a launch or an error, and memory is used in proportion to their number.
    ///
    /// # Errors
    /// The bytes are not a valid saved launch.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ReadError> {
        format::read(bytes)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> std::io::Result<()> {
        std::fs::write(path, self.to_bytes())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a valid saved launch.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path)
            .map_err(|error| ReadError::Io(format!("{}: {error}", path.display())))?;
        Self::from_bytes(&bytes)
    }

    /// Fails unless the launch is of this kernel in this build.
    ///
    /// # Errors
    /// The differences.
    pub fn check(&self, kernel: &'static Kernel) -> Result<(), Mismatch> {
        let mut differences = self.differences(kernel);
        // The text contains the lines of all checks, so another build of the kernel may differ only there.
        if differences.is_empty() && self.source_hash != source_hash(kernel) {
            differences.push(
                "the kernel, or code that it calls, has changed since the launch was saved"
                    .to_owned(),
            );
        }
        let here = (kernel.overflow_checks)();
        if self.overflow_checks != here {
            let checked = |checks| if checks { "checked" } else { "not checked" };
            differences.push(format!(
                "overflows were {}, and are {} in this build",
                checked(self.overflow_checks),
                checked(here)
            ));
        }
        if differences.is_empty() { Ok(()) } else { Err(Mismatch { differences }) }
    }

    /// Returns the reasons why this kernel cannot take the arguments.
    fn differences(&self, kernel: &'static Kernel) -> Vec<String> {
        let mut all = Vec::new();
        let mut compare = |what: &str, saved: &str, here: &str| {
            if saved != here {
                all.push(format!("{what} is `{saved}` in the file, and `{here}` here"));
            }
        };
        compare("the kernel", &self.kernel, kernel.name);
        compare("the instance", &self.instance, &(kernel.instance)());
        compare(
            "the size of pointers",
            &self.pointer_bytes.to_string(),
            &POINTER_BYTES.to_string(),
        );
        compare("the byte order", endian(self.big_endian), endian(cfg!(target_endian = "big")));
        compare(
            "the number of arguments",
            &self.args.len().to_string(),
            &kernel.params.len().to_string(),
        );
        for (arg, param) in self.args.iter().zip(kernel.params) {
            let here = SavedArg::new(param, Vec::new());
            let describe = |arg: &SavedArg| {
                format!(
                    "{:?} {}: {}, {} bytes aligned to {}",
                    arg.kind, arg.name, arg.type_name, arg.size, arg.align
                )
            };
            compare("a parameter", &describe(arg), &describe(&here));
        }
        all
    }

    /// Runs the launch again on the CPU, on copies of the arguments.
    ///
    /// # Errors
    /// The launch is not of this kernel in this build.
    pub fn run(&self, kernel: &'static Kernel) -> Result<Run, Mismatch> {
        self.check(kernel)?;
        Ok(self.call(kernel))
    }

    /// Runs the launch with a kernel that may have changed since, but takes the same parameters. Use this to test a
    /// fix.
    ///
    /// # Errors
    /// The kernel has another name, instance or other parameters.
    pub fn run_changed(&self, kernel: &'static Kernel) -> Result<Run, Mismatch> {
        match self.differences(kernel) {
            differences if differences.is_empty() => Ok(self.call(kernel)),
            differences => Err(Mismatch { differences }),
        }
    }

    /// Runs one element of the launch, with an index as in [`Fault::element`]. No other element runs; an element
    /// outside of the extent runs nothing. Of a kernel over blocks, `[block, 0, 0]` runs that block.
    ///
    /// # Errors
    /// The launch is not of this kernel in this build.
    pub fn run_element(&self, kernel: &'static Kernel, element: [u64; 3]) -> Result<Run, Mismatch> {
        self.check(kernel)?;
        Ok(only(element, || self.call(kernel)))
    }

    fn call(&self, kernel: &'static Kernel) -> Run {
        let aligned = |(arg, param): (&SavedArg, &Param)| Aligned::new(&arg.before, param.align);
        let mut memory: Vec<_> = self.args.iter().zip(kernel.params).map(aligned).collect();
        let erase = |(arg, memory): (&SavedArg, _)| erase(arg.kind, memory);
        let mut args: Vec<_> = self.args.iter().zip(&mut memory).map(erase).collect();
        let result = (kernel.cpu)(&mut args);
        drop(args);
        Run { result, args: memory.iter().map(|memory| memory.bytes().to_vec()).collect() }
    }

    /// Compares a run with the saved results, and returns the first different element of each output.
    ///
    /// Floats that are NaN on both sides are equal, in slices of floats and of arrays of them.
    #[must_use]
    pub fn compare(&self, run: &Run) -> Vec<Difference> {
        let mut all = Vec::new();
        for (arg, here) in self.args.iter().zip(&run.args) {
            let (Some(saved), Ok(size)) = (&arg.after, usize::try_from(arg.size)) else { continue };
            let equal = Equality::of(&arg.type_name);
            let elements = saved.chunks_exact(size.max(1)).zip(here.chunks_exact(size.max(1)));
            let mut different =
                elements.enumerate().filter(|(_, (saved, here))| !equal.test(saved, here));
            if let Some((element, (saved, here))) = different.next() {
                let count = 1 + different.count();
                let (saved, run) = (saved.to_vec(), here.to_vec());
                all.push(Difference { name: arg.name.clone(), element, saved, run, count });
            }
        }
        all
    }

    /// Returns the argument and the element of the first NaN that the launch wrote over another value: in slices of
    /// floats and of arrays of them, whose results are saved.
    #[must_use]
    pub fn first_nan(&self) -> Option<(usize, usize)> {
        self.args.iter().enumerate().find_map(|(number, arg)| {
            let (after, size) = (arg.after.as_ref()?, usize::try_from(arg.size).ok()?.max(1));
            let nan = Equality::of(&arg.type_name);
            let mut elements = arg.before.chunks_exact(size).zip(after.chunks_exact(size));
            elements
                .position(|(before, after)| nan.holds(after) && !nan.holds(before))
                .map(|at| (number, at))
        })
    }
}

const POINTER_BYTES: u8 = size_of::<usize>() as u8;

fn endian(big: bool) -> &'static str {
    if big { "big-endian" } else { "little-endian" }
}

fn erase(kind: ParamKind, memory: &mut Aligned) -> CpuArg<'_> {
    match kind {
        // No launch with a structure is saved: the kernel refuses the value.
        ParamKind::Value | ParamKind::Structure => CpuArg::Value(memory.bytes()),
        ParamKind::Read => CpuArg::Read(memory.bytes()),
        ParamKind::Write | ParamKind::Shared => CpuArg::Write(memory.bytes_mut()),
    }
}

fn source_hash(kernel: &'static Kernel) -> u128 {
    let mut text = Text::new(0);
    (kernel.write)(&mut text);
    format::hash(text.finish().as_bytes())
}

impl SavedArg {
    fn new(param: &Param, before: Vec<u8>) -> Self {
        Self {
            kind: param.kind,
            name: param.name.to_owned(),
            type_name: (param.type_name)(),
            size: param.size as u64,
            align: param.align as u64,
            before,
            after: None,
        }
    }
}

impl SavedFault {
    /// Returns whether a run has reported the same fault.
    #[must_use]
    pub fn is(&self, fault: &Fault) -> bool {
        let Fault { kind, file, line, index, len, element, block, .. } = fault;
        (self.kind, self.file.as_str(), self.line) == (*kind, *file, *line)
            && (self.index, self.len, self.element, self.block) == (*index, *len, *element, *block)
    }
}

impl fmt::Display for SavedLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, file, line, extent, args, .. } = self;
        let [x, y, z] = extent.size;
        write!(f, "kernel `{kernel}`, {file}:{line}, ")?;
        match extent.threads {
            0 => write!(f, "{x} x {y} x {z} elements")?,
            threads => write!(f, "{} blocks of {threads} threads", x.saturating_mul(y))?,
        }
        write!(f, ", {} arguments", args.len())?;
        match &self.fault {
            None => Ok(()),
            Some(SavedFault { kind, file, line, index, len, element, block }) => {
                let place = Place { element: *element, block: *block };
                write!(f, ", {} at {file}:{line}, {place}", kind.describe(*index, *len))
            }
        }
    }
}

#[cfg(test)]
#[path = "replay/tests.rs"]
mod tests;
