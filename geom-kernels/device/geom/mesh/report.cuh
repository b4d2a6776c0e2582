// The defects and the size of a mesh. src/mesh/report.rs launches the kernels.
//
// Counts and bounds are integers, so the order of additions does not matter; sums of floats have a fixed order.
// All of this is written in exact arithmetic (exact.cuh).
#pragma once

#include <geom/mesh/topology.cuh>

namespace geom {
namespace mesh {

// The counters. First faults and bounds begin with all bits set, the rest as 0.
struct Counts {
    // The first face with a fault: its index from bit 34 on, the corner in bits 32 and 33, and the
    // index of the vertex there. (There are less than 2^30 faces.)
    unsigned long long first_out_of_range, first_not_finite;
    // Sums over faces, which are added up elsewhere.
    double twice_area, six_volumes;
    unsigned out_of_range, not_finite;
    // Faces that are not skipped: with a repeated index, and without area.
    unsigned collapsed, degenerate;
    unsigned edges, boundary_edges, non_manifold_edges, inconsistent_edges;
    // Points that a face with edges uses.
    unsigned used_points;
    // For valid points, the least coordinate and the complement of the greatest, in x, y and z, as `ordered` words.
    unsigned bounds[6];
    unsigned unused;
};

// Counts the skipped faces, and finds the first ones. By whole warps.
__device__ __forceinline__ void count_faults(const Face& face, unsigned i, Counts& counts) {
    const bool out_of_range = face.fault == fault_out_of_range;
    if (face.fault != fault_none) {
        const vec3<unsigned> v = face.vertices;
        const unsigned vertex = face.corner == 0 ? v.x : face.corner == 1 ? v.y : v.z;
        const unsigned long long place = (unsigned long long)i << 2 | face.corner;
        atomicMin(out_of_range ? &counts.first_out_of_range : &counts.first_not_finite,
                  place << 32 | vertex);
    }
    count_lanes(out_of_range, counts.out_of_range);
    count_lanes(face.fault == fault_not_finite, counts.not_finite);
}

// This thread's face; beyond the last, a face without a fault and without edges.
__device__ __forceinline__ Face face_or_nothing(const Surface& surface) {
    if (thread() < surface.face_count) return look_at(surface, thread());
    Face none;
    none.vertices = vec3<unsigned>(0u);
    none.fault = fault_none;
    none.corner = 0;
    return none;
}

__device__ __forceinline__ void validate(const Surface& surface, Counts& counts) {
    count_faults(face_or_nothing(surface), thread(), counts);
}

// A finite number as a word that compares like it.
__device__ __forceinline__ unsigned ordered(float v) {
    unsigned bits = __float_as_uint(v);
    return bits >> 31 ? ~bits : bits | 1u << 31;
}
__device__ __forceinline__ float unordered(unsigned word) {
    return __uint_as_float(word >> 31 ? word & ~(1u << 31) : ~word);
}

__device__ __forceinline__ unsigned least_lane(unsigned word) {
    for (int offset = 16; offset > 0; offset /= 2) {
        unsigned other = __shfl_xor_sync(all_lanes, word, offset);
        word = other < word ? other : word;
    }
    return word;
}

// Lowers the bounds to those of all valid points. By whole warps, any number of them.
__device__ __forceinline__ void bound_points(const Surface& surface, Counts& counts) {
    constexpr unsigned none = ~0u;
    unsigned least[6] = {none, none, none, none, none, none};
    for (unsigned i = thread(); i < surface.point_count; i += gridDim.x * blockDim.x) {
        const vec3<float> p = surface.points[i];
        if (!is_valid(p)) continue;
        for (int axis = 0; axis < 3; ++axis) {
            const unsigned word = ordered(p[axis]);
            least[axis] = word < least[axis] ? word : least[axis];
            least[3 + axis] = ~word < least[3 + axis] ? ~word : least[3 + axis];
        }
    }
    for (int place = 0; place < 6; ++place) {
        const unsigned word = least_lane(least[place]);
        if (word != none && threadIdx.x % 32 == 0) atomicMin(counts.bounds + place, word);
    }
}

// The middle of the bounds, if there are valid points.
__device__ __forceinline__ vec3<double> middle(const Counts& counts) {
    using namespace exact;
    const unsigned* b = counts.bounds;
    vec3<double> lower(widen(unordered(b[0])), widen(unordered(b[1])), widen(unordered(b[2])));
    vec3<double> upper(widen(unordered(~b[3])), widen(unordered(~b[4])), widen(unordered(~b[5])));
    return exact::mul(exact::add(lower, upper), 0.5);
}

// The sum over a block of 256 threads, in thread 0: first the halves of a warp are added, then the halves of these,
// and so on; then the warps in their order.
__device__ __forceinline__ double block_sum(double value, double (&warps)[8]) {
    for (unsigned distance = 16; distance > 0; distance /= 2)
        value = exact::add(value, __shfl_down_sync(all_lanes, value, distance));
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    double sum = warps[0];
    if (threadIdx.x == 0)
        for (int warp = 1; warp < 8; ++warp) sum = exact::add(sum, warps[warp]);
    __syncthreads();
    return sum;
}

// Counts properties of single faces; marks the points of those with edges, a bit each in `used`; and writes each
// block's sums of areas and volumes. The bounds must be complete. By blocks of 256 threads.
__device__ __forceinline__ void measure_faces(const Surface& surface, Counts& counts,
                                              unsigned* used, double* areas, double* volumes) {
    __shared__ double warps[8];
    const bool there = thread() < surface.face_count;
    const Face face = face_or_nothing(surface);
    count_faults(face, thread(), counts);
    const bool valid = there && face.fault == fault_none, has_edges = valid && face.has_edges();
    double area = 0.0, volume = 0.0;
    if (has_edges) {
        const vec3<unsigned> v = face.vertices;
        atomicOr(used + v.x / 32, 1u << v.x % 32);
        atomicOr(used + v.y / 32, 1u << v.y % 32);
        atomicOr(used + v.z / 32, 1u << v.z % 32);
        const vec3<double> vector = area_vector(face.triangle);
        area = exact::length(vector);
        // The origin is in the middle, so that a mesh far away does not lose digits.
        volume = exact::dot(exact::sub(exact::widen(face.triangle.a), middle(counts)), vector);
    }
    count_lanes(valid && !has_edges, counts.collapsed);
    count_lanes(valid && exact::equal(area, 0.0), counts.degenerate);
    area = block_sum(area, warps);
    volume = block_sum(volume, warps);
    if (threadIdx.x == 0) {
        areas[blockIdx.x] = area;
        volumes[blockIdx.x] = volume;
    }
}

// Counts the points that are marked in `words` words. By whole warps.
__device__ __forceinline__ void count_points(const unsigned* used, unsigned words, Counts& counts) {
    int marked = thread() < words ? __popc(used[thread()]) : 0;
    for (int offset = 16; offset > 0; offset /= 2)
        marked += __shfl_xor_sync(all_lanes, marked, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(&counts.used_points, unsigned(marked));
}

// Whether an edge runs from the lower to the higher index.
__device__ __forceinline__ bool ascends(const Surface& surface, unsigned place) {
    const vec3<unsigned> v = surface.faces[place / 3];
    const unsigned edge = place % 3;
    return edge == 0 ? v.x < v.y : edge == 1 ? v.y < v.z : v.z < v.x;
}

// Counts edges, by the first slot of each. By whole warps.
__device__ __forceinline__ void
count_edges(const Surface& surface, const EdgeKeys& edges, const unsigned* places, Counts& counts) {
    const unsigned slot = thread();
    bool first = false, second = false, third = false, alike = false;
    if (slot < edges.count && edges.is_edge(slot)) {
        const unsigned long long key = edges.keys[slot];
        first = !edges.has(slot - 1, key);
        second = first && edges.has(slot + 1, key);
        third = second && edges.has(slot + 2, key);
        if (second && !third)
            alike = ascends(surface, places[slot]) == ascends(surface, places[slot + 1]);
    }
    count_lanes(first, counts.edges);
    count_lanes(first && !second, counts.boundary_edges);
    count_lanes(third, counts.non_manifold_edges);
    count_lanes(alike, counts.inconsistent_edges);
}

} // namespace mesh
} // namespace geom
