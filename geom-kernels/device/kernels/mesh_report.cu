// The defects and the size of a mesh.
#include <geom/mesh/report.cuh>

using namespace geom;
using namespace geom::mesh;

extern "C" __global__ void __launch_bounds__(256) mesh_validate(
    const vec3<float>* points, const vec3<unsigned>* faces, unsigned point_count,
    unsigned face_count, Counts* counts
) {
    validate({points, faces, point_count, face_count}, *counts);
}

extern "C" __global__ void __launch_bounds__(256) mesh_bound_points(
    const vec3<float>* points, unsigned point_count, Counts* counts
) {
    bound_points({points, nullptr, point_count, 0}, *counts);
}

extern "C" __global__ void __launch_bounds__(256) mesh_measure_faces(
    const vec3<float>* points, const vec3<unsigned>* faces, unsigned point_count,
    unsigned face_count, Counts* counts, unsigned* used, double* areas, double* volumes
) {
    measure_faces({points, faces, point_count, face_count}, *counts, used, areas, volumes);
}

extern "C" __global__ void __launch_bounds__(256) mesh_count_points(
    const unsigned* used, unsigned words, Counts* counts
) {
    count_points(used, words, *counts);
}

extern "C" __global__ void __launch_bounds__(256) mesh_count_edges(
    const vec3<unsigned>* faces, unsigned face_count, const unsigned long long* keys,
    const unsigned* places, unsigned bits, Counts* counts
) {
    count_edges({nullptr, faces, 0, face_count}, {keys, 3 * face_count, bits}, places, *counts);
}
