//! Constructs of `.cu` files that nvcc takes: each compiles, or is refused by its name, with its line and what to do.
//! docs/porting.md, "Limits", lists what is refused.

use cuda_safe_nvrtc::{Arch, Error, Options};

use crate::{Compiler, Outcome, Test};

pub(crate) const TESTS: &[Test] = &[
    ("constructs_of_kernels_compile", constructs_of_kernels_compile),
    ("headers_of_cuda_compile", headers_of_cuda_compile),
    ("what_nvrtc_lacks_is_named", what_nvrtc_lacks_is_named),
    ("with_cstdint_its_types_compile", with_cstdint_its_types_compile),
];

/// Kernels of the constructs that the CUDA C++ programming guide lists for device code.
const KERNELS: [&str; 19] = [
    "__managed__ int x[4]; __device__ __managed__ float y = 1; __global__ void k() { x[0] = 1; y = 2; }",
    "__constant__ float c[4] = {1}; __device__ float d; __global__ void k() { d = c[threadIdx.x]; }",
    "__global__ void k(int *x) { printf(\"%d\\n\", x[0]); if (x[1]) __trap(); __brkpt(); }",
    "#include <assert.h>\n__global__ void k(int *x) { assert(x[0] == 0); }",
    "__global__ void k(int **x) { int *p = (int *)malloc(16); free(p); x[0] = new int[4]; delete[] x[0]; }",
    "class A { public: __device__ virtual int f() { return 1; } };
     class B : public A { public: __device__ int f() override { return 2; } };
     __global__ void k(int *x) { A *a = new B; x[0] = a->f(); delete a; }",
    "typedef float (*F)(float); __device__ float sq(float x) { return x * x; } __device__ F f = sq;
     __global__ void k(float *x) { x[0] = f(x[0]); }",
    "__global__ void __launch_bounds__(128, 2) k(const __grid_constant__ int n, int *__restrict__ x) {
     #pragma unroll 4
     for (int i = 0; i < n; ++i) x[i] = i; }",
    "__global__ void k(int *x) { unsigned l; asm(\"mov.u32 %0, %%laneid;\" : \"=r\"(l)); x[l] = l; }",
    "__host__ __device__ inline float f(float x) { return x * x; } __global__ void k(float *x) { *x = f(*x); }",
    "template <typename F> __global__ void apply(F f, int *x) { x[0] = f(x[0]); }
     __global__ void k(int *x) { auto f = [=](int a) { return a + 1; }; x[0] = f(x[0]); }",
    "__global__ void k(cudaTextureObject_t t, float4 *x) { x[0] = tex2D<float4>(t, 0.5f, 0.5f);
     x[1] = tex1Dfetch<float4>(t, 3); x[2] = tex2DLayered<float4>(t, 0, 0, 1); x[3] = tex3D<float4>(t, 0, 0, 1); }",
    "__global__ void k(cudaSurfaceObject_t s, float *x) { *x = surf2Dread<float>(s, 0, 0); surf2Dwrite(1.0f, s, 4, 0); }",
    "__global__ void k(int *x) { x[0] = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1) + __ballot_sync(1, x[1]); }",
    "__global__ void k(double *x) { atomicAdd(x, 1.0); __threadfence(); __syncthreads(); x[1] = max(x[0], 2.0); }",
    "__global__ void k(float *x) { x[0] = __fdividef(x[1], x[2]) + __expf(x[3]) + rsqrtf(x[4]) + __fmaf_rn(x[5], 1, 2); }",
    "extern __shared__ float s[]; __global__ void k(float *x) { s[threadIdx.x] = x[0]; x[1] = s[0]; }",
    "__global__ void k(long long *t) { t[0] = clock64() + clock(); __nanosleep(10); }",
    "const int N = 1 << 20; #define BLOCK 256\n__global__ void k(int *x) { if (x[0] < N) x[1] = BLOCK; }",
];

fn constructs_of_kernels_compile(c: &Compiler) -> Outcome {
    for kernel in KERNELS {
        let kernel = kernel.replace("; #define", ";\n#define");
        let source = format!("#include <cuda_runtime.h>\n#include <stdio.h>\n{kernel}");
        let image = c.program(&source).cuda_headers(false).compile(Arch::compute(8, 0));
        let image = image.map_err(|error| format!("{kernel}: {error}"))?;
        assert_eq!(image.kernels.len(), 1, "{kernel}");
    }
    // The functions of programmatic launches and of conditional nodes need no header, as with nvcc.
    let launches = "__global__ void k() { cudaGridDependencySynchronize(); cudaTriggerProgrammaticLaunchCompletion(); }";
    let image = c.program(launches).compile(Arch::compute(9, 0))?;
    let ptx = image.ptx.unwrap_or_default();
    assert!(
        ptx.contains("griddepcontrol.wait") && ptx.contains("griddepcontrol.launch_dependents"),
        "{ptx}"
    );
    for options in [Options::new().relocatable(true), Options::new().lto(true)] {
        c.program(launches).options(options).compile(Arch::sm(9, 0))?;
    }
    if (c.version.major, c.version.minor) >= (12, 3) {
        let sets =
            "__global__ void k(cudaGraphConditionalHandle h) { cudaGraphSetConditional(h, 1); }";
        assert_eq!(c.program(sets).compile(Arch::compute(8, 0))?.kernels.len(), 1);
    }
    Ok(())
}

