// Prints the names and the texts of all codes.
#include <cuda_runtime_api.h>
#include <stdio.h>

int main(void) {
    for (int code = 0; code < 1100; code++)
        printf("%d %s: %s\n", code, cudaGetErrorName(code), cudaGetErrorString(code));
    return 0;
}
