//! One launch that was drawn: its arguments.

use std::any::{Any, type_name};
use std::mem::MaybeUninit;

use super::declared::{DeclaredKernel, TakenKind};
use super::error::Error;
use super::problem::{Problem, Term};
use super::random::Random;
use super::values::{Generators, How, NoValues};
use crate::error::Result;
use crate::launch::{Dim3, LaunchConfig, Number};
use crate::memory::DeviceBuffer;
use crate::stream::Stream;

/// The most bytes of a slice of a launch. The host makes its contents.
const MOST_BYTES: usize = 1 << 30;

/// The arguments of one launch; generated code passes them to the method.
#[derive(Debug)]
pub struct Drawn<'a> {
    kernel: &'a DeclaredKernel,
    problem: &'a Problem,
    values: &'a [i128],
    generators: &'a Generators,
    random: Random,
    stream: &'a Stream,
    /// What the slices hold that the kernel only reads, with their parameters.
    before: Vec<(usize, Vec<u8>)>,
    pub(super) written: Vec<String>,
    pub(super) others: Vec<(String, String)>,
    pub(super) missing: Option<Error>,
}

impl<'a> Drawn<'a> {
    pub(super) fn new(
        kernel: &'a DeclaredKernel,
        problem: &'a Problem,
        values: &'a [i128],
        generators: &'a Generators,
        contents: u64,
        stream: &'a Stream,
    ) -> Self {
        let (before, written, others, missing) = Default::default();
        let random = Random::new(contents);
        Self {
            kernel,
            problem,
            values,
            generators,
            random,
            stream,
            before,
            written,
            others,
            missing,
        }
    }

    /// Returns the stream of the launch.
    #[doc(hidden)]
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
    #[doc(hidden)]
    pub fn slice<T: Copy + 'static>(
        &mut self,
        param: usize,
        how: &How<T>,
    ) -> Result<DeviceBuffer<T>> {
        let name = self.name(param);
        let len: usize = self.integer(param)?;
        let bytes = len.saturating_mul(size_of::<T>());
        if bytes > MOST_BYTES {
            return Err(crate::Error::invalid(format!(
                "a launch was drawn in which `{name}` has {len} elements of {}, more than {MOST_BYTES} bytes",
                type_name::<T>()
            ))
            .with_hint("set fewer elements by Launches::most_elements"));
        }
        let contents = match self.generators.elements(how, len, &mut self.random) {
            Ok(contents) => contents,
            Err(missing) => return Err(self.none(name, &missing)),
        };
        let Some(contents) = contents else {
            let memory = DeviceBuffer::<MaybeUninit<u8>>::uninit(self.stream, bytes)?;
            // SAFETY: the elements are a `MaybeUninit`, and as many as there is memory for.
            return unsafe { memory.into_elements(len) };
        };
        let memory = DeviceBuffer::from_slice(self.stream, &contents)?;
        if let Some(TakenKind::Slice { written: false }) =
            self.kernel.params.get(param).map(|param| &param.kind)
        {
            self.before.push((param, contents));
        }
        // SAFETY: the bytes are those of `len` values of `T`: it has a value for any bytes, is a number or a `bool`, or
        // the test has made the values.
        unsafe { memory.into_elements(len) }
    }

    /// Compares memory that the kernel only reads with what was in it. Waits for the stream.
    ///
    /// # Errors
    /// The error that the driver returns.
    pub fn unchanged<T: Copy + 'static>(
        &mut self,
        param: usize,
        memory: &DeviceBuffer<T>,
    ) -> Result<()> {
        let Some((_, before)) = self.before.iter().find(|(other, _)| *other == param) else {
            return Ok(());
        };
        let after = memory.to_bytes(self.stream)?;
        if let Some(at) = before.iter().zip(&after).position(|(before, after)| before != after) {
            let name = self.name(param);
            let element = at / size_of::<T>().max(1);
            self.written.push(format!(
                "the kernel wrote to `{name}`, which it only reads: element {element}"
            ));
        }
        Ok(())
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
}

/// Returns the launch that the method is given, or derives.
pub(super) fn launch(problem: &Problem, values: &[i128], cooperative: bool) -> LaunchConfig {
    let number = |at: usize| {
        let value = problem.launch.get(at).and_then(|term: &Term| term.value(values));
        value.and_then(|value| u32::try_from(value).ok()).unwrap_or(u32::MAX)
    };
    let block = Dim3::new(number(0), number(1), number(2));
    let grid = Dim3::new(number(3), number(4), number(5));
    // Without blocks, the launch is that of `cover` without elements: the method is called, and enqueues nothing.
    let launch = LaunchConfig::new(grid, block).dynamic_shared_bytes(number(6)).or_nothing();
    if cooperative { launch.cooperative() } else { launch }
}