/// Includes and a kernel each, which need CUDA's headers.
const HEADERS: [(&str, &str); 14] = [
    ("cuda_fp16.h", "void k(half2 *a) { a[0] = __hadd2(a[0], a[1]); }"),
    ("cuda_bf16.h", "void k(__nv_bfloat16 *a) { a[0] = __hadd(a[0], a[1]); }"),
    ("cuComplex.h", "void k(cuComplex *a) { a[0] = cuCmulf(a[0], a[1]); }"),
    ("math_constants.h", "void k(float *a) { a[0] = CUDART_INF_F; }"),
    (
        "mma.h",
        "void k(half *a) { nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, \
        nvcuda::wmma::row_major> f; nvcuda::wmma::load_matrix_sync(f, a, 16); }",
    ),
    ("cooperative_groups.h", "void k() { cooperative_groups::this_grid().sync(); }"),
    (
        "cooperative_groups/reduce.h",
        "void k(int *a) { auto t = cooperative_groups::tiled_partition<32>( \
        cooperative_groups::this_thread_block()); a[0] = cooperative_groups::reduce(t, a[1], cooperative_groups::plus<int>()); }",
    ),
    (
        "cuda/barrier",
        "void k() { __shared__ cuda::barrier<cuda::thread_scope_block> b; \
        if (threadIdx.x == 0) init(&b, blockDim.x); __syncthreads(); b.arrive_and_wait(); }",
    ),
    (
        "cuda/pipeline",
        "void k() { auto p = cuda::make_pipeline(); p.producer_acquire(); p.producer_commit(); \
        p.consumer_wait(); p.consumer_release(); }",
    ),
    (
        "cuda/atomic",
        "void k(int *a) { cuda::atomic_ref<int, cuda::thread_scope_device>(*a).fetch_add(1); }",
    ),
    (
        "cuda_pipeline.h",
        "void k(int *a) { __shared__ int s[32]; __pipeline_memcpy_async(&s[threadIdx.x], a, 4); \
        __pipeline_commit(); __pipeline_wait_prior(0); a[1] = s[0]; }",
    ),
    (
        "cub/block/block_reduce.cuh",
        "void k(int *a) { typedef cub::BlockReduce<int, 128> R; \
        __shared__ typename R::TempStorage t; a[0] = R(t).Sum(a[threadIdx.x]); }",
    ),
    ("cuda/std/complex", "void k(cuda::std::complex<float> *a) { a[0] = a[1] * a[2]; }"),
    (
        "texture_fetch_functions.h",
        "void k(cudaTextureObject_t t, float *a) { a[0] = tex1Dfetch<float>(t, 0); }",
    ),
];

fn headers_of_cuda_compile(c: &Compiler) -> Outcome {
    if c.version.major < 13 {
        // The headers that the setup fetches are newer than this compiler.
        return Ok(());
    }
    for (header, kernel) in HEADERS {
        let source = format!("#include <{header}>\n__global__ {kernel}");
        let image = c.program(&source).compile(Arch::compute(8, 0));
        let image = image.map_err(|error| format!("{header}: {error}"))?;
        assert_eq!(image.kernels.len(), 1, "{header}");
    }
    Ok(())
}

