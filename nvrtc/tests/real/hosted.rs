//! Files that nvcc takes: the host's headers, and host code.

use cuda_safe_nvrtc::{Arch, CacheStatus, Error};

use crate::{Compiler, Outcome, Test};

pub(crate) const TESTS: &[Test] = &[
    ("host_headers_have_the_values_of_the_device", host_headers_have_the_values_of_the_device),
    ("each_host_header_compiles_alone", each_host_header_compiles_alone),
    ("host_headers_and_libcupp_agree", host_headers_and_libcupp_agree),
    ("names_of_nvcc_need_no_include", names_of_nvcc_need_no_include),
    ("files_of_the_program_win", files_of_the_program_win),
    ("assert_follows_ndebug", assert_follows_ndebug),
    ("host_code_is_named_with_the_guard", host_code_is_named_with_the_guard),
];

const SM_75: Arch = Arch::compute(7, 5);

const HEADERS: [&str; 48] = [
    "assert.h",
    "float.h",
    "limits.h",
    "math.h",
    "stdarg.h",
    "stdbool.h",
    "stddef.h",
    "stdint.h",
    "stdio.h",
    "stdlib.h",
    "string.h",
    "time.h",
    "cassert",
    "cfloat",
    "climits",
    "cmath",
    "cstddef",
    "cstdint",
    "cstdio",
    "cstdlib",
    "cstring",
    "ctime",
    "cuda.h",
    "cuda_runtime.h",
    "cuda_runtime_api.h",
    "device_launch_parameters.h",
    "builtin_types.h",
    "device_functions.h",
    "device_types.h",
    "driver_types.h",
    "host_defines.h",
    "math_functions.h",
    "vector_functions.h",
    "vector_types.h",
    "sm_20_intrinsics.h",
    "channel_descriptor.h",
    "cuda_device_runtime_api.h",
    "cuda_profiler_api.h",
    "cuda_surface_types.h",
    "cuda_texture_types.h",
    "cudaProfiler.h",
    "cudaTypedefs.h",
    "surface_functions.h",
    "surface_indirect_functions.h",
    "surface_types.h",
    "texture_fetch_functions.h",
    "texture_indirect_functions.h",
    "texture_types.h",
];

/// Returns includes of all headers.
fn all() -> String {
    HEADERS.iter().map(|header| format!("#include <{header}>\n")).collect()
}

