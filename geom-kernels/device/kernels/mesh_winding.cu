// Winding numbers, and the moments that they need. src/mesh/winding.rs launches the kernels.
#include <geom/mesh/batch.cuh>
#include <geom/mesh/moments_build.cuh>
#include <geom/mesh/winding.cuh>

using namespace geom;

extern "C" __global__ void __launch_bounds__(128) mesh_moments(mesh::MomentsBuild build) {
    mesh::make_moments(build);
}

extern "C" __global__ void __launch_bounds__(128, 8) mesh_winding_numbers(
    Mesh mesh, mesh::PointQueries queries, float beta, float* numbers
) {
    const unsigned i = queries.mine();
    if (i < queries.length) numbers[i] = winding_number(mesh, queries.at(i), beta);
}

extern "C" __global__ void __launch_bounds__(128, 7) mesh_signed_by_winding(
    Mesh mesh, mesh::PointQueries queries, float* distances, ClosestPoint* closest
) {
    const unsigned i = queries.mine();
    if (i >= queries.length) return;
    ClosestPoint point;
    distances[i] = signed_distance_by_winding(mesh, queries.at(i), &point, queries.reach(i));
    if (closest != nullptr) closest[i] = point;
}
