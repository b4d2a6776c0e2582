// Gradients through the vertices of surfaces in fields. src/tape/isosurface.rs launches the kernels.
// inexact: tape_isosurface_dense sums over the vertices beside a number depend on their order
// inexact: tape_isosurface_blocks as above
#include <geom/isosurface.cuh>
#include <geom/isosurface/adjoint.cuh>
#include <geom/isosurface/blocks.cuh>
#include <geom/tape.cuh>
#include <geom/volume/adjoint_batch.cuh>

using namespace geom;
using namespace geom::isosurface;
typedef unsigned long long u64;

namespace {

// A thread for each corner. `capacity` is that of the vertices' gradients; only those of written vertices are read
// and cleared, because others belong to older contents.
template <class Field>
__device__ __forceinline__ void go_back(const Field& field, const IndexMap& map, float iso, const Edges* edges,
                                        const Tile* tiles, vec3<float>* g, unsigned capacity, float* of_values,
                                        const tape::Frame& frame) {
    if (!tape::begin(frame)) return;
    const u64 corner = blockIdx.x * u64(blockDim.x) + threadIdx.x;
    const u64 word = corner / 32;
    // The edges of tiles without vertices were not written.
    if (word >= field.words || tiles[word / TILE_WORDS].vertices == 0) return;
    // Vertex numbers are only valid below the capacity, because they wrap around.
    if (tiles[word / TILE_WORDS].vertices_before >= capacity) return;
    const Place lower = {unsigned(word), unsigned(corner % 32)};
    if (lower.lane >= field.run(lower.word).count) return;
    for_each_vertex(edges[word], lower.lane, [&](unsigned number, int axis) {
        if (number >= capacity) return;
        const vec3<float> by = tape::grad_take(frame, 0, g + number);
        if (of_values == nullptr) return;
        const VertexGradient<float> to = vertex_adjoint(field, map, iso, lower, axis, by);
        tape::grad_add(frame, 0, of_values + to.place_a, to.values.a);
        tape::grad_add(frame, 0, of_values + to.place_b, to.values.b);
    });
}

__device__ __forceinline__ float added(float to, float g) { return exact::add(to, g); }
__device__ __forceinline__ double added(double to, float g) { return exact::add(to, exact::widen(g)); }

// Moves the gradients of blocks back to the voxels of the volume. A value that no leaf stores is a constant.
template <class T>
__device__ __forceinline__ void blocks_back(const Volume<T>& volume, const vec3<int>* origins, unsigned n,
                                            const float* g, void* of_grid, const tape::Frame& frame) {
    if (!tape::begin(frame)) return;
    for (unsigned block = blockIdx.x; block < n; block += gridDim.x) {
        const vec3<int> origin = origins[block];
        const volume::Leaf<T> leaf(volume::find(volume, origin.x, origin.y, origin.z));
        for (unsigned place = threadIdx.x; place < 512; place += blockDim.x) {
            const T* address = volume::variable(volume::Stored<T>{volume}, leaf, leaf.entry(place));
            if (address == nullptr) continue;
            // Only this block has this voxel.
            T* to = volume::shifted(address, volume.grid, of_grid);
            *to = added(*to, g[512ull * block + place]);
        }
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(256) tape_isosurface_dense(
    DenseField field, IndexMap map, float iso, const Edges* edges, const Tile* tiles, vec3<float>* g,
    unsigned capacity, float* of_values, tape::Frame frame
) {
    go_back(field, map, iso, edges, tiles, g, capacity, of_values, frame);
}
extern "C" __global__ void __launch_bounds__(256) tape_isosurface_blocks(
    BlockField field, IndexMap map, float iso, const Edges* edges, const Tile* tiles, vec3<float>* g,
    unsigned capacity, float* of_values, tape::Frame frame
) {
    go_back(field, map, iso, edges, tiles, g, capacity, of_values, frame);
}
extern "C" __global__ void __launch_bounds__(128) tape_fill_blocks_f32(
    Volume<float> volume, const vec3<int>* origins, unsigned n, const float* g, void* of_grid, tape::Frame frame
) {
    blocks_back(volume, origins, n, g, of_grid, frame);
}
extern "C" __global__ void __launch_bounds__(128) tape_fill_blocks_f64(
    Volume<double> volume, const vec3<int>* origins, unsigned n, const float* g, void* of_grid, tape::Frame frame
) {
    blocks_back(volume, origins, n, g, of_grid, frame);
}
