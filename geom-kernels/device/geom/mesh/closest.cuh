// The point of a mesh that is closest to a given one.
//
// All of this is written in exact arithmetic (exact.cuh): the bits depend neither on a program's options nor on the
// tree. The result is the face of least (key, index) among all, where the key of a face is the square of its distance
// as rounded by `distance_key`; and on that face the point that `closest_point` of a triangle finds.
//
// Error of the keys: with u = 2^-24, and p the point less a corner, each distance along an edge has an error of at
// most 5 u |p|, because the edge's direction and reciprocal are right to an ulp; so its point is on the edge up to 6
// u |p|. The normal is right to an ulp too, however thin the triangle, so the distance to the plane has an error of
// less than 4 u |p|; and a point is wrongly taken to be within an edge, or beyond it, only within 6 u |p|. That bound
// does not hold for two edges at once, which may be almost one line: beyond the tip of a needle both tests may seem
// to pass. But a point beyond a corner is not inside, which the distances along both edges show. In all, the square
// root of a key has an error of less than 8 u |p| + u d. |p| is at most `reach`, the distance to the farthest corner
// of the mesh's box, and so is d, unless it is that of a point outside of the box; `slack` = 2^-19 reach is more than
// the error of two keys together. Boxes are left out only beyond the best distance plus slack, so no face is lost
// that could win. Edges shorter than 2^-63 are points, at their lower vertex: slack has 2^-62 for them.
#pragma once

#include <geom/bvh/point_boxes.cuh>
#include <geom/mesh/packed.cuh>
#include <geom/mesh/triangle/closest.cuh>
#ifdef GEOM_AD
#include <geom/mesh/ad.cuh>
#endif

namespace geom {

// The closest point of a mesh to a point. `geom_kernels::mesh::ClosestPoint` in Rust.
struct ClosestPoint {
    vec3<float> position;
    // `exact::distance_squared` of the point and the position; infinite if there is none.
    float distance_squared;
    // `no_index` if there is none: no face, none within the limit, or an invalid point.
    unsigned face;
    // position is about (1 - u - v) a + u b + v c, where a, b and c are the face's corners.
    float u, v;
    // 0, 1, 2: a corner; 3, 4, 5: within the edge a-b, b-c, c-a; 6: inside. See `MeshFeature`.
    unsigned feature;
};

namespace mesh {

// a - b c, rounded once.
__device__ __forceinline__ vec3<float> less_times(vec3<float> a, float b, vec3<float> c) {
    using exact::fma;
    const float minus = exact::neg(b);
    return vec3<float>(fma(minus, c.x, a.x), fma(minus, c.y, a.y), fma(minus, c.z, a.z));
}

// The square of the distance from q to the triangle, which decides between faces. *height is the height of q above the
// plane of the ordered corners.
__device__ __forceinline__ float
distance_key(const Packed& triangle, vec3<float> q, float* height) {
    using namespace exact;
    const vec3<float> v0 = triangle.corner(0), v1 = triangle.corner(1), v2 = triangle.corner(2);
    const vec3<float> n(triangle.normal.x, triangle.normal.y, triangle.normal.z);
    const vec3<float> p0 = exact::sub(q, v0), p1 = exact::sub(q, v1);
    const vec3<float> e01 = exact::sub(v1, v0), e02 = exact::sub(v2, v0), e12 = exact::sub(v2, v1);
    const float t01 = mul_saturate(exact::dot(e01, p0), triangle.second.w);
    const float t02 = mul_saturate(exact::dot(e02, p0), triangle.normal.w);
    const float t12 = mul_saturate(exact::dot(e12, p1), triangle.third.w);
    const float d01 = exact::length_squared(less_times(p0, t01, e01));
    const float d02 = exact::length_squared(less_times(p0, t02, e02));
    const float d12 = exact::length_squared(less_times(p1, t12, e12));
    const vec3<float> k0 = exact::cross(p0, n), k1 = exact::cross(p1, n);
    const float in01 = exact::dot(e01, k0), in12 = exact::dot(e12, k1), in02 = exact::dot(e02, k0);
    *height = exact::dot(n, p0);
    const float edges = min(min(d01, d12), d02);
    // The comparison is of integers: all three must be positive.
    const bool between = __float_as_int(min(min(in01, in12), neg(in02))) > 0;
    // `beyond` means beyond a corner, to which the nearest points of both of its edges are clamped.
    const unsigned at01 = __float_as_uint(t01) << 1, at02 = __float_as_uint(t02) << 1;
    const unsigned at12 = __float_as_uint(t12) << 1, one = 0x3f800000u << 1;
    const bool beyond = (at01 | at02) == 0 || ((at01 ^ one) | at12) == 0 || ((at02 ^ one) | (at12 ^ one)) == 0;
    const bool inside = between && !beyond;
    return inside ? min(mul(*height, *height), edges) : edges;
}

// The sides on which q is of the faces that may be nearest: a bit each for the front and the back, both if that can't
// be decided.
constexpr unsigned side_front = 1, side_back = 2;

template <bool SIDES>
struct ClosestQuery {
    static constexpr bool ordered = true, votes = true, repeatable = true;
    const MeshTriangle* triangles;
    vec3<float> q;
    float slack;
    // The key of the nearest face so far, its index in the lower bits, and the face's place.
    unsigned long long best;
    unsigned place;
    // The greatest key of a box that may contain a nearer face.
    unsigned farthest;
    unsigned sides;

