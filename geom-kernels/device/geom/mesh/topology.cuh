// Topology: the faces across edges, and the normals of vertices. Computed by sorting, in the same order on every run;
// src/mesh/topology.rs launches the kernels.
//
// All of this is written in exact arithmetic (exact.cuh).
#pragma once

#include <geom/math/angle.cuh>
#include <geom/mesh/faces.cuh>

namespace geom {
namespace mesh {

// A place is 3 times a face plus one of its corners or edges: edge 0 runs from corner 0 to 1, edge 1 from 1 to 2,
// edge 2 from 2 to 0.

// The key of no edge: greater than all others, in which the two halves differ. `bits`, 1 to 32, is the number of bits
// of a point's index.
__device__ __forceinline__ unsigned long long no_edge(unsigned bits) {
    return ~0ull >> (64 - 2 * bits);
}

__device__ __forceinline__ unsigned long long edge_key(unsigned from, unsigned to, unsigned bits) {
    unsigned low = from < to ? from : to, high = from < to ? to : from;
    return (unsigned long long)low << bits | high;
}

// Writes the key of each of a face's edges: the vertex of the lower index, then the other.
__device__ __forceinline__ void
write_edge_keys(const Surface& surface, unsigned bits, unsigned long long* keys) {
    const unsigned i = thread();
    if (i >= surface.face_count) return;
    const Face face = look_at(surface, i);
    const bool has = face.has_edges();
    const vec3<unsigned> v = face.vertices;
    keys[3 * i] = has ? edge_key(v.x, v.y, bits) : no_edge(bits);
    keys[3 * i + 1] = has ? edge_key(v.y, v.z, bits) : no_edge(bits);
    keys[3 * i + 2] = has ? edge_key(v.z, v.x, bits) : no_edge(bits);
}

// The sorted keys. Those of one edge are consecutive, and their places ascend.
struct EdgeKeys {
    const unsigned long long* keys;
    unsigned count, bits;

    __device__ __forceinline__ bool is_edge(unsigned slot) const {
        return keys[slot] != no_edge(bits);
    }
    // Whether another slot has this key; slots below 0 and after the last one have none.
    __device__ __forceinline__ bool has(unsigned slot, unsigned long long key) const {
        return slot < count && keys[slot] == key;
    }
};

// Writes the face on the other side of each edge: for two faces the other one, whatever its direction.
__device__ __forceinline__ void
write_neighbors(const EdgeKeys& edges, const unsigned* places, unsigned* neighbors) {
    const unsigned slot = thread();
    if (slot >= edges.count) return;
    unsigned neighbor = no_index;
    if (edges.is_edge(slot)) {
        const unsigned long long key = edges.keys[slot];
        const bool before = edges.has(slot - 1, key), after = edges.has(slot + 1, key);
        if (after && !before && !edges.has(slot + 2, key)) neighbor = places[slot + 1] / 3;
        if (before && !after && !edges.has(slot - 2, key)) neighbor = places[slot - 1] / 3;
    }
    neighbors[places[slot]] = neighbor;
}

// Whether another face runs along an edge of a face in the opposite direction.
__device__ __forceinline__ bool runs_back(const Surface& surface, unsigned face, unsigned from, unsigned to) {
    if (face >= surface.face_count) return false;
    const vec3<unsigned> v = surface.faces[face];
    return (v.x == to && v.y == from) || (v.y == to && v.z == from) || (v.z == to && v.x == from);
}

// Sets *closed to 0 if an edge of the face has no face on the other side that runs along it in the opposite
// direction.
__device__ __forceinline__ void
check_closed(const Surface& surface, const unsigned* neighbors, unsigned* closed) {
    const unsigned i = thread();
    if (i >= surface.face_count) return;
    const Face face = look_at(surface, i);
    if (!face.has_edges()) return;
    const vec3<unsigned> v = face.vertices;
    const bool good = runs_back(surface, neighbors[3 * i], v.x, v.y) &&
                      runs_back(surface, neighbors[3 * i + 1], v.y, v.z) &&
                      runs_back(surface, neighbors[3 * i + 2], v.z, v.x);
    if (!good) atomicAnd(closed, 0u);
}

// Writes the vertex of each corner of a face that has edges; for other faces, the number of points.
__device__ __forceinline__ void write_corner_keys(const Surface& surface, unsigned* keys) {
    const unsigned i = thread();
    if (i >= surface.face_count) return;
    const Face face = look_at(surface, i);
    const bool has = face.has_edges();
    keys[3 * i] = has ? face.vertices.x : surface.point_count;
    keys[3 * i + 1] = has ? face.vertices.y : surface.point_count;
    keys[3 * i + 2] = has ? face.vertices.z : surface.point_count;
}

// The sum of faces' unit normals, each times its angle at a vertex: Baerentzen and Aanaes, "Signed
// Distance Computation Using the Angle Weighted Pseudonormal", 2005.
struct NormalSum {
    vec3<double> sum;
    double angles;

