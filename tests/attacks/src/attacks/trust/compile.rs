//! Attacks on the compiler's wrapper: names, options, headers and sources that are hostile.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;

use cuda_safe::nvrtc::{Arch, Cache, CacheStatus, Error, Image, Nvrtc, Options, Program, Std};
use cuda_safe::{DeviceBuffer, Module, include_cuda, kernels};
use test_harness::{Failure, Outcome, TestResult, ensure, ensure_eq, limited_to};

use super::{SOURCE, private};
use crate::attack::attacks;
use crate::lab::Lab;

/// The architecture that all these programs are compiled for.
const ARCH: Arch = Arch::compute(7, 5);

/// Compiles sources, names, headers and options with zeros, line ends and names that lead out of folders.
///
/// - row: launching foreign code is unsafe
/// - targets: `Program::new`, `Program::compile`, `Program::name`, `Program::header`, `Program::name_expression`,
///   `Program::options`, `Program::cache`, `Cache::off`, `Options::extra`, `Options::time_trace`
fn hostile_names_and_options(lab: &Lab) -> TestResult {
    let program = |source: &str| Program::new(source).cache(&Cache::off());
    let plain = program(SOURCE);
    for refused in [
        program("extern \"C\" __global__ void f() {}\0 int"),
        plain.clone().name("a\0b.cu"),
        plain.clone().header("a\0b.h", "int a;"),
        plain.clone().header("a.h", "int a\0;"),
        plain.clone().name_expression("f\0g"),
        plain.clone().name_expression(""),
        plain.clone().name_expression("no_such<int>"),
        plain.clone().name_expression("f); int x("),
        plain.clone().options(Options::new().define("A\0B", 1)),
        plain.clone().options(Options::new().extra("--no-such-option")),
        plain.clone().options(Options::new().extra("--gpu-architecture=sm_9999")),
        plain.clone().options(Options::new().extra("a\0b")),
        plain.clone().options(Options::new().time_trace("no/such/folder/trace.json")),
        program("#error stop\n"),
        program("#include \"a.h\"\n").header("a.h", "#include \"a.h\"\n"),
        program("#include \"no_such_header.h\"\n"),
        program(
            "template<int N> struct S { static constexpr int v = S<N + 1>::v; }; int a = S<0>::v;",
        ),
        program("int f( {"),
    ] {
        lab.refused(refused.compile(ARCH), "")?;
    }
    // These are odd, and no error: the image has the kernel.
    fs::write("escaped.h", "#error this file was read\n")?;
    for odd in [
        plain.clone().name(""),
        plain.clone().name("../../../etc/passwd"),
        plain.clone().name("a\nb\".cu"),
        plain.clone().name("x".repeat(5000)),
        plain.clone().header("", "int unused;"),
        plain.clone().header("../escaped.h", "#error not included\n"),
        plain.clone().header("x".repeat(5000), "int unused;"),
        program(&format!("#include \"escaped.h\"\n{SOURCE}")).header("escaped.h", "int a;"),
        plain.clone().options(Options::new().define("A", "1\n#error injected\n")),
        plain.clone().options(Options::new().define("A=2 -DB", "3")),
        plain.clone().options(Options::new().include_path("no/such/folder")),
    ] {
        match odd.compile(ARCH) {
            Ok(image) => ensure!(image.kernel("f").is_some(), "{}", image.log),
            Err(Error::Compile(error)) => {
                ensure!(!error.to_string().contains("this file was read"), "{error}");
            }
            Err(error) => lab.refused(Err::<(), _>(error), "")?,
        }
    }
    // Macros do not change what the image says of a kernel's parameters.
    let types = |source: &str| -> Result<_, Failure> {
        let image = program(source).compile(ARCH)?;
        let kernel = image.kernels.into_iter().find(|kernel| kernel.name.contains('f'));
        Ok(kernel.map(|kernel| kernel.types))
    };
    let wanted = types("__global__ void f(float*) {}")?;
    for last in ["#define f g", "#define decltype(x) void (*)(int*)"] {
        let c = "extern \"C\" __global__ void";
        ensure_eq!(types(&format!("{c} f(float*) {{}}\n{c} g(int*) {{}}\n{last}\n"))?, wanted);
    }
    // An error of the compiler has its place in the source.
    let error = program("\n\nint f() { return no_such; }\n").name("named.cu").compile(ARCH);
    let Err(Error::Compile(error)) = error else { return Err(Failure::new("not refused")) };
    let place = error.diagnostics.first().map(|d| (d.file.as_deref(), d.line));
    ensure_eq!(place, Some((Some("named.cu"), Some(3))));
    Ok(())
}

