//! The driver's linker: files that were compiled apart have the results of one file.

use cuda_safe::{DeviceBuffer, ErrorKind, Linker, Module, kernels};
use nvrtc::{Options, Program};
use test_support::fatbin::{Entry, LTO, Packing, write};

use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "linking",
        device(two_files_as_one),
        device(every_kind_of_input),
        device(declared_kernels),
        device(symbols_that_do_not_fit),
        device(bad_inputs),
    ]
}

/// Functions and variables that the other file uses, and some that both files have for themselves.
const WEIGHTS: &str = "
__device__ unsigned calls;
__constant__ float table[4] = {1.0f, 2.0f, 4.0f, 8.0f};
static __device__ float bias = 0.5f;
static __device__ __noinline__ float twist(float x) { return x * 3.0f + bias; }
__device__ float weight(float x, unsigned i) {
    atomicAdd(&calls, 1);
    return twist(x) * table[i & 3];
}
extern \"C\" __global__ void set_bias(float value) { bias = value; }
";

const APPLY: &str = "
extern __device__ unsigned calls;
extern __constant__ float table[4];
__device__ float weight(float x, unsigned i);
static __device__ float bias = 100.0f;
static __device__ __noinline__ float twist(float x) { return x - bias; }
extern \"C\" __global__ void apply(float* x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = weight(x[i], i) + twist(x[i]) + table[1];
}
extern \"C\" __global__ void counted(unsigned* out) { *out = calls; }
";

fn compile(device: &TestDevice, name: &str, text: &str) -> Result<nvrtc::Image, Failure> {
    let program = Program::new(text).name(name).options(Options::new().relocatable(true));
    let context = device.context();
    Ok(program.compile_for_driver(context.device().arch()?, context.driver().version()?)?)
}

/// Runs `set_bias`, `apply` and `counted`.
fn results(device: &TestDevice, module: &Module, data: &[f32]) -> Result<(Vec<f32>, u32), Failure> {
    let stream = device.stream()?;
    let (set_bias, apply) = (module.kernel("set_bias")?, module.kernel("apply")?);
    let counted = module.kernel("counted")?;
    let mut x = DeviceBuffer::from_slice(&stream, data)?;
    let mut count = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    let blocks = (data.len() as u32).div_ceil(64);
    // SAFETY: the kernels take (float), (float*, unsigned) and (unsigned*), write as many elements, and no other stream
    // uses their variables.
    unsafe {
        device.launch(&set_bias, &stream, (1, 1), (0.25_f32,))?;
        device.launch(&apply, &stream, (blocks, 64), (&mut x, data.len() as u32))?;
        device.launch(&counted, &stream, (1, 1), (&mut count,))?;
    }
    let count = count.to_vec(&stream)?.first().copied().unwrap_or_default();
    Ok((x.to_vec(&stream)?, count))
}

/// Both files in one, for whole-program compilation.
fn one_file() -> String {
    format!("{WEIGHTS}\n#define bias apart_bias\n#define twist apart_twist\n{APPLY}")
}

fn two_files_as_one(device: &TestDevice) -> TestResult {
    let data = device.rng(1).floats(1000);
    let weights = compile(device, "weights.cu", WEIGHTS)?;
    let apply = compile(device, "apply.cu", APPLY)?;
    let whole = Module::compile(device.context(), one_file().as_str())?;
    let (expected, count) = results(device, &whole, &data)?;
    ensure_eq!(count, 1000);
    for inputs in [[&weights, &apply], [&apply, &weights]] {
        let linker = Linker::new(device.context());
        let linker = linker.image("first.cu", inputs[0]).image("second.cu", inputs[1]);
        let image = linker.link()?;
        let mut names: Vec<_> = image.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        names.sort_unstable();
        ensure_eq!(names, ["apply", "counted", "set_bias"]);
        let module = Module::load(device.context(), &image)?;
        let (found, count) = results(device, &module, &data)?;
        ensure_eq!(count, 1000);
        first_difference(&found, &expected)?;
    }
    Ok(())
}

fn every_kind_of_input(device: &TestDevice) -> TestResult {
    let data: Vec<f32> = (0..100).map(|n| n as f32).collect();
    let weights = compile(device, "weights.cu", WEIGHTS)?;
    let apply = compile(device, "apply.cu", APPLY)?;
    let whole = Module::compile(device.context(), one_file().as_str())?;
    let (expected, _) = results(device, &whole, &data)?;
    let (Some(first), Some(second)) = (&weights.ptx, &apply.ptx) else {
        return Err(Failure::new("NVRTC returns PTX"));
    };
    let (major, minor) = device.context().device().compute_capability()?;
    let mut entry = Entry::ptx(major * 10 + minor, first, Packing::Zstd);
    // As nvcc stores PTX.
    entry.contents.push(0);
    let empty = Linker::new(device.context());
    let mut linkers = vec![
        empty.clone().ptx("weights", first.as_str()).ptx("apply", second.as_str()),
        empty.clone().fatbin("weights", write(&[entry])).image("apply", &apply),
    ];
    if let (true, Some(first), Some(second)) =
        (device.runs_machine_code(), &weights.cubin, &apply.cubin)
    {
        linkers.push(empty.cubin("weights", first.clone()).cubin("apply", second.clone()));
    }
    for linker in linkers {
        let module = Module::load(device.context(), &linker.link()?)?;
        first_difference(&results(device, &module, &data)?.0, &expected)?;
    }
    Ok(())
}

