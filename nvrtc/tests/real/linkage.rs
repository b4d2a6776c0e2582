//! Types of kernels with C linkage, and where a source stands.

use std::fs;

use cuda_safe_nvrtc::{Arch, CacheStatus, Error, Image, Linker, Options, Program};
use ptx::mangled::{Type, parameters};

use crate::{Compiler, Outcome, Test};

pub(crate) const TESTS: &[Test] = &[
    ("types_do_not_depend_on_the_linkage", types_do_not_depend_on_the_linkage),
    ("unknown_and_overloaded_names_are_no_errors", unknown_and_overloaded_names_are_no_errors),
    ("macros_do_not_change_types", macros_do_not_change_types),
    ("types_survive_the_cache_and_the_link", types_survive_the_cache_and_the_link),
    ("messages_name_the_file_that_has_the_source", messages_name_the_file_that_has_the_source),
    ("moved_lines_keep_the_cached_image", moved_lines_keep_the_cached_image),
];

const SM_90: Arch = Arch::sm(9, 0);

/// Each kernel `k` has these parameters, and `P` may be a type of the source's.
const PARAMETERS: &str =
    "(float a, const float* __restrict__ x, FP y, unsigned n, const T* t, P p)";

fn types() -> Vec<Type> {
    // k(float, const float*, float*, unsigned, const T*, P)
    parameters("_Z1kfPKfPfjPK1T1P")
}

fn of(image: &Image) -> Vec<Type> {
    let k = image.kernels.iter().find(|kernel| kernel.name == "k" || kernel.name.contains("1k"));
    k.map(|kernel| kernel.types.clone()).unwrap_or_default()
}

fn types_do_not_depend_on_the_linkage(c: &Compiler) -> Outcome {
    let folder = c.folder.path();
    let k = format!("void k{PARAMETERS} {{ *y = a + *x; }}");
    fs::write(folder.join("file.h"), format!("extern \"C\" __global__ {k}"))?;
    let types = "struct T { int x; }; struct P { int y; }; typedef float* FP;\n";
    let program = |text: &str| c.program(&format!("{types}{text}"));
    let programs: Vec<(&str, Program)> = vec![
        ("mangled", program(&format!("__global__ {k}"))),
        ("direct", program(&format!("extern \"C\" __global__ {k}"))),
        ("bounds", program(&format!("extern \"C\" __global__ __launch_bounds__(128) {k}"))),
        ("block", program(&format!("extern \"C\" {{ __global__ {k} }}"))),
        ("namespace", program(&format!("namespace n::m {{ extern \"C\" __global__ {k} }}"))),
        ("anonymous", program(&format!("namespace {{ extern \"C\" {{ __global__ {k} }} }}"))),
        (
            "conditional block",
            program(&format!(
                "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n__global__ {k}\n#ifdef __cplusplus\n}}\n#endif\n"
            )),
        ),
        (
            "macro",
            program(&format!("#define KERNEL extern \"C\" __global__\nKERNEL {k}")).kernel("k"),
        ),
        (
            "macro with the name",
            program(&format!(
                "#define MAKE(NAME) extern \"C\" __global__ void NAME{PARAMETERS} {{ *y = a; }}\nMAKE(k)"
            ))
            .kernel("k"),
        ),
        (
            "header",
            program("#include \"h.h\"").header("h.h", format!("extern \"C\" __global__ {k}")),
        ),
        ("file", program("#include <file.h>").include_path(folder).kernel("k")),
        ("relocatable", program(&format!("extern \"C\" __global__ {k}")).relocatable(true)),
        (
            "beside expressions",
            program(&format!("template <class U> __global__ void t(U) {{}} extern \"C\" __global__ {k}"))
                .name_expression("t<int>"),
        ),
    ];
    let mut plain = None;
    for (what, program) in programs {
        let image = program.compile(SM_90)?;
        // In a namespace, types of another one are as they were.
        assert_eq!(of(&image), self::types(), "{what}");
        assert_eq!(image.log, "", "{what}");
        if what == "beside expressions" {
            assert!(image.lowered("t<int>").is_some());
        }
        // Asking leaves nothing in the image.
        let ptx = image.ptx.clone().unwrap_or_default();
        assert!(!ptx.contains("parameters_of"), "{what}: {ptx}");
        if what == "direct" {
            plain = Some(ptx);
        }
    }
    assert!(plain.is_some());
    Ok(())
}

fn unknown_and_overloaded_names_are_no_errors(c: &Compiler) -> Outcome {
    let source = "extern \"C\" __global__ void k(float* x) {}
        #if 0
        extern \"C\" __global__ void absent(float* x) {}
        #endif
        __global__ void twice(int) {} __global__ void twice(float) {}
        template <class T> __global__ void instance(T) {}";
    let program = c.program(source).kernel("nowhere").kernel("twice").kernel("instance");
    let image = program.kernel("k").kernel("_Z5twicef").compile(SM_90)?;
    assert_eq!(of(&image), parameters("_Z1kPf"));
    // An error of the source's comes alone.
    let wrong = format!("{source} __global__ void bad() {{ x = 1; }}");
    let Err(Error::Compile(error)) = c.program(&wrong).kernel("nowhere").compile(SM_90) else {
        return Err("compiled".into());
    };
    assert!(error.log.contains("1 error detected"), "{error}");
    assert!(!error.log.contains("parameters_of"), "{error}");
    Ok(())
}

