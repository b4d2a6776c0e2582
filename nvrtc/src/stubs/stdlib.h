// malloc, free and abs are NVRTC's own; the other functions are the host's.
#ifndef CUDA_SAFE_STDLIB_H
#define CUDA_SAFE_STDLIB_H
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define RAND_MAX 2147483647
#endif
