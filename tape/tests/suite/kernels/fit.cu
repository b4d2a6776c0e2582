// The kernel of the example `fit` in C++, with an adjoint by hand.
//
// The middles of a mesh's faces.
#include <geom/math/vec.cuh>
#include <geom/tape.cuh>
using vec3 = geom::vec3<float>;
using Face = geom::vec3<unsigned>;

// Writes the middle of face i of n; a vertex that the m points do not have counts as 0.
extern "C" __global__ void
middles(const vec3* points, unsigned m, const Face* faces, vec3* middles, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    vec3 sum(0.0f);
    for (unsigned vertex : {faces[i].x, faces[i].y, faces[i].z})
        if (vertex < m)
            sum += points[vertex];
    middles[i] = sum / 3.0f;
}

extern "C" __global__ void
middles_adjoint(const vec3*, unsigned m, const Face* faces, vec3*, unsigned n, vec3* gpoints,
                vec3* gmiddles, geom::tape::Frame frame) {
    using namespace geom::tape;
    if (!begin(frame))
        return;
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    vec3 part = grad_take(frame, 1, at(gmiddles, i)) / 3.0f;
    // Several faces have the same vertex.
    for (unsigned vertex : {faces[i].x, faces[i].y, faces[i].z})
        if (vertex < m)
            grad_add(frame, 0, at(gpoints, vertex), part);
}
