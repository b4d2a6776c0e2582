/* Calls examples/torch-op from C: links against libtorch_op.so and libcuda.so.1, and needs no header of DLPack. */
#include "driver.h"
#include "torch_op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000 };

static void require(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "line %d: not so: %s (%s)\n", line, what, torch_op_error());
        exit(1);
    }
}

#define REQUIRE(condition) require(condition, #condition, __LINE__)

static CUdeviceptr upload(const void *from, size_t bytes) {
    CUdeviceptr to;
    REQUIRE(cuMemAlloc_v2(&to, bytes) == 0);
    REQUIRE(cuMemcpyHtoD_v2(to, from, bytes) == 0);
    return to;
}

static DLTensor tensor(CUdeviceptr data, uint8_t code, int32_t ndim, int64_t *shape) {
    DLTensor made = {
        .data = (void *)data, .device = {2, 0}, .ndim = ndim, .dtype = {code, 32, 1}, .shape = shape};
    return made;
}

static void axpy(CUstream stream) {
    float x[N], y[N], out[N];
    int64_t shape[1] = {N}, other[1] = {N - 1};
    for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = 0.5f * (float)i, out[i] = -1.0f;
    DLTensor dx = tensor(upload(x, sizeof x), 2, 1, shape), dy = tensor(upload(y, sizeof y), 2, 1, shape);
    DLTensor result = tensor(upload(out, sizeof out), 2, 1, shape), shorter = result;
    REQUIRE(torch_op_axpy(stream, 2.0f, &dx, &dy, &result) == 0);
    REQUIRE(cuStreamSynchronize(stream) == 0);
    REQUIRE(cuMemcpyDtoH_v2(out, (CUdeviceptr)result.data, sizeof out) == 0);
    for (int i = 0; i < N; i++) REQUIRE(out[i] == 2.5f * (float)i);

    shorter.shape = other;
    REQUIRE(torch_op_axpy(stream, 2.0f, &dx, &shorter, &result) == 1);
    REQUIRE(strstr(torch_op_error(), "`y`") && strstr(torch_op_error(), "[999]"));
    REQUIRE(torch_op_axpy(stream, 2.0f, NULL, &dy, &result) == 1);
    REQUIRE(strstr(torch_op_error(), "`x` is null") != NULL);
}

/* A tetrahedron, seen from a point before its slanted face and from one inside. */
static void distances(CUstream stream) {
    float points[2][3] = {{1, 1, 1}, {0.1f, 0.1f, 0.05f}}, vertices[4][3] = {{0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    int32_t faces[4][3] = {{0, 2, 1}, {0, 1, 3}, {0, 3, 2}, {1, 2, 3}};
    float found[2] = {0}, g[2] = {1, 1}, by_points[2][3] = {{0}};
    const float third = 0.57735027f, wanted[2] = {2 * 0.57735027f, -0.05f};
    int64_t two_points[2] = {2, 3}, four[2] = {4, 3}, two[1] = {2}, none[2] = {0, 3};
    DLTensor p = tensor(upload(points, sizeof points), 2, 2, two_points);
    DLTensor v = tensor(upload(vertices, sizeof vertices), 2, 2, four);
    DLTensor f = tensor(upload(faces, sizeof faces), 0, 2, four);
    DLTensor d = tensor(upload(found, sizeof found), 2, 1, two), seeds = tensor(upload(g, sizeof g), 2, 1, two);
    DLTensor by = tensor(upload(by_points, sizeof by_points), 2, 2, two_points), nothing = tensor(0, 2, 2, none);
    REQUIRE(torch_op_signed_distance(stream, &p, &v, &f, &d) == 0);
    REQUIRE(torch_op_signed_distance_backward(stream, &seeds, &p, &v, &f, &by, &nothing, 0) == 0);
    REQUIRE(cuStreamSynchronize(stream) == 0);
    REQUIRE(cuMemcpyDtoH_v2(found, (CUdeviceptr)d.data, sizeof found) == 0);
    REQUIRE(cuMemcpyDtoH_v2(by_points, (CUdeviceptr)by.data, sizeof by_points) == 0);
    const float normals[2][3] = {{third, third, third}, {0, 0, -1}};
    for (int i = 0; i < 2; i++) {
        REQUIRE(found[i] - wanted[i] < 1e-6f && wanted[i] - found[i] < 1e-6f);
        for (int k = 0; k < 3; k++) {
            const float off = by_points[i][k] - normals[i][k];
            REQUIRE(off < 1e-6f && off > -1e-6f);
        }
    }
}

int main(void) {
    CUcontext context;
    CUstream stream;
    REQUIRE(torch_op_error()[0] == 0);
    REQUIRE(cuInit(0) == 0);
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == 0);
    REQUIRE(cuCtxSetCurrent(context) == 0);
    REQUIRE(cuStreamCreate(&stream, 1) == 0);
    axpy(stream);
    axpy(NULL);
    distances(stream);
    puts("all right");
    return 0;
}
