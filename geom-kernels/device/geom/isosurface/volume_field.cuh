// A sparse volume as a sparse field of blocks: one for each leaf, for each leaf position adjacent to one, and for
// those at borders of tiles with different values. So every cell whose corners may be on different sides of a surface
// has all of its corners in blocks, and surfaces are closed.
//
// Values are copied; those of f64 are rounded. All other arithmetic is on integers.
#pragma once

#include <geom/math/exact.cuh>
#include <geom/sort/words.cuh>
#include <geom/volume/build_keys.cuh>
#include <geom/volume/iterate.cuh>

namespace geom {
namespace isosurface {

// The reasons why surfaces may be open: `VolumeField::is_complete` in Rust.
enum : unsigned long long { field_root_tiles_meet = 1, field_places_beyond = 2 };

// The findings about a volume's tiles.
struct Findings {
    unsigned long long places;    // positions of blocks, including those without room
    unsigned long long status;    // the reasons why surfaces may be open
    unsigned long long uppers;    // entries of the root that have nodes
    unsigned long long has_tiles; // 1 if other entries differ from the background
};

// The leaf position number `i` of 27 around p; that at (dx, dy, dz) is 9 (dx + 1) + 3 (dy + 1) + dz + 1, and 13 is p.
__device__ __forceinline__ vec3<int> place_beside(vec3<int> p, unsigned i, unsigned size) {
    // The arithmetic is unsigned, and may wrap around.
    return vec3<int>(p.x + (i / 9 - 1) * size, p.y + (i / 3 % 3 - 1) * size, p.z + (i % 3 - 1) * size);
}

// Writes a position to a list, or reports it if no block can be there: its values are missing in the field.
__device__ __forceinline__ void list_place(vec3<int> p, vec3<int>* to, Findings* findings) {
    *to = p;
    if (!volume::is_voxel(p)) atomicOr(&findings->status, field_places_beyond);
}

// Lists the positions of leaves and those adjacent to them. A thread for each of the 27 of each leaf, less than 2^32.
__device__ __forceinline__ void list_beside_leaves(const vec3<int>* leaves, unsigned n, vec3<int>* list,
                                                   Findings* findings) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 27 * n) list_place(place_beside(leaves[i / 27], i % 27, 8), list + i, findings);
}

// A region of the size of a node: whether it has a node, and its value if not. T has the value's bits.
template <class T>
struct Region {
    bool divided;
    T value;
};

template <class T>
struct Regions {
    using F = volume::Format<T>;
    const Volume<T>& volume;

    __device__ __forceinline__ unsigned tiles() const {
        return volume::load_tree<unsigned>(volume.root + F::root_tiles);
    }
    __device__ __forceinline__ const unsigned char* tile(unsigned i) const {
        return volume.root + F::root_bytes + i * static_cast<unsigned long long>(F::tile_bytes);
    }
    __device__ __forceinline__ T background() const {
        return volume::load<T>(volume.root + F::root_background);
    }
    static __device__ __forceinline__ unsigned long long key_of(const unsigned char* tile) {
        return volume::load_tree<unsigned long long>(tile);
    }
    static __device__ __forceinline__ long long child_of(const unsigned char* tile) {
        return volume::load_tree<long long>(tile + F::tile_child);
    }
    // The first voxel of a tile of the root.
    static __device__ __forceinline__ vec3<int> origin_of(unsigned long long key) {
        return vec3<int>(static_cast<unsigned>(key >> 42) << 12, static_cast<unsigned>(key >> 21) << 12,
                         static_cast<unsigned>(key) << 12);
    }

    template <unsigned size>
    __device__ __forceinline__ Region<T> at(vec3<int> p) const {
        if (size == 8) {
            const volume::Found<T> found = volume::find(volume, p.x, p.y, p.z);
            return {found.leaf != nullptr, volume::load<T>(found.value)};
        }
        if (size == 128) {
            const volume::Lower found = volume::find_lower(volume, p.x, p.y, p.z);
            return {found.node != nullptr, volume::load<T>(found.value)};
        }
        const volume::RootEntry entry = volume::root_entry(volume, p.x, p.y, p.z);
        if (entry.at == nullptr) return {false, background()};
        return {entry.child != 0, volume::load<T>(entry.at + F::tile_value)};
    }

    // Whether region `i` adjacent to p has no node and another value; or has a node, if `divided_counts`.
    template <unsigned size>
    __device__ __forceinline__ bool differs(vec3<int> p, unsigned i, T value, bool divided_counts) const {
        const Region<T> beside = at<size>(place_beside(p, i, size));
        return beside.divided ? divided_counts : beside.value != value;
    }
    // Whether one of the adjacent regions does.
    template <unsigned size>
    __device__ __forceinline__ bool has_border(vec3<int> p, T value, bool divided_counts) const {
#pragma unroll 1
        for (unsigned i = 0; i < 27; ++i)
            if (differs<size>(p, i, value, divided_counts)) return true;
        return false;
    }
};

