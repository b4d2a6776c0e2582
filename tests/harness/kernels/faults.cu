// Kernels that fail on purpose.

extern "C" __global__ void trap() {
    __trap();
}

extern "C" __global__ void write_at(unsigned long long address, unsigned value) {
    *(volatile unsigned*)address = value;
}

extern "C" __global__ void check(unsigned value) {
    assert(value == 1);
}

extern "C" __global__ void harmless(unsigned* out) {
    out[threadIdx.x] = threadIdx.x;
}
