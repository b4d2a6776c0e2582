// Dense arrays to volumes and back. Arrays have z fastest: values[(x * ny + y) * nz + z].
//
// Comparisons use exact arithmetic (exact.cuh).
#pragma once

#include <geom/volume/access.cuh>
#include <geom/volume/build_leaves.cuh>

namespace geom {
namespace volume {

// The voxels of an array that are kept: all; those that differ from the background; those of a narrow band.
enum : unsigned { keep_all = 0, keep_differing = 1, keep_band = 2 };

// A box of voxels with a value for each.
struct DenseField {
    const unsigned char* values;
    int origin[3];
    unsigned size[3];
    Tolerance tolerance;
    // The width of a band: absolute values in it are less.
    double width;
    unsigned keep;
    // 0: one array of the box; 1: 512 values for each leaf, in the order of the leaves' entries.
    unsigned by_leaves;

    // The index of a voxel along each axis; an index outside the box is too large.
    __device__ __forceinline__ bool has(const vec3<int>& v) const {
        return place(v.x, 0) < size[0] && place(v.y, 1) < size[1] && place(v.z, 2) < size[2];
    }
    __device__ __forceinline__ unsigned place(int coordinate, int axis) const {
        return static_cast<unsigned>(coordinate) - static_cast<unsigned>(origin[axis]);
    }
    __device__ __forceinline__ unsigned long long index(const vec3<int>& v) const {
        return (place(v.x, 0) * static_cast<unsigned long long>(size[1]) + place(v.y, 1)) * size[2] +
               place(v.z, 2);
    }
    __device__ __forceinline__ bool is_active(const NodeLayout& layout, const unsigned char* value,
                                              const unsigned char* background) const {
        if (keep == keep_all) return true;
        if (keep == keep_differing) return value_differs(layout, value, background, tolerance);
        return exact::less(exact::abs(real_at(layout, value)), width);
    }
    // Whether an inactive value of the box is inside, so that its sign is kept.
    __device__ __forceinline__ bool is_inside(const NodeLayout& layout, const unsigned char* value) const {
        return keep == keep_band && exact::less(real_at(layout, value), 0.0);
    }
};

// The leaves that a box of voxels touches: the position of the first among leaves, and how many along each axis.
struct LeafLattice {
    int first[3];
    unsigned count[3];

    __device__ __forceinline__ vec3<int> origin(unsigned i) const {
        const unsigned z = i % count[2], y = i / count[2] % count[1], x = i / count[2] / count[1];
        return {(first[0] + static_cast<int>(x)) * 8, (first[1] + static_cast<int>(y)) * 8,
                (first[2] + static_cast<int>(z)) * 8};
    }
};

// Decides what each leaf that an array touches becomes, by a block of `leaf_threads` each. A leaf with active voxels
// is kept. In a band, a leaf without active voxels depends on the signs of its values: it becomes a value of the
// lower node if its voxels are all in the array and inside, is kept if a part is inside, and is left out if all are
// outside.
__device__ __forceinline__ void judge_leaves(const Build& b, const DenseField& field,
                                             const LeafLattice& lattice) {
    for (unsigned i = blockIdx.x; i < b.n; i += gridDim.x) {
        LeafWork leaf;
        leaf.origin = lattice.origin(i);
        bool active = false, inside = false, outside = false;
        if (field.keep == keep_all) {
            active = true;
        } else {
#pragma unroll
            for (unsigned k = 0; k < 512 / leaf_threads; ++k) {
                const vec3<int> voxel = leaf.voxel(threadIdx.x + k * leaf_threads);
                if (!field.has(voxel)) {
                    outside = true;
                    continue;
                }
                const unsigned char* value = field.values + field.index(voxel) * b.layout.value_bytes;
                active |= field.is_active(b.layout, value, b.constants);
                (field.is_inside(b.layout, value) ? inside : outside) = true;
            }
        }
        active = __syncthreads_or(active) != 0;
        inside = __syncthreads_or(inside) != 0;
        outside = __syncthreads_or(outside) != 0;
        if (threadIdx.x != 0) continue;
        const unsigned char ask = active || (inside && outside) ? entry_leaf
                                  : inside                      ? entry_inside
                                                                : entry_nothing;
        b.asks[i] = ask;
        b.keys[0][i] = ask == entry_nothing ? no_key : leaf_key(leaf.origin);
    }
}

// Leaves have the array's values, and outside of the array the background.
struct DenseSource {
    DenseField field;
    struct Shared {};

