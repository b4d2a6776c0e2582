// Copies and fills of rectangles and boxes between pitched memory and the host.
#include "common.h"
#include <cstring>
#include <vector>

__global__ void fill(char *memory, size_t pitch, int width, int height, int mistake) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < width && y < height) ((int *)(memory + y * pitch))[x] = 1000 * y + x + mistake;
}

int main() {
    const int width = 33, height = 7, depth = 4;
    char *memory;
    size_t pitch;
    CHECK(cudaMallocPitch(&memory, &pitch, width * sizeof(int), height));
    EXPECT(pitch >= width * sizeof(int) && pitch % 32 == 0);
    fill<<<dim3(2, height), 32>>>(memory, pitch, width, height, mistake());
    std::vector<int> got(width * height);
    CHECK(cudaMemcpy2D(got.data(), width * sizeof(int), memory, pitch, width * sizeof(int), height,
                       cudaMemcpyDeviceToHost));
    for (int i = 0; i < width * height; i++) EXPECT(got[i] == 1000 * (i / width) + i % width);
    CHECK(cudaMemset2D(memory, pitch, 0, 5 * sizeof(int), 3));
    CHECK(cudaMemcpy2DAsync(got.data(), width * sizeof(int), memory, pitch, width * sizeof(int), height,
                            cudaMemcpyDefault, 0));
    CHECK(cudaStreamSynchronize(0));
    EXPECT(got[4] == 0 && got[5] == 5 && got[2 * width + 4] == 0 && got[3 * width] == 3000);
    RETURNS(cudaErrorInvalidPitchValue,
            cudaMemcpy2D(got.data(), 4, memory, pitch, 8, 2, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy2D(got.data(), 4, memory, pitch, 4, 0, cudaMemcpyDeviceToHost));
    // A box.
    cudaExtent extent = make_cudaExtent(width, height, depth);
    cudaPitchedPtr box;
    CHECK(cudaMalloc3D(&box, extent));
    EXPECT(box.xsize == width && box.ysize == height && box.pitch >= width);
    CHECK(cudaMemset3D(box, 0x11, extent));
    std::vector<unsigned char> bytes(width * height * depth), back(width * height * depth, 1);
    for (size_t i = 0; i < bytes.size(); i++) bytes[i] = (unsigned char)(i * 7);
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(bytes.data(), width, width, height);
    copy.dstPtr = box;
    copy.dstPos = make_cudaPos(2, 1, 1);
    copy.extent = make_cudaExtent(width - 2, height - 1, depth - 1);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    cudaMemcpy3DParms out = {};
    out.srcPtr = box;
    out.dstPtr = make_cudaPitchedPtr(back.data(), width, width, height);
    out.extent = extent;
    out.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3DAsync(&out, 0));
    CHECK(cudaDeviceSynchronize());
    for (int z = 0; z < depth; z++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++) {
                bool copied = x >= 2 && y >= 1 && z >= 1;
                int from = ((z - 1) * height + y - 1) * width + x - 2;
                EXPECT(back[(z * height + y) * width + x] == (copied ? bytes[from] : 0x11));
            }
    copy.dstPtr.ptr = nullptr;
    RETURNS(cudaErrorInvalidValue, cudaMemcpy3D(&copy));
    RETURNS(cudaErrorInvalidValue, cudaMemcpy3D(nullptr));
    CHECK(cudaFree(memory));
    CHECK(cudaFree(box.ptr));
    std::puts("all right");
}
