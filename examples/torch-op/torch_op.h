/* The functions of libtorch_op.so, for tensors of any framework.

   - A function enqueues work on `stream` and does not wait for it. `stream` is a CUstream (cudaStream_t) of the device
     that the tensors are on; 0 is its legacy stream.
   - A function returns 0, 1 if an argument does not fit, or 2 for another error. torch_op_error() returns the text.
   - A tensor has compact elements. It stays valid until the function returns, and its memory until the work is done. */
#ifndef TORCH_OP_H
#define TORCH_OP_H

#include <stdint.h>

/* DLPack's description of a tensor. Programs that include dlpack/dlpack.h do so before this file. */
#ifndef DLPACK_DLPACK_H_
typedef struct {
    int32_t device_type; /* 2: CUDA */
    int32_t device_id;
} DLDevice;

typedef struct {
    uint8_t code; /* 0: signed integer, 1: unsigned integer, 2: float */
    uint8_t bits;
    uint16_t lanes; /* 1 */
} DLDataType;

typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; null if the elements are compact */
    uint64_t byte_offset;
} DLTensor;
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* out = a x + y, element by element. float32, three equal shapes. `out` does not overlap `x` or `y`. */
int torch_op_axpy(void *stream, float a, const DLTensor *x, const DLTensor *y, DLTensor *out);

/* The signed distance of each point from a closed triangle mesh, negative inside.
   points: float32, n x 3. vertices: float32, v x 3. faces: int32, f x 3, counter-clockwise seen from outside; a face with an
   index that is out of range is skipped. distances: float32, n. */
int torch_op_signed_distance(void *stream, const DLTensor *points, const DLTensor *vertices, const DLTensor *faces,
                             DLTensor *distances);

/* The gradients by points and vertices, from the gradient `g` of the distances. by_points has the shape of `points`,
   by_vertices that of `vertices`; one without elements is not computed. If `deterministic` is not 0, the bits are the same
   in each call, and the function may wait for the work. */
int torch_op_signed_distance_backward(void *stream, const DLTensor *g, const DLTensor *points, const DLTensor *vertices,
                                      const DLTensor *faces, DLTensor *by_points, DLTensor *by_vertices,
                                      int deterministic);

/* The text of the calling thread's last error. It is valid until the thread's next error. */
const char *torch_op_error(void);

#ifdef __cplusplus
}
#endif

#endif
