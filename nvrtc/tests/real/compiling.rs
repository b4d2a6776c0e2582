//! From text to image.

use cuda_safe_nvrtc::{Arch, Class, Error, Image, Options, Severity, Std};
use ptx::mangled::{Pointee, Scalar, Type, parameters};

use crate::{Compiler, Outcome, Test};

pub(crate) const TESTS: &[Test] = &[
    ("one_compile_gives_cubin_and_ptx", one_compile_gives_cubin_and_ptx),
    ("a_virtual_architecture_gives_ptx_alone", a_virtual_architecture_gives_ptx_alone),
    ("lto_gives_lto_ir_alone", lto_gives_lto_ir_alone),
    (
        "templates_come_back_under_their_lowered_names",
        templates_come_back_under_their_lowered_names,
    ),
    ("headers_come_from_memory_and_from_folders", headers_come_from_memory_and_from_folders),
    ("a_trace_that_cannot_be_written_is_an_error", a_trace_that_cannot_be_written_is_an_error),
    ("cudas_own_headers_are_found", cudas_own_headers_are_found),
    ("options_reach_the_compiler", options_reach_the_compiler),
    ("warnings_come_with_the_image", warnings_come_with_the_image),
    ("empty_and_huge_sources_compile", empty_and_huge_sources_compile),
    (
        "an_unknown_architecture_is_clamped_or_refused",
        an_unknown_architecture_is_clamped_or_refused,
    ),
    ("mangled_names_state_what_the_source_said", mangled_names_state_what_the_source_said),
    ("signatures_are_those_of_the_source", signatures_are_those_of_the_source),
    ("ten_threads_compile_at_once", ten_threads_compile_at_once),
];

const SM_90: Arch = Arch::sm(9, 0);

fn cudas_own_headers_are_found(c: &Compiler) -> Outcome {
    if c.version.major < 13 {
        // The headers that the setup fetches are newer than this compiler.
        assert!(!c.library.include_paths().is_empty());
        return Ok(());
    }
    let source =
        "#include <cuda_fp16.h>\n#include <cooperative_groups.h>\n#include <cuda/std/cstdint>
        extern \"C\" __global__ void k(__half* x, cuda::std::uint32_t n) {
            if (threadIdx.x < n) x[threadIdx.x] = __hmul(x[threadIdx.x], x[0]);
            cooperative_groups::this_thread_block().sync();
        }";
    let image = c.program(source).compile(SM_90)?;
    assert_eq!(image.kernels.len(), 1);
    let without = c.program(source).cuda_headers(false).compile(SM_90);
    assert!(matches!(without, Err(Error::Compile(_))), "{without:?}");
    Ok(())
}

fn ptx(image: &Image) -> &str {
    image.ptx.as_deref().unwrap_or_default()
}

fn one_compile_gives_cubin_and_ptx(c: &Compiler) -> Outcome {
    let image = c.program("extern \"C\" __global__ void k(float* x) { *x = 1; }").compile(SM_90)?;
    assert!(image.cubin.as_deref().is_some_and(|b| b.starts_with(b"\x7fELF")));
    let isa = if c.version.major == 12 { ".version 8.0\n" } else { ".version 9.0\n" };
    assert!(
        ptx(&image).contains(isa) && ptx(&image).contains(".target sm_90\n"),
        "{}",
        ptx(&image)
    );
    assert!(!ptx(&image).contains('\0'));
    assert_eq!((image.arch, image.version, image.log.as_str()), (SM_90, c.version, ""));
    assert_eq!(image.kernel("k").map(|k| k.params.len()), Some(1));
    assert_eq!(image.lto_ir, None);
    Ok(())
}

fn a_virtual_architecture_gives_ptx_alone(c: &Compiler) -> Outcome {
    let image = c.program("__global__ void k() {}").compile(Arch::compute(7, 5))?;
    assert_eq!(image.cubin, None);
    assert!(ptx(&image).contains(".target sm_75\n"));
    Ok(())
}

fn lto_gives_lto_ir_alone(c: &Compiler) -> Outcome {
    let image =
        c.program("__global__ void k() {}").options(Options::new().lto(true)).compile(SM_90)?;
    assert!(image.lto_ir.is_some_and(|b| !b.is_empty()));
    assert_eq!((image.cubin, image.ptx, image.kernels.len()), (None, None, 0));
    Ok(())
}

