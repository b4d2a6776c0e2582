// The scratch memory of a build: the binary hierarchy that is collapsed to the wide one, and the words with which its
// kernels publish their progress.
#pragma once

#include <geom/bvh/types.cuh>
#include <geom/sort/words.cuh>

namespace geom {
namespace bvh {

// The most items of a leaf.
constexpr unsigned leaf_size = 4;

// A box and its contents: one item (`count` is 1, and `id` the item's index), or a node of the binary hierarchy with
// `count` items below. An item that is skipped has the count 0.
struct alignas(16) Cluster {
    float lower[3];
    unsigned id;
    float upper[3];
    unsigned count;
};

// A node of the binary hierarchy stores both children, so that it is opened with one read.
struct BinaryNode {
    Cluster child[2];
};

// The state is all zeros before a build.
struct BuildState {
    // The number of finished wide nodes (upper half), and of those that were created as children of others.
    unsigned long long progress;
    // The number of wide nodes that threads have taken.
    unsigned ticket;
    unsigned skipped;
    // For valid boxes and for their centres: the greatest complements of lower bounds and the greatest upper bounds,
    // as `ordered` words.
    unsigned bounds[6], centers[6];
    // The whole hierarchy; count is 0 without items.
    Cluster root;
    // Whether all wide nodes are finished: in a separate cache line, because idle threads poll it.
    unsigned unused[8], done, more_unused[3];
};

__device__ __forceinline__ aabb<float> box_of(const Cluster& c) {
    return {{c.lower[0], c.lower[1], c.lower[2]}, {c.upper[0], c.upper[1], c.upper[2]}};
}

__device__ __forceinline__ Cluster make_cluster(const aabb<float>& b, unsigned id, unsigned count) {
    return {{b.lower.x, b.lower.y, b.lower.z}, id, {b.upper.x, b.upper.y, b.upper.z}, count};
}

// The cluster of both, as node `id`.
__device__ __forceinline__ Cluster join(const Cluster& a, const Cluster& b, unsigned id) {
    return make_cluster(unite(box_of(a), box_of(b)), id, a.count + b.count);
}

// Half the surface of a box that is not empty, to compare sizes of boxes. Finite for coordinates up to 2^60.
__device__ __forceinline__ float half_area(const aabb<float>& b) {
    vec3<float> e = exact::sub(b.upper, b.lower);
    return exact::fma(e.z, e.x, exact::fma(e.y, e.z, exact::mul(e.x, e.y)));
}

// Whether a box can be in a hierarchy: it is not empty, and its coordinates are at most 2^60 in magnitude, which
// excludes infinities and NaNs.
__device__ __forceinline__ bool is_valid(float lower, float upper) {
    constexpr float most = 1152921504606846976.0f;
    return exact::less_equal(-most, lower) && exact::less_equal(lower, upper) &&
           exact::less_equal(upper, most);
}
__device__ __forceinline__ bool is_valid(const aabb<float>& b) {
    return is_valid(b.lower.x, b.upper.x) && is_valid(b.lower.y, b.upper.y) &&
           is_valid(b.lower.z, b.upper.z);
}

// A finite number as a word that compares like it; never 0.
__device__ __forceinline__ unsigned ordered(float v) {
    unsigned bits = __float_as_uint(v);
    return bits >> 31 ? ~bits : bits | 1u << 31;
}
__device__ __forceinline__ float unordered(unsigned word) {
    return __uint_as_float(word >> 31 ? word & ~(1u << 31) : ~word);
}

// The box of six words as in BuildState; empty if no box was added.
__device__ __forceinline__ aabb<float> bounds_of(const unsigned (&words)[6]) {
    if (words[3] == 0)
        return aabb<float>::empty();
    return {{unordered(~words[0]), unordered(~words[1]), unordered(~words[2])},
            {unordered(words[3]), unordered(words[4]), unordered(words[5])}};
}

// Blocks exchange clusters and boxes within a kernel: a thread that has written one arrives at a word; a thread that
// was not the first to arrive there reads the data of the earlier ones.
//
// Adds 1 and returns the old value. Later arrivals see this thread's earlier writes (release), and this thread sees the
// writes of earlier arrivals (acquire).
__device__ __forceinline__ unsigned arrive(unsigned* at) {
    unsigned d;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(d) : "l"(at) : "memory");
    return d;
}
__device__ __forceinline__ void store_shared(Cluster* at, const Cluster& c) {
    float4* words = reinterpret_cast<float4*>(at);
    words[0] = {c.lower[0], c.lower[1], c.lower[2], __uint_as_float(c.id)};
    words[1] = {c.upper[0], c.upper[1], c.upper[2], __uint_as_float(c.count)};
}
__device__ __forceinline__ Cluster load_shared(const Cluster* at) {
    unsigned a[4], b[4];
    sort::load_four_words(&reinterpret_cast<const uint4*>(at)[0].x, a);
    sort::load_four_words(&reinterpret_cast<const uint4*>(at)[1].x, b);
    return {{__uint_as_float(a[0]), __uint_as_float(a[1]), __uint_as_float(a[2])}, a[3],
            {__uint_as_float(b[0]), __uint_as_float(b[1]), __uint_as_float(b[2])}, b[3]};
}
// The data was written by an earlier kernel.
__device__ __forceinline__ Cluster load_cluster(const Cluster* at) {
    float4 a = __ldg(reinterpret_cast<const float4*>(at));
    float4 b = __ldg(reinterpret_cast<const float4*>(at) + 1);
    return {{a.x, a.y, a.z}, __float_as_uint(a.w), {b.x, b.y, b.z}, __float_as_uint(b.w)};
}

__device__ __forceinline__ unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

} // namespace bvh
} // namespace geom
