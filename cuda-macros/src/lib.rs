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
mod generics;
mod lex;
mod method;
mod param;
mod parse;
mod primitive;
mod shape;
mod source;
mod symbol;
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
/// Whoever writes `unsafe in SOURCE` promises: for every launch that the `where` of a `safe fn` allows
/// (in x alone unless it names y or z), the kernel stays inside what it was given and the variables of
/// its module, writes only these and what it has as `&mut`, and does not race with itself. So it holds for any number of blocks and threads in
/// x that the `where` does not exclude, and for any amount of dynamic shared memory. (In large grids
/// `blockIdx.x * blockDim.x` wraps, being 32 bits wide: then two threads have one index.)
///
/// The kernel also has the parameters that are declared here, which is checked as far as possible when
/// it is first launched. The promise also covers that `::cuda_safe`, or the path after `#![crate = …]`,
/// is this crate, and `::core` the language's. Kernels without `extern "C"` have mangled names, which tell what each
/// parameter points to and whether that is const; of one with `extern "C"` only the number, the size
/// and the class (integer or float) of its parameters are known.
///
/// An `unsafe fn` promises nothing: its method is an `unsafe fn`, too, and takes every launch that its
/// `where` allows. `SOURCE` is any expression whose type is a `cuda_safe::KernelSource`; struct
/// literals in it need parentheses. Of `include_str!("dir/file.cu")`, the compiler's messages say
/// `file.cu`.
///
/// # What is generated
/// A struct (without `struct Name;`: a private `Kernels`) that holds one `cuda_safe::Kernel` for each
/// function, with
/// - `load(&Context) -> Result<Self>`, which compiles and loads the source;
/// - `unsafe from_module(&Module) -> Result<Self>`, for a module that is loaded already;
/// - for each function a method `name(&self, &Stream, impl IntoLaunchConfig, arguments…) -> Result<()>`,
///   and `name_kernel(&self) -> &Kernel` for attributes and occupancy;
/// - `module(&self) -> Module`, for the source's globals;
/// - `Debug`, unless it is derived.
///
/// The fields are private to the macro: safe code cannot put another kernel in the place of one.
///
/// Methods are `pub` unless a visibility is written before `safe` or `unsafe`. Documentation and
/// other attributes are passed on; `#[cfg]` removes a kernel altogether, or the struct with all of
/// them; `#[allow]` on the struct holds for its methods. The one `unsafe` block that rests on the
/// promise has the span of the `unsafe` in `unsafe in`: lints on unsafe code report there, and
/// clippy's `undocumented_unsafe_blocks` wants its comment above it.
///
/// # Parameters
/// `&[T]` takes every `cuda_safe::ReadView`: `&DeviceBuffer<T>`, and views by reference or by value.
/// `&mut [T]` takes every `cuda_safe::WriteView`: `&mut DeviceBuffer<T>`, and views for writing by
/// `&mut` or by value. Every other type is passed by value and is a `cuda_safe::KernelArg`. The name of
/// a primitive type (`f32`, `u64`, `bool`…) always means that type, also where another type of the same
/// name is in scope. At most 24; no generics: `#[name = "f<float>"]` names one instance of a template. That attribute holds the
/// symbol or the NVRTC name expression; without it, it is the function's name.
///
/// The methods are generic in what they take, so Rust does not reborrow by itself: a variable `x:
/// &mut DeviceBuffer<T>` is moved into the call. Pass `&mut *x` to go on using it.
///
/// # Clauses
/// A `where` holds comparisons (`<`, `<=`, `>`, `>=`, `==`, chains such as `0 <= i < x.len()`),
/// separated by commas, of integer parameters, integers, lengths of slices and numbers of the launch,
/// with `+ - * / %` and parentheses. They are evaluated on the host before the launch, in `i128`: a
/// negative `i32` is less than every length, nothing wraps, and a result out of range or a division
/// by 0 counts as a clause that does not hold. The length of each slice of a `safe fn` must stand on
/// the greater side of a comparison or in an equality.
///
/// The numbers of the launch are `block.x`, `block.y`, `block.z` (threads in a block), `grid.x`,
/// `grid.y`, `grid.z` (blocks) and `shared` (dynamic shared memory of a block, in bytes). A parameter
/// called `block`, `grid` or `shared` hides the launch's.
///
/// A `safe fn` is launched in x alone: both `block.y` and `grid.y` must be 1 unless a clause names one
/// of them, and likewise in z. Most kernels compute their index from x, and would do all work once
/// more for each y: naming the dimension says that this one does not.
///
/// A sum in each block of 256 threads, in shared memory:
///
/// ```ignore
/// kernels! {
///     // SAFETY: thread i reads x[i] if i < n; thread 0 of block b alone writes sums[b]; `part` has an
///     // element for each thread of a block, and every thread meets every barrier.
///     unsafe in r#"
///         extern "C" __global__ void sum(const float* x, float* sums, size_t n) {
///             __shared__ float part[256];
///             size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
///             part[threadIdx.x] = i < n ? x[i] : 0.0f;
///             for (unsigned step = blockDim.x / 2; step > 0; step /= 2) {
///                 __syncthreads();
///                 if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
///             }
///             if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
///         }
///     "# {
///         safe fn sum(x: &[f32], sums: &mut [f32], n: u64)
///             where n <= x.len(), block.x == 256, grid.x <= sums.len();
///     }
/// }
/// ```
///
/// With `extern __shared__ float part[]`, the clause would be `shared >= 4 * block.x`; and a kernel
/// that has no loop over its elements computes all of them only if `block.x * grid.x >= n`.
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