kernels! {
    struct Quoted;
    // SAFETY: thread i writes element i alone, if i < n; the functions of the included headers touch no memory.
    unsafe in include_cuda!("quoted.cu") {
        safe fn clamped(x: &[f32], out: &mut [f32], n: u32 = x.len()) over n where out.len() == x.len();
    }
}

/// Puts headers with the names of those that an embedded file includes into the current folder of the process, and into a
/// folder there with the package's name.
///
/// - row: a program of `include_cuda!` has the files
/// - targets: `include_cuda!`
fn headers_of_the_current_folder(lab: &Lab) -> TestResult {
    const EVIL: &str = "#define clamped(x, out, n) clamped(float* x, float* y, unsigned n) { *(float*)0x1234560 = 1.0f; }\
        static void unused(const float* x, float* out, unsigned n)\n";
    for folder in [".", "attacks", "attacks/src/attacks/trust"] {
        fs::create_dir_all(folder)?;
        for name in ["math.h", "limits.h", "quoted.h", "not_there.h"] {
            fs::write(Path::new(folder).join(name), EVIL)?;
        }
    }
    let stream = lab.stream()?;
    let kernels = Quoted::load(&lab.context()?)?;
    let x = DeviceBuffer::from_slice(&stream, &[-1.0f32, 0.5, 7.0])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 3)?;
    kernels.clamped(&stream, &x, &mut out)?;
    ensure_eq!(out.to_vec(&stream)?, [0.0, 0.5, 1.0]);
    Ok(())
}

/// Compiles in a process that may write no file, with a cache in a new folder, and whose write to a file must be the signal
/// that it is anywhere else.
///
/// - row: a cache that cannot be written
/// - targets: `Cache::at`, `Program::cache`, `Program::compile`
fn a_process_that_may_write_no_file(lab: &Lab) -> TestResult {
    if lab.step() == "limited" {
        let cache = Cache::at(std::path::absolute("cache")?);
        let image = Program::new(SOURCE).cache(&cache).compile(ARCH)?;
        ensure!(image.kernel("f").is_some(), "{}", image.log);
        ensure!(matches!(image.cache, CacheStatus::Uncached(_)), "{:?}", image.cache);
        let names = fs::read_dir("cache")?.map(|file| Ok(file?.file_name()));
        let names = names.collect::<std::io::Result<Vec<_>>>()?;
        ensure!(names.is_empty(), "left in the cache: {names:?}");
        fs::write("written", "after the compile")?;
        return Err(Failure::new("the signal has no effect any more"));
    }
    let again = lab.again("limited")?;
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 0 && exec \"$0\" \"$@\""]).arg(again.get_program());
    command.args(again.get_args());
    for (name, value) in again.get_envs() {
        value.map(|value| command.env(name, value));
    }
    let Outcome { status, stdout, stderr } = limited_to(command, 30)?;
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    ensure_eq!(signal, Some(libc::SIGXFSZ), "{status}\n{stdout}\n{stderr}");
    ensure!(fs::read("written")?.is_empty(), "the file was written");
    Ok(())
}

