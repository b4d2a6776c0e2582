// Traversal of a volume by a ray, from cell to cell, with one step over constant regions: a digital differential
// analyzer over the levels of the tree (K. Museth, "Hierarchical Digital Differential Analyzer for Efficient
// Ray-Marching in OpenVDB", SIGGRAPH 2014 Talks).
//
// All of this is written in exact arithmetic (exact.cuh): no bit depends on a program's options.
//
// A cell is the cube between eight voxels; it is named after the least of them, and extends by one from there. In it
// the field is the trilinear interpolation of its corners. Consecutive cells are traversed in one step if none of
// their corners is in a leaf, and the corners are in the same tiles: all cells inside a tile, or those along its
// side, edge or corner, whose other corners are in other tiles. So no corner that differs is missed.
//
// Steps are integers: one crosses the plane that the ray meets first, into the cell after it. The crossing is one
// expression, which never decreases along the ray. So the intervals of the cells adjoin without a gap, each step
// advances, and rays along faces, edges and through corners need no special case. In f64, rounding moves the ray by
// less than 2^-50 of the coordinates of its origin, in voxels, and 2^-50 of t.
#pragma once

#include <geom/bvh/ray_boxes.cuh>
#include <geom/volume/access.cuh>

namespace geom {
namespace volume {

// A ray in index space. The part beyond +-2^30 is left out.
struct IndexRay {
    static constexpr int reach = 1 << 30;

    vec3<double> origin, direction;
    // The reciprocal 1 / direction; 0 for an axis that the ray does not move along.
    vec3<double> inverse;
    double t_min, t_max;
    // Whether the ray can meet anything.
    bool valid;

    __device__ __forceinline__ IndexRay(vec3<double> origin, vec3<double> direction, double t_min,
                                        double t_max)
        : origin(origin), direction(direction),
          inverse(reciprocal(direction.x), reciprocal(direction.y), reciprocal(direction.z)) {
        using namespace exact;
        valid = is_finite(origin) && is_finite(direction) && less_equal(t_min, t_max);
        // The range of t in f32.
        const double largest = widen(geom::detail::largest(0.0f));
        this->t_min = max(t_min, 0.0);
        this->t_max = min(t_max, largest);
        bool moves = false;
        clip(origin.x, inverse.x, &moves);
        clip(origin.y, inverse.y, &moves);
        clip(origin.z, inverse.z, &moves);
        valid = valid && moves && less_equal(this->t_min, this->t_max);
    }

    __device__ __forceinline__ static double reciprocal(double d) {
        const double inverse = exact::div(1.0, d);
        return exact::is_finite(inverse) ? inverse : 0.0;
    }
    __device__ __forceinline__ void clip(double o, double i, bool* moves) {
        using namespace exact;
        double enter = t_min, leave = t_max;
        slab(o, i, -double(reach), double(reach), &enter, &leave);
        *moves = *moves || !equal(i, 0.0);
        t_min = enter, t_max = leave;
    }

    // Narrows [enter, leave] to where the ray is between two planes of an axis.
    __device__ __forceinline__ static void slab(double o, double i, double low, double high, double* enter,
                                                double* leave) {
        using namespace exact;
        if (equal(i, 0.0)) {
            if (less(o, low) || less(high, o)) *leave = -1.0;
            return;
        }
        const double a = mul(sub(low, o), i), b = mul(sub(high, o), i);
        *enter = max(*enter, min(a, b));
        *leave = min(*leave, max(a, b));
    }

    __device__ __forceinline__ vec3<double> at(double t) const {
        using namespace exact;
        return vec3<double>(fma(t, direction.x, origin.x), fma(t, direction.y, origin.y),
                            fma(t, direction.z, origin.z));
    }
    // The position of the ray in a cell at t: in [0, 1]^3.
    __device__ __forceinline__ vec3<double> in_cell(vec3<int> cell, double t) const {
        const vec3<double> p = at(t);
        return vec3<double>(part(p.x, cell.x), part(p.y, cell.y), part(p.z, cell.z));
    }
    __device__ __forceinline__ static double part(double p, int cell) {
        return exact::min(exact::max(exact::sub(p, double(cell)), 0.0), 1.0);
    }
};

// An aligned cube of 2^bits voxels per side: a node, or a value.
template <class T>
struct Region {
    const unsigned char* node;
    const unsigned char* value;
    int bits;

