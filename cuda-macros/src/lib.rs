//! The macro [`kernels!`] declares CUDA kernels like foreign functions and generates methods that launch them.
//!
//! The crate has no dependencies: it parses by hand, so it builds in about a second. `cuda_safe`
//! re-exports the macro; depend on that crate.

mod check;
mod clause;
mod clause_parser;
mod compare;
mod cursor;
mod emit;
mod function;
mod generics;
mod global;
mod gradient;
mod include;
mod lex;
mod method;
mod over;
mod param;
mod parse;
mod primitive;
mod shape;
mod source;
mod symbol;
mod taken;
mod testing;
#[cfg(test)]
mod tests;
mod token;

use std::path::{Path, PathBuf};

use proc_macro::TokenStream;

/// Declares the kernels of one CUDA source and generates a struct with one method for each.
///
/// ```ignore
/// kernels! {
///     /// y = a x + y, into a third array.
///     pub struct Saxpy;
///     // SAFETY: saxpy.cu returns where i >= n; each thread writes out[i] alone.
///     unsafe in SAXPY_CU {
///         /// Computes all elements of `out`.
///         safe fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32], n: usize = x.len()) over n
///             where y.len() == n, out.len() == n;
///     }
/// }
///
/// let kernels = Saxpy::load(&context)?;
/// kernels.saxpy(&stream, 2.0, &x, &y, &mut out)?;
/// ```
///
/// `n: usize = x.len()` is filled in by the method. `over n` launches one thread for each of `n`
/// elements. Without `over` the caller chooses the launch, for example to tune it:
///
/// ```ignore
/// safe fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32], n: usize = x.len())
///     where y.len() == n, out.len() == n;
///
/// kernels.saxpy(&stream, LaunchConfig::cover(x.len(), 512), 2.0, &x, &y, &mut out)?;
/// ```
///
/// # The promise
/// The author of `unsafe in SOURCE` promises the following for every launch of a `safe fn` that its
/// declaration allows: the kernel accesses only the memory that its arguments give it and the variables
/// of its module, it writes only `&mut` arguments and these variables, and it does not race with itself.
/// So it only reads through the pointer of a `#[only_read]` parameter, too.
///
/// - Without `over`, the declaration allows every launch that satisfies the `where`, in x alone unless the
///   `where` names y or z. So the promise holds for any number of blocks and threads in x that the `where`
///   does not exclude, and for any amount of dynamic shared memory. (In large grids
///   `blockIdx.x * blockDim.x` wraps, because it has 32 bits: then two threads have one index.)
/// - With `over`, the declaration allows the launches that the `over` makes, without dynamic shared
///   memory, if they satisfy the `where`.
/// - With `cooperative`, all blocks of a launch are resident at the same time, so that they can wait for each other.
/// - Integers that no clause reads have any value.
/// - With type parameters, the promise holds for each of their instances.
///
/// The kernel also has the parameters that are declared here. The first launch checks that as far as
/// possible: number, size and class (integer or float) of the parameters, the types that pointers point to, and whether
/// those are const. NVRTC states the types, whether a kernel is `extern "C"` or not. Of a kernel that was compiled before
/// (PTX, a cubin) and is `extern "C"`, its symbol states no types, and only number, size and class are known. The promise also covers that `::cuda_safe`, or the path after `#![crate = …]`, is this
/// crate, and `::core` the language's.
///
/// An `unsafe fn` promises nothing: its method is an `unsafe fn` too, and takes every launch that its
/// `where` allows. `SOURCE` is any expression whose type is a `cuda_safe::KernelSource`; struct
/// literals in it need parentheses. [`include_cuda!`] embeds a file with its includes. For
/// `include_str!("dir/file.cu")`, messages of the CUDA compiler name the file `file.cu`, and line information
/// (`Options::lineinfo`) its absolute path, as for `include_cuda!`. For a literal, both name the Rust file and the lines in
/// it; a literal in a constant or in another macro is `program.cu`.
///
/// # What is generated
/// A struct (without `struct Name;`: a private `Kernels`) that holds one `cuda_safe::Kernel` for each
/// function, with
/// - `load(&Context) -> Result<Self>`, which compiles and loads the source;
/// - `unsafe load_from(&Context, source) -> Result<Self>`, which does so with another `KernelSource`: the same text with
///   options, headers and macros that are known at run time only (those that are fixed belong into `SOURCE`, as an
///   expression of type `nvrtc::Program`, and need no `unsafe`);
/// - `unsafe from_module(&Module) -> Result<Self>`, for a module that is loaded already;
/// - `check(Arch) -> Result<()>`, for a `#[test]` (below);
/// - for each function a method `name(&self, &Stream, impl IntoLaunchConfig, arguments…) -> Result<()>`
///   (without the launch if the function has an `over`), and `name_kernel(&self) -> &Kernel` for attributes
///   and occupancy;
/// - for each global a method `name(&self, &Stream) -> Result<Global<T>>`;
/// - `module(&self) -> Module`, for what is not declared;
/// - `Clone` and `Debug`, unless they are derived;
/// - `cuda_safe::DeclaredKernels`, for generic code that loads any such struct.
///
/// The fields are private to the macro: safe code cannot replace one kernel by another.
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
/// `&mut` or by value. For an integer, the method takes an integer of any type, `cuda_safe::arg::Integer`: a kernel that
/// takes an `int` is called with a `usize`. A value out of the range of the kernel's type is an error that names the
/// parameter, its type and the value, and nothing is enqueued. (A literal without a type is an `i32`: larger ones need
/// one, as in `0xffff_ffff_u32`.) Every other type is passed by value and is a `cuda_safe::KernelArg`. The name of
/// a primitive type (`f32`, `u64`, `bool`…) always means that type, also where another type of the same
/// name is in scope. A kernel has at most 24 parameters.
///
/// A `&[T]` stands for a pointer to const. Many CUDA C++ kernels leave the `const` out: the first launch then fails,
/// because the kernel could write through the pointer. `#[only_read] x: &[T]` promises, as a part of the `unsafe in`,
/// that it does not:
///
/// ```ignore
/// // __global__ void scale(float* in, float* out, int n)
/// safe fn scale(#[only_read] input: &[f32], out: &mut [f32], n: i32 = out.len()) over n
///     where input.len() == n;
/// ```
///
/// Such memory is ordered as other memory that is read: several streams read it at once. Declared as `&mut [f32]`
/// instead, each launch would wait for all earlier ones on other streams that use it. On a pointer to const the marker
/// is an error of the first launch. Types of a precompiled `extern "C"` kernel are not known: the marker is not needed there,
/// and accepted.
///
/// A parameter of an `unsafe fn` may also be a pointer. `Option<&[T]>` and `Option<&mut [T]>` take views, references to
/// buffers, and `None` for a null pointer. `*const T` and `*mut T` take raw pointers and `CUdeviceptr`s
/// (`cuda_safe::arg::IntoRawPointer`): of these neither order nor lifetime is known to the stream.
///
/// A parameter of an `unsafe fn` may also be a reference to a type of yours, as in `&Prepared<'_>`, or
/// `impl KernelArg`, where the type that is passed is a `cuda_safe::KernelArg`.
///
/// The methods are generic in what they take, so Rust does not reborrow by itself: a variable `x:
/// &mut DeviceBuffer<T>` is moved into the call. Pass `&mut *x` to go on using it.
///
/// # Parameters that are filled in
/// `n: u32 = 2 * x.len()` fills in `n` at each launch; the caller does not pass it. The expression has the
/// language of clauses (below) without the numbers of the launch. It reads parameters that the caller
/// passes, their fields, constants, and filled-in parameters that stand before it. The value is computed in `i128` and converted to the
/// parameter's type, which is an integer. A value out of its range is an error of the launch, as a clause
/// that does not hold is.
///
/// # The launch
/// `over n`, `over [width, height]` and `over [nx, ny, nz]` launch one thread for each element, rounded up
/// to whole blocks: the kernel must check its index. The extents are expressions, as those of filled-in
/// parameters. Blocks have 256, 32 × 8 and 8 × 8 × 4 threads unless `by` follows, as in `over n by 128` or
/// `over [width, height] by [16, 16]`, also with constants: `by [TILE, TILE]`. If an extent is 0, nothing is launched. A
/// grid that is too large for the device is an error, as is a negative extent.
///
/// `cooperative`, before `over` or alone, makes each launch cooperative: `this_grid().sync()` works. The caller's
/// `LaunchConfig` need not say so. A grid whose blocks the device can't hold at once is an error.
///
/// ```ignore
/// safe fn reduce(x: &[f32], sums: &mut [f32], n: u64 = x.len()) cooperative where grid.x <= sums.len();
/// ```
///
/// # Clauses
/// A `where` holds conditions, separated by commas, all of which must hold. A condition is a comparison (`<`, `<=`, `>`,
/// `>=`, `==`, chains such as `0 <= i < x.len()`), or `.is_power_of_two()` of a value, as in
/// `block.x.is_power_of_two()`. Of `n == 0 || n <= x.len()` one must hold.
///
/// Values are integer parameters, integer fields of structures (`params.size.x`), integers, lengths of slices, numbers of
/// the launch, and constants: paths that end in capitals, such as `TILE` or `consts::BLOCK`, of any integer type up to 64
/// bits or `i128`. There are `+ - * / %` and parentheses. A parameter hides a constant of its name.
///
/// Clauses are evaluated on the host before the launch, in `i128`: a negative `i32` is less than every length, nothing
/// wraps, and a condition with a result out of range or a division by 0 does not hold. The length of each slice of a
/// `safe fn` must stand on the greater side of a comparison or in an equality, in each alternative of an `||`, or fill in
/// a parameter, alone, as in `n: usize = x.len()`.
///
/// An integer parameter of a `safe fn` that no clause reads is a warning, because a bound may have been forgotten. (An
/// extent of an `over` bounds nothing.) `#[any]` before it says that the kernel is sound for every value:
///
/// ```ignore
/// safe fn noise(#[any] seed: u32, out: &mut [f32], n: u32 = out.len()) over n;
/// ```
///
/// The numbers of the launch are `block.x`, `block.y`, `block.z` (threads in a block), `grid.x`,
/// `grid.y`, `grid.z` (blocks) and `shared` (dynamic shared memory of a block, in bytes). A parameter
/// called `block`, `grid` or `shared` hides the launch's.
///
/// A `safe fn` without `over` is launched in x alone: both `block.y` and `grid.y` must be 1 unless a clause
/// names one of them, and likewise in z. Most kernels compute their index from x, and would do all work
/// again for each y: naming the dimension says that this one does not.
///
/// A sum in each block of 256 threads, in shared memory:
///
/// ```ignore
/// kernels! {
///     // SAFETY: thread i reads x[i] if i < n; thread 0 of block b alone writes sums[b]; `part` has an
///     // element for each thread of a block, and every thread meets every barrier.
///     unsafe in r#"
///         __global__ void sum(const float* x, float* sums, size_t n) {
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
///         safe fn sum(x: &[f32], sums: &mut [f32], n: u64 = x.len()) over n
///             where block.x == 256, grid.x <= sums.len();
///     }
/// }
/// ```
///
/// With `extern __shared__ float part[]` and a launch of the caller's, the clause would be
/// `shared >= 4 * block.x`; and a kernel that has no loop over its elements computes all of them only if
/// `block.x * grid.x >= n`.
///
/// # Symbols
/// A kernel's symbol in the image is the name of its function. `#[name = "…"]` on the function gives
/// another symbol, or an NVRTC name expression such as `transpose<double>`. On the struct,
/// `#[name = "mesh_{}"]` gives the symbols of all functions that have no `#[name]`: `{}` is replaced by the function's
/// name. A brace in a symbol is written twice.
///
/// # Templates
/// Type parameters declare several instances of a kernel at once. Each parameter lists the types that the
/// source has kernels for:
///
/// ```ignore
/// kernels! {
///     pub struct Scale;
///     // SAFETY: thread i touches element i alone, and only if i < n.
///     unsafe in r#"
///         template <class T> __global__ void scale(T a, T* x, size_t n) {
///             size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
///             if (i < n) x[i] *= a;
///         }
///     "# {
///         safe fn scale<T in [f32, f64]>(a: T, x: &mut [T], n: usize = x.len()) over n;
///     }
/// }
///
/// kernels.scale(&stream, 0.5, &mut x)?; // x: DeviceBuffer<f32>, or DeviceBuffer<f64>
/// ```
///
/// The method is generic; it launches the kernel of its instance. A type that is not in the list is an
/// error, and nothing is enqueued. `scale_kernel::<T>()` returns a `Result<&Kernel>`. `load` compiles all
/// instances.
///
/// On the struct, `struct Query<T: Real in [f32, f64]>;` makes the struct generic: a `Query<f32>` has the
/// kernels of `f32`, and `load` compiles these alone. `Query<i32>::load` is an error.
///
/// The symbol of an instance is `NAME<T>`, with the parameters of the struct and of the function in order and the C++
/// names of the types. In a `#[name = "…"]`, `{T}` is replaced by the name of the instance. Another name follows the
/// type: `T in [f32 = "f32", Float4 = "float4"]`, which types other than primitives need. With
/// `#[name = "grid_{}_{T}"]` on `Query`, its function `count` has the symbols `grid_count_f32` and `grid_count_f64`.
///
/// A bound is optional: `T: Real in […]`. Without one it is `cuda_safe::DeviceRepr`, so that `T` can be an
/// element and a value. `'static` is always added.
///
/// # Globals
/// `global` declares a `__constant__`, `__device__` or `__managed__` variable of the source. The struct has a method of its
/// name, which returns a `cuda_safe::Global` to read and write:
///
/// ```ignore
/// kernels! {
///     pub struct Filter;
///     // SAFETY: thread i writes out[i] alone, and only if i < n.
///     unsafe in r#"
///         namespace filter { __constant__ float offset; }
///         __constant__ float weights[4];
///         __global__ void apply(const float* x, float* out, size_t n) {
///             size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
///             if (i < n) out[i] = weights[i % 4] * x[i] + filter::offset;
///         }
///     "# {
///         safe fn apply(x: &[f32], out: &mut [f32], n: usize = x.len()) over n where out.len() == n;
///         global weights: [f32; 4];
///         #[name = "filter::offset"]
///         global offset: f32;
///     }
/// }
///
/// kernels.weights(&stream)?.write(&stream, &[0.25, 0.5, 0.5, 0.25])?;
/// kernels.offset(&stream)?.write(&stream, &[1.0])?;
/// kernels.apply(&stream, &x, &mut out)?;
/// ```
///
/// A global `[T; N]` is a `Global<T>` of `N` elements, any other type `T` a `Global<T>` of one. The declaration adds a name
/// and a type; the promise says nothing of it, because the order of uses is derived from the source's PTX. `load` and
/// `from_module` fail if there is no such variable, if its size differs from the declared type's, or if one is a float and
/// the other an integer.
///
/// The variable has the global's name. `#[name = "…"]` gives another one: a name in C++ such as `filter::offset`, an
/// instance of a template such as `value<float>`, or a symbol of the image. In a generic struct, `{T}` in it is the
/// instance's name: `#[name = "{}<{T}>"] global value: T;`.
///
/// # Gradients
/// `#[gradient]` before a function adds two methods, for tapes of the crate `cuda_tape`:
///
/// ```ignore
/// #[gradient]
/// safe fn scale(#[active] a: f32, x: &[f32], #[inactive] w: &[f32], out: &mut [f32], n: u32 = x.len())
///     over n where w.len() == n, out.len() == n;
///
/// kernels.record_scale(t, &a, &x, &w, &mut out)?; // t: &mut cuda_tape::Recorder
/// println!("{}", kernels.derive_scale()?);
/// ```
///
/// `record_scale` launches the kernel and records the launch; it takes the recorder instead of the stream.
/// `derive_scale` generates the adjoint, unless it was, and returns a report. The adjoint is generated from the
/// compiled kernel, so the struct must have been made by `load` or `load_from`, from a text or a `Program`. It accesses
/// memory and gradients at the indices where the kernel accesses memory: the promise covers it.
///
/// - A slice has a gradient if its elements are `cuda_tape::Differentiable`. `#[inactive]` excludes one, which other
///   elements than integers need.
/// - A value has a gradient if it is marked `#[active]`. The method takes the value, or the `cuda_tape::Variable` of
///   one.
/// - The elements that are used follow from parameters that are filled in (`n: u32 = x.len()`) and from clauses:
///   `x.len() == n`, `x.len() == y.len()`, or `4 * n <= x.len()` if nothing else reads the length. Elsewhere it is the
///   whole slice.
///
/// Kernels with type parameters have no `#[gradient]`. `#[gradient(crate = path::to::cuda_tape)]` says where the
/// generated code finds the crate.
///
/// # Checking without a device
/// `Kernels::check(arch)` compiles the source for an architecture, or reads the PTX or the image that the source is, and
/// compares all declared kernels and their instances with it: that the symbols exist, and the number, size, class and types of
/// the parameters, as far as they are known. Each is compared as its first launch compares
/// it. Declared globals are compared as `load` compares them: name, size, and whether they are floats. No device and no driver is needed, so a test finds what would else be found at the first launch:
///
/// ```ignore
/// #[test]
/// fn the_declaration_fits() -> cuda_safe::Result<()> {
///     Saxpy::check(Arch::sm(8, 0))
/// }
/// ```
///
/// The first difference is the error. A parameter of the type `impl KernelArg` is not compared. The NVRTC is the newest
/// that is found; an `nvrtc::Program` as the source can name another.
///
/// # Testing the promise
/// `#[test_launches]` on the struct, or `#[cfg_attr(test, test_launches)]`, adds a function that tries launches which the
/// declaration allows, on a device that checks them, such as the software device of `cuda-emu`:
///
/// ```ignore
/// #[test]
/// fn the_declaration_holds() -> Result<(), Box<dyn std::error::Error>> {
///     let observation = cuda_emu::observe()?;
///     Saxpy::test_launches(&mut Launches::new(&context, || observation.found())?)?;
///     Ok(())
/// }
/// ```
///
/// `Saxpy::test_launches(&mut launches)` loads the kernels with line information, `kernels.test_loaded(&mut launches)` takes
/// those that are loaded. Both need the feature `testing` of `cuda_safe`, whose module `cuda_safe::testing` says what is
/// tried and found. Without the attribute nothing is generated.
///
/// # Other names for `cuda_safe`
/// A first line `#![crate = path::to::cuda_safe]` says where the generated code finds the crate: for
/// crates that re-export it.
#[proc_macro]
pub fn kernels(input: TokenStream) -> TokenStream {
    let tokens = match parse::parse(&token::from_stream(input)) {
        Ok(declaration) => emit::emit(&declaration),
        Err(errors) => errors.iter().flat_map(token::Error::to_tokens).collect(),
    };
    stream(tokens)
}

