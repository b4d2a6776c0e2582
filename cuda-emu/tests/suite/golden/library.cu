// CUDA's library, where it uses no approximate instruction.
#include "prelude.cuh"

KERNEL(f32_library) {
    THREAD
    float p = f32(x), q = f32(y), r = f32(z);
    OUT(bits(sinf(p))); OUT(bits(cosf(q))); OUT(bits(logf(p))); OUT(bits(atan2f(p, q)));
    OUT(bits(log1pf(r)));
}
