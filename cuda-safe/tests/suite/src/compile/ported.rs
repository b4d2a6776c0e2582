//! Embedded files and checked declarations, with every compiler and no device.

#![allow(dead_code, reason = "the kernels are declared to be checked, and never launched")]

use std::cell::RefCell;
use std::path::Path;

use cuda_safe::nvrtc::{Error, Nvrtc, Program};
use cuda_safe::{include_cuda, kernels};
use nvrtc::{Arch, Cache, Options};

use test_harness::{Case, Compiler, Failure, TestResult, cases, ensure, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "ported",
        compile(an_embedded_file_compiles),
        compile(a_circle_is_an_error),
        compile(line_information_names_files),
        compile(declarations_are_checked),
        compile(wrong_declarations_are_named),
    ]
}

thread_local! {
    /// The compiler of the test that runs, for sources of declarations.
    static LIBRARY: RefCell<Option<Nvrtc>> = const { RefCell::new(None) };
}

const SM_75: Arch = Arch::compute(7, 5);

fn with(program: Program) -> Program {
    let program = program.cache(&Cache::off()).cuda_headers(false);
    LIBRARY.with_borrow(|library| match library {
        Some(library) => program.library(library),
        None => program,
    })
}

fn smooth() -> Program {
    with(include_cuda!("../../kernels/ported/smooth.cu"))
}

kernels! {
    struct Smooth;
    // SAFETY: nothing is launched.
    unsafe in smooth() {
        unsafe fn smooth(x: &[f32], y: &mut [f32], n: u32);
        unsafe fn clamp_all<T in [f32, i32, u64]>(x: &mut [T], n: u32, limit: T);
    }
}

kernels! {
    struct Typo;
    // SAFETY: nothing is launched.
    unsafe in smooth() { unsafe fn smoth(x: &[f32], y: &mut [f32], n: u32); }
}

kernels! {
    struct TooFew;
    // SAFETY: nothing is launched.
    unsafe in smooth() { unsafe fn smooth(x: &[f32], y: &mut [f32]); }
}

kernels! {
    struct TooWide;
    // SAFETY: nothing is launched.
    unsafe in smooth() { unsafe fn smooth(x: &[f32], y: &mut [f32], n: u64); }
}

kernels! {
    struct NotConst;
    // SAFETY: nothing is launched.
    unsafe in smooth() { unsafe fn smooth(x: &[f32], y: &[f32], n: u32); }
}

kernels! {
    struct WrongElement;
    // SAFETY: nothing is launched.
    unsafe in smooth() { unsafe fn smooth(x: &[f64], y: &mut [f32], n: u32); }
}

kernels! {
    struct NoInstance;
    // SAFETY: nothing is launched.
    unsafe in smooth() {
        unsafe fn clamp_all<T in [f32, f64 = "missing"]>(x: &mut [T], n: u32, limit: T);
    }
}

kernels! {
    struct OfStruct<T in [f32, i32]>;
    // SAFETY: nothing is launched.
    unsafe in smooth() {
        unsafe fn clamp_all(x: &mut [T], n: u32, limit: T);
    }
}

const PTX: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
    .visible .entry plain(.param .u64 x, .param .f32 a)\n{\n\tret;\n}\n";

/// PTX as a source: an image of another program's.
struct Ptx;

impl cuda_safe::KernelSource for Ptx {
    fn load_kernels(
        self,
        context: &cuda_safe::Context,
        _: &[&str],
    ) -> cuda_safe::Result<cuda_safe::Module> {
        cuda_safe::Module::from_ptx(context, PTX)
    }

    fn signatures(self, arch: Arch, _: &[&str]) -> cuda_safe::Result<cuda_safe::KernelSignatures> {
        cuda_safe::KernelSignatures::from_ptx(PTX, arch)
    }
}

kernels! {
    struct OfPtx;
    // SAFETY: nothing is launched.
    unsafe in Ptx { unsafe fn plain(x: &mut [u32], a: f32); }
}