/// Changes a header so that its length and its time stay as they were, and compiles with the cache again.
///
/// - row: a cache that others could change is not used
/// - targets: `Program::include_path`, `Program::cache`, `Cache::at`, `Program::compile`
fn headers_that_change_in_secret(lab: &Lab) -> TestResult {
    let folders = ["cache", "first", "second"];
    folders.into_iter().try_for_each(|folder| private(Path::new(folder)))?;
    let cache = Cache::at(std::path::absolute("cache")?);
    let (header, times) = ("second/value.h", fs::metadata(".")?.modified()?);
    let put = |path: &str, text: &str| -> TestResult {
        fs::write(path, text)?;
        fs::File::options().write(true).open(path)?.set_modified(times)?;
        Ok(())
    };
    put(header, "#define VALUE 111\n")?;
    put("second/outer.h", "#include \"value.h\"\n")?;
    put("other.h", "#define VALUE 222\n")?;
    let variant = lab.variant();
    let include = match variant {
        "has_include" => {
            "#if __has_include(\"extra.h\")\n#define VALUE 222\n#else\n#include \"value.h\"\n#endif"
        }
        "nested" => "#include <outer.h>",
        _ => "#include \"value.h\"",
    };
    if variant == "link" {
        fs::remove_file(header)?;
        fs::rename("other.h", "new.h")?;
        put("old.h", "#define VALUE 111\n")?;
        std::os::unix::fs::symlink("../old.h", header)?;
    }
    let source = format!("{include}\nextern \"C\" __global__ void f(int* x) {{ *x = VALUE; }}\n");
    let mut program = Program::new(source).cache(&cache);
    for folder in ["first", "second"] {
        program = program.include_path(std::path::absolute(folder)?);
    }
    let has = |image: &Image, number: &str| {
        image.ptx.as_ref().is_some_and(|ptx| ptx.contains(&format!(" {number};")))
    };
    let first = program.compile(ARCH)?;
    ensure!(has(&first, "111"), "{:?}", first.ptx);
    match variant {
        "same_length_and_time" | "nested" => put(header, "#define VALUE 222\n")?,
        "shadowed" => put("first/value.h", "#define VALUE 222\n")?,
        "shadowed_by_memory" => program = program.header("value.h", "#define VALUE 222\n"),
        "link" => {
            fs::remove_file(header)?;
            std::os::unix::fs::symlink("../new.h", header)?;
        }
        "has_include" => put("second/extra.h", "")?,
        _ => fs::remove_file(header)?,
    }
    match program.compile(ARCH) {
        Ok(second) => {
            ensure!(variant != "removed", "a header that is gone was not missed");
            ensure!(has(&second, "222"), "{:?}: the old header is in it", second.cache);
        }
        Err(error) => {
            ensure_eq!(variant, "removed");
            ensure!(matches!(error, Error::Compile(_)), "{error}");
        }
    }
    Ok(())
}

/// Compiles one source in eight threads with one cache, whose files another thread deletes, cuts and swaps.
///
/// - row: a FIFO, device or link in place of a file
/// - row: bytes that are not an image
/// - targets: `Cache::at`, `Program::compile`, `Module::load`, `Cache::folder`
fn a_cache_that_is_changed_while_in_use(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let stream = context.stream()?;
    private(Path::new("cache"))?;
    let folder = std::path::absolute("cache")?;
    let start = Barrier::new(5);
    let (start, folder) = (&start, &folder);
    let compile = |number: usize| {
        let source =
            format!("extern \"C\" __global__ void f(int* x) {{ *x = {}; }}", 500 + number % 2);
        Program::new(source).cache(&Cache::at(folder)).compile(ARCH)
    };
    let compile = &compile;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|number| {
                scope.spawn(move || {
                    start.wait();
                    (0..6).map(|round| Ok((number + round, compile(number + round)?))).collect()
                })
            })
            .collect();
        start.wait();
        for round in 0..60 {
            let files: Vec<_> =
                fs::read_dir(folder)?.filter_map(Result::ok).map(|f| f.path()).collect();
            // The files may be gone already.
            for (i, path) in files.iter().enumerate() {
                let _ = match (round + i) % 4 {
                    0 => fs::remove_file(path),
                    1 => fs::write(path, b"cut"),
                    2 => fs::rename(path, &files[(i + 1) % files.len()]),
                    _ => fs::write(path, vec![0u8; 1 << 16]),
                };
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        for thread in threads {
            let compiled: Result<Vec<_>, Error> =
                thread.join().map_err(|_| Failure::new("a panic"))?;
            for (number, image) in compiled? {
                let value = format!(" {};", 500 + number % 2);
                let ptx = image.ptx.as_deref().unwrap_or_default();
                ensure!(ptx.contains(&value), "{:?}: not the image of this source", image.cache);
            }
        }
        Ok::<_, Failure>(())
    })?;
    // What is left does no harm either.
    let module = Module::load(&context, &compile(0)?)?;
    ensure_eq!(module.kernel_names(), ["f"]);
    drop(DeviceBuffer::<u32>::zeroed(&stream, 1)?);
    Ok(())
}

