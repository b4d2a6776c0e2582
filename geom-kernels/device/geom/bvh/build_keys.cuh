// The first steps of a build: the bounds of all boxes, and a key for each, the position of its centre on a Morton
// curve.
//
// Exact: no bit depends on a program's options, nor on the order of threads.
#pragma once

#include <geom/bvh/build_state.cuh>
#include <geom/sort/digits.cuh>

namespace geom {
namespace bvh {

// Boxes in an array.
struct BoxArray {
    const aabb<float>* boxes;

    // Writes the box of item i. Returns false if the item has none.
    __device__ __forceinline__ bool box(unsigned i, aabb<float>* out) const {
        const float* at = reinterpret_cast<const float*>(boxes + i);
        *out = {{__ldg(at), __ldg(at + 1), __ldg(at + 2)}, {__ldg(at + 3), __ldg(at + 4), __ldg(at + 5)}};
        return true;
    }
};

// Raises the six words at `words` to those of a box.
__device__ __forceinline__ void raise(unsigned* words, const aabb<float>& b) {
    const float lower[3] = {b.lower.x, b.lower.y, b.lower.z};
    const float upper[3] = {b.upper.x, b.upper.y, b.upper.z};
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        words[axis] = max(words[axis], ~ordered(lower[axis]));
        words[3 + axis] = max(words[3 + axis], ordered(upper[axis]));
    }
}

// Writes each item as a cluster, and computes the bounds. `Source` returns the box of item i as BoxArray does. Any
// number of blocks, of whole warps.
template <class Source>
__device__ __forceinline__ void
bound(const Source& boxes, unsigned n, Cluster* items, BuildState* state) {
    __shared__ unsigned block[13];
    if (threadIdx.x < 13)
        block[threadIdx.x] = 0;
    __syncthreads();
    // The bounds of boxes and of centres, and the number of skipped ones.
    unsigned mine[13] = {};
    for (unsigned i = thread(); i < n; i += gridDim.x * blockDim.x) {
        aabb<float> b;
        bool valid = boxes.box(i, &b) && is_valid(b);
        if (valid) {
            raise(mine, b);
            raise(mine + 6, aabb<float>(center(b)));
        } else {
            b = aabb<float>::empty();
            ++mine[12];
        }
        store_shared(items + i, make_cluster(b, i, valid));
    }
#pragma unroll
    for (int word = 0; word < 13; ++word) {
        unsigned value = mine[word];
        for (int offset = 16; offset > 0; offset /= 2) {
            unsigned other = __shfl_xor_sync(0xffffffffu, value, offset);
            value = word == 12 ? value + other : max(value, other);
        }
        if (threadIdx.x % 32 == 0 && value != 0) {
            if (word == 12)
                atomicAdd(block + word, value);
            else
                atomicMax(block + word, value);
        }
    }
    __syncthreads();
    if (threadIdx.x < 13 && block[threadIdx.x] != 0) {
        if (threadIdx.x < 6)
            atomicMax(&state->bounds[threadIdx.x], block[threadIdx.x]);
        else if (threadIdx.x < 12)
            atomicMax(&state->centers[threadIdx.x - 6], block[threadIdx.x]);
        else
            atomicAdd(&state->skipped, block[12]);
    }
}

// The key of an item that is skipped: greater than all others.
constexpr unsigned long long no_key = ~0ull;

// The frame of the centres: a cube of 2^21 cells along each edge.
struct Frame {
    vec3<float> origin;
    float inverse;

    __device__ __forceinline__ explicit Frame(const BuildState& state) {
        aabb<float> b = bounds_of(state.centers);
        origin = b.lower;
        vec3<float> e = extent(b);
        float side = exact::max(e.x, exact::max(e.y, e.z));
        // If the quotient is not finite, the cube is larger than the extent; if the extent is 0, all centres are in
        // cell 0.
        inverse = exact::min(exact::div(2097152.0f, side), 3.402823466e+38f);
    }

    __device__ __forceinline__ unsigned long long cell(float v, float low) const {
        int cell = exact::floor_to_int(exact::mul(exact::sub(v, low), inverse));
        return static_cast<unsigned long long>(min(max(cell, 0), 2097151));
    }

    __device__ __forceinline__ unsigned long long key(const Cluster& c) const {
        if (c.count == 0)
            return no_key;
        vec3<float> p = center(box_of(c));
        return spread(cell(p.x, origin.x)) << 2 | spread(cell(p.y, origin.y)) << 1 |
               spread(cell(p.z, origin.z));
    }

  private:
    // Spreads 21 bits, each three positions from the next.
    __device__ __forceinline__ static unsigned long long spread(unsigned long long v) {
        v = (v | v << 32) & 0x001f00000000ffffull;
        v = (v | v << 16) & 0x001f0000ff0000ffull;
        v = (v | v << 8) & 0x100f00f00f00f00full;
        v = (v | v << 4) & 0x10c30c30c30c30c3ull;
        return (v | v << 2) & 0x1249249249249249ull;
    }
};

// Writes the keys of items and counts their digits, so that the sort need not read them for that; and writes the part
// of the header about the items. Any number of blocks.
__device__ __forceinline__ void make_keys(
    const Cluster* items, unsigned n, const BuildState& state, unsigned long long* keys,
    const sort::Digits& digits, unsigned* sort_state, BvhHeader* header
) {
    __shared__ sort::DigitCounts<8> counts;
    counts.clear();
    const Frame frame(state);
    for (unsigned i = thread(); i < n; i += gridDim.x * blockDim.x) {
        unsigned long long key = frame.key(load_cluster(items + i));
        keys[i] = key;
        counts.add(digits, key);
    }
    counts.flush(digits, sort_state);
    if (thread() == 0) {
        header->bounds = bounds_of(state.bounds);
        header->items = n - state.skipped;
        header->skipped = state.skipped;
        header->depth = 0;
    }
}

} // namespace bvh
} // namespace geom
