// Special registers, and what the compiler makes of them.
#include "prelude.cuh"

#define SPECIAL(name) { u32 r_; asm volatile("mov.u32 %0, %%" name ";" : "=r"(r_)); OUT(r_); }

KERNEL(coordinates) {
    THREAD
    SPECIAL("tid.x") SPECIAL("tid.y") SPECIAL("tid.z") SPECIAL("ntid.x") SPECIAL("ntid.y") SPECIAL("ntid.z")
    SPECIAL("ctaid.x") SPECIAL("ctaid.y") SPECIAL("ctaid.z") SPECIAL("nctaid.x") SPECIAL("nctaid.y")
    SPECIAL("nctaid.z") SPECIAL("laneid")
}

KERNEL(lane_masks) {
    THREAD
    SPECIAL("lanemask_eq") SPECIAL("lanemask_le") SPECIAL("lanemask_lt") SPECIAL("lanemask_ge")
    SPECIAL("lanemask_gt") OUT(warpSize);
}

KERNEL(clocks) {
    THREAD
    s64 before = clock64();
    u64 now, later;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) :: "memory");
    u64 r = a;
    for (u32 k = 0; k < (x & 15); k++) r = r * 5 + b;
    __nanosleep(20);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(later) :: "memory");
    OUT(r); OUT(clock64() >= before); OUT(later >= now);
}