/// What is refused: a text of several lines, the line that the error names, and the construct by its name.
const REFUSED: [(&str, usize, &str); 35] = [
    // Launches by kernels, and CUDA's runtime on the device.
    ("__global__ void c() {}\n__global__ void k() { c<<<1, 1>>>(); }", 2, "`<<<…>>>`"),
    ("__global__ void k() {\n  cudaDeviceSynchronize(); }", 2, "`cudaDeviceSynchronize`"),
    ("__global__ void k() {\n  cudaGetParameterBuffer(8, 8); }", 2, "`cudaGetParameterBuffer`"),
    ("__global__ void k(cudaStream_t s) {\n  cudaStreamDestroy(s); }", 2, "`cudaStreamDestroy`"),
    (
        "__global__ void k(int *d) {\n  cudaMemcpyAsync(d, d + 1, 4, cudaMemcpyDeviceToDevice, 0); }",
        2,
        "`cudaMemcpyAsync`",
    ),
    ("__global__ void k() {\n  cudaGridDependencySynchronize(); }", 2, "before sm_90"),
    // What CUDA has removed.
    (
        "\ntexture<float, 2, cudaReadModeElementType> t;\n__global__ void k() {}",
        2,
        "a texture reference",
    ),
    ("\nsurface<void, cudaSurfaceType2D> s;\n__global__ void k() {}", 2, "a surface reference"),
    ("__global__ void k(int *s) {\n  s[0] = __shfl_down(s[0], 1); }", 2, "`__shfl_down_sync`"),
    // Options and architectures.
    (
        "__global__ void k(long long *s) {\n  __int128 x = s[0]; s[1] = (long long)(x >> 3); }",
        2,
        "--device-int128",
    ),
    (
        "__global__ void k(int *s) {\n  auto f = [=] __device__(int a) { return a; }; s[0] = f(1); }",
        2,
        "annotates a lambda",
    ),
    // Graphics.
    ("#include <GL/glew.h>", 1, "OpenGL"),
    ("\n#include <helper_gl.h>", 2, "OpenGL"),
    ("#include <vulkan/vulkan.h>", 1, "Vulkan"),
    ("#include <cuda_d3d11_interop.h>", 1, "Direct3D"),
    ("#include <EGL/egl.h>", 1, "EGL"),
    // Libraries of the host.
    ("#include <cublas_v2.h>", 1, "cuBLAS"),
    ("#include <cufftXt.h>", 1, "cuFFT"),
    ("#include <cusolverDn.h>", 1, "cuSOLVER"),
    ("#include <cusparse.h>", 1, "cuSPARSE"),
    ("#include <curand.h>", 1, "cuRAND"),
    ("#include <npp.h>", 1, "NPP"),
    ("#include <nvjpeg.h>", 1, "nvJPEG"),
    ("#include <nccl.h>", 1, "NCCL"),
    ("#include <mpi.h>", 1, "MPI"),
    ("#include <omp.h>", 1, "OpenMP"),
    ("#include <helper_cuda.h>", 1, "NVIDIA's samples"),
    ("#include <helper_functions.h>", 1, "NVIDIA's samples"),
    // The host's language.
    ("#include <vector>", 1, "a header of the host"),
    ("#include <iostream>", 1, "a header of the host"),
    ("#include <complex>", 1, "a header of the host"),
    ("extern \"C\" __host__ void f(int *x) { *x = 1; }", 1, "is host code"),
    (
        "__global__ void k() {}\nclass Timer { public: void start() { t = 0; } double t; };\nint main() {}",
        2,
        "is host code",
    ),
    (
        "__global__ void k(float *x) { x[0] = 1; }\n__global__ void l(uint8_t *x) { *x = 1; }",
        2,
        "#include <cstdint>",
    ),
    ("__global__ void k(int *x) { *x = int64_t(*x) / 3; }", 1, "#include <cstdint>"),
];

fn with_cstdint_its_types_compile(c: &Compiler) -> Outcome {
    let source =
        "#include <cstdint>\n__global__ void k(uint8_t *x, int64_t n) { *x = uint8_t(n); }";
    c.program(source).cuda_headers(false).compile(Arch::compute(8, 0))?;
    Ok(())
}

fn what_nvrtc_lacks_is_named(c: &Compiler) -> Outcome {
    // NVRTC 12.0 compiles calls of the device runtime, the first rows, and the driver refuses the image, by the name of the function.
    let skipped = if c.version.major < 13 { 6 } else { 0 };
    for &(source, line, construct) in &REFUSED[skipped..] {
        let compiled = c.program(source).cuda_headers(false).compile(Arch::compute(8, 0));
        let Err(Error::Compile(error)) = compiled else {
            return Err(format!("{source}: {compiled:?}").into());
        };
        let hint = error.hint.as_deref().unwrap_or_default();
        let named = hint.contains(construct) && hint.contains(&format!("line {line} of test.cu"));
        assert!(named, "{source}: {error}");
    }
    if c.version.major < 13 {
        return Ok(());
    }
    for (source, construct) in [
        ("\n#include <cuda_gl_interop.h>", "OpenGL"),
        ("\n#include <thrust/sort.h>\n#include <thrust/device_vector.h>", "Thrust or CUB"),
        ("\n#include <cub/cub.cuh>", "Thrust or CUB"),
        (
            "#include <cooperative_groups.h>\n__global__ void k() { cooperative_groups::this_multi_grid().sync(); }",
            "a grid on several devices",
        ),
    ] {
        let Err(Error::Compile(error)) = c.program(source).compile(Arch::compute(8, 0)) else {
            return Err(format!("{source} compiles").into());
        };
        let hint = error.hint.as_deref().unwrap_or_default();
        assert!(
            hint.contains(construct) && hint.contains("line 2 of test.cu"),
            "{source}: {error}"
        );
    }
    Ok(())
}
