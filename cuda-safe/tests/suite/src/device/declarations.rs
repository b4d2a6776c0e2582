//! What declarations of `kernels!` leave unsaid: instances of templates, parameters that are filled in,
//! and launches over extents.

use bytemuck::Pod;
use cuda_safe::vector::Float2;
use cuda_safe::{DeclaredKernels, DeviceBuffer, DeviceRepr, ErrorKind, kernels};

use super::SIZES;
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "declarations",
        device(one_dimension),
        device(two_and_three_dimensions),
        device(no_elements),
        device(extents_beyond_a_limit),
        device(values_out_of_range),
        device(instances_of_a_struct),
        device(instances_of_a_kernel),
        device(types_without_an_instance),
        device(names_of_arguments),
    ]
}

kernels! {
    struct Over;
    // SAFETY: thread (x, y, z) touches the element of this index alone, if it is in the box whose elements
    // the `where` counts; `shape` writes element 0 from one thread.
    unsafe in r#"
        extern "C" __global__ void saxpy(float a, const float* x, const float* y, float* out, size_t n) {
            size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
            if (i < n) out[i] = a * x[i] + y[i];
        }
        struct At { unsigned x, y, z; };
        __device__ At at() {
            return {blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y,
                    blockIdx.z * blockDim.z + threadIdx.z};
        }
        extern "C" __global__ void plane(unsigned* out, unsigned width, unsigned height) {
            At i = at();
            if (i.x < width && i.y < height) out[i.y * width + i.x] += 1 + i.x + 1000 * i.y;
        }
        extern "C" __global__ void box(unsigned* out, unsigned x, unsigned y, unsigned z) {
            At i = at();
            if (i.x < x && i.y < y && i.z < z) {
                out[(i.z * y + i.y) * x + i.x] += 1 + i.x + 100 * i.y + 10000 * i.z;
            }
        }
        extern "C" __global__ void shape(unsigned* out, int n) {
            At i = at();
            if (i.x + i.y + i.z == 0) {
                unsigned shape[6] = {gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z};
                for (int i = 0; i < 6; ++i) out[i] = shape[i];
            }
        }
    "# {
        safe fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32], n: usize = x.len()) over n
            where y.len() == n, out.len() == n;
        safe fn plane(out: &mut [u32], width: u32, height: u32 = out.len() / width)
            over [width, height]
            where width * height == out.len();
        #[name = "box"]
        safe fn cells(out: &mut [u32], x: u32, y: u32, z: u32 = out.len() / (x * y)) over [x, y, z]
            where x * y * z == out.len();
        #[name = "shape"]
        safe fn line_shape(out: &mut [u32], #[any] n: i32) over 1000 * n where out.len() >= 6;
        #[name = "shape"]
        safe fn narrow_shape(out: &mut [u32], #[any] n: i32) over n by 32 where out.len() >= 6;
        #[name = "shape"]
        safe fn plane_shape(out: &mut [u32], #[any] n: i32) over [n, 2 * n] by [16, 4]
            where out.len() >= 6, block.x == 16, grid.y >= 0;
        #[name = "shape"]
        safe fn filled_shape(out: &mut [u32], n: i32 = 2147483640 + out.len()) over 1
            where out.len() >= 6;
    }
}

fn one_dimension(device: &TestDevice) -> TestResult {
    let (stream, kernels) = (device.stream()?, Over::load(device.context())?);
    let mut rng = device.rng(140);
    for n in SIZES {
        let (x, y) = (rng.floats(n), rng.floats(n));
        let dx = DeviceBuffer::from_slice(&stream, &x)?;
        let dy = DeviceBuffer::from_slice(&stream, &y)?;
        let mut out = DeviceBuffer::zeroed(&stream, n)?;
        let launched = kernels.saxpy(&stream, 2.0, &dx, &dy, &mut out);
        if n == 0 { launched } else { device.count(launched) }?;
        // Twice a number is exact, so the sum is rounded once, fused or not.
        let wanted: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 2.0 * x + y).collect();
        first_difference(&out.to_vec(&stream)?, &wanted)?;
    }
    Ok(())
}

