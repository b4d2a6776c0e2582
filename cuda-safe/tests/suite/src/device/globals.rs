//! Globals that are declared in `kernels!`, found by their names in C++, and reached by the host.

use cuda_safe::nvrtc::{Options, Program};
use cuda_safe::sys::CUresult;
use cuda_safe::vector::Float2;
use cuda_safe::{DeviceBuffer, GlobalKind, Module, Result, kernels};

use super::MS;
use super::checks::{is_invalid, no_drop_errors, not_the_drivers};
use test_harness::programs::Delay;
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "globals",
        device(declared),
        device(listed),
        device(names_in_cpp),
        device(that_do_not_fit),
        device(of_a_generic_struct),
        device(from_another_program),
        device(managed),
        device(managed_guards),
    ]
}

const N: usize = 1000;

const SOURCE: &str = r"
    namespace physics {
        __constant__ float gravity = 9.5f;
        namespace { __device__ unsigned hidden = 4; }
        namespace twice { __device__ int both = 1; namespace { __device__ int both = 2; } }
    }
    __constant__ float weights[4] = {1, 2, 3, 4};
    __device__ unsigned long long total;
    __managed__ int steps[3] = {1, 2, 3};
    __managed__ double scale = 0.5;
    struct Limits { float low, high; };
    __constant__ Limits limits = {-1.0f, 1.0f};
    template <class T> __device__ T value = T(7);

    __global__ void fold(const float* x, float* out, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        float folded = physics::gravity * weights[i % 4] * x[i] + value<float>;
        out[i] = fminf(fmaxf(folded, limits.low), limits.high);
    }
    __global__ void count(unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) atomicAdd(&total, 0ULL + physics::hidden);
    }
    __global__ void step(int by) {
        if (blockIdx.x * blockDim.x + threadIdx.x != 0) return;
        for (int k = 0; k < 3; ++k) steps[k] += by;
        scale *= 2;
    }
    __global__ void look(int* out, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = steps[i % 3];
    }
";

const COUNT: usize = 3;