/// Embeds a file of CUDA C++ and all files that it includes in quotes, as a `cuda_safe::nvrtc::Program`.
///
/// ```ignore
/// kernels! {
///     struct Kernels;
///     // SAFETY: …
///     unsafe in include_cuda!("kernels/saxpy.cu") {
///         safe fn saxpy(a: f32, x: &[f32], y: &mut [f32], n: usize = x.len()) over n where y.len() == n;
///     }
/// }
///
/// let image = include_cuda!("kernels/saxpy.cu").options(Options::new().fast_math(true)).compile(arch)?;
/// ```
///
/// The path is relative to the folder of the source file that has the call, as for `include_str!`, and a quoted include
/// is relative to the folder of the file that has it. Each file becomes a header in memory, once, however many includes
/// mean it: a `#pragma once` or a guard works as with files. The program needs none of the files when it runs. Cargo
/// builds the crate again when one of them changes.
///
/// Not embedded, but left to the program when it is compiled, are:
/// - includes in angle brackets, for which `Program::include_path` and `Program::header` are;
/// - quoted includes of CUDA's and the C library's headers, such as `"cuda_runtime.h"`, if no file of the name is there;
/// - everything that `#ifndef __CUDACC_RTC__`, `#if 0` and the like take away from the device's compiler;
/// - files that are not there, where another macro decides whether they are included.
///
/// A quoted include that is left becomes one in angle brackets, as does `__has_include`: for names in quotes the compiler
/// would look in the current folder of the process first, where anybody's header may lie.
///
/// # Errors
/// It is an error of the build, which names the file and the line, if a file that is certainly included is not there, is
/// not UTF-8, or lies outside the package's folder (the one with `Cargo.toml`), where `cargo package` would not find it,
/// and if the name of an include comes from a macro.
/// Files that include each other without guards are an error of NVRTC.
///
/// # Line information
/// With `Options::lineinfo` or `Options::debug`, the image names the embedded files by their absolute paths if they are
/// still there when the program is compiled, so that profilers and debuggers open them. For this the executable contains
/// their paths. If the variable `SOURCE_DATE_EPOCH` is set during the build, as
/// [reproducible builds](https://reproducible-builds.org/docs/source-date-epoch/) have it, it does not.
///
/// # Other names for `cuda_safe`
/// `include_cuda!(crate = path::to::cuda_safe, "a.cu")` says where the generated code finds the crate. Inside `kernels!`
/// the path after `#![crate = …]` holds.
#[proc_macro]
pub fn include_cuda(input: TokenStream) -> TokenStream {
    let package = variable("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let name = variable("CARGO_PKG_NAME");
    let caller = |span: token::Span| {
        let file = span.file().ok_or("the compiler does not say which file has this call")?;
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        let (package, name) = package.zip(name).ok_or("cargo must run the compiler")?;
        Ok(include::Caller { folder, package, name, paths: source::may_hold_paths() })
    };
    let tokens = include::include(&token::from_stream(input), caller)
        .unwrap_or_else(|error| error.to_tokens());
    stream(tokens)
}

/// Returns a variable that cargo sets for the compiler.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Hands tokens back to the compiler.
fn stream(tokens: Vec<token::Token>) -> TokenStream {
    // The conversion fails for a literal that the lexer does not know; it never fails for the error's tokens.
    token::to_stream(tokens)
        .or_else(|error| token::to_stream(error.to_tokens()))
        .unwrap_or_default()
}