/// Facts of the x86-64 and AArch64 ABIs of Linux, which device code shares with its host.
const FACTS: &str = r#"
    #define IS(...) static_assert(__VA_ARGS__, #__VA_ARGS__)
    template <class A, class B> struct Same { static const bool value = false; };
    template <class A> struct Same<A, A> { static const bool value = true; };
    IS(Same<uint, unsigned int>::value); IS(Same<ushort, unsigned short>::value);
    IS(Same<ulong, unsigned long>::value); IS(sizeof(ulong) == sizeof(size_t));
    IS(Same<int8_t, signed char>::value); IS(Same<uint8_t, unsigned char>::value);
    IS(Same<int16_t, short>::value); IS(Same<uint16_t, unsigned short>::value);
    IS(Same<int32_t, int>::value); IS(Same<uint32_t, unsigned int>::value);
    IS(sizeof(int64_t) == 8 && int64_t(-1) < 0); IS(sizeof(uint64_t) == 8 && uint64_t(-1) > 0);
    IS(sizeof(intptr_t) == sizeof(void*)); IS(sizeof(uintptr_t) == sizeof(void*));
    IS(sizeof(int_fast32_t) >= 4); IS(sizeof(uint_least16_t) >= 2); IS(sizeof(intmax_t) == 8);
    IS(sizeof(std::size_t) == 8); IS(sizeof(std::ptrdiff_t) == 8); IS(sizeof(std::uint32_t) == 4);
    IS(sizeof(std::nullptr_t) == 8); IS(sizeof(time_t) == 8); IS(alignof(max_align_t) == 16);
    IS(INT8_MIN == -128); IS(INT8_MAX == 127); IS(UINT8_MAX == 255);
    IS(INT16_MIN == -32768); IS(INT16_MAX == 32767); IS(UINT16_MAX == 65535);
    IS(INT32_MIN == -2147483647 - 1); IS(INT32_MAX == 2147483647); IS(UINT32_MAX == 4294967295u);
    IS(INT64_MAX == 9223372036854775807ll); IS(INT64_MIN == -INT64_MAX - 1);
    IS(UINT64_MAX == 18446744073709551615ull); IS(SIZE_MAX == UINT64_MAX);
    IS(INT64_C(5000000000) == 5000000000ll); IS(UINT64_C(18446744073709551615) == UINT64_MAX);
    IS(CHAR_BIT == 8); IS(SCHAR_MIN == -128); IS(UCHAR_MAX == 255); IS(SHRT_MAX == 32767);
    IS(USHRT_MAX == 65535); IS(INT_MAX == 2147483647); IS(INT_MIN < 0 && INT_MIN + INT_MAX == -1);
    IS(UINT_MAX == 4294967295u); IS(LONG_MAX == 9223372036854775807l); IS(LONG_MIN == -LONG_MAX - 1);
    IS(ULONG_MAX == 18446744073709551615ul); IS(LLONG_MAX == LONG_MAX); IS(ULLONG_MAX == ULONG_MAX);
    IS(FLT_MAX > 3.4028e38 && FLT_MAX < 3.4029e38); IS(FLT_MIN > 1.17e-38f && FLT_MIN < 1.18e-38f);
    IS(1.0f + FLT_EPSILON > 1.0f); IS(1.0f + FLT_EPSILON / 2 == 1.0f); IS(FLT_DIG == 6); IS(FLT_MANT_DIG == 24);
    IS(DBL_MAX > 1.797e308); IS(DBL_MIN > 2.22e-308 && DBL_MIN < 2.23e-308); IS(1.0 + DBL_EPSILON > 1.0);
    IS(1.0 + DBL_EPSILON / 2 == 1.0); IS(DBL_DIG == 15); IS(DBL_MANT_DIG == 53);
    IS(M_PI > 3.141592653589793 - 1e-15 && M_PI < 3.141592653589793 + 1e-15); IS(M_PI_2 * 2 == M_PI);
    IS(M_PI_4 * 4 == M_PI); IS(M_1_PI * M_PI > 0.999999999999999 && M_1_PI * M_PI < 1.000000000000001);
    IS(M_2_PI == 2 * M_1_PI); IS(M_SQRT2 * M_SQRT2 > 1.999999999999999 && M_SQRT2 * M_SQRT2 < 2.000000000000001);
    IS(M_SQRT1_2 * 2 > M_SQRT2 - 1e-15 && M_SQRT1_2 * 2 < M_SQRT2 + 1e-15);
    IS(M_E > 2.718281828459045 - 1e-15 && M_E < 2.718281828459045 + 1e-15);
    IS(M_LN2 * M_LOG2E > 1 - 1e-15 && M_LN2 * M_LOG2E < 1 + 1e-15);
    IS(M_LN10 * M_LOG10E > 1 - 1e-15 && M_LN10 * M_LOG10E < 1 + 1e-15);
    IS(M_2_SQRTPI * M_2_SQRTPI * M_PI > 4 - 1e-14 && M_2_SQRTPI * M_2_SQRTPI * M_PI < 4 + 1e-14);
    IS(EXIT_SUCCESS == 0 && EXIT_FAILURE == 1 && RAND_MAX == 2147483647 && EOF == -1);
    IS(CUDA_VERSION >= 12000); IS(sizeof(CUdeviceptr) == 8); IS(sizeof(CUtensorMap) == 128);
    extern "C" __global__ void k(float* x, double* y, uint64_t* z, FILE* file) {
        assert(x != NULL);
        x[0] = INFINITY; x[1] = -HUGE_VALF; x[2] = NAN; x[3] = MAXFLOAT;
        y[0] = HUGE_VAL; y[1] = std::sqrt(2.0) + std::fabs(y[3]) + std::abs(-3) + std::pow(y[2], 2.0);
        x[4] = std::sqrt(2.0f) + fminf(x[5], std::max_of);
        std::printf("%d %p\n", 1, static_cast<void*>(file));
        z[0] = static_cast<uint64_t>(clock());
        std::memcpy(z + 1, x, 8); memset(z + 2, 0, 8);
        int* mine = static_cast<int*>(std::malloc(4)); std::free(mine);
    }
"#;

