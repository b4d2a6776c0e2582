// Signed distances to a mesh, for arrays of points. src/mesh/points.rs launches the kernels.
#include <geom/mesh/batch.cuh>

using namespace geom;

extern "C" __global__ void __launch_bounds__(128, 9) mesh_signed_by_normal(
    Mesh mesh, mesh::PointQueries queries, float* distances, ClosestPoint* closest
) {
    const unsigned i = queries.mine();
    if (i >= queries.length) return;
    ClosestPoint point;
    distances[i] = signed_distance(mesh, queries.at(i), &point, queries.reach(i));
    if (closest != nullptr) closest[i] = point;
}

extern "C" __global__ void __launch_bounds__(128, 9) mesh_signed_by_parity(
    Mesh mesh, mesh::PointQueries queries, float* distances, ClosestPoint* closest
) {
    const unsigned i = queries.mine();
    if (i >= queries.length) return;
    ClosestPoint point;
    distances[i] = signed_distance_by_parity(mesh, queries.at(i), &point, queries.reach(i));
    if (closest != nullptr) closest[i] = point;
}

extern "C" __global__ void __launch_bounds__(128, 8)
    mesh_sides(Mesh mesh, mesh::PointQueries queries, int* sides) {
    const unsigned i = queries.mine();
    if (i < queries.length) sides[i] = side_of(mesh, queries.at(i));
}
