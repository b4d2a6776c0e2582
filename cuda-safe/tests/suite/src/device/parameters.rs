//! Declarations of kernels as CUDA C++ programs write them.

use cuda_safe::{DeviceBuffer, DeviceRepr, ErrorKind, LaunchConfig, kernels};

use super::SIZES;
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "parameters",
        device(only_read).serial(),
        device(markers_that_do_not_fit),
        device(integers_arrive_converted),
        device(two_dimensions_of_any_integer),
        device(structures_and_constants),
        device(null_and_raw_pointers),
    ]
}

const WITHOUT_CONST: &str = r#"
    __global__ void add(unsigned* a, unsigned* b, unsigned* sum, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) sum[i] = a[i] + b[i];
    }
    __global__ void copy(const unsigned* from, unsigned* to, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) to[i] = from[i];
    }
    extern "C" __global__ void plain(unsigned* from, unsigned* to, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) to[i] = from[i];
    }
"#;

kernels! {
    struct WithoutConst;
    // SAFETY: thread i reads element i of the inputs and writes element i of the output, if i < n.
    unsafe in WITHOUT_CONST {
        safe fn add(#[only_read] a: &[u32], #[only_read] b: &[u32], sum: &mut [u32], n: i32 = sum.len())
            over n where a.len() == n, b.len() == n;
        #[name = "add"]
        safe fn unmarked(a: &[u32], #[only_read] b: &[u32], sum: &mut [u32], n: i32 = sum.len())
            over n where a.len() == n, b.len() == n;
        #[name = "copy"]
        safe fn marked_const(#[only_read] from: &[u32], to: &mut [u32], n: i32 = to.len())
            over n where from.len() == n;
        safe fn plain(#[only_read] from: &[u32], to: &mut [u32], n: i32 = to.len())
            over n where from.len() == n;
    }
}

fn only_read(device: &TestDevice) -> TestResult {
    let (home, other) = (device.stream()?, device.stream()?);
    let kernels = WithoutConst::load(device.context())?;
    let mut rng = device.rng(150);
    for n in SIZES {
        let counted = |launched| if n == 0 { launched } else { device.count(launched) };
        let (a, b) = (rng.words(n), rng.words(n));
        let mut x = DeviceBuffer::from_slice(&home, &a)?;
        let y = DeviceBuffer::from_slice(&home, &b)?;
        let (mut sums, mut twice) =
            (DeviceBuffer::zeroed(&home, n)?, DeviceBuffer::zeroed(&other, n)?);
        // From its first use elsewhere on, uses are recorded.
        counted(kernels.plain(&other, &x, &mut twice))?;
        home.synchronize()?;
        other.synchronize()?;
        // One buffer for two parameters, and on two streams: nothing waits, because nothing writes.
        let before = device.context().stats().stream_waits;
        counted(kernels.add(&home, &x, &y, &mut sums))?;
        counted(kernels.add(&other, &x, &x, &mut twice))?;
        ensure_eq!(device.context().stats().stream_waits, before);
        // A write waits for both.
        x.fill(&home, 7)?;
        let wanted: Vec<u32> = a.iter().zip(&b).map(|(a, b)| a.wrapping_add(*b)).collect();
        first_difference(&sums.to_vec(&home)?, &wanted)?;
        let wanted: Vec<u32> = a.iter().map(|a| a.wrapping_mul(2)).collect();
        first_difference(&twice.to_vec(&other)?, &wanted)?;
        // And they read what was written.
        counted(kernels.plain(&other, &x, &mut twice))?;
        ensure!(twice.to_vec(&other)?.iter().all(|&value| value == 7));
    }
    Ok(())
}

/// Asserts that a launch was refused for the argument at `index`, and that the message has all of `parts`, in order.
fn refused_argument(launched: cuda_safe::Result<()>, index: usize, parts: &[&str]) -> TestResult {
    let error = match launched {
        Err(error) => error,
        Ok(()) => return Err(Failure::new("the argument was taken")),
    };
    let ErrorKind::Argument { index: found, message, .. } = error.kind() else {
        return Err(error.into());
    };
    ensure_eq!(*found, Some(index));
    let mut rest = message.as_str();
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else {
            return Err(Failure::new(format!("{message:?} lacks {part:?}")));
        };
        rest = after;
    }
    Ok(())
}

fn markers_that_do_not_fit(device: &TestDevice) -> TestResult {
    let (stream, kernels) = (device.stream()?, WithoutConst::load(device.context())?);
    let x = DeviceBuffer::from_slice(&stream, &[1u32, 2, 3])?;
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 3)?;
    let unmarked = kernels.unmarked(&stream, &x, &x, &mut out);
    refused_argument(
        unmarked,
        0,
        &["is not const", "`#[only_read] x: &[T]`", "`&mut`", "one after the other"],
    )?;
    let constant = kernels.marked_const(&stream, &x, &mut out);
    refused_argument(constant, 0, &["pointer is const", "remove the marker"])?;
    ensure_eq!(out.to_vec(&stream)?, [0; 3]);
    Ok(())
}

const TILE: usize = 16;

/// `Box` of the source.
#[derive(Clone, Copy)]
#[repr(C)]
struct Box {
    width: u32,
    first: [u32; 2],
    rows: i16,
}

// SAFETY: repr(C), and the same fields as in C++: three words, and two bytes at the end.
unsafe impl DeviceRepr for Box {}

kernels! {
    struct Ported;
    // SAFETY: `numbers` writes 8 elements from one thread; a thread of `plane` writes element y w + x if x < w and
    // y < h; one of `rows` writes element i if i < width rows; `pick` is not safe.
    unsafe in r#"
        __global__ void numbers(signed char a, short b, int c, long long d, unsigned char e, unsigned short f,
                                unsigned g, unsigned long long h, long long* out) {
            if (blockIdx.x + threadIdx.x != 0) return;
            long long all[8] = {a, b, c, d, e, f, g, (long long)h};
            for (int i = 0; i < 8; ++i) out[i] = all[i];
        }
        __global__ void plane(unsigned* out, int w, int h) {
            int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
            if (x < w && y < h) out[y * w + x] += 1 + x + 1000 * y;
        }
        struct Box { unsigned width; unsigned first[2]; short rows; };
        __global__ void rows(Box box, unsigned* out) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < box.width * box.rows) out[i] = box.first[0] + box.first[1] * i;
        }
        __global__ void pick(const float* a, float* b, float* out, float* count, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i >= n) return;
            out[i] = (a ? a[i] : 0) + (b ? b[i] : 0);
            if (count) count[i] += 1;
        }
    "# {
        safe fn numbers(
            #[any] a: i8, #[any] b: i16, #[any] c: i32, #[any] d: i64, #[any] e: u8, #[any] f: u16, #[any] g: u32,
            #[any] h: u64, out: &mut [i64],
        ) where out.len() >= 8;
        safe fn plane(out: &mut [u32], w: i32, h: i32) where w * h <= out.len(), 0 <= w, 0 <= h,
            block.y == block.x, block.x.is_power_of_two() || block.x == 3, grid.y * block.y >= h, grid.x * block.x >= w;
        #[name = "plane"]
        safe fn covered(out: &mut [u32], w: i32, h: i32) over [w, h] by [TILE, TILE]
            where w * h <= out.len();
        safe fn rows(b: Box, out: &mut [u32]) over b.width * b.rows by TILE
            where b.width * b.rows <= out.len(), b.width == 0 || b.rows >= 0;
        unsafe fn pick(
            a: Option<&[f32]>, #[only_read] b: Option<&[f32]>, out: &mut [f32], count: Option<&mut [f32]>,
            n: i32 = out.len(),
        ) over n;
        #[name = "pick"]
        unsafe fn pick_raw(a: *const f32, b: *mut f32, out: *mut f32, count: *mut f32, n: i32) over n;
    }
}