    // The value at a place of a leaf, or of a tile.
    __device__ __forceinline__ T at(unsigned place) const { return Found<T>{node, value}.at(place); }
};

// The lower node of a voxel, or the tile or background instead.
template <class T>
__device__ __forceinline__ Region<T> lower_region(const Volume<T>& volume, vec3<int> at) {
    using F = Format<T>;
    const RootEntry entry = root_entry(volume, at.x, at.y, at.z);
    if (entry.at == nullptr) return {nullptr, volume.root + F::root_background, 12};
    Region<T> found = {nullptr, entry.at + F::tile_value, 12};
    if (entry.child == 0) return found;
    found.node = child<F::upper_children, F::upper_table, F::entry_bytes>(
        volume.root + entry.child, upper_place(at.x, at.y, at.z), &found.value);
    found.bits = 7;
    return found;
}
// The leaf of a voxel, or the tile or background instead.
template <class T>
__device__ __forceinline__ Region<T> leaf_region(const Region<T>& lower, vec3<int> at) {
    using F = Format<T>;
    Region<T> found = lower;
    if (lower.node == nullptr) return found;
    found.node = child<F::lower_children, F::lower_table, F::entry_bytes>(
        lower.node, lower_place(at.x, at.y, at.z), &found.value);
    found.bits = 3;
    return found;
}

// A cell's corners, and where they are stored.
template <class T>
struct CellCorners {
    // The least corner.
    vec3<int> voxel;
    Region<T> lower, leaf;
    // The values; x is the slowest index.
    T corners[8];
    // Whether a corner is in a leaf; otherwise the size of the smallest region of a corner.
    bool stored;
    int bits;

    __device__ __forceinline__ void start(const Volume<T>& volume, vec3<int> at) {
        voxel = at;
        lower = lower_region(volume, at);
        leaf = leaf_region(lower, at);
    }
    __device__ __forceinline__ void move(const Volume<T>& volume, vec3<int> to) {
        const unsigned changed = (to.x ^ voxel.x) | (to.y ^ voxel.y) | (to.z ^ voxel.z);
        voxel = to;
        if (changed >> 7 != 0) lower = lower_region(volume, to);
        if (changed >> 3 != 0) leaf = leaf_region(lower, to);
    }
    // Whether nothing is stored here, and the root has no tile.
    __device__ __forceinline__ bool is_beyond(const Volume<T>& volume) const {
        return leaf.value == volume.root + Format<T>::root_background;
    }
    __device__ __forceinline__ void fetch(const Volume<T>& volume) {
        // `two` has a bit for each axis along which corners lie in two leaves (4 for x, 2 for y, 1 for z), `far` for
        // two lower nodes.
        const unsigned two = beyond(7), far = beyond(127);
        take(leaf, two, 0);
        stored = leaf.node != nullptr;
        bits = leaf.bits;
        // The loop visits all subsets of those axes.
#pragma unroll 1
        for (unsigned side = (0 - two) & two; side != 0; side = (side - two) & two) {
            const vec3<int> at = corner(side);
            Region<T> there = lower;
            if ((side & far) != 0) there = lower_region(volume, at);
            there = leaf_region(there, at);
            take(there, two, side);
            stored = stored || there.node != nullptr;
            bits = ::min(bits, there.bits);
        }
    }
    // The size of the region in which cells have the same corners as this one; 0 if it is alone.
    __device__ __forceinline__ int like_bits() const { return stored ? 0 : bits; }
    __device__ __forceinline__ bool is_constant() const {
        bool same = true;
#pragma unroll
        for (int i = 1; i < 8; ++i) same = same && exact::equal(corners[i], corners[0]);
        return same;
    }
    __device__ __forceinline__ unsigned beyond(int last) const {
        return ((voxel.x & last) == last ? 4 : 0) | ((voxel.y & last) == last ? 2 : 0) |
               ((voxel.z & last) == last ? 1 : 0);
    }
    __device__ __forceinline__ vec3<int> corner(int i) const {
        return vec3<int>(voxel.x + (i >> 2), voxel.y + (i >> 1 & 1), voxel.z + (i & 1));
    }
    __device__ __forceinline__ void take(const Region<T>& from, unsigned two, unsigned side) {
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if ((i & two) == side) {
                const vec3<int> at = corner(i);
                corners[i] = from.at(leaf_place(at.x, at.y, at.z));
            }
    }
};

// The next t at which the ray comes within two voxels of a tile of the root, so that rounding does not matter; its
// end, if there is none.
template <class T>
__device__ __forceinline__ double next_tile(const Volume<T>& volume, const IndexRay& ray, double t) {
    using namespace exact;
    using F = Format<T>;
    const unsigned tiles = load_tree<unsigned>(volume.root + F::root_tiles);
    const unsigned char* tile = volume.root + F::root_bytes;
    double next = ray.t_max;
    for (unsigned i = 0; i < tiles; ++i, tile += F::tile_bytes) {
        const auto key = load_tree<unsigned long long>(tile);
        const int x = static_cast<int>(static_cast<unsigned>(key >> 42) << 12),
                  y = static_cast<int>(static_cast<unsigned>(key >> 21) << 12),
                  z = static_cast<int>(static_cast<unsigned>(key) << 12);
        double enter = t, leave = next;
        ray.slab(ray.origin.x, ray.inverse.x, sub(double(x), 2.0), add(double(x), 4097.0), &enter, &leave);
        ray.slab(ray.origin.y, ray.inverse.y, sub(double(y), 2.0), add(double(y), 4097.0), &enter, &leave);
        ray.slab(ray.origin.z, ray.inverse.z, sub(double(z), 2.0), add(double(z), 4097.0), &enter, &leave);
        if (less_equal(enter, leave)) next = enter;
    }
    return next;
}

// One axis of a step.
struct Axis {
    // The cells that are traversed together, from the first plane to the last.
    int first, last;

