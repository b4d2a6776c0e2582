//! What `kernels!` takes.

#![deny(warnings)]
#![allow(unused_qualifications, reason = "paths are among what the macro takes")]
#![allow(clippy::needless_borrows_for_generic_args, reason = "so are references to views")]

use cuda_safe::arg::{ArgType, UseVisitor};
use cuda_safe::{
    Context, DeclaredKernels, DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, Kernel,
    KernelArg, LaunchConfig, Module, Result, Stream, kernels,
};

const SOURCE: &str = "";

kernels! {
    /// Documented, cloneable, visible.
    #[derive(Clone)]
    pub(crate) struct Everything;
    // SAFETY: never loaded, so no kernel ever runs.
    unsafe in SOURCE {
        /// Of the issue.
        safe fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32], n: u64)
            where n <= x.len(), n <= y.len(), n <= out.len();
        unsafe fn raw_one(p: &mut [u32]);
        #[name = "axpy<float>"]
        safe fn by_expression(v: f32);
        pub(crate) safe fn arithmetic(x: &[f32], rows: u32, columns: i32, first: i64, stride: usize,)
            where 0 <= first < x.len(),
                  columns > 0,
                  first + rows * (columns - 1) * stride / 2 % 1_000 < x.len() - 0x10,
                  -1 == -first,;
        #[cfg(any())]
        safe fn absent(gone: Gone);
        // Names that the generated code uses, too.
        safe fn names(stream: u32, launch: &[u32], left: u64, right: u64, module: u8)
            where stream <= launch.len(), left + right == module;
        safe fn transpose(input: &[f32], out: &mut [f32], rows: u32, columns: u32)
            where rows * columns <= input.len(),
                  rows * columns <= out.len(),
                  block.x == block.y == 16,
                  grid.x * block.x >= columns,
                  grid.y * block.y >= rows,
                  shared >= 4 * block.x * (block.y + 1);
        safe fn hidden(shared: u32, block: &[u32]) where shared < block.len(), grid.x <= 65_535;
        safe fn r#loop(r#in: &[u8]) where r#in.len() == 4;
        safe fn none();
        safe fn twenty_four(
            #[any] a0: u8, #[any] a1: u8, #[any] a2: u8, #[any] a3: u8, #[any] a4: u8, #[any] a5: u8, #[any] a6: u8, #[any] a7: u8, #[any] a8: u8, #[any] a9: u8,
            #[any] b0: u8, #[any] b1: u8, #[any] b2: u8, #[any] b3: u8, #[any] b4: u8, #[any] b5: u8, #[any] b6: u8, #[any] b7: u8, #[any] b8: u8, #[any] b9: u8,
            #[any] c0: u8, #[any] c1: u8, #[any] c2: u8, #[any] c3: u8,
        );
    }
}

/// A type that a kernel takes by value.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair<T>(T, T);
// SAFETY: repr(C), two numbers.
unsafe impl<T: cuda_safe::DeviceRepr> cuda_safe::DeviceRepr for Pair<T> {}

/// An argument with a lifetime, which is passed by reference or by value.
struct Prepared<'a, T> {
    values: DeviceSlice<'a, T>,
}

// SAFETY: the argument is the view that it holds.
unsafe impl<T: Copy + 'static> KernelArg for &Prepared<'_, T> {
    type Abi = u64;
    const TYPE: ArgType = ArgType::pointer::<Self, T>(false);
    fn abi(&self) -> u64 {
        self.values.device_ptr()
    }
    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        self.values.uses(visitor)
    }
}

trait Real: DeviceRepr {}
impl Real for f32 {}
impl Real for f64 {}