fn templates_come_back_under_their_lowered_names(c: &Compiler) -> Outcome {
    let source = "namespace n { template <class T, int N> __global__ void fill(T* x) { *x = N; } }
        __constant__ float table[4];";
    let image = c
        .program(source)
        .name_expression("n::fill<float, 3>")
        .name_expression("n::fill<double, 4>")
        .name_expression("&table")
        .compile(SM_90)?;
    assert_eq!(image.lowered("n::fill<float, 3>"), Some("_ZN1n4fillIfLi3EEEvPT_"));
    assert_eq!(image.lowered("&table"), Some("table"));
    assert_eq!(image.lowered("fill"), None);
    assert_eq!(image.kernels.len(), 2);
    assert_eq!(
        image.kernel("n::fill<double, 4>").map(|k| k.name.as_str()),
        Some("_ZN1n4fillIdLi4EEEvPT_")
    );

    let wrong = c.program(source).name_expression("n::fill<nope, 1>").compile(SM_90);
    let Err(Error::Compile(error)) = wrong else {
        return Err(format!("{wrong:?}").into());
    };
    assert!(error.log.contains("identifier \"nope\" is undefined"), "{error}");
    Ok(())
}

fn headers_come_from_memory_and_from_folders(c: &Compiler) -> Outcome {
    let inc = c.folder.path().join("inc dir");
    std::fs::create_dir_all(inc.join("sub"))?;
    std::fs::write(inc.join("sub/file.h"), "#include \"sibling.h\"\n")?;
    std::fs::write(inc.join("sub/sibling.h"), "#define FROM_FILE 40\n")?;
    let source =
        "#include <mem/one.h>\n#include \"sub/file.h\"\n__device__ int v[FROM_MEM + FROM_FILE];";
    let program = c.program(source).header("mem/one.h", "#define FROM_MEM 2\n").include_path(&inc);
    // Options given later keep the folders given before.
    let image = program.options(Options::new()).name_expression("&v").compile(SM_90)?;
    assert!(ptx(&image).contains("v[168]"), "{}", ptx(&image));

    // A set of headers that overlaps with what the program has.
    let one = "#define FROM_ONE 42\n";
    let again = c.program("#include <one.h>\n__device__ int w[FROM_ONE];").header("one.h", one);
    let image = again.clone().header("one.h", one).name_expression("&w").compile(SM_90)?;
    assert!(ptx(&image).contains("w[168]"), "{}", ptx(&image));
    match again.header("one.h", "").compile(SM_90) {
        Err(Error::InvalidInput { what, .. }) => assert_eq!(what, "the header one.h"),
        other => return Err(format!("{other:?}").into()),
    }

    // Before the source, whose lines keep their numbers, and in this order.
    let first = c.program("__device__ int u[TWO];\n__device__ int w[NONE];").header("one.h", one);
    let first = first.header("two.h", "#define TWO (FROM_ONE + 1)\n").pre_include("one.h");
    match first.clone().pre_include("two.h").compile(SM_90) {
        Err(Error::Compile(error)) => {
            assert!(error.log.contains("(2): error: identifier \"NONE\""), "{error}");
            assert!(!error.log.contains("TWO"), "{error}");
        }
        other => return Err(format!("{other:?}").into()),
    }
    match first.pre_include("three.h").compile(SM_90) {
        Err(Error::InvalidInput { what, .. }) => assert!(what.contains("three.h"), "{what}"),
        other => return Err(format!("{other:?}").into()),
    }
    Ok(())
}

fn a_trace_that_cannot_be_written_is_an_error(c: &Compiler) -> Outcome {
    let trace = c.folder.path().join("no folder/trace");
    match c.program("").options(Options::new().time_trace(&trace)).compile(SM_90) {
        Err(Error::InvalidInput { what, .. }) => assert!(what.contains("no folder"), "{what}"),
        other => return Err(format!("{other:?}").into()),
    }
    Ok(())
}

