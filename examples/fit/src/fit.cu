// The middles of a mesh's faces.
#include <geom/math/vec.cuh>
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
