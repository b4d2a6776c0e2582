// The driver's types, for declarations that name them. NVRTC refuses the functions of the real header.
#ifndef CUDA_SAFE_CUDA_H
#define CUDA_SAFE_CUDA_H
#ifndef CUDA_VERSION
#define CUDA_VERSION (__CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10)
#endif
typedef unsigned long long cuuint64_t;
typedef unsigned int cuuint32_t;
typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUsurfObject;
typedef struct CUctx_st* CUcontext;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct CUarray_st* CUarray;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
#if __CUDACC_VER_MAJOR__ >= 13
typedef struct __attribute__((aligned(128))) CUtensorMap_st {
#else
typedef struct __attribute__((aligned(64))) CUtensorMap_st {
#endif
    cuuint64_t opaque[16];
} CUtensorMap;
#endif
