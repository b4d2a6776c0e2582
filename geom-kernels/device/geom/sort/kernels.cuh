// Kernels of radix sort passes and of prefix sums. src/algorithms/radix.rs launches them.
#pragma once

#include <geom/sort/radix_sort.cuh>
#include <geom/sort/scan.cuh>

// The block size, and the blocks per multiprocessor. The block size and the items per thread are the same in Rust:
// sort/radix.rs. Measured: bench/NOTES.md.
#define GEOM_SORT_THREADS_32 384
#define GEOM_SORT_ITEMS_32 12
#define GEOM_SORT_BLOCKS_32 2
#define GEOM_SORT_THREADS_64 256
#define GEOM_SORT_ITEMS_64 12
#define GEOM_SORT_BLOCKS_64 3

#define GEOM_SORT_PASS(name, Key, BITS, PAIRS)                                                      \
    extern "C" __global__ void                                                                      \
        __launch_bounds__(GEOM_SORT_THREADS_##BITS, GEOM_SORT_BLOCKS_##BITS)                        \
        name(Key* keys_from, Key* keys_to, unsigned* values_from, unsigned* values_to,              \
             geom::sort::Pass pass, unsigned* state) {                                              \
        typedef geom::sort::RadixTile<Key, GEOM_SORT_THREADS_##BITS, GEOM_SORT_ITEMS_##BITS, PAIRS> \
            Tile;                                                                                   \
        __shared__ Tile::Shared shared;                                                             \
        Tile::run(shared, keys_from, keys_to, values_from, values_to, pass, state);                 \
    }

#define GEOM_SCAN(name, In, Sum, ITEMS)                                                             \
    extern "C" __global__ void __launch_bounds__(256)                                               \
        name(const In* in, Sum* out, unsigned n, unsigned inclusive, unsigned total,                \
             unsigned long long* state) {                                                           \
        typedef geom::sort::ScanTile<In, Sum, 256, ITEMS> Tile;                                     \
        __shared__ Tile::Shared shared;                                                             \
        Tile::run(shared, in, out, n, inclusive != 0, total != 0, state);                           \
    }
