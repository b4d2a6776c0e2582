// NULL, size_t, ptrdiff_t and wchar_t are NVRTC's own.
#ifndef CUDA_SAFE_STDDEF_H
#define CUDA_SAFE_STDDEF_H
#undef offsetof
// The compiler's intrinsic: NVRTC has no __builtin_offsetof.
#define offsetof(type, member) ((size_t)__INTADDR__(&(((type*)0)->member)))
typedef struct {
    long long integer __attribute__((aligned(16)));
} max_align_t;
#endif
