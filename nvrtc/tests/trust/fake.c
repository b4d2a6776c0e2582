/* An NVRTC that accepts every source and writes one fixed PTX text. The tests look for it in /proc/self/maps. */
#include <stdlib.h>
#include <string.h>

static const char ptx[] = ".version 8.0\n.visible .entry k(.param .u64 k_0)\n{ ret; }\n";

int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 0; return 0; }
int nvrtcGetNumSupportedArchs(int *count) { *count = 1; return 0; }
int nvrtcGetSupportedArchs(int *archs) { archs[0] = 75; return 0; }
int nvrtcCreateProgram(void **program, const char *source, const char *name, int count, const char *const *headers,
                       const char *const *names) {
    (void)source; (void)name; (void)count; (void)headers; (void)names;
    *program = malloc(1);
    return *program ? 0 : 1;
}
int nvrtcDestroyProgram(void **program) { free(*program); *program = 0; return 0; }
int nvrtcCompileProgram(void *program, int count, const char *const *options) {
    (void)program; (void)count; (void)options;
    return 0;
}
int nvrtcGetProgramLogSize(void *program, size_t *size) { (void)program; *size = 1; return 0; }
int nvrtcGetProgramLog(void *program, char *log) { (void)program; *log = 0; return 0; }
int nvrtcGetPTXSize(void *program, size_t *size) { (void)program; *size = sizeof ptx; return 0; }
int nvrtcGetPTX(void *program, char *text) { (void)program; memcpy(text, ptx, sizeof ptx); return 0; }
