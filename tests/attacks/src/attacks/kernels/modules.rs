//! Attacks on modules, their images and their globals.

use cuda_safe::{
    Context, DeviceBuffer, JitOptions, Kernel, KernelSource, LaunchConfig, LoadedFrom, Module,
    ModuleImage, OptimizationLevel, arg::ArgType, kernels, nvrtc,
};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

const SOURCE: &str = r#"
    __device__ unsigned weight[4] = {1, 2, 3, 4};
    __constant__ double half = 0.5;
    extern "C" __global__ void fill(unsigned v, unsigned* x, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] = v + weight[i % 4] + (unsigned)half;
    }
"#;

kernels! {
    struct Kernels;
    // SAFETY: thread i writes element i if i < n.
    unsafe in SOURCE {
        safe fn fill(#[any] v: u32, x: &mut [u32], n: u32) where n <= x.len();
    }
}

/// Numbers that look random, the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below.max(1)
    }
}

fn compiled(lab: &Lab) -> Result<nvrtc::Image, Failure> {
    let context = lab.context()?;
    let program = nvrtc::Program::new(SOURCE);
    let arch = context.device().arch()?;
    Ok(program.compile_for_driver(arch, context.driver().version()?)?)
}

/// Loads PTX that is cut short, has bytes changed, and has a NUL in it.
///
/// - row: bytes that are not an image
/// - targets: `Module::from_ptx`, `Module::kernel_names`, `Module::jit_log`
fn ptx_with_changes(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let image = compiled(lab)?;
    let Some(ptx) = &image.ptx else { return Err(Failure::new("there is no PTX")) };
    let bytes = ptx.as_bytes();
    let mut random = Random(7);
    let mut loaded = 0;
    for round in 0..60 {
        let mut changed = bytes.to_vec();
        match round % 4 {
            0 => changed.truncate(random.next(bytes.len())),
            1 => changed[random.next(bytes.len())] = b' ' + random.next(90) as u8,
            2 => {
                let at = random.next(bytes.len());
                changed.drain(at..(at + 1 + random.next(12)).min(bytes.len()));
            }
            _ => changed
                .insert(random.next(bytes.len()), *b"\0{}();%@".get(random.next(8)).unwrap_or(&0)),
        }
        let Ok(text) = String::from_utf8(changed) else { continue };
        // Whatever still loads is never launched.
        if let Ok(module) = Module::from_ptx(&context, &text) {
            loaded += 1;
            ensure_eq!(module.loaded_from(), LoadedFrom::Ptx);
            for name in module.kernel_names() {
                let _ = module
                    .kernel(&name)
                    .map(|kernel| (kernel.parameters(), kernel.attributes().is_ok()));
            }
            let _ = module.has_global("weight");
            ensure!(module.close().is_ok());
        }
    }
    println!("{loaded} of 60 were loaded");
    let module = Module::from_ptx(&context, ptx)?;
    ensure_eq!(module.global::<u32>(&stream, "weight")?.read(&stream)?, [1, 2, 3, 4]);
    Ok(())
}

/// A program whose kernels are compiled one at a time: no kernel writes a variable.
const SEVERAL: &str = r#"
    __constant__ unsigned weight[4] = {1, 2, 3, 4};
    __device__ __noinline__ unsigned of(unsigned i) { return weight[i % 4]; }
    extern "C" __global__ void fill(unsigned v, unsigned* x, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] = v + of(i);
    }
    extern "C" __global__ void add(unsigned v, unsigned* x, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] += v;
    }
"#;

