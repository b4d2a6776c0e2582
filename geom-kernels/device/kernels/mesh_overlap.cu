// The faces of a mesh that overlap boxes and balls. src/mesh/overlaps.rs launches the kernels.
#include <geom/bvh/batch.cuh>
#include <geom/mesh/overlap.cuh>

using namespace geom;

namespace {

template <class Test>
struct InBoxes {
    template <class F>
    static __device__ __forceinline__ void
    ask(const Mesh& mesh, const bvh::Queries& queries, unsigned i, F&& f) {
        mesh::for_each_in_box<Test>(mesh, bvh::load_box(queries, i), f);
    }
};

template <class Test>
struct InBalls {
    template <class F>
    static __device__ __forceinline__ void
    ask(const Mesh& mesh, const bvh::Queries& queries, unsigned i, F&& f) {
        float radius;
        const vec3<float> center = bvh::load_center(queries, i, &radius);
        mesh::for_each_in_ball<Test>(mesh, center, radius, f);
    }
};

} // namespace

#define QUERIES(Of, name)                                                                           \
    extern "C" __global__ void __launch_bounds__(128)                                               \
        mesh_count_##name(Mesh mesh, bvh::Queries queries, unsigned* counts) {                      \
        bvh::count_overlaps<Of>(mesh, queries, counts);                                             \
    }                                                                                               \
    extern "C" __global__ void __launch_bounds__(128)                                               \
        mesh_list_##name(Mesh mesh, bvh::Queries queries, const unsigned long long* offsets,        \
                         unsigned* faces, unsigned long long capacity) {                            \
        bvh::list_overlaps<Of>(mesh, queries, offsets, faces, capacity);                            \
    }

QUERIES(InBoxes<mesh::ByFace>, faces_in_boxes)
QUERIES(InBoxes<mesh::ByBox>, boxes_in_boxes)
QUERIES(InBalls<mesh::ByFace>, faces_in_balls)
QUERIES(InBalls<mesh::ByBox>, boxes_in_balls)
