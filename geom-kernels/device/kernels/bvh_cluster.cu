// Hierarchies of boxes: the builder by nearness. src/bvh/build.rs launches the kernel.
#include <geom/bvh/build_cluster.cuh>

using namespace geom::bvh;
typedef unsigned long long u64;

extern "C" __global__ void __launch_bounds__(128) bvh_cluster(
    const unsigned* which, const u64* first_keys, const u64* second_keys, const unsigned* first,
    const unsigned* second, const Cluster* items, unsigned n, BinaryNode* nodes, unsigned* arrivals,
    BuildState* state, Cluster* clusters, unsigned* heads
) {
    const Leaves leaves(which, first_keys, second_keys, first, second, n - state->skipped);
    link_clusters(leaves, items, Lists{clusters, heads}, nodes, arrivals, state);
}
