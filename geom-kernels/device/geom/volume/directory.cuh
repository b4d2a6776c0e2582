// A directory of leaves: for every leaf position in the box around a volume's tree, the leaf's offset. It takes one
// load instead of a descent of three levels, and needs no second descent where a stencil crosses from one node into
// the next. A leaf that it does not list is found by a descent, so results never depend on it.
//
// It follows the grid in the same memory, and is rewritten after each build. A volume whose box is too large for the
// capacity has an empty one.
#pragma once

#include <geom/layout.cuh>
#include <geom/volume/types.cuh>

namespace geom {
namespace volume {

// The box of leaves of the entries, in units of leaves: none if a size is 0. The entries follow, at least one, z the
// fastest: the distance of a leaf from the grid's beginning in units of 32 bytes, or 0.
struct Directory {
    int first[3];
    unsigned size[3];
    // Whether the root has many entries in order: `root_in_order`.
    unsigned in_order;
    unsigned unused;
};
// HEAD in src/volume/directory.rs. The code below reads the structure word by word.
GEOM_LAYOUT(Directory, 32, 4);
GEOM_FIELD(Directory, size, 12);
GEOM_FIELD(Directory, in_order, 24);

// The index of a leaf's entry: the neighbour's along z is the next, those along y and x are `nz` and `ny * nz`
// entries away.
struct DirectoryPlace {
    const unsigned* entries;
    unsigned i, j, k, nx, ny, nz;

    template <class T>
    __device__ __forceinline__ DirectoryPlace(const Volume<T>& volume, int x, int y, int z) {
        const int4 a = __ldg(reinterpret_cast<const int4*>(volume.directory));
        const int2 b = __ldg(reinterpret_cast<const int2*>(volume.directory + 16));
        nx = a.w, ny = b.x, nz = b.y;
        i = static_cast<unsigned>(x >> 3) - a.x, j = static_cast<unsigned>(y >> 3) - a.y;
        k = static_cast<unsigned>(z >> 3) - a.z;
        entries = reinterpret_cast<const unsigned*>(volume.directory + sizeof(Directory));
    }
    // Whether the box contains it, and its neighbours along the axes with a 1.
    __device__ __forceinline__ bool has(unsigned dx = 0, unsigned dy = 0, unsigned dz = 0) const {
        return (i < nx) & (j < ny) & (k < nz) & (i + dx < nx) & (j + dy < ny) & (k + dz < nz);
    }
    // Its number, if the box contains it. There are less than 2^32.
    __device__ __forceinline__ unsigned number() const { return (i * ny + j) * nz + k; }
};

// Leaves that end beyond 16 GB are not listed, so that offsets in listed ones, in units of 4 bytes, are 32-bit
// numbers. No leaf has more than 2^20 bytes.
constexpr unsigned long long directory_reach = (1ull << 34) - (1 << 20);

} // namespace volume
} // namespace geom
