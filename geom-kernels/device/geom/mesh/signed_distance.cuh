// Signed distances to a mesh: negative inside.
//
// All of this is written in exact arithmetic (exact.cuh): no bit depends on a program's options, and none
// on the tree.
//
// For a closed mesh, the sign of a face's normal at the closest point is right if all faces that could be the closest
// agree: q is in front of all of their planes, or behind all of them. (If the closest point is within a face, its own
// plane decides. On an edge or at a vertex the sum of the faces' normals, weighted by angles, decides: Baerentzen and
// Aanaes, "Signed distance computation using the angle weighted pseudonormal", 2005; and if all have the same sign,
// so has the sum.) The errors of the search (mesh/closest.cuh) bound which faces could be the closest, and whether a
// plane is ambiguous; sheets that almost touch and very thin blades are therefore ambiguous as well. In ambiguous
// cases the side is found by counting crossings, which is exact: mesh/sides.cuh.
#pragma once

#include <geom/mesh/closest.cuh>
#include <geom/mesh/sides.cuh>

namespace geom {

namespace mesh {

#ifdef GEOM_AD
// The distance to a point that is a constant, made differentiable. `side` is negative inside.
__device__ __forceinline__ float signed_with_gradient(const Mesh& mesh, vec3<float> q, const Triangle& corners,
                                                      int side, ClosestPoint* closest) {
    const ClosestPoint found = *closest;
    const float size = exact::sqrt(found.distance_squared);
    const float value = side < 0 ? exact::neg(size) : side == 0 ? 0.0f : size;
    const MovingPoint moving(corners, q, found.feature, moving_face(mesh, found.face));
    *closest = moving.point(found);
    return moving.signed_distance(value);
}
#endif

// The sum of the normals of the faces around a point of a face, or a vector with its direction.
__device__ __forceinline__ vec3<float> pseudonormal(const Mesh& mesh, const ClosestPoint& point,
                                                    const Packed& packed, const Places& places) {
    vec3<float> n = normal(face_of(packed, places));
    const unsigned face = point.face;
    if (point.feature >= feature_face || face >= mesh.face_count) return n;
    if (point.feature >= feature_edge) {
        const unsigned other = load_unchanged(&mesh.topology.neighbors[3 * static_cast<size_t>(face) +
                                                                       (point.feature - feature_edge)]);
        if (other >= mesh.face_count) return n;
        const vec3<unsigned> f = load_unchanged(&mesh.faces[other]);
        if (f.x >= mesh.point_count || f.y >= mesh.point_count || f.z >= mesh.point_count) return n;
        return exact::add(n, normal(Triangle{load_unchanged(&mesh.points[f.x]), load_unchanged(&mesh.points[f.y]),
                                             load_unchanged(&mesh.points[f.z])}));
    }
    const vec3<unsigned> f = load_unchanged(&mesh.faces[face]);
    const unsigned vertex = point.feature == 0 ? f.x : point.feature == 1 ? f.y : f.z;
    return vertex < mesh.point_count ? load_unchanged(&mesh.topology.vertex_normals[vertex]) : n;
}

} // namespace mesh

// The distance to the mesh, negative inside, and the closest point; infinite if there is no closest point within
// `distance`. 0 if q lies on the mesh.
//
// For a closed mesh without self-intersections whose faces are all oriented outwards, the sign is right for every q.
// For an open mesh with topology it is the sign of the pseudonormal at the closest point; without topology every mesh
// is treated as closed.
__device__ __forceinline__ float signed_distance(const Mesh& mesh, vec3<float> q, ClosestPoint* closest,
                                                 float distance = exact::infinity()) {
#ifdef GEOM_AD
    const vec3<float> moving = q;
    q = ad::stop(q), distance = ad::stop(distance);
#endif
    *closest = mesh::no_closest_point();
    if (!mesh::can_find(q, distance)) return closest->distance_squared;
    mesh::ClosestQuery<true> query(mesh, q, distance);
    bvh::traverse(mesh.bvh, query);
    *closest = mesh::answer(query);
#ifdef GEOM_AD
    *closest = mesh::stopped_point(*closest);
#endif
    if (closest->face == no_index) return closest->distance_squared;
    const float size = exact::sqrt(closest->distance_squared);
    int side = query.sides == mesh::side_front ? 1 : -1;
    if (query.sides == (mesh::side_front | mesh::side_back)) {
        const MeshTopology& topology = mesh.topology;
        if (topology.closed == nullptr || load_unchanged(topology.closed) != 0) {
            side = side_of(mesh, q);
        } else {
            const mesh::Packed packed(mesh.triangles[query.place]);
            const mesh::Places places(packed.word());
            const vec3<float> n = mesh::pseudonormal(mesh, *closest, packed, places);
            const vec3<double> d = exact::sub(exact::widen(q), exact::widen(closest->position));
            side = exact::less(exact::dot(d, exact::widen(n)), 0.0) ? -1 : 1;
        }
    }
#ifdef GEOM_AD
    return mesh::signed_with_gradient(mesh, moving, mesh::triangle_at(mesh, query.place), side, closest);
#else
    return side < 0 ? exact::neg(size) : side == 0 ? 0.0f : size;
#endif
}

// The same with sides by an exact parity for every q: see `side_of`. For closed meshes whose faces are not oriented.
__device__ __forceinline__ float
signed_distance_by_parity(const Mesh& mesh, vec3<float> q, ClosestPoint* closest,
                          float distance = exact::infinity()) {
#ifdef GEOM_AD
    Triangle corners;
    *closest = mesh::stopped_point(mesh::find_closest(mesh, q, distance, &corners));
    if (closest->face == no_index) return closest->distance_squared;
    return mesh::signed_with_gradient(mesh, q, corners, side_of(mesh, q), closest);
#else
    *closest = closest_point(mesh, q, distance);
    if (closest->face == no_index) return closest->distance_squared;
    const float size = exact::sqrt(closest->distance_squared);
    const int side = side_of(mesh, q);
    return side < 0 ? exact::neg(size) : side == 0 ? 0.0f : size;
#endif
}

} // namespace geom
