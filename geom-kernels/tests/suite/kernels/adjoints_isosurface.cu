// Adjoints of the vertices of a surface. Thread i reads row i of `in` and writes row i of `out`.
#include <geom/isosurface/adjoint.cuh>

using namespace geom;
using namespace geom::isosurface;

namespace {

__device__ unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

template <class T>
__device__ vec3<T> load(const T* in) {
    return vec3<T>(in[0], in[1], in[2]);
}
template <class T>
__device__ void put(T* out, vec3<T> v) {
    out[0] = v.x;
    out[1] = v.y;
    out[2] = v.z;
}

// in: the edge's ends, their values, the surface's, a gradient. out: those of the ends and the values.
template <class T>
__device__ void edge_point(const T* in, T* out) {
    const EdgePointGradient<T> of =
        edge_point_adjoint(load(in), load(in + 3), in[6], in[7], in[8], load(in + 9));
    put(out, of.from);
    put(out + 3, of.to);
    put(out + 6, vec3<T>(of.values.a, of.values.b, of.values.iso));
}

// in: a lower corner, an axis, a gradient. out: the places of both values, their gradients and that of the surface's
// value, and that of the map; the vertex itself.
template <class T>
__device__ void vertex(const DenseField& field, const double* rows, float iso, const T* in, T* out) {
    IndexMap map;
    for (int i = 0; i < 12; ++i)
        map.rows[i / 4][i % 4] = rows[i];
    const unsigned x = exact::floor_to_int(in[0]), y = exact::floor_to_int(in[1]),
                   z = exact::floor_to_int(in[2]);
    const Place lower = {(x * field.ny + y) * field.row_words + z / 32, z % 32};
    const int axis = exact::floor_to_int(in[3]);
    const VertexGradient<T> of = vertex_adjoint(field, map, iso, lower, axis, load(in + 4));
    out[0] = T(of.place_a);
    out[1] = T(of.place_b);
    put(out + 2, vec3<T>(of.values.a, of.values.b, of.values.iso));
    for (int i = 0; i < 12; ++i)
        out[5 + i] = adjoint::rounded<T>(of.rows[i / 4][i % 4]);
}

} // namespace

extern "C" __global__ void edge_point_f32(const float* in, unsigned n, float* out) {
    if (thread() < n) edge_point(in + 12 * thread(), out + 9 * thread());
}
extern "C" __global__ void edge_point_f64(const double* in, unsigned n, double* out) {
    if (thread() < n) edge_point(in + 12 * thread(), out + 9 * thread());
}
extern "C" __global__ void vertex_f32(DenseField field, const double* rows, float iso, const float* in,
                                      unsigned n, float* out) {
    if (thread() < n) vertex(field, rows, iso, in + 7 * thread(), out + 17 * thread());
}
extern "C" __global__ void vertex_f64(DenseField field, const double* rows, float iso, const double* in,
                                      unsigned n, double* out) {
    if (thread() < n) vertex(field, rows, iso, in + 7 * thread(), out + 17 * thread());
}

// A thread for each of n corners: of each vertex, its corner and axis.
extern "C" __global__ void number_vertices(const Edges* edges, unsigned n, unsigned* out) {
    const unsigned corner = thread();
    if (corner >= n) return;
    for_each_vertex(edges[corner / 32], corner % 32,
                    [&](unsigned number, int axis) { out[number] = 3 * corner + axis; });
}