    __device__ __forceinline__ void begin(Shared&, const Build&, const LeafWork&) const {}
    __device__ __forceinline__ bool at(const Shared&, const Build& b, const LeafWork& leaf, unsigned place,
                                       const unsigned char** value) const {
        const vec3<int> voxel = leaf.voxel(place);
        *value = b.constants;
        if (!field.has(voxel)) return false;
        const unsigned long long i =
            field.by_leaves != 0 ? b.sorted_places()[b.leaf_first[leaf.rank]] * 512ull + place
                                 : field.index(voxel);
        const unsigned char* there = field.values + i * b.layout.value_bytes;
        const bool active = field.is_active(b.layout, there, b.constants);
        if (active) *value = there;
        else if (field.is_inside(b.layout, there)) *value = b.constants + 32;
        return active;
    }
};

// A leaf or, without one, the value: `find` (access.cuh) for a type that is known at run time.
struct FoundBytes {
    const unsigned char* leaf;
    const unsigned char* value;
};

__device__ __forceinline__ const unsigned char* child_of(const NodeLayout& layout, const unsigned char* node,
                                                         unsigned mask, unsigned table, unsigned place,
                                                         const unsigned char** value) {
    *value = node + table + place * static_cast<unsigned long long>(layout.entry_bytes);
    if (!leaf_bit(node + mask, place)) return nullptr;
    return node + load<long long>(*value);
}

// Whether a root has many entries in order. By all threads of a block, which agree.
__device__ __forceinline__ bool root_in_order(const NodeLayout& layout, const unsigned char* root) {
    const unsigned n = load<unsigned>(root + Format<float>::root_tiles);
    if (n <= few_entries) return false;
    const unsigned char* entries = root + layout.root_bytes;
    const auto order = [&](unsigned i) {
        return root_order(load<unsigned long long>(entries + i * static_cast<unsigned long long>(layout.tile_bytes)));
    };
    bool falls = false;
    for (unsigned i = threadIdx.x + 1; i < n; i += blockDim.x) falls |= order(i) <= order(i - 1);
    return __syncthreads_or(falls) == 0;
}

__device__ __forceinline__ FoundBytes find_bytes(const NodeLayout& layout, const unsigned char* root,
                                                 bool in_order, int x, int y, int z) {
    const RootEntry entry =
        find_entry(root + layout.root_bytes, load<unsigned>(root + Format<float>::root_tiles),
                   layout.tile_bytes, root_key(x, y, z), [&] { return in_order; });
    if (entry.at == nullptr) return {nullptr, root + layout.root_background};
    FoundBytes found = {nullptr, entry.at + layout.tile_value};
    if (entry.child == 0) return found;
    const unsigned char* lower = child_of(layout, root + entry.child, Format<float>::upper_children,
                                          layout.upper_table, upper_place(x, y, z), &found.value);
    if (lower == nullptr) return found;
    found.leaf = child_of(layout, lower, Format<float>::lower_children, layout.lower_table,
                          lower_place(x, y, z), &found.value);
    return found;
}

// Copies the values of a box to an array, by a block of `leaf_threads` for each leaf that it touches.
__device__ __forceinline__ void copy_to_dense(const NodeLayout& layout, const unsigned char* root,
                                              const DenseField& box, const LeafLattice& lattice,
                                              unsigned leaves, unsigned char* out) {
    __shared__ FoundBytes found;
    const bool in_order = root_in_order(layout, root);
    for (unsigned i = blockIdx.x; i < leaves; i += gridDim.x) {
        LeafWork work;
        work.origin = lattice.origin(i);
        if (threadIdx.x == 0)
            found = find_bytes(layout, root, in_order, work.origin.x, work.origin.y, work.origin.z);
        __syncthreads();
        for (unsigned place = threadIdx.x; place < 512; place += leaf_threads) {
            const vec3<int> voxel = work.voxel(place);
            if (!box.has(voxel)) continue;
            unsigned char* to = out + box.index(voxel) * layout.value_bytes;
            if (found.leaf == nullptr) {
                copy_value(to, found.value, layout.value_bytes, layout.value_align);
            } else if (layout.leaf_keeps == leaf_keeps_values) {
                const unsigned char* from = found.leaf + layout.leaf_values + place * layout.value_bytes;
                copy_value(to, from, layout.value_bytes, layout.value_align);
            } else if (layout.leaf_keeps == leaf_keeps_bits) {
                *to = leaf_bit(found.leaf + layout.leaf_values, place);
            } else if (layout.leaf_keeps == leaf_keeps_nothing) {
                *to = leaf_bit(found.leaf + 16, place);
            } else {
                const unsigned long long index =
                    layout.leaf_keeps == leaf_numbers_all
                        ? leaf_index(found.leaf, place, static_cast<VolumeIndex*>(nullptr))
                        : leaf_index(found.leaf, place, static_cast<VolumeOnIndex*>(nullptr));
                *reinterpret_cast<unsigned long long*>(to) = index;
            }
        }
        __syncthreads();
    }
}

} // namespace volume
} // namespace geom