kernels! {
    struct Linked;
    // SAFETY: every thread writes the same number to element 0.
    unsafe in APPLY {
        safe fn counted(out: &mut [u32]) where 1 <= out.len();
    }
}

fn declared_kernels(device: &TestDevice) -> TestResult {
    let weights = compile(device, "weights.cu", WEIGHTS)?;
    let apply = compile(device, "apply.cu", APPLY)?;
    let linker = Linker::new(device.context()).image("weights.cu", &weights);
    let image = linker.image("apply.cu", &apply).link()?;
    // SAFETY: the image has the declaration's kernel, linked with what its source lacks.
    let kernels = unsafe { Linked::from_module(&Module::load(device.context(), &image)?) }?;
    let stream = device.stream()?;
    let mut out = DeviceBuffer::from_slice(&stream, &[7_u32])?;
    kernels.counted(&stream, (1, 1), &mut out)?;
    first_difference(&out.to_vec(&stream)?, &[0])
}

/// The link must fail with an error that names this.
fn refused_naming(linker: &Linker, text: &str) -> TestResult {
    match linker.link() {
        Ok(_) => Err(Failure::new(format!("{linker:?} links, where an error names {text}"))),
        Err(error) if error.to_string().contains(text) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn symbols_that_do_not_fit(device: &TestDevice) -> TestResult {
    let weights = compile(device, "weights.cu", WEIGHTS)?;
    let apply = compile(device, "apply.cu", APPLY)?;
    let empty = Linker::new(device.context());
    let weight = "_Z6weightfj";
    refused_naming(&empty.clone().image("apply.cu", &apply), weight)?;
    let twice = empty.clone().image("a.cu", &weights).image("b.cu", &weights);
    refused_naming(&twice.image("apply.cu", &apply), weight)?;
    // Two functions that call each other across files are no fault.
    let half = |mine: &str, other: &str| {
        format!(
            "__device__ int {other}(int n); __device__ int {mine}(int n) {{ return n <= 0 ? n : {other}(n - 1) + 1; }}"
        )
    };
    let kernel =
        "__device__ int even(int); extern \"C\" __global__ void k(int* x) { *x = even(*x); }";
    let (even, odd) = (half("even", "odd"), half("odd", "even"));
    let linker = empty
        .clone()
        .image("even.cu", &compile(device, "even.cu", &even)?)
        .image("odd.cu", &compile(device, "odd.cu", &odd)?)
        .image("kernel.cu", &compile(device, "kernel.cu", kernel)?);
    let kernel = Module::load(device.context(), &linker.link()?)?.kernel("k")?;
    let stream = device.stream()?;
    let mut x = DeviceBuffer::from_slice(&stream, &[9_i32])?;
    // SAFETY: `k` takes (int*), and reads and writes one.
    unsafe { device.launch(&kernel, &stream, (1, 1), (&mut x,)) }?;
    first_difference(&x.to_vec(&stream)?, &[9])?;
    if device.runs_machine_code() {
        return Ok(());
    }
    // A GPU's linker compares sizes of variables only.
    let other = compile(
        device,
        "other.cu",
        "__device__ double weight(float x, unsigned i) { return x; }
         __device__ unsigned calls; __constant__ float table[4];",
    )?;
    let clash = empty.image("other.cu", &other).image("apply.cu", &apply);
    refused_naming(&clash, "results of 8 bytes")
}

fn bad_inputs(device: &TestDevice) -> TestResult {
    let empty = Linker::new(device.context());
    let invalid = |error: &cuda_safe::Error| matches!(error.kind(), ErrorKind::Invalid(_));
    let add =
        |name: &str| empty.clone().ptx(name, ".version 8.0\n.target sm_50\n.address_size 64\n");
    let mut lto = compile(device, "apply.cu", APPLY)?;
    (lto.lto_ir, lto.cubin, lto.ptx) = (Some(vec![1]), None, None);
    for (linker, text) in [
        (empty.clone(), "there is no input to link"),
        (empty.clone().ptx("text", "nonsense"), "input `text`: neither a cubin"),
        (empty.clone().ptx("text", ".version 8.0\n\0.target"), "has a NUL"),
        (add("good").cubin("code", vec![1, 2, 3]), "input `code`: not a cubin"),
        (
            add("good").cubin("code", b"\x7fELF\x02\x01\x01".to_vec()),
            "input `code`: truncated cubin",
        ),
        (add("good").fatbin("fat", vec![0x50, 0xed, 0x55, 0xba]), "input `fat`: truncated fatbin"),
        (add("good").image("lto", &lto), "input `lto`: LTO-IR"),
        (add("good").fatbin("lto", LTO[1]), "input `lto`: only LTO-IR"),
    ] {
        let error = match linker.link() {
            Ok(_) => return Err(Failure::new(format!("{linker:?} links"))),
            Err(error) => error,
        };
        ensure!(invalid(&error) && error.to_string().contains(text), "{error}");
    }
    let error = match Module::from_fatbin(device.context(), LTO[1]) {
        Ok(_) => return Err(Failure::new("LTO-IR alone loads")),
        Err(error) => error,
    };
    let link = error.to_string().contains("link the LTO-IR (`nvrtc::Linker`)");
    ensure!(link || device.runs_machine_code(), "{error}");
    // What only the driver can see, with its log.
    let wrong =
        ".version 8.0\n.target sm_50\n.address_size 64\n.visible .entry k() { nonsense; }\n";
    refused_naming(&empty.ptx("wrong.ptx", wrong), "nonsense")
}
