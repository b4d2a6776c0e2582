// Hierarchies of boxes from any source: keys, the fast builder, and the nodes. src/bvh/build.rs launches the kernels.
#include <geom/bvh/build_collapse.cuh>
#include <geom/bvh/build_keys.cuh>
#include <geom/bvh/build_radix.cuh>

using namespace geom::bvh;
typedef unsigned long long u64;

extern "C" __global__ void __launch_bounds__(256) bvh_keys(
    const Cluster* items, unsigned n, const BuildState* state, u64* keys, geom::sort::Digits digits,
    unsigned* sort_state, geom::BvhHeader* header
) {
    make_keys(items, n, *state, keys, digits, sort_state, header);
}

extern "C" __global__ void __launch_bounds__(256) bvh_radix(
    const unsigned* which, const u64* first_keys, const u64* second_keys, const unsigned* first,
    const unsigned* second, const Cluster* items, unsigned n, BinaryNode* nodes, unsigned* arrivals,
    BuildState* state
) {
    const Leaves leaves(which, first_keys, second_keys, first, second, n - state->skipped);
    link_radix(leaves, items, nodes, arrivals, state);
}

extern "C" __global__ void __launch_bounds__(128) bvh_collapse(
    const BinaryNode* binary, BuildState* state, Task* tasks, unsigned capacity, geom::BvhNode* nodes,
    unsigned* items, geom::BvhHeader* header
) {
    collapse(binary, state, tasks, capacity, nodes, items, header);
}