    // `distance` is the limit, which is not negative.
    __device__ __forceinline__ ClosestQuery(const Mesh& mesh, vec3<float> q, float distance)
        : triangles(mesh.triangles), q(q), place(no_index), sides(0) {
        using namespace exact;
        slack = add_up(mul_up(bvh::reach(bounds_of(mesh.bvh), q), 1.9073486328125e-06f), // 2^-19
                       2.168404344971009e-19f);                                              // 2^-62
        const float square = min(mul(distance, distance), detail::largest(0.0f));
        best = static_cast<unsigned long long>(__float_as_uint(square)) << 32 | no_index;
        shrink(square);
    }

    // Visits boxes up to slack beyond this distance.
    __device__ __forceinline__ void shrink(float square) {
        using namespace exact;
        const float distance = add_up(sqrt_up(square), slack);
        farthest = bvh::key_limit(min(mul_up(distance, distance), detail::largest(0.0f)));
    }

    __device__ __forceinline__ void restart() {}
    __device__ __forceinline__ void adopt(const ClosestQuery& copy) { *this = copy; }
    __device__ __forceinline__ unsigned limit() const { return farthest; }

    __device__ __forceinline__ void keys(const bvh::Boxes& boxes, unsigned (&key)[4]) const {
        bvh::PointBoxes{q}.keys(boxes, key);
    }