/// The PTX of a program, loaded lazily.
struct Lazily(&'static str);

impl KernelSource for Lazily {
    fn load_kernels(self, context: &Context, _: &[&str]) -> cuda_safe::Result<Module> {
        let (arch, driver) = (context.device().arch()?, context.driver().version()?);
        let image = nvrtc::Program::new(self.0).compile_for_driver(arch, driver)?;
        Module::load_lazily(context, ModuleImage::Ptx(image.ptx.as_deref().unwrap_or_default()))
    }
}

kernels! {
    struct Several;
    // SAFETY: thread i writes element i if i < n.
    unsafe in Lazily(SEVERAL) {
        safe fn fill(#[any] v: u32, x: &mut [u32], n: u32) where n <= x.len();
        safe fn add(#[any] v: u32, x: &mut [u32], n: u32) where n <= x.len();
    }
}

/// Loads PTX with changes lazily, and compiles its kernels from many threads, which close and drop handles meanwhile.
///
/// - row: bytes that are not an image
/// - targets: `Module::load_lazily`, `Module::prepare_kernels`, `Module::compiled_kernels`, `Kernel::load`
fn lazy_ptx_with_changes(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let program = nvrtc::Program::new(SEVERAL);
    let arch = context.device().arch()?;
    let image = program.compile_for_driver(arch, context.driver().version()?)?;
    let Some(ptx) = &image.ptx else { return Err(Failure::new("there is no PTX")) };
    let mut random = Random(11);
    let mut loaded = 0;
    for round in 0..60 {
        let mut changed = ptx.as_bytes().to_vec();
        match round % 3 {
            0 => changed.truncate(random.next(ptx.len())),
            1 => changed[random.next(ptx.len())] = b' ' + random.next(90) as u8,
            _ => changed
                .insert(random.next(ptx.len()), *b"\0{}();%@".get(random.next(8)).unwrap_or(&0)),
        }
        let Ok(text) = String::from_utf8(changed) else { continue };
        // Whatever still loads is never launched.
        let Ok(module) = Module::load_lazily(&context, ModuleImage::Ptx(&text)) else { continue };
        loaded += 1;
        let names = module.kernel_names();
        let _ = Module::prepare_kernels(names.iter().map(|name| (&module, name.as_str())));
        for name in &names {
            let _ = module.kernel(name).map(|kernel| {
                (
                    kernel.load().is_ok(),
                    kernel.parameters(),
                    kernel.as_raw(),
                    kernel.attributes().is_ok(),
                )
            });
        }
        ensure!(module.compiled_kernels().len() <= names.len());
        ensure!(module.close().is_ok());
    }
    println!("{loaded} of 60 were loaded");

    let kernels = Several::load(&context)?;
    let module = kernels.module();
    ensure!(module.compiled_kernels().is_empty());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let _ = Module::prepare_kernels([(&module, "add"), (&module, "fill")]);
                let handle = module.kernel("fill").map(|kernel| kernel.close().is_err());
                drop((kernels.clone(), module.clone(), handle));
            });
        }
    });
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    // The code stays while a kernel may run, also when each handle is gone.
    kernels.fill(&stream, LaunchConfig::cover(100, 32), 5, &mut x, 100)?;
    kernels.add(&stream, LaunchConfig::cover(100, 32), 10, &mut x, 100)?;
    drop((kernels, module));
    context.free_deferred()?;
    let wanted: Vec<u32> = (0..100).map(|i| 16 + i % 4).collect();
    ensure_eq!(x.to_vec(&stream)?, wanted);
    Ok(())
}

/// Loads cubins and fatbins that are PTX, cut short, or have bytes changed in their headers.
///
/// - row: bytes that are not an image
/// - targets: `Module::load_with`, `Module::from_cubin`, `Module::from_fatbin`, `Module::load`
fn binaries_with_changes(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let image = compiled(lab)?;
    let Some(ptx) = &image.ptx else { return Err(Failure::new("there is no PTX")) };
    // A header of an ELF file with sections that lie past its end, or overlap, or have no names.
    let mut elf = vec![0u8; 256];
    elf[..16].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0x33, 7, 0, 0, 0, 0, 0, 0, 0]);
    elf[16..20].copy_from_slice(&[2, 0, 190, 0]);
    elf[52..64].copy_from_slice(&[64, 0, 56, 0, 1, 0, 64, 0, 3, 0, 1, 0]);
    elf[40..48].copy_from_slice(&64u64.to_le_bytes());
    let mut fat = vec![0u8; 128];
    fat[..8].copy_from_slice(&[0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0]);
    fat[8..16].copy_from_slice(&112u64.to_le_bytes());
    fat[16..24].copy_from_slice(&[2, 0, 1, 1, 64, 0, 0, 0]);
    fat[24..32].copy_from_slice(&48u64.to_le_bytes());
    let mut seeds: Vec<Vec<u8>> = vec![elf, fat, ptx.as_bytes().to_vec(), vec![0xff; 200]];
    seeds.extend(image.cubin.clone());
    let mut random = Random(3);
    for seed in &seeds {
        for round in 0..40 {
            let mut bytes = seed.clone();
            if round % 3 == 0 {
                bytes.truncate(random.next(seed.len()));
            }
            for _ in 0..round % 5 {
                let at = random.next(bytes.len().min(200));
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = [0, 1, 0x7f, 0x80, 0xff][random.next(5)];
                }
            }
            for image in [ModuleImage::Cubin(&bytes), ModuleImage::Fatbin(&bytes)] {
                // What is refused, is refused by an error; what loads, unloads.
                if let Ok(module) = Module::load_with(&context, image, &JitOptions::new()) {
                    drop(module.kernel("fill").map(|kernel| kernel.attributes().is_ok()));
                    ensure!(module.close().is_ok());
                }
            }
        }
    }
    lab.refused(Module::from_cubin(&context, ptx.as_bytes()), "expected a cubin, found PTX")?;
    lab.refused(Module::from_fatbin(&context, ptx.as_bytes()), "expected a fatbin, found PTX")?;
    ensure!(Module::load(&context, &image)?.kernel("fill").is_ok());
    Ok(())
}

