//! Probes of the types that C++ must declare for literals and values: rustc infers the types, and a probe reports
//! them.

use std::cell::RefCell;
use std::marker::PhantomData;

use crate::device::Device;
use crate::text::Text;

/// An item with a C++ name: a type, or a function with its generic arguments.
pub trait Named {
    /// Writes the definition, and returns the name.
    fn name(text: &mut Text) -> String;
}

impl<T: Device> Named for T {
    fn name(text: &mut Text) -> String {
        text.ty::<T>()
    }
}

/// A method whose C++ a library has written: its name has no suffix.
#[derive(Debug)]
pub struct InCpp;

impl Named for InCpp {
    fn name(_: &mut Text) -> String {
        String::new()
    }
}

/// Stands for a type that rustc infers.
#[derive(Debug)]
pub struct Probe<T>(PhantomData<fn() -> T>);

impl<T> Probe<T> {
    /// Returns a probe whose type is inferred from its uses.
    #[inline(always)]
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Clone for Probe<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Probe<T> {}

impl<T> Default for Probe<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the value, whose type is that of the probe.
#[inline(always)]
pub fn typed<T: Device>(_: &Probe<T>, value: T) -> T {
    value
}

/// The types of probes, in their order.
#[derive(Debug, Default)]
pub struct Types(Vec<fn(&mut Text) -> String>);

thread_local! {
    static REPORTED: RefCell<Types> = RefCell::default();
}

impl Types {
    /// Returns the types that `body` reports when it runs without arguments.
    #[must_use]
    pub fn of(body: impl FnOnce()) -> Self {
        REPORTED.take();
        body();
        REPORTED.take()
    }

    /// Reports the types of a body.
    #[cold]
    pub fn report(report: impl FnOnce(&mut Self)) {
        let mut types = Self::default();
        report(&mut types);
        REPORTED.set(types);
    }

    /// Takes the type of the next probe.
    pub fn push<T: Named>(&mut self, _: &Probe<T>) {
        self.0.push(T::name);
    }

    /// Writes the definition of a probe's type, and returns its C++ name.
    pub fn name(&self, probe: usize, text: &mut Text) -> String {
        self.0.get(probe).map(|name| name(text)).unwrap_or_default()
    }
}

/// Diverges in a body without arguments whose result is used, which no expansion reaches.
///
/// # Panics
/// The function always panics.
#[cold]
#[allow(clippy::panic, reason = "no caller comes here")]
pub fn no_arguments() -> ! {
    panic!("a device function was called without arguments")
}
