/* Stands in for libcublas and libcurand, whose functions the software device can't run: candle makes a handle of both
   for each device. Functions of a library that a program links and are not here are an error of the linker. */
int cublasCreate_v2(void **handle) { return *handle = (void *)1, 0; }
int cublasDestroy_v2(void *handle) { return (void)handle, 0; }
int cublasSetStream_v2(void *handle, void *stream) { return (void)handle, (void)stream, 0; }
int curandCreateGenerator(void **generator, int kind) { return (void)kind, *generator = (void *)1, 0; }
int curandDestroyGenerator(void *generator) { return (void)generator, 0; }
int curandSetPseudoRandomGeneratorSeed(void *generator, unsigned long long seed) {
    return (void)generator, (void)seed, 0;
}
int curandSetStream(void *generator, void *stream) { return (void)generator, (void)stream, 0; }
