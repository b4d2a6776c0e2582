#ifndef CUDA_SAFE_CSTDLIB
#define CUDA_SAFE_CSTDLIB
#include <stdlib.h>
namespace std {
using ::size_t;
using ::malloc;
using ::free;
using ::abs;
using ::labs;
using ::llabs;
}
#endif