    // The cells of the region of 2^bits voxels per side with the least corner of cell c; only c, if its greatest corner is in
    // the next region.
    __device__ __forceinline__ Axis(int c, int bits) {
        const int size = 1 << bits;
        const bool at_side = (c & (size - 1)) == size - 1;
        first = at_side ? c : c & -size;
        last = at_side ? c + 1 : first + size - 1;
    }
    // The t at which the ray leaves the cells.
    __device__ __forceinline__ double leave(double origin, double inverse) const {
        using namespace exact;
        if (equal(inverse, 0.0)) return widen(infinity());
        const int plane = geom::detail::is_negative(inverse) ? first : last;
        return mul(sub(double(plane), origin), inverse);
    }
    // The cell of coordinate p.
    __device__ __forceinline__ int at(double p) const {
        return ::min(::max(exact::floor_to_int(p), first), last - 1);
    }
    // The cell after these; or, if the ray leaves along another axis at p, the cell of p.
    __device__ __forceinline__ int next(int c, double p, double inverse, bool leaves) const {
        const bool back = geom::detail::is_negative(inverse);
        if (leaves) return back ? first - 1 : last;
        if (exact::equal(inverse, 0.0)) return c;
        return back ? ::min(at(p), c) : ::max(at(p), c);
    }
};

// The cell of coordinate p, not before cell c on the ray.
__device__ __forceinline__ int forward(int c, double p, double inverse) {
    const int to = ::min(::max(exact::floor_to_int(p), -IndexRay::reach), IndexRay::reach - 1);
    if (exact::equal(inverse, 0.0)) return c;
    return geom::detail::is_negative(inverse) ? ::min(to, c) : ::max(to, c);
}

// Traverses the volume along the ray, and calls these functions of `visit` in the order of t:
//
//   bool constant(T value, double t0, double t1)
//       The ray passes through a region of one value.
//   bool cell(vec3<int> cell, const T (&corners)[8], double t0, double t1)
// It passes through a cell, whose corners have x as the slowest index. This may be the first of several cells with
// the same corners, adjacent along axes along which these do not differ.
//
// Stops when one of them returns true. Each t0 is the t1 before.
template <class T, class V>
__device__ inline void walk(const Volume<T>& volume, const IndexRay& ray, V& visit) {
    using namespace exact;
    if (!ray.valid) return;
    double t = ray.t_min;
    const vec3<double> from = ray.at(t);
    constexpr int reach = IndexRay::reach;
    vec3<int> c(::min(::max(floor_to_int(from.x), -reach), reach - 1),
                ::min(::max(floor_to_int(from.y), -reach), reach - 1),
                ::min(::max(floor_to_int(from.z), -reach), reach - 1));
    CellCorners<T> cell;
    cell.start(volume, c);
    while (true) {
        if (cell.is_beyond(volume)) {
            // The step covers all of the background up to the next tile.
            const double next = next_tile(volume, ray, t);
            if (less(t, next)) {
                if (visit.constant(cell.leaf.at(0), t, next) || !less(next, ray.t_max)) return;
                t = next;
                const vec3<double> p = ray.at(t);
                c = vec3<int>(forward(c.x, p.x, ray.inverse.x), forward(c.y, p.y, ray.inverse.y),
                              forward(c.z, p.z, ray.inverse.z));
                cell.move(volume, c);
            }
        }
        cell.fetch(volume);
        const bool skips = !cell.stored;
        const int bits = cell.like_bits();

        // A single cell is a region of one voxel, at the side along each axis.
        const Axis ax(c.x, bits), ay(c.y, bits), az(c.z, bits);
        const double tx = ax.leave(ray.origin.x, ray.inverse.x), ty = ay.leave(ray.origin.y, ray.inverse.y),
                     tz = az.leave(ray.origin.z, ray.inverse.z);
        const double first = min(min(tx, ty), tz), t1 = min(max(first, t), ray.t_max);
        const bool constant = skips && cell.is_constant();
        if (constant ? visit.constant(cell.corners[0], t, t1) : visit.cell(c, cell.corners, t, t1)) return;
        if (!less(t1, ray.t_max)) return;
        const bool by_x = equal(tx, first), by_y = !by_x && equal(ty, first), by_z = !by_x && !by_y;
        const vec3<double> p = skips ? ray.at(t1) : vec3<double>(0.0);
        c = vec3<int>(skips || by_x ? ax.next(c.x, p.x, ray.inverse.x, by_x) : c.x,
                      skips || by_y ? ay.next(c.y, p.y, ray.inverse.y, by_y) : c.y,
                      skips || by_z ? az.next(c.z, p.z, ray.inverse.z, by_z) : c.z);
        cell.move(volume, c);
        t = t1;
    }
}

} // namespace volume
} // namespace geom
