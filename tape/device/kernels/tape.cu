// The tape's own kernels on gradients. How they are launched: src/kernels.rs.
#include <geom/math/exact.cuh>
#include <geom/tape.cuh>

using namespace geom;
using namespace geom::tape;
typedef unsigned long long u64;

#define FOR_EACH(i, n)                                                                              \
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < (n); i += gridDim.x * (u64)blockDim.x)

// Whether there is no error; a null status belongs to a pass without possible errors. After an overflow nothing is
// changed, since the tape repeats all that follows.
__device__ __forceinline__ bool fine(const Status* status) {
    return !status || *(const volatile unsigned*)&status->code == FINE;
}

template <typename T>
__device__ void add_all(T* to, const T* from, u64 n, const Status* status) {
    if (!fine(status))
        return;
    FOR_EACH(i, n) {
        T value = from[i];
        if (value != T(0))
            to[i] = exact::add(to[i], value);
    }
}
extern "C" __global__ void __launch_bounds__(256)
    tape_add_f32(float* to, const float* from, u64 n, const Status* status) {
    add_all(to, from, n, status);
}
extern "C" __global__ void __launch_bounds__(256)
    tape_add_f64(double* to, const double* from, u64 n, const Status* status) {
    add_all(to, from, n, status);
}

// As the driver's fill and copy, of words, but for the status.
extern "C" __global__ void __launch_bounds__(256)
    tape_zero(unsigned* to, u64 n, const Status* status) {
    if (!fine(status))
        return;
    FOR_EACH(i, n) to[i] = 0;
}
extern "C" __global__ void __launch_bounds__(256)
    tape_copy(unsigned* to, const unsigned* from, u64 n, const Status* status) {
    if (!fine(status))
        return;
    FOR_EACH(i, n) to[i] = from[i];
}

// The numbers in a structure that was passed by value.
struct Members {
    unsigned count;
    // Where each lies, plus 1 for a double.
    unsigned at[31];
};
GEOM_LAYOUT(Members, 128, 4);

template <typename T>
__device__ void sum(char* partials, unsigned count, char* to, bool assign, double* shared) {
    double sum = 0.0;
    for (unsigned i = threadIdx.x; i < count; i += 256) {
        T* partial = (T*)(partials + (u64)i * 128);
        T value = *partial;
        if (value != T(0)) {
            sum = exact::add(sum, (double)value);
            // The next step finds them zero.
            *partial = T(0);
        }
    }
    shared[threadIdx.x] = sum;
    for (unsigned half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            shared[threadIdx.x] = exact::add(shared[threadIdx.x], shared[threadIdx.x + half]);
    }
    if (threadIdx.x == 0) {
        T total = (T)shared[0];
        *(T*)to = assign ? total : exact::add(*(T*)to, total);
    }
}

// A block for each member: the sum of its partials, in an order that is always the same.
extern "C" __global__ void __launch_bounds__(256)
    tape_sum_partials(
        char* partials,
        unsigned log2,
        Members members,
        char* to,
        unsigned assign,
        const Status* status
    ) {
    __shared__ double shared[256];
    if (!fine(status))
        return;
    unsigned at = members.at[blockIdx.x], offset = at & ~1u;
    if (at & 1)
        sum<double>(partials + offset, 1u << log2, to + offset, assign, shared);
    else
        sum<float>(partials + offset, 1u << log2, to + offset, assign, shared);
}

// Runs behind each step that may raise the status: notes which one did, numbered from 1.
struct NotedStatus {
    Status status;
    unsigned step;
    unsigned unused;
};
GEOM_LAYOUT(NotedStatus, 16, 4);
extern "C" __global__ void tape_note(NotedStatus* noted, unsigned step) {
    if (noted->status.code != FINE && noted->step == 0)
        noted->step = step;
}

// Raises the status of a pass if another one is raised that the pass depends on.
extern "C" __global__ void tape_take(const Status* other, Status* status) {
    if (other->code == FINE)
        return;
    atomicMax(&status->need, other->need);
    atomicCAS(&status->code, FINE, other->code);
}