/// Puts the cache's entry of one program in the place of another one's, and cuts and changes entries.
///
/// - row: a FIFO, device or link in place of a file
/// - targets: `Cache::at`, `Program::compile`, `Image::kernel`
fn entries_of_other_programs(lab: &Lab) -> TestResult {
    private(Path::new("cache"))?;
    let folder = std::path::absolute("cache")?;
    let program = |number: u32| {
        let source = format!("extern \"C\" __global__ void f{number}(int* x) {{ *x = {number}; }}");
        Program::new(source).cache(&Cache::at(&folder))
    };
    let images = || -> Result<Vec<_>, Failure> {
        let all =
            fs::read_dir(&folder)?.map(|f| Ok(f?.path())).collect::<std::io::Result<Vec<_>>>()?;
        Ok(all.into_iter().filter(|p| p.extension().is_some_and(|e| e == "image")).collect())
    };
    program(1).compile(ARCH)?;
    let before = images()?;
    program(2).compile(ARCH)?;
    let (Some(first), Some(second)) =
        (before.last(), images()?.into_iter().find(|path| !before.contains(path)))
    else {
        return Err(Failure::new("the cache has no two images"));
    };
    ensure_eq!(program(2).compile(ARCH)?.cache, CacheStatus::Hit);
    let whole = fs::read(&second)?;
    let mut kinds = Vec::new();
    match lab.variant() {
        "swapped" => kinds.push(fs::read(first)?),
        "cut" => kinds
            .extend([0, 1, 7, 40, whole.len() / 2, whole.len() - 1].map(|n| whole[..n].to_vec())),
        "longer" => kinds.push([&whole[..], &[0]].concat()),
        "flipped" => kinds.extend((0..whole.len()).step_by(whole.len() / 40 + 1).map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            bytes
        })),
        _ => {
            fs::remove_file(&second)?;
            fs::hard_link(first, &second)?;
            let image = program(2).compile(ARCH)?;
            ensure!(image.kernel("f2").is_some() && image.cache != CacheStatus::Hit);
        }
    }
    for bytes in kinds {
        fs::write(&second, bytes)?;
        let image = program(2).compile(ARCH)?;
        ensure!(image.kernel("f2").is_some() && image.kernel("f1").is_none());
        ensure!(image.cache != CacheStatus::Hit, "a changed entry was taken");
        // It is stored again.
        ensure_eq!(program(2).compile(ARCH)?.cache, CacheStatus::Hit);
    }
    ensure_eq!(program(1).compile(ARCH)?.cache, CacheStatus::Hit);
    Ok(())
}

/// Takes an image apart, gives it the code and the signatures of others, and loads it.
///
/// - row: bytes that are not an image
/// - targets: `Module::load`, `Module::kernel`, `Program::compile`, `Image::lowered`
fn images_put_together_from_others(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let one = Program::new(SOURCE).cache(&Cache::off()).compile(ARCH)?;
    let two = Program::new("extern \"C\" __global__ void g(double* x, int n) { x[n] = 1; }");
    let two = two.cache(&Cache::off()).compile(ARCH)?;
    ensure_eq!(one.lowered("f"), None);
    let mut garbage = one.clone();
    garbage.ptx = Some("\u{1F600}.version 99.9\n.entry".to_owned());
    garbage.cubin = None;
    ensure!(Module::load(&context, &garbage).is_err());
    garbage.cubin = Some(vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0xff, 0xff]);
    let mut none = one.clone();
    (none.ptx, none.cubin) = (None, None);
    ensure!(Module::load(&context, &none).is_err());
    // The signatures are another's: the kernels are those of the code.
    let mut mixed = one.clone();
    mixed.kernels = two.kernels.clone();
    if let Ok(module) = Module::load(&context, &mixed) {
        ensure!(module.kernel("g").is_err(), "a kernel that is not in the code was found");
        if let Ok(kernel) = module.kernel("f") {
            let parameters = kernel.parameters().map(|all| all.len());
            ensure!(parameters.is_none_or(|n| n == 1), "{parameters:?} parameters, not 1");
        }
    }
    let mut empty = one.clone();
    empty.kernels.clear();
    if let Ok(module) = Module::load(&context, &empty)
        && let Ok(kernel) = module.kernel("f")
    {
        ensure!(kernel.parameters().is_none_or(|all| all.len() == 1));
    }
    Module::load(&context, &one)?.kernel("f")?;
    Ok(())
}