// Scans the root: lists the entries that have nodes, in any order, and looks for tiles adjacent to one of another
// value, or to the background outside of all entries. The positions along such a border are too many to test: one
// border is enough to know that surfaces may be open. Any number of threads.
template <class T>
__device__ __forceinline__ void list_root(const Volume<T>& volume, unsigned* uppers, unsigned room,
                                          Findings* findings) {
    using F = volume::Format<T>;
    const Regions<T> regions = {volume};
    const unsigned tiles = regions.tiles();
    const T background = regions.background();
    const unsigned threads = gridDim.x * blockDim.x;
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < tiles; i += threads) {
        const unsigned char* tile = regions.tile(i);
        if (regions.child_of(tile) != 0) {
            const unsigned long long to = atomicAdd(&findings->uppers, 1ull);
            if (to < room) uppers[to] = i;
            continue;
        }
        // One of two tiles that differ is not the background, so only such tiles are tested.
        const T value = volume::load<T>(tile + F::tile_value);
        if (value == background) continue;
        findings->has_tiles = 1;
        const vec3<int> p = regions.origin_of(regions.key_of(tile));
#pragma unroll 1
        for (unsigned k = 0; k < 27 && sort::load_word(&findings->status) == 0; ++k)
            if (regions.template differs<4096>(p, k, value, false))
                atomicOr(&findings->status, field_root_tiles_meet);
    }
}

// Lists the leaf positions at the border of a tile with one of another value, with all positions adjacent to them:
// both tiles of lower nodes, of upper nodes, or one of them of the root. A position may be listed more than once. The
// order is unspecified; positions without room are only counted. `uppers` has at most `n` entries of `list_root`. By
// whole warps, any number.
template <class T>
__device__ __forceinline__ void list_tile_borders(const Volume<T>& volume, const unsigned* uppers, unsigned n,
                                                  vec3<int>* list, unsigned long long room,
                                                  Findings* findings) {
    using F = volume::Format<T>;
    constexpr unsigned all_lanes = ~0u;
    const Regions<T> regions = {volume};
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    const unsigned tiles = regions.tiles();
    const T background = regions.background();
    if (findings->uppers < n) n = findings->uppers;
    // Only tiles other than the background need a test, as in the root. But the root's tiles have not tested their
    // smaller neighbours, so if `has_tiles` is set, background tiles are tested, too.
    const bool all_look = findings->has_tiles != 0;

    // A warp takes 32 entries of an upper node, then one after the other those that need a closer look.
    const unsigned warps = gridDim.x * blockDim.x / 32;
    for (unsigned long long i = thread / 32; i < n * 1024ull; i += warps) {
        const unsigned in_root = uppers[i / 1024];
        const unsigned char* tile = regions.tile(in_root);
        // The root may have changed since the scan.
        if (in_root >= tiles || regions.child_of(tile) == 0) continue;
        const vec3<int> origin = regions.origin_of(regions.key_of(tile));
        const auto entry_at = [&](unsigned place) {
            return vec3<int>(origin.x + (place >> 10 << 7), origin.y + ((place >> 5 & 31) << 7),
                             origin.z + ((place & 31) << 7));
        };
        const unsigned first = i % 1024 * 32;
        const vec3<int> own = entry_at(first + lane);
        const unsigned char* value;
        const bool has_node = volume::child<F::upper_children, F::upper_table, F::entry_bytes>(
                                  volume.root + regions.child_of(tile), first + lane, &value) != nullptr;
        bool look = has_node;
        if (!has_node) {
            const T bits = volume::load<T>(value);
            look = (all_look || bits != background) && regions.template has_border<128>(own, bits, true);
        }
        for (unsigned looks = __ballot_sync(all_lanes, look); looks != 0; looks &= looks - 1) {
            const vec3<int> at = entry_at(first + __ffs(looks) - 1);
            for (unsigned place = lane; place < 4096; place += 32) {
                const vec3<int> p(at.x + (place >> 8 << 3), at.y + ((place >> 4 & 15) << 3),
                                  at.z + ((place & 15) << 3));
                const Region<T> region = regions.template at<8>(p);
                if (region.divided || (!all_look && region.value == background)) continue;
                if (!regions.template has_border<8>(p, region.value, false)) continue;
                const unsigned long long to = atomicAdd(&findings->places, 27ull);
                for (unsigned k = 0; k < 27 && to + 27 <= room; ++k)
                    list_place(place_beside(p, k, 8), list + to + k, findings);
            }
        }
    }
}

// Writes the origin of each block and its adjacent blocks (`BlockField::neighbors`): those of the leaves of a volume,
// in their order. A thread for each of the 27 of each of the `n` leaves.
__device__ __forceinline__ void link_blocks(const Volume<VolumeMask>& blocks, unsigned n, vec3<int>* origins,
                                            unsigned* neighbors) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= 27 * n) return;
    const vec3<int> origin = volume::leaf_origin(volume::leaf(blocks, i / 27));
    const vec3<int> p = place_beside(origin, i % 27, 8);
    const unsigned char* found = volume::find(blocks, p.x, p.y, p.z).leaf;
    const long long distance = found - volume::leaf(blocks, 0);
    neighbors[i] = found != nullptr ? distance / volume::Format<VolumeMask>::leaf_bytes : ~0u;
    if (i % 27 == 13) origins[i / 27] = origin;
}

__device__ __forceinline__ float field_value(float value) { return value; }
__device__ __forceinline__ float field_value(double value) { return exact::narrow(value); }

// Writes the values of all blocks, whether the volume has leaves there, tiles or nothing. Any number of blocks of
// threads.
template <class T>
__device__ __forceinline__ void fill_blocks(const Volume<T>& volume, const vec3<int>* origins, unsigned n,
                                            float* values) {
    for (unsigned block = blockIdx.x; block < n; block += gridDim.x) {
        const vec3<int> origin = origins[block];
        const volume::Found<T> found = volume::find(volume, origin.x, origin.y, origin.z);
        for (unsigned place = threadIdx.x; place < 512; place += blockDim.x)
            values[512ull * block + place] = field_value(found.at(place));
    }
}

} // namespace isosurface
} // namespace geom