// The sums of a log. Each address has a place in a hash table, with the largest exponent among its
// summands; they are then integers below that exponent, whose sums don't depend on their order. So the
// bits are the same each time, and nothing need be sorted. 61 bits below the largest summand are kept.
struct Sum {
    u64 address;        // 0: free
    unsigned exponent;  // biased; 0: none
    unsigned unused;
    u64 high, low;  // high + low 2^-31, in units of 2^(exponent - 30)
};
GEOM_LAYOUT(Sum, 32, 8);

enum : unsigned { NOT_FINITE = 0xffffffffu };
enum : int { BIAS = 1100 };

// The least e with |value| < 2^e, but for numbers below the least normal one; biased.
__device__ __forceinline__ unsigned exponent_of(double value) {
    unsigned field = (unsigned)(__double_as_longlong(value) >> 52) & 0x7ff;
    return field == 0x7ff ? NOT_FINITE : (unsigned)((int)(field ? field : 1) - 1022 + BIAS);
}

// value 2^power, in two steps: one may be out of range.
__device__ __forceinline__ double scaled(double value, int power) {
    int half = power / 2, rest = power - half;
    value = exact::mul(value, __longlong_as_double((long long)(half + 1023) << 52));
    return exact::mul(value, __longlong_as_double((long long)(rest + 1023) << 52));
}

__device__ __forceinline__ u64 entries_of(const Frame& frame) {
    u64 count = ((const LogHeader*)frame.log)->count;
    u64 room = (frame.log_bytes - sizeof(LogHeader)) / sizeof(LogEntry);
    return count < room ? count : room;
}
__device__ __forceinline__ LogEntry* log_entries(const Frame& frame) {
    return (LogEntry*)((LogHeader*)frame.log + 1);
}

// `mask`: the number of places less 1; there are at least twice as many as entries.
extern "C" __global__ void __launch_bounds__(256) tape_log_insert(Frame frame, Sum* sums, u64 mask) {
    if (!begin(frame))
        return;
    LogEntry* entries = log_entries(frame);
    u64 count = entries_of(frame);
    FOR_EACH(i, count) {
        u64 address = entries[i].address;
        u64 place = (address * 0x9e3779b97f4a7c15ull) >> 20 & mask;
        for (;; place = (place + 1) & mask) {
            u64 there = atomicCAS(&sums[place].address, 0ull, address);
            if (there == 0 || there == address)
                break;
        }
        atomicMax(&sums[place].exponent, exponent_of(entries[i].value));
        entries[i].address = place;
    }
}

extern "C" __global__ void __launch_bounds__(256) tape_log_add(Frame frame, Sum* sums) {
    if (!begin(frame))
        return;
    LogEntry* entries = log_entries(frame);
    u64 count = entries_of(frame);
    FOR_EACH(i, count) {
        Sum* sum = sums + entries[i].address;
        if (sum->exponent == NOT_FINITE)
            continue;
        double whole = scaled(entries[i].value, 30 + BIAS - (int)sum->exponent);
        double high = exact::floor(whole);
        double low = scaled(exact::sub(whole, high), 31);
        atomicAdd(&sum->high, (u64)(long long)high);
        atomicAdd(&sum->low, (u64)(long long)low);
    }
}

extern "C" __global__ void __launch_bounds__(256) tape_log_apply(Frame frame, Sum* sums) {
    if (!begin(frame))
        return;
    LogEntry* entries = log_entries(frame);
    u64 count = entries_of(frame);
    FOR_EACH(i, count) {
        Sum* sum = sums + entries[i].address;
        u64 address = atomicExch(&sum->address, 0ull);
        if (address == 0)
            continue;  // another summand's thread has it
        u64 low = sum->low;
        u64 high = sum->high + (low >> 31);
        low &= 0x7fffffff;
        double total = exact::add(scaled((double)(long long)high, 31), (double)low);
        total = scaled(total, (int)sum->exponent - BIAS - 61);
        if (sum->exponent == NOT_FINITE)
            total = __longlong_as_double(0x7ff8000000000000ll);
        sum->exponent = 0;
        sum->high = sum->low = 0;
        if (address & 1) {
            double* to = (double*)(address & ~1ull);
            *to = exact::add(*to, total);
        } else {
            float* to = (float*)address;
            *to = exact::add(*to, (float)total);
        }
    }
}