fn two_and_three_dimensions(device: &TestDevice) -> TestResult {
    let (stream, kernels) = (device.stream()?, Over::load(device.context())?);
    for (width, height) in [(1, 1), (31, 33), (32, 8), (33, 9), (1, 1000), (641, 3)] {
        let mut out = DeviceBuffer::<u32>::zeroed(&stream, (width * height) as usize)?;
        device.count(kernels.plane(&stream, &mut out, width))?;
        let wanted: Vec<u32> =
            (0..width * height).map(|i| 1 + i % width + 1000 * (i / width)).collect();
        first_difference(&out.to_vec(&stream)?, &wanted)?;
    }
    for (x, y, z) in [(1, 1, 1), (8, 8, 4), (9, 7, 5), (1, 65, 2), (33, 1, 31)] {
        let mut out = DeviceBuffer::<u32>::zeroed(&stream, (x * y * z) as usize)?;
        device.count(kernels.cells(&stream, &mut out, x, y))?;
        let wanted: Vec<u32> = (0..x * y * z)
            .map(|i| 1 + i % x + 100 * (i / x % y) + 10_000 * (i / (x * y)))
            .collect();
        first_difference(&out.to_vec(&stream)?, &wanted)?;
    }

    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 6)?;
    device.count(kernels.line_shape(&stream, &mut out, 2))?;
    ensure_eq!(out.to_vec(&stream)?, [8, 1, 1, 256, 1, 1]);
    device.count(kernels.narrow_shape(&stream, &mut out, 33))?;
    ensure_eq!(out.to_vec(&stream)?, [2, 1, 1, 32, 1, 1]);
    device.count(kernels.plane_shape(&stream, &mut out, 17))?;
    ensure_eq!(out.to_vec(&stream)?, [2, 9, 1, 16, 4, 1]);
    Ok(())
}

/// Without elements nothing is launched, but what the clauses say still holds.
fn no_elements(device: &TestDevice) -> TestResult {
    let (stream, kernels) = (device.stream()?, Over::load(device.context())?);
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 6)?;
    kernels.line_shape(&stream, &mut out, 0)?;
    kernels.plane_shape(&stream, &mut out, 0)?;
    ensure_eq!(out.to_vec(&stream)?, [0; 6]);
    let mut empty = DeviceBuffer::<u32>::zeroed(&stream, 0)?;
    kernels.plane(&stream, &mut empty, 7)?;
    kernels.cells(&stream, &mut empty, 7, 9)?;
    let refused = kernels.line_shape(&stream, &mut empty, 0);
    precondition(refused, "out.len() >= 6", &[("out.len()", 0)])
}

fn extents_beyond_a_limit(device: &TestDevice) -> TestResult {
    let (stream, kernels) = (device.stream()?, Over::load(device.context())?);
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 6)?;
    // 2 × 300,000 rows are 150,000 blocks of 4.
    match kernels.plane_shape(&stream, &mut out, 300_000) {
        Err(error) => match error.kind() {
            ErrorKind::Limit { what, value, .. } => {
                ensure_eq!((*what, *value), ("grid y", 150_000));
            }
            _ => return Err(error.into()),
        },
        Ok(()) => return Err(Failure::new("150,000 blocks in y")),
    }
    let negative = kernels.line_shape(&stream, &mut out, -1);
    precondition(negative, "over 1000 * n", &[("n", -1)])?;
    ensure_eq!(out.to_vec(&stream)?, [0; 6]);
    Ok(())
}