/// Compiles with options that are out of range.
///
/// - row: bytes that are not an image
/// - targets: `JitOptions::max_registers`, `Module::load_with`
fn options_out_of_range(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let image = compiled(lab)?;
    let Some(ptx) = &image.ptx else { return Err(Failure::new("there is no PTX")) };
    for registers in [0, 1, 256, u32::MAX] {
        let options = JitOptions::new()
            .max_registers(registers)
            .optimization(OptimizationLevel::O0)
            .debug(true)
            .line_info(true)
            .verbose(true);
        if let Ok(module) = Module::load_with(&context, ModuleImage::Ptx(ptx), &options) {
            ensure!(module.jit_log().len() < 1 << 20);
            ensure_eq!(module.global::<f64>(&stream, "half")?.read(&stream)?, [0.5]);
        }
    }
    Ok(())
}

/// Asks for globals of no size, of wrong sizes, of names that are none, and writes too much and too little.
///
/// - row: a global gives out no views
/// - targets: `Module::global`, `Module::has_global`, `Global::write`, `Global::read`
fn globals_that_do_not_fit(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let module = Kernels::load(&context)?.module();
    lab.refused(module.global::<()>(&stream, "weight"), "the global `weight`: () has no bytes")?;
    lab.refused(
        module.global::<[u32; 0]>(&stream, "weight"),
        "the global `weight`: [u32; 0] has no bytes",
    )?;
    lab.refused(
        module.global::<[u32; 3]>(&stream, "weight"),
        "the global `weight`: 16 bytes are not a whole number of [u32; 3], which has 12",
    )?;
    lab.refused(
        module.global::<[u8; 17]>(&stream, "weight"),
        "the global `weight`: 16 bytes are not a whole number of [u8; 17], which has 17",
    )?;
    lab.refused(
        module.global::<[u64; 1 << 40]>(&stream, "weight"),
        "the global `weight`: 16 bytes are not a whole number of [u64; 1099511627776], which has",
    )?;
    for name in ["", "\0", "weight\0", "weigh", "weight2", "fill", "½", &"w".repeat(1 << 16)] {
        ensure!(!module.has_global(name).unwrap_or(false), "there is {name:?}");
        ensure!(module.global::<u32>(&stream, name).is_err(), "{name:?} is a global");
        ensure!(module.kernel(name).is_err() || name == "fill", "{name:?} is a kernel");
    }
    let weight = module.global::<u32>(&stream, "weight")?;
    let bytes = module.global::<u8>(&stream, "weight")?;
    let whole = module.global::<[u32; 4]>(&stream, "weight")?;
    ensure_eq!((weight.len(), bytes.len(), whole.len()), (4, 16, 1));
    for source in [&[][..], &[1; 3], &[1; 5]] {
        lab.refused(weight.write(&stream, source), "upload: 4 elements on one side and")?;
    }
    ensure_eq!(whole.read(&stream)?, [[1, 2, 3, 4]]);
    let other = lab.stream()?;
    for round in 0..10u32 {
        // Three handles, two streams, one variable.
        weight.write(&stream, &[round; 4])?;
        ensure_eq!(whole.read(&other)?, [[round; 4]]);
        bytes.write(&other, &[round as u8; 16])?;
        ensure_eq!(weight.read(&stream)?, [u32::from_ne_bytes([round as u8; 4]); 4]);
    }
    Ok(())
}

/// Closes a module, a kernel and what was made of them, while handles of each kind live.
///
/// - row: code stays loaded while it may run
/// - targets: `Module::close`, `Kernel::close`, `Kernel::module`, `Module::kernel`
fn closed_while_handles_live(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 1 << 12)?;
    let module = Module::compile(&context, SOURCE)?;
    let again = module.clone();
    ensure!(module.close().is_err());
    let kernel = again.kernel("fill")?;
    ensure!(again.close().is_err());
    let twin = kernel.clone();
    ensure!(kernel.close().is_err());
    let weight = twin.module().global::<u32>(&stream, "weight")?;
    ensure!(twin.close().is_err());
    ensure_eq!(weight.read(&stream)?, [1, 2, 3, 4]);
    drop(weight);
    let kernels = Kernels::load(&context)?;
    let mut graph = context.capture((), |s, ()| {
        kernels.fill(s, LaunchConfig::cover(1 << 12, 64), 5, &mut x, 1 << 12)
    })?;
    let module = kernels.module();
    ensure!(module.close().is_err());
    graph.launch(&stream)?;
    drop(graph);
    let module = kernels.module();
    drop(kernels);
    // The graph's last launch is under way or done: closing waits for it.
    ensure!(module.close().is_ok());
    let seen = x.to_vec(&stream)?;
    ensure!(seen.iter().enumerate().all(|(i, v)| *v == 6 + i as u32 % 4), "{:?}", &seen[..4]);
    Ok(())
}

