// The types of a sparse volume in device memory: a NanoVDB grid, byte for byte as in memory and files of format 32
// (https://www.openvdb.org/documentation/doxygen/NanoVDB_HelloWorld.html; K. Museth, "NanoVDB: A GPU-Friendly and
// Portable VDB Data Structure", SIGGRAPH 2021 Talks). The Rust side of these layouts is src/volume/layout.rs and the
// crate nanovdb.
//
//   GridData 672 | TreeData 64 | root, its tiles | upper nodes 32^3 | lower nodes 16^3 | leaves 8^3
//
// Every part is aligned to 32 bytes. Nodes refer to their children by the distance in bytes from themselves. Kernels
// follow those distances without a check: nanovdb::Grid has checked them in every file, and builds on the device
// write valid ones.
#pragma once

#include <geom/math/vec.cuh>

namespace geom {

// Types of values without an equivalent in C++.
struct VolumeMask;    // a voxel is active or not, and has no other value
struct VolumeBool;    // one bit
struct VolumeIndex;   // a number for each voxel and tile, an index into separate arrays
struct VolumeOnIndex; // the same, for active ones only
struct alignas(4) VolumeRgba { // four times 8 bits, red first
    unsigned char r, g, b, a;
};

// The map of a grid to the world: world = m * index + v, m by rows. Both directions are stored, in both precisions;
// `inverse` is the inverse of m only.
struct VolumeMap {
    float m[9], inverse[9], v[3];
    unsigned unused;
    double m64[9], inverse64[9], v64[3];
};

// A sparse volume of values T as a kernel argument. T is float, double, short, int, long long, unsigned, unsigned
// char, vec3 or vec4 of float or double, or one of the types above.
template <class T>
struct Volume {
    // The grid, and its root. At least one tile may be read after the root, even if it has none.
    unsigned char* grid;
    unsigned char* root;
    // The directory of leaves: directory.cuh.
    const unsigned char* directory;
    VolumeMap map;
};

namespace volume {

// The offset of a grid's tree, which has the distances from there to the first node of each level, from leaves on;
// the offset of the numbers of nodes; and the end of both.
constexpr unsigned tree_at = 672, tree_counts = tree_at + 32, tree_end = tree_at + 64;

// The type of stored values in tables (`stored`), the result of a lookup (`value`), the bytes per value in a leaf (0
// if it stores none), and the type of averages.
template <class T>
struct Traits {
    using stored = T;
    using value = T;
    static constexpr unsigned bytes = sizeof(T), align = alignof(T);
    // Averages and deviations are f32, or f64 for values of 8 bytes.
    static constexpr unsigned average_bytes = align == 8 ? 8 : 4;
    static constexpr unsigned leaf_value_bytes = sizeof(T);
    static constexpr bool is_bits = false, is_index = false;
};
template <>
struct Traits<VolumeRgba> {
    using stored = unsigned;
    using value = VolumeRgba;
    static constexpr unsigned bytes = 4, align = 4, average_bytes = 4, leaf_value_bytes = 4;
    static constexpr bool is_bits = false, is_index = false;
};
struct BitTraits {
    using stored = bool;
    using value = bool;
    static constexpr unsigned bytes = 1, align = 1, average_bytes = 1, leaf_value_bytes = 0;
    static constexpr bool is_bits = true, is_index = false;
};
template <>
struct Traits<VolumeMask> : BitTraits {};
template <>
struct Traits<VolumeBool> : BitTraits {};
struct IndexTraits {
    using stored = unsigned long long;
    using value = unsigned long long;
    static constexpr unsigned bytes = 8, align = 8, average_bytes = 8, leaf_value_bytes = 0;
    static constexpr bool is_bits = false, is_index = true;
};
template <>
struct Traits<VolumeIndex> : IndexTraits {};
template <>
struct Traits<VolumeOnIndex> : IndexTraits {};

template <class T, class U>
struct is_same {
    static constexpr bool value = false;
};
template <class T>
struct is_same<T, T> {
    static constexpr bool value = true;
};

__host__ __device__ constexpr unsigned up(unsigned at, unsigned align) {
    return (at + align - 1) / align * align;
}
// The end of the statistics of a node that begin at `at`: two values and two averages.
template <class Of>
__host__ __device__ constexpr unsigned behind_statistics(unsigned at) {
    return up(at + 2 * Of::bytes, Of::average_bytes) + 2 * Of::average_bytes;
}

// The offsets of the parts of nodes, in bytes. The statistics of a node's values (minimum, maximum, average, deviation)
// begin at `statistics` of each level.
template <class T>
struct Format {
    using Of = Traits<T>;
    static constexpr unsigned root_tiles = 24; // their number
    static constexpr unsigned root_background = up(28, Of::align);
    static constexpr unsigned root_statistics = root_background + Of::bytes;
    static constexpr unsigned root_bytes = up(behind_statistics<Of>(root_statistics), 32);

