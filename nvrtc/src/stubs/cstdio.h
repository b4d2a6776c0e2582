#ifndef CUDA_SAFE_CSTDIO
#define CUDA_SAFE_CSTDIO
#include <stdio.h>
namespace std {
using ::size_t;
using ::FILE;
using ::printf;
}
#endif
