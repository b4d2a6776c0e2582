// Adjoints of the vertices of a surface in a field: its crossings with edges of the lattice.
//
// The vertex between values a and b is at t = (iso - a) / (b - a) of the edge, computed in f64 like the forward; so a
// has the gradient (t - 1) / (b - a), b has -t / (b - a) and iso 1 / (b - a), each times the gradient of t. If the
// surface runs along an edge, 1 / (b - a) and the gradients are large. A gradient assumes that the same edges are
// crossed. An edge with equal ends, which no surface crosses, has the subgradient 0.
#pragma once

#include <geom/isosurface/field.cuh>
#include <geom/math/adjoint.cuh>

namespace geom {
namespace isosurface {

// The gradients of an edge's values, low end first, and of the surface's value.
template <class T>
struct CrossingGradient {
    T a, b, iso;
};

// Returns the gradients for that of t, which is written to *t.
template <class T>
__device__ __forceinline__ CrossingGradient<T> crossing_adjoint(T a, T b, T iso, double g, double* t) {
    using namespace exact;
    const double step = sub(widen(b), widen(a)), inverse = div(1.0, step);
    *t = 0.0;
    if (!is_finite(inverse)) return {T(0), T(0), T(0)};
    *t = div(sub(widen(iso), widen(a)), step);
    const double of_iso = mul(g, inverse);
    return {adjoint::rounded<T>(mul(of_iso, sub(*t, 1.0))), adjoint::rounded<T>(neg(mul(of_iso, *t))),
            adjoint::rounded<T>(of_iso)};
}

// The adjoint of the point from + t (to - from) between two points of any lattice.
template <class T>
struct EdgePointGradient {
    vec3<T> from, to;
    CrossingGradient<T> values;
};

template <class T>
__device__ __forceinline__ EdgePointGradient<T> edge_point_adjoint(vec3<T> from, vec3<T> to, T a, T b, T iso,
                                                                   vec3<T> g) {
    using namespace exact;
    const vec3<double> wide_g = adjoint::wide(g);
    const vec3<double> along = exact::sub(adjoint::wide(to), adjoint::wide(from));
    double t;
    EdgePointGradient<T> out;
    out.values = crossing_adjoint(a, b, iso, exact::dot(wide_g, along), &t);
    out.from = adjoint::rounded<T>(exact::mul(wide_g, sub(1.0, t)));
    out.to = adjoint::rounded<T>(exact::mul(wide_g, t));
    return out;
}

// Calls `f(number, axis)` for the vertices on the edges that a corner owns, given the edges of its word. So a thread
// for each corner finds all vertices, by the numbers that extraction gave them.
template <class F>
__device__ __forceinline__ void for_each_vertex(const Edges& edges, unsigned lane, F&& f) {
    const unsigned bits[3] = {edges.x, edges.y, edges.z};
    unsigned first = edges.first;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        if ((bits[axis] >> lane & 1) != 0) f(first + __popc(bits[axis] & ((1u << lane) - 1)), axis);
        first += __popc(bits[axis]);
    }
}

// The gradients of a vertex of a field's surface.
template <class T>
struct VertexGradient {
    // The indices of its two values in the field, as `Field::value` takes them.
    unsigned place_a, place_b;
    CrossingGradient<T> values;
    // The gradients of IndexMap::rows; their last column has the vertex's own gradient.
    double rows[3][4];
};

// Returns the gradients for that of the position of the vertex on the edge along `axis` from this corner on.
template <class T, class Field>
__device__ __forceinline__ VertexGradient<T> vertex_adjoint(const Field& field, const IndexMap& map, float iso,
                                                            Place lower, int axis, vec3<T> g) {
    using namespace exact;
    Place upper = field.corner(lower, 4u >> axis);
    // The last word of a row may have fewer corners: an edge there was written for another field.
    if (upper.lane >= field.run(upper.word).count) upper = lower;
    VertexGradient<T> out;
    out.place_a = field.run(lower.word).first + lower.lane;
    out.place_b = field.run(upper.word).first + upper.lane;
    const vec3<double> wide_g = adjoint::wide(g);
    const auto slope = [&](int row) {
        const double(&r)[4] = map.rows[row];
        return axis == 0 ? r[0] : axis == 1 ? r[1] : r[2];
    };
    double t;
    const double g_t = exact::dot(wide_g, vec3<double>(slope(0), slope(1), slope(2)));
    const CrossingGradient<double> values = crossing_adjoint<double>(
        widen(field.value(out.place_a)), widen(field.value(out.place_b)), widen(iso), g_t, &t);
    out.values = {adjoint::rounded<T>(values.a), adjoint::rounded<T>(values.b),
                  adjoint::rounded<T>(values.iso)};
    const vec3<double> at = moved(vec3<double>(field.position(lower)), axis, t);
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        out.rows[i][0] = mul(wide_g[i], at.x);
        out.rows[i][1] = mul(wide_g[i], at.y);
        out.rows[i][2] = mul(wide_g[i], at.z);
        out.rows[i][3] = wide_g[i];
    }
    return out;
}

} // namespace isosurface
} // namespace geom
