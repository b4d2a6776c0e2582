// The parameters of kernels that build volumes: the layout of nodes for any type of value, as numbers, so that one
// set of kernels serves all types; the addresses of a volume's nodes; and the results of a build.
#pragma once

#include <geom/math/exact.cuh>
#include <geom/math/vec.cuh>

namespace geom {
namespace volume {

// The values that a leaf stores.
enum : unsigned { leaf_keeps_values = 0, leaf_keeps_bits = 1, leaf_keeps_nothing = 2, leaf_numbers_all = 3,
                  leaf_numbers_active = 4 };

// The type of the numbers of a value.
enum : unsigned { number_f32 = 0, number_f64 = 1, number_i16 = 2, number_i32 = 3, number_i64 = 4,
                  number_u8 = 5, number_u32 = 6 };

// `Format<T>` (types.cuh) for a T that is known at run time, in bytes.
struct NodeLayout {
    unsigned value_bytes, value_align, entry_bytes;
    unsigned root_background, root_bytes, tile_value, tile_bytes;
    unsigned upper_table, upper_bytes, lower_table, lower_bytes;
    unsigned leaf_values, leaf_bytes, leaf_keeps;
    // The type and the number of the components of a value.
    unsigned number, numbers;
};

// The reasons why a build has left something out.
enum : unsigned { build_leaf_capacity = 1, build_lower_capacity = 2, build_upper_capacity = 4,
                  build_invalid_input = 8 };

// The results of a build: the same in Rust, src/volume/build/layout.rs.
struct BuildState {
    unsigned status;
    unsigned invalid;              // entries that were left out
    unsigned leaves, lower, upper; // nodes that are needed, including those without room
    unsigned entries;              // entries that were not left out
    unsigned long long voxels;     // active ones
    unsigned long long values;     // values that the indices refer to, including the background's
    unsigned unused[6];
};

// The shared arguments of a build's kernels. Nodes of a level have ranks in the order of their keys.
struct Build {
    NodeLayout layout;
    BuildState* state;
    // Entries sorted by key, in the one of two buffers that `*which` selects: their keys and indices.
    unsigned long long* keys[2];
    const unsigned* places[2];
    const unsigned* which;
    // The requests of entries (`entry_leaf`, ...), by their indices; null if all request leaves.
    unsigned char* asks;
    // For each leaf its key, the first of its entries, and its active voxels.
    unsigned long long* leaf_keys;
    unsigned* leaf_first;
    unsigned* leaf_active;
    // For each lower node its key, its first leaf and its first entry.
    unsigned long long* lower_keys;
    unsigned* lower_first;
    unsigned* lower_entry;
    // For each upper node its key and its first lower node.
    unsigned long long* upper_keys;
    unsigned* upper_first;
    // The background, and 32 bytes later the value of the inside.
    const unsigned char* constants;
    // The initial head of the grid and its root.
    const unsigned char* head;
    // The state of the pass that finds nodes; active voxels before each leaf, and the state of that sum.
    unsigned long long* chains;
    unsigned long long* before;
    unsigned long long* scan;
    // The grid, its size, and the offsets of its nodes in bytes.
    unsigned char* grid;
    unsigned long long grid_bytes, upper_at, lower_at, leaf_at;
    // The capacities; and the number of entries.
    unsigned leaf_room, lower_room, upper_room, n;
    unsigned head_bytes, unused;

    __device__ __forceinline__ const unsigned long long* sorted_keys() const { return keys[*which & 1]; }
    __device__ __forceinline__ const unsigned* sorted_places() const { return places[*which & 1]; }
    __device__ __forceinline__ bool fits() const {
        return (state->status & (build_leaf_capacity | build_lower_capacity | build_upper_capacity)) == 0;
    }
    __device__ __forceinline__ unsigned char* leaf(unsigned i) const {
        return grid + leaf_at + i * static_cast<unsigned long long>(layout.leaf_bytes);
    }
    __device__ __forceinline__ unsigned char* lower(unsigned i) const {
        return grid + lower_at + i * static_cast<unsigned long long>(layout.lower_bytes);
    }
    __device__ __forceinline__ unsigned char* upper(unsigned i) const {
        return grid + upper_at + i * static_cast<unsigned long long>(layout.upper_bytes);
    }
};

// The requests of an entry: a leaf; the value of the inside instead of a leaf; nothing.
enum : unsigned char { entry_leaf = 0, entry_inside = 1, entry_nothing = 2 };

} // namespace volume
} // namespace geom
