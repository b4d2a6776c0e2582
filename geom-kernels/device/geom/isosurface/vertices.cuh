// The crossing of the surface with an edge, and its normal there.
//
// Computed in f64, where the difference of two f32 neither overflows nor vanishes; rounded to f32 at the end.
#pragma once

#include <geom/isosurface/field.cuh>

namespace geom {
namespace isosurface {

struct Vertex {
    vec3<float> position, normal;
};

// Interpolates between a at 0 and b at 1.
__device__ __forceinline__ double between(double a, double b, double t) {
    return exact::fma(t, exact::sub(b, a), a);
}

// The position on an edge, from 0 at its lower end to 1, at which a linear function with these values at the ends is
// `iso`. The ends differ, and `iso` lies between them, so that the quotient is from 0 to 1.
__device__ __forceinline__ double crossing(float a, float b, float iso) {
    using namespace exact;
    return div(sub(widen(iso), widen(a)), sub(widen(b), widen(a)));
}

// The field's gradient at a corner, in the field's indices: central differences, one-sided at the border and beside
// values that are not finite; 0 along axes without a neighbour.
template <class Field>
__device__ __forceinline__ vec3<double> gradient(const Field& field, Place corner, float value) {
    using namespace exact;
    vec3<double> g(0.0);
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        float low, high;
        const bool has_low = field.beside(corner, axis, -1, low) && exact::is_finite(low);
        const bool has_high = field.beside(corner, axis, 1, high) && exact::is_finite(high);
        if (!has_low) low = value;
        if (!has_high) high = value;
        const double difference = sub(widen(high), widen(low));
        g[axis] = has_low && has_high ? mul(0.5, difference) : difference;
    }
    return g;
}

__device__ __forceinline__ vec3<double> row_times(const double (&row)[3][3], vec3<double> v) {
    const auto dot = [&](int i) {
        return exact::fma(row[i][2], v.z, exact::fma(row[i][1], v.y, exact::mul(row[i][0], v.x)));
    };
    return vec3<double>(dot(0), dot(1), dot(2));
}

// The unit normal of the surface, towards greater values; 0 if the gradient is 0.
__device__ __forceinline__ vec3<float> unit_normal(const IndexMap& map, vec3<double> gradient) {
    using namespace exact;
    const vec3<double> n = row_times(map.normal_rows, gradient);
    const double squared = exact::dot(n, n);
    if (equal(squared, 0.0)) return vec3<float>(0.0f);
    return narrow(exact::mul(n, div(1.0, sqrt(squared))));
}

// The vertex on the edge along `axis` from this corner on.
template <bool NORMALS, class Field>
__device__ __forceinline__ Vertex vertex_on(const Field& field, const IndexMap& map, float iso, Place lower,
                                            int axis) {
    const Place upper = field.corner(lower, 4u >> axis);
    const float a = field.value(field.run(lower.word).first + lower.lane);
    const float b = field.value(field.run(upper.word).first + upper.lane);
    const double t = crossing(a, b, iso);
    const vec3<double> at = moved(vec3<double>(field.position(lower)), axis, t);
    Vertex vertex;
    const auto world = [&](int i) {
        using exact::fma;
        const double(&row)[4] = map.rows[i];
        return exact::narrow(fma(row[2], at.z, fma(row[1], at.y, fma(row[0], at.x, row[3]))));
    };
    vertex.position = vec3<float>(world(0), world(1), world(2));
    if (NORMALS) {
        const vec3<double> from = gradient(field, lower, a), to = gradient(field, upper, b);
        vertex.normal = unit_normal(map, vec3<double>(between(from.x, to.x, t), between(from.y, to.y, t),
                                                      between(from.z, to.z, t)));
    }
    return vertex;
}

} // namespace isosurface
} // namespace geom
