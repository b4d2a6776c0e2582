// Adjoints by hand of the kernels of `fit.cu` in the example `fit`, whose text comes before this.
#include <geom/tape.cuh>

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
