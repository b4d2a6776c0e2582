// Rays through a volume of numbers: the first crossing of a value, and the integral of the field.
//
// All of this is written in exact arithmetic (exact.cuh): no bit depends on a program's options.
//
// The field is the trilinear interpolation of the voxels, which along a ray is a cubic in each cell: its first crossing
// is a root of the cubic, and its integral the integral of the cubic. Nothing is sampled in steps.
#pragma once

#include <geom/volume/hdda.cuh>
#include <geom/volume/map.cuh>
#include <geom/volume/ray_cubic.cuh>

namespace geom {

// The first crossing of a ray with a value. `geom_kernels::volume::VolumeHit` in Rust.
struct VolumeHit {
    // The ray parameter; infinite if there is no crossing, and then all other fields are 0.
    float t;
    // 1 if the ray comes from the side where the field is not less than the value, else 0.
    unsigned enters;
    // The position in index space is cell + place; each component of place is from 0 to 1.
    vec3<int> cell;
    vec3<float> place;
    // The direction of the gradient in the world, of length 1. 0 if the gradient is 0.
    vec3<float> normal;
};

namespace volume {

// A ray of the world in index space, with the same t.
__device__ __forceinline__ IndexRay index_ray(const VolumeMap& map, vec3<float> origin, vec3<float> direction,
                                              float t_min, float t_max) {
    using namespace exact;
    return IndexRay(world_to_index(map, widen(origin)), world_to_index_direction(map, widen(direction)),
                    widen(t_min), widen(t_max));
}

// The gradient of a cell's field at a place in it, of length 1 in the world; 0 if it is 0.
__device__ inline vec3<float> cell_normal(const VolumeMap& map, const double (&corners)[8], vec3<double> at) {
    using namespace exact;
    // First the slopes and values along z, of the four edges; then along y; then along x.
    double slope[4], value[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        slope[i] = sub(corners[2 * i + 1], corners[2 * i]);
        value[i] = lerp(corners[2 * i], corners[2 * i + 1], at.z);
    }
    const vec3<double> g(sub(lerp(value[2], value[3], at.y), lerp(value[0], value[1], at.y)),
                         lerp(sub(value[1], value[0]), sub(value[3], value[2]), at.x),
                         lerp(lerp(slope[0], slope[1], at.y), lerp(slope[2], slope[3], at.y), at.x));
    const vec3<double> world = index_to_world_gradient(map, g);
    // The vector is divided by its greatest component first, so that squares are in range.
    const double most = max(max(abs(world.x), abs(world.y)), abs(world.z));
    if (!less(0.0, most) || !is_finite(most)) return vec3<float>(0.0f);
    const vec3<double> scaled(div(world.x, most), div(world.y, most), div(world.z, most));
    const double size = exact::length(scaled);
    return narrow(vec3<double>(div(scaled.x, size), div(scaled.y, size), div(scaled.z, size)));
}

// Finds the first crossing. The side of the ray carries over from cell to cell: where rounding gives two cells
// different sides at the plane between them, the crossing is there.
template <class T>
struct Crossing {
    const IndexRay& ray;
    double iso;
    // Whether the ray is where the field is less; unknown before the first cell, and after one with a corner that is
    // not finite.
    bool known, inside, found;
    // The last cell in which the field was on both sides; at the end, the cell of the crossing.
    vec3<int> mixed;
    double t;

    __device__ __forceinline__ bool is_inside(T value) const {
        return exact::less(exact::widen(value), iso);
    }
    __device__ __forceinline__ bool one_sided(const T (&corners)[8]) const {
        const bool first = is_inside(corners[0]);
        bool same = true;
#pragma unroll
        for (int i = 1; i < 8; ++i) same = same && is_inside(corners[i]) == first;
        return same;
    }
    __device__ __forceinline__ bool constant(T value, double t0, double) {
        const bool changes = known && inside != is_inside(value);
        inside = is_inside(value);
        if (changes) t = t0, found = true;
        known = true;
        return changes;
    }
    __device__ __forceinline__ bool cell(vec3<int> cell, const T (&corners)[8], double t0, double t1) {
        using namespace exact;
        if (one_sided(corners)) return constant(corners[0], t0, t1);
        mixed = cell;
        double at[8];
        bool finite = true;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            at[i] = sub(widen(corners[i]), iso);
            finite = finite && is_finite(at[i]);
        }
        if (!finite) {
            known = false;
            return false;
        }
        const RayCubic cubic(at, ray.in_cell(cell, t0), ray.in_cell(cell, t1));
        const bool begins = less(cubic.b0, 0.0);
        double s = 0.0;
        found = known && inside != begins;
        if (!found) {
            inside = begins;
            found = first_change(cubic, &s);
        }
        if (found) {
            t = min(max(fma(s, sub(t1, t0), t0), t0), t1);
            inside = !inside;
        }
        known = true;
        return found;
    }
};

// Sums the integral.
template <class T>
struct Integral {
    const IndexRay& ray;
    double sum;

