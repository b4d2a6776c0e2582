// Adjoints: the frame of a recorded kernel's adjoint, and access to gradients. Version 1 of the binary interface; the
// tape's crate documentation describes it.
//
//     extern "C" __global__ void saxpy_adjoint(
//         float a, const float* x, float* out, unsigned n,  // as the kernel itself
//         float* ga, float* gx, float* gout,                // for each active parameter, in order
//         geom::tape::Frame frame
//     ) {
//         using namespace geom::tape;
//         if (!begin(frame)) return;
//         unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
//         float g = i < n ? grad_take(frame, 2, gout + i) : 0.0f;  // gout may be null
//         if (i < n) grad_own(frame, 1, gx + i, a * g);
//         partial_add(frame, ga, i < n ? x[i] * g : 0.0f);
//     }
//
// Gradients have the type of what they are the gradient of; float for 16-bit floats. Every function here takes null for
// a gradient that is not wanted, or that is zero; use `at` to index one that may be null. Nothing here is *exact*: sums
// of floats depend on their order, unless the tape is deterministic.
#pragma once

#include <geom/layout.cuh>

#define GEOM_TAPE_ABI 1

// Left behind in a module for the tape, which looks for the names when an operation is registered. nvcc, whose
// host compiler sees device variables too, takes no weak ones: there `begin` alone compares the version.
#ifdef __CUDACC_RTC__
#define GEOM_TAPE_JOIN(a, b) a##b
#define GEOM_TAPE_NAME(abi) GEOM_TAPE_JOIN(geom_tape_abi_, abi)
extern "C" {
__device__ __attribute__((weak)) char geom_tape_abi;
__device__ __attribute__((weak)) char GEOM_TAPE_NAME(GEOM_TAPE_ABI);
}
#undef GEOM_TAPE_NAME
#undef GEOM_TAPE_JOIN
#endif

