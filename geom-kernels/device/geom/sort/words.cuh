// Words of global memory with which blocks of one kernel exchange results.
//
// Each word carries its own state beside its value, and no other memory is read because of it. So relaxed accesses
// are enough (PTX ISA, "Memory Consistency Model": they are strong, and a word is read and written as a whole); no
// fence is needed between a value and its state.
#pragma once

namespace geom {
namespace sort {

__device__ __forceinline__ unsigned load_word(const unsigned* at) {
    unsigned d;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(d) : "l"(at) : "memory");
    return d;
}

__device__ __forceinline__ unsigned long long load_word(const unsigned long long* at) {
    unsigned long long d;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(d) : "l"(at) : "memory");
    return d;
}

// Two neighbouring words, each read as a whole; the first lies at a multiple of 8 bytes.
__device__ __forceinline__ void load_words(const unsigned* at, unsigned& first, unsigned& second) {
    asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];"
                 : "=r"(first), "=r"(second)
                 : "l"(at)
                 : "memory");
}

// Four neighbouring words, each read as a whole; the first lies at a multiple of 16 bytes.
__device__ __forceinline__ void load_four_words(const unsigned* at, unsigned (&words)[4]) {
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(at)
                 : "memory");
}

__device__ __forceinline__ void store_word(unsigned* at, unsigned value) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(at), "r"(value) : "memory");
}

__device__ __forceinline__ void store_word(unsigned long long* at, unsigned long long value) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(at), "l"(value) : "memory");
}

__device__ __forceinline__ void add_to_word(unsigned* at, unsigned value) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" : : "l"(at), "r"(value) : "memory");
}

} // namespace sort
} // namespace geom
