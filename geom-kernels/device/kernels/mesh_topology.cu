// The faces across edges, and the normals of vertices.
#include <geom/mesh/topology.cuh>

using namespace geom;
using namespace geom::mesh;

extern "C" __global__ void __launch_bounds__(256) mesh_edge_keys(
    const vec3<float>* points, const vec3<unsigned>* faces, unsigned point_count,
    unsigned face_count, unsigned bits, unsigned long long* keys
) {
    write_edge_keys({points, faces, point_count, face_count}, bits, keys);
}

extern "C" __global__ void __launch_bounds__(256) mesh_neighbors(
    const unsigned long long* keys, const unsigned* places, unsigned count, unsigned bits,
    unsigned* neighbors
) {
    write_neighbors({keys, count, bits}, places, neighbors);
}

extern "C" __global__ void __launch_bounds__(256)
    mesh_closed(Surface surface, const unsigned* neighbors, unsigned* closed) {
    check_closed(surface, neighbors, closed);
}

extern "C" __global__ void __launch_bounds__(256) mesh_corner_keys(
    const vec3<float>* points, const vec3<unsigned>* faces, unsigned point_count,
    unsigned face_count, unsigned* keys
) {
    write_corner_keys({points, faces, point_count, face_count}, keys);
}

extern "C" __global__ void __launch_bounds__(256) mesh_vertex_normals(
    const vec3<float>* points, const vec3<unsigned>* faces, unsigned point_count,
    unsigned face_count, const unsigned* vertices, const unsigned* places, vec3<float>* normals
) {
    write_normals({points, faces, point_count, face_count}, vertices, places, normals);
}