const GLOBALS: &str = r#"
    namespace filter { __constant__ float offset; __device__ int twice; }
    namespace { __device__ int twice; }
    __device__ double table[3][4];
    __managed__ unsigned count;
    template <class T> __device__ T value = 3;
    extern "C" __global__ void use(double* out) {
        out[0] = filter::offset + table[0][1] + count + filter::twice + twice;
    }
"#;

/// Declares a struct of the globals `$globals`.
macro_rules! globals {
    ($name:ident: $($globals:tt)*) => {
        kernels! {
            struct $name;
            // SAFETY: nothing is launched.
            unsafe in with(Program::new(GLOBALS)) { unsafe fn r#use(out: &mut [f64]); $($globals)* }
        }
    };
}

globals!(Globals:
    #[name = "filter::offset"] global offset: f32;
    global table: [[f64; 4]; 3];
    global count: u32;
    #[name = "value<double>"] global of_doubles: f64;
    #[name = "filter::twice"] global twice: i32;
);
globals!(GlobalTypo: global tabel: [[f64; 4]; 3];);
globals!(GlobalSize: global table: [f64; 11];);
globals!(GlobalKind: global count: f32;);
globals!(GlobalOfTemplate: #[name = "value<float>"] global value: i32;);

const TWINS: &str = ".version 8.0\n.target sm_75\n.address_size 64\n\
    .global .align 4 .u32 _ZN1b1xE;\n.global .align 4 .u32 _ZN1bL1xE;\n";

/// PTX with two variables of one name.
struct Twins;

impl cuda_safe::KernelSource for Twins {
    fn load_kernels(
        self,
        context: &cuda_safe::Context,
        _: &[&str],
    ) -> cuda_safe::Result<cuda_safe::Module> {
        cuda_safe::Module::from_ptx(context, TWINS)
    }

    fn signatures(self, arch: Arch, _: &[&str]) -> cuda_safe::Result<cuda_safe::KernelSignatures> {
        cuda_safe::KernelSignatures::from_ptx(TWINS, arch)
    }
}

kernels! {
    struct GlobalTwice;
    // SAFETY: nothing is launched.
    unsafe in Twins { #[name = "b::x"] global x: u32; }
}

fn an_embedded_file_compiles(compiler: &Compiler) -> TestResult {
    LIBRARY.set(Some(compiler.library.clone()));
    let image = smooth().compile(SM_75).map_err(|error| Failure::new(error.to_string()))?;
    ensure_eq!(image.log, "");
    ensure_eq!(image.kernels.len(), 1, "the template has no instance");
    Ok(())
}

fn a_circle_is_an_error(compiler: &Compiler) -> TestResult {
    LIBRARY.set(Some(compiler.library.clone()));
    let compiled = with(include_cuda!("../../kernels/ported/endless.cu")).compile(SM_75);
    let Err(Error::Compile(error)) = compiled else {
        return Err(Failure::new(format!("{compiled:?}")));
    };
    ensure!(error.log.contains("endless.h"), "{error}");
    Ok(())
}

/// Returns the files of the PTX's line information.
fn files(ptx: &str) -> Vec<&str> {
    let lines = ptx.lines().filter(|line| line.trim_start().starts_with(".file"));
    lines.filter_map(|line| line.split('"').nth(1)).collect()
}

fn line_information_names_files(compiler: &Compiler) -> TestResult {
    LIBRARY.set(Some(compiler.library.clone()));
    let compile = |program: Program, options: Options| {
        let image = program.options(options).compile(SM_75);
        image.map_err(|error| Failure::new(error.to_string())).map(|i| i.ptx.unwrap_or_default())
    };
    let lines = || Options::new().lineinfo(true);
    let ptx = compile(smooth(), lines())?;
    let named = files(&ptx);
    for end in ["kernels/ported/smooth.cu", "kernels/ported/lib/weights.h"] {
        ensure!(named.iter().any(|file| file.ends_with(end)), "{end}: {named:?}");
    }
    for file in named {
        ensure!(Path::new(file).is_absolute() && Path::new(file).is_file(), "{file}");
    }
    // The lines are the file's: the first statement behind the check of the index.
    let text = include_str!("../../kernels/ported/smooth.cu");
    let line = text.lines().position(|line| line.contains("float left =")).unwrap_or_default() + 1;
    ensure!(ptx.contains(&format!(" {line} ")), "line {line}: {ptx}");
    // Without line information, no path is in the image, nor in the cache's key.
    ensure!(files(&compile(smooth(), Options::new())?).is_empty());

    let folder = tempfile::tempdir()?;
    let path = folder.path().join("here.cu");
    let source = "__global__ void k(int* x) { *x = 1; }";
    std::fs::write(&path, source)?;
    let program = |name: &str| with(Program::new(source).name("here.cu").origin(name, &path));
    let here = path.display().to_string();
    ensure_eq!(files(&compile(program("here.cu"), lines())?), [here.as_str()]);
    // Another name than the program's, and a file that is gone, change nothing.
    ensure!(files(&compile(program("other.cu"), lines())?).iter().all(|file| *file != here));
    std::fs::remove_file(&path)?;
    ensure!(files(&compile(program("here.cu"), lines())?).iter().all(|file| *file != here));

    // The key has the path exactly if the image has it.
    let cache = Cache::at(folder.path().join("cache"));
    for (options, kept) in [(Options::new(), true), (lines(), false)] {
        let mut status = Vec::new();
        for name in ["a", "b"] {
            let path = folder.path().join(name);
            std::fs::write(&path, source)?;
            let program = with(Program::new(source).name("k.cu").origin("k.cu", path));
            let image = program.options(options.clone()).cache(&cache).compile(SM_75);
            status.push(image.map_err(|error| Failure::new(error.to_string()))?.cache);
        }
        ensure_eq!(status[1] == nvrtc::CacheStatus::Hit, kept, "{status:?}");
    }
    Ok(())
}

fn declarations_are_checked(compiler: &Compiler) -> TestResult {
    LIBRARY.set(Some(compiler.library.clone()));
    Smooth::check(SM_75)?;
    Smooth::check(Arch::sm(9, 0))?;
    OfStruct::<f32>::check(SM_75)?;
    OfStruct::<i32>::check(SM_75)?;
    OfPtx::check(Arch::sm(8, 0))?;
    Globals::check(SM_75)?;
    Ok(())
}

fn wrong_declarations_are_named(compiler: &Compiler) -> TestResult {
    LIBRARY.set(Some(compiler.library.clone()));
    for (check, part) in [
        (Typo::check as fn(Arch) -> cuda_safe::Result<()>, "no kernel `smoth`"),
        (TooFew::check, "takes 3 arguments, 2 given"),
        (
            TooWide::check,
            "argument `n` of kernel `smooth`: `u64` has 8 bytes, the kernel's `unsigned int` 4",
        ),
        (NotConst::check, "argument `y` of kernel `smooth`: "),
        (
            WrongElement::check,
            "argument `x` of kernel `smooth`: `&[f64]` does not fit the kernel's `const float*`",
        ),
        (NoInstance::check, "missing"),
        (OfStruct::<u8>::check, "has instances for f32 and i32, not for u8"),
        (GlobalTypo::check, "no global `tabel`; hint: the module has "),
        (
            GlobalSize::check,
            "`table` is declared as [f64; 11], which has 88 bytes, but the variable has 96",
        ),
        (GlobalKind::check, "`count` is declared as f32, but the variable is an integer"),
        (GlobalOfTemplate::check, "`value<float>` is declared as i32, but the variable is a float"),
        (GlobalTwice::check, "several variables are called `b::x`"),
        (OfPtx::check, "the PTX is for sm_80 and newer, not for compute_75"),
    ] {
        let message = match check(SM_75) {
            Ok(()) => return Err(Failure::new(format!("no error: {part}"))),
            Err(error) => error.to_string(),
        };
        ensure!(message.contains(part), "{message:?} lacks {part:?}");
    }
    Ok(())
}
