// Dense arrays to volumes and back. src/volume/build/dense.rs and copies.rs launch the kernels.
#include <geom/volume/dense.cuh>

using namespace geom;
using namespace geom::volume;

extern "C" __global__ void __launch_bounds__(128) volume_judge(Build b, DenseField field, LeafLattice lattice) {
    judge_leaves(b, field, lattice);
}
extern "C" __global__ void __launch_bounds__(128) volume_dense_leaves(Build b, DenseField field) {
    write_leaves(b, DenseSource{field});
}
extern "C" __global__ void __launch_bounds__(128) volume_to_dense(
    NodeLayout layout, const unsigned char* root, DenseField box, LeafLattice lattice, unsigned leaves,
    unsigned char* out
) {
    copy_to_dense(layout, root, box, lattice, leaves, out);
}