fn host_headers_have_the_values_of_the_device(c: &Compiler) -> Outcome {
    let facts = FACTS.replace("std::max_of", "std::floor(x[6])");
    let inner = "struct Pair { int a; float4 b; int c[3]; };
        static_assert(offsetof(Pair, b) == 16 && offsetof(Pair, c) == 32, \"\");";
    let image =
        c.program(&format!("{}{facts}{inner}", all())).cuda_headers(false).compile(SM_75)?;
    assert_eq!(image.log, "");
    let ptx = image.ptx.as_deref().unwrap_or_default();
    // INFINITY, NAN and HUGE_VAL by their bits.
    for bits in ["2139095040", "2143289344", "9218868437227405312"] {
        assert!(ptx.contains(bits), "{bits}: {ptx}");
    }
    // None of the values is checked by itself alone.
    let wrong = c.program("#include <limits.h>\nstatic_assert(INT_MAX == 2147483646, \"\");");
    assert!(matches!(wrong.compile(SM_75), Err(Error::Compile(_))));
    Ok(())
}

fn each_host_header_compiles_alone(c: &Compiler) -> Outcome {
    for header in HEADERS {
        for form in [format!("<{header}>"), format!("\"{header}\"")] {
            let twice = format!("#include {form}\n#include {form}\n__global__ void k() {{}}");
            let image = c.program(&twice).cuda_headers(false).compile(SM_75)?;
            assert_eq!((image.kernels.len(), image.log.as_str()), (1, ""), "{header}");
        }
        let off = c.program(&format!("#include <{header}>\n")).cuda_headers(false);
        let refused = off.host_headers(false).compile(SM_75);
        assert!(matches!(refused, Err(Error::Compile(_))), "{header}: {refused:?}");
    }
    Ok(())
}

fn host_headers_and_libcupp_agree(c: &Compiler) -> Outcome {
    if c.version.major < 13 {
        // The headers that the setup fetches are newer than this compiler.
        return Ok(());
    }
    let theirs: String = [
        "cassert", "cfloat", "climits", "cmath", "cstddef", "cstdint", "cstdlib", "cstring",
        "ctime",
    ]
    .map(|header| format!("#include <cuda/std/{header}>\n"))
    .concat();
    let facts = FACTS.replace("std::max_of", "std::floor(x[6])");
    for includes in [format!("{}{theirs}", all()), format!("{theirs}{}", all())] {
        let image = c.program(&format!("{includes}{facts}")).compile(SM_75)?;
        // libcu++ defines these two without looking.
        let warnings = image.warnings();
        let unexpected: Vec<_> = warnings
            .iter()
            .filter(|w| !["\"INFINITY\"", "\"NAN\""].iter().any(|name| w.message.contains(name)))
            .filter(|w| w.severity > cuda_safe_nvrtc::Severity::Remark)
            .collect();
        assert!(unexpected.is_empty(), "{unexpected:?}");
    }
    Ok(())
}

fn names_of_nvcc_need_no_include(c: &Compiler) -> Outcome {
    let source = "extern \"C\" __global__ void k(uint* x, ushort y, ulong z, double* w) { *x = y + z; *w = M_PI; }";
    let image = c.program(source).compile(SM_75)?;
    assert_eq!(image.log, "");
    assert_eq!(image.kernel("k").map(|k| k.params.len()), Some(4));
    assert!(matches!(c.program(source).host_headers(false).compile(SM_75), Err(Error::Compile(_))));
    // Programs that declare the names as nvcc's headers do.
    let own = "typedef unsigned int uint; using ulong = unsigned long;\n#define M_PI 3.14159265358979323846\n
        __global__ void k(uint* x, ulong y) { *x = y; }";
    assert_eq!(c.program(own).compile(SM_75)?.log, "");
    // And as macros of the command line.
    let options = cuda_safe_nvrtc::Options::new().define("uint", "unsigned").define("M_PI", "3");
    assert_eq!(c.program(source).options(options).compile(SM_75)?.log, "");
    Ok(())
}

fn files_of_the_program_win(c: &Compiler) -> Outcome {
    let root = c.folder.path();
    for (file, text) in [
        ("src/string.h", "#define FROM 1\n"),
        ("src/uses.h", "#include \"string.h\"\n"),
        ("inc/math.h", "#define FROM 2\n"),
        ("inc/cuda.h", "#error not for the device\n"),
    ] {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().ok_or("no folder")?)?;
        std::fs::write(path, text)?;
    }
    let program = |text: &str| {
        let text = format!("{text}\n__device__ int v[FROM * 10];");
        c.program(&text).name_expression("&v").name(root.join("src/a.cu").display().to_string())
    };
    let size = |program: cuda_safe_nvrtc::Program| {
        program.include_path(root.join("inc")).compile(SM_75).map(|image| {
            let ptx = image.ptx.unwrap_or_default();
            [1, 2, 3, 4].into_iter().find(|n| ptx.contains(&format!(" v[{}]", n * 40)))
        })
    };
    // Beside the file that includes it, also at one remove; in a folder; in memory.
    assert_eq!(size(program("#include \"string.h\""))?, Some(1));
    assert_eq!(size(program("#include \"uses.h\""))?, Some(1));
    assert_eq!(size(program("#include <math.h>"))?, Some(2));
    assert_eq!(size(program("#include <cmath>"))?, Some(2));
    assert_eq!(size(program("#include <stdio.h>").header("stdio.h", "#define FROM 3"))?, Some(3));
    // An include in angle brackets does not mean a neighbour.
    assert_eq!(size(program("#include <string.h>\n#define FROM 4"))?, Some(4));
    // The driver's own header is the one that never compiles.
    assert_eq!(size(program("#include <cuda.h>\n#define FROM 4"))?, Some(4));

    // What wins is part of the cache's key.
    let cached = |name: &str| {
        let text = "#include <stdlib.h>\n#ifndef FROM\n#define FROM 4\n#endif";
        size(program(text).cache(&c.cache()).include_path(root.join(name)))
    };
    std::fs::create_dir_all(root.join("late"))?;
    assert_eq!((cached("late")?, cached("late")?), (Some(4), Some(4)));
    std::fs::write(root.join("late/stdlib.h"), "#define FROM 1\n")?;
    assert_eq!(cached("late")?, Some(1));
    let text = "#include <stdlib.h>\n__global__ void k() {}";
    let status = || c.program(text).cache(&c.cache()).compile(SM_75).map(|image| image.cache);
    assert_eq!((status()?, status()?), (CacheStatus::Stored, CacheStatus::Hit));
    Ok(())
}