/// Loads modules with kernels of one plain name, uses them by all of their names, and drops each while its kernels
/// run from graphs of other threads.
///
/// - row: code stays loaded while it may run
/// - row: arguments have the number, sizes, classes
/// - targets: `Module::kernel`, `Module::kernel_names`, `Kernel::load`, `Kernel::name`
fn kernels_of_one_name(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let module = Module::compile(
        &context,
        r#"
            __global__ void f(int* x) { *x = 1; }
            __global__ void f(float* x) { *x = 2; }
            namespace a { __global__ void f(int* x) { *x = 3; } __global__ void g(int* x) { *x = 4; } }
            template <class T> __global__ void t(T* x) { *x = 5; }
            template __global__ void t<int>(int*);
        "#,
    )?;
    lab.refused(module.kernel("f"), "f")?;
    let names = module.kernel_names();
    ensure_eq!(names.len(), 5, "{names:?}");
    let kernels =
        names.iter().map(|name| module.kernel(name)).collect::<Result<Vec<Kernel>, _>>()?;
    for (kernel, name) in kernels.iter().zip(&names) {
        ensure_eq!(kernel.name(), name);
        ensure_eq!(kernel.parameters().map_or(1, |all| all.len()), 1);
        kernel.load()?;
    }
    drop((module, names));
    context.free_deferred()?;
    // The name is borrowed for ever: it must outlive the handle.
    let name = kernels[0].name();
    let copy = name.to_owned();
    drop(kernels);
    context.free_deferred()?;
    ensure_eq!(name, copy);
    Ok(())
}

/// Loads images of NVRTC in which the cubin is none, the PTX is another's, or the names and signatures lie.
///
/// - row: bytes that are not an image
/// - row: arguments have the number, sizes, classes
/// - targets: `Module::load`, `Module::kernel`, `Kernel::check_types`, `Kernel::parameters`
fn images_that_lie(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let right = compiled(lab)?;
    let change = |change: &dyn Fn(&mut nvrtc::Image)| {
        let mut image = right.clone();
        change(&mut image);
        Module::load(&context, &image)
    };
    let none = change(&|image| (image.cubin, image.ptx) = (None, None));
    lab.refused(none, "the image has neither a cubin nor PTX")?;
    for (garbage, text) in [
        (vec![], "the image is empty"),
        (vec![0; 64], "neither a cubin (ELF), a fatbin, nor PTX"),
        (b"\x7fELF".to_vec(), "truncated cubin: the ELF header reaches to byte 64 of 4"),
    ] {
        let only = change(&|image| (image.cubin, image.ptx) = (Some(garbage.clone()), None));
        lab.refused(only, text)?;
        if let Ok(module) = change(&|image| image.cubin = Some(garbage.clone())) {
            ensure_eq!(module.loaded_from(), LoadedFrom::Ptx);
            ensure_eq!(module.global::<f64>(&stream, "half")?.read(&stream)?, [0.5]);
        }
    }
    let lying = change(&|image| {
        image.kernels.clear();
        image.lowered = vec![("other".into(), "fill".into()), ("fill".into(), "missing".into())];
    })?;
    ensure!(lying.kernel("missing").is_err());
    let _ = lying.kernel("fill").map(|kernel| kernel.attributes().is_ok());
    let other = lying.kernel("other")?;
    ensure_eq!(other.name(), "fill");
    // Without the signatures, the driver or nobody knows the parameters; a wrong number is refused or let pass.
    ensure!(other.parameters().is_none_or(|all| all.len() == 3));
    lab.refused(other.check_types(const { &[ArgType::value::<[u8; 65536]>()] }), "other")
        .or_else(|failure| if other.parameters().is_none() { Ok(()) } else { Err(failure) })?;
    let twice = change(&|image| {
        let again = image.kernels.clone();
        image.kernels.extend(again);
        image.kernels.reverse();
    })?;
    ensure_eq!(twice.kernel("fill")?.parameters().map(|all| all.len()), Some(3));
    Ok(())
}

attacks![
    "kernels",
    right(images_that_lie),
    right(ptx_with_changes),
    right(lazy_ptx_with_changes),
    right(binaries_with_changes),
    right(options_out_of_range),
    right(globals_that_do_not_fit),
    right(closed_while_handles_live),
    right(kernels_of_one_name),
];
