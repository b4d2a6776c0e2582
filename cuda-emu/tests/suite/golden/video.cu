// Four bytes or two halfwords at a time, and their dot products.
#include "prelude.cuh"

KERNEL(dot_bytes) {
    THREAD
    R3("dp4a.u32.u32", x, y, z); R3("dp4a.s32.s32", x, y, z); R3("dp4a.s32.u32", x, y, z);
    R3("dp4a.u32.s32", x, y, z);
}

KERNEL(dot_halfwords) {
    THREAD
    R3("dp2a.lo.u32.u32", x, y, z); R3("dp2a.hi.u32.u32", x, y, z); R3("dp2a.lo.s32.s32", x, y, z);
    R3("dp2a.hi.s32.s32", x, y, z); R3("dp2a.lo.s32.u32", x, y, z); R3("dp2a.hi.u32.s32", x, y, z);
}

KERNEL(video_bytes) {
    THREAD
    R3("vabsdiff4.u32.u32.u32", x, y, z); R3("vabsdiff4.u32.u32.u32.add", x, y, z);
    R3("vabsdiff4.s32.s32.s32.sat", x, y, z); R3("vabsdiff4.u32.s32.s32.add", x, y, z);
}

KERNEL(simd_bytes) {
    THREAD
    OUT(__vadd4(x, y)); OUT(__vsub4(x, y)); OUT(__vaddus4(x, y)); OUT(__vsubss4(x, y));
    OUT(__vabsdiffu4(x, y)); OUT(__vabsdiffs4(x, y)); OUT(__vmaxs4(x, y)); OUT(__vminu4(x, y));
    OUT(__vavgu4(x, y)); OUT(__vcmpgts4(x, y)); OUT(__vcmpleu4(x, y)); OUT(__vsadu4(x, y));
    OUT(__vneg4(x)); OUT(__vabsss4(x)); OUT(__vhaddu4(x, y)); OUT(__vseteq4(x, y & z));
}

KERNEL(simd_halfwords) {
    THREAD
    OUT(__vadd2(x, y)); OUT(__vsub2(x, y)); OUT(__vaddss2(x, y)); OUT(__vsubus2(x, y));
    OUT(__vabsdiffu2(x, y)); OUT(__vmaxs2(x, y)); OUT(__vminu2(x, y)); OUT(__vavgs2(x, y));
    OUT(__vcmpgtu2(x, y)); OUT(__vcmples2(x, y)); OUT(__vsads2(x, y)); OUT(__vabs2(x));
}
