//! Structures of libraries, which kernels query: meshes, grids, volumes.

use std::any::Any;

use crate::device::{Device, Float};
use crate::probe::Probe;
use crate::text::Text;

/// A structure of a library that kernels take by reference and query by its methods: `mesh: &Mesh`.
///
/// `Self` is the structure on the CPU, whose methods are Rust. A device has another one, made by the library, and methods
/// in C++ that return the same. On the CPU, kernels call the methods that `#[device(structure)]` adds to the ones of an
/// `impl`; in C++ they call the functions that [`Structure::write`] writes: `m_closest_point(c, line, structure, …)` for
/// `closest_point`, with the kernel's state and the line of the call in front.
///
/// # Safety
/// [`Structure::write`] defines the C++ type and functions whose parameters and results are the C++ types of those of the
/// Rust methods. They read nothing but the structure, and compute what the Rust methods do, bit for bit.
#[diagnostic::on_unimplemented(
    message = "a kernel takes no reference to one `{Self}`",
    label = "this is no structure that kernels query",
    note = "take the value itself, or a slice: `x: T` or `x: &[T]`",
    note = "structures come from libraries, such as `geom_kernels::structures::Mesh`"
)]
pub unsafe trait Structure: Any + Send + Sync {
    /// The size of the kernel's C++ parameter in bytes.
    const SIZE: usize;
    /// Its alignment in bytes.
    const ALIGN: usize;
    /// The members of the C++ parameter that point to what the structure was made of, such as the points of a mesh, if
    /// queries have gradients with respect to it. A structure's own copies have none.
    const SOURCES: &'static [Source] = &[];

    /// Returns the type's name in Rust, with its path.
    fn rust_name() -> String;

    /// Returns the name of the C++ type, which is that of the parameter.
    fn cpp_name() -> String;

    /// Writes the definition of the C++ type and its functions, once per [`Text`]: see [`Text::define`] and
    /// [`Text::header`].
    fn write(text: &mut Text);
}

/// A member of a structure's C++ parameter that points to elements of floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// Where it is in the parameter, in bytes.
    pub offset: usize,
    /// The type of the floats.
    pub float: Float,
    /// How many floats an element has.
    pub floats: usize,
}

/// What a structure's method returns for `for item in structure.method(…)`.
///
/// # Safety
/// Its C++ type has `bool next()`, which goes to the next item, and `item()`, which returns it; items come in the order of
/// the iterator.
#[diagnostic::on_unimplemented(
    message = "kernels do not iterate over `{Self}`",
    note = "structures' methods that return several items have iterators, such as `grid.neighbors(p, radius)`"
)]
pub unsafe trait Items: Iterator {}

/// The C++ type of a reference to a structure. By the rules of method calls it comes before [`OfDevice`].
pub trait OfStructure {
    /// Returns the type.
    fn phases_reference(&self, text: &mut Text) -> String;
}

impl<S: Structure> OfStructure for Probe<S> {
    fn phases_reference(&self, text: &mut Text) -> String {
        format!("const {}&", text.structure::<S>())
    }
}

/// The C++ type of a reference to a value.
pub trait OfDevice {
    /// Returns the type.
    fn phases_reference(&self, text: &mut Text) -> String;
}

impl<T: Device> OfDevice for &Probe<T> {
    fn phases_reference(&self, text: &mut Text) -> String {
        format!("ref<{}>", text.ty::<T>())
    }
}