fn options_reach_the_compiler(c: &Compiler) -> Outcome {
    let source = "#ifdef GONE\n#error defined\n#endif
        extern \"C\" __global__ void k(float* x) { *x = x[1] * x[2] + VALUE + FLAG + __cplusplus / x[4]; }";
    let base = || Options::new().define("VALUE", "x[3]").define_flag("FLAG");
    let text = |options: Options| {
        c.program(source).options(options).compile(SM_90).map(|i| ptx(&i).to_owned())
    };
    assert!(text(base())?.contains("fma.rn.f32"));
    let unfused = text(base().fmad(false))?;
    assert!(unfused.contains("mul.rn.f32") && !unfused.contains("fma.rn.f32 "), "{unfused}");
    assert!(text(base().fast_math(true))?.contains(".ftz.f32"));
    assert!(text(base().lineinfo(true))?.contains(".loc"));
    assert!(text(base().debug(true))?.contains(".target sm_90, debug"));
    assert!(text(base().max_registers(40))?.contains("k("));
    assert_ne!(text(base().std(Std::Cpp14))?, text(base().std(Std::Cpp20))?);
    assert!(text(base().define_flag("GONE")).is_err());
    assert!(text(base().relocatable(true)).is_ok() && text(base().undefine("OTHER")).is_ok());

    let unknown = text(base().extra("--no-such-option"));
    let Err(Error::InvalidOption { log }) = &unknown else {
        return Err(format!("{unknown:?}").into());
    };
    assert!(log.contains("--no-such-option"));
    Ok(())
}

fn warnings_come_with_the_image(c: &Compiler) -> Outcome {
    let image = c.program("__global__ void k() {\n  int idle;\n}").compile(SM_90)?;
    let warnings = image.warnings();
    let [warning] = &warnings[..] else {
        return Err(image.log.into());
    };
    assert_eq!((warning.severity, warning.code.as_deref()), (Severity::Warning, Some("177-D")));
    assert_eq!((warning.file.as_deref(), warning.line), (Some("test.cu"), Some(2)));
    assert_eq!(warning.column, (c.version.major >= 13).then_some(7));
    assert!(warning.message.contains("\"idle\""));
    Ok(())
}

fn empty_and_huge_sources_compile(c: &Compiler) -> Outcome {
    let empty = c.program("").compile(SM_90)?;
    assert!(empty.kernels.is_empty() && empty.cubin.is_some());
    let mut huge = "// a line that says nothing, again and again\n".repeat(200_000);
    for i in 0..300 {
        huge += &format!("extern \"C\" __global__ void k{i}(float* x) {{ *x = {i}; }}\n");
    }
    let image = c.program(&huge).compile(Arch::compute(8, 0))?;
    assert_eq!(image.kernels.len(), 300);
    Ok(())
}

fn an_unknown_architecture_is_clamped_or_refused(c: &Compiler) -> Outcome {
    let program = c.program("__global__ void k() {}");
    let newest = newest(c);
    let clamped = program.compile(Arch::sm(99, 0))?;
    assert_eq!((clamped.arch, clamped.cubin), (newest, None));
    let specific = program.compile(SM_90.specific())?;
    assert!(ptx(&specific).contains(".target sm_90a\n") && specific.cubin.is_some());
    for refused in [Arch::sm(3, 5), Arch::sm(99, 0).specific()] {
        let error = program.compile(refused);
        assert!(matches!(error, Err(Error::UnsupportedArch { .. })), "{error:?}");
    }
    let message = program.compile(Arch::sm(3, 5)).map_err(|e| e.to_string()).err();
    let want = format!("NVRTC {} cannot compile for sm_35: it knows ", c.version);
    assert!(message.as_ref().is_some_and(|m| m.starts_with(&want)), "{message:?}");
    Ok(())
}

