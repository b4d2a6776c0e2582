#ifndef CUDA_SAFE_CTIME
#define CUDA_SAFE_CTIME
#include <time.h>
namespace std {
using ::size_t;
using ::clock_t;
using ::clock;
using ::time_t;
}
#endif