    __device__ __forceinline__ bool constant(T value, double t0, double t1) {
        sum = exact::fma(exact::widen(value), exact::sub(t1, t0), sum);
        return false;
    }
    __device__ __forceinline__ bool cell(vec3<int> cell, const T (&corners)[8], double t0, double t1) {
        double at[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) at[i] = exact::widen(corners[i]);
        const RayCubic cubic(at, ray.in_cell(cell, t0), ray.in_cell(cell, t1));
        sum = exact::fma(cubic.mean(), exact::sub(t1, t0), sum);
        return false;
    }
};

} // namespace volume

// The first t of the ray, from t_min (0 if that is less) to t_max, at which the field of the volume, in the world,
// changes between less than `iso` and not less. Returns whether there is one; `hit` is written in any case. A ray
// whose direction is 0, or which is not finite, finds nothing; nor is a crossing found in a cell with a corner that
// is not finite unless all other corners are on the ray's side, nor beyond +-2^30 in index space. T is float or
// double.
//
// The effect of rounding: t is the crossing for a field whose values have an error of some 2^-50 of the corners', on
// a ray with such an error of its coordinates (hdda.cuh), rounded to f32. Two crossings may be missed if the field
// between them is that close to `iso`.
template <class T>
__device__ inline bool first_crossing(const Volume<T>& volume, vec3<float> origin, vec3<float> direction,
                                      float t_min, float t_max, double iso, VolumeHit* hit) {
    using namespace exact;
#ifdef GEOM_AD
    origin = ad::stop(origin), direction = ad::stop(direction), iso = ad::stop(iso);
    t_min = ad::stop(t_min), t_max = ad::stop(t_max);
#endif
    const volume::IndexRay ray = volume::index_ray(volume.map, origin, direction, t_min, t_max);
    *hit = VolumeHit{infinity(), 0, vec3<int>(0), vec3<float>(0.0f), vec3<float>(0.0f)};
    volume::Crossing<T> crossing = {ray, iso, false, false, false, vec3<int>(0), 0.0};
    volume::walk(volume, ray, crossing);
    if (!crossing.found) return false;
    volume::CellCorners<T> cell;
    cell.start(volume, crossing.mixed);
    cell.fetch(volume);
    // `p` selects the cell with the crossing among those with the same corners.
    const vec3<double> p = ray.at(crossing.t);
    const int bits = cell.like_bits();
    const vec3<int> in(volume::Axis(crossing.mixed.x, bits).at(p.x),
                       volume::Axis(crossing.mixed.y, bits).at(p.y),
                       volume::Axis(crossing.mixed.z, bits).at(p.z));
    double corners[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) corners[i] = widen(cell.corners[i]);
    const vec3<double> place = ray.in_cell(in, crossing.t);
    // The sum with 0 turns -0 into 0.
    hit->t = add(narrow(crossing.t), 0.0f);
    hit->enters = crossing.inside ? 1 : 0;
    hit->cell = in;
    hit->place = narrow(place);
    hit->normal = volume::cell_normal(volume.map, corners, place);
#ifdef GEOM_AD
    hit->t = ad::lost_result(hit->t);
    hit->place = ad::lost_result(hit->place);
    hit->normal = ad::lost_result(hit->normal);
#endif
    return true;
}
template <class T>
__device__ __forceinline__ bool first_crossing(const Volume<T>& volume, const MeshRay& ray, double iso,
                                               VolumeHit* hit) {
    return first_crossing(volume, ray.origin, ray.direction, ray.t_min, ray.t_max, iso, hit);
}
template <class T>
__device__ __forceinline__ bool first_crossing(const Volume<T>& volume, const ray<float>& ray, double iso,
                                               VolumeHit* hit) {
    return first_crossing(volume, ray.origin, ray.direction, ray.t_min, ray.t_max, iso, hit);
}

// The integral over t of the field of the volume, in the world, from t_min (0 if that is less) to t_max, without the
// part beyond +-2^30 in index space. Times the length of the direction, it is the integral over length. 0 for a ray
// whose direction is 0, or which is not finite.
template <class T>
__device__ inline double integrate(const Volume<T>& volume, vec3<float> origin, vec3<float> direction,
                                   float t_min, float t_max) {
    const volume::IndexRay ray = volume::index_ray(volume.map, origin, direction, t_min, t_max);
    volume::Integral<T> integral = {ray, 0.0};
    volume::walk(volume, ray, integral);
    return integral.sum;
}
template <class T>
__device__ __forceinline__ double integrate(const Volume<T>& volume, const MeshRay& ray) {
    return integrate(volume, ray.origin, ray.direction, ray.t_min, ray.t_max);
}
template <class T>
__device__ __forceinline__ double integrate(const Volume<T>& volume, const ray<float>& ray) {
    return integrate(volume, ray.origin, ray.direction, ray.t_min, ray.t_max);
}

// Traverses the volume along the ray, from cell to cell: see `volume::walk` for the functions of `visit`, and
// `volume::RayCubic` for the field in a cell.
template <class T, class V>
__device__ __forceinline__ void for_each_segment(const Volume<T>& volume, const MeshRay& ray, V& visit) {
    volume::walk(volume,
                 volume::index_ray(volume.map, ray.origin, ray.direction, ray.t_min, ray.t_max), visit);
}

} // namespace geom
