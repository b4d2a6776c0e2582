// A user's sum over neighbours and its adjoint: the density of smoothed particle hydrodynamics, with the kernel of
// M. Müller et al., Particle-Based Fluid Simulation for Interactive Applications, 2003.
#include <geom/hash_grid.cuh>
#include <geom/tape.cuh>

using namespace geom;

// W of the squared distance, and its derivatives by that and by h.
template <class T>
struct Weight {
    T w, by_square, by_h;
    __device__ Weight(T square, T h) {
        const T h2 = h * h, inside = h2 - square;
        const T scale = T(1.5666814710608447) / (h2 * h2 * h2 * h2 * h);  // 315 / (64 pi)
        w = scale * inside * inside * inside;
        by_square = T(-3) * scale * inside * inside;
        by_h = T(6) * h * scale * inside * inside - T(9) / h * w;
    }
};

// density[i] += sum over neighbours j of mass[j] W(|x[i] - x[j]|^2, h).
template <class T>
__device__ void density(const HashGrid<T>& grid, const vec3<T>* x, const T* mass, T h, T* out, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T sum = 0;
    for_each_neighbor(grid, x[i], h, [&](const Neighbor<T>& j) {
        if (j.index < n) sum += mass[j.index] * Weight<T>(j.distance_squared, h).w;
    });
    out[i] += sum;
}

// Each thread gathers what its own point has part in, as the one in the middle and as a neighbour of others; so
// no two threads add to one place. It reads the gradients of others' densities, which is why those are added to:
// gradients of what is overwritten would have to be cleared, and that while others still read them.
template <class T>
__device__ void density_back(const HashGrid<T>& grid, const vec3<T>* x, const T* mass, T h, unsigned n,
                             vec3<T>* g_x, T* g_mass, T* g_h, const T* g_out, const tape::Frame& frame) {
    using namespace geom::tape;
    if (!begin(frame)) return;
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    T by_h = 0;
    if (i < n) {
        vec3<T> by_x(T(0));
        T by_mass = 0;
        const T g = grad_read(g_out + i);
        for_each_neighbor(grid, x[i], h, [&](const Neighbor<T>& j) {
            // A launch may be given a grid of more points.
            if (j.index >= n) return;
            const Weight<T> weight(j.distance_squared, h);
            const T g_j = g_out[j.index];
            by_x += j.delta * (T(2) * weight.by_square * (g * mass[j.index] + g_j * mass[i]));
            by_mass += g_j * weight.w;
            by_h += g * mass[j.index] * weight.by_h;
        });
        grad_own(frame, 0, at(g_x, i), by_x);
        grad_own(frame, 1, at(g_mass, i), by_mass);
    }
    partial_add(frame, g_h, by_h);
}

#define DENSITY(T, suffix)                                                                                   \
    extern "C" __global__ void density_##suffix(HashGrid<T> grid, const vec3<T>* x, const T* mass, T h, T* out, \
                                                unsigned n) {                                                \
        density(grid, x, mass, h, out, n);                                                                   \
    }                                                                                                        \
    extern "C" __global__ void density_##suffix##_adjoint(                                                   \
        HashGrid<T> grid, const vec3<T>* x, const T* mass, T h, T*, unsigned n, vec3<T>* g_x, T* g_mass,     \
        T* g_h, const T* g_out, tape::Frame frame) {                                                         \
        density_back(grid, x, mass, h, n, g_x, g_mass, g_h, g_out, frame);                                   \
    }                                                                                                        \
    extern "C" __global__ void push_##suffix(vec3<T>* x, const T* density, T by, unsigned n) {               \
        const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                            \
        if (i < n) x[i] *= T(1) + by * density[i];                                                           \
    }                                                                                                        \
    extern "C" __global__ void push_##suffix##_adjoint(const vec3<T>* x, const T* density, T by, unsigned n, \
                                                       vec3<T>* g_x, T* g_density, tape::Frame frame) {      \
        using namespace geom::tape;                                                                          \
        if (!begin(frame)) return;                                                                           \
        const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                            \
        if (i >= n) return;                                                                                  \
        const vec3<T> g = grad_read(at(g_x, i));                                                             \
        grad_own(frame, 1, at(g_density, i), by * dot(g, x[i]));                                             \
        grad_replace(at(g_x, i), g * (T(1) + by * density[i]));                                              \
    }

// push: points move away from the origin by their densities, in place.
DENSITY(float, f32)
DENSITY(double, f64)
