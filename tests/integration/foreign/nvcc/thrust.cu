// Thrust: sort, reduce, scan, transform on vectors of the device.
#include "common.h"
#include <algorithm>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>

int main() {
    for (int n : {0, 1, 31, 33, 2000}) {
        thrust::host_vector<int> values(n);
        unsigned state = 7;
        long long sum = 0;
        for (int i = 0; i < n; i++) values[i] = (int)((state = state * 1664525u + 1013904223u) >> 20), sum += values[i];
        thrust::device_vector<int> on_device = values, scanned(n);
        EXPECT(thrust::reduce(on_device.begin(), on_device.end(), (long long)mistake()) == sum);
        thrust::inclusive_scan(on_device.begin(), on_device.end(), scanned.begin());
        thrust::host_vector<int> prefix = scanned;
        int running = 0;
        for (int i = 0; i < n; i++) EXPECT(prefix[i] == (running += values[i]));
        thrust::sort(on_device.begin(), on_device.end());
        thrust::host_vector<int> sorted = on_device;
        std::sort(values.begin(), values.end());
        for (int i = 0; i < n; i++) EXPECT(sorted[i] == values[i]);
    }
    std::puts("all right");
}
