// The keys of leaves and of entries: every source of a volume first becomes a list of entries that each name a leaf.
//
// A key's highest 36 bits name the upper node, three times the 12 bits of a coordinate above 4096, its sign flipped
// so that negative ones come first; then come the indices of the lower node in the upper one (15 bits) and of the
// leaf in the lower one (12 bits). So keys in order are leaves in breadth-first order; their first 51 bits give the
// order of lower nodes, and their first 36 bits that of upper ones. Bit 63 is 0 in keys of leaves.
//
// All of this is exact (exact.cuh).
#pragma once

#include <geom/volume/access.cuh>
#include <geom/volume/build_types.cuh>

namespace geom {
namespace volume {

// The key of entries that name no leaf.
constexpr unsigned long long no_key = ~0ull;
constexpr unsigned lower_shift = 12, upper_shift = 27;

// Voxels have coordinates from -limit to below limit.
constexpr int coordinate_limit = 1 << 23;

__device__ __forceinline__ bool is_voxel(const vec3<int>& v) {
    // The comparison is unsigned: coordinates below -limit are large, too.
    constexpr unsigned limit = coordinate_limit;
    return v.x + limit < 2 * limit && v.y + limit < 2 * limit && v.z + limit < 2 * limit;
}

__device__ __forceinline__ unsigned long long leaf_key(const vec3<int>& v) {
    const unsigned long long x = (v.x >> 12) + 2048, y = (v.y >> 12) + 2048, z = (v.z >> 12) + 2048;
    return x << 51 | y << 39 | z << 27 | upper_place(v.x, v.y, v.z) << 12 | lower_place(v.x, v.y, v.z);
}

// The coordinate whose bits above 4096 these are.
__device__ __forceinline__ int times_4096(unsigned long long bits) {
    return (static_cast<int>(bits & 0xfff) - 2048) * 4096;
}
// The first voxel of the upper node with this key, a leaf's key without the lower 27 bits.
__device__ __forceinline__ vec3<int> upper_origin(unsigned long long key) {
    return {times_4096(key >> 24), times_4096(key >> 12), times_4096(key)};
}
__device__ __forceinline__ vec3<int> lower_origin(unsigned long long key) {
    const vec3<int> upper = upper_origin(key >> 15);
    const int place = static_cast<int>(key & 0x7fff);
    return {upper.x + (place >> 10 << 7), upper.y + ((place >> 5 & 31) << 7), upper.z + ((place & 31) << 7)};
}
__device__ __forceinline__ vec3<int> leaf_origin_of(unsigned long long key) {
    const vec3<int> lower = lower_origin(key >> lower_shift);
    const int place = static_cast<int>(key & 0xfff);
    return {lower.x + (place >> 8 << 3), lower.y + ((place >> 4 & 15) << 3), lower.z + ((place & 15) << 3)};
}

// The integer nearest to a, the greater one of two, saturated. A NaN gives a number that is not a valid coordinate.
__device__ __forceinline__ int nearest_voxel(double a) {
    const double below = exact::floor(a);
    const int whole = exact::floor_to_int(a);
    // The difference is exact; saturated numbers stay what they are.
    const bool up = exact::less_equal(0.5, exact::sub(a, below)) && whole != 0x7fffffff;
    return up ? whole + 1 : whole;
}

// A list of voxels by their coordinates.
struct IndexPoints {
    const int* data;

    __device__ __forceinline__ bool voxel(unsigned i, vec3<int>* out) const {
        const int* p = data + 3ull * i;
        *out = {__ldg(p), __ldg(p + 1), __ldg(p + 2)};
        return is_voxel(*out);
    }
};

// A list of points in the world, each of which names the nearest voxel.
struct WorldPoints {
    const float* data;
    // The map's inverse by rows, and the position of voxel (0, 0, 0).
    double inverse[9], origin[3];

    __device__ __forceinline__ bool voxel(unsigned i, vec3<int>* out) const {
        const float* p = data + 3ull * i;
        const float a = __ldg(p), b = __ldg(p + 1), c = __ldg(p + 2);
        const double x = exact::sub(exact::widen(a), origin[0]), y = exact::sub(exact::widen(b), origin[1]),
                     z = exact::sub(exact::widen(c), origin[2]);
        int found[3];
#pragma unroll
        for (int row = 0; row < 3; ++row) {
            const double* m = inverse + 3 * row;
            found[row] = nearest_voxel(exact::fma(x, m[0], exact::fma(y, m[1], exact::mul(z, m[2]))));
        }
        *out = {found[0], found[1], found[2]};
        return exact::is_finite(a) && exact::is_finite(b) && exact::is_finite(c) && is_voxel(*out);
    }
};

// Writes the key of each entry, and counts entries without a key. By whole warps.
template <class Points>
__device__ __forceinline__ void write_keys(const Build& b, const Points& points) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    bool invalid = false;
    if (i < b.n) {
        vec3<int> voxel;
        invalid = !points.voxel(i, &voxel);
        b.keys[0][i] = invalid ? no_key : leaf_key(voxel);
    }
    const unsigned count = __popc(__ballot_sync(0xffffffffu, invalid));
    if (threadIdx.x % 32 == 0 && count != 0) atomicAdd(&b.state->invalid, count);
}

} // namespace volume
} // namespace geom