    static constexpr unsigned tile_child = 8, tile_state = 16;
    static constexpr unsigned tile_value = up(20, Of::align);
    static constexpr unsigned tile_bytes = up(tile_value + Of::bytes, 32);

    // An entry of a table: a value or the distance of a child.
    static constexpr unsigned entry_bytes = up(Of::bytes, 8);

    static constexpr unsigned node_values = 32; // the mask of active ones, then that of children
    static constexpr unsigned upper_children = node_values + 4096;
    static constexpr unsigned upper_statistics = upper_children + 4096;
    static constexpr unsigned upper_table = up(behind_statistics<Of>(upper_statistics), 32);
    static constexpr unsigned upper_bytes = upper_table + 32768 * entry_bytes;

    static constexpr unsigned lower_children = node_values + 512;
    static constexpr unsigned lower_statistics = lower_children + 512;
    static constexpr unsigned lower_table = up(behind_statistics<Of>(lower_statistics), 32);
    static constexpr unsigned lower_bytes = lower_table + 4096 * entry_bytes;

    static constexpr unsigned leaf_values_mask = 16;
    static constexpr unsigned leaf_statistics = 80;
    // For index grids: the index of the first value, and prefix sums of the mask's words (9 bits each).
    static constexpr unsigned leaf_offset = 80, leaf_prefix_sums = 88;
    // One-bit values have no statistics.
    static constexpr bool is_bool = is_same<T, VolumeBool>::value;
    static constexpr unsigned leaf_values = Of::is_index ? 96 : is_bool ? 80 : up(behind_statistics<Of>(80), 32);
    static constexpr unsigned leaf_bytes = up(leaf_values + (is_bool ? 64 : 512 * Of::leaf_value_bytes), 32);
};

static_assert(Format<float>::root_bytes == 64 && Format<float>::tile_bytes == 32 &&
                  Format<float>::upper_bytes == 270400 && Format<float>::lower_bytes == 33856 &&
                  Format<float>::leaf_bytes == 2144,
              "f32");
static_assert(Format<double>::root_bytes == 96 && Format<double>::leaf_bytes == 4224, "f64");
static_assert(Format<short>::leaf_bytes == 1120 && Format<unsigned char>::leaf_bytes == 608, "small integers");
static_assert(Format<vec3<float>>::root_bytes == 96 && Format<vec3<float>>::upper_bytes == 532544 &&
                  Format<vec3<float>>::lower_bytes == 66624 && Format<vec3<float>>::leaf_bytes == 6272,
              "vectors of three f32");
static_assert(Format<vec3<double>>::tile_bytes == 64 && Format<vec3<double>>::leaf_bytes == 12448,
              "vectors of three f64");
static_assert(Format<vec4<float>>::tile_bytes == 64 && Format<vec4<float>>::leaf_bytes == 8320,
              "vectors of four f32");
static_assert(Format<vec4<double>>::upper_bytes == 1056896 && Format<vec4<double>>::leaf_bytes == 16544,
              "vectors of four f64");
static_assert(Format<VolumeMask>::leaf_bytes == 96 && Format<VolumeBool>::leaf_bytes == 160, "bits");
static_assert(Format<VolumeOnIndex>::root_bytes == 96 && Format<VolumeOnIndex>::leaf_bytes == 96, "indices");

} // namespace volume
} // namespace geom
