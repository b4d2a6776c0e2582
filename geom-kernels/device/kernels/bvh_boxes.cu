// Hierarchies of boxes in an array: the steps that read the boxes.
#include <geom/bvh/build_keys.cuh>
#include <geom/bvh/refit.cuh>

using namespace geom::bvh;

extern "C" __global__ void __launch_bounds__(256) bvh_bound_boxes(
    const geom::aabb<float>* boxes, unsigned n, Cluster* items, BuildState* state
) {
    bound(BoxArray{boxes}, n, items, state);
}

extern "C" __global__ void __launch_bounds__(256)
    bvh_refit_boxes(Refitted tree, const geom::aabb<float>* boxes, unsigned n) {
    refit_items(tree, BoxArray{boxes}, n);
}

extern "C" __global__ void __launch_bounds__(256) bvh_keep_boxes(
    const geom::BvhHeader* header, const unsigned* items, const geom::aabb<float>* boxes, unsigned n,
    geom::aabb<float>* out, unsigned capacity
) {
    keep_boxes(header, items, BoxArray{boxes}, n, out, capacity);
}