fn macros_do_not_change_types(c: &Compiler) -> Outcome {
    let kernels = "extern \"C\" __global__ void k(float* x) {}
        namespace n { extern \"C\" __global__ void other(int* x) {} }\n";
    let folder = c.folder.path();
    fs::write(folder.join("macros.h"), "#define k n::other\n")?;
    let want = parameters("_Z1kPf");
    for after in [
        "#define k n::other",
        "#define decltype(x) void (*)(int*)",
        "#define cuda_safe n\n#define parameters_of other",
        "#include \"macros.h\"",
        "#define k n::other // \\",
    ] {
        let program = c.program(&format!("{kernels}{after}")).include_path(folder);
        assert_eq!(of(&program.compile(SM_90)?), want, "{after}");
    }
    // The caller's expression means the macro, and the kernel's is not asked for.
    let program = c.program(&format!("{kernels}#define k n::other")).name_expression("k");
    let image = program.compile(SM_90)?;
    assert_eq!((image.lowered("k"), of(&image)), (Some("other"), Vec::new()));
    // The end of the source is where it was.
    for place in [1u32, 41] {
        let program = c.program(&format!("{kernels}void open() {{\n")).part_of("a.cu", place);
        let Err(Error::Compile(error)) = program.compile(SM_90) else {
            return Err("compiled".into());
        };
        let last = error.diagnostics.iter().filter_map(|d| d.line).max();
        assert!(last.is_some_and(|line| line < place + 4), "{error}");
    }
    Ok(())
}

fn types_survive_the_cache_and_the_link(c: &Compiler) -> Outcome {
    let cache = c.cache();
    let program = c.program("extern \"C\" __global__ void k(const double* x) {}").cache(&cache);
    let want = parameters("_Z1kPKd");
    for status in [CacheStatus::Stored, CacheStatus::Hit] {
        let image = program.compile(SM_90)?;
        assert_eq!((&image.cache, of(&image)), (&status, want.clone()));
    }
    let image = program.relocatable(true).compile(SM_90)?;
    let linked = Linker::new(Arch::compute(9, 0)).image("k", &image).link()?;
    assert_eq!(of(&linked), want);
    Ok(())
}

fn messages_name_the_file_that_has_the_source(c: &Compiler) -> Outcome {
    let source = "__global__ void k(float* x) {\n    x[j] = 1;\n}\nint main() { return 0; }\n";
    let program = c.program(source).part_of("src/main.rs", 41);
    let Err(Error::Compile(error)) = program.compile(SM_90) else {
        return Err("compiled".into());
    };
    assert!(error.log.contains("src/main.rs(42): error: identifier \"j\""), "{error}");
    let lines: Vec<_> = error.diagnostics.iter().filter_map(|d| d.line).collect();
    assert_eq!(lines, [42, 44]);
    let hint = error.hint.clone().unwrap_or_default();
    assert!(hint.contains("line 44 of src/main.rs is host code"), "{hint}");
    // A call that NVRTC reports in its own header is looked for in the source.
    let call =
        "__global__ void k(float* x) {}\n\n__global__ void l(void** d) { cudaMalloc(d, 4); }\n";
    if c.version.major > 12
        && let Err(Error::Compile(error)) = c.program(call).part_of("src/main.rs", 7).compile(SM_90)
    {
        assert!(error.to_string().contains("line 9 of src/main.rs"), "{error}");
    }
    // Quoted includes are where they were: the directive names no folder to search.
    let header =
        c.program("#include \"h.h\"\n__device__ int v = N;").header("h.h", "#define N 1\n");
    assert_eq!(header.part_of("src/main.rs", 3).compile(SM_90)?.log, "");
    // Names that the directive could not hold.
    let odd = c.program("__global__ void k() { j; }").part_of("a\"b\\c\nd", 0).compile(SM_90);
    let Err(Error::Compile(error)) = odd else { return Err(format!("{odd:?}").into()) };
    assert!(error.log.contains("(1): error"), "{error}");
    Ok(())
}

fn moved_lines_keep_the_cached_image(c: &Compiler) -> Outcome {
    let cache = c.cache();
    let base = c.program("__global__ void k(float* x) { *x = 1; }").cache(&cache);
    let at = |program: &Program, line| program.clone().part_of("src/main.rs", line).compile(SM_90);
    assert_eq!(at(&base, 10)?.cache, CacheStatus::Stored);
    assert_eq!(at(&base, 12)?.cache, CacheStatus::Hit);
    // Where the image says the line, it is in the key.
    let file = c.folder.path().join("main.rs");
    fs::write(&file, "")?;
    let lines = base.clone().options(Options::new().lineinfo(true));
    let on_disk = lines.clone().origin("test.cu", &file);
    for (program, path) in [(&lines, "src/main.rs"), (&on_disk, file.to_str().unwrap_or("?"))] {
        for (line, status) in
            [(10, CacheStatus::Stored), (12, CacheStatus::Stored), (10, CacheStatus::Hit)]
        {
            let image = at(program, line)?;
            assert_eq!(image.cache, status, "{path} {line}");
            let ptx = image.ptx.unwrap_or_default();
            assert!(ptx.contains(&format!("{path}\"")), "{path}: {ptx}");
            assert!(ptx.contains(&format!(".loc\t1 {line} ")), "{ptx}");
        }
    }
    let prints = "__global__ void k(int* x) { *x = __LINE__; }";
    let prints = c.program(prints).cache(&cache);
    assert_eq!(at(&prints, 10)?.cache, CacheStatus::Stored);
    assert_eq!(at(&prints, 12)?.cache, CacheStatus::Stored);
    Ok(())
}
