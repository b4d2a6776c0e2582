/* A program of the libraries, with its own declarations: multiplies matrices with cuBLAS, transforms with cuFFT and makes random
   numbers with cuRAND. It is linked against the libraries by their names, and prints what is wrong. */
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long long address;
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuCtxSynchronize(void);
int cuMemAlloc_v2(address *, size_t), cuMemcpyHtoD_v2(address, const void *, size_t), cuMemcpyDtoH_v2(void *, address, size_t);
int cublasCreate_v2(void **), cublasDestroy_v2(void *), cublasGetVersion_v2(void *, int *);
int cublasSgemm_v2(void *, int, int, int, int, int, const float *, const float *, int, const float *, int, const float *,
                   float *, int);
int cublasSdot_v2(void *, int, const float *, int, const float *, int, float *);
int cufftPlan1d(int *, int, int, int), cufftExecR2C(int, void *, void *), cufftDestroy(int);
int curandCreateGenerator(void **, int), curandSetPseudoRandomGeneratorSeed(void *, address), curandDestroyGenerator(void *);
int curandGenerate(void *, unsigned *, size_t);

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        int code = (call);                                                                                             \
        if (code != 0)                                                                                                 \
            return printf("%s returned %d\n", #call, code), 1;                                                         \
    } while (0)
#define EQUAL(got, wanted)                                                                                             \
    do {                                                                                                               \
        if ((got) != (wanted))                                                                                         \
            return printf("%s is %g, and not %g\n", #got, (double)(got), (double)(wanted)), 1;                         \
    } while (0)

int main(void) {
    void *context, *blas, *generator;
    address memory;
    int plan, version;
    float a[6] = {1, 2, 3, 4, 5, 6}, c[4], one = 1, zero = 0, dot, spectrum[10];
    unsigned words[4];
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&memory, 4096));
    OK(cuMemcpyHtoD_v2(memory, a, sizeof a));
    float *there = (float *)memory;
    OK(cublasCreate_v2(&blas));
    OK(cublasGetVersion_v2(blas, &version));
    /* A transposed, 2 x 3, times A, 3 x 2. */
    OK(cublasSgemm_v2(blas, 1, 0, 2, 2, 3, &one, there, 3, there, 3, &zero, there + 64, 2));
    OK(cuMemcpyDtoH_v2(c, memory + 256, sizeof c));
    EQUAL(c[0], 14);
    EQUAL(c[1], 32);
    EQUAL(c[2], 32);
    EQUAL(c[3], 77);
    OK(cublasSdot_v2(blas, 6, there, 1, there, 1, &dot));
    EQUAL(dot, 91);
    EQUAL(cublasSgemm_v2(blas, 0, 0, 2, 2, 2, &one, there, 1, there, 2, &zero, there, 2), 7);
    OK(cublasDestroy_v2(blas));
    OK(cufftPlan1d(&plan, 6, 42, 1));
    OK(cufftExecR2C(plan, there, there + 128));
    OK(cuMemcpyDtoH_v2(spectrum, memory + 512, 8 * 4));
    EQUAL(spectrum[0], 21);
    EQUAL(spectrum[6], -3);
    OK(cufftDestroy(plan));
    OK(curandCreateGenerator(&generator, 161));
    OK(curandSetPseudoRandomGeneratorSeed(generator, 0));
    OK(curandGenerate(generator, (unsigned *)(there + 256), 4));
    OK(cuMemcpyDtoH_v2(words, memory + 1024, sizeof words));
    EQUAL(words[0], 0x6627e8d5u);
    EQUAL(words[3], 0x9b00dbd8u);
    OK(curandDestroyGenerator(generator));
    EQUAL(curandCreateGenerator(&generator, 141), 103);
    puts("all is right");
    return 0;
}
