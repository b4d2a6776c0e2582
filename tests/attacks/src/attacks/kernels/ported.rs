//! Attacks on declarations as CUDA C++ programs need them.

use cuda_safe::arg::{NullableReadView, NullableWriteView};
use cuda_safe::vector::UInt2;
use cuda_safe::{DeviceBuffer, DeviceSlice, DeviceSliceMut, LaunchConfig, kernels};
use test_harness::{TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

kernels! {
    struct WithoutConst;
    // SAFETY: thread i reads element i of `a` and `b` and writes element i of `out`, if i < n.
    unsafe in r#"
        __global__ void add(unsigned* a, unsigned* b, unsigned* out, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) out[i] = a[i] + b[i];
        }
    "# {
        safe fn add(#[only_read] a: &[u32], #[only_read] b: &[u32], out: &mut [u32], n: i32 = out.len())
            over n where a.len() == n, b.len() == n;
        #[name = "add"]
        safe fn unmarked(#[only_read] a: &[u32], b: &[u32], out: &mut [u32], n: i32 = out.len())
            over n where a.len() == n, b.len() == n;
    }
}

/// Reads memory through pointers that are not const on three streams while others write it, twice in one launch, and
/// without a marker.
///
/// - row: memory of an `#[only_read]` parameter
/// - row: work that uses the same bytes
/// - targets: `kernels!`, `DeviceBuffer::fill`
fn reads_through_pointers_that_are_not_const(lab: &Lab) -> TestResult {
    const N: usize = 5000;
    let context = lab.context()?;
    let streams = [lab.stream()?, lab.stream()?, lab.stream()?];
    let kernels = WithoutConst::load(&context)?;
    let mut x = DeviceBuffer::<u32>::zeroed(&streams[0], N)?;
    let mut sums = Vec::new();
    for round in 0..30u32 {
        let writer = &streams[round as usize % 3];
        x.fill(writer, round)?;
        for stream in &streams {
            let mut sum = DeviceBuffer::<u32>::zeroed(stream, N)?;
            kernels.add(stream, &x, &x, &mut sum)?;
            sums.push((round, sum));
        }
    }
    for (index, (round, sum)) in sums.iter().enumerate() {
        ensure_eq!(sum.to_vec(&streams[index % 2])?, [2 * round; N]);
    }
    let mut sum = DeviceBuffer::<u32>::zeroed(&streams[0], N)?;
    lab.refused(kernels.unmarked(&streams[0], &x, &x, &mut sum), "is not const")?;
    ensure!(sum.to_vec(&streams[0])?.iter().all(|&value| value == 0));
    Ok(())
}

const TILE: u8 = 8;

kernels! {
    struct Integers;
    // SAFETY: thread i of `fill` writes element i if i < n, whatever the types; one of `plane` writes element y w + x if
    // x < w and y < h; `meet` adds one to element 0 of `x` from each block, and each waits there for all blocks, all of
    // which are resident; then thread 0 of block b writes element 1 + b.
    unsafe in r#"
        template <class N> __global__ void fill(unsigned* x, N n) {
            long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
            if (i < (long long)n) x[i] = 1;
        }
        __global__ void plane(unsigned* x, uint2 size) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
            if (i < size.x && j < size.y) x[j * size.x + i] = 1;
        }
        __global__ void meet(unsigned* x) {
            if (threadIdx.x != 0) return;
            atomicAdd(x, 1);
            while (atomicAdd(x, 0) < gridDim.x) {}
            x[1 + blockIdx.x] = 7;
        }
    "# {
        #[name = "fill<int>"]
        safe fn ints(x: &mut [u32], n: i32) where 0 <= n <= x.len();
        #[name = "fill<unsigned char>"]
        safe fn bytes(x: &mut [u32], n: u8) where n <= x.len();
        #[name = "fill<unsigned long long>"]
        safe fn longs(x: &mut [u32], n: u64) where n <= x.len() || n * n * n <= x.len(), n.is_power_of_two() || n % TILE == 4;
        safe fn plane(x: &mut [u32], size: UInt2) over [size.x, size.y] by [TILE, TILE]
            where size.x * size.y <= x.len();
        safe fn meet(x: &mut [u32]) cooperative where grid.x < x.len();
    }
}