fn mangled_names_state_what_the_source_said(c: &Compiler) -> Outcome {
    use Scalar::{Bool, Char, F32, F64, I8, I16, I32, I64, Long, U8, U16, U32, U64, ULong};
    let scalar = |s| Type::Scalar(s);
    let pointer = |s, constant| Type::Pointer { pointee: Pointee::Scalar(s), constant };
    let named = |n: &str, constant| Type::Pointer { pointee: Pointee::Named(n.into()), constant };
    let void = |constant| Type::Pointer { pointee: Pointee::Void, constant };
    let unknown = |constant| Type::Pointer { pointee: Pointee::Unknown, constant };
    let cases = [
        (
            "a",
            "bool, char, signed char, unsigned char, short, unsigned short, int, unsigned, long, unsigned long, \
             long long, unsigned long long, float, double",
            [Bool, Char, I8, U8, I16, U16, I32, U32, Long, ULong, I64, U64, F32, F64]
                .map(scalar)
                .to_vec(),
        ),
        (
            "b",
            "const float*, const float*, float*, float*, void*, const void*, volatile int*, const volatile int*, int*",
            vec![
                pointer(F32, true),
                pointer(F32, true),
                pointer(F32, false),
                pointer(F32, false),
                void(false),
                void(true),
                pointer(I32, false),
                pointer(I32, true),
                pointer(I32, false),
            ],
        ),
        (
            "c",
            "float4, const float4*, float4*, P, P*, const P*, n::Q, n::Q*, const n::Q* const*, int* __restrict__",
            vec![
                Type::Named("float4".into()),
                named("float4", true),
                named("float4", false),
                Type::Named("P".into()),
                named("P", false),
                named("P", true),
                Type::Unknown,
                unknown(false),
                unknown(true),
                pointer(I32, false),
            ],
        ),
        (
            "d",
            "void (*)(int, const float*), V<float>, V<float>*, V<int>*, const V<int>*, int (*)[3], const float*, \
             float* const*, float* const*, n::E, n::E*, unsigned long*",
            vec![
                unknown(false),
                Type::Unknown,
                unknown(false),
                unknown(false),
                unknown(true),
                unknown(false),
                pointer(F32, true),
                unknown(true),
                unknown(true),
                Type::Unknown,
                unknown(false),
                pointer(ULong, false),
            ],
        ),
    ];
    let mut source = String::from(
        "struct P { int a; }; namespace n { struct Q { int b; }; enum E { X }; } template <class T> struct V { T t; };
        namespace n { template <class T, int N, class U> __global__ void t(T* a, const T* b, U c, V<T> d, const U* e, \
        T* f, float* g) {} }\n",
    );
    for (name, list, _) in &cases {
        source += &format!("__global__ void {name}({list}) {{}}\n");
    }
    let image = c
        .program(&source)
        .name_expression("n::t<double, -3, const char*>")
        .compile(Arch::compute(8, 0))?;
    for (name, list, want) in cases {
        let prefix = format!("_Z1{name}");
        let kernel =
            image.kernels.iter().find(|k| k.name.starts_with(&prefix)).ok_or("no kernel")?;
        assert_eq!(kernel.params.len(), want.len());
        assert_eq!(parameters(&kernel.name), want, "{list}: {}", kernel.name);
    }
    let template = image.lowered("n::t<double, -3, const char*>").ok_or("no name")?;
    let want = vec![
        pointer(F64, false),
        pointer(F64, true),
        pointer(Char, true),
        Type::Unknown,
        unknown(true),
        pointer(F64, false),
        pointer(F32, false),
    ];
    assert_eq!(parameters(template), want, "{template}");
    Ok(())
}

fn signatures_are_those_of_the_source(c: &Compiler) -> Outcome {
    use Class::{Bytes, Float, Int};
    let source = "struct __align__(16) Wide { float a; char b; }; struct Nine { char c[9]; };
        extern \"C\" __global__ void k(bool a, float4 b, short c, Nine d, double e, Wide f, float* g, half_like h) {}";
    let source = source.replacen("extern", "struct half_like { unsigned short bits; };\nextern", 1);
    let image = c.program(&source).compile(SM_90)?;
    let kernel = image.kernel("k").ok_or("no kernel")?;
    let got: Vec<_> =
        kernel.params.iter().map(|p| (p.offset, p.size, p.align, p.class())).collect();
    let want = [
        (0, 1, 1, Int),
        (16, 16, 16, Bytes),
        (32, 2, 2, Int),
        (34, 9, 1, Bytes),
        (48, 8, 8, Float),
        (64, 16, 16, Bytes),
        (80, 8, 8, Int),
        (88, 2, 2, Bytes),
    ];
    assert_eq!(got, want);
    Ok(())
}

fn ten_threads_compile_at_once(c: &Compiler) -> Outcome {
    let compile = |i: usize| {
        c.program(&format!("__device__ int v[{i}];")).name_expression("&v").compile(SM_90)
    };
    let images = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=10).map(|i| scope.spawn(move || compile(i))).collect();
        threads.into_iter().map(|t| t.join().map_err(|_| "panicked")).collect::<Vec<_>>()
    });
    for (image, i) in images.into_iter().zip(1..) {
        assert!(ptx(&image??).contains(&format!("v[{}]", i * 4)));
    }
    Ok(())
}

/// The newest architecture that the compiler knows.
pub(crate) fn newest(c: &Compiler) -> Arch {
    if c.version.major == 12 { Arch::compute(9, 0) } else { Arch::compute(12, 1) }
}
