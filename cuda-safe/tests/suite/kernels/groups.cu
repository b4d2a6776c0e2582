// Cooperative groups, by CUDA's own header: the grid's barrier, tiles of several warps, and groups inside a warp.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

// What each thread's grid is: whether it can meet, its threads, the thread's rank, its blocks.
extern "C" __global__ void describe_grid(unsigned* out) {
    cg::grid_group grid = cg::this_grid();
    unsigned* mine = out + 4 * grid.thread_rank();
    mine[0] = grid.is_valid();
    mine[1] = (unsigned)grid.num_threads();
    mine[2] = (unsigned)grid.thread_rank();
    mine[3] = (unsigned)grid.num_blocks();
}

// Without a check of is_valid: the header's own.
extern "C" __global__ void sync_grid() {
    cg::this_grid().sync();
}

// In each round, each element becomes three times itself plus its right neighbour.
extern "C" __global__ void rounds(unsigned* now, unsigned* next, unsigned long long n, unsigned rounds) {
    cg::grid_group grid = cg::this_grid();
    for (unsigned round = 0; round < rounds; ++round) {
        for (unsigned long long i = grid.thread_rank(); i < n; i += grid.num_threads()) {
            next[i] = 3 * now[i] + now[i + 1 == n ? 0 : i + 1];
        }
        if (round & 1) {
            auto token = grid.barrier_arrive();
            grid.barrier_wait(static_cast<decltype(token)&&>(token));
        } else {
            grid.sync();
        }
        unsigned* last = now;
        now = next;
        next = last;
    }
}

// The sum of a value of each thread of the grid; `partial` has an element for each block. All threads get the
// same bits.
__device__ double grid_sum(cg::grid_group grid, double value, double* partial) {
    cg::thread_block block = cg::this_thread_block();
    __shared__ double warps[32];
    auto warp = cg::tiled_partition<32>(block);
    double sum = cg::reduce(warp, value, cg::plus<double>());
    if (warp.thread_rank() == 0) warps[warp.meta_group_rank()] = sum;
    block.sync();
    if (block.thread_rank() == 0) {
        sum = 0;
        for (unsigned i = 0; i < warp.meta_group_size(); ++i) sum += warps[i];
        partial[grid.block_rank()] = sum;
    }
    grid.sync();
    sum = 0;
    for (unsigned i = 0; i < grid.num_blocks(); ++i) sum += partial[i];
    grid.sync();
    return sum;
}

// (A p)[i] of the tridiagonal matrix with 2.5 on and -1 beside the diagonal.
__device__ double times(const double* p, unsigned long long i, unsigned long long n) {
    double left = i > 0 ? p[i - 1] : 0, right = i + 1 < n ? p[i + 1] : 0;
    return 2.5 * p[i] - left - right;
}

// Conjugate gradients: solves A x = b from x = 0 on, and says how many steps it took.
extern "C" __global__ void conjugate_gradients(
    const double* b, double* x, double* r, double* p, double* q, double* partial,
    unsigned long long n, double tolerance, unsigned most, unsigned* steps
) {
    cg::grid_group grid = cg::this_grid();
    unsigned long long first = grid.thread_rank(), by = grid.num_threads();
    double own = 0;
    for (unsigned long long i = first; i < n; i += by) {
        x[i] = 0;
        r[i] = p[i] = b[i];
        own += b[i] * b[i];
    }
    double rr = grid_sum(grid, own, partial);
    unsigned step = 0;
    for (; step < most && rr > tolerance * tolerance; ++step) {
        own = 0;
        for (unsigned long long i = first; i < n; i += by) {
            q[i] = times(p, i, n);
            own += p[i] * q[i];
        }
        double alpha = rr / grid_sum(grid, own, partial);
        own = 0;
        for (unsigned long long i = first; i < n; i += by) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
            own += r[i] * r[i];
        }
        double next = grid_sum(grid, own, partial);
        for (unsigned long long i = first; i < n; i += by) p[i] = r[i] + next / rr * p[i];
        rr = next;
        grid.sync();
    }
    if (first == 0) *steps = step;
}

// What tiles of SIZE threads give each thread: 11 values behind one another.
template <unsigned SIZE, typename Tile>
__device__ void tile(Tile tile, int value, unsigned source, int* out) {
    out[0] = (int)tile.thread_rank();
    out[1] = (int)tile.meta_group_rank();
    out[2] = tile.shfl(value, source % SIZE);
    out[3] = tile.any(value > 90);
    out[4] = tile.all(value > -90);
    out[5] = cg::reduce(tile, value, cg::plus<int>());
    out[6] = cg::reduce(tile, value, cg::less<int>());
    out[7] = (int)cg::reduce(tile, (unsigned)value, cg::bit_xor<unsigned>());
    out[8] = cg::inclusive_scan(tile, value, cg::plus<int>());
    out[9] = cg::exclusive_scan(tile, value, cg::plus<int>());
    // A word of each thread, read by the next one behind a barrier of the tile alone.
    __shared__ int words[1024];
    unsigned rank = cg::this_thread_block().thread_rank(), base = rank - tile.thread_rank();
    words[rank] = value;
    tile.sync();
    out[10] = words[base + (tile.thread_rank() + 1) % SIZE];
    tile.sync();
}

#define TILES(SIZE)                                                                                   \
    extern "C" __global__ void tiles_##SIZE(const int* values, const unsigned* sources, int* out) {   \
        __shared__ cg::block_tile_memory<1024> memory;                                                \
        cg::thread_block block = cg::this_thread_block(memory);                                       \
        unsigned long long i = cg::this_grid().thread_rank();                                         \
        for (int round = 0; round < 2; ++round)                                                       \
            tile<SIZE>(cg::tiled_partition<SIZE>(block), values[i], sources[i / SIZE], out + 11 * i); \
    }

TILES(16)
TILES(32)
TILES(64)
TILES(128)
TILES(256)
TILES(512)

// Tiles inside tiles: 64 of 256.
extern "C" __global__ void nested(const int* values, const unsigned* sources, int* out) {
    __shared__ cg::block_tile_memory<1024> memory;
    cg::thread_block block = cg::this_thread_block(memory);
    auto outer = cg::tiled_partition<256>(block);
    auto inner = cg::tiled_partition<64>(outer);
    unsigned long long i = cg::this_grid().thread_rank();
    tile<64>(inner, values[i], sources[i / 64], out + 11 * i);
    out[11 * i + 1] = (int)(outer.meta_group_rank() * 4 + inner.meta_group_rank());
}

// Groups inside a warp: 5 values for each thread, and how many values are odd.
extern "C" __global__ void inside_a_warp(const int* values, int* out, unsigned* odd) {
    cg::thread_block block = cg::this_thread_block();
    unsigned long long i = cg::this_grid().thread_rank();
    int value = values[i], *mine = out + 5 * i;
    auto warp = cg::tiled_partition<32>(block);
    auto sign = cg::binary_partition(warp, value < 0);
    mine[0] = (int)sign.thread_rank();
    mine[1] = cg::reduce(sign, value, cg::plus<int>());
    auto same = cg::labeled_partition(warp, value & 3);
    mine[2] = (int)same.num_threads();
    mine[3] = same.shfl(value, 0);
    mine[4] = (int)warp.match_any(value & 7);
    if (value & 1) {
        // Which lanes are together here is open, but each is in one group.
        cg::coalesced_group group = cg::coalesced_threads();
        if (group.thread_rank() == 0) atomicAdd(odd, (unsigned)group.num_threads());
    }
}