/// Asserts that a launch was refused for `clause`, with exactly these values in the report.
fn precondition(
    launched: cuda_safe::Result<()>,
    clause: &str,
    values: &[(&'static str, i128)],
) -> TestResult {
    match launched.as_ref().map_err(cuda_safe::Error::kind) {
        Err(ErrorKind::Precondition { clause: found, values: shown, .. }) => {
            ensure_eq!(*found, clause);
            ensure_eq!(shown.as_slice(), values);
            Ok(())
        }
        _ => Err(Failure::new(format!("no precondition `{clause}`: {launched:?}"))),
    }
}

fn values_out_of_range(device: &TestDevice) -> TestResult {
    let (stream, kernels) = (device.stream()?, Over::load(device.context())?);
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 8)?;
    // 2³¹ - 1 is the last that fits.
    device.count(kernels.filled_shape(&stream, out.slice_mut(..7)?))?;
    ensure_eq!(out.to_vec(&stream)?, [1, 1, 1, 256, 1, 1, 0, 0]);
    let refused = kernels.filled_shape(&stream, &mut out);
    if let Err(error) = &refused {
        ensure_eq!(
            error.to_string(),
            "kernel `filled_shape`: `n: i32 = 2147483640 + out.len()` does not hold: out.len() = 8; \
             hint: 2147483648 is out of the range of i32"
        );
    }
    precondition(refused, "n: i32 = 2147483640 + out.len()", &[("out.len()", 8)])?;
    // A value that does not exist is no value.
    let refused = kernels.plane(&stream, &mut out, 0);
    if let Err(error) = &refused {
        ensure!(error.to_string().contains("divides by 0"), "{error}");
    }
    let clause = "height: u32 = out.len() / width";
    precondition(refused, clause, &[("out.len()", 8), ("width", 0)])
}

const TEMPLATES: &str = r#"
    template <class T> __global__ void fill(T value, T* out, size_t n) {
        size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
        if (i < n) out[i] = value;
    }
    template <class T> __global__ void size(unsigned* out) { *out = sizeof(T); }
    template <class A, class B> __global__ void convert(const A* x, B* out, size_t n) {
        size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
        if (i < n) out[i] = static_cast<B>(x[i]);
    }
    extern "C" __global__ void scale_f32(float a, float* x, size_t n) {
        size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
        if (i < n) x[i] *= a;
    }
    extern "C" __global__ void scale_f64(double a, double* x, size_t n) {
        size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
        if (i < n) x[i] *= a;
    }
    #define CONVERT(A, B, name) extern "C" __global__ void name(const A* x, B* out, size_t n) { \
        for (size_t i = 0; i < n; ++i) out[i] = static_cast<B>(x[i]); }
    CONVERT(float, unsigned char, convert_f32_u8)
    CONVERT(float, unsigned short, convert_f32_u16)
    CONVERT(double, unsigned char, convert_f64_u8)
    CONVERT(double, unsigned short, convert_f64_u16)
    extern "C" __global__ void reset_all(unsigned* x) { x[0] = 0; }
"#;

trait Number: DeviceRepr + Pod + PartialEq + std::fmt::Debug {}
impl<T: DeviceRepr + Pod + PartialEq + std::fmt::Debug> Number for T {}

kernels! {
    /// Plain names, one for each instance.
    #[name = "{}_{T}"]
    struct Scale<T: Number in [f32 = "f32", f64 = "f64"]>;
    // SAFETY: thread i touches element i alone, and only if i < n; `reset_all` writes the first.
    unsafe in TEMPLATES {
        safe fn scale(a: T, x: &mut [T], n: usize = x.len()) over n;
        #[name = "reset_all"]
        safe fn reset(x: &mut [u32]) over 1 where x.len() >= 1;
        #[name = "convert_{T}_{B}"]
        unsafe fn convert<B in [u8 = "u8", u16 = "u16"]>(x: &[T], out: &mut [B], n: usize = x.len());
    }
}

kernels! {
    /// Name expressions.
    struct Fill<T: Number in [
        f32, f64, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, Float2 = "float2",
    ]>;
    // SAFETY: thread i touches element i alone, and only if i < n; `size` writes the first.
    unsafe in TEMPLATES {
        safe fn fill(value: T, out: &mut [T], n: usize = out.len()) over n;
        safe fn size(out: &mut [u32]) over 1 where out.len() >= 1;
    }
}

kernels! {
    struct Convert;
    // SAFETY: thread i touches element i alone, and only if i < n.
    unsafe in TEMPLATES {
        safe fn convert<A: Number in [u8, i32, f32], B: Number in [f64, i32]>(
            x: &[A], out: &mut [B], n: usize = x.len(),
        ) over n by 64 where out.len() == n;
    }
}

/// Loads the struct and fills a buffer.
fn filled<T: Number>(device: &TestDevice, value: T) -> TestResult {
    let (stream, kernels) = (device.stream()?, Fill::<T>::load(device.context())?);
    let mut out = DeviceBuffer::<T>::zeroed(&stream, 33)?;
    device.count(kernels.fill(&stream, value, &mut out))?;
    ensure_eq!(out.to_vec(&stream)?, vec![value; 33]);
    let mut size = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    device.count(kernels.size(&stream, &mut size))?;
    ensure_eq!(size.to_vec(&stream)?, [size_of::<T>() as u32]);
    Ok(())
}