fn integers_arrive_converted(device: &TestDevice) -> TestResult {
    let (stream, kernels) = (device.stream()?, Ported::load(device.context())?);
    let mut out = DeviceBuffer::<i64>::zeroed(&stream, 8)?;
    let mut rng = device.rng(151);
    for _ in 0..20 {
        // In the range of each parameter, passed as an integer of another type.
        let word = rng.next() as u32;
        let (a, c) = (i64::from(word as i8), i128::from(word as i32));
        let (b, d) = (i32::from(word as i16), word);
        let (e, f) = (usize::from(word as u8), i64::from(word as u16));
        let launch = LaunchConfig::new(1usize, 32i64);
        device.count(kernels.numbers(
            &stream,
            launch,
            a,
            b,
            c,
            d,
            e,
            f,
            u64::from(word),
            f as u16,
            &mut out,
        ))?;
        let wanted =
            [a, b.into(), word.cast_signed().into(), word.into(), e as i64, f, word.into(), f];
        ensure_eq!(out.to_vec(&stream)?, wanted);
    }
    out.fill(&stream, 5)?;
    for refused in [
        kernels.numbers(&stream, (1, 1), 128, 0, 0, 0, 0, 0, 0, 0, &mut out),
        kernels.numbers(&stream, (1, 1), 0, 1usize << 15, 0, 0, 0, 0, 0, 0, &mut out),
        kernels.numbers(&stream, (1, 1), 0, 0, u32::MAX, 0, 0, 0, 0, 0, &mut out),
        kernels.numbers(&stream, (1, 1), 0, 0, 0, u64::MAX, 0, 0, 0, 0, &mut out),
        kernels.numbers(&stream, (1, 1), 0, 0, 0, 0, -1, 0, 0, 0, &mut out),
        kernels.numbers(&stream, (1, 1), 0, 0, 0, 0, 0, 65_536, 0, 0, &mut out),
        kernels.numbers(&stream, (1, 1), 0, 0, 0, 0, 0, 0, -1i128, 0, &mut out),
        kernels.numbers(&stream, (1, 1), 0, 0, 0, 0, 0, 0, 0, i8::MIN, &mut out),
    ] {
        match refused.as_ref().map_err(cuda_safe::Error::kind) {
            Err(ErrorKind::Precondition { kernel: "numbers", values, .. }) => {
                ensure_eq!(values.len(), 1);
            }
            _ => return Err(Failure::new(format!("not out of range: {refused:?}"))),
        }
    }
    ensure_eq!(out.to_vec(&stream)?, [5; 8]);
    Ok(())
}

