// Atomics, barriers, and what lanes do together.

template <class T> __device__ void atomics(T *p, T v)
{
    atomicAdd(p, v), atomicExch(p, v), atomicMin(p, v), atomicMax(p, v), atomicCAS(p, v, (T)1);
    atomicAnd(p, v), atomicOr(p, v), atomicXor(p, v);
    p[1] = atomicAdd(p, v) + atomicExch(p, v) + atomicMin(p, v) + atomicMax(p, v) + atomicCAS(p, v, (T)2);
    p[2] = atomicAnd(p, v) + atomicOr(p, v) + atomicXor(p, v);
#if __CUDA_ARCH__ >= 600
    p[3] = atomicAdd_block(p, v) + atomicCAS_system(p, v, v) + atomicMax_system(p, v);
#endif
}

extern "C" __global__ void together(int *i, unsigned *u, unsigned long long *l, float *f, double *d,
                                    unsigned short *us)
{
    __shared__ int counts[32];
    atomics(i, 3), atomics(u, 4u), atomics(l, 5ull), atomics(counts, 1);
    u[9] = atomicInc(u, 7) + atomicDec(u, 8) + atomicSub(i, 3);
    f[1] = atomicAdd(f, 2.f) + atomicExch(f, 3.f);
#if __CUDA_ARCH__ >= 600
    d[1] = atomicAdd(d, 2.);
#endif
#if __CUDA_ARCH__ >= 700
    us[0] = atomicCAS(us, 1, 2);
#endif
    __threadfence(), __threadfence_block(), __threadfence_system();
    int x = i[threadIdx.x];
    unsigned m = __activemask();
    x += __shfl_sync(m, x, 3) + __shfl_up_sync(m, x, 1) + __shfl_down_sync(m, x, 2, 16) + __shfl_xor_sync(m, x, 4);
    l[4] = __shfl_down_sync(m, l[5], 1);
    d[2] = __shfl_xor_sync(m, d[3], 1);
    x += __all_sync(m, x) + __any_sync(m, x) + __uni_sync(m, x) + __ballot_sync(m, x > 3);
#if __CUDA_ARCH__ >= 700
    int all;
    x += __match_any_sync(m, x) + __match_all_sync(m, l[6], &all) + all;
    __nanosleep(100);
#endif
#if __CUDA_ARCH__ >= 800
    x += __reduce_add_sync(m, x) + __reduce_min_sync(m, (unsigned)x) + __reduce_xor_sync(m, (unsigned)x);
#endif
    __syncwarp(m);
    x += __syncthreads_count(x) + __syncthreads_and(x) + __syncthreads_or(x);
    i[threadIdx.x] = x + clock() + clock64() + warpSize;
}
