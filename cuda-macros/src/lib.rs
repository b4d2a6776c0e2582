//! The macro [`kernels!`]: CUDA kernels declared once, like foreign functions, and launched safely.
//!
//! The crate has no dependencies: it parses by hand, so it builds in about a second. `cuda_safe`
//! re-exports the macro; depend on that crate.

mod check;
mod clause;
mod clause_parser;
mod cursor;
mod emit;
mod function;
mod lex;
mod parse;
#[cfg(test)]
mod tests;
mod token;

use proc_macro::TokenStream;

/// Declares the kernels of one CUDA source, and makes a struct with one method for each.
///
/// ```ignore
/// kernels! {
///     /// y = a x + y, into a third array.
///     pub struct Saxpy;
///     // SAFETY: saxpy.cu returns where i >= n; each thread writes out[i] alone.
///     unsafe in SAXPY_CU {
///         /// Computes the first `n` elements of `out`.
///         safe fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32], n: u64)
///             where n <= x.len(), n <= y.len(), n <= out.len();
///         #[name = "transpose<double>"]
///         unsafe fn transpose(m: &mut [f64]);
///     }
/// }
///
/// let kernels = Saxpy::load(&context)?;
/// kernels.saxpy(&stream, launch, 2.0, &x, &y, &mut out, n)?;
/// ```
///
/// # The promise
/// Whoever writes `unsafe in SOURCE` promises: launched in ANY shape with arguments for which its
/// `where` holds, a `safe fn` reads and writes nothing outside what it was given, writes nothing that
/// came in by `&`, and has the parameters that are declared here. Number and size of the parameters
/// are checked again when the kernel is first launched. An `unsafe fn` promises nothing: its method
/// is an `unsafe fn`, too. `SOURCE` is any expression whose type is a `cuda_safe::KernelSource`;
/// struct literals in it need parentheses.
///
/// # What is generated
/// A struct (without `struct Name;`: a private `Kernels`) that holds one `cuda_safe::Kernel` for each
/// function, with
/// - `load(&Context) -> Result<Self>`, which compiles and loads the source;
/// - `unsafe from_module(&Module) -> Result<Self>`, for a module that is loaded already;
/// - for each function a method `name(&self, &Stream, impl Into<Launch>, arguments…) -> Result<()>`,
///   and `name_kernel(&self) -> &Kernel` for attributes and occupancy;
/// - `Debug`, unless it is derived.
///
/// Methods are `pub` unless a visibility is written before `safe` or `unsafe`. Documentation and
/// other attributes are passed on; `#[cfg]` removes a kernel altogether, or the struct with all of
/// them; `#[allow]` on the struct holds for its methods. The one `unsafe` block that rests on the
/// promise has the span of the `unsafe` in `unsafe in`: lints on unsafe code report there, and
/// clippy's `undocumented_unsafe_blocks` wants its comment above it.
///
/// # Parameters
/// `&[T]` takes whatever turns into a `DeviceSlice<T>` (buffers and views, by reference or by value),
/// `&mut [T]` whatever turns into a `DeviceSliceMut<T>`. Every other type is passed by value and is a
/// `cuda_safe::KernelArg`. At most 24; no generics: `#[name = "f<float>"]` names one instance of a
/// template. That attribute holds the symbol or the NVRTC name expression; without it, it is the
/// function's name.
///
/// # Clauses
/// A `where` holds comparisons (`<`, `<=`, `>`, `>=`, `==`, chains such as `0 <= i < x.len()`),
/// separated by commas, of integer parameters, integers and lengths of slices, with `+ - * / %` and
/// parentheses. They are evaluated on the host before the launch, in `i128`: a negative `i32` is
/// less than every length, nothing wraps, and a result out of range or a division by 0 counts as a
/// clause that does not hold. The length of each slice of a `safe fn` must stand on the greater side
/// of a comparison or in an equality.
///
/// # Other names for `cuda_safe`
/// A first line `#![crate = path::to::cuda_safe]` says where the generated code finds the crate: for
/// those who re-export it.
#[proc_macro]
pub fn kernels(input: TokenStream) -> TokenStream {
    let tokens = match parse::parse(&token::from_stream(input)) {
        Ok(declaration) => emit::emit(&declaration),
        Err(errors) => errors.iter().flat_map(token::Error::to_tokens).collect(),
    };
    // What cannot be handed back is a literal that the lexer does not know; the message always can.
    token::to_stream(tokens)
        .or_else(|error| token::to_stream(error.to_tokens()))
        .unwrap_or_default()
}
