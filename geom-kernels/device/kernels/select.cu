// Stream compaction by flags. src/algorithms/select.rs launches the kernels.
#include <geom/sort/compact.cuh>

using namespace geom::sort;
typedef unsigned char u8;
typedef unsigned u32;
typedef unsigned long long u64;

#define SELECT(name, Flag, Element)                                                                 \
    extern "C" __global__ void __launch_bounds__(256)                                               \
        name(const Flag* flags, const Element* elements, Element* out, u32 capacity, u32* count, u32 n,\
             u64* state) {                                                                          \
        typedef CompactTile<Flag, TakeElement<Element>, 256, 16> Tile;                              \
        __shared__ Tile::Shared shared;                                                             \
        Tile::run(shared, flags, TakeElement<Element>{elements}, out, capacity, count, n, state);   \
    }
SELECT(select_u8_of_4, u8, u32)
SELECT(select_u8_of_8, u8, u64)
SELECT(select_u32_of_4, u32, u32)
SELECT(select_u32_of_8, u32, u64)

#define SELECT_PLACES(name, Flag)                                                                   \
    extern "C" __global__ void __launch_bounds__(256)                                               \
        name(const Flag* flags, u32* out, u32 capacity, u32* count, u32 n, u64* state) {            \
        typedef CompactTile<Flag, TakePlace, 256, 16> Tile;                                         \
        __shared__ Tile::Shared shared;                                                             \
        Tile::run(shared, flags, TakePlace(), out, capacity, count, n, state);                      \
    }
SELECT_PLACES(select_u8_places, u8)
SELECT_PLACES(select_u32_places, u32)
