#ifndef CUDA_SAFE_CSTDDEF
#define CUDA_SAFE_CSTDDEF
#include <stddef.h>
namespace std {
using ::size_t;
using ::ptrdiff_t;
using ::max_align_t;
#if __cplusplus >= 201103L
typedef decltype(nullptr) nullptr_t;
#endif
}
#endif
