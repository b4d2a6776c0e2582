// A user's kernels over a hash grid: what the tests read back.
#include <geom/hash_grid.cuh>

namespace {

__device__ unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

// The points in cell order, and the frame that says in which cell each is: origins and reciprocals of
// the sizes of cells, numbers of cells.
template <class T>
__device__ void inspect(
    const geom::HashGrid<T>& grid, unsigned* indices, T* positions, double* frame, long long* cells
) {
    unsigned i = thread();
    if (i < geom::point_count(grid)) {
        geom::GridPoint<T> point = geom::point_at(grid, i);
        indices[i] = point.index;
        positions[3 * i] = point.x;
        positions[3 * i + 1] = point.y;
        positions[3 * i + 2] = point.z;
    }
    if (i == 0) {
        const geom::GridHeader<T>& header = *grid.header;
        for (int axis = 0; axis < 3; ++axis) {
            bool dense = header.mode == geom::grid_dense;
            frame[axis] = dense ? header.origin[axis] : header.row_origin[axis];
            frame[3 + axis] = dense ? header.inverse[axis] : header.row_inverse[axis];
            cells[axis] = dense ? header.cells[axis] : header.row_cells[axis];
        }
        cells[3] = header.mode;
        cells[4] = geom::point_count(grid);
    }
}

constexpr unsigned room = 48, facts_each = 6, few = 4;

template <class T> struct Found {
    unsigned* index;
    T* values;

    // Numbers of a user's own arithmetic, which flags may change, are not among them.
    __device__ void keep(unsigned at, const geom::Neighbor<T>& n) const {
        if (at >= room)
            return;
        index[at] = n.index;
        T* v = values + 4 * at;
        v[0] = n.distance_squared;
        v[1] = n.delta.x;
        v[2] = n.delta.y;
        v[3] = n.delta.z;
    }
};

// All that a kernel can ask, at each query: `found` has `room` neighbours of each, `facts` their number,
// whether the iterator gives the same ones, whether there is any, the third one and how many were
// visited for it, and how many of the `few` nearest there are.
template <class T>
__device__ void every(
    const geom::HashGrid<T>& grid, const T* queries, unsigned n, T radius, unsigned group,
    unsigned* indices, T* values, unsigned* facts, unsigned* near_indices, T* near_squares
) {
    unsigned i = thread();
    if (i >= n)
        return;
    geom::vec3<T> x{queries[3 * i], queries[3 * i + 1], queries[3 * i + 2]};
    Found<T> found{indices + i * room, values + 4 * i * room};
    unsigned* fact = facts + i * facts_each;

    unsigned count = 0;
    geom::for_each_neighbor(
        grid, x, radius, [&](const geom::Neighbor<T>& n) { found.keep(count++, n); }, group
    );
    fact[0] = count;

    geom::NeighborIterator<T> iterator(grid, x, radius, group);
    geom::Neighbor<T> neighbor;
    unsigned steps = 0, same = 1;
    while (iterator.next(neighbor)) {
        geom::GridPoint<T> point = geom::point_at(grid, neighbor.slot);
        bool right = point.index == neighbor.index && point.x == neighbor.position.x &&
                     point.y == neighbor.position.y && point.z == neighbor.position.z &&
                     (steps >= room || found.index[steps] == neighbor.index);
        same = same && right;
        ++steps;
    }
    // At its end it stays there.
    same = same && !iterator.next(neighbor) && steps == count;
    fact[1] = same;

    fact[2] = geom::any_neighbor(grid, x, radius, group);
    unsigned visited = 0;
    fact[3] = 0xffffffffu;
    bool stopped = geom::find_neighbor(
        grid, x, radius,
        [&](const geom::Neighbor<T>& n) {
            ++visited;
            if (visited == 3)
                fact[3] = n.index;
            return visited == 3;
        },
        group
    );
    fact[4] = visited + (stopped ? 100u : 0u);

    geom::Nearest<T, few> nearest;
    geom::nearest_neighbors<few>(grid, x, few, radius, nearest, group);
    fact[5] = nearest.count;
    for (unsigned j = 0; j < nearest.count; ++j) {
        near_indices[i * few + j] = nearest.index[j];
        near_squares[i * few + j] = nearest.distance_squared[j];
    }
}

} // namespace

#define KERNELS(T, suffix)                                                                          \
    extern "C" __global__ void inspect_##suffix(                                                    \
        geom::HashGrid<T> grid, unsigned* indices, T* positions, double* frame, long long* cells    \
    ) {                                                                                             \
        inspect(grid, indices, positions, frame, cells);                                            \
    }                                                                                               \
    extern "C" __global__ void every_##suffix(                                                      \
        geom::HashGrid<T> grid, const T* queries, unsigned n, T radius, unsigned group,             \
        unsigned* indices, T* values, unsigned* facts, unsigned* near_indices, T* near_squares      \
    ) {                                                                                             \
        every(                                                                                      \
            grid, queries, n, radius, group, indices, values, facts, near_indices, near_squares     \
        );                                                                                          \
    }

KERNELS(float, f32)
KERNELS(double, f64)