/// Asks for architectures that there are not, and compiles for them.
///
/// - row: launching foreign code is unsafe
/// - targets: `Arch::clamped`, `Arch::sm`, `Program::compile`, `Nvrtc::find`, `Nvrtc::include_paths`,
///   `Nvrtc::supported_archs`, `Options::std`
fn architectures_that_are_not(lab: &Lab) -> TestResult {
    for text in
        ["", "sm_", "sm_9", "sm_-90", "sm_99999999999999999999", "compute_75x", "sm_90aa", "sm_٩٠"]
    {
        lab.refused(
            text.parse::<Arch>(),
            "is no architecture: expected sm_90, sm_90a, compute_75 or the like",
        )?;
    }
    let program = Program::new(SOURCE).cache(&Cache::off()).options(Options::new().std(Std::Cpp20));
    let nvrtc = Nvrtc::find()?;
    let known = nvrtc.supported_archs()?;
    ensure!(!known.is_empty() && known.is_sorted_by_key(|arch| arch.capability()));
    for path in nvrtc.include_paths() {
        ensure!(path.is_dir() && path.is_absolute(), "{}", path.display());
    }
    for old in [Arch::sm(0, 0), Arch::sm(1, 0), Arch::compute(2, 9)] {
        lab.refused(program.compile(old), "cannot compile for")?;
    }
    for odd in [Arch::sm(u32::MAX, u32::MAX), Arch::sm(429_496_730, 0), Arch::sm(99, 9)] {
        // The newest that the compiler knows, or an error; nothing that wraps around.
        match program.compile(odd) {
            Ok(image) => {
                ensure_eq!(Some(image.arch.capability()), known.last().map(|a| a.capability()));
            }
            Err(error) => lab.refused(Err::<(), _>(error), "")?,
        }
        ensure_eq!(odd.clamped(&[]), None);
        ensure_eq!(odd.specific().clamped(&[90]), None);
    }
    Ok(())
}

/// Puts other headers in the place of the crates' own, with the cache on: programs without them are compiled as before.
///
/// - row: a cache that others could change is not used
/// - row: the current folder takes no part in a search
/// - targets: `program`, `Program::header`, `Program::include_path`, `Program::compile`
fn headers_in_the_place_of_the_crates(lab: &Lab) -> TestResult {
    private(Path::new("cache"))?;
    private(Path::new("geom"))?;
    let cache = Cache::at(std::path::absolute("cache")?);
    let other = "#define REPLACED 1\n";
    fs::write("geom/tape.cuh", other)?;
    let source = "#include <geom/tape.cuh>\n#ifdef REPLACED\n#error replaced\n#endif\n\
                  extern \"C\" __global__ void f(float* x) { *x = sizeof(geom::tape::Frame); }";
    let program = || {
        let program = match lab.variant() {
            "tape" => tape::program(source),
            _ => geom_kernels::program(source),
        };
        program.cache(&cache)
    };
    let first = program().compile(ARCH)?;
    ensure!(first.kernel("f").is_some() && first.cache != CacheStatus::Hit);
    for round in 0..3 {
        // The folder is searched after what the program brings along.
        let folder = Options::new().include_path(std::path::absolute(".")?);
        for own in [program(), program().options(folder)] {
            let image = own.compile(ARCH)?;
            ensure!(image.ptx == first.ptx && image.cubin == first.cubin, "round {round}");
        }
        match program().header("geom/tape.cuh", other).compile(ARCH) {
            Err(Error::Compile(error)) => {
                ensure!(error.to_string().contains("replaced"), "{error}");
            }
            Err(error) => lab.refused(Err::<(), _>(error), "the header geom/tape.cuh")?,
            Ok(image) => ensure!(image.ptx == first.ptx && image.cubin == first.cubin),
        }
        let plain = Program::new(source).cache(&cache).compile(ARCH);
        ensure!(matches!(plain, Err(Error::Compile(_))), "a header of the current folder is used");
    }
    ensure_eq!(program().compile(ARCH)?.cache, CacheStatus::Hit);
    Ok(())
}

attacks![
    "trust",
    right(headers_of_the_current_folder),
    right(a_process_that_may_write_no_file),
    refused(hostile_names_and_options),
    right(headers_that_change_in_secret).variants(&[
        "same_length_and_time",
        "shadowed",
        "shadowed_by_memory",
        "link",
        "has_include",
        "nested",
        "removed"
    ]),
    right(a_cache_that_is_changed_while_in_use),
    right(entries_of_other_programs).variants(&[
        "swapped",
        "hard_link",
        "cut",
        "flipped",
        "longer"
    ]),
    right(images_put_together_from_others),
    refused(architectures_that_are_not),
    right(headers_in_the_place_of_the_crates).variants(&["tape", "geometry"]).limit(60),
];
