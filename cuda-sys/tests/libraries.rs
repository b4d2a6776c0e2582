//! cuBLAS, cuBLASLt, cuFFT and cuRAND: their tables, and a stand-in for each that the C compiler makes.
#![cfg(feature = "libraries")]

use std::ffi::{c_char, c_int, c_void};
use std::process::Command;

use cuda_safe_sys::cublas::{
    CUBLAS_SYMBOLS, Cublas, cublasGemmAlgo_t, cublasOperation_t, cublasStatus_t, cudaDataType,
};
use cuda_safe_sys::cublaslt::{
    CUBLASLT_SYMBOLS, CublasLt, cublasLtEpilogue_t, cublasLtMatmulHeuristicResult_t,
};
use cuda_safe_sys::cufft::{CUFFT_SYMBOLS, Cufft, cufftResult, cufftType};
use cuda_safe_sys::curand::{CURAND_SYMBOLS, Curand, curandRngType_t, curandStatus_t};

type TestResult = Result<(), Box<dyn std::error::Error>>;

#[test]
fn symbols_are_sorted_and_have_the_libraries_names() {
    for (symbols, prefix) in [
        (CUBLAS_SYMBOLS, "cublas"),
        (CUBLASLT_SYMBOLS, "cublasLt"),
        (CUFFT_SYMBOLS, "cufft"),
        (CURAND_SYMBOLS, "curand"),
    ] {
        assert!(symbols.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(symbols.iter().all(|symbol| symbol.name.starts_with(prefix)));
        assert!(symbols.iter().all(|symbol| symbol.base == symbol.name));
    }
    let has = |name: &str| CUBLAS_SYMBOLS.iter().any(|symbol| symbol.name == name);
    // Those with a second ABI, with 64-bit sizes, and with 16-bit floats, which the header shows to C++ alone.
    for name in [
        "cublasCreate_v2",
        "cublasSgemm_v2",
        "cublasSgemm_v2_64",
        "cublasDgemmStridedBatched",
        "cublasGemmEx",
        "cublasHgemm",
        "cublasSetWorkspace_v2",
    ] {
        assert!(has(name), "{name}");
    }
    assert!(CUBLAS_SYMBOLS.len() > 500 && CUFFT_SYMBOLS.len() > 30);
    let in_lt = |name: &str| CUBLASLT_SYMBOLS.iter().any(|symbol| symbol.name == name);
    assert!(in_lt("cublasLtMatmul") && in_lt("cublasLtMatmulAlgoGetHeuristic"));
    let in_rand = |name: &str| CURAND_SYMBOLS.iter().any(|symbol| symbol.name == name);
    assert!(in_rand("curandGenerateUniformDouble") && in_rand("curandSetGeneratorOffset"));
    assert!(CUBLASLT_SYMBOLS.len() > 40 && CURAND_SYMBOLS.len() > 25);
}

/// Values that NVIDIA's documentation prints.
#[test]
fn constants_are_those_of_the_headers() {
    assert_eq!(cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED.0, 15);
    assert_eq!(
        cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED.name(),
        Some("CUBLAS_STATUS_ALLOC_FAILED")
    );
    assert_eq!(cublasStatus_t(2).name(), None);
    assert_eq!(cublasOperation_t::CUBLAS_OP_T.0, 1);
    assert_eq!(cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT.0, -1);
    assert_eq!(cudaDataType::CUDA_R_32F.0, 0);
    assert_eq!(cudaDataType::CUDA_C_64F.0, 5);
    assert_eq!(cufftType::CUFFT_C2C.0, 0x29);
    assert_eq!(cufftType::CUFFT_D2Z.0, 0x6a);
    assert_eq!(format!("{:?}", cufftResult::CUFFT_INVALID_SIZE), "CUFFT_INVALID_SIZE (8)");
    assert_eq!(cublasLtEpilogue_t::CUBLASLT_EPILOGUE_RELU_BIAS.0, 6);
    assert_eq!(size_of::<cublasLtMatmulHeuristicResult_t>(), 96);
    assert_eq!(curandRngType_t::CURAND_RNG_PSEUDO_PHILOX4_32_10.0, 161);
    assert_eq!(
        curandStatus_t::CURAND_STATUS_OUT_OF_RANGE.name(),
        Some("CURAND_STATUS_OUT_OF_RANGE")
    );
    assert!(cublasStatus_t::ALL.len() == 10 && cufftResult::ALL.len() >= 17);
}

#[test]
fn a_missing_function_is_an_error() {
    // SAFETY: there are no functions.
    let (blas, fft) = unsafe {
        (Cublas::from_resolver(&|_| std::ptr::null()), Cufft::from_resolver(&|_| std::ptr::null()))
    };
    assert_eq!((blas.version(), fft.version()), (None, None));
    assert!(!blas.supports("cublasCreate_v2") && !blas.supports("cublasNone"));
    // SAFETY: nothing is called.
    let missing = unsafe { blas.cublasDestroy_v2(std::ptr::null_mut()) };
    let message = missing.map_err(|error| error.to_string());
    assert_eq!(message, Err("this cuBLAS has no cublasDestroy_v2".to_owned()));
    // SAFETY: nothing is called.
    let missing = unsafe { fft.cufftDestroy(1) };
    let message = missing.map_err(|error| error.to_string());
    assert_eq!(message, Err("this cuFFT has no cufftDestroy".to_owned()));
    // SAFETY: there are no functions.
    let (lt, rand) = unsafe {
        (
            CublasLt::from_resolver(&|_| std::ptr::null()),
            Curand::from_resolver(&|_| std::ptr::null()),
        )
    };
    // SAFETY: nothing is called.
    let missing = unsafe { lt.cublasLtDestroy(std::ptr::null_mut()) };
    let message = missing.map_err(|error| error.to_string());
    assert_eq!(message, Err("this cuBLASLt has no cublasLtDestroy".to_owned()));
    // SAFETY: nothing is called.
    let missing = unsafe { rand.curandDestroyGenerator(std::ptr::null_mut()) };
    let message = missing.map_err(|error| error.to_string());
    assert_eq!(message, Err("this cuRAND has no curandDestroyGenerator".to_owned()));
}

/// Functions with the headers' parameters, which return what they were given.
const STAND_IN: &str = "
    #include <stdint.h>
    int cublasGetProperty(int which, int* value) { *value = which == 0 ? 13 : which == 1 ? 10 : 2; return 0; }
    int cublasCreate_v2(void** handle) { static int made; *handle = &made; return 0; }
    int cublasSgemm_v2(void* handle, int ta, int tb, int m, int n, int k, const float* alpha, const float* a, int lda,
                       const float* b, int ldb, const float* beta, float* c, int ldc) {
        for (int j = 0; j < n; ++j)
            for (int i = 0; i < m; ++i) {
                float sum = 0;
                for (int l = 0; l < k; ++l)
                    sum += (ta ? a[l + i * lda] : a[i + l * lda]) * (tb ? b[j + l * ldb] : b[l + j * ldb]);
                c[i + j * ldc] = *alpha * sum + *beta * c[i + j * ldc];
            }
        return handle ? 0 : 7;
    }
    int cublasSscal_v2_64(void* handle, int64_t n, const float* alpha, float* x, int64_t step) {
        for (int64_t i = 0; i < n; ++i) x[i * step] *= *alpha;
        return (int)(n >> 40);
    }
    const char* cublasGetStatusName(int status) { return status == 7 ? \"seven\" : \"another\"; }
    int cufftGetProperty(int which, int* value) { *value = 12 - which; return which == 2; }
    int cufftExecC2C(int plan, void* in, void* out, int direction) { return in == out ? plan : direction; }
";

static ONE: f32 = 1.0;
static TWO: f32 = 2.0;

/// Loads a library that the C compiler makes; skips, and says so, where there is none.
#[test]
fn functions_of_a_library_have_the_abi_of_their_names() -> TestResult {
    let folder = tempfile::tempdir()?;
    let (source, library) = (folder.path().join("a.c"), folder.path().join("libstandin.so"));
    std::fs::write(&source, STAND_IN)?;
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    match command.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status() {
        Ok(status) => assert!(status.success(), "{status}"),
        Err(error) => {
            println!("not run: there is no C compiler ({error})");
            return Ok(());
        }
    }
    // SAFETY: the functions above have the parameters of the header's.
    let (blas, fft) = unsafe { (Cublas::load_from(&library)?, Cufft::load_from(&library)?) };
    assert_eq!(blas.version(), Some((13, 10, 2)));
    assert_eq!(fft.version(), None, "the third property is an error");
    assert!(blas.source().ends_with("libstandin.so"));
    assert!(blas.supports("cublasSgemm_v2") && !blas.supports("cublasDgemm_v2"));

    let mut handle = std::ptr::null_mut();
    let (a, b, mut c) = ([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0f32, 0.0, 2.0], [10.0f32, 20.0]);
    let (alpha, beta, mut x) = (&raw const TWO, &raw const ONE, [1.0f32, 2.0, 3.0, 4.0]);
    let (n, t) = (cublasOperation_t::CUBLAS_OP_N, cublasOperation_t::CUBLAS_OP_T);
    // SAFETY: pointers are valid for what the functions above read and write.
    unsafe {
        assert_eq!(blas.cublasCreate_v2(&raw mut handle)?, cublasStatus_t::CUBLAS_STATUS_SUCCESS);
        // a is 2 x 3, then 3 x 2 that is transposed.
        let (pa, pb, pc) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
        let code = blas.cublasSgemm_v2(handle, n, n, 2, 1, 3, alpha, pa, 2, pb, 3, beta, pc, 2)?;
        assert_eq!(code, cublasStatus_t::CUBLAS_STATUS_SUCCESS);
        assert_eq!(c, [32.0, 48.0]);
        let pc = c.as_mut_ptr();
        let none = std::ptr::null_mut();
        let code = blas.cublasSgemm_v2(none, t, n, 2, 1, 3, alpha, pa, 3, pb, 3, beta, pc, 2)?;
        assert_eq!(code, cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE);
        assert_eq!(c, [46.0, 80.0]);
        let code = blas.cublasSscal_v2_64(handle, 2, alpha, x.as_mut_ptr(), 2)?;
        assert_eq!((code.0, x), (0, [2.0, 2.0, 6.0, 4.0]));
        let name: *const c_char = blas.cublasGetStatusName(cublasStatus_t(7))?;
        assert_eq!(std::ffi::CStr::from_ptr(name), c"seven");
        let (mut from, mut to) = ([0u64; 2], [0u64; 2]);
        let (from, to): (*mut c_void, *mut c_void) =
            (from.as_mut_ptr().cast(), to.as_mut_ptr().cast());
        let plan: c_int = 5;
        assert_eq!(fft.cufftExecC2C(plan, from.cast(), to.cast(), 2)?.0, 2);
        assert_eq!(fft.cufftExecC2C(plan, from.cast(), from.cast(), 2)?.0, 5);
    }
    // SAFETY: the library was loaded before.
    let missing = unsafe { Cublas::load_from(folder.path().join("none.so")) };
    let message = missing.map(|_| ()).map_err(|error| error.to_string());
    assert!(message.is_err_and(|text| text.starts_with("cuBLAS could not be loaded")));
    Ok(())
}
