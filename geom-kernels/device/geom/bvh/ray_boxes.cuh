// A ray against the boxes of nodes.
//
// All of this is written in exact arithmetic (exact.cuh): no bit depends on a program's options.
//
// A separate test decides what a ray hits. Its roundings move the ray by less than 16 u m + 4 u |o| (u = 2^-24; m:
// the distance of the farthest corner of the root's box from the origin o), see mesh/rays.cuh. So that no box with a
// hit is left out, each box is enlarged by `2^-19 m + 2^-20 |o|` on all sides, and by at least 2^-80, for underflow;
// this is applied to the origin, once per ray. It includes the roundings of the arithmetic here. The direction is
// scaled by a power of two so that its greatest component is from 1 to 2, and components below 2^-60 count as 2^-60:
// a ray that is parallel to planes stays between them until it has left the root.
#pragma once

#include <geom/bvh/traverse.cuh>
#include <geom/math/ray.cuh>

namespace geom {

// A ray of queries: the points origin + t direction for t from t_min (0 if that is less) to t_max. The direction need
// not be unit. `geom_kernels::Ray` in Rust.
struct alignas(16) MeshRay {
    vec3<float> origin;
    float t_min;
    vec3<float> direction;
    float t_max;
};

// Ray i of an array, in two loads.
__device__ __forceinline__ MeshRay load_ray(const MeshRay* rays, unsigned i) {
    const float4* from = reinterpret_cast<const float4*>(rays + i);
    const float4 a = from[0], b = from[1];
    return {{a.x, a.y, a.z}, a.w, {b.x, b.y, b.z}, b.w};
}

// A ray of queries, without an end unless one is given.
__device__ __forceinline__ MeshRay make_ray(vec3<float> origin, vec3<float> direction,
                                            float t_min = 0.0f, float t_max = exact::infinity()) {
    return MeshRay{origin, t_min, direction, t_max};
}

namespace bvh {

struct RayBoxes {
    // For each axis: 1 / direction, and the summands for the near and the far plane.
    vec3<float> inverse, near_plane, far_plane;
    // The factor from the caller's t to that of the scaled direction.
    float scale;
    float t_min;

    RayBoxes() = default;
    __device__ __forceinline__ RayBoxes(const aabb<float>& bounds, vec3<float> origin,
                                        vec3<float> direction, float t_min) {
        using namespace exact;
        const float most = max(max(abs(direction.x), abs(direction.y)), abs(direction.z));
        // The biased exponent, at least 1, so that both powers are normal numbers.
        unsigned exponent = __float_as_uint(most) >> 23;
        exponent = ::min(::max(exponent, 1u), 253u);
        scale = __uint_as_float(exponent << 23);
        const float unscale = __uint_as_float((254u - exponent) << 23);
        const float rounded =
            add_up(mul_up(reach(bounds, origin), 1.9073486328125e-06f), // 2^-19
                   mul_up(max(max(abs(origin.x), abs(origin.y)), abs(origin.z)), 9.5367431640625e-07f));
        const float margin = max(rounded, 8.271806125530277e-25f); // 2^-80
        axis(origin.x, mul(direction.x, unscale), margin, &inverse.x, &near_plane.x, &far_plane.x);
        axis(origin.y, mul(direction.y, unscale), margin, &inverse.y, &near_plane.y, &far_plane.y);
        axis(origin.z, mul(direction.z, unscale), margin, &inverse.z, &near_plane.z, &far_plane.z);
        this->t_min = max(mul_down(t_min, scale), 0.0f);
    }

    // A t of the caller, rounded up.
    __device__ __forceinline__ float scaled(float t) const {
        return exact::min(exact::mul_up(t, scale), detail::largest(0.0f));
    }

    __device__ __forceinline__ static void axis(float origin, float along, float margin, float* inverse,
                                                float* near_plane, float* far_plane) {
        using namespace exact;
        const bool back = detail::is_negative(along);
        const float least = 8.673617379884035e-19f; // 2^-60
        float size = max(abs(along), least);
        *inverse = div(back ? -1.0f : 1.0f, size);
        const float outwards = back ? neg(margin) : margin;
        *near_plane = neg(mul(add(origin, outwards), *inverse));
        *far_plane = neg(mul(sub(origin, outwards), *inverse));
    }

    __device__ __forceinline__ unsigned key(float nx, float ny, float nz, float fx, float fy, float fz,
                                            float farthest, unsigned child) const {
        using namespace exact;
        const float enter = max(max(fma(nx, inverse.x, near_plane.x), fma(ny, inverse.y, near_plane.y)),
                                max(fma(nz, inverse.z, near_plane.z), t_min));
        const float leave = min(min(fma(fx, inverse.x, far_plane.x), fma(fy, inverse.y, far_plane.y)),
                                min(fma(fz, inverse.z, far_plane.z), farthest));
        // The comparison is of integers: neither is a NaN, and enter is not negative, so a negative difference means
        // that it is greater.
        return __float_as_int(sub(leave, enter)) < 0 ? rejected | child : make_key(enter, child);
    }

    __device__ __forceinline__ void keys(const Boxes& boxes, float farthest, unsigned (&key)[4]) const {
        const bool bx = detail::is_negative(inverse.x), by = detail::is_negative(inverse.y),
                   bz = detail::is_negative(inverse.z);
        const float4* at = boxes.at;
        const float4 nx = load_unchanged(at + (bx ? 3 : 0)), ny = load_unchanged(at + (by ? 4 : 1)),
                     nz = load_unchanged(at + (bz ? 5 : 2));
        const float4 fx = load_unchanged(at + (bx ? 0 : 3)), fy = load_unchanged(at + (by ? 1 : 4)),
                     fz = load_unchanged(at + (bz ? 2 : 5));
        key[0] = this->key(nx.x, ny.x, nz.x, fx.x, fy.x, fz.x, farthest, 0);
        key[1] = this->key(nx.y, ny.y, nz.y, fx.y, fy.y, fz.y, farthest, 1);
        key[2] = this->key(nx.z, ny.z, nz.z, fx.z, fy.z, fz.z, farthest, 2);
        key[3] = this->key(nx.w, ny.w, nz.w, fx.w, fy.w, fz.w, farthest, 3);
    }
};

} // namespace bvh
} // namespace geom
