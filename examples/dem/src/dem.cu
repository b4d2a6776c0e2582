// Grains are n positions, with how many grains it touches as w, then n velocities, a colour as w.
#include <geom/hash_grid.cuh>
#include <geom/math/mat.cuh>
using vec3 = geom::vec3<float>;
constexpr float radius = 0.1f, cohesion = 0.0075f, ground_cohesion = 0.02f, slack = 0.065f;
constexpr float time_step = 1.0f / 60 / 64, inverse_mass = 64.0f, far_away = 1000.0f;
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

// The axes of a parallel view, from the camera (0) or from the sun (1): to the right, up and away.
__device__ geom::mat3<float> axes(int view) {
    vec3 away = normalize(view == 0 ? vec3(-0.75f, -0.5f, -0.6f) : vec3(-0.35f, -0.8f, 0.5f));
    vec3 right = normalize(cross(away, vec3(0.0f, 1.0f, 0.0f)));
    return geom::mat3<float>::from_rows(right, cross(right, away), away);
}

// Splats grains into both views around `centre`, w its pixels' size: depths in the upper half of them.
extern "C" __global__ void splat(const float4* now, unsigned n, float4 centre, int size, size_t* pixels) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, view = i / n;
    if (view > 1) return;
    vec3 at = axes(view) * (xyz(now[i % n]) - xyz(centre)) / centre.w;
    float r = radius / centre.w, column = size / 2 + at.x, row = size / 2 - at.y;
    for (int y = max(0, int(row - r)); y <= min(size - 1, int(row + r)); ++y)
        for (int x = max(0, int(column - r)); x <= min(size - 1, int(column + r)); ++x) {
            float dx = x + 0.5f - column, dy = y + 0.5f - row, dz = r * r - dx * dx - dy * dy;
            float depth = far_away + (at.z - sqrtf(fmaxf(dz, 0.0f))) * centre.w;
            auto* pixel = (unsigned long long*)pixels + (view * size + y) * size + x;
            if (dz > 0) atomicMin(pixel, size_t(__float_as_uint(depth)) << 32 | i % n);
        }
}

// Colours a pixel, by the sun unless something is nearer to it, and by what the grid leaves of the sky.
extern "C" __global__ void shade(geom::HashGrid<float> grid, const float4* now, unsigned n,
    float4 centre, int size, const size_t* pixels, uchar4* image) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size * size) return;
    geom::mat3<float> camera = axes(0), sun = axes(1);
    vec3 p(i % size + 0.5f - size / 2, size / 2 - 0.5f - i / size, 0), normal(0, 1, 0);
    p = xyz(centre) + transpose(camera) * p * centre.w;
    bool is_ground = ~pixels[i] == 0;
    float depth = __uint_as_float(pixels[i] >> 32) - far_away;
    p += camera.row(2) * (is_ground ? -(p.y + radius) / camera.row(2).y : depth);
    vec3 colour((int(floorf(p.x)) + int(floorf(p.z))) % 2 ? 0.36f : 0.4f);
    if (!is_ground) {
        unsigned grain = min(unsigned(pixels[i]), n - 1);
        float w = 6.2831853f * now[n + grain].w;
        colour = vec3(0.45f) + 0.4f * vec3(cosf(w), cosf(w - 0.9f), cosf(w - 1.8f));
        normal = normalize(p - xyz(now[grain]));
    }
    vec3 at = sun * (p + 0.02f * normal - xyz(centre)) / centre.w;
    float lit = 0.0f, open = 1.0f; // how much of the sun, and of the sky, reaches it
    for (int k = 0; k < 25; ++k) {
        int x = size / 2 + at.x + k % 5 - 2, y = size / 2 - at.y + k / 5 - 2;
        bool inside = x >= 0 && x < size && y >= 0 && y < size;
        float z = __uint_as_float(inside ? pixels[(size + y) * size + x] >> 32 : ~0u) - far_away;
        lit += z < at.z * centre.w - 0.02f ? 0.0f : 0.04f;
    }
    geom::for_each_neighbor(grid, p, 0.45f, [&](const geom::Neighbor<float>& q) {
        float above = fmaxf(0.0f, -dot(q.delta, normal)) * rsqrtf(q.distance_squared);
        open *= 1.0f - 0.9f * above * fminf(1.0f, radius * radius / q.distance_squared);
    });
    vec3 light = vec3(0.45f, 0.52f, 0.65f) * (0.65f + 0.35f * normal.y) * open;
    light += vec3(1.35f, 1.2f, 1.0f) * lit * fmaxf(0.0f, -dot(normal, sun.row(2)));
    colour = 255.0f * min(vec3(1.0f), colour * light);
    image[i] = make_uchar4(colour.x, colour.y, colour.z, 255);
}