fn two_dimensions_of_any_integer(device: &TestDevice) -> TestResult {
    let (stream, kernels) = (device.stream()?, Ported::load(device.context())?);
    for (width, height) in [(1usize, 1usize), (16, 16), (17, 33), (100, 3), (1, 200)] {
        let wanted: Vec<u32> = (0..width * height)
            .map(|i| u32::try_from(1 + i % width + 1000 * (i / width)).unwrap_or(0))
            .collect();
        let grid = (width.div_ceil(TILE), height.div_ceil(TILE));
        for launch in [
            LaunchConfig::new(grid, (TILE, TILE)),
            LaunchConfig::from(([grid.0, grid.1], [TILE as i16; 2])),
            LaunchConfig::cover_2d([width, height], [TILE, TILE]),
            LaunchConfig::cover_2d([width as i32, height as i32], [3, 3]),
        ] {
            let mut out = DeviceBuffer::<u32>::zeroed(&stream, width * height)?;
            device.count(kernels.plane(&stream, launch, &mut out, width, height))?;
            first_difference(&out.to_vec(&stream)?, &wanted)?;
        }
        let mut out = DeviceBuffer::<u32>::zeroed(&stream, width * height)?;
        device.count(kernels.covered(&stream, &mut out, width, height))?;
        first_difference(&out.to_vec(&stream)?, &wanted)?;
    }
    // What 32 bits cannot hold is refused, also where it would wrap to an extent that fits.
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    for launch in [
        LaunchConfig::new(((1u64 << 32) + 1, 1), (1, 1)),
        LaunchConfig::new((1, -1), (1, 1)),
        LaunchConfig::cover_2d([usize::MAX, 1], [1, 1]),
        LaunchConfig::cover_2d([1, -1], [1, 1]),
        LaunchConfig::new((1, 1), (1, 1)).dynamic_shared_bytes(1u64 << 32),
    ] {
        match kernels.plane(&stream, launch, &mut out, 1, 1) {
            Err(error) if matches!(error.kind(), ErrorKind::Limit { value: 0xffff_ffff, .. }) => {}
            Err(error) => return Err(error.into()),
            Ok(()) => return Err(Failure::new(format!("{launch} was launched"))),
        }
    }
    ensure_eq!(out.to_vec(&stream)?, [0]);
    Ok(())
}

