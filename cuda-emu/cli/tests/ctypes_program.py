"""A program in Python on the driver API by ctypes. Argument: the PTX."""

import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def check(code):
    assert code == 0, code


context, module, function, memory = (ctypes.c_void_p() for _ in range(4))
name = ctypes.create_string_buffer(100)
check(cuda.cuInit(0))
check(cuda.cuDeviceGetName(name, 100, 0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
with open(sys.argv[1], "rb") as file:
    check(cuda.cuModuleLoadData(ctypes.byref(module), file.read() + b"\0"))
check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"other"))
check(cuda.cuMemAlloc_v2(ctypes.byref(memory), 4096))
check(cuda.cuMemsetD32_v2(memory, 7, 1024))
arguments = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
check(cuda.cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, arguments, None))
words = (ctypes.c_uint32 * 1024)()
check(cuda.cuMemcpyDtoH_v2(words, memory, 4096))
# 2^x < 10 for x < 4.
assert list(words) == [0, 1, 2, 3] + [7] * 1020, list(words[:8])
print(name.value.decode())
