// The kernel of src/step.rs in CUDA C++. Grains are n positions, with how many grains it touches as w, then n velocities, a
// colour as w. Where the kernel in Rust fails, this one sets `trouble`.
#include <geom/hash_grid.cuh>
#include <geom/math/vec.cuh>
using vec3 = geom::vec3<float>;
constexpr float radius = 0.1f, cohesion = 0.0075f, ground_cohesion = 0.02f, slack = 0.065f;
constexpr float time_step = 1.0f / 60 / 64, inverse_mass = 64.0f;
__device__ vec3 xyz(float4 v) { return vec3(v.x, v.y, v.z); }

// The force of a contact on a grain: n is the unit normal, v the velocity from the other, c the gap.
__device__ vec3 contact_force(vec3 n, vec3 v, float c, float friction, float mu) {
    float vn = dot(n, v), fn = c * 8000.0f + fminf(vn, 0.0f) * 2.0f;
    vec3 vt = v - n * vn;
    return -fn * n - fminf(length(vt) * friction, mu * fabsf(fn)) * normalize(vt);
}

// Moves each grain by a time step. All that it may touch is listed, as long as no grain is farther
// than `slack` from where it was then (`old`). If one is, or lists have no room, there is trouble.
extern "C" __global__ void step(const float4* __restrict__ now, const float4* old, const size_t* offsets,
    const unsigned* __restrict__ lists, float4* __restrict__ next, unsigned* trouble, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, touching = 0;
    if (i >= n) return;
    vec3 x = xyz(now[i]), v = xyz(now[n + i]), force(0.0f);
    bool near = distance_squared(x, xyz(old[i])) <= slack * slack;
    if (!near || offsets[n] > 32 * n) atomicOr(trouble, 1);
    if (x.y < ground_cohesion) force += contact_force(vec3(0, 1, 0), v, x.y, 100.0f, 0.5f);
    for (size_t k = offsets[i], end = min(offsets[i + 1], size_t(32 * n)); k < end; ++k) {
        unsigned j = min(lists[k], n - 1);
        vec3 apart = x - xyz(now[j]);
        float distance = geom::exact::length(apart), gap = distance - 2 * radius;
        if (gap > cohesion) continue;
        force += contact_force(apart / distance, v - xyz(now[n + j]), gap, 1.0f, 1e5f);
        ++touching;
    }
    v += (force * inverse_mass - vec3(0.0f, 9.8f, 0.0f)) * time_step;
    next[i] = geom::vec4<float>(x + v * time_step, touching);
    next[n + i] = geom::vec4<float>(v, now[n + i].w);
}
