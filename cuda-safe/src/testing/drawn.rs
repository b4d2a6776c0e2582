//! One launch that was drawn: its arguments.

use std::any::{Any, type_name};

use super::declared::{Kernel, Kind};
use super::error::Error;
use super::problem::{Problem, Term};
use super::random::Random;
use super::values::{Generators, How, NoValues};
use crate::error::Result;
use crate::launch::{Dim3, LaunchConfig, Number};
use crate::memory::DeviceBuffer;
use crate::stream::Stream;

/// The arguments of one launch; generated code passes them to the method.
#[derive(Debug)]
pub struct Drawn<'a> {
    kernel: &'a Kernel,
    problem: &'a Problem,
    values: &'a [i128],
    generators: &'a Generators,
    random: Random,
    stream: &'a Stream,
    memory: Vec<Memory>,
    pub(super) others: Vec<(String, String)>,
    pub(super) missing: Option<Error>,
}

/// The memory of a slice.
#[derive(Debug)]
enum Memory {
    /// The kernel only reads it.
    Read { name: &'static str, memory: DeviceBuffer<u8>, before: Vec<u8> },
    /// The kernel may write it.
    Written { _memory: Box<dyn Any> },
}

impl<'a> Drawn<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        problem: &'a Problem,
        values: &'a [i128],
        generators: &'a Generators,
        contents: u64,
        stream: &'a Stream,
    ) -> Self {
        let (memory, others, missing) = Default::default();
        let random = Random::new(contents);
        Self { kernel, problem, values, generators, random, stream, memory, others, missing }
    }

    /// Returns the stream of the launch.
    #[must_use]
    pub fn stream(&self) -> &'a Stream {
        self.stream
    }

    /// Returns the launch, for methods that take one.
    #[must_use]
    pub fn launch(&self) -> LaunchConfig {
        launch(self.problem, self.values, self.kernel.cooperative)
    }

    /// Returns the integer that is passed for a parameter.
    ///
    /// # Errors
    /// It is out of range.
    pub fn integer<N: Number>(&self, param: usize) -> Result<N> {
        let variable = self.problem.of_param.get(param).copied().flatten();
        self.number(variable)
    }

    /// Sets a field of a structure.
    ///
    /// # Errors
    /// The value is out of range.
    pub fn set<N: Number>(&self, field: usize, place: &mut N) -> Result<()> {
        *place = self.number(self.problem.of_field.get(field).copied())?;
        Ok(())
    }

    fn number<N: Number>(&self, variable: Option<usize>) -> Result<N> {
        let value = variable.and_then(|variable| self.values.get(variable)).copied();
        value
            .and_then(N::of)
            .ok_or_else(|| crate::Error::invalid("a drawn integer is out of range"))
    }

    /// Returns a random value of another type.
    ///
    /// # Errors
    /// None are known of the type.
    pub fn value<T: 'static>(&mut self, param: usize, how: &How<T>) -> Result<T> {
        let name = self.name(param);
        match self.generators.value(how, &mut self.random) {
            Ok(value) => {
                let shown: &dyn Any = &value;
                let text = match (shown.downcast_ref::<f32>(), shown.downcast_ref::<f64>()) {
                    (Some(value), _) => value.to_string(),
                    (_, Some(value)) => value.to_string(),
                    _ => format!("a random `{}`", type_name::<T>()),
                };
                self.others.push((name.to_owned(), text));
                Ok(value)
            }
            Err(missing) => Err(self.none(name, &missing)),
        }
    }

    /// Returns memory with random contents.
    ///
    /// # Errors
    /// No values are known of the type, or memory ran out.
    pub fn slice<T: Copy + 'static>(
        &mut self,
        param: usize,
        how: &How<T>,
    ) -> Result<DeviceBuffer<T>> {
        let name = self.name(param);
        let len: usize = self.integer(param)?;
        let contents = match self.generators.elements(how, len, &mut self.random) {
            Ok(contents) => contents,
            Err(missing) => return Err(self.none(name, &missing)),
        };
        let written = matches!(
            self.kernel.params.get(param).map(|param| &param.kind),
            Some(Kind::Slice { written: true })
        );
        let (start, memory) = match contents {
            None => {
                let bytes = len.saturating_mul(size_of::<T>());
                let memory = DeviceBuffer::<std::mem::MaybeUninit<u8>>::uninit(self.stream, bytes)?;
                (memory.device_ptr(), Memory::Written { _memory: Box::new(memory) })
            }
            Some(before) => {
                let memory = DeviceBuffer::from_slice(self.stream, &before)?;
                let start = memory.device_ptr();
                let kept = match written {
                    true => Memory::Written { _memory: Box::new(memory) },
                    false => Memory::Read { name, memory, before },
                };
                (start, kept)
            }
        };
        self.memory.push(memory);
        // SAFETY: the memory has `len` elements of `T`, whose bytes are those of values, or those of a `MaybeUninit`.
        // It is kept in `self.memory`, which outlives the launch: the test waits for the stream before it drops that.
        // All its uses are on one stream.
        unsafe { DeviceBuffer::from_raw(self.stream, start, len, Some(Box::new(()))) }
    }

    fn name(&self, param: usize) -> &'static str {
        self.kernel.params.get(param).map_or("?", |param| param.name)
    }

    fn none(&mut self, parameter: &str, missing: &NoValues) -> crate::Error {
        self.missing = Some(Error::NoValues {
            kernel: self.kernel.name.to_owned(),
            parameter: parameter.to_owned(),
            type_name: missing.0,
        });
        crate::Error::invalid("no values are known of a type")
    }

    /// Returns what the kernel wrote to memory that it only reads, as it was promised. Waits for the stream.
    pub(super) fn written(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for memory in &self.memory {
            let Memory::Read { name, memory, before } = memory else { continue };
            let after = memory.to_vec(self.stream)?;
            if let Some(at) = before.iter().zip(&after).position(|(before, after)| before != after)
            {
                found.push(format!("the kernel wrote to `{name}`, which it only reads: byte {at}"));
            }
        }
        Ok(found)
    }
}

/// Returns the launch that the method is given, or derives.
pub(super) fn launch(problem: &Problem, values: &[i128], cooperative: bool) -> LaunchConfig {
    let number = |at: usize| {
        let value = problem.launch.get(at).and_then(|term: &Term| term.value(values));
        value.and_then(|value| u32::try_from(value).ok()).unwrap_or(u32::MAX)
    };
    let block = Dim3::new(number(0), number(1), number(2));
    let grid = Dim3::new(number(3), number(4), number(5));
    let launch = LaunchConfig::new(grid, block).dynamic_shared_bytes(number(6));
    if cooperative { launch.cooperative() } else { launch }
}