kernels! {
    struct Globals;
    // SAFETY: thread i writes element i alone, and only if i < n; `count` adds atomically, and of `step` one thread
    // writes.
    unsafe in SOURCE {
        safe fn fold(x: &[f32], out: &mut [f32], n: u32 = x.len()) over n where out.len() == n;
        safe fn count(#[any] n: u32) over n;
        safe fn step(#[any] by: i32) over 1;
        safe fn look(out: &mut [i32], n: u32 = out.len()) over n;
        #[name = "physics::gravity"]
        global gravity: f32;
        #[name = "physics::hidden"]
        global hidden: u32;
        /// The factors of `fold`.
        global weights: [f32; 4];
        global total: u64;
        global steps: [i32; COUNT];
        global scale: f64;
        global limits: Float2;
        #[name = "value<float>"]
        global value: f32;
    }
}

fn folded(
    x: &[f32],
    [gravity, value]: [f32; 2],
    weights: [f32; 4],
    [low, high]: [f32; 2],
) -> Vec<f32> {
    let fold =
        |(i, x): (usize, &f32)| (gravity * weights[i % 4]).mul_add(*x, value).max(low).min(high);
    x.iter().enumerate().map(fold).collect()
}

/// Values that make every product exact, so that fusing changes nothing.
fn small(device: &TestDevice, seed: u64) -> Vec<f32> {
    let mut rng = device.rng(seed);
    rng.words(N).into_iter().map(|word| f32::from((word % 17) as u8) / 8.0 - 1.0).collect()
}

fn declared(device: &TestDevice) -> TestResult {
    let (stream, other) = (device.stream()?, device.stream()?);
    let (delay, kernels) = (Delay::of(device)?, Globals::load(device.context())?);
    ensure_eq!(kernels.gravity(&stream)?.read(&stream)?, [9.5]);
    ensure_eq!(kernels.weights(&stream)?.read(&stream)?, [1.0, 2.0, 3.0, 4.0]);
    ensure_eq!(kernels.hidden(&stream)?.read(&stream)?, [4]);
    ensure_eq!(kernels.value(&stream)?.read(&stream)?, [7.0]);
    ensure_eq!(kernels.steps(&stream)?.read(&stream)?, [1, 2, 3]);
    ensure_eq!(kernels.scale(&stream)?.read(&stream)?, [0.5]);
    let limits = kernels.limits(&stream)?.read(&stream)?;
    ensure!(limits.len() == 1 && (limits[0].x, limits[0].y) == (-1.0, 1.0), "{limits:?}");

    let host = small(device, 300);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, N)?;
    kernels.fold(&stream, &x, &mut out)?;
    let wanted = folded(&host, [9.5, 7.0], [1.0, 2.0, 3.0, 4.0], [-1.0, 1.0]);
    first_difference(&out.to_vec(&stream)?, &wanted)?;
    // Kernels and writes on several streams are ordered.
    let weights = [0.5, -2.0, 8.0, 0.25];
    for round in 1..4_u8 {
        let low = f32::from(round) * -100.0;
        delay.delay(&other, (1, 1), 5 * MS)?;
        kernels.gravity(&other)?.write(&other, &[2.0])?;
        kernels.weights(&other)?.write(&other, &weights)?;
        kernels.limits(&other)?.write(&other, &[Float2 { x: low, y: 2.0 }])?;
        kernels.value(&other)?.write(&other, &[-1.0])?;
        kernels.fold(&stream, &x, &mut out)?;
        let wanted = folded(&host, [2.0, -1.0], weights, [low, 2.0]);
        first_difference(&out.to_vec(&stream)?, &wanted)?;
    }
    kernels.count(&stream, 1000)?;
    kernels.hidden(&other)?.write(&other, &[1])?;
    kernels.count(&stream, 3)?;
    ensure_eq!(kernels.clone().total(&other)?.read(&other)?, [4003]);
    is_invalid(kernels.weights(&stream)?.write(&stream, &[0.0; 5]), "")?;
    no_drop_errors(device.context())
}

fn listed(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let module = Globals::load(device.context())?.module();
    let Some(globals) = module.globals() else {
        return Err(Failure::new("the module has PTX"));
    };
    let mut list: Vec<(&str, GlobalKind, usize)> =
        globals.iter().map(|global| (global.name.as_str(), global.kind, global.size)).collect();
    list.sort_unstable_by_key(|(name, _, size)| (*name, *size));
    let wanted = [
        ("limits", GlobalKind::Constant, 8),
        ("physics::gravity", GlobalKind::Constant, 4),
        ("physics::hidden", GlobalKind::Device, 4),
        ("physics::twice::both", GlobalKind::Device, 4),
        ("physics::twice::both", GlobalKind::Device, 4),
        ("scale", GlobalKind::Managed, 8),
        ("steps", GlobalKind::Managed, 12),
        ("total", GlobalKind::Device, 8),
        ("value<float>", GlobalKind::Device, 4),
        ("weights", GlobalKind::Constant, 16),
    ];
    ensure_eq!(list.as_slice(), wanted);
    // Each is found by its symbol.
    for global in &globals {
        let found = module.global::<u8>(&stream, &global.symbol)?;
        ensure_eq!(found.len(), global.size, "{global:?}");
    }
    // Machine code alone has no list.
    let Some(cubin) = &device.image(&test_harness::programs::TEMPLATES)?.cubin else {
        return Ok(());
    };
    match Module::from_cubin(device.context(), cubin) {
        Ok(module) => ensure!(module.globals().is_none(), "{:?}", module.globals()),
        // The software device runs PTX.
        Err(error) if error.code() == Some(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn names_in_cpp(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let module = Globals::load(device.context())?.module();
    for (name, bits) in [
        ("physics::gravity", 9.5_f32.to_bits()),
        ("&physics::gravity", 9.5_f32.to_bits()),
        ("physics::hidden", 4),
        ("value<float>", 7.0_f32.to_bits()),
        ("&value<float>", 7.0_f32.to_bits()),
    ] {
        ensure!(module.has_global(name)?, "{name}");
        ensure_eq!(module.global::<u32>(&stream, name)?.read(&stream)?, [bits], "{name}");
    }
    ensure!(!module.has_global("gravity")? && !module.has_global("value<double>")?);
    // Two variables of one name.
    let both = module.global::<i32>(&stream, "physics::twice::both");
    not_the_drivers(&both)?;
    is_invalid(both, "several variables are called `physics::twice::both`")?;
    // The list is in the error.
    let Err(error) = module.global::<f32>(&stream, "gravity") else {
        return Err(Failure::new("`gravity` is in a namespace"));
    };
    if error.code() != Some(CUresult::CUDA_ERROR_NOT_FOUND) {
        return Err(error.into());
    }
    let hint = error.hint().unwrap_or_default();
    ensure!(hint.starts_with("the module has ") && hint.contains("physics::gravity"), "{error}");
    Ok(())
}

/// Declarations of globals that the source does not have so.
macro_rules! wrong {
    ($($name:ident: $global:tt;)*) => {$(
        kernels! {
            struct $name;
            // SAFETY: no kernel is declared.
            unsafe in SOURCE $global
        }
    )*};
}

wrong! {
    Longer: { global weights: [f32; 5]; };
    Shorter: { global weights: [f32; 3]; };
    Integer: { #[name = "physics::gravity"] global gravity: u32; };
    Float: { #[name = "physics::hidden"] global hidden: f32; };
    Missing: { global gravity: f32; };
    Twice: { #[name = "physics::twice::both"] global both: i32; };
    Huge: { global weights: [[f32; 4]; usize::MAX / 8]; };
    Nothing: { global weights: [(); 16]; };
}

fn that_do_not_fit(device: &TestDevice) -> TestResult {
    let module = Globals::load(device.context())?.module();
    let refused = |result: Result<()>, part: &str| {
        not_the_drivers(&result)?;
        is_invalid(result, part)
    };
    macro_rules! refuse {
        ($($name:ident: $part:literal;)*) => {$(
            // SAFETY: it takes no kernel.
            refused(unsafe { $name::from_module(&module) }.map(drop), $part)?;
        )*};
    }
    refuse! {
        Longer: "the global `weights` is declared as [f32; 5], which has 20 bytes, but the variable has 16";
        Shorter: "the global `weights` is declared as [f32; 3], which has 12 bytes, but the variable has 16";
        Integer: "the global `physics::gravity` is declared as u32, but the variable is a float";
        Float: "the global `physics::hidden` is declared as f32, but the variable is an integer or a pointer";
        Twice: "several variables are called `physics::twice::both`";
        Huge: "which has too many bytes, but the variable has 16";
        Nothing: "the global `weights` is declared as [(); 16], which has 0 bytes";
    }
    // SAFETY: it takes no kernel.
    let missing = unsafe { Missing::from_module(&module) };
    match missing {
        Err(error) if error.hint().is_some_and(|hint| hint.contains("physics::gravity")) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err(Failure::new("`gravity` is in a namespace")),
    }
}

kernels! {
    struct Generic<T in [f32, f64]>;
    // SAFETY: thread 0 alone writes.
    unsafe in r"
        template <class T> __device__ T start[2] = {T(1), T(2)};
        template <class T> __global__ void add(T by) {
            if (blockIdx.x * blockDim.x + threadIdx.x == 0) start<T>[1] += by;
        }
    " {
        safe fn add(by: T) over 1;
        #[name = "{}<{T}>"]
        global start: [T; 2];
    }
}

fn of_a_generic_struct(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let (single, double) =
        (Generic::<f32>::load(device.context())?, Generic::<f64>::load(device.context())?);
    single.add(&stream, 0.5)?;
    double.start(&stream)?.write(&stream, &[3.0, 4.0])?;
    double.add(&stream, 0.25)?;
    ensure_eq!(single.start(&stream)?.read(&stream)?, [1.0, 2.5]);
    ensure_eq!(double.start(&stream)?.read(&stream)?, [3.0, 4.25]);
    Ok(())
}

kernels! {
    struct Powers;
    // SAFETY: thread i writes element i alone, and only if i < n.
    unsafe in r#"
        #ifndef BASE
        #define BASE 2
        #endif
        extern "C" __global__ void fill(int* out, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) out[i] = BASE * int(i);
        }
        __constant__ int base = BASE;
    "# {
        safe fn fill(out: &mut [i32], n: u32 = out.len()) over n;
        global base: i32;
    }
}

fn from_another_program(device: &TestDevice) -> TestResult {
    let (context, stream) = (device.context(), device.stream()?);
    let text = r#"
        #include "base.cuh"
        extern "C" __global__ void fill(int* out, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) out[i] = BASE * int(i) * FACTOR;
        }
        __constant__ int base = BASE;
    "#;
    let options = Options::new().define("FACTOR", 10);
    let program = Program::new(text).header("base.cuh", "#define BASE 3\n").options(options);
    // SAFETY: `fill` stays inside `out`, too.
    let other = unsafe { Powers::load_from(context, program) }?;
    for (kernels, base, step) in [(Powers::load(context)?, 2, 2), (other, 3, 30)] {
        let mut out = DeviceBuffer::<i32>::zeroed(&stream, N)?;
        kernels.fill(&stream, &mut out)?;
        let wanted: Vec<i32> = (0..1000).map(|i| step * i).collect();
        first_difference(&out.to_vec(&stream)?, &wanted)?;
        ensure_eq!(kernels.base(&stream)?.read(&stream)?, [base]);
    }
    // A program that lacks a kernel, or a global, and one that does not compile.
    for (source, text, code) in [
        (
            "__constant__ int base = 1; extern \"C\" __global__ void other() {}",
            "the module has no kernel `fill`",
            None,
        ),
        (
            "extern \"C\" __global__ void fill(int* out, unsigned n) {}",
            "asked: global `base`; hint: the module has no variables",
            Some(CUresult::CUDA_ERROR_NOT_FOUND),
        ),
        ("int base = missing;", "\"missing\" is undefined", None),
    ] {
        // SAFETY: it is not loaded.
        let Err(error) = (unsafe { Powers::load_from(context, source) }) else {
            return Err(Failure::new(format!("it was loaded: {source}")));
        };
        if error.code() != code {
            return Err(error.into());
        }
        ensure!(error.to_string().contains(text), "{error}");
    }
    Ok(())
}

/// The host's guards of a managed variable wait for the kernels that use it, and kernels see what the host wrote.
fn managed(device: &TestDevice) -> TestResult {
    let (stream, other) = (device.stream()?, device.stream()?);
    let (delay, kernels) = (Delay::of(device)?, Globals::load(device.context())?);
    let (mut steps, mut scale) = (kernels.steps(&stream)?, kernels.scale(&stream)?);
    ensure_eq!(&*steps.host()?, [1, 2, 3]);
    let mut out = DeviceBuffer::<i32>::zeroed(&other, N)?;
    for round in 0..4 {
        delay.delay(&stream, (1, 1), 5 * MS)?;
        kernels.step(&stream, 10)?;
        ensure_eq!(&*steps.host()?, [round + 11, round + 12, round + 13], "after the kernel");
        delay.delay(&other, (1, 1), 5 * MS)?;
        kernels.look(&other, &mut out)?;
        {
            // Waits for the kernel that reads.
            let mut guard = steps.host_mut()?;
            guard.copy_from_slice(&[round + 2, round + 3, round + 4]);
        }
        let wanted: Vec<i32> = (0..1000).map(|i| round + 11 + i % 3).collect();
        first_difference(&out.to_vec(&other)?, &wanted)?;
        kernels.look(&other, &mut out)?;
        let wanted: Vec<i32> = (0..1000).map(|i| round + 2 + i % 3).collect();
        first_difference(&out.to_vec(&other)?, &wanted)?;
        ensure_eq!(&*scale.host()?, [1.0], "doubled by the kernel");
        scale.host_mut()?[0] = 0.5;
        ensure_eq!(steps.read(&other)?, [round + 2, round + 3, round + 4]);
        steps.write(&other, &[round + 2; 3])?;
        ensure_eq!(&*steps.host()?, [round + 2; 3], "after the copy");
        steps.host_mut()?.copy_from_slice(&[round + 2, round + 3, round + 4]);
    }
    no_drop_errors(device.context())
}

/// While a guard lives, uses that conflict are refused, by whichever handle, kernel or graph.
fn managed_guards(device: &TestDevice) -> TestResult {
    let (stream, kernels) = (device.stream()?, Globals::load(device.context())?);
    let (mut steps, mut second) = (kernels.steps(&stream)?, kernels.steps(&stream)?);
    let mut out = DeviceBuffer::<i32>::zeroed(&stream, N)?;
    let refused = |result: Result<()>, part: &str| {
        not_the_drivers(&result)?;
        is_invalid(result, part)
    };
    let mut graph = device.context().capture((), |stream, ()| kernels.step(stream, 1))?;
    let reading = steps.host()?;
    refused(kernels.step(&stream, 1), "the host is reading a global")?;
    refused(graph.launch(&stream), "the host is reading a global")?;
    refused(second.write(&stream, &[0; 3]), "the host is reading a global")?;
    refused(second.host_mut().map(drop), "another guard of the global is alive")?;
    // Readers, and uses of other variables.
    kernels.look(&stream, &mut out)?;
    ensure_eq!(&*second.host()?, [1, 2, 3]);
    ensure_eq!(second.read(&stream)?, [1, 2, 3]);
    kernels.count(&stream, 5)?;
    kernels.scale(&stream)?.host_mut()?[0] = 2.0;
    ensure_eq!(&*reading, [1, 2, 3]);
    drop(reading);
    kernels.step(&stream, 1)?;
    graph.launch(&stream)?;
    let writing = steps.host_mut()?;
    ensure_eq!(&*writing, [3, 4, 5]);
    refused(kernels.look(&stream, &mut out), "the host is writing a global")?;
    refused(second.read(&stream).map(drop), "the host is writing a global")?;
    refused(second.host().map(drop), "another guard of the global is alive")?;
    // A leaked guard counts for ever.
    std::mem::forget(writing);
    refused(kernels.step(&stream, 1), "the host is writing a global")?;
    refused(graph.launch(&stream), "the host is writing a global")?;
    kernels.count(&stream, 5)?;
    // Other variables are the device's alone.
    let mut total = kernels.total(&stream)?;
    refused(total.host().map(drop), "it is not declared with __managed__")?;
    refused(total.host_mut().map(drop), "it is not declared with __managed__")?;
    ensure_eq!(total.read(&stream)?, [40]);
    drop(graph);
    drop((steps, second, total, kernels, out, stream));
    no_drop_errors(device.context())
}
