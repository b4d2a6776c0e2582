// printf is NVRTC's own; the other functions are the host's.
#ifndef CUDA_SAFE_STDIO_H
#define CUDA_SAFE_STDIO_H
typedef struct CudaSafeFile FILE;
#define EOF (-1)
#define BUFSIZ 8192
#define SEEK_SET 0
#define SEEK_CUR 1
#define SEEK_END 2
#endif
