//! Attacks on declarations of kernels: clauses, types and names.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_safe::{DeviceBuffer, LaunchConfig, Result, kernels};
use test_harness::{TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

kernels! {
    struct Clauses;
    // SAFETY: `one` writes element 0 in one thread, and only if the array has one, whatever its numbers are.
    unsafe in r#"
        extern "C" __global__ void one(unsigned long long a, unsigned long long b, long long c, unsigned* x,
                                       unsigned long long n) {
            if (n > 0 && blockIdx.x + blockIdx.y + blockIdx.z == 0 && threadIdx.x + threadIdx.y + threadIdx.z == 0)
                x[0] = 1;
        }
    "# {
        #[name = "one"]
        safe fn product(a: u64, b: u64, #[any] c: i64, x: &mut [u32], n: usize) where n == x.len(), a * b <= x.len();
        #[name = "one"]
        safe fn cube(a: u64, b: u64, #[any] c: i64, x: &mut [u32], n: usize)
            where n == x.len(), a * a * a * b * b * b <= x.len();
        #[name = "one"]
        safe fn sum(a: u64, b: u64, #[any] c: i64, x: &mut [u32], n: usize) where n == x.len(), a + b <= x.len();
        #[name = "one"]
        safe fn difference(a: u64, b: u64, #[any] c: i64, x: &mut [u32], n: usize)
            where n == x.len(), 0 <= a - b, a - b <= x.len();
        #[name = "one"]
        safe fn quotient(a: u64, b: u64, c: i64, x: &mut [u32], n: usize)
            where n == x.len(), a / b <= x.len(), c / (a - b) <= 4;
        #[name = "one"]
        safe fn rest(a: u64, b: u64, #[any] c: i64, x: &mut [u32], n: usize) where n == x.len(), a % b < x.len();
        #[name = "one"]
        safe fn chain(a: u64, b: u64, c: i64, x: &mut [u32], n: usize)
            where n == x.len(), 0 <= c < a <= b < x.len();
        #[name = "one"]
        safe fn threads(#[any] a: u64, #[any] b: u64, #[any] c: i64, x: &mut [u32], n: usize)
            where n == x.len(), block.x * block.y * block.z * grid.x * grid.y * grid.z <= x.len(),
                shared >= 4 * block.x;
        #[name = "one"]
        safe fn hidden(grid: u64, block: u64, shared: i64, x: &mut [u32], n: usize)
            where n == x.len(), grid <= x.len(), block == 3, shared < 0;
    }
}

/// Asks for numbers that wrap in 64 and in 128 bits, for negative ones, and for divisions by zero.
///
/// - row: launching foreign code is unsafe
/// - row: `unsafe in SOURCE` of `kernels!`
/// - targets: `kernels!`, `LaunchConfig::new`
fn clauses_that_wrap(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let k = Clauses::load(&context)?;
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    let (one, x) = (LaunchConfig::new(1, 1), &mut x);
    let no = |result: Result<()>| lab.refused(result, "` does not hold");
    const MAX: u64 = u64::MAX;
    no(k.product(&stream, one, MAX, MAX, 0, &mut *x, 100))?;
    no(k.product(&stream, one, 1u64 << 32, 1u64 << 32, 0, &mut *x, 100))?;
    no(k.product(&stream, one, 1u64 << 63, 2, 0, &mut *x, 100))?;
    no(k.product(&stream, one, 101, 1, 0, &mut *x, 100))?;
    k.product(&stream, one, MAX, 0, 0, &mut *x, 100)?;
    // 2^128 and 2^192 wrap to nothing in 128 bits.
    for (a, b) in [(1 << 22, 1 << 21), (1 << 32, 1 << 32), (1 << 43, 1), (MAX, MAX), (1 << 63, 2)] {
        no(k.cube(&stream, one, a, b, 0, &mut *x, 100))?;
    }
    no(k.sum(&stream, one, MAX, 1, 0, &mut *x, 100))?;
    no(k.sum(&stream, one, MAX, MAX, 0, &mut *x, 100))?;
    no(k.difference(&stream, one, 0, 1, 0, &mut *x, 100))?;
    no(k.difference(&stream, one, 0, MAX, 0, &mut *x, 100))?;
    no(k.difference(&stream, one, MAX, 0, 0, &mut *x, 100))?;
    for (a, b) in [(5, 0), (0, 0), (7, 7), (MAX, 1)] {
        no(k.quotient(&stream, one, a, b, i64::MIN, &mut *x, 100))?;
    }
    no(k.quotient(&stream, one, 0, 1, i64::MIN, &mut *x, 100))?;
    k.quotient(&stream, one, 3, 1, i64::MIN, &mut *x, 100)?;
    no(k.rest(&stream, one, 5, 0, 0, &mut *x, 100))?;
    no(k.rest(&stream, one, 3, 7, 0, x.slice_mut(..3)?, 3))?;
    for (c, a, b) in [(-1, 5, 5), (5, 5, 5), (i64::MIN, MAX, MAX), (0, 1, 100), (3, 5, 4)] {
        no(k.chain(&stream, one, a, b, c, &mut *x, 100))?;
    }
    ensure_eq!(x.to_vec(&stream)?[1..], [0; 99]);
    k.chain(&stream, one, 5, 99, 4, &mut *x, 100)?;
    ensure_eq!(x.to_vec(&stream)?[0], 1);
    Ok(())
}

/// Launches with products of extents that wrap, where a clause names every direction, and where parameters have the
/// names of the launch's numbers.
///
/// - row: launching foreign code is unsafe
/// - row: a launch is within the limits
/// - targets: `kernels!`, `LaunchConfig::new`, `LaunchConfig::threads`, `Dim3::count`
fn extents_that_wrap(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let k = Clauses::load(&context)?;
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    const BIG: u32 = 1 << 31;
    let wide = LaunchConfig::new((BIG, BIG, 4), (BIG, BIG, 4)).dynamic_shared_bytes(u32::MAX);
    // The products are 2^64 each, and 2^128 together: no number of 64 bits holds one.
    for dim in [wide.grid, wide.block] {
        let counted = catch_unwind(AssertUnwindSafe(|| dim.count()));
        ensure!(counted.is_ok_and(|count| count >= 1 << 63), "{dim} counts as few");
    }
    let threads = catch_unwind(AssertUnwindSafe(|| wide.threads()));
    ensure!(threads.is_ok_and(|threads| threads >= 1 << 63), "{wide} has few threads");
    for launch in [
        wide,
        LaunchConfig::new((BIG, BIG, 4), 1).dynamic_shared_bytes(4),
        LaunchConfig::new(1, (BIG, BIG, 4)).dynamic_shared_bytes(u32::MAX),
        LaunchConfig::new((1 << 16, 1 << 16, 1), (1 << 16, 1 << 16, 1))
            .dynamic_shared_bytes(u32::MAX),
        LaunchConfig::new(101, 1).dynamic_shared_bytes(4),
        LaunchConfig::new((5, 5, 5), 1).dynamic_shared_bytes(4),
        LaunchConfig::new(1, 8).dynamic_shared_bytes(31),
        LaunchConfig::new(1, (1 << 30, 1, 1)),
    ] {
        lab.refused(k.threads(&stream, launch, 0, 0, 0, &mut x, 100), "kernel `threads`: `")?;
        lab.refused(
            k.threads(&stream, launch.cooperative(), 0, 0, 0, &mut x, 100),
            "kernel `threads`: `",
        )?;
    }
    ensure_eq!(x.to_vec(&stream)?, [0; 100]);
    k.threads(
        &stream,
        LaunchConfig::new((2, 3, 4), (2, 2, 1)).dynamic_shared_bytes(8),
        0,
        0,
        0,
        &mut x,
        100,
    )?;
    ensure_eq!(x.to_vec(&stream)?[0], 1);
    x.fill(&stream, 0)?;
    // The parameters hide the launch's numbers, but not the rule that a launch is in x.
    lab.refused(k.hidden(&stream, (1, 1), 1, 3, 0, &mut x, 100), "shared < 0")?;
    lab.refused(k.hidden(&stream, (1, 3), 1, 1, -1, &mut x, 100), "block == 3")?;
    lab.refused(k.hidden(&stream, (1, 1), 101, 3, -1, &mut x, 100), "grid <=")?;
    lab.refused(
        k.hidden(&stream, (1, (1, 2)), 1, 3, -1, &mut x, 100),
        "kernel `hidden`: `block.y == 1` does not hold: block.y = 2",
    )?;
    lab.refused(
        k.hidden(&stream, ((1, 1, 2), 1), 1, 3, -1, &mut x, 100),
        "kernel `hidden`: `grid.z == 1` does not hold: grid.z = 2",
    )?;
    ensure_eq!(x.to_vec(&stream)?, [0; 100]);
    k.hidden(&stream, (1, 1), 1, 3, -1, &mut x, 100)?;
    ensure_eq!(x.to_vec(&stream)?[0], 1);
    Ok(())
}

/// Names that the generated code uses too.
mod shadows {
    #![allow(
        dead_code,
        non_camel_case_types,
        unused_macros,
        non_upper_case_globals,
        reason = "the names are in scope, no more"
    )]

    use cuda_safe::kernels;

    pub(super) struct Result;
    pub(super) struct Option;
    pub(super) struct LaunchConfig;
    pub(super) struct Context;
    pub(super) struct Kernel;
    pub(super) struct Module;
    pub(super) struct Error;
    pub(super) struct Ok(());
    pub(super) struct Err(());
    pub(super) mod core {}
    pub(super) mod std {}
    pub(super) const Some: u8 = 0;
    pub(super) type i128 = f32;
    pub(super) type usize = i8;
    pub(super) trait From<T> {
        fn from(_: T) -> u8 {
            0
        }
    }
    impl From<u32> for super::Clauses {}

    /// Would be shorter than any slice is, if it were called.
    pub(super) trait Lengths {
        fn len(&self) -> u8 {
            0
        }
        fn read_view(&self) -> u8 {
            0
        }
    }
    impl<T> Lengths for T {}

    macro_rules! vec {
        ($($all:tt)*) => {};
    }
    macro_rules! matches {
        ($($all:tt)*) => {
            true
        };
    }

    kernels! {
        pub(super) struct Shadowed;
        // SAFETY: thread i writes element i if i < n.
        unsafe in r#"
            extern "C" __global__ void fill(unsigned v, unsigned* x, unsigned n) {
                unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
                if (i < n) x[i] = v;
            }
        "# {
            safe fn fill(#[any] v: u32, x: &mut [u32], n: u32) where n <= x.len();
            #[name = "fill"]
            safe fn r#move(#[any] stream: u32, launch: &mut [u32], context: u32) where context <= launch.len();
            #[name = "fill"]
            safe fn module_of(#[any] kernel: u32, error: &mut [u32], arguments: u32)
                where arguments <= error.len(), arguments * 2 <= error.len() * 2;
        }
    }
}

/// Declares kernels where everything that generated code may name has another meaning, and with parameters of its
/// likely names.
///
/// - row: launching foreign code is unsafe
/// - row: `unsafe in SOURCE` of `kernels!`
/// - targets: `kernels!`, `DeviceBuffer::slice_mut`
fn names_that_mean_something_else(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let k = shadows::Shadowed::load(&context)?;
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 64)?;
    let shape = LaunchConfig::cover(64, 32);
    lab.refused(k.fill(&stream, shape, 9, &mut x, 65), "n <= x.len()")?;
    lab.refused(k.r#move(&stream, shape, 9, x.slice_mut(..63)?, 64), "launch.len()")?;
    lab.refused(k.module_of(&stream, shape, 9, &mut x, u32::MAX), "error.len()")?;
    ensure_eq!(x.to_vec(&stream)?, [0; 64]);
    k.fill(&stream, shape, 1, x.slice_mut(..16)?, 16)?;
    k.r#move(&stream, shape, 2, x.slice_mut(16..32)?, 16)?;
    k.module_of(&stream, shape, 3, x.slice_mut(32..)?, 32)?;
    let expected: Vec<u32> = (0..64).map(|i| [1, 2, 3, 3][i / 16]).collect();
    ensure_eq!(x.to_vec(&stream)?, expected);
    ensure_eq!(k.r#move_kernel().name(), "fill");
    Ok(())
}

kernels! {
    struct Others;
    // SAFETY: `dims` writes, in each thread, the element of its index in x, y and z, if there is one; `twenty_four`
    // writes the first element in one thread; `half<T>` writes element i in thread i if i < n.
    unsafe in r#"
        extern "C" __global__ void dims(unsigned* x, unsigned n) {
            size_t w = gridDim.x * blockDim.x, h = gridDim.y * blockDim.y;
            size_t i = blockIdx.x * blockDim.x + threadIdx.x;
            size_t j = blockIdx.y * blockDim.y + threadIdx.y;
            size_t k = blockIdx.z * blockDim.z + threadIdx.z;
            size_t at = (k * h + j) * w + i;
            if (at < n) x[at] = 1 + at;
        }
        extern "C" __global__ void twenty_four(
            char a, unsigned char b, short c, unsigned short d, int e, unsigned f, long long g, unsigned long long h,
            float i, double j, char k, double l, char m, float n, char o, long long p, char q, short r, char s, int t,
            char u, double v, double* x, size_t len) {
            if (blockIdx.x == 0 && threadIdx.x == 0 && len > 0)
                x[0] = a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p + q + r + s + t + u + v;
        }
        template <class T> __global__ void half_of(const T* y, T* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] = y[i] / 2;
        }
    "# {
        safe fn dims(x: &mut [u32], n: u32)
            where n <= x.len(), block.x * block.y * block.z >= 1, grid.y + grid.z >= 1;
        safe fn twenty_four(
            #[any] a: i8, #[any] b: u8, #[any] c: i16, #[any] d: u16, #[any] e: i32, #[any] f: u32, #[any] g: i64, #[any] h: u64, i: f32, j: f64, #[any] k: i8, l: f64, #[any] m: i8,
            n: f32, #[any] o: i8, #[any] p: i64, #[any] q: i8, #[any] r: i16, #[any] s: i8, #[any] t: i32, #[any] u: i8, v: f64, x: &mut [f64], len: usize)
            where len <= x.len();
        #[name = "half_of<float>"]
        safe fn floats(y: &[f32], x: &mut [f32], n: u32) where n <= x.len(), n <= y.len();
        #[name = "half_of<unsigned long long>"]
        safe fn longs(y: &[u64], x: &mut [u64], n: u32) where n <= x.len(), n <= y.len();
        #[cfg(any())]
        safe fn removed(x: &mut [Nothing]) where 1 <= x.len();
    }
}

/// Passes 24 arguments of all sizes, launches in three directions, and launches two instances of a template.
///
/// - row: arguments have the number, sizes, classes
/// - targets: `kernels!`, `Kernel::parameters`, `Kernel::attributes`
fn arguments_of_all_sizes(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let k = Others::load(&context)?;
    let mut x = DeviceBuffer::<f64>::zeroed(&stream, 1)?;
    k.twenty_four(
        &stream,
        (3, 32),
        -1,
        255,
        -3000,
        65535,
        i32::MIN,
        u32::MAX,
        -5,
        7,
        0.5,
        -0.25,
        -128,
        1e10,
        127,
        -2.5,
        3,
        1i64 << 40,
        -7,
        12345,
        5,
        -99,
        1,
        1e-3,
        &mut x,
        1,
    )?;
    // As C++ adds: integers first, as unsigned long long, then floats and doubles.
    let integers = (-1i64 + 255 - 3000 + 65535 + i64::from(i32::MIN)) as i32 as u32;
    let sum =
        u64::from(integers.wrapping_add(u32::MAX)).wrapping_add((-5i64) as u64).wrapping_add(7);
    let sum =
        f64::from(sum as f32 + 0.5) - 0.25 - 128.0 + 1e10 + 127.0 - 2.5 + 3.0 + (1u64 << 40) as f64
            - 7.0
            + 12345.0
            + 5.0
            - 99.0
            + 1.0
            + 1e-3;
    ensure_eq!(x.to_vec(&stream)?, [sum]);
    let parameters = k.twenty_four_kernel().parameters();
    ensure!(parameters.is_none_or(|all| all.len() == 24 && all[22].size == 8));
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 2 * 3 * 4 * 5)?;
    k.dims(&stream, LaunchConfig::new((1, 3, 2), (2, 2, 5)), &mut x, 120)?;
    ensure!(x.to_vec(&stream)?.into_iter().eq(1..=120));
    let y = DeviceBuffer::from_slice(&stream, &[3.0f32, -0.0, f32::INFINITY])?;
    let mut z = DeviceBuffer::<f32>::zeroed(&stream, 3)?;
    k.floats(&stream, (1, 3), &y, &mut z, 3)?;
    ensure_eq!(z.to_vec(&stream)?, [1.5, -0.0, f32::INFINITY]);
    let y = DeviceBuffer::from_slice(&stream, &[u64::MAX, 1])?;
    let mut z = DeviceBuffer::<u64>::zeroed(&stream, 2)?;
    k.longs(&stream, (1, 2), &y, &mut z, 2)?;
    ensure_eq!(z.to_vec(&stream)?, [u64::MAX / 2, 0]);
    ensure!(k.dims_kernel().attributes()?.max_threads_per_block >= 32);
    Ok(())
}

kernels! {
    struct Derived;
    // SAFETY: `add_one` writes element i in thread i, and only if i < n; `mark` writes element w y + x in thread
    // (x, y), and only if x < w and y < h.
    unsafe in r#"
        template <class T> __global__ void add_one(T* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] += 1;
        }
        extern "C" __global__ void mark(unsigned* marks, long long w, long long h) {
            long long x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
            if (x < w && y < h) marks[w * y + x] += 1;
        }
    "# {
        safe fn add_one<T in [u32, f32]>(x: &mut [T], n: u32 = x.len()) over n;
        #[name = "add_one<{T}>"]
        safe fn shifted<T in [u32, f32]>(x: &mut [T], n: u32 = x.len() - 1) over 2 * n where n < x.len();
        safe fn mark(marks: &mut [u32], w: i64, h: i64) over [w, h] where 0 <= w, 0 <= h, w * h <= marks.len();
    }
}

/// Asks for counts and extents that are negative, wrap or are too many, and for instances that there are none of.
///
/// - row: a parameter that a declaration fills in has the value of its expression, and `n = x.len()` never exceeds the length of `x`
/// - row: a `safe fn` with `over` is launched over its extents alone
/// - row: a method of a template launches the instance of its type
/// - targets: `kernels!`
fn counts_and_instances(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let k = Derived::load(&context)?;
    let mut numbers = DeviceBuffer::<u32>::zeroed(&stream, 300)?;
    // A part of a buffer has its own length, and none has none.
    k.add_one(&stream, numbers.slice_mut(10..290)?)?;
    k.add_one(&stream, numbers.slice_mut(20..20)?)?;
    k.shifted(&stream, numbers.slice_mut(..1)?)?;
    lab.refused(k.shifted(&stream, numbers.slice_mut(..0)?), "out of the range of u32")?;
    let marked = |i: usize| u32::from((10..290).contains(&i));
    ensure!(numbers.to_vec(&stream)?.into_iter().eq((0..300).map(marked)));
    let mut floats = DeviceBuffer::<f32>::zeroed(&stream, 33)?;
    k.add_one(&stream, &mut floats)?;
    ensure_eq!(floats.to_vec(&stream)?, [1.0; 33]);
    let mut integers = DeviceBuffer::<i32>::zeroed(&stream, 33)?;
    lab.refused(k.add_one(&stream, &mut integers), "not for i32")?;
    ensure_eq!(integers.to_vec(&stream)?, [0; 33]);
    for (w, h) in [(-1, 1), (1, -1), (i64::MIN, i64::MIN), (i64::MAX, i64::MAX), (17, 18)] {
        ensure!(k.mark(&stream, &mut numbers, w, h).is_err());
    }
    // The product is 0, so no clause forbids it; whatever the answer, nothing is launched.
    drop(k.mark(&stream, &mut numbers, 0, i64::MAX));
    ensure!(numbers.to_vec(&stream)?.into_iter().eq((0..300).map(marked)));
    numbers.fill(&stream, 0)?;
    k.mark(&stream, &mut numbers, 15, 20)?;
    ensure_eq!(numbers.to_vec(&stream)?, [1; 300]);
    Ok(())
}

attacks![
    "kernels",
    right(clauses_that_wrap),
    right(extents_that_wrap),
    right(names_that_mean_something_else),
    right(arguments_of_all_sizes),
    right(counts_and_instances),
];
