// Operations of a user, to be composed with those of geometry.
#include <geom/mesh.cuh>
#include <geom/tape.cuh>

using namespace geom;
using namespace geom::tape;

__device__ inline unsigned at_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

// out = rows (q, 1): rows of four.
extern "C" __global__ void transform(const float* rows, const vec3<float>* q, vec3<float>* out, unsigned n) {
    unsigned i = at_thread();
    if (i >= n) return;
    for (int row = 0; row < 3; ++row) {
        const float* r = rows + 4 * row;
        (&out[i].x)[row] = r[0] * q[i].x + r[1] * q[i].y + r[2] * q[i].z + r[3];
    }
}
extern "C" __global__ void transform_adjoint(const float* rows, const vec3<float>* q, vec3<float>*, unsigned n,
                                             float* g_rows, vec3<float>* g_q, vec3<float>* g_out, Frame frame) {
    if (!begin(frame)) return;
    unsigned i = at_thread();
    if (i >= n) return;
    const vec3<float> g = grad_take(frame, 2, at(g_out, i));
    vec3<float> of_q(0.0f, 0.0f, 0.0f);
    for (int row = 0; row < 3; ++row) {
        const float* r = rows + 4 * row;
        const float by = (&g.x)[row];
        for (int k = 0; k < 3; ++k) {
            (&of_q.x)[k] += r[k] * by;
            grad_add(frame, 0, at(g_rows, 4 * row + k), (&q[i].x)[k] * by);
        }
        grad_add(frame, 0, at(g_rows, 4 * row + 3), by);
    }
    grad_own(frame, 1, at(g_q, i), of_q);
}

// *loss += sum of x x. Not fast.
extern "C" __global__ void add_squares(const float* x, float* loss, unsigned n) {
    unsigned i = at_thread();
    if (i < n) atomicAdd(loss, x[i] * x[i]);
}
extern "C" __global__ void add_squares_adjoint(const float* x, float*, unsigned n, float* g_x, float* g_loss,
                                               Frame frame) {
    if (!begin(frame)) return;
    unsigned i = at_thread();
    if (i < n) grad_own(frame, 0, at(g_x, i), 2.0f * x[i] * grad_read(g_loss));
}

// Where closest points are on their faces.
extern "C" __global__ void face_points(const ClosestPoint* found, FacePoint* out, unsigned n) {
    unsigned i = at_thread();
    if (i < n) out[i] = face_point(found[i]);
}
extern "C" __global__ void face_points_adjoint(const ClosestPoint*, FacePoint*, unsigned n, ClosestPoint* g_found,
                                               FacePoint* g_out, Frame frame) {
    if (!begin(frame)) return;
    unsigned i = at_thread();
    if (i >= n || g_found == nullptr || g_out == nullptr) return;
    grad_own(frame, 0, &g_found[i].u, grad_take(frame, 1, &g_out[i].u));
    grad_own(frame, 0, &g_found[i].v, grad_take(frame, 1, &g_out[i].v));
}

// In place: x += x x / 10, each coordinate.
extern "C" __global__ void bend(vec3<float>* x, unsigned n) {
    unsigned i = at_thread();
    if (i < n) x[i] += x[i] * x[i] * 0.1f;
}
extern "C" __global__ void bend_adjoint(const vec3<float>* x, unsigned n, vec3<float>* g_x, Frame frame) {
    if (!begin(frame)) return;
    unsigned i = at_thread();
    if (i < n) grad_replace(at(g_x, i), grad_read(at(g_x, i)) * (vec3<float>(1.0f) + x[i] * 0.2f));
}
