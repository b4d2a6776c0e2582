// The device is used again after a reset, by all threads; and in a static destructor, at the end of the program.
#include "common.h"
#include <thread>

__device__ int value = 4;
__managed__ int managed = 6;
__global__ void copy(int *to, int mistake) { *to = value++ + mistake; }

static int once() {
    int *memory, got = -1;
    CHECK(cudaMalloc(&memory, sizeof(int)));
    copy<<<1, 1>>>(memory, mistake());
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&got, memory, sizeof got, cudaMemcpyDeviceToHost));
    return got;
}

struct AtTheEnd {
    ~AtTheEnd() { EXPECT(once() >= 4); }
} at_the_end;

int main() {
    EXPECT(once() == 4);
    EXPECT(once() == 5);
    std::thread([] { EXPECT(once() == 6); }).join();
    EXPECT(managed == 6);
    managed = 7;
    CHECK(cudaDeviceReset());
    // Variables have their first values again.
    EXPECT(once() == 4);
    // But for managed ones on a GPU, which keep the last.
    EXPECT(managed == 6 || managed == 7);
    std::thread([] { EXPECT(once() == 5); }).join();
    CHECK(cudaDeviceReset());
    CHECK(cudaDeviceReset());
    CHECK(cudaSetDevice(0));
    EXPECT(once() == 4);
    // A reset by one thread, while another has used the device.
    EXPECT(once() == 5);
    std::thread([] { CHECK(cudaDeviceReset()); }).join();
    EXPECT(once() == 4);
    std::puts("all right");
}
