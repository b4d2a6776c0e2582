// An image is rotated through a texture with a linear filter, layers and linear memory are read, and errors returned.
#include "common.h"
#include <cmath>
#include <vector>

__global__ void rotate(float *out, int width, int height, float angle, cudaTextureObject_t texture, int mistake) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float u = (x + 0.5f) / width - 0.5f, v = (y + 0.5f) / height - 0.5f;
    float c = cosf(angle), s = sinf(angle);
    out[y * width + x] = tex2D<float>(texture, u * c - v * s + 0.5f, v * c + u * s + 0.5f) + mistake;
}

__global__ void layers(float *out, int width, int height, cudaTextureObject_t texture) {
    int x = threadIdx.x, y = blockIdx.x, layer = blockIdx.y;
    out[(layer * height + y) * width + x] = tex2DLayered<float>(texture, x + 0.5f, y + 0.5f, layer);
}

__global__ void fetch(uchar4 *out, int count, cudaTextureObject_t texture) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = tex1Dfetch<uchar4>(texture, i);
}

static float at(const std::vector<float> &image, int width, int height, double u, double v) {
    double x = u * width - 0.5, y = v * height - 0.5, i = std::floor(x), j = std::floor(y);
    auto texel = [&](double column, double row) {
        int a = ((int)column % width + width) % width, b = ((int)row % height + height) % height;
        return (double)image[b * width + a];
    };
    double a = x - i, b = y - j;
    return (float)((texel(i, j) * (1 - a) + texel(i + 1, j) * a) * (1 - b) +
                   (texel(i, j + 1) * (1 - a) + texel(i + 1, j + 1) * a) * b);
}

int main() {
    const int width = 33, height = 31, count = width * height;
    std::vector<float> image(count), got(count);
    for (int i = 0; i < count; i++) image[i] = (float)(i * 37 % 101) / 101;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    CHECK(cudaMallocArray(&array, &format, width, height));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, image.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
    cudaChannelFormatDesc has;
    CHECK(cudaGetChannelDesc(&has, array));
    EXPECT(has.x == 32 && has.y == 0 && has.f == cudaChannelFormatKindFloat);
    // Bytes from the middle of a row on, over rows, to another array, and back.
    cudaArray_t second;
    CHECK(cudaMallocArray(&second, &format, width, height));
    CHECK(cudaMemcpyToArray(second, 0, 0, image.data(), count * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyArrayToArray(second, 8, 3, array, 20, 1, 70 * 4));
    CHECK(cudaMemcpyFromArray(got.data(), second, 8, 3, 70 * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 70; i++) EXPECT(got[i] == image[width + 5 + i]);
    RETURNS(cudaErrorInvalidValue, cudaMemcpyFromArray(got.data(), second, 8, height - 1, width * 4, cudaMemcpyDeviceToHost));
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    CHECK(cudaFreeArray(second));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc how = {};
    how.addressMode[0] = how.addressMode[1] = cudaAddressModeWrap;
    how.filterMode = cudaFilterModeLinear;
    how.normalizedCoords = 1;
    cudaTextureObject_t texture = 0;
    CHECK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
    cudaResourceDesc known;
    CHECK(cudaGetTextureObjectResourceDesc(&known, texture));
    EXPECT(known.resType == cudaResourceTypeArray && known.res.array.array == array);
    cudaTextureDesc described;
    CHECK(cudaGetTextureObjectTextureDesc(&described, texture));
    EXPECT(described.filterMode == cudaFilterModeLinear && described.normalizedCoords == 1);
    EXPECT(described.readMode == cudaReadModeElementType && described.addressMode[1] == cudaAddressModeWrap);
    float *out;
    CHECK(cudaMalloc(&out, count * 4 * sizeof(float)));
    const float angle = 0.5f;
    rotate<<<dim3(5, 4), dim3(8, 8)>>>(out, width, height, angle, texture, mistake());
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got.data(), out, count * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < count; i++) {
        float u = (i % width + 0.5f) / width - 0.5f, v = (i / width + 0.5f) / height - 0.5f;
        float c = std::cos(angle), s = std::sin(angle);
        float wanted = at(image, width, height, u * c - v * s + 0.5f, v * c + u * s + 0.5f);
        // The filter has weights of 8 bits.
        EXPECT(std::fabs(got[i] - wanted) < 0.02f);
    }
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFreeArray(array));

    // Layers, copied as a box.
    const int depth = 3;
    std::vector<float> box(count * depth), back(count * depth);
    for (size_t i = 0; i < box.size(); i++) box[i] = (float)i;
    cudaExtent extent = make_cudaExtent(width, height, depth);
    CHECK(cudaMalloc3DArray(&array, &format, extent, cudaArrayLayered));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(box.data(), width * 4, width, height);
    copy.dstArray = array;
    copy.extent = extent;
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    resource.res.array.array = array;
    how = {};
    CHECK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
    layers<<<dim3(height, depth), width>>>(out, width, height, texture);
    CHECK(cudaMemcpy(back.data(), out, box.size() * 4, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < box.size(); i++) EXPECT(back[i] == box[i]);
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFreeArray(array));

    // Linear memory, 1 texel past its end.
    std::vector<uchar4> bytes(100), read(101);
    for (int i = 0; i < 100; i++) bytes[i] = make_uchar4(i, i + 1, i + 2, 255 - i);
    uchar4 *memory, *results;
    CHECK(cudaMalloc(&memory, 100 * 4));
    CHECK(cudaMalloc(&results, 101 * 4));
    CHECK(cudaMemcpy(memory, bytes.data(), 100 * 4, cudaMemcpyHostToDevice));
    resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = memory;
    resource.res.linear.desc = cudaCreateChannelDesc<uchar4>();
    resource.res.linear.sizeInBytes = 100 * 4;
    CHECK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
    fetch<<<4, 32>>>(results, 101, texture);
    CHECK(cudaMemcpy(read.data(), results, 101 * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 100; i++) EXPECT(read[i].x == bytes[i].x && read[i].y == bytes[i].y && read[i].w == bytes[i].w);
    EXPECT(read[100].x == 0 && read[100].w == 0);
    CHECK(cudaDestroyTextureObject(texture));

    // Descriptions that are wrong.
    resource.res.linear.devPtr = (char *)memory + 4;
    RETURNS(cudaErrorInvalidValue, cudaCreateTextureObject(&texture, &resource, &how, nullptr));
    RETURNS(cudaErrorInvalidValue, cudaMallocArray(&array, &format, 0, 4));
    RETURNS(cudaErrorInvalidValue, cudaMallocArray(&array, &format, 1 << 20, 1 << 20));
    CHECK(cudaFree(memory));
    CHECK(cudaFree(results));
    CHECK(cudaFree(out));
    std::puts("all right");
}
