// Transforms of 1024 values modulo a prime, a block of 256 threads each.

constexpr unsigned MODULUS = 998244353;

__device__ unsigned sum(unsigned a, unsigned b) {
    unsigned x = a + b;
    return min(x, x - MODULUS);
}

__device__ unsigned difference(unsigned a, unsigned b) {
    unsigned x = a - b;
    return min(x, x + MODULUS);
}

__device__ unsigned product(unsigned a, uint2 root) {
    unsigned x = a * root.x - __umulhi(a, root.y) * MODULUS;
    return min(x, x - MODULUS);
}

__global__ void __launch_bounds__(256)
    forward(const uint2 *__restrict__ roots, const unsigned *__restrict__ x, unsigned *__restrict__ out) {
    __shared__ __align__(16) unsigned tile[1024];
    const unsigned t = threadIdx.x;
    reinterpret_cast<uint4 *>(tile)[t] = reinterpret_cast<const uint4 *>(x)[blockIdx.x * 256 + t];
    __syncthreads();
#pragma unroll
    for (unsigned distance = 512; distance > 0; distance /= 2) {
#pragma unroll
        for (unsigned pair = t; pair < 512; pair += 256) {
            unsigned k = pair % distance, low = 2 * pair - k, high = low + distance;
            unsigned a = tile[low], b = tile[high];
            tile[low] = sum(a, b);
            tile[high] = product(difference(a, b), roots[distance + k]);
        }
        __syncthreads();
    }
    reinterpret_cast<uint4 *>(out)[blockIdx.x * 256 + t] = reinterpret_cast<const uint4 *>(tile)[t];
}

__global__ void __launch_bounds__(256)
    inverse(const uint2 *__restrict__ roots, const unsigned *__restrict__ x, unsigned *__restrict__ out) {
    __shared__ __align__(16) unsigned tile[1024];
    const unsigned t = threadIdx.x;
    reinterpret_cast<uint4 *>(tile)[t] = reinterpret_cast<const uint4 *>(x)[blockIdx.x * 256 + t];
    __syncthreads();
#pragma unroll
    for (unsigned distance = 1; distance < 1024; distance *= 2) {
#pragma unroll
        for (unsigned pair = t; pair < 512; pair += 256) {
            unsigned k = pair % distance, low = 2 * pair - k, high = low + distance;
            unsigned a = tile[low], b = product(tile[high], roots[distance + k]);
            tile[low] = sum(a, b);
            tile[high] = difference(a, b);
        }
        __syncthreads();
    }
    uint4 four = reinterpret_cast<const uint4 *>(tile)[t];
    uint2 scale = roots[0];
    reinterpret_cast<uint4 *>(out)[blockIdx.x * 256 + t] = make_uint4(
        product(four.x, scale), product(four.y, scale), product(four.z, scale), product(four.w, scale));
}
