// clock and clock_t are NVRTC's own; time_t is the type of libcu++.
#ifndef CUDA_SAFE_TIME_H
#define CUDA_SAFE_TIME_H
typedef long long time_t;
#define CLOCKS_PER_SEC 1000000L
#endif