kernels! {
    /// A pattern of symbols, and unsafe kernels that take what they like.
    #[name = "mesh_{}"]
    struct Closest;
    // SAFETY: as above.
    unsafe in SOURCE {
        unsafe fn closest(queries: &Prepared<'_, f32>, n: u32);
        #[name = r#"mesh_any"#]
        unsafe fn any(argument: impl KernelArg, view: Empty<'_>);
        safe fn never_used(view: Empty<'_>);
    }
}
#[derive(Clone, Copy)]
struct Empty<'a>(std::marker::PhantomData<&'a ()>);
// SAFETY: it reaches nothing.
unsafe impl KernelArg for Empty<'_> {
    type Abi = u8;
    const TYPE: ArgType = ArgType::value::<u8>();
    fn abi(&self) -> u8 {
        0
    }
    fn uses<V: UseVisitor>(&self, _: &mut V) -> Result<()> {
        Ok(())
    }
}

kernels! {
    #[name = "hash_grid_{}_{T}"]
    pub(crate) struct Query<T: Real in [f32 = "f32", f64 = "f64"]>;
    // SAFETY: as above.
    unsafe in SOURCE {
        safe fn count(points: &[[T; 3]], radius: T, counts: &mut [u32], n: u64)
            where n <= points.len(), n <= counts.len();
        unsafe fn list(part: &Prepared<'_, T>);
        #[name = "convert_{T}_{U}"]
        safe fn convert<U in [u8, Pair<f32> = "pair"]>(x: &[T], y: &mut [U], n: u64)
            where n <= x.len(), n <= y.len();
    }
}

kernels! {
    struct Templates<V in [u8, i32], A: Real in [f32, f64]>;
    // SAFETY: as above.
    unsafe in SOURCE {
        safe fn sum(values: &[V], sums: &mut [A], n: u64) where n <= values.len(), n <= sums.len();
        safe fn nothing();
    }
}

fn generic<T: Real>(
    context: &Context,
    stream: &Stream,
    points: &DeviceBuffer<[T; 3]>,
    values: &DeviceBuffer<T>,
    bytes: &mut DeviceBuffer<u8>,
    counts: &mut DeviceBuffer<u32>,
    radius: T,
) -> Result<()> {
    let query = Query::<T>::load(context)?;
    query.count(stream, (1, 32), points, radius, counts, 1)?;
    query.clone().convert(stream, (1, 32), values, bytes, 1)?;
    let occupancy: Result<&Kernel> = query.convert_kernel::<u8>();
    occupancy?.attributes()?;
    // SAFETY: never run.
    unsafe { query.list(stream, (1, 1), &Prepared { values: values.as_slice() })? };
    let templates = Templates::<u8, T>::load(context)?;
    templates.nothing(stream, (1, 1))
}

fn generic_loading<K: DeclaredKernels>(module: &Module) -> Result<K> {
    // SAFETY: never run.
    unsafe { K::from_module(module) }
}

kernels! {
    /// Parameters that are filled in, and launches that follow from them.
    struct Derived;
    // SAFETY: as above.
    unsafe in SOURCE {
        safe fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32], n: usize = x.len()) over n
            where y.len() == n, out.len() == n;
        safe fn image(pixels: &mut [u32], width: u32, height: u32 = pixels.len() / width)
            over [width, height] by [16, 16]
            where width * height == pixels.len(), block.x == 16;
        unsafe fn volume<T in [u8, f32]>(cells: &mut [T], n: [u32; 3], side: i64 = -1 + 2 * cells.len())
            over [side, side, side / 2 + 1];
        safe fn tuned(launch: &mut [f32], values: i32 = launch.len(), value: u8 = values % 256);
    }
}

fn derived(
    kernels: &Derived,
    stream: &Stream,
    x: &DeviceBuffer<f32>,
    out: &mut DeviceBuffer<f32>,
    pixels: DeviceSliceMut<'_, u32>,
) -> Result<()> {
    kernels.saxpy(stream, 2.0, x, x, &mut *out)?;
    kernels.image(stream, pixels, 640)?;
    // SAFETY: never run.
    unsafe { kernels.volume(stream, &mut *out, [1, 2, 3])? };
    kernels.tuned(stream, LaunchConfig::cover(4, 32), out)
}

const TILE: usize = 16;

mod consts {
    pub(crate) const LEAST: i16 = -1;
    pub(crate) static STEP: u8 = 2;
}

/// A structure that a kernel takes by value.
#[derive(Clone, Copy)]
#[repr(C)]
struct Params {
    n: u64,
    size: Pair<u32>,
}
// SAFETY: never launched.
unsafe impl DeviceRepr for Params {}

