// Hierarchies of a mesh's faces: the steps that read the faces. src/mesh/face_tree.rs launches the kernels.
#include <geom/mesh/build.cuh>

using namespace geom;
using namespace geom::mesh;

extern "C" __global__ void __launch_bounds__(256)
    mesh_bound(Surface surface, unsigned n, bvh::Cluster* items, bvh::BuildState* state) {
    bvh::bound(FaceBoxes{surface}, n, items, state);
}

extern "C" __global__ void __launch_bounds__(256, 5) mesh_triangles(
    const BvhHeader* header, const unsigned* items, Surface surface, unsigned capacity,
    MeshTriangle* triangles
) {
    write_triangles(*header, items, surface, capacity, triangles);
}

extern "C" __global__ void __launch_bounds__(256, 6)
    mesh_refit(bvh::Refitted tree, const MeshTriangle* triangles, unsigned) {
    bvh::refit(tree, TriangleBoxes{triangles});
}
