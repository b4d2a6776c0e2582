// A slab of the box [0, length) x [0, 1) x [0, 1), one for each device, and its particles.
//
// Arrays have `room` elements. A step writes the particles that it finds in the grid back in the grid's order, so memory
// stays in the order of space; a place whose particle has left, or was of the halo, gets NaN as position, and the next
// build leaves it out. Behind these places come the arrivals, then the halo, then NaN.
#include <geom/hash_grid.cuh>

struct Slab {
    // 1 / radius^2.
    double per_square;
    // Its ends in x, and the length of the box.
    float lower, upper, length;
    float radius, time_step;
    // Bit 0: there is a slab on the left; bit 1: on the right.
    unsigned sides;
    // The most particles of the halo and the most leaving particles in a message.
    unsigned halo, migrants;
    // The length of the particles' arrays.
    unsigned room;
};

// The velocity's w of a place without a particle of the slab.
constexpr unsigned no_particle = ~0u;
// Words of a message: the number of the halo's particles, the number of migrants, two unused.
constexpr unsigned header = 4, halo_words = 3, migrant_words = 7;

__device__ float nan_position() { return __uint_as_float(0x7fffffffu); }

// Words of a message without its header: the halo's positions; then the position, velocity and number of each migrant.
__device__ unsigned payload(const Slab& slab) { return halo_words * slab.halo + migrant_words * slab.migrants; }

// A message: to the left its header comes last, to the right first, so that both headers are cleared together.
template <class Word> struct Message {
    Word *counts, *halo, *migrants;

    __device__ Message(const Slab& slab, Word* words, bool to_the_right) {
        counts = to_the_right ? words : words + payload(slab);
        halo = to_the_right ? words + header : words;
        migrants = halo + halo_words * slab.halo;
    }
};

// Both outgoing messages in one array: left, right.
template <class Word> __device__ Message<Word> outgoing(const Slab& slab, Word* out, bool right) {
    return Message<Word>(slab, out + (right ? payload(slab) + header : 0), right);
}

// A place for each thread of the warp that wants one. All threads of the warp call it.
__device__ unsigned take(unsigned* count, bool wants) {
    unsigned all = __ballot_sync(~0u, wants), lane = threadIdx.x % 32, begin = 0;
    if (all == 0)
        return 0;
    int first = __ffs(all) - 1;
    if (lane == first)
        begin = atomicAdd(count, __popc(all));
    return __shfl_sync(~0u, begin, first) + __popc(all & ((1u << lane) - 1));
}

__device__ void store(unsigned* words, float3 v) {
    words[0] = __float_as_uint(v.x);
    words[1] = __float_as_uint(v.y);
    words[2] = __float_as_uint(v.z);
}
__device__ float3 load(const unsigned* words) {
    return make_float3(__uint_as_float(words[0]), __uint_as_float(words[1]), __uint_as_float(words[2]));
}

// Moves a coordinate, which bounces off the walls at 0 and `upper`. Rounded as `Options::advance` on the host does.
__device__ void advance(float& x, float& v, float time_step, float upper) {
    x = __fmaf_rn(v, time_step, x);
    if (x < 0.0f) {
        x = -x;
        v = -v;
    } else if (x > upper) {
        x = __fsub_rn(__fadd_rn(upper, upper), x);
        v = -v;
    }
}

// Whether a particle at this distance from a face may be a neighbour of one beyond it. Rounding keeps order, so what the
// grid takes for a neighbour is never left out.
__device__ bool reaches(float distance, float radius) {
    return __fmul_rn(distance, distance) <= __fmul_rn(radius, radius);
}

// The number of neighbours of a particle, and the sum of their weights (1 - d^2 / r^2)^3.
struct Sum {
    unsigned count;
    double weights;
};
__device__ __forceinline__ Sum sum_around(const geom::HashGrid<float>& grid, geom::GridPoint<float> p, const Slab& slab) {
    Sum sum = {0, 0.0};
    geom::for_each_neighbor(grid, {p.x, p.y, p.z}, slab.radius, [&](const geom::Neighbor<float>& n) {
        if (n.index == p.index)
            return;
        double weight = 1.0 - n.distance_squared * slab.per_square;
        ++sum.count;
        sum.weights += weight * weight * weight;
    });
    return sum;
}

// The sum alone, for comparison: a step does this and moves the particles.
extern "C" __global__ void sum_alone(geom::HashGrid<float> grid, Slab slab, unsigned* counts, double* sums) {
    unsigned slot = blockIdx.x * blockDim.x + threadIdx.x;
    if (slot >= min(geom::point_count(grid), slab.room))
        return;
    Sum sum = sum_around(grid, geom::point_at(grid, slot), slab);
    counts[slot] = sum.count;
    sums[slot] = sum.weights;
}

