// A step of descent in which neighbours move together: the gradient is smoothed over the mesh first (J. Neuberger,
// "Sobolev Gradients and Differential Equations", 1997; for meshes B. Nicolet, A. Jacobson, W. Jakob, "Large Steps
// in Inverse Rendering of Geometry", 2021). Points that go their own ways would fold the mesh.
#include <geom/math/vec.cuh>
using vec3 = geom::vec3<float>;

// A sweep of Jacobi's iteration for (1 + stiffness * L) u = gradient, where L is the mesh's Laplacian:
// (L u)_i is the sum of u_i - u_j over the neighbours j of i.
extern "C" __global__ void smooth(const vec3* gradient, const unsigned* first, const unsigned* neighbours,
                                  unsigned edges, float stiffness, const vec3* from, vec3* to, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    vec3 sum = gradient[i];
    float weight = 1.0f;
    for (unsigned k = first[i]; k < first[i + 1] && k < edges; ++k) {
        unsigned j = neighbours[k];
        if (j < n) {
            sum += stiffness * from[j];
            weight += stiffness;
        }
    }
    to[i] = sum / weight;
}

extern "C" __global__ void descend(const vec3* direction, float rate, vec3* points, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        points[i] -= rate * direction[i];
}
