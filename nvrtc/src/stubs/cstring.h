#ifndef CUDA_SAFE_CSTRING
#define CUDA_SAFE_CSTRING
#include <string.h>
namespace std {
using ::size_t;
using ::memcpy;
using ::memset;
}
#endif
