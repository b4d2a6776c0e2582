// A user's kernels over hierarchies of boxes: what the tests read back.
#include <geom/bvh.cuh>

namespace {

__device__ unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

struct Query {
    geom::aabb<float> box;
    geom::vec3<float> center;
    float radius;
    geom::MeshRay ray;
};

// What a query found: how many, a bit for each item, and a hash of all values that came with them.
struct Found {
    unsigned* bits;
    unsigned count = 0, hash = 0;

    __device__ void add(unsigned item, float told) {
        ++count;
        bits[item / 32] |= 1u << item % 32;
        hash += (item + 1) * 0x9e3779b9u ^ __float_as_uint(told) * 0x85ebca6bu;
    }
};

// A distance or t that a function of a user's might give, right and wrong ones.
__device__ float told(unsigned item, float least, float start) {
    switch (item % 7) {
    case 0: return geom::exact::infinity();
    case 1: return geom::exact::not_a_number();
    case 2: return -1.0f;
    case 3: return start;
    case 4: return least;
    default: return geom::exact::add(least, geom::exact::mul(0.125f, float(item % 32)));
    }
}

} // namespace

// Every item of each query, `words` words of bits for each of three kinds; and counts and hashes.
extern "C" __global__ void every(
    geom::Bvh bvh, const Query* queries, unsigned n, unsigned words, unsigned* bits, unsigned* facts
) {
    const unsigned i = thread();
    if (i >= n) return;
    const Query q = queries[i];
    Found boxes{bits + (3 * i + 0) * words}, near{bits + (3 * i + 1) * words}, along{bits + (3 * i + 2) * words};
    bool stopped = geom::for_each_overlap(bvh, q.box, [&](unsigned item) { boxes.add(item, 0.0f); });
    stopped |= geom::for_each_within(bvh, q.center, q.radius, [&](unsigned item, float square) {
        near.add(item, square);
    });
    stopped |= geom::for_each_along(bvh, q.ray, [&](unsigned item, float enter) {
        along.add(item, enter);
        return false;
    });
    facts[8 * i] = boxes.count;
    facts[8 * i + 1] = boxes.hash;
    facts[8 * i + 2] = near.count;
    facts[8 * i + 3] = near.hash;
    facts[8 * i + 4] = along.count;
    facts[8 * i + 5] = along.hash;
    facts[8 * i + 6] = stopped;
    // A ray of the other type.
    const geom::ray<float> same(q.ray.origin, q.ray.direction, q.ray.t_min, q.ray.t_max);
    unsigned count = 0;
    geom::for_each_along(bvh, same, [&](unsigned, float) { ++count; });
    facts[8 * i + 7] = count;
}

// The third item of each kind, at which the query stops: its number or `no_index`, and how many were seen.
extern "C" __global__ void third(geom::Bvh bvh, const Query* queries, unsigned n, unsigned* out) {
    const unsigned i = thread();
    if (i >= n) return;
    const Query q = queries[i];
    unsigned seen[3] = {}, last[3] = {geom::no_index, geom::no_index, geom::no_index};
    bool stopped[3];
    stopped[0] = geom::for_each_overlap(bvh, q.box, [&](unsigned item) {
        last[0] = item;
        return ++seen[0] == 3;
    });
    stopped[1] = geom::for_each_within(bvh, q.center, q.radius, [&](unsigned item, float) {
        last[1] = item;
        return ++seen[1] == 3;
    });
    auto counts = [&](unsigned item, float) {
        last[2] = item;
        return ++seen[2] == 3;
    };
    stopped[2] = geom::for_each_along(bvh, q.ray, counts);
    for (unsigned k = 0; k < 3; ++k) {
        out[6 * i + 2 * k] = stopped[k] ? last[k] : geom::no_index;
        out[6 * i + 2 * k + 1] = seen[k];
    }
}

// The nearest item by its centre, and by the callback's value; the first by that value; how often each was asked
// for and whether that was for what could still be the answer.
extern "C" __global__ void best(
    geom::Bvh bvh, const geom::aabb<float>* items, const Query* queries, unsigned n, unsigned* out
) {
    const unsigned i = thread();
    if (i >= n) return;
    const Query q = queries[i];
    unsigned wrong = 0;
    const geom::NearestItem center =
        geom::nearest(bvh, q.center, q.radius, [&](unsigned item, float limit) {
            wrong += !geom::exact::less_equal(distance_squared(items[item], q.center), limit);
            return geom::exact::distance_squared(geom::center(items[item]), q.center);
        });
    const geom::NearestItem nearest = geom::nearest(bvh, q.center, q.radius, [&](unsigned item, float) {
        return told(item, distance_squared(items[item], q.center), 0.0f);
    });
    const geom::FirstItem first =
        geom::first_along(bvh, q.ray, [&](unsigned item, float enter, float t_max) {
            wrong += !geom::exact::less_equal(enter, t_max);
            return told(item, enter, geom::exact::max(q.ray.t_min, 0.0f));
        });
    out[7 * i] = center.item;
    out[7 * i + 1] = __float_as_uint(center.distance_squared);
    out[7 * i + 2] = nearest.item;
    out[7 * i + 3] = __float_as_uint(nearest.distance_squared);
    out[7 * i + 4] = first.item;
    out[7 * i + 5] = __float_as_uint(first.t);
    out[7 * i + 6] = wrong;
}

// Queries within queries: pairs of an item of one hierarchy that overlaps the box, and one of another that
// overlaps the item; and of those the ones within the sphere; and how many of the first have a nearest one.
extern "C" __global__ void nested(
    geom::Bvh outer, const geom::aabb<float>* items, geom::Bvh inner, const Query* queries, unsigned n,
    unsigned* out
) {
    const unsigned i = thread();
    if (i >= n) return;
    const Query q = queries[i];
    unsigned pairs = 0, within = 0, nearest = 0;
    geom::for_each_overlap(outer, q.box, [&](unsigned item) {
        geom::for_each_overlap(inner, items[item], [&](unsigned other) {
            ++pairs;
            within += geom::for_each_within(inner, q.center, q.radius, [&](unsigned third, float) {
                return third == other;
            });
        });
        nearest += geom::nearest(inner, items[item].lower, q.radius, [&](unsigned, float) {
                       return 0.0f;
                   }).item != geom::no_index;
    });
    out[3 * i] = pairs;
    out[3 * i + 1] = within;
    out[3 * i + 2] = nearest;
}
