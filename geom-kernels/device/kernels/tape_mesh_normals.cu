// Normals of vertices, and gradients through them. src/tape/mesh_normals.rs launches the kernels.
// inexact: tape_vertex_normals_adjoint sums over the faces of a vertex depend on their order
#include <geom/mesh/adjoint/batch.cuh>
#include <geom/mesh/topology.cuh>

using namespace geom;

// Like `mesh_vertex_normals`, but also writes the sums.
extern "C" __global__ void __launch_bounds__(256) tape_vertex_normals(
    mesh::Surface surface, const unsigned* vertices, const unsigned* places, vec3<float>* normals, mesh::VertexSum* sums
) {
    mesh::sum_normals(surface, vertices, places, [&](unsigned vertex, const mesh::NormalSum& sum) {
        normals[vertex] = sum.unit();
        sums[vertex] = {sum.sum, sum.angles};
    });
}

// A thread for each face.
extern "C" __global__ void __launch_bounds__(128) tape_vertex_normals_adjoint(
    mesh::Surface surface, const mesh::VertexSum* sums, const vec3<float>* g, vec3<float>* of_vertices,
    tape::Frame frame
) {
    if (!tape::begin(frame)) return;
    const unsigned i = mesh::thread();
    if (i >= surface.face_count) return;
    const mesh::Face face = mesh::look_at(surface, i);
    if (!face.has_edges()) return;
    const Corners3<double> corners = {adjoint::wide(face.triangle.a), adjoint::wide(face.triangle.b),
                                      adjoint::wide(face.triangle.c)};
    Corners3<double> by = {vec3<double>(0.0), vec3<double>(0.0), vec3<double>(0.0)};
#pragma unroll 1
    for (unsigned corner = 0; corner < 3; ++corner) {
        const vec3<unsigned> v = face.vertices;
        const unsigned vertex = corner == 0 ? v.x : corner == 1 ? v.y : v.z;
        const mesh::VertexSum of = sums[vertex];
        const vec3<double> by_sum = vertex_normal_adjoint(of.sum, of.angles, adjoint::wide(g[vertex]));
        // The gradients are rotated back to the order of the face.
        mesh::add_to(by, mesh::turned(corner_normal_adjoint(mesh::turned(corners, corner), by_sum), (3 - corner) % 3));
    }
    const Corners3<float> narrow = {exact::narrow(by.a), exact::narrow(by.b), exact::narrow(by.c)};
    mesh::add_to_vertices(frame, of_vertices, face.vertices, narrow);
}
