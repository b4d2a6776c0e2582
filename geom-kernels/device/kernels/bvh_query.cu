// Hierarchies of boxes: the items that overlap boxes, spheres and rays. src/bvh/lists.rs launches the kernels.
#include <geom/bvh/batch.cuh>

using namespace geom::bvh;

#define QUERIES(Of, name)                                                                           \
    extern "C" __global__ void __launch_bounds__(128)                                               \
        bvh_count_##name(geom::Bvh bvh, Queries queries, unsigned* counts) {                        \
        count_overlaps<Of>(bvh, queries, counts);                                                   \
    }                                                                                               \
    extern "C" __global__ void __launch_bounds__(128)                                               \
        bvh_list_##name(geom::Bvh bvh, Queries queries, const unsigned long long* offsets,          \
                        unsigned* indices, unsigned long long capacity) {                           \
        list_overlaps<Of>(bvh, queries, offsets, indices, capacity);                                \
    }

QUERIES(OfBoxes, boxes)
QUERIES(OfSpheres, spheres)
QUERIES(OfRays, rays)

extern "C" __global__ void __launch_bounds__(256)
    bvh_query_keys(const geom::BvhHeader* header, Queries queries, unsigned boxes, unsigned* keys) {
    write_keys(*header, queries, boxes != 0, keys);
}
