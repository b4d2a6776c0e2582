// A kernel writes an array through a surface, another reads it through a texture and a surface.
#include "common.h"
#include <vector>

__global__ void write(cudaSurfaceObject_t surface, int width, int height, int mistake) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    // Outside of the surface nothing is written.
    surf2Dwrite((float)(y * 100 + x + mistake), surface, x * (int)sizeof(float), y, cudaBoundaryModeZero);
}

__global__ void read(float *out, cudaSurfaceObject_t surface, cudaTextureObject_t texture, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= width || y >= height) return;
    float value;
    surf2Dread(&value, surface, (x + 1) * (int)sizeof(float), y, cudaBoundaryModeClamp);
    out[y * width + x] = tex2D<float>(texture, x, y) * 10000 + value;
}

int main() {
    const int width = 33, height = 5, count = width * height;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    CHECK(cudaMallocArray(&array, &format, width, height, cudaArraySurfaceLoadStore));
    cudaExtent extent;
    unsigned int flags;
    CHECK(cudaArrayGetInfo(&format, &extent, &flags, array));
    EXPECT(extent.width == width && extent.height == height && extent.depth == 0);
    EXPECT(flags == cudaArraySurfaceLoadStore);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaSurfaceObject_t surface = 0;
    CHECK(cudaCreateSurfaceObject(&surface, &resource));
    write<<<dim3(2, height + 2), 32>>>(surface, width, height, mistake());
    CHECK(cudaGetLastError());
    std::vector<float> got(count);
    CHECK(cudaMemcpy2DFromArray(got.data(), width * 4, array, 0, 0, width * 4, height, cudaMemcpyDeviceToHost));
    for (int i = 0; i < count; i++) EXPECT(got[i] == (float)(i / width * 100 + i % width));
    cudaTextureDesc how = {};
    cudaTextureObject_t texture = 0;
    CHECK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
    float *out;
    CHECK(cudaMalloc(&out, count * sizeof(float)));
    read<<<dim3(2, height), 32>>>(out, surface, texture, width, height);
    CHECK(cudaMemcpy(got.data(), out, count * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < count; i++) {
        int x = i % width, y = i / width, next = x + 1 < width ? x + 1 : x;
        EXPECT(got[i] == (float)(y * 100 + x) * 10000 + (float)(y * 100 + next));
    }
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaDestroySurfaceObject(surface));
    RETURNS(cudaErrorInvalidValue, cudaCreateSurfaceObject(&surface, nullptr));
    CHECK(cudaFreeArray(array));
    CHECK(cudaFree(out));
    std::puts("all right");
}
