// What the queries of a mesh are by definition: every face is asked.
#include <geom/mesh.cuh>
#include <geom/mesh/faces.cuh>

using namespace geom;

namespace {

__device__ unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

// The best key so far, and whose it is.
struct Best {
    unsigned long long key;
    unsigned face;

    __device__ explicit Best(float most)
        : key(static_cast<unsigned long long>(__float_as_uint(most)) << 32 | no_index), face(no_index) {}
    __device__ void offer(float value, unsigned of) {
        const unsigned long long offered = static_cast<unsigned long long>(__float_as_uint(value)) << 32 | of;
        if (offered >= key) return;
        key = offered;
        face = of;
    }
    __device__ float value() const { return __uint_as_float(unsigned(key >> 32)); }
};

} // namespace

// The triangle of every face, in their order; of a face that is skipped one without numbers.
extern "C" __global__ void brute_pack(Mesh mesh, unsigned* triangles) {
    const unsigned i = thread();
    if (i >= mesh.face_count) return;
    const mesh::Surface surface{mesh.points, mesh.faces, mesh.point_count, mesh.face_count};
    const mesh::Face face = look_at(surface, i);
    MeshTriangle* out = reinterpret_cast<MeshTriangle*>(triangles);
    if (face.fault == mesh::fault_none)
        out[i] = mesh::pack(i, face.vertices, face.triangle);
    else
        out[i].x0 = exact::not_a_number();
}

extern "C" __global__ void brute_closest(Mesh mesh, const unsigned* triangles, const vec3<float>* points,
                                         const float* distances, unsigned n, ClosestPoint* closest) {
    if (thread() >= n) return;
    const MeshTriangle* all = reinterpret_cast<const MeshTriangle*>(triangles);
    const vec3<float> q = points[thread()];
    const float distance = distances[thread()];
    closest[thread()] = mesh::no_closest_point();
    if (!mesh::can_find(q, distance)) return;
    Best best(exact::min(exact::mul(distance, distance), 3.402823466e+38f));
    for (unsigned i = 0; i < mesh.face_count; ++i) {
        const mesh::Packed packed(all[i]);
        float height;
        if (is_valid(packed.ordered())) best.offer(mesh::distance_key(packed, q, &height), i);
    }
    if (best.face == no_index) return;
    // Its corners as the mesh has them.
    Triangle triangle;
    face_triangle(mesh, best.face, &triangle);
    const mesh::Places places(mesh::Packed(all[best.face]).word());
    const TrianglePoint point = closest_point(triangle, places.flags(), q);
    closest[thread()] = {point.position, point.distance_squared, best.face, point.u, point.v, point.feature};
}

// The nearest hit, how many there are, and all of them in the order of faces, from the place that `offsets`
// names; these only if `hits` is not null.
extern "C" __global__ void brute_rays(Mesh mesh, const unsigned* triangles, const MeshRay* rays, unsigned n,
                                      const unsigned long long* offsets, RayHit* nearest, unsigned* counts,
                                      RayHit* hits) {
    if (thread() >= n) return;
    const MeshTriangle* all = reinterpret_cast<const MeshTriangle*>(triangles);
    MeshRay ray = rays[thread()];
    const RayShear shear(ray.origin, ray.direction);
    nearest[thread()] = mesh::no_hit();
    counts[thread()] = 0;
    if (!mesh::can_hit(shear, &ray)) return;
    Best best(ray.t_max);
    unsigned count = 0;
    for (unsigned i = 0; i < mesh.face_count; ++i) {
        const mesh::Packed packed(all[i]);
        float t;
        if (!is_valid(packed.ordered()) || !mesh::hits(shear, packed, ray.t_min, ray.t_max, &t)) continue;
        best.offer(t, i);
        if (hits != nullptr) hits[offsets[thread()] + count] = mesh::hit_of(shear, packed, t);
        ++count;
    }
    counts[thread()] = count;
    if (best.face != no_index)
        nearest[thread()] = mesh::hit_of(shear, mesh::Packed(all[best.face]), best.value());
}
