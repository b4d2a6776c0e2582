// Sums the neighbours of each point, itself included: their x, y and z, and in w their number.
#include <geom/hash_grid.cuh>

__device__ float4 sum_around(const geom::HashGrid<float>& grid, float3 x, float radius) {
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    geom::for_each_neighbor(grid, {x.x, x.y, x.z}, radius, [&](const geom::Neighbor<float>& n) {
        sum.x += n.position.x;
        sum.y += n.position.y;
        sum.z += n.position.z;
        sum.w += 1.0f;
    });
    return sum;
}

// One thread for each point, in the order of the caller's array.
extern "C" __global__ void
sum_as_given(geom::HashGrid<float> grid, float radius, const float3* points, float4* sums, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        sums[i] = sum_around(grid, points[i], radius);
    }
}

// The same with the points in the grid's order: neighbouring threads read the same cells.
extern "C" __global__ void
sum_by_cells(geom::HashGrid<float> grid, float radius, float4* sums, unsigned n) {
    unsigned slot = blockIdx.x * blockDim.x + threadIdx.x;
    if (slot < geom::point_count(grid)) {
        geom::GridPoint<float> p = geom::point_at(grid, slot);
        if (p.index < n) {
            sums[p.index] = sum_around(grid, make_float3(p.x, p.y, p.z), radius);
        }
    }
}