// Sums over the neighbours of each particle of the slab, moves it, and writes it to its slot of the grid; those that
// leave, and those that the neighbouring slabs need as halo, into messages. state[0] becomes the number of slots, and
// state[1] is where the halo begins in the arrays that the grid was built from. As many blocks are resident as of the sum
// alone, which takes 64 registers: with two more there would be a quarter fewer.
extern "C" __global__ void __launch_bounds__(256, 4) compute(geom::HashGrid<float> grid, Slab slab, unsigned* state, const float4* before,
    float3* points, float4* after, unsigned* counts, double* sums, unsigned* out) {
    unsigned slot = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned filled = min(geom::point_count(grid), slab.room);
    if (slot == 0)
        state[0] = filled;
    bool exists = slot < filled, own = false;
    float3 x = make_float3(nan_position(), nan_position(), nan_position());
    float4 v = make_float4(0.0f, 0.0f, 0.0f, __uint_as_float(no_particle));
    if (exists) {
        geom::GridPoint<float> p = geom::point_at(grid, slot);
        own = p.index < min(state[1], slab.room);
        if (own) {
            Sum sum = sum_around(grid, p, slab);
            counts[slot] = sum.count;
            sums[slot] = sum.weights;
            v = before[p.index];
            x = make_float3(p.x, p.y, p.z);
            advance(x.x, v.x, slab.time_step, slab.length);
            advance(x.y, v.y, slab.time_step, 1.0f);
            advance(x.z, v.z, slab.time_step, 1.0f);
        }
    }
    bool gone = false;
    for (unsigned side = 0; side < 2; ++side) {
        // The same for all threads.
        if (!(slab.sides & 1 << side))
            continue;
        Message<unsigned> message = outgoing(slab, out, side == 1);
        bool leaves = own && (side == 0 ? x.x < slab.lower : x.x >= slab.upper);
        bool leaves_there = own && (side == 0 ? x.x >= slab.upper : x.x < slab.lower);
        float distance = side == 0 ? __fsub_rn(x.x, slab.lower) : __fsub_rn(slab.upper, x.x);
        bool near = own && !leaves && !leaves_there && reaches(distance, slab.radius);
        unsigned place = take(message.counts, near);
        if (near && place < slab.halo)
            store(message.halo + halo_words * place, x);
        place = take(message.counts + 1, leaves);
        // Without a place it stays, and the count tells the host.
        if (leaves && place < slab.migrants) {
            unsigned* words = message.migrants + migrant_words * place;
            store(words, x);
            store(words + 3, make_float3(v.x, v.y, v.z));
            words[6] = __float_as_uint(v.w);
            gone = true;
        }
    }
    if (exists) {
        points[slot] = gone ? make_float3(nan_position(), nan_position(), nan_position()) : x;
        after[slot] = v;
    }
}

// Appends what has come from the left and from the right, and as a part of the halo also what this slab has just sent
// away. state[1] becomes the end of the slab's own particles. `peaks` are the largest numbers so far: of places, of the
// halo to the left and to the right, of migrants likewise; and how many arrivals found no place. The headers of the `next`
// messages are cleared.
extern "C" __global__ void arrive(Slab slab, unsigned* state, const unsigned* from_left, const unsigned* from_right,
    const unsigned* out, unsigned* next, float3* points, float4* velocities, unsigned* peaks) {
    using In = Message<const unsigned>;
    In from[2] = {In(slab, from_left, true), In(slab, from_right, false)};
    In sent[2] = {outgoing(slab, out, false), outgoing(slab, out, true)};
    unsigned begin = min(state[0], slab.room);
    // Where each part ends: arrivals, the halo, the departed.
    unsigned ends[6], end = begin;
    for (unsigned side = 0; side < 2; ++side)
        ends[side] = end += min(from[side].counts[1], slab.migrants);
    for (unsigned side = 0; side < 2; ++side)
        ends[2 + side] = end += min(from[side].counts[0], slab.halo);
    for (unsigned side = 0; side < 2; ++side)
        ends[4 + side] = end += min(sent[side].counts[1], slab.migrants);
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    if (thread < 2 * header)
        next[payload(slab) + thread] = 0;
    if (thread == 0) {
        state[1] = min(ends[1], slab.room);
        peaks[0] = max(peaks[0], end);
        for (unsigned side = 0; side < 2; ++side) {
            peaks[1 + side] = max(peaks[1 + side], sent[side].counts[0]);
            peaks[3 + side] = max(peaks[3 + side], sent[side].counts[1]);
        }
        peaks[5] += ends[1] - state[1];
    }
    for (unsigned i = begin + thread; i < slab.room; i += threads) {
        float3 x = make_float3(nan_position(), nan_position(), nan_position());
        float4 v = make_float4(0.0f, 0.0f, 0.0f, __uint_as_float(no_particle));
        for (unsigned part = 0; part < 6; ++part) {
            unsigned first = part == 0 ? begin : ends[part - 1], side = part % 2;
            if (i < first || i >= ends[part])
                continue;
            const unsigned* words = part / 2 == 0 ? from[side].migrants + migrant_words * (i - first)
                : part / 2 == 1                   ? from[side].halo + halo_words * (i - first)
                                                  : sent[side].migrants + migrant_words * (i - first);
            x = load(words);
            if (part / 2 == 0) {
                float3 u = load(words + 3);
                v = make_float4(u.x, u.y, u.z, __uint_as_float(words[6]));
            }
        }
        points[i] = x;
        velocities[i] = v;
    }
}

// Counts the slab's own particles.
extern "C" __global__ void
count_own(Slab slab, const unsigned* state, const float3* points, unsigned* count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    bool is_own = i < min(state[1], slab.room) && points[i].x == points[i].x;
    unsigned all = __ballot_sync(~0u, is_own);
    if (threadIdx.x % 32 == 0 && all != 0)
        atomicAdd(count, __popc(all));
}
