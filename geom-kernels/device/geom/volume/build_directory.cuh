// Writes the directory of a volume's leaves: see directory.cuh.
#pragma once

#include <geom/volume/dense.cuh>
#include <geom/volume/directory.cuh>

namespace geom {
namespace volume {

// The box around the tree's active voxels, in leaves; empty if it has more than `room` of them. A leaf outside, which
// has no active voxel, is found by a descent.
__device__ __forceinline__ Directory directory_box(const unsigned char* root, unsigned room) {
    const int* box = reinterpret_cast<const int*>(root);
    Directory directory = {};
    unsigned long long n = 1;
    for (int axis = 0; axis < 3; ++axis) {
        const int low = box[axis] >> 3, high = box[3 + axis] >> 3;
        directory.first[axis] = low;
        directory.size[axis] = box[axis] <= box[3 + axis] ? high - low + 1 : 0;
        // The product of 30 bits and 32 bits does not overflow.
        n *= directory.size[axis];
        if (n > room) n = 0;
    }
    if (n == 0)
        for (int axis = 0; axis < 3; ++axis) directory.size[axis] = 0;
    return directory;
}

// Writes the directory, by any number of blocks. The grid, from which the box is read, does not change.
__device__ __forceinline__ void write_directory(const NodeLayout& layout, const unsigned char* grid,
                                                const unsigned char* root, unsigned room,
                                                unsigned char* directory) {
    Directory box = directory_box(root, room);
    const bool in_order = root_in_order(layout, root);
    box.in_order = in_order;
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    // An empty box has one entry, which look-ups outside of the box read and ignore.
    unsigned* entries = reinterpret_cast<unsigned*>(directory + sizeof(Directory));
    if (i == 0) {
        *reinterpret_cast<Directory*>(directory) = box;
        entries[0] = 0;
    }
    const unsigned n = box.size[0] * box.size[1] * box.size[2];
    for (; i < n; i += gridDim.x * blockDim.x) {
        const unsigned k = i % box.size[2], ij = i / box.size[2], j = ij % box.size[1];
        const int x = 8 * (box.first[0] + static_cast<int>(ij / box.size[1])),
                  y = 8 * (box.first[1] + static_cast<int>(j)), z = 8 * (box.first[2] + static_cast<int>(k));
        const unsigned char* leaf = find_bytes(layout, root, in_order, x, y, z).leaf;
        const unsigned long long distance = leaf != nullptr ? leaf - grid : 0;
        // A leaf that is too far away or not aligned is not listed, and found by a descent.
        const bool listed = distance % 32 == 0 && distance < directory_reach;
        entries[i] = listed ? static_cast<unsigned>(distance / 32) : 0;
    }
}

} // namespace volume
} // namespace geom
