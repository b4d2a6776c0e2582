// The closest points of a mesh, for arrays of points. src/mesh/points.rs launches the kernels.
#include <geom/bvh/order.cuh>
#include <geom/mesh/batch.cuh>

using namespace geom;

extern "C" __global__ void __launch_bounds__(256)
    mesh_point_keys(Mesh mesh, mesh::PointQueries queries, unsigned* keys) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < queries.length) keys[i] = bvh::morton(mesh.bvh.header->bounds, queries.at(i));
}

extern "C" __global__ void __launch_bounds__(128, 10)
    mesh_closest(Mesh mesh, mesh::PointQueries queries, ClosestPoint* closest) {
    const unsigned i = queries.mine();
    if (i >= queries.length) return;
    closest[i] = closest_point(mesh, queries.at(i), queries.reach(i));
}

extern "C" __global__ void __launch_bounds__(128)
    mesh_within(Mesh mesh, mesh::PointQueries queries, unsigned char* within) {
    const unsigned i = queries.mine();
    if (i >= queries.length) return;
    within[i] = is_within(mesh, queries.at(i), queries.reach(i));
}
