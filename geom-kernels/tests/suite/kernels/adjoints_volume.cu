// Adjoints of samples of volumes. Thread i has position i and gradients of its sample: `parts` of the value, then three
// for each of them. It writes the gradient of the position, how many voxels have one, and of each the
// distance of its value from `base` and the gradient.
#include <geom/volume/adjoint.cuh>

using namespace geom;

namespace {

__device__ unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

// What the calls of an adjoint report, or, the second time, whether it is the same.
template <class V, class S>
struct Report {
    static constexpr int parts = volume::Parts<V>::count;
    const char* base;
    long long* places;
    S* gradients;
    int count, wrong;
    bool again;

    __device__ void operator()(const V* address, V gradient) {
        const long long place = reinterpret_cast<const char*>(address) - base;
        if (count < 64) {
            if (!again) places[count] = place;
            if (places[count] != place) ++wrong;
        }
        for (int i = 0; i < parts && count < 64; ++i) {
            S& there = gradients[parts * count + i];
            const S part = volume::part(gradient, i);
            if (!again) there = part;
            if (!exact::equal(there, part)) ++wrong;
        }
        ++count;
    }
};

template <class V, class S>
__device__ Sample<V> sample_of(const S* g) {
    constexpr int parts = volume::Parts<V>::count;
    Sample<V> sample;
    for (int i = 0; i < parts; ++i) {
        volume::part(sample.value, i) = g[i];
        volume::gradient_part(sample.gradient, i) =
            vec3<S>(g[parts + 3 * i], g[parts + 3 * i + 1], g[parts + 3 * i + 2]);
    }
    return sample;
}

} // namespace

// `how`: 0 trilinear and 1 tricubic values, 2 and 3 with gradients, 4 the nearest voxel's.
#define ASK(how, adjoint, ...)                                                                      \
    if (kind == how) {                                                                              \
        of_position = adjoint##_adjoint(__VA_ARGS__, report);                                       \
        alone = adjoint##_adjoint_of_position(__VA_ARGS__);                                         \
        report.again = true;                                                                        \
        found = report.count;                                                                       \
        report.count = 0;                                                                           \
        adjoint##_adjoint_of_voxels(__VA_ARGS__, report);                                           \
    }
#define KERNEL(name, V, S, parameters, base_of, trilinear, tricubic, nearest, ...)                  \
    extern "C" __global__ void name(parameters, const vec3<S>* points, const S* gradients,          \
                                    unsigned kind, unsigned n, vec3<S>* positions, int* counts,     \
                                    long long* places, S* of_voxels) {                              \
        const unsigned i = thread();                                                                \
        if (i >= n) return;                                                                         \
        constexpr int parts = volume::Parts<V>::count;                                              \
        const vec3<S> p = points[i];                                                                \
        const Sample<V> g = sample_of<V>(gradients + 4 * parts * i);                                \
        Report<V, S> report = {reinterpret_cast<const char*>(base_of), places + 64 * i,             \
                               of_voxels + 64 * parts * i, 0, 0, false};                            \
        vec3<S> of_position(S(0)), alone(S(0));                                                     \
        int found = 0;                                                                              \
        ASK(0, trilinear, __VA_ARGS__, g.value)                                                     \
        ASK(1, tricubic, __VA_ARGS__, g.value)                                                      \
        ASK(2, trilinear, __VA_ARGS__, g)                                                           \
        ASK(3, tricubic, __VA_ARGS__, g)                                                            \
        if (kind == 4) {                                                                            \
            nearest##_adjoint_of_voxels(__VA_ARGS__, g.value, report);                              \
            found = report.count;                                                                   \
        }                                                                                           \
        positions[i] = of_position;                                                                 \
        counts[2 * i] = found;                                                                      \
        counts[2 * i + 1] = report.wrong + (found != report.count) + !exact::equal(of_position, alone); \
    }
#define COMMA ,
#define STORED(name, V, S)                                                                          \
    KERNEL(name, V, S, Volume<V> volume, volume.grid, sample_trilinear, sample_tricubic, sample_nearest, \
           volume, p)
#define INDEXED(name, T, V, S)                                                                      \
    KERNEL(name, V, S, Volume<T> volume COMMA IndexedValues<V> values, values.data,                 \
           sample_trilinear_index, sample_tricubic_index, sample_nearest_index, volume, p, values)

STORED(of_f32, float, float)
STORED(of_f64, double, double)
STORED(of_vec3f, vec3<float>, float)
STORED(of_vec3d, vec3<double>, double)
INDEXED(of_index_f32, VolumeIndex, float, float)
INDEXED(of_index_f64, VolumeIndex, double, double)
INDEXED(of_on_index_vec3f, VolumeOnIndex, vec3<float>, float)
INDEXED(of_on_index_vec3d, VolumeOnIndex, vec3<double>, double)

// Of samples in the world: positions there, gradients of values and of gradients there. out: the gradient there.
#define WORLD(name, S)                                                                              \
    extern "C" __global__ void name(Volume<S> volume, const vec3<S>* points, const S* gradients,    \
                                    unsigned n, vec3<S>* positions) {                               \
        const unsigned i = thread();                                                                \
        if (i >= n) return;                                                                         \
        const Sample<S> g = sample_adjoint_in_index(volume.map, sample_of<S>(gradients + 4 * i));   \
        const vec3<S> p = world_to_index(volume.map, points[i]);                                    \
        const vec3<S> of = sample_tricubic_adjoint_of_position(volume, p, g);                       \
        positions[i] = index_to_world_gradient(volume.map, of);                                     \
    }
WORLD(in_world_f32, float)
WORLD(in_world_f64, double)