fn assert_follows_ndebug(c: &Compiler) -> Outcome {
    let source = "#include <assert.h>\n__global__ void on(int x) { assert(x == 1); }
        #define NDEBUG\n#include <cassert>\n__global__ void off(int x) { assert(x == 2); }
        #undef NDEBUG\n#include <assert.h>\n__global__ void again(int x) { assert(x == 3); }";
    let image = c.program(source).compile(SM_75)?;
    let ptx = image.ptx.as_deref().unwrap_or_default();
    let body = |name: &str| {
        let start = ptx.find(name).unwrap_or(ptx.len());
        ptx[start..].split("\n}").next().unwrap_or_default()
    };
    assert!(body("_Z2oni(").contains("__assertfail"), "{ptx}");
    assert!(!body("_Z3offi(").contains("__assertfail"), "{ptx}");
    assert!(body("_Z5againi(").contains("__assertfail"), "{ptx}");
    Ok(())
}

fn host_code_is_named_with_the_guard(c: &Compiler) -> Outcome {
    let kernel = "__global__ void k(int* x) { *x = 1; }\n";
    for (rest, line) in [
        ("int main() {\n    return 0;\n}\n", "line 2 of test.cu"),
        ("\nvoid run(int* d) {\n    k<<<1, 1>>>(d);\n}\n", "line 3 of test.cu"),
        ("extern \"C\" void run(int* d);\n", "line 2 of test.cu"),
        ("__host__ float f() { return 1; }\n", "line 2 of test.cu"),
        ("\n\nstatic float* host_data;\n", "line 4 of test.cu"),
        ("std::vector<int> v;\n", "line 2 of test.cu"),
        ("__global__ void f() {\n    int* d;\n    cudaMalloc(&d, 4);\n}\n", "line 4 of test.cu"),
        ("__global__ void f() {\n    fprintf(stderr, \"x\");\n}\n", "line 3 of test.cu"),
        ("#include <vector>\n", "line 2 of test.cu includes vector"),
        ("#include \"missing.h\"\n", "line 2 of test.cu includes missing.h"),
    ] {
        let source = format!("{kernel}{rest}");
        let Err(Error::Compile(error)) = c.program(&source).compile(SM_75) else {
            return Err(format!("{rest} compiles").into());
        };
        let hint = error.hint.as_deref().unwrap_or_default();
        assert!(
            hint.contains(line) && hint.contains("`#ifndef __CUDACC_RTC__`"),
            "{rest}: {error}"
        );
        assert!(
            error.to_string().contains(hint) && error.to_string().starts_with(error.log.trim_end())
        );
        // The advice works.
        let guarded = format!("{kernel}#ifndef __CUDACC_RTC__\n{rest}#endif\n");
        assert_eq!(c.program(&guarded).compile(SM_75)?.kernels.len(), 1);
    }
    let Err(Error::Compile(error)) =
        c.program("__global__ void k() { unknown = 1; }").compile(SM_75)
    else {
        return Err("it compiles".into());
    };
    assert_eq!(error.hint, None);
    Ok(())
}
