// Linear algebra, one module for each type in which a kernel computes. How the kernels are launched: src/kernels.rs.
#include <blas_emu/types.cuh>
#include <blas_emu/gemm.cuh>
#include <blas_emu/vectors.cuh>

using namespace blas;

#define PRODUCT(T) extern "C" __global__ void __launch_bounds__(256) gemm(const Product p) { product<T>(p); }
#define OTHERS(T)                                                                                                      \
    extern "C" __global__ void __launch_bounds__(256) each(const Each p) { each_element<T>(p); }                       \
    extern "C" __global__ void __launch_bounds__(256) fold(const Fold p) { fold_all<T>(p); }                           \
    extern "C" __global__ void __launch_bounds__(64) triangle(const Triangle p) { triangular<T>(p); }

#if defined(MODULE_blas_f32)
// inexact: gemm the activation functions GELU of cublasLt
PRODUCT(float)
OTHERS(float)
#elif defined(MODULE_blas_f64)
PRODUCT(double)
OTHERS(double)
#elif defined(MODULE_blas_c32)
PRODUCT(c32)
OTHERS(c32)
#elif defined(MODULE_blas_c64)
PRODUCT(c64)
OTHERS(c64)
#elif defined(MODULE_blas_i32)
PRODUCT(int)
#endif