fn instances_of_a_struct(device: &TestDevice) -> TestResult {
    filled(device, 0.5_f32)?;
    filled(device, -0.25_f64)?;
    filled(device, -1_i8)?;
    filled(device, i16::MIN)?;
    filled(device, i32::MIN)?;
    filled(device, i64::MIN)?;
    filled(device, isize::MAX)?;
    filled(device, 255_u8)?;
    filled(device, u16::MAX)?;
    filled(device, u32::MAX)?;
    filled(device, u64::MAX)?;
    filled(device, usize::MAX)?;
    filled(device, Float2::from([1.0, 2.0]))?;

    // One module has both, and whatever makes a struct of a module makes either.
    let stream = device.stream()?;
    let narrow = Scale::<f32>::load(device.context())?;
    // SAFETY: the module was made from the source of the declaration.
    let wide = unsafe { <Scale<f64> as DeclaredKernels>::from_module(&narrow.module()) }?;
    // SAFETY: likewise.
    let missing = unsafe { Fill::<f32>::from_module(&narrow.module()) };
    let Err(error) = missing else { return Err(Failure::new("a name that was not compiled")) };
    ensure!(error.to_string().contains("no kernel `fill<float>`"), "{error}");
    ensure_eq!(narrow.scale_kernel().name(), "scale_f32");
    ensure_eq!(wide.scale_kernel().name(), "scale_f64");
    ensure_eq!(wide.reset_kernel().name(), "reset_all");
    let mut x = DeviceBuffer::from_slice(&stream, &[1.0_f32, 2.0, 3.0])?;
    let mut y = DeviceBuffer::from_slice(&stream, &[0.1_f64])?;
    device.count(narrow.clone().scale(&stream, 0.5, &mut x))?;
    device.count(wide.scale(&stream, 2.0, &mut y))?;
    ensure_eq!(x.to_vec(&stream)?, [0.5, 1.0, 1.5]);
    ensure_eq!(y.to_vec(&stream)?, [0.2]);

    // Type parameters of the struct and of the kernel in one symbol.
    ensure_eq!(wide.convert_kernel::<u16>()?.name(), "convert_f64_u16");
    let mut bytes = DeviceBuffer::<u8>::zeroed(&stream, 3)?;
    // SAFETY: one thread writes as many elements as there are.
    device.count(unsafe { narrow.convert(&stream, (1, 1), &x, &mut bytes) })?;
    ensure_eq!(bytes.to_vec(&stream)?, [0, 1, 1]);
    Ok(())
}

/// Converts 0 to n - 1.
fn converted<A: Number, B: Number>(
    device: &TestDevice,
    kernels: &Convert,
    number: impl Fn(u8) -> (A, B),
) -> TestResult {
    let stream = device.stream()?;
    for n in [0, 1, 31, 32, 33, 200] {
        let (from, to): (Vec<A>, Vec<B>) = (0..n).map(&number).unzip();
        let x = DeviceBuffer::from_slice(&stream, &from)?;
        let mut out = DeviceBuffer::<B>::zeroed(&stream, to.len())?;
        let launched = kernels.convert(&stream, &x, &mut out);
        if n == 0 { launched } else { device.count(launched) }?;
        ensure_eq!(out.to_vec(&stream)?, to);
    }
    Ok(())
}

fn instances_of_a_kernel(device: &TestDevice) -> TestResult {
    let kernels = Convert::load(device.context())?;
    converted(device, &kernels, |i| (i, f64::from(i)))?;
    converted(device, &kernels, |i| (i, i32::from(i)))?;
    converted(device, &kernels, |i| (-i32::from(i), -f64::from(i)))?;
    converted(device, &kernels, |i| (-i32::from(i), -i32::from(i)))?;
    converted(device, &kernels, |i| (f32::from(i) / 4.0, f64::from(i) / 4.0))?;
    converted(device, &kernels, |i| (f32::from(i) / 4.0, i32::from(i) / 4))?;
    ensure!(kernels.convert_kernel::<u8, i32>()?.name().contains("convertIhiE"));
    ensure!(kernels.convert_kernel::<f32, f64>()?.name().contains("convertIfdE"));
    Ok(())
}

