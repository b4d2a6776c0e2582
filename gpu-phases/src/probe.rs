//! Probes of the types that C++ must declare for literals and values: rustc infers the types, and a probe reports
//! them.

use std::cell::RefCell;
use std::marker::PhantomData;

use crate::device::Device;
use crate::text::Text;

/// An item with a C++ name: a type, or a function with its generic arguments.
///
/// # Safety
/// The name, and what is written for it, is C++ that computes what the item does in Rust, and accesses no other memory.
#[allow(unsafe_code, reason = "the C++ is trusted")]
pub unsafe trait Named {
    /// Writes the definition, and returns the name.
    fn name(text: &mut Text) -> String;
}

// SAFETY: the C++ of a `Device` is that of the type.
#[allow(unsafe_code, reason = "the C++ of `Device` is trusted")]
unsafe impl<T: Device> Named for T {
    fn name(text: &mut Text) -> String {
        text.ty::<T>()
    }
}

/// A method whose C++ a library has written: its name has no suffix.
#[derive(Debug)]
pub struct InCpp;

// SAFETY: it adds nothing to the name of a method, whose C++ its library has promised.
#[allow(unsafe_code, reason = "the name is empty")]
unsafe impl Named for InCpp {
    fn name(_: &mut Text) -> String {
        String::new()
    }
}

/// The function that constructs a tuple variant or tuple structure.
#[derive(Debug)]
pub struct Constructor<F>(PhantomData<fn() -> F>);

// SAFETY: the name is the hash of the variant's in its enum, by whatever name the program has imported it.
#[allow(unsafe_code, reason = "the name is that of rustc")]
unsafe impl<F> Named for Constructor<F> {
    fn name(_: &mut Text) -> String {
        // The type is `path::Enum::Variant::{{constructor}}`. The name of a structure, which may be generic, is not used.
        let path = std::any::type_name::<F>();
        let name = path.strip_suffix("::{{constructor}}").and_then(|path| path.rsplit("::").next());
        format!("{}ull", name.map_or(0, crate::composite::name_hash))
    }
}

/// Returns the constructor, whose type is that of the probe.
#[inline(always)]
pub fn constructor<F>(_: &Probe<Constructor<F>>, constructor: F) -> F {
    constructor
}

/// Returns the hash in C++ of the variant that has this constructor.
pub fn variant_of<F>(_: &F) -> String {
    Constructor::<F>::name(&mut Text::default())
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
    /// Returns no types.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

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

    /// Writes the definition of a probe's elementary function, or of a device method of its name, and returns the beginning
    /// of its call.
    pub fn function(&self, probe: usize, method: &str, line: usize, text: &mut Text) -> String {
        let name = self.name(probe, text);
        // The name of a method is that of all methods of the name, with a suffix.
        if name.starts_with("f_") {
            format!("{name}(c")
        } else {
            format!("m_{method}{name}(c, {line}")
        }
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