fn structures_and_constants(device: &TestDevice) -> TestResult {
    let (stream, kernels) = (device.stream()?, Ported::load(device.context())?);
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    let b = Box { width: 9, first: [7, 3], rows: 11 };
    device.count(kernels.rows(&stream, b, &mut out))?;
    let mut wanted: Vec<u32> = (0..99).map(|i| 7 + 3 * i).collect();
    wanted.push(0);
    first_difference(&out.to_vec(&stream)?, &wanted)?;
    for (b, clause) in [
        (Box { rows: 12, ..b }, "b.width * b.rows <= out.len()"),
        (Box { rows: -1, ..b }, "over b.width * b.rows"),
    ] {
        match kernels.rows(&stream, b, &mut out).as_ref().map_err(cuda_safe::Error::kind) {
            Err(ErrorKind::Precondition { clause: found, values, .. }) => {
                ensure_eq!(*found, clause);
                ensure_eq!(values[..2], [("b.width", 9), ("b.rows", i128::from(b.rows))]);
            }
            other => return Err(Failure::new(format!("`{clause}` holds: {other:?}"))),
        }
    }
    first_difference(&out.to_vec(&stream)?, &wanted)
}

fn null_and_raw_pointers(device: &TestDevice) -> TestResult {
    let (stream, kernels) = (device.stream()?, Ported::load(device.context())?);
    let mut rng = device.rng(152);
    for n in [1usize, 33, 1000] {
        let (a, b) = (rng.floats(n), rng.floats(n));
        let da = DeviceBuffer::from_slice(&stream, &a)?;
        let mut db = DeviceBuffer::from_slice(&stream, &b)?;
        let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
        let mut count = DeviceBuffer::<f32>::zeroed(&stream, n)?;
        let sum: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        // SAFETY: pick reads n elements of a and b, writes as many of out and count, and leaves out null pointers.
        unsafe {
            device.count(kernels.pick(&stream, &da, &db, &mut out, &mut count))?;
            first_difference(&out.to_vec(&stream)?, &sum)?;
            device.count(kernels.pick(&stream, None, Some(db.as_slice()), &mut out, None))?;
            first_difference(&out.to_vec(&stream)?, &b)?;
            device.count(kernels.pick(
                &stream,
                Some(da.as_slice()),
                None,
                &mut out,
                count.as_slice_mut(),
            ))?;
            first_difference(&out.to_vec(&stream)?, &a)?;
            device.count(kernels.pick(&stream, None, None, &mut out, None))?;
        }
        first_difference(&out.to_vec(&stream)?, &vec![0.0; n])?;
        first_difference(&count.to_vec(&stream)?, &vec![2.0; n])?;
        // Raw addresses are not ordered: the host waits before and after.
        stream.synchronize()?;
        let b_pointer: *mut f32 =
            std::ptr::with_exposed_provenance_mut(db.as_slice_mut().device_ptr() as usize);
        // SAFETY: as above, and the memory lives until the host has waited for the kernel.
        unsafe {
            let (da, out) = (da.device_ptr(), out.as_slice_mut().device_ptr());
            device.count(kernels.pick_raw(&stream, da, b_pointer, out, std::ptr::null_mut(), n))?;
        }
        stream.synchronize()?;
        first_difference(&out.to_vec(&stream)?, &sum)?;
        // SAFETY: as above.
        unsafe {
            let out = out.as_slice_mut().device_ptr();
            device.count(kernels.pick_raw(&stream, std::ptr::null(), b_pointer, out, 0, n))?;
        }
        stream.synchronize()?;
        first_difference(&out.to_vec(&stream)?, &b)?;
    }
    Ok(())
}