    __device__ __forceinline__ bool leaf(unsigned leaf) {
        const unsigned first = leaf_first(leaf), end = first + leaf_count(leaf);
        for (unsigned at = first; at < end; ++at) {
            const Packed triangle(triangles[at]);
            float height;
            const float square = distance_key(triangle, q, &height);
            const unsigned long long key =
                static_cast<unsigned long long>(__float_as_uint(square)) << 32 | triangle.face();
            if (SIDES && __float_as_uint(square) <= farthest) {
                const float least = exact::sub(exact::abs(height), slack);
                const bool back = ((__float_as_uint(height) ^ triangle.word()) >> 31) != 0;
                const unsigned side = __float_as_int(least) <= 0 ? side_front | side_back
                                      : back                     ? side_back
                                                                 : side_front;
                // A face farther than the best by more than slack does not change the result.
                if (key < best) {
                    float old = __uint_as_float(static_cast<unsigned>(best >> 32));
                    best = key;
                    place = at;
                    shrink(square);
                    sides = __float_as_uint(old) <= farthest ? sides | side : side;
                } else {
                    sides |= side;
                }
            } else if (!SIDES && key < best) {
                best = key;
                place = at;
                shrink(square);
            }
        }
        return false;
    }
};

__device__ __forceinline__ ClosestPoint no_closest_point() {
    ClosestPoint none;
    none.position = vec3<float>(exact::not_a_number());
    none.distance_squared = exact::infinity();
    none.face = no_index;
    none.u = none.v = 0.0f;
    none.feature = feature_face;
    return none;
}

// The result of a finished query.
template <bool SIDES>
__device__ __forceinline__ ClosestPoint answer(const ClosestQuery<SIDES>& query) {
    if (query.place == no_index) return no_closest_point();
    const Packed packed(query.triangles[query.place]);
    const Places places(packed.word());
    const TrianglePoint point = closest_point(face_of(packed, places), places.flags(), query.q);
    return ClosestPoint{point.position, point.distance_squared, packed.face(), point.u, point.v,
                        point.feature};
}

#ifdef GEOM_AD
// The triangle at a place; any triangle, if the place is invalid.
__device__ __forceinline__ Triangle triangle_at(const Mesh& mesh, unsigned place) {
    if (place == no_index) return Triangle{vec3<float>(0.0f), vec3<float>(0.0f), vec3<float>(0.0f)};
    const Packed packed(mesh.triangles[place]);
    return face_of(packed, Places(packed.word()));
}

#endif

// Searches for a face within the limit: the first such face ends the query.
struct WithinQuery : ClosestQuery<false> {
    static constexpr bool ordered = true, votes = false;

    __device__ __forceinline__ WithinQuery(const Mesh& mesh, vec3<float> q, float distance)
        : ClosestQuery<false>(mesh, q, distance) {}
    __device__ __forceinline__ bool leaf(unsigned leaf) {
        ClosestQuery<false>::leaf(leaf);
        return place != no_index;
    }
};

// Whether the query is valid.
__device__ __forceinline__ bool can_find(vec3<float> q, float distance) {
    return is_valid(q) && exact::less_equal(0.0f, distance);
}

#ifdef GEOM_AD
// The closest point as a constant, and the corners of its face.
__device__ __forceinline__ ClosestPoint
find_closest(const Mesh& mesh, vec3<float> q, float distance, Triangle* corners) {
    q = ad::stop(q), distance = ad::stop(distance);
    *corners = triangle_at(mesh, no_index);
    if (!can_find(q, distance)) return no_closest_point();
    ClosestQuery<false> query(mesh, q, distance);
    bvh::traverse(mesh.bvh, query);
    *corners = triangle_at(mesh, query.place);
    return answer(query);
}
#endif

} // namespace mesh

// The point of the mesh that is closest to q, among those within `distance`. Local memory: the stack of a traversal.
// Faces that the build skipped are not found.
__device__ __forceinline__ ClosestPoint
closest_point(const Mesh& mesh, vec3<float> q, float distance = exact::infinity()) {
#ifdef GEOM_AD
    Triangle corners;
    const ClosestPoint found = mesh::find_closest(mesh, q, distance, &corners);
    return mesh::with_gradient(mesh, q, corners, found);
#else
    if (!mesh::can_find(q, distance)) return mesh::no_closest_point();
    mesh::ClosestQuery<false> query(mesh, q, distance);
    bvh::traverse(mesh.bvh, query);
    return mesh::answer(query);
#endif
}

// Whether a face is within `distance` of q: whether `closest_point` finds one.
__device__ __forceinline__ bool is_within(const Mesh& mesh, vec3<float> q, float distance) {
#ifdef GEOM_AD
    q = ad::stop(q), distance = ad::stop(distance);
#endif
    if (!mesh::can_find(q, distance)) return false;
    mesh::WithinQuery query(mesh, q, distance);
    return bvh::traverse(mesh.bvh, query);
}

} // namespace geom