kernels! {
    /// As CUDA C++ programs need it.
    struct Ported<V: Real in [f32, f64]>;
    // SAFETY: as above.
    unsafe in SOURCE {
        safe fn only_read(#[only_read] x: &[V], out: &mut [V], n: i32 = out.len()) over n where x.len() >= n;
        safe fn any(#[any] seed: u64, #[any] flags: i8, out: &mut [V], n: usize = out.len()) over n by TILE;
        safe fn values(p: Params, q: Pair<V>, tile: u16, out: &mut [V])
            where p.n * tile <= out.len() || p.size.0 + p.size.1 <= out.len() - consts::STEP,
                  block.x.is_power_of_two(), (p.n + 1).is_power_of_two() || p.n == 0, crate::consts::LEAST < p.n < u32::MAX;
        safe fn constants(out: &mut [V], width: i32, height: i32) over [width, height / TILE] by [TILE, self::TILE]
            where 0 <= width, 0 <= height, width * height == out.len(), width % TILE == ::core::primitive::u8::MIN;
        safe fn meets(n: u32, out: &mut [V]) cooperative where n <= out.len();
        safe fn meets_over(n: u32 = out.len(), out: &mut [V]) cooperative over n by 128 where n > 0;
        unsafe fn pointers(
            x: Option<&[V]>, #[only_read] y: Option<&[V]>, z: Option<&mut [V]>, p: *const V, q: *mut Params,
            s: ::core::option::Option<&mut [u8]>, r: *const ::core::ffi::c_void,
        );
    }
}

fn ported(
    kernels: &Ported<f32>,
    stream: &Stream,
    x: &DeviceBuffer<f32>,
    out: &mut DeviceBuffer<f32>,
    params: *mut Params,
) -> Result<()> {
    let (width, height): (usize, i64) = (640, 480);
    kernels.only_read(stream, x, &mut *out)?;
    kernels.any(stream, 5, -3, &mut *out)?;
    kernels.any(stream, u128::MAX, 3usize, &mut *out)?;
    let params_value = Params { n: 1, size: Pair(1, 1) };
    kernels.values(stream, (width / 32, 32), params_value, Pair(1.0, 2.0), 16, &mut *out)?;
    kernels.constants(stream, &mut *out, width, height)?;
    kernels.meets(stream, ([1, 2], [width, 1]), 1, &mut *out)?;
    kernels.meets_over(stream, &mut *out)?;
    // SAFETY: never run.
    unsafe {
        kernels.pointers(
            stream,
            (1, 1),
            None,
            x,
            None,
            x.device_ptr(),
            params,
            None,
            std::ptr::null(),
        )?;
        kernels.pointers(
            stream,
            (1, 1),
            Some(x.as_slice()),
            None,
            out,
            std::ptr::null(),
            std::ptr::null_mut(),
            None,
            x.device_ptr(),
        )
    }
}

mod reexport {
    pub(crate) use cuda_safe as cuda;
}

kernels! {
    struct Included;
    // SAFETY: as above.
    unsafe in include_str!("declarations.rs") { safe fn nothing(); }
}

kernels! {
    #![crate = crate::reexport::cuda]
    // SAFETY: never loaded, so no kernel ever runs.
    unsafe in concat!("a", "b") { safe fn scale(a: f32); }
}

macro_rules! filled {
    ($name:ident, $integer:ty, $slice:ty, $limit:expr, $source:expr, $visibility:vis) => {
        kernels! {
            $visibility struct $name;
            // SAFETY: never loaded, so no kernel ever runs.
            unsafe in $source {
                safe fn fill(out: $slice, n: $integer) where n <= out.len(), $limit <= n;
            }
        }
    };
}
filled!(Filled, u32, &mut [f32], 1 + 1, SOURCE, pub(crate));

const LENGTH: usize = 16;

kernels! {
    pub struct Globals<T in [f32, f64]>;
    // SAFETY: never loaded, so no kernel ever runs.
    unsafe in SOURCE {
        /// Documented.
        #[name = "ns::factor"]
        pub(crate) global factor: f32;
        safe fn any(x: T);
        global table: [[f32; 4]; LENGTH * 2];
        global r#type: Pair<u8>;
        #[cfg(any())]
        global absent: Gone;
        #[name = "{}<{T}>"]
        global value: [T; 3];
        global words: u32
        ;
    }
}

fn globals(kernels: &Globals<f64>, context: &Context, stream: &Stream) -> Result<()> {
    let mut table = kernels.table(stream)?;
    table.write(stream, &[[0.5; 4]; LENGTH])?;
    table.host_mut()?[3][1] = table_value(kernels, stream)?;
    kernels.value(stream)?.write(stream, &[1.0, 2.0, 3.0])?;
    let _ = (kernels.r#type(stream)?.len(), kernels.clone().words(stream)?);
    let program = cuda_safe::nvrtc::Program::new(SOURCE);
    // SAFETY: never loaded.
    unsafe { Globals::<f32>::load_from(context, program) }.map(drop)
}

fn table_value(kernels: &Globals<f64>, stream: &Stream) -> Result<f32> {
    Ok(kernels.factor(stream)?.host()?[0])
}

/// Buffers and views, by reference and by value.
fn every_kind_of_slice(
    kernels: &Everything,
    stream: &Stream,
    launch: LaunchConfig,
    buffer: &DeviceBuffer<f32>,
    view: DeviceSlice<'_, f32>,
    mut exclusive: DeviceSliceMut<'_, f32>,
    out: &mut DeviceBuffer<f32>,
) -> Result<()> {
    kernels.saxpy(stream, launch, 1.0, buffer, &view, &mut exclusive, 1)?;
    kernels.saxpy(stream, launch, 1.0, view, buffer, exclusive, 1)?;
    kernels.saxpy(stream, launch, 1.0, buffer, buffer, &mut *out, 1)?;
    kernels.names(stream, launch, 1, &DeviceBuffer::from_slice(stream, &[1])?, 1, 0, 1)?;
    let words = kernels.module().global::<u32>(stream, "words")?.read(stream)?;
    kernels.hidden(stream, (4, 32), 0, &DeviceBuffer::from_slice(stream, &words)?)?;
    kernels.transpose(stream, ((2, 3), (16, 16)), view, out, 40, 30)?;
    kernels.by_expression(stream, launch, 1.0)
}

#[test]
fn what_the_macro_makes_has_these_types() {
    let _ = (every_kind_of_slice, generic::<f32>, derived, ported);
    let _ = (generic_loading::<Query<f64>>, generic_loading::<Closest>, Closest::any_kernel);
    let _ = (globals, Globals::<f32>::load);
    let _ = (Everything::load, Everything::raw_one_kernel);
    let _ = (Included::load, Included::nothing_kernel);
    let _ = (Kernels::load, Kernels::scale_kernel, Filled::load);
}