fn types_without_an_instance(device: &TestDevice) -> TestResult {
    let kernels = Convert::load(device.context())?;
    let message = |error: &cuda_safe::Error| match error.kind() {
        ErrorKind::Invalid(message) => message.to_string(),
        kind => format!("{kind:?}"),
    };
    let stream = device.stream()?;
    let x = DeviceBuffer::<u16>::zeroed(&stream, 3)?;
    let mut out = DeviceBuffer::<f64>::zeroed(&stream, 2)?;
    // Before the clause that does not hold either.
    let Err(error) = kernels.convert(&stream, &x, &mut out) else {
        return Err(Failure::new("there is no convert<unsigned short, double>"));
    };
    ensure_eq!(message(&error), "`A` of `convert` has instances for u8, i32 and f32, not for u16");
    let Err(error) = kernels.convert_kernel::<u8, f32>() else {
        return Err(Failure::new("there is no convert<unsigned char, float>"));
    };
    ensure_eq!(message(&error), "`B` of `convert` has instances for f64 and i32, not for f32");
    let Err(error) = Scale::<i32>::load(device.context()) else {
        return Err(Failure::new("there is no scale_i32"));
    };
    ensure_eq!(message(&error), "`Scale` has instances for f32 and f64, not for i32");
    // SAFETY: it takes no kernel.
    let Err(error) = (unsafe { Scale::<i32>::from_module(&kernels.module()) }) else {
        return Err(Failure::new("there is no scale_i32"));
    };
    ensure_eq!(message(&error), "`Scale` has instances for f32 and f64, not for i32");
    Ok(())
}

kernels! {
    struct Wrong;
    // SAFETY: no `safe fn` is declared.
    unsafe in r#"
        extern "C" __global__ void axpy(float a, const float* x, float* y, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] += a * x[i];
        }
    "# {
        #[name = "axpy"]
        unsafe fn wide(a: f64, x: &[f32], y: &mut [f32], n: u32 = x.len()) over n;
        #[name = "axpy"]
        unsafe fn elements(a: f32, x: &[f32], r#in: &mut [f64], n: u32 = x.len()) over n;
        #[name = "axpy"]
        unsafe fn filled(a: f32, x: &[f32], y: &mut [f32], n: u64 = x.len()) over n;
        #[name = "axpy"]
        unsafe fn few(a: f32, x: &[f32], y: &mut [f32]) over x.len();
    }
}

/// Errors name the parameter and the kernel as they are declared.
fn names_of_arguments(device: &TestDevice) -> TestResult {
    let (stream, kernels) = (device.stream()?, Wrong::load(device.context())?);
    let x = DeviceBuffer::<f32>::zeroed(&stream, 3)?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, 3)?;
    let mut z = DeviceBuffer::<f64>::zeroed(&stream, 3)?;
    // SAFETY: arguments that don't fit are refused.
    let (wide, elements, filled, few) = unsafe {
        (
            kernels.wide(&stream, 2.0, &x, &mut y),
            kernels.elements(&stream, 2.0, &x, &mut z),
            kernels.filled(&stream, 2.0, &x, &mut y),
            kernels.few(&stream, 2.0, &x, &mut y),
        )
    };
    for (launched, place, text) in [
        (
            wide,
            Some((0, "a")),
            "argument `a` of kernel `wide`: `f64` has 8 bytes, the kernel's `float` 4: write `f32`",
        ),
        (
            elements,
            Some((2, "in")),
            "argument `in` of kernel `elements`: `&mut [f64]` does not fit the kernel's `float*`: write `&mut [f32]`",
        ),
        (
            filled,
            Some((3, "n")),
            "argument `n` of kernel `filled`: `u64` has 8 bytes, the kernel's `unsigned int` 4: write `u32`",
        ),
        (
            few,
            None,
            "kernel `few`: takes 4 arguments, 3 given; hint: the declaration of `few` has a, x, y",
        ),
    ] {
        let Err(error) = launched else {
            return Err(Failure::new(format!("it was launched, instead of: {text}")));
        };
        let ErrorKind::Argument { index, parameter, .. } = error.kind() else {
            return Err(error.into());
        };
        ensure_eq!(index.zip(*parameter), place, "{error}");
        ensure!(error.to_string().starts_with(text), "{error} does not begin with {text}");
    }
    Ok(())
}