/// Passes integers that wrap to a number which fits, extents that wrap, and numbers that hold in no alternative.
///
/// - row: a clause reads the value that the kernel gets
/// - row: where one of several conditions of a clause
/// - row: an extent that 32 bits cannot hold
/// - targets: `kernels!`, `LaunchConfig::cover`, `LaunchConfig::new`, `LaunchConfig::cover_2d`,
///   `LaunchConfig::dynamic_shared_bytes`
fn integers_that_wrap_when_converted(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let k = Integers::load(&context)?;
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    let one = LaunchConfig::cover(100usize, 128i64);
    let hint = "out of the range of";
    for n in [(1 << 32) + 5, 1 << 31, usize::MAX, usize::MAX - 3, 1 << 40] {
        lab.refused(k.ints(&stream, one, &mut x, n), hint)?;
        lab.refused(k.ints(&stream, one, &mut x, n as u128), hint)?;
    }
    lab.refused(k.ints(&stream, one, &mut x, i64::MIN), hint)?;
    lab.refused(k.ints(&stream, one, &mut x, u128::MAX), hint)?;
    lab.refused(k.ints(&stream, one, &mut x, -5i8), "0 <= n <= x.len()")?;
    for n in [256, 261, -1, -251, i64::MIN] {
        lab.refused(k.bytes(&stream, one, &mut x, n), hint)?;
    }
    lab.refused(k.bytes(&stream, one, &mut x, 101i128), "n <= x.len()")?;
    // The cube of these is 0 or small in 64 and in 128 bits.
    for n in [1u64 << 43, 1 << 22, 1 << 63, 3 << 62, u64::MAX, 101, 128] {
        lab.refused(k.longs(&stream, one, &mut x, n), "does not hold")?;
    }
    lab.refused(k.longs(&stream, one, &mut x, 3), "n.is_power_of_two() || n % TILE == 4")?;
    for (w, h) in [(101, 1), (1 << 16, 1 << 16), (u32::MAX, u32::MAX), (1 << 31, 2)] {
        lab.refused(k.plane(&stream, &mut x, UInt2 { x: w, y: h }), "size.x * size.y")?;
    }
    for launch in [
        LaunchConfig::new((1u64 << 32) + 1, 32),
        LaunchConfig::new(1, (1u64 << 32) + 32),
        LaunchConfig::new(-1, 32),
        LaunchConfig::new(1, i128::MIN),
        LaunchConfig::cover(-1, 32),
        LaunchConfig::cover(i128::MAX, u128::MAX),
        LaunchConfig::cover_2d([u128::MAX, 1], [32, 1]),
        LaunchConfig::new(1, 32).dynamic_shared_bytes((1u64 << 32) + 4),
    ] {
        lab.refused(k.ints(&stream, launch, &mut x, 5), "4294967295 asked")?;
    }
    ensure!(x.to_vec(&stream)?.iter().all(|&value| value == 0));
    k.ints(&stream, one, &mut x, 5usize)?;
    k.longs(&stream, one, x.slice_mut(10..20)?, 2)?;
    k.plane(&stream, x.slice_mut(50..)?, UInt2 { x: 10, y: 5 })?;
    let wanted = |i: usize| u32::from(i < 5 || (10..12).contains(&i) || i >= 50);
    ensure!(x.to_vec(&stream)?.into_iter().eq((0..100).map(wanted)));
    Ok(())
}

/// Launches a kernel whose blocks wait for each other by a launch that says nothing of it, with more blocks than the
/// device holds, and with none.
///
/// - row: a `cooperative` kernel is never launched otherwise
/// - targets: `kernels!`, `LaunchConfig::new`
fn blocks_that_wait_for_each_other(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let k = Integers::load(&context)?;
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 1 << 20)?;
    lab.refused(k.meet(&stream, (1_000_000, 1024), &mut x), "blocks resident together")?;
    lab.refused(k.meet(&stream, (1 << 20, 32), &mut x), "grid.x < x.len()")?;
    lab.refused(k.meet(&stream, (0, 32), &mut x), "a grid of (0, 1, 1) has no blocks")?;
    ensure!(x.to_vec(&stream)?.iter().all(|&value| value == 0));
    for launch in [LaunchConfig::new(3, 32), LaunchConfig::new(3, 32).cooperative()] {
        x.fill(&stream, 0)?;
        k.meet(&stream, launch, &mut x)?;
        ensure_eq!(x.to_vec(&stream)?[..5], [3, 7, 7, 7, 0]);
    }
    Ok(())
}

/// Makes views of what may be nothing, launches with them, and asks for two views of the same bytes by turns.
///
/// - row: a view does not outlive its buffer
/// - targets: `NullableReadView::nullable_read_view`, `NullableWriteView::nullable_write_view`
fn views_of_what_may_be_nothing(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let k = Integers::load(&context)?;
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 40)?;
    for part in [0..10, 5..15, 30..40, 7..7] {
        let view = x.slice_mut(part)?.nullable_write_view();
        if let Some(view) = view {
            let n = view.len();
            lab.refused(k.ints(&stream, (1, 32), view, n + 1), "0 <= n <= x.len()")?;
        }
    }
    ensure_eq!((&x).nullable_read_view().map(|view| view.len()), Some(40));
    let none: Option<DeviceSlice<'_, u32>> = None;
    ensure!(none.nullable_read_view().is_none());
    let none: Option<DeviceSliceMut<'_, u32>> = None;
    ensure!(none.nullable_write_view().is_none());
    if let Some(view) = (&mut x).nullable_write_view() {
        k.ints(&stream, (1, 64), view, 40usize)?;
    }
    ensure_eq!(x.to_vec(&stream)?, [1; 40]);
    Ok(())
}

attacks![
    "kernels",
    right(views_of_what_may_be_nothing),
    right(reads_through_pointers_that_are_not_const),
    right(integers_that_wrap_when_converted),
    right(blocks_that_wait_for_each_other),
];
