/* A program on the driver API for the tests of the report. Arguments: the PTX, then what to do at the end:
   return, exit (by _exit), abort, fault or fork. The declarations are those of the driver's ABI. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int cuInit(unsigned);
int cuDeviceGetName(char *, int, int);
int cuDeviceGetAttribute(int *, int, int);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuModuleLoadData(void **, const void *);
int cuModuleGetFunction(void **, void *, const char *);
int cuMemAlloc_v2(unsigned long long *, size_t);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cuCtxSynchronize(void);
int cuMemFree_v2(unsigned long long);

static void check(int code, const char *what) {
    if (code != 0) {
        fprintf(stderr, "%s: %d\n", what, code);
        exit(code == 209 || code == 218 || code == 222 ? 9 : 8);
    }
}

static void launch(void *function, unsigned long long address, unsigned threads) {
    void *arguments[] = {&address};
    check(cuLaunchKernel(function, 2, 1, 1, threads, 1, 1, 0, NULL, arguments, NULL), "cuLaunchKernel");
}

int main(int count, char **words) {
    static char text[1 << 16], name[100];
    FILE *file = fopen(words[1], "rb");
    if (!file || !fread(text, 1, sizeof text - 1, file)) return 3;
    const char *end = count > 2 ? words[2] : "return";
    if (!strcmp(end, "fork")) {
        /* The child is another program, which uses the device, too. */
        pid_t child = fork();
        if (child == 0) {
            execl(words[0], words[0], words[1], "return", (char *)NULL);
            _exit(1);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status != 0) return 4;
    }
    void *context, *module, *steady, *other, *fault, *none;
    unsigned long long memory;
    int processors, threads;
    check(cuInit(0), "cuInit");
    check(cuDeviceGetName(name, sizeof name, 0), "cuDeviceGetName");
    check(cuDeviceGetAttribute(&processors, 16, 0), "cuDeviceGetAttribute");
    check(cuDeviceGetAttribute(&threads, 39, 0), "cuDeviceGetAttribute");
    printf("%s: %d multiprocessors of %d threads\n", name, processors, threads);
    fflush(stdout);
    check(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check(cuModuleLoadData(&module, text), "cuModuleLoadData");
    check(cuModuleGetFunction(&steady, module, "steady"), "cuModuleGetFunction");
    check(cuModuleGetFunction(&other, module, "other"), "cuModuleGetFunction");
    check(cuModuleGetFunction(&fault, module, "fault"), "cuModuleGetFunction");
    if (cuModuleGetFunction(&none, module, "absent") != 500) return 5;
    if (cuModuleGetFunction(&none, module, "textured") != 801) return 6;
    if (cuMemFree_v2(12345) != 1 || cuMemFree_v2(12346) != 1) return 7;
    check(cuMemAlloc_v2(&memory, 4096), "cuMemAlloc");
    launch(steady, memory, 32);
    launch(steady, memory, 33);
    launch(other, memory, 64);
    check(cuCtxSynchronize(), "cuCtxSynchronize");
    if (!strcmp(end, "exit")) _exit(21);
    if (!strcmp(end, "abort")) abort();
    if (!strcmp(end, "fault")) {
        launch(fault, memory, 1);
        return cuCtxSynchronize() == 700 ? 22 : 8;
    }
    check(cuMemFree_v2(memory), "cuMemFree");
    return 0;
}