    __device__ __forceinline__ NormalSum() : sum(0.0), angles(0.0) {}

    // Adds a face that has this corner. One without area adds nothing.
    __device__ __forceinline__ void add(const Surface& surface, unsigned place) {
        const Face face = look_at(surface, place / 3);
        if (!face.has_edges()) return;
        const Triangle& t = face.triangle;
        const vec3<double> area = area_vector(t);
        const double length = exact::length(area);
        if (exact::equal(length, 0.0)) return;
        const unsigned corner = place % 3;
        const vec3<double> at = exact::widen(corner == 0 ? t.a : corner == 1 ? t.b : t.c);
        const vec3<double> to = exact::widen(corner == 0 ? t.b : corner == 1 ? t.c : t.a);
        const vec3<double> from = exact::widen(corner == 0 ? t.c : corner == 1 ? t.a : t.b);
        // The length of the area vector is the product of both sides and the sine.
        const double cosine = exact::dot(exact::sub(to, at), exact::sub(from, at));
        const double angle = exact::atan2(length, cosine);
        sum = exact::add(sum, exact::mul(area, exact::div(angle, length)));
        angles = exact::add(angles, angle);
    }

    // Adds the sum of the lane at this distance above.
    __device__ __forceinline__ void add_lane(unsigned distance) {
        const vec3<double> other(__shfl_down_sync(all_lanes, sum.x, distance),
                                 __shfl_down_sync(all_lanes, sum.y, distance),
                                 __shfl_down_sync(all_lanes, sum.z, distance));
        sum = exact::add(sum, other);
        angles = exact::add(angles, __shfl_down_sync(all_lanes, angles, distance));
    }

    // The unit normal; zero where the normals cancel up to rounding.
    __device__ __forceinline__ vec3<float> unit() const {
        const double length = exact::length(sum);
        if (exact::less_equal(length, exact::mul(angles, 1.4210854715202004e-14))) // 2^-46
            return vec3<float>(0.0f);
        return exact::narrow(vec3<double>(exact::div(sum.x, length), exact::div(sum.y, length),
                                          exact::div(sum.z, length)));
    }
};

// The first slot after `slot`, whose key is `vertex`, that has another key.
__device__ __forceinline__ unsigned
end_of_run(const unsigned* vertices, unsigned slot, unsigned count, unsigned vertex) {
    unsigned low = slot + 1, high = count;
    while (low < high) {
        const unsigned middle = low + (high - low) / 2;
        if (vertices[middle] == vertex)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The most corners of a vertex that one thread sums; a whole warp sums more.
constexpr unsigned most_alone = 32;

// Calls `found(vertex, sum)` for each vertex that has a corner. `vertices` are the sorted keys of corners, `places`
// the corners, ascending for each vertex. They are added in that order; if there are more than `most_alone`, lane i
// of 32 adds elements i, i + 32 and so on, then lanes i and i + 16 are added, i and i + 8, and so on. By whole warps.
template <class Found>
__device__ __forceinline__ void sum_normals(const Surface& surface, const unsigned* vertices,
                                            const unsigned* places, Found found) {
    const unsigned slot = thread(), count = 3 * surface.face_count;
    unsigned vertex = no_index, end = slot;
    if (slot < count) {
        vertex = vertices[slot];
        // The first corner of a vertex counts the vertex's corners.
        if (vertex < surface.point_count && (slot == 0 || vertices[slot - 1] != vertex))
            while (end < count && end - slot <= most_alone && vertices[end] == vertex) ++end;
    }
    const bool alone = end - slot <= most_alone;
    if (alone && end != slot) {
        NormalSum sum;
        for (unsigned i = slot; i < end; ++i) sum.add(surface, places[i]);
        found(vertex, sum);
    }
    for (unsigned left = __ballot_sync(all_lanes, !alone); left != 0; left &= left - 1) {
        const int leader = __ffs(int(left)) - 1;
        const unsigned first = __shfl_sync(all_lanes, slot, leader);
        const unsigned shared = __shfl_sync(all_lanes, vertex, leader);
        const unsigned last = end_of_run(vertices, first, count, shared);
        NormalSum sum;
        for (unsigned i = first + threadIdx.x % 32; i < last; i += 32) sum.add(surface, places[i]);
        for (unsigned distance = 16; distance > 0; distance /= 2) sum.add_lane(distance);
        if (threadIdx.x % 32 == 0) found(shared, sum);
    }
}

// Writes the normal of each vertex that has a corner: see `sum_normals`.
__device__ __forceinline__ void write_normals(const Surface& surface, const unsigned* vertices,
                                              const unsigned* places, vec3<float>* normals) {
    sum_normals(surface, vertices, places, [&](unsigned vertex, const NormalSum& sum) {
        normals[vertex] = sum.unit();
    });
}

} // namespace mesh
} // namespace geom