namespace geom {

template <typename T>
struct vec2;
template <typename T>
struct vec3;
template <typename T>
struct vec4;

namespace tape {

enum : unsigned { ABI = GEOM_TAPE_ABI };

// Frame::flags. COUNT: a primal that stores nothing and only returns the memory that it needs. RESUME: threads that
// have finished are marked. DETERMINISTIC: sums go to the log.
enum : unsigned { COUNT = 1, RESUME = 2, DETERMINISTIC = 4 };

// Status::code.
enum : unsigned { FINE, SCRATCH_OVERFLOW, LOG_OVERFLOW, OTHER_ABI, TAPE_OVERFLOW, NEVER_RAN };

struct Status {
    unsigned code;
    unsigned need;  // in KiB, rounded up
};
GEOM_LAYOUT(Status, 8, 4);

struct Frame {
    unsigned abi, flags;
    unsigned fwd_grid[3], fwd_block[3], fwd_shared;
    unsigned partials_log2;
    void* tape;  // written by the primal
    unsigned long long tape_bytes;
    void* scratch;
    unsigned long long scratch_bytes;
    void* log;
    unsigned long long log_bytes;
    Status* status;                    // null if nothing in the pass can raise one
    unsigned long long assign, drop;  // masks of gradient parameters
    unsigned long long reserved[2];
};

// At the head of a log; entries follow.
struct LogHeader {
    unsigned long long count;
    unsigned long long unused;
};
GEOM_LAYOUT(LogHeader, 16, 8);

// A summand: the address that it belongs to, plus 1 for a double. Floats are exact as doubles.
struct LogEntry {
    unsigned long long address;
    double value;
};
GEOM_LAYOUT(LogEntry, 16, 8);

// At the head of scratch memory; a mark for each thread (or block) follows, then what is handed out.
struct ScratchHeader {
    unsigned long long used;
    unsigned long long unused[3];
};
GEOM_LAYOUT(ScratchHeader, 32, 8);

// The numbers that a type consists of.
template <typename T>
struct reals;
#define GEOM_REALS(type, real, n)                                                                   \
    template <>                                                                                     \
    struct reals<type> {                                                                            \
        typedef real one;                                                                           \
        enum { count = n };                                                                         \
    }
GEOM_REALS(float, float, 1);
GEOM_REALS(float2, float, 2);
GEOM_REALS(float3, float, 3);
GEOM_REALS(float4, float, 4);
GEOM_REALS(double, double, 1);
GEOM_REALS(double2, double, 2);
GEOM_REALS(double3, double, 3);
#undef GEOM_REALS
template <typename T>
struct reals<vec2<T>> {
    typedef T one;
    enum { count = 2 };
};
template <typename T>
struct reals<vec3<T>> {
    typedef T one;
    enum { count = 3 };
};
template <typename T>
struct reals<vec4<T>> {
    typedef T one;
    enum { count = 4 };
};

// Numbers of threads and blocks in the whole launch.
__device__ __forceinline__ unsigned long long block_index() {
    return blockIdx.x + gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
}
__device__ __forceinline__ unsigned thread_in_block() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
__device__ __forceinline__ unsigned threads_in_block() {
    return blockDim.x * blockDim.y * blockDim.z;
}
__device__ __forceinline__ unsigned long long blocks() {
    return gridDim.x * (unsigned long long)gridDim.y * gridDim.z;
}

// Compiler flags for speed leave these alone: no subnormal gradient is taken for zero.
__device__ __forceinline__ bool is_zero(float x) { return (__float_as_uint(x) << 1) == 0; }
__device__ __forceinline__ bool is_zero(double x) { return x == 0.0; }
__device__ __forceinline__ float plus(float a, float b) {
    asm("add.rn.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
    return a;
}
__device__ __forceinline__ double plus(double a, double b) {
    asm("add.rn.f64 %0, %0, %1;" : "+d"(a) : "d"(b));
    return a;
}
__device__ __forceinline__ double widened(float x) {
    double wide;
    asm("cvt.f64.f32 %0, %1;" : "=d"(wide) : "f"(x));
    return wide;
}

// Reports to the tape that memory was too small, or another error: the first code stays, and the largest need.
__device__ inline void raise(const Frame& frame, unsigned code, unsigned long long bytes) {
    if (!frame.status) {
        // The gradient would not be read.
        __trap();
        return;
    }
    unsigned long long need = (bytes + 1023) / 1024;
    atomicMax(&frame.status->need, need > 0xffffffffu ? 0xffffffffu : (unsigned)need);
    atomicCAS(&frame.status->code, FINE, code);
}

// Whether the adjoint has anything to do: not after an overflow of one before it, which the tape repeats, and not
// if the recorded launches have not run, whose memory was never written then. Every adjoint calls it before it
// reads anything.
// Where nothing can overflow there is no status, and no wait for a load.
__device__ __forceinline__ bool begin(const Frame& frame) {
    if (frame.abi != ABI) {
        raise(frame, OTHER_ABI, 0);
        return false;
    }
    return !frame.status || *(const volatile unsigned*)&frame.status->code == FINE;
}

// Element i of a gradient that may be null.
template <typename T>
__device__ __forceinline__ T* at(T* gradient, unsigned long long i) {
    return gradient ? gradient + i : gradient;
}

__device__ __forceinline__ bool assigns(const Frame& frame, int slot) {
    return (frame.assign >> slot) & 1;
}
__device__ __forceinline__ bool drops(const Frame& frame, int slot) {
    return (frame.drop >> slot) & 1;
}

// The gradient of what the kernel has read and left alone, or updated: 0 of null.
template <typename T>
__device__ __forceinline__ T grad_read(const T* gradient) {
    typedef typename reals<T>::one one;
    if (gradient)
        return *gradient;
    T zero;
    for (int k = 0; k < reals<T>::count; k++)
        ((one*)&zero)[k] = one(0);
    return zero;
}

// Returns the gradient of an element that the kernel has overwritten, and sets it to zero: the output does not depend
// on the old contents. Zeros are not written again, nor at all where they will not be read.
template <typename T>
__device__ __forceinline__ T grad_take(const Frame& frame, int slot, T* gradient) {
    typedef typename reals<T>::one one;
    T value = grad_read(gradient);
    if (gradient && !drops(frame, slot)) {
        bool any = false;
        for (int k = 0; k < reals<T>::count; k++)
            any = any || !is_zero(((const one*)&value)[k]);
        if (any) {
            T zero;
            for (int k = 0; k < reals<T>::count; k++)
                ((one*)&zero)[k] = one(0);
            *gradient = zero;
        }
    }
    return value;
}

// Of what the kernel has updated: the gradient before the launch, in place of that after it.
template <typename T>
__device__ __forceinline__ void grad_replace(T* gradient, T value) {
    if (gradient)
        *gradient = value;
}

// One summand into the log. The lanes that come here together ask for their places together.
__device__ inline void
log_add(const Frame& frame, unsigned long long address, double value) {
    if (!frame.log_bytes) {
        raise(frame, LOG_OVERFLOW, sizeof(LogHeader) + sizeof(LogEntry));
        return;
    }
    unsigned lanes = __activemask();
    unsigned lane = thread_in_block() & 31;
    int leader = __ffs(lanes) - 1;
    unsigned long long first = 0;
    LogHeader* header = (LogHeader*)frame.log;
    if ((int)lane == leader)
        first = atomicAdd(&header->count, (unsigned long long)__popc(lanes));
    first = __shfl_sync(lanes, first, leader);
    unsigned long long place = first + __popc(lanes & ((1u << lane) - 1));
    unsigned long long bytes = sizeof(LogHeader) + (place + 1) * sizeof(LogEntry);
    if (frame.log_bytes < bytes) {
        raise(frame, LOG_OVERFLOW, bytes);
        return;
    }
    LogEntry* entries = (LogEntry*)(header + 1);
    entries[place].address = address;
    entries[place].value = value;
}

__device__ __forceinline__ void sum_add(const Frame& frame, float* gradient, float value) {
    if (is_zero(value))
        return;
    if (frame.flags & DETERMINISTIC)
        log_add(frame, (unsigned long long)gradient, widened(value));
    else
        atomicAdd(gradient, value);
}
__device__ __forceinline__ void sum_add(const Frame& frame, double* gradient, double value) {
    if (is_zero(value))
        return;
    if (frame.flags & DETERMINISTIC)
        log_add(frame, (unsigned long long)gradient | 1, value);
    else
        atomicAdd(gradient, value);
}

// Adds to a gradient that several threads may add to.
template <typename T>
__device__ __forceinline__ void grad_add(const Frame& frame, int slot, T* gradient, T value) {
    typedef typename reals<T>::one one;
    if (!gradient)
        return;
    if (assigns(frame, slot)) {
        *gradient = value;
        return;
    }
    for (int k = 0; k < reals<T>::count; k++)
        sum_add(frame, (one*)gradient + k, ((const one*)&value)[k]);
}

// Adds to a gradient that no other thread of the launch touches.
template <typename T>
__device__ __forceinline__ void grad_own(const Frame& frame, int slot, T* gradient, T value) {
    typedef typename reals<T>::one one;
    if (!gradient)
        return;
    if (!assigns(frame, slot)) {
        T before = *gradient;
        for (int k = 0; k < reals<T>::count; k++)
            ((one*)&value)[k] = plus(((const one*)&value)[k], ((const one*)&before)[k]);
    }
    *gradient = value;
}

// The sum of the first `here` lanes, in lane 0.
template <typename T>
__device__ __forceinline__ T warp_sum(unsigned lanes, unsigned lane, unsigned here, T value) {
    for (unsigned step = 16; step > 0; step /= 2) {
        T other = __shfl_down_sync(lanes, value, step);
        if (lane + step < here)
            value += other;
    }
    return value;
}

// Adds to the gradient of a number that was passed by value. EVERY thread of the block calls it: those
// with nothing to add pass 0. For a member of a structure, `partials` is the member's address in the
// structure that the parameter points to.
template <typename T>
__device__ __forceinline__ void partial_add(const Frame& frame, T* partials, T value) {
    if (!partials)
        return;
    unsigned long long place = block_index() & ((1ull << frame.partials_log2) - 1);
    T* to = (T*)((char*)partials + place * 128);
    if (frame.flags & DETERMINISTIC && frame.scratch_bytes) {
        // Which threads of a block have enough memory in one run is not deterministic, and neither would be the
        // rounding of their sum.
        sum_add(frame, to, value);
        return;
    }
    unsigned thread = thread_in_block(), threads = threads_in_block();
    unsigned warp = thread / 32, lane = thread % 32, warps = (threads + 31) / 32;
    unsigned here = threads - warp * 32 < 32 ? threads - warp * 32 : 32;
    unsigned lanes = here == 32 ? 0xffffffffu : (1u << here) - 1;
    // A fixed tree, so a block's sum has the same bits each time. One number for each warp was not enough: with 16 M
    // threads their additions took longer than all else.
    value = warp_sum(lanes, lane, here, value);
    if (warps > 1) {
        __shared__ T sums[32];
        if (lane == 0)
            sums[warp] = value;
        __syncthreads();
        if (warp == 0)
            value = warp_sum(lanes, lane, here, lane < warps ? sums[lane] : T(0));
        // The next call writes there.
        __syncthreads();
    }
    if (thread == 0)
        sum_add(frame, to, value);
}

// Memory that lives as long as the launch. A thread takes all that it needs before it touches a gradient;
// if there is not enough it returns, and the tape makes more and runs those again that have not finished.
//
//     Scratch scratch(frame);
//     if (!scratch.begin()) return;
//     float* stack = scratch.take<float>(steps);
//     if (!stack) return;
//     ...
//     scratch.finish();
class Scratch {
  public:
    __device__ explicit Scratch(const Frame& frame)
        : frame(frame), index(block_index() * threads_in_block() + thread_in_block()),
          marks(blocks() * threads_in_block()) {}

    // In place of `tape::begin`.
    __device__ bool begin() const {
        return tape::begin(frame) && !((frame.flags & RESUME) && *mark());
    }

    // Room for `count` elements, or null.
    template <typename T>
    __device__ T* take(unsigned long long count) const {
        static_assert(alignof(T) <= 16, "scratch memory is aligned to 16 bytes");
        unsigned long long bytes = (count * sizeof(T) + 15) / 16 * 16;
        if (!frame.scratch_bytes) {
            raise(frame, SCRATCH_OVERFLOW, start() + bytes);
            return nullptr;
        }
        unsigned long long first = start() + atomicAdd(&header()->used, bytes);
        if (frame.scratch_bytes < first + bytes) {
            raise(frame, SCRATCH_OVERFLOW, first + bytes);
            return nullptr;
        }
        return (T*)((char*)frame.scratch + first);
    }

    __device__ void finish() const { *mark() = 1; }

  private:
    const Frame& frame;
    unsigned long long index, marks;

    __device__ ScratchHeader* header() const { return (ScratchHeader*)frame.scratch; }
    __device__ volatile unsigned char* mark() const {
        return (volatile unsigned char*)(header() + 1) + index;
    }
    __device__ unsigned long long start() const {
        return (sizeof(ScratchHeader) + marks + 15) / 16 * 16;
    }
};

// The same for kernels with barriers: all threads of a block call each method together, and get the
// block's memory.
class BlockScratch {
  public:
    __device__ explicit BlockScratch(const Frame& frame) : frame(frame) {}

    __device__ bool begin() const {
        bool go = tape::begin(frame) && !((frame.flags & RESUME) && *mark());
        // Another block may raise the status between two threads' reads of it.
        return __syncthreads_and(go);
    }

    template <typename T>
    __device__ T* take(unsigned long long count) const {
        __shared__ unsigned long long place;
        static_assert(alignof(T) <= 16, "scratch memory is aligned to 16 bytes");
        unsigned long long bytes = (count * sizeof(T) + 15) / 16 * 16;
        if (thread_in_block() == 0) {
            unsigned long long marks = blocks() * threads_in_block();
            place = (sizeof(ScratchHeader) + marks + 15) / 16 * 16;
            if (frame.scratch_bytes)
                place += atomicAdd(&((ScratchHeader*)frame.scratch)->used, bytes);
            if (frame.scratch_bytes < place + bytes) {
                raise(frame, SCRATCH_OVERFLOW, place + bytes);
                place = 0;
            }
        }
        __syncthreads();
        unsigned long long first = place;
        __syncthreads();
        return first ? (T*)((char*)frame.scratch + first) : nullptr;
    }

    __device__ void finish() const {
        if (thread_in_block() == 0)
            *mark() = 1;
    }

  private:
    const Frame& frame;

    __device__ volatile unsigned char* mark() const {
        return (volatile unsigned char*)((ScratchHeader*)frame.scratch + 1) + block_index();
    }
};

}  // namespace tape
}  // namespace geom
